/* px_wire.h - what travels between the shim and its session, beside the frame header.
 *
 * Operations below 0x8000 are CUDA calls, numbered in the catalogue. Payloads are little-endian and a
 * multiple of 8 bytes long (decoders ignore up to 7 bytes of padding), so that every frame of a batch
 * stays aligned. A generated call carries its arguments as one u64 each, in the order of the
 * signature without the output ones; its reply carries the result, then one u64 for each output.
 *
 * Objects that the client makes (contexts, streams, events, modules) have numbers that it chooses and
 * may use again once it has destroyed them; functions have numbers that the session gives. Device
 * addresses are the same on both sides.
 *
 * A notice is a frame to the client that answers none of its own; it has no flags, but for GB_FRAME_MORE on
 * pieces of a copy that nobody waits for.
 *
 * A reply has GB_FRAME_REPLY and begins with px_wire_result_t. GB_FRAME_ERROR beside it says that the
 * result is a late error of an earlier call and sticks to the context. GB_FRAME_MORE marks pieces of a
 * copy to the host; the reply proper follows them. */
#ifndef PX_WIRE_H
#define PX_WIRE_H

#include <stdint.h>

enum {
    PX_WIRE_VERSION = 6,            /* of everything in this file and of the catalogue's numbers */
    PX_WIRE_PIECE = 256 << 10,      /* bytes of bulk in one frame */
    PX_WIRE_MAX = (1 << 20) + 4096, /* longest payload, either way */
    PX_WIRE_INLINE = 8 << 10,       /* copies up to this size ride in the batch */
    PX_WIRE_PARAMS = 32 << 10,      /* most bytes of kernel parameters */
};

enum {
    PX_OP_HELLO = 0x8000, /* reply: px_wire_hello_t -> px_wire_welcome_t, px_wire_device_t each */
    PX_OP_WINDOW,         /* reply: px_wire_window_t -> the same */
    PX_OP_SET_CONTEXT,    /* async: u64 context or 0; of the lane, for what follows */
    PX_OP_LANE_END,       /* async: the client's thread is gone */
    PX_OP_IMAGE,          /* async: u64 total, u64 offset, bytes; of the lane's next module load */
    PX_OP_FUNCTION,       /* reply: u64 module, name -> one function record */
    PX_OP_EXCHANGE_CALL,  /* reply: px_wire_exchange_t, bytes -> bytes */
    PX_OP_EXCHANGE_POST,  /* async: px_wire_exchange_t, bytes */
    PX_OP_GRAPH_BYTES,    /* async: u64 exec, u64 node, u64 offset, u64 size, bytes of its buffer */
    PX_OP_GRAPH_FETCH,    /* reply: u64 exec, u64 node, u64 size -> pieces of its buffer */
    PX_OP_LINK_READ,      /* reply: u64 link, u64 offset, u64 size -> bytes of what was linked */
    PX_OP_GRAPH_NODE,     /* async: px_wire_node_t, its dependencies, its body (px_wire_graph.h) */
    PX_OP_SHARED_MAP,     /* reply: u64 base, u64 size, u64 context: device memory there */
    PX_OP_SHARED_UNMAP,   /* async: u64 base, u64 size */
    PX_OP_SHARED_UP,      /* async: px_wire_copy_t, bytes: at once, in the order of no stream */
    PX_OP_SHARED_DOWN,    /* reply: px_wire_copy_t -> pieces: at once, in the order of no stream */
    PX_OP_HOST_RUN,       /* notice to the client: u64 token, u64 ticket, u64 status: run that */
    PX_OP_HOST_DONE,      /* async: u64 ticket: it has */
    PX_OP_OUTPUT,   /* notice to the client: px_wire_output_t, text that kernels have printed */
    PX_OP_BOX_UP,   /* async: px_wire_box_t, bytes: packed rows to its dst */
    PX_OP_BOX_DOWN, /* reply: px_wire_box_t -> pieces: packed rows of its src */
    PX_OP_DOWN, /* async: px_wire_down_t -> later pieces, whose frames' sequence is the token, and then */
    PX_OP_DOWN_DONE,   /* notice to the client: u64 token: all its bytes were sent */
    PX_OP_PEER_EXPECT, /* reply: px_wire_pair_t: the other session will dial */
    PX_OP_PEER_DIAL,   /* reply: px_wire_pair_t -> u64 gb_status_t, text: dial the other session */
    PX_OP_PEER_SEND,   /* async: px_wire_transfer_t: its side goes to the other session */
    PX_OP_PEER_RECV,   /* async: px_wire_transfer_t: its side comes from there */
    PX_OP_PEER_SETTLE, /* reply: u64 context: no transfer uses it any more */
    PX_OP_PEER_LOST,   /* notice to the client: u64 peer, u64 attempt: that link is lost */
    PX_OP_DOWN_BOX,    /* async: px_wire_down_box_t -> as PX_OP_DOWN, packed rows of its src */
    PX_OP_END,
};

/* Stream numbers below this one are the default streams, as CUDA has them: 0 and 1 the legacy one, 2
 * the lane's own. */
enum { PX_WIRE_FIRST_OBJECT = 16 };

enum { PX_WIRE_ATTRIBUTES = 152 }; /* device attributes 0 .. 151 travel in the snapshot */

typedef struct {
    uint32_t version;
    uint32_t pid;     /* of the client, for logs */
    uint32_t resumes; /* 1: both sides keep what they send, and go on after a cut */
    uint32_t reserved;
    char program[48]; /* its short name */
} px_wire_hello_t;

typedef struct {
    uint32_t result;
    uint32_t more; /* length of what follows the result, without padding */
} px_wire_result_t;

typedef struct {
    uint32_t version;
    uint32_t device_count;
    int32_t driver_version;
    uint32_t
        timeout_ms; /* of silence after which the session ends: the client pings three times in it */
    uint32_t late_copies; /* 1: PX_OP_DOWN can be used */
    uint32_t reserved;
} px_wire_welcome_t;

typedef struct {
    char name[128];
    uint8_t uuid[16];
    uint64_t total_memory;
    uint64_t granularity; /* of its memory; windows are multiples of it */
    int32_t attributes[PX_WIRE_ATTRIBUTES];
} px_wire_device_t;

typedef struct {
    uint64_t device; /* index in the snapshot */
    uint64_t base;   /* wanted; in the reply the one that holds, 0 = none */
    uint64_t size;
} px_wire_window_t;

typedef struct {
    uint32_t function;
    uint32_t stream;
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared;
    uint32_t cooperative;
    uint32_t params; /* bytes that follow */
    uint32_t reserved;
} px_wire_launch_t;

/* Copies, in every direction; host data follows where the source is the client. */
typedef struct {
    uint64_t dst;
    uint64_t src;
    uint64_t size;
    uint64_t stream;
} px_wire_copy_t;

/* A copy to page-locked memory, which the client knows the token of. */
typedef struct {
    px_wire_copy_t copy; /* dst: not used */
    uint64_t token;      /* less than 2^32 */
} px_wire_down_t;

/* A side of a box: device memory (of its first byte) or an array (and a place in it). */
typedef struct {
    uint64_t address;
    uint64_t array;         /* number, 0 = none */
    uint64_t x, y, z;       /* in the array: bytes, rows, slices */
    uint64_t pitch, height; /* bytes of a row, rows of a slice; not of arrays */
} px_wire_side_t;

/* A copy of a box; a side that is the client's is left out, its bytes are packed. */
typedef struct {
    px_wire_side_t dst, src;
    uint64_t width, height, depth; /* bytes, rows, slices */
    uint64_t stream;
} px_wire_box_t;

enum { PX_WIRE_PEERS = 64, PX_WIRE_ENDPOINT = 304 };

/* A copy of a box to page-locked memory, which the client knows the token of. */
typedef struct {
    px_wire_box_t box; /* dst: not used */
    uint64_t token;    /* less than 2^32 */
} px_wire_down_box_t;

/* A link between two sessions of one client (px_peer_wire.h). What is below `secret` is for who dials. */
typedef struct {
    uint32_t peer;      /* the other session's number at the client */
    uint32_t attempt;   /* counts the links of the pair */
    uint8_t secret[32]; /* both prove to each other that the client has told them */
    uint8_t key[32];    /* gb_peer_key of the other session */
    uint64_t lease, session;
    uint32_t number;      /* of the session that dials, at the client */
    uint32_t insecure;    /* as the client dials there */
    uint32_t socket_only; /* the same */
    uint32_t reserved;
    char endpoint[PX_WIRE_ENDPOINT];
} px_wire_pair_t;

/* Which streams come to the transfer first, and go on when it is done. */
enum {
    PX_WIRE_HOLD_STREAM = 1, /* `stream`, of the frame's context */
    PX_WIRE_HOLD_LEGACY = 2, /* the legacy default stream of `context` */
};

/* One end of a transfer between two sessions. Those of one `order` and `lane`, which name the program's
 * stream, come one after the other. Without an extent it is a signal: the sender's `event` has come. */
typedef struct {
    uint64_t token; /* the same at both ends, of no other transfer */
    uint64_t order;
    uint32_t lane;
    uint32_t peer;
    uint64_t hold;
    uint64_t stream;
    uint64_t context; /* number of the one that the memory belongs to */
    uint64_t event;
    px_wire_side_t side;
    uint64_t width, height, depth; /* bytes, rows, slices; they travel packed */
} px_wire_transfer_t;

/* A texture or surface object: CUDA's structures, with numbers in place of array handles. */
typedef struct {
    uint8_t resource[144]; /* CUDA_RESOURCE_DESC */
    uint8_t texture[104];  /* CUDA_TEXTURE_DESC */
    uint8_t view[112];     /* CUDA_RESOURCE_VIEW_DESC */
    uint32_t has_view;
    uint32_t reserved;
} px_wire_texture_t;

/* Text for the program's own standard output (1) or standard error (2). */
typedef struct {
    uint32_t size;
    uint32_t fd;
} px_wire_output_t;

/* A piece on its way to the host. */
typedef struct {
    uint64_t offset;
    uint64_t size;
} px_wire_piece_t;

typedef struct {
    uint32_t op;
    uint32_t stream;
    uint32_t size; /* bytes that follow */
    uint32_t reserved;
} px_wire_exchange_t;

enum { PX_WIRE_HASH = 32, PX_WIRE_JIT_OPTIONS = 16, PX_WIRE_LOG = 8 << 10 };

/* Loads a module. The image came before in PX_OP_IMAGE frames of the lane, unless the session has seen
 * the same bytes already (image_size 0); if it has dropped them since, the result is
 * CUDA_ERROR_FILE_NOT_FOUND and the client sends them. */
typedef struct {
    uint64_t module;
    uint64_t image_size;
    uint8_t hash[PX_WIRE_HASH]; /* SHA-256 of the image */
    uint32_t option_count;      /* scalar JIT options: u32 option, u32 value each */
    uint32_t log_size;          /* wanted of the error and of the info log, bytes each */
    uint32_t options[2 * PX_WIRE_JIT_OPTIONS];
} px_wire_module_t;

/* Its reply: this, the error log, the info log, then `functions` records. */
typedef struct {
    uint32_t functions; /* PX_WIRE_UNKNOWN: the driver cannot list them, ask by name */
    uint32_t error_log; /* bytes */
    uint32_t info_log;
    uint32_t reserved;
} px_wire_loaded_t;

#define PX_WIRE_UNKNOWN 0xffffffffu

enum { PX_WIRE_FUNCTION_ATTRIBUTES = 16 };

/* A function: this, `params` pairs of u32 offset, u32 size, then the name, padded to 8 bytes. */
typedef struct {
    uint32_t function;
    uint32_t params;
    uint32_t name; /* bytes without a terminating zero */
    uint32_t reserved;
    int32_t attributes[PX_WIRE_FUNCTION_ATTRIBUTES];
} px_wire_function_t;

enum { PX_WIRE_LINK_OPTIONS = 32 };

/* Linking: this, then what follows says the call. What is added came before in PX_OP_IMAGE frames of the
 * lane. Log buffers among the options are the session's own. */
typedef struct {
    uint64_t link;
    uint32_t type; /* CUjitInputType of what is added */
    uint32_t name; /* bytes of its name, which follows */
    uint32_t option_count;
    uint32_t reserved;
    uint32_t options[2 * PX_WIRE_LINK_OPTIONS]; /* u32 option, u32 value each */
} px_wire_link_t;

/* Its reply, behind the result of the call itself: this, the link's option values as u64 each, the two
 * logs. */
typedef struct {
    uint32_t values;
    uint32_t error_log; /* bytes */
    uint32_t info_log;
    uint32_t reserved;
    uint64_t image; /* bytes of what was linked, to be read with PX_OP_LINK_READ */
} px_wire_linked_t;

static inline uint32_t px_wire_pad(uint32_t size)
{
    return (size + 7u) & ~7u;
}

#endif

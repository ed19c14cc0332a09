/* gb_frame.h - the 16-byte frame header and bounds-checked access to payload fields.
 *
 * Every data channel (client <-> session, parameter client <-> shard) carries frames:
 *
 *   offset 0  u32 length     bytes of payload that follow the header
 *          4  u16 operation  what the frame is; numbers from GB_OP_COMMON up are the same everywhere
 *          6  u8  flags      GB_FRAME_*
 *          7  u8  version    GB_FRAME_VERSION
 *          8  u32 lane       the client thread (session) or the stream of requests (shard)
 *         12  u32 sequence   counts the sender's frames of the connection; a reply repeats the
 *                            sequence of its request
 *
 * all little-endian. A header that cannot be right gives GB_ERR_PROTOCOL or GB_ERR_VERSION; the
 * connection is then to be closed, with one log line.
 *
 * Readers and writers never go past their buffer: the first access that would sets `failed`, later
 * ones do nothing and readers give zeros, so a decoder checks once at its end (gb_reader_done).
 * No allocation, no system call; objects belong to one thread. */
#ifndef GB_FRAME_H
#define GB_FRAME_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/core/gb_status.h"

enum {
    GB_FRAME_HEADER = 16,            /* bytes */
    GB_FRAME_VERSION = 1,            /* of the header and of the common operations */
    GB_FRAME_MAX = 64 * 1024 * 1024, /* largest payload that any protocol may allow, bytes */
};

/* flags */
enum {
    GB_FRAME_REPLY = 1,  /* answers the request of the same lane and sequence */
    GB_FRAME_ERROR = 2,  /* reply: the payload is an error of the protocol in use */
    GB_FRAME_MORE = 4,   /* further pieces of the same transfer follow */
    GB_FRAME_URGENT = 8, /* may overtake queued bulk pieces */
};

/* Operations that every protocol has. */
enum {
    GB_OP_COMMON = 0xff00,
    GB_OP_GOODBYE = 0xff00, /* the sender is done and closes; no payload */
    GB_OP_PING = 0xff01,    /* answered by GB_OP_PONG with the same sequence; no payload */
    GB_OP_PONG = 0xff02,
    GB_OP_ACK =
        0xff03, /* u64: bytes of the stream that the sender has received; see gb_durable.h */
};

typedef struct {
    uint32_t length;
    uint16_t operation;
    uint8_t flags;
    uint8_t version; /* set by gb_frame_encode */
    uint32_t lane;
    uint32_t sequence;
} gb_frame_t;

/* Writes the header. `frame->version` is ignored: the current version is written. */
void gb_frame_encode(const gb_frame_t *frame, uint8_t out[GB_FRAME_HEADER]);

/* Reads and checks a header: version, unknown flags, length at most `max_length` (at most
 * GB_FRAME_MAX). */
gb_status_t gb_frame_decode(const uint8_t in[GB_FRAME_HEADER], uint32_t max_length,
                            gb_frame_t *out);

/* ---- payload reader ---- */
typedef struct {
    const uint8_t *at;
    const uint8_t *end;
    int failed;
} gb_reader_t;

static inline gb_reader_t gb_reader(const void *payload, size_t size)
{
    gb_reader_t r = {(const uint8_t *)payload, (const uint8_t *)payload + size, 0};
    return r;
}

static inline size_t gb_reader_left(const gb_reader_t *r)
{
    return (size_t)(r->end - r->at);
}

/* The next `size` bytes in place (they belong to the payload), or NULL when there are fewer. */
static inline const void *gb_read_bytes(gb_reader_t *r, size_t size)
{
    const uint8_t *p = r->at;
    if (r->failed || size > gb_reader_left(r)) {
        r->failed = 1;
        return NULL;
    }
    r->at += size;
    return p;
}

/* Copies the next `size` bytes; zeros when there are fewer. */
static inline void gb_read_into(gb_reader_t *r, void *out, size_t size)
{
    const void *p = gb_read_bytes(r, size);
    if (p)
        memcpy(out, p, size);
    else
        memset(out, 0, size);
}

static inline uint8_t gb_read_u8(gb_reader_t *r)
{
    uint8_t v;
    gb_read_into(r, &v, sizeof v);
    return v;
}

static inline uint16_t gb_read_u16(gb_reader_t *r)
{
    uint16_t v;
    gb_read_into(r, &v, sizeof v);
    return v;
}

static inline uint32_t gb_read_u32(gb_reader_t *r)
{
    uint32_t v;
    gb_read_into(r, &v, sizeof v);
    return v;
}

static inline uint64_t gb_read_u64(gb_reader_t *r)
{
    uint64_t v;
    gb_read_into(r, &v, sizeof v);
    return v;
}

static inline float gb_read_f32(gb_reader_t *r)
{
    float v;
    gb_read_into(r, &v, sizeof v);
    return v;
}

/* u32 length, then that many bytes. Gives the bytes in place and their number; NULL and 0 on failure. */
static inline const void *gb_read_blob(gb_reader_t *r, uint32_t *size)
{
    uint32_t n = gb_read_u32(r);
    const void *p = gb_read_bytes(r, n);
    *size = p ? n : 0;
    return p;
}

/* A blob of at most `cap - 1` bytes without a zero byte, copied and terminated. */
void gb_read_text(gb_reader_t *r, char *out, size_t cap);

/* GB_OK if nothing failed and nothing is left over, else GB_ERR_PROTOCOL naming `what`. */
gb_status_t gb_reader_done(const gb_reader_t *r, const char *what);

/* ---- payload writer ---- */
typedef struct {
    uint8_t *base;
    uint8_t *at;
    uint8_t *end;
    int failed;
} gb_writer_t;

static inline gb_writer_t gb_writer(void *buffer, size_t size)
{
    uint8_t *b = (uint8_t *)buffer;
    gb_writer_t w = {b, b, b + size, 0};
    return w;
}

static inline size_t gb_writer_size(const gb_writer_t *w)
{
    return (size_t)(w->at - w->base);
}

/* Space for `size` bytes to be filled by the caller, or NULL when it does not fit. */
static inline void *gb_write_space(gb_writer_t *w, size_t size)
{
    uint8_t *p = w->at;
    if (w->failed || size > (size_t)(w->end - w->at)) {
        w->failed = 1;
        return NULL;
    }
    w->at += size;
    return p;
}

static inline void gb_write_bytes(gb_writer_t *w, const void *bytes, size_t size)
{
    void *p = gb_write_space(w, size);
    if (p && size)
        memcpy(p, bytes, size);
}

static inline void gb_write_u8(gb_writer_t *w, uint8_t v)
{
    gb_write_bytes(w, &v, sizeof v);
}

static inline void gb_write_u16(gb_writer_t *w, uint16_t v)
{
    gb_write_bytes(w, &v, sizeof v);
}

static inline void gb_write_u32(gb_writer_t *w, uint32_t v)
{
    gb_write_bytes(w, &v, sizeof v);
}

static inline void gb_write_u64(gb_writer_t *w, uint64_t v)
{
    gb_write_bytes(w, &v, sizeof v);
}

static inline void gb_write_f32(gb_writer_t *w, float v)
{
    gb_write_bytes(w, &v, sizeof v);
}

/* u32 length, then the bytes. */
static inline void gb_write_blob(gb_writer_t *w, const void *bytes, uint32_t size)
{
    gb_write_u32(w, size);
    gb_write_bytes(w, bytes, size);
}

static inline void gb_write_text(gb_writer_t *w, const char *text)
{
    gb_write_blob(w, text, (uint32_t)strlen(text));
}

/* GB_OK, or GB_ERR_LIMIT naming `what` if something did not fit. */
gb_status_t gb_writer_done(const gb_writer_t *w, const char *what);

#endif

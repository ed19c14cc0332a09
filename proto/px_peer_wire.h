/* px_peer_wire.h - what two sessions of one client say to each other over their own link.
 *
 * First they prove to each other that the client has told both of them the pair's secret: who dialled
 * sends px_peer_hello_t, the other one px_peer_answer_t, the first one its own proof, the other one the
 * eight bytes "GABLERDY". A proof is HMAC-SHA256 under the secret of who proves ("dial" or "wait"), the
 * dialling end's nonce and the other one's.
 *
 * Then come frames (gb_frame.h), each about one transfer, which the client has told to both ends:
 *
 *   receiver                          sender
 *   ASK: my streams have come  ---->
 *                              <----  DATA, DATA, ...  once its own streams have come, too
 *                              <----  END: that was all, or why it was not
 *   DONE: all is in its place  ---->
 *
 * Either end may be told later than the other: a frame about an unknown transfer is noted. Each end sends its
 * END or DONE exactly once, also when it fails; when both are there the transfer is forgotten. A signal
 * has neither ASK nor DATA.
 *
 * Nothing is sent before the receiver has asked for it, so no transfer is in another one's way for longer
 * than its own bytes take, and what is on its way is bounded. */
#ifndef PX_PEER_WIRE_H
#define PX_PEER_WIRE_H

#include <stdint.h>

enum {
    PX_PEER_VERSION = 1,
    PX_PEER_PIECE = 1 << 20, /* most bytes in a DATA frame */
    PX_PEER_NONCE = 32,
    PX_PEER_PROOF = 32,
    PX_PEER_UNKNOWN = 65536, /* most transfers that one end may be early with */
};

enum {
    PX_PEER_ASK = 0x9000, /* px_peer_word_t */
    PX_PEER_DATA,         /* u64 token, then bytes, packed */
    PX_PEER_END,          /* px_peer_word_t */
    PX_PEER_DONE,         /* px_peer_word_t */
};

typedef struct {
    char magic[8]; /* "GABLEP2P" */
    uint32_t version;
    uint32_t keeps; /* 1: both ends keep what they send, and go on after a cut */
    uint8_t nonce[PX_PEER_NONCE];
} px_peer_hello_t;

typedef struct {
    char magic[8];
    uint32_t version;
    uint32_t reserved;
    uint8_t nonce[PX_PEER_NONCE];
    uint8_t proof[PX_PEER_PROOF];
} px_peer_answer_t;

typedef struct {
    uint64_t token;
    uint64_t result; /* CUresult */
} px_peer_word_t;

#endif

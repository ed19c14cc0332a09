/* gb_preamble.h - the proof of a key that opens every data connection.
 *
 * The dialling side sends GB_PREAMBLE_SIZE plain bytes (little-endian):
 *
 *    0  magic "GABLELNK"
 *    8  u16 version       GB_PREAMBLE_VERSION
 *   10  u16 service       what is dialled: a session, a shard, or a session by another session
 *   12  u32 security      GB_SECURITY_*: what follows on the connection
 *   16  u64 lease
 *   24  u64 session       chosen by the dialling side, random
 *   32  u32 connection    number of the connection within the session, from 0
 *   36  u32 reserved      0
 *   40  16 bytes nonce    random
 *   56  32 bytes HMAC-SHA256 of bytes 0..55 under the lease's key for this endpoint
 *
 * and the listening side answers GB_ANSWER_SIZE plain bytes: magic "GABLEANS", u16 version, u16
 * status (gb_status_t; GB_OK = go on), u32 0. The answer is for messages only: it is not
 * authenticated, the TLS handshake that follows is. An unknown lease and a wrong key get the same
 * answer.
 *
 * A session that is dialled by another session of the same client (GB_SERVICE_PEER) is proved not with the
 * lease's key but with one that is derived from it (gb_peer_key) for this pair of sessions: who has it
 * can open nothing else.
 *
 * Thread-safe: no state. */
#ifndef GB_PREAMBLE_H
#define GB_PREAMBLE_H

#include <stddef.h>
#include <stdint.h>

#include "common/core/gb_status.h"
#include "common/crypto/gb_crypto.h"

enum { GB_PREAMBLE_SIZE = 88, GB_ANSWER_SIZE = 16, GB_NONCE_SIZE = 16, GB_PREAMBLE_VERSION = 1 };

typedef enum { GB_SERVICE_SESSION = 1, GB_SERVICE_SHARD = 2, GB_SERVICE_PEER = 3 } gb_service_t;
typedef enum {
    GB_SECURITY_PLAIN = 0,
    GB_SECURITY_TLS = 1,
    GB_SECURITY_SHARED = 2, /* the memory of a link, over a Unix socket only */
} gb_security_t;

/* What a verified preamble says. */
typedef struct {
    gb_service_t service;
    gb_security_t security;
    uint64_t lease;
    uint64_t session;
    uint32_t connection;
    uint8_t nonce[GB_NONCE_SIZE];
} gb_preamble_t;

/* The key of a lease on this endpoint. GB_ERR_NOT_FOUND: no such lease, or expired or revoked (the
 * reason goes into gb_fail). Called from the thread that verifies. */
typedef gb_status_t (*gb_key_lookup_t)(void *arg, uint64_t lease, gb_key_t *key);

/* For GB_SERVICE_PEER: the key for the pair that `connection` names (its upper half: the number that the
 * client gives the dialling session; the lower half counts the connections of the pair) at `session`. */
gb_status_t gb_peer_key(const gb_key_t *lease_key, uint64_t lease, uint64_t session,
                        uint32_t connection, gb_key_t *out);

/* The service that the bytes ask for: nothing is proved yet. 0: none that there is. */
gb_service_t gb_preamble_service(const uint8_t in[GB_PREAMBLE_SIZE]);

/* Makes the bytes; the nonce is taken from `facts`. */
gb_status_t gb_preamble_encode(const gb_preamble_t *facts, const gb_key_t *key,
                               uint8_t out[GB_PREAMBLE_SIZE]);

/* Tells early that `size` (1..GB_PREAMBLE_SIZE) first bytes can never become a preamble. */
gb_status_t gb_preamble_check(const uint8_t *in, size_t size);

/* Checks magic, version and `service`, finds the key (and derives the pair's), verifies the proof in
 * constant time.
 * GB_ERR_PROTOCOL: not ours; GB_ERR_VERSION: another version, by name; GB_ERR_UNAUTHORISED: unknown
 * lease, wrong key; GB_ERR_INVALID: another service is meant. */
gb_status_t gb_preamble_verify(const uint8_t in[GB_PREAMBLE_SIZE], gb_service_t service,
                               gb_key_lookup_t lookup, void *arg, gb_preamble_t *facts,
                               gb_key_t *key);

/* Reads and verifies a preamble from the socket (blocking or not) until `deadline` (gb_now_ns).
 * Reads exactly GB_PREAMBLE_SIZE bytes; a refusal is answered, acceptance is not: the caller does
 * that with gb_preamble_answer once it can serve. The caller closes `fd` on failure. */
gb_status_t gb_preamble_accept(int fd, uint64_t deadline, gb_service_t service,
                               gb_key_lookup_t lookup, void *arg, gb_preamble_t *facts,
                               gb_key_t *key);

/* The policy: Unix sockets are plain (the file's mode and the proof guard them), TCP needs TLS unless
 * `allow_plain`. GB_ERR_UNSUPPORTED, to be answered, where it is not met. */
gb_status_t gb_preamble_allowed(int fd, const gb_preamble_t *facts, int allow_plain);

/* Sends the answer, never waiting: it is the first thing sent on a fresh socket. */
gb_status_t gb_preamble_answer(int fd, gb_status_t status);

/* The status that an answer carries, or GB_ERR_PROTOCOL; gb_why() explains for the person who
 * dialled `where`. */
gb_status_t gb_answer_decode(const uint8_t in[GB_ANSWER_SIZE], const char *where);

#endif

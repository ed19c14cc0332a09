/* remoting_raw.h - the floor of bench/remoting: a process that takes and gives bytes over a bare socket,
 * with the fewest system calls that do it. */
#ifndef REMOTING_RAW_H
#define REMOTING_RAW_H

#include <stdint.h>
#include <sys/types.h>

typedef enum { RAW_SHM, RAW_UNIX, RAW_TCP, RAW_TLS, RAW_KINDS } raw_kind_t;

typedef struct raw raw_t;

/* Starts the peer on `peer_cpu` (-1 = anywhere); both ends poll before they block if `spin`. NULL with
 * a line on stderr if that fails. For RAW_SHM the bytes go through one shared buffer of 1 MiB. */
raw_t *raw_open(raw_kind_t kind, int peer_cpu, int spin);
void raw_close(raw_t *raw);

/* Microseconds to send `in` bytes and to receive `out` bytes, in writes of `piece`; NAN if the peer is
 * gone. The bytes come from and go to a buffer of 64 MiB, as those of a program do. */
double raw_exchange(raw_t *raw, uint64_t in, uint64_t out, uint64_t piece);

/* Microseconds of a round trip of 64 bytes, the mean of `count`. */
double raw_turns(raw_t *raw, uint64_t count);

/* Pins the calling thread and what it starts; -1 = leave it. */
void raw_pin(int cpu);

/* Microseconds of a copy of `bytes` within this process. */
double raw_memcpy(raw_t *raw, uint64_t bytes);

#endif

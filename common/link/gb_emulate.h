/* gb_emulate.h - a slow, long or breaking line between a link and its socket (GABLE_LINK_EMULATE), so
 * that any test can run as if over a LAN or a WAN; for the link room and its tests.
 *
 * The line is a thread that carries bytes between the real socket and one end of a socket pair, with
 * delay, rate and losses; the link, TLS included, runs on the other end and knows nothing of it. */
#ifndef GB_EMULATE_H
#define GB_EMULATE_H

#include <stdint.h>

#include "common/core/gb_status.h"

typedef struct {
    uint64_t rtt_ns;    /* of both directions together */
    double bytes_per_s; /* of each direction; 0 = unlimited */
    double drop;        /* probability that a packet comes a round trip late */
    uint64_t cut;       /* bytes in both directions after which the line breaks; 0 = never */
} gb_emulate_t;

/* "rtt=1ms,bw=1Gbit,drop=0.01,cut=10M". Times: ns, us, ms, s. Rates: bit, Kbit, Mbit, Gbit (powers
 * of 1000, per second). GB_ERR_INVALID names the part. */
gb_status_t gb_emulate_parse(const char *text, gb_emulate_t *out);

/* Puts the line in: *fd becomes the near end. On failure *fd is unchanged. The line ends by itself when
 * either side closes, after what is under way has arrived. */
gb_status_t gb_emulate_start(const gb_emulate_t *line, int *fd);

/* gb_emulate_start with GABLE_LINK_EMULATE, nothing if that is unset. */
gb_status_t gb_emulate_wrap(int *fd);

#endif

/* rawclient.h - a worker's connection spoken by hand, for tests that must misbehave. One shard with one
 * owner thread, a model of one tensor "t0" of `values` values in one chunk. Aborts on surprises. */
#ifndef RAWCLIENT_H
#define RAWCLIENT_H

#include <stdint.h>

#include "common/link/gb_link.h"
#include "server/client/gbx_wire.h"

typedef struct {
    gb_link_t *link;
    uint32_t values;
} raw_t;

void raw_open(raw_t *raw, const char *endpoint, uint64_t lease, const uint8_t key[32],
              uint32_t worker, uint32_t generation, uint32_t values);
/* Claims, gives `weights`, says ready. Returns 0 if the weights were there already. */
int raw_give(raw_t *raw, const float *weights);
/* Sends the first `part` values of a push (operation PUSH or PUSH_PULL). */
void raw_push(raw_t *raw, uint16_t operation, uint64_t clock, uint32_t samples,
              const float *gradient, uint32_t part);
void raw_pull(raw_t *raw, uint64_t version);
/* Takes the next reply; data, if there are any, into `weights` (may be NULL if there are none).
 * Returns the frame's flags. */
uint8_t raw_take(raw_t *raw, gbx_chunk_head_t *head, float *weights, gbx_poison_t *error);
void raw_close(raw_t *raw);

#endif

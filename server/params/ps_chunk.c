#include "server/params/ps_chunk.h"

#include <stdlib.h>
#include <string.h>

gb_status_t ps_chunk_init(ps_chunk_t *chunk, uint32_t id, uint32_t elements)
{
    memset(chunk, 0, sizeof(*chunk));
    chunk->id = id;
    chunk->elements = elements;
    chunk->weights = ps_buf_new(elements);
    chunk->velocity = ps_buf_new(elements);
    if (!chunk->weights || !chunk->velocity) {
        ps_chunk_clear(chunk);
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory for a chunk of %u values", elements);
    }
    return GB_OK;
}

void ps_chunk_clear(ps_chunk_t *chunk)
{
    for (uint32_t i = 0; i < chunk->slot_count; i++)
        ps_buf_unref(chunk->slots[i].gradient);
    free(chunk->slots);
    free(chunk->waiters);
    ps_buf_unref(chunk->weights);
    ps_buf_unref(chunk->velocity);
    memset(chunk, 0, sizeof(*chunk));
}

/* Index of the worker's slot, or of the place where it belongs. */
static uint32_t slot_place(const ps_chunk_t *chunk, uint32_t worker)
{
    uint32_t i = 0;
    while (i < chunk->slot_count && chunk->slots[i].worker < worker)
        i++;
    return i;
}

static ps_slot_t *slot_find(const ps_chunk_t *chunk, uint32_t worker)
{
    uint32_t i = slot_place(chunk, worker);
    return i < chunk->slot_count && chunk->slots[i].worker == worker ? &chunk->slots[i] : NULL;
}

static ps_slot_t *slot_make(ps_chunk_t *chunk, uint32_t worker)
{
    if (chunk->slot_count == chunk->slot_cap) {
        uint32_t cap = chunk->slot_cap ? chunk->slot_cap * 2 : 4;
        ps_slot_t *grown = realloc(chunk->slots, cap * sizeof(*grown));
        if (!grown)
            return NULL;
        chunk->slots = grown;
        chunk->slot_cap = cap;
    }
    ps_buf_t *gradient = ps_buf_new(chunk->elements);
    if (!gradient)
        return NULL;
    uint32_t i = slot_place(chunk, worker);
    memmove(&chunk->slots[i + 1], &chunk->slots[i],
            (chunk->slot_count - i) * sizeof(*chunk->slots));
    chunk->slot_count++;
    chunk->slots[i] = (ps_slot_t){.worker = worker, .gradient = gradient};
    return &chunk->slots[i];
}

ps_push_verdict_t ps_chunk_push_begin(ps_chunk_t *chunk, const ps_members_t *members,
                                      uint32_t worker, uint64_t clock, float **data)
{
    if (!chunk->ready)
        return PS_PUSH_UNREADY;
    if (!ps_segment_has(ps_members_at(members, clock), worker))
        return PS_PUSH_STRANGER;
    if (clock < chunk->version)
        return PS_PUSH_REPEAT;
    if (clock > chunk->version)
        return PS_PUSH_AHEAD;
    ps_slot_t *slot = slot_find(chunk, worker);
    if (slot && slot->state == PS_SLOT_WHOLE)
        return PS_PUSH_REPEAT;
    if (!slot)
        slot = slot_make(chunk, worker);
    if (!slot)
        return PS_PUSH_NO_MEMORY;
    slot->state = PS_SLOT_RECEIVING;
    *data = slot->gradient->data;
    return PS_PUSH_TAKE;
}

void ps_chunk_push_end(ps_chunk_t *chunk, uint32_t worker, uint32_t samples)
{
    ps_slot_t *slot = slot_find(chunk, worker);
    slot->samples = samples;
    slot->state = PS_SLOT_WHOLE;
}

int ps_chunk_push_abort(ps_chunk_t *chunk, uint32_t worker)
{
    ps_slot_t *slot = slot_find(chunk, worker);
    if (!slot || slot->state != PS_SLOT_RECEIVING)
        return 0;
    slot->state = PS_SLOT_EMPTY;
    return 1;
}

void ps_chunk_drop(ps_chunk_t *chunk, uint32_t worker)
{
    ps_slot_t *slot = slot_find(chunk, worker);
    if (!slot)
        return;
    ps_buf_unref(slot->gradient);
    uint32_t i = (uint32_t)(slot - chunk->slots);
    chunk->slot_count--;
    memmove(slot, slot + 1, (chunk->slot_count - i) * sizeof(*slot));
}

/* The whole slots of the clock's members, in worker order; 0 if one is missing or nobody is there. */
static uint32_t collect(const ps_chunk_t *chunk, const ps_segment_t *segment,
                        const ps_slot_t **slots)
{
    uint32_t k = 0;
    for (uint32_t i = 0; segment && i < segment->count; i++) {
        while (k < chunk->slot_count && chunk->slots[k].worker < segment->workers[i])
            k++;
        if (k == chunk->slot_count || chunk->slots[k].worker != segment->workers[i] ||
            chunk->slots[k].state != PS_SLOT_WHOLE)
            return 0;
        slots[i] = &chunk->slots[k];
    }
    return segment ? segment->count : 0;
}

static void apply(ps_chunk_t *chunk, const ps_optimizer_t *optimizer, const ps_slot_t *const *slots,
                  uint32_t count, ps_buf_t *weights, ps_buf_t *velocity)
{
    const float *gradient[PS_MAX_WORKERS];
    float scale[PS_MAX_WORKERS];
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++)
        total += slots[i]->samples;
    for (uint32_t i = 0; i < count; i++) {
        gradient[i] = slots[i]->gradient->data;
        scale[i] = total ? (float)((double)slots[i]->samples / (double)total) : 0;
    }
    ps_step_t step = ps_step_at(optimizer, chunk->version);
    ps_apply(&step, chunk->elements, count, gradient, scale, chunk->weights->data, weights->data,
             chunk->velocity->data, velocity->data);
}

int ps_chunk_step(ps_chunk_t *chunk, const ps_members_t *members, const ps_optimizer_t *optimizer)
{
    const ps_slot_t *slots[PS_MAX_WORKERS];
    uint32_t count = collect(chunk, ps_members_at(members, chunk->version), slots);
    if (count == 0)
        return 0;
    ps_buf_t *weights = chunk->weights, *velocity = chunk->velocity;
    if (!ps_buf_mine(weights))
        weights = ps_buf_new(chunk->elements);
    if (!ps_buf_mine(velocity))
        velocity = ps_buf_new(chunk->elements);
    if (!weights || !velocity) {
        if (weights != chunk->weights)
            ps_buf_unref(weights);
        if (velocity != chunk->velocity)
            ps_buf_unref(velocity);
        return -1;
    }
    apply(chunk, optimizer, slots, count, weights, velocity);
    if (weights != chunk->weights)
        ps_buf_unref(chunk->weights);
    if (velocity != chunk->velocity)
        ps_buf_unref(chunk->velocity);
    chunk->weights = weights;
    chunk->velocity = velocity;
    for (uint32_t i = 0; i < chunk->slot_count; i++) {
        if (chunk->slots[i].state == PS_SLOT_WHOLE)
            chunk->slots[i].state = PS_SLOT_EMPTY;
    }
    chunk->version++;
    return 1;
}

gb_status_t ps_chunk_wait(ps_chunk_t *chunk, const ps_waiter_t *waiter)
{
    if (chunk->waiter_count == chunk->waiter_cap) {
        uint32_t cap = chunk->waiter_cap ? chunk->waiter_cap * 2 : 8;
        ps_waiter_t *grown = realloc(chunk->waiters, cap * sizeof(*grown));
        if (!grown)
            return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
        chunk->waiters = grown;
        chunk->waiter_cap = cap;
    }
    chunk->waiters[chunk->waiter_count++] = *waiter;
    return GB_OK;
}

/* Connections to the shards: dialling, hello, control frames. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/crypto/gb_crypto.h"
#include "server/client/gbx_engine.h"

static gb_status_t hello_error(gbx_engine_t *engine, const uint8_t *payload, uint32_t size)
{
    char text[224];
    uint32_t generation;
    gbx_poison_t code = gbx_error_decode(payload, size, &generation, text);
    if (code != GBX_LOST)
        atomic_store(&engine->generation, generation);
    if (code == GBX_GENERATION)
        return gb_fail(GB_ERR_CANCELLED, "%s", text);
    return gb_fail(code == GBX_REFUSED ? GB_ERR_NOT_FOUND : GB_ERR_PROTOCOL, "%s", text);
}

static gb_status_t say_hello(gbx_engine_t *engine, gb_link_t *link, uint32_t shard, uint32_t owner,
                             uint64_t deadline, uint32_t *owners)
{
    const gbx_config_t *config = &engine->config;
    gbx_hello_t hello = {.worker = config->worker,
                         .generation = config->generation,
                         .shard = shard,
                         .shards = config->shard_count,
                         .owner = owner};
    snprintf(hello.job, sizeof(hello.job), "%s", config->job);
    uint8_t out[GB_FRAME_HEADER + 128], in[GB_FRAME_HEADER], payload[GBX_MAX_ERROR];
    gb_frame_t frame = {.operation = GBX_OP_HELLO};
    frame.length = gbx_hello_encode(&hello, out + GB_FRAME_HEADER);
    gb_frame_encode(&frame, out);
    gb_status_t st = gb_link_send(link, out, GB_FRAME_HEADER + frame.length);
    if (st == GB_OK)
        st = gb_link_recv(link, in, sizeof(in), deadline);
    if (st == GB_OK)
        st = gb_frame_decode(in, sizeof(payload), &frame);
    if (st == GB_OK)
        st = gb_link_recv(link, payload, frame.length, deadline);
    if (st != GB_OK)
        return st;
    if (frame.flags & GB_FRAME_ERROR)
        return hello_error(engine, payload, frame.length);
    gb_reader_t r = gb_reader(payload, frame.length);
    uint32_t generation = gb_read_u32(&r), count = gb_read_u32(&r);
    st = gb_reader_done(&r, "the shard's answer to hello");
    if (st == GB_OK && (frame.operation != GBX_OP_HELLO || count == 0 || count > GBX_MAX_LANES))
        st = gb_fail(GB_ERR_PROTOCOL, "the shard answered the hello with nonsense");
    if (st == GB_OK) {
        atomic_store(&engine->generation, generation);
        *owners = count;
    }
    return st;
}

static gb_status_t dial_lane(gbx_engine_t *engine, uint32_t shard, uint32_t owner, uint64_t session,
                             uint64_t deadline, uint32_t *owners)
{
    const gbx_shard_t *where = &engine->config.shards[shard];
    gb_endpoint_t endpoint;
    if (engine->lane_count == GBX_MAX_LANES)
        return gb_fail(GB_ERR_LIMIT, "the shards have more than %d owner threads", GBX_MAX_LANES);
    gb_status_t st = gb_endpoint_parse(where->endpoint, 7073, &endpoint);
    if (st != GB_OK)
        return st;
    gb_credential_t credential = {.service = GB_SERVICE_SHARD,
                                  .lease = engine->config.lease,
                                  .session = session,
                                  .connection = engine->lane_count,
                                  .insecure = engine->config.insecure};
    memcpy(credential.key.bytes, where->key, sizeof(credential.key.bytes));
    gb_link_t *link;
    st = gb_link_dial(&endpoint, &credential, deadline, &link);
    gb_wipe(&credential, sizeof(credential));
    if (st != GB_OK)
        return st;
    gb_link_set_silence(link, engine->config.silence_ms);
    st = say_hello(engine, link, shard, owner, deadline, owners);
    if (st != GB_OK) {
        gb_link_close(link);
        return st;
    }
    pthread_mutex_lock(&engine->lock); /* others may be about to shut the lanes */
    gbx_lane_t *lane = &engine->lanes[engine->lane_count];
    lane->link = link;
    lane->shard = shard;
    lane->owner = owner;
    engine->lane_count++;
    pthread_mutex_unlock(&engine->lock);
    return GB_OK;
}

gb_status_t gbx_connect(gbx_engine_t *engine, uint64_t deadline)
{
    uint64_t session;
    gb_status_t st = gb_random(&session, sizeof(session));
    for (uint32_t s = 0; s < engine->config.shard_count && st == GB_OK; s++) {
        uint32_t owners = 1;
        for (uint32_t o = 0; o < owners && st == GB_OK; o++)
            st = dial_lane(engine, s, o, session, deadline, &owners);
        engine->owners[s] = owners;
    }
    if (st != GB_OK)
        gbx_disconnect(engine);
    return st;
}

void gbx_disconnect(gbx_engine_t *engine)
{
    pthread_mutex_lock(&engine->lock);
    for (uint32_t i = 0; i < engine->lane_count; i++) {
        gbx_lane_t *lane = &engine->lanes[i];
        pthread_mutex_lock(&lane->send_lock);
        gb_link_counters_t counters = gb_link_counters(lane->link);
        atomic_fetch_add(&engine->old_sent, counters.sent);
        atomic_fetch_add(&engine->old_received, counters.received);
        gb_link_close(lane->link);
        lane->link = NULL;
        pthread_mutex_unlock(&lane->send_lock);
    }
    engine->lane_count = 0;
    pthread_mutex_unlock(&engine->lock);
}

static gb_status_t send_locked(gbx_lane_t *lane, uint16_t operation, uint32_t sequence,
                               const gbx_chunk_head_t *head, const void *data, uint32_t size)
{
    uint8_t out[GB_FRAME_HEADER + GBX_CHUNK_HEAD];
    uint32_t head_size = head ? GBX_CHUNK_HEAD : 0;
    gb_frame_t frame = {.operation = operation, .length = head_size + size, .sequence = sequence};
    if (!lane->link)
        return gb_fail(GB_ERR_LOST, "the connection to the parameter shard was lost");
    gb_frame_encode(&frame, out);
    if (head)
        gbx_chunk_head_encode(head, out + GB_FRAME_HEADER);
    struct iovec iov[2] = {{out, GB_FRAME_HEADER + head_size}, {(void *)(uintptr_t)data, size}};
    return gb_link_sendv(lane->link, iov, size > 0 ? 2 : 1);
}

gb_status_t gbx_lane_send(gbx_lane_t *lane, uint16_t operation, uint32_t sequence,
                          const gbx_chunk_head_t *head, const void *data, uint32_t size)
{
    pthread_mutex_lock(&lane->send_lock);
    gb_status_t st = send_locked(lane, operation, sequence, head, data, size);
    pthread_mutex_unlock(&lane->send_lock);
    return st;
}

gb_status_t gbx_lane_send_in(gbx_engine_t *engine, unsigned epoch, gbx_lane_t *lane,
                             uint16_t operation, uint32_t sequence, const gbx_chunk_head_t *head,
                             const void *data, uint32_t size)
{
    pthread_mutex_lock(&lane->send_lock);
    /* Looked at with the lane locked: the lanes are replaced between the cut and the new epoch. */
    int stale = atomic_load(&engine->cut) || atomic_load(&engine->epoch) != epoch;
    gb_status_t st =
        stale ? GB_ERR_CANCELLED : send_locked(lane, operation, sequence, head, data, size);
    pthread_mutex_unlock(&lane->send_lock);
    return st;
}

gb_status_t gbx_control(gbx_engine_t *engine, uint16_t operation, uint32_t count,
                        const void *payload, uint32_t size)
{
    pthread_mutex_lock(&engine->lock);
    engine->mail_left = count;
    engine->mail_operation = operation;
    pthread_mutex_unlock(&engine->lock);
    for (uint32_t i = 0; i < count && !gbx_engine_bad(engine); i++) {
        /* a control call is not repaired: its caller can repeat it after gbx_reopen */
        if (gbx_lane_send(&engine->lanes[i], operation, 0, NULL, payload, size) != GB_OK)
            gbx_engine_poison(engine, GBX_LOST, gb_why());
    }
    pthread_mutex_lock(&engine->lock);
    while (engine->mail_left > 0 && !gbx_engine_bad(engine))
        pthread_cond_wait(&engine->changed, &engine->lock);
    pthread_mutex_unlock(&engine->lock);
    return gbx_engine_poisoned(engine);
}

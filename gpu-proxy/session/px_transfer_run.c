/* Carrying a transfer out: the worker's part, and the reader's. */
#include <string.h>

#include "gpu-proxy/session/px_transfer.h"

/* ---- waiting for the other end ---- */

static void lock(px_transfer_t *t)
{
    pthread_mutex_lock(&t->peer->peers->lock);
}

static void unlock(px_transfer_t *t)
{
    pthread_mutex_unlock(&t->peer->peers->lock);
}

static void fail(px_transfer_t *t, CUresult result)
{
    if (!result)
        return;
    lock(t);
    px_transfer_fail(t, result);
    unlock(t);
}

static CUresult result_of(px_transfer_t *t)
{
    lock(t);
    CUresult result = t->result;
    unlock(t);
    return result;
}

/* Until the other end asks for it; or there is no point any more. */
static void await_ask(px_transfer_t *t)
{
    lock(t);
    while (!t->asked && !t->ended && !t->result)
        pthread_cond_wait(&t->changed, &t->peer->peers->lock);
    unlock(t);
}

/* Until the other end has said its last word, or the link is lost. With `gives_up`, a failure ends it
 * too. */
static void await_end(px_transfer_t *t, int gives_up)
{
    lock(t);
    while (!t->ended && t->peer->state != PX_PEER_LOST && !(gives_up && t->result))
        pthread_cond_wait(&t->changed, &t->peer->peers->lock);
    unlock(t);
}

/* ---- staging memory ---- */

/* Senders and receivers have places of their own, and receivers ask only when they have one: so every sender
 * that has one comes to its end. */
static CUresult take_stage(px_transfer_t *t)
{
    px_peers_t *peers = t->peer->peers;
    px_session_t *s = peers->session;
    lock(t);
    while (peers->staged[t->sends] == PX_TRANSFER_STAGED && !peers->over && !t->result)
        pthread_cond_wait(&peers->room, &peers->lock);
    CUresult result = t->result;
    peers->staged[t->sends]++;
    unlock(t);
    for (int i = 0; i < 2 && !result; i++)
        result = px_staging_borrow(s->staging, &t->stage.buffers[i]);
    for (int i = 0; i < PX_TRANSFER_SLOTS && !result; i++)
        result = px_gates_event(t->gates, &t->stage.events[i]);
    return result;
}

static void give_stage(px_transfer_t *t)
{
    px_peers_t *peers = t->peer->peers;
    for (int i = 0; i < PX_TRANSFER_SLOTS; i++)
        if (t->stage.events[i])
            px_gates_event_done(t->gates, t->stage.events[i]);
    for (int i = 0; i < 2; i++)
        if (t->stage.buffers[i])
            px_staging_return(peers->session->staging, t->stage.buffers[i], 0);
    lock(t);
    peers->staged[t->sends]--;
    pthread_cond_broadcast(&peers->room);
    unlock(t);
}

static uint8_t *slot_at(const px_transfer_t *t, unsigned n)
{
    unsigned slot = n % PX_TRANSFER_SLOTS;
    return t->stage.buffers[slot / 2] + (size_t)(slot % 2) * PX_WIRE_PIECE;
}

/* ---- between staging memory and the device ---- */

static uint64_t band_bytes(const px_band_t *band)
{
    return band->width * band->rows;
}

static CUdeviceptr address_of(const px_transfer_t *t, const px_band_t *band)
{
    uint64_t y = band->row % t->extent.height, z = band->row / t->extent.height;
    return t->side.address + z * t->side.pitch * t->side.height + y * t->side.pitch + band->x;
}

/* The band's extent, its place at the device, and its packed rows at `bytes`: `to` the device or from it. */
static CUDA_MEMCPY3D box_of(const px_transfer_t *t, const px_band_t *band, uint8_t *bytes, int to)
{
    uint64_t y = band->row % t->extent.height, z = band->row / t->extent.height;
    CUDA_MEMCPY3D c = {.WidthInBytes = band->width, .Height = band->rows, .Depth = 1};
    CUmemorytype type = t->array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE;
    CUdeviceptr address = t->array ? 0 : address_of(t, band);
    size_t pitch = t->array ? 0 : t->side.pitch;
    if (to) {
        c.srcMemoryType = CU_MEMORYTYPE_HOST;
        c.srcHost = bytes;
        c.srcPitch = band->width;
        c.dstMemoryType = type;
        c.dstArray = t->array;
        c.dstDevice = address;
        c.dstPitch = pitch;
    } else {
        c.dstMemoryType = CU_MEMORYTYPE_HOST;
        c.dstHost = bytes;
        c.dstPitch = band->width;
        c.srcMemoryType = type;
        c.srcArray = t->array;
        c.srcDevice = address;
        c.srcPitch = pitch;
    }
    if (t->array) {
        *(to ? &c.dstXInBytes : &c.srcXInBytes) = t->side.x + band->x;
        *(to ? &c.dstY : &c.srcY) = t->side.y + y;
        *(to ? &c.dstZ : &c.srcZ) = t->side.z + z;
    }
    return c;
}

/* Issues the copy of a band, and the slot's event behind it. */
static CUresult copy_band(px_transfer_t *t, const px_band_t *band, unsigned n, int to)
{
    const gb_cuda_table_t *cuda = t->peer->peers->session->cuda;
    CUstream stream = px_gates_stream(t->gates);
    uint8_t *at = slot_at(t, n);
    CUresult result;
    if (!t->array && band->rows == 1) {
        result = to ? cuda->cuMemcpyHtoDAsync_v2(address_of(t, band), at, band->width, stream)
                    : cuda->cuMemcpyDtoHAsync_v2(at, address_of(t, band), band->width, stream);
    } else {
        CUDA_MEMCPY3D box = box_of(t, band, at, to);
        result = cuda->cuMemcpy3DAsync_v2(&box, stream);
    }
    return result ? result : cuda->cuEventRecord(t->stage.events[n % PX_TRANSFER_SLOTS], stream);
}

static CUresult await_slot(px_transfer_t *t, unsigned n)
{
    const gb_cuda_table_t *cuda = t->peer->peers->session->cuda;
    return cuda->cuEventSynchronize(t->stage.events[n % PX_TRANSFER_SLOTS]);
}

/* All that was issued is done: the memory is nobody's. */
static CUresult await_slots(px_transfer_t *t)
{
    unsigned begun = t->stage.begun;
    unsigned n = begun > PX_TRANSFER_SLOTS ? begun - PX_TRANSFER_SLOTS : 0;
    CUresult result = CUDA_SUCCESS;
    for (; n < begun; n++) {
        CUresult one = await_slot(t, n);
        result = result ? result : one;
    }
    return result;
}

/* ---- sending ---- */

static CUresult send_bytes(px_transfer_t *t, const uint8_t *bytes, uint64_t size, int reference)
{
    struct iovec parts[2] = {{&t->token, sizeof(t->token)}, {(void *)(uintptr_t)bytes, size}};
    return px_peer_send(t->peer, PX_PEER_DATA, parts, 2, reference ? 1 : -1) == GB_OK
               ? CUDA_SUCCESS
               : CUDA_ERROR_DEVICE_UNAVAILABLE;
}

/* From the memory itself; it stays as it is until the other end has all of it. */
static CUresult send_direct(px_transfer_t *t)
{
    CUresult result = CUDA_SUCCESS;
    px_see_moved(t->peer->peers->session);
    for (uint64_t done = 0, n; done < t->total && !result; done += n) {
        n = t->total - done < PX_PEER_PIECE ? t->total - done : PX_PEER_PIECE;
        t->moved += n;
        result = send_bytes(t, t->direct + done, n, 1);
        if (!result)
            result = result_of(t);
    }
    return result;
}

/* Some bands are on their way from the device while one is sent. */
static CUresult send_staged(px_transfer_t *t)
{
    uint64_t asked = 0, sent = 0;
    unsigned ended = 0;
    CUresult result = CUDA_SUCCESS;
    while (sent < t->total && !result) {
        while (asked < t->total && t->stage.begun - ended < PX_TRANSFER_SLOTS && !result) {
            px_band_t *band = &t->stage.bands[t->stage.begun % PX_TRANSFER_SLOTS];
            *band = px_box_band(&t->extent, asked);
            result = copy_band(t, band, t->stage.begun, 0);
            t->stage.begun += !result;
            asked += band_bytes(band);
        }
        uint64_t size = band_bytes(&t->stage.bands[ended % PX_TRANSFER_SLOTS]);
        if (!result)
            result = await_slot(t, ended);
        if (!result)
            result = send_bytes(t, slot_at(t, ended), size, 0);
        if (!result)
            result = result_of(t);
        ended++;
        sent += size;
    }
    return result;
}

static void send(px_transfer_t *t)
{
    await_ask(t);
    CUresult result = result_of(t);
    int staged = !result && !t->direct;
    if (staged)
        result = take_stage(t);
    if (!result)
        result = t->direct ? send_direct(t) : send_staged(t);
    if (staged) {
        (void)await_slots(t);
        give_stage(t);
    }
    fail(t, result);
    px_moved(t->peer->peers->session);
    (void)px_peer_say(t->peer, PX_PEER_END, t->token, result_of(t));
    /* A link that is cut may have to send the memory itself once more. */
    await_end(t, !t->direct || t->moved == 0);
}

/* ---- receiving ---- */

/* The reader's: the device is behind, not the other end. */
static CUresult await_place(px_transfer_t *t)
{
    if (t->stage.begun < PX_TRANSFER_SLOTS)
        return CUDA_SUCCESS;
    atomic_store(&t->peer->busy, 1);
    CUresult result = await_slot(t, t->stage.begun);
    atomic_store(&t->peer->heard, gb_now_ns());
    atomic_store(&t->peer->busy, 0);
    return result;
}

/* Bytes into the band that is being filled; when it is full it goes to the device. */
static gb_status_t take_some(px_transfer_t *t, uint64_t size, uint64_t *took, CUresult *result)
{
    if (t->band_got == 0) {
        t->band = px_box_band(&t->extent, t->moved);
        *result = await_place(t);
        if (*result)
            return GB_OK;
    }
    uint64_t left = band_bytes(&t->band) - t->band_got, n = size < left ? size : left;
    gb_status_t st = px_peer_receive(t->peer, slot_at(t, t->stage.begun) + t->band_got, n);
    if (st != GB_OK)
        return st;
    *took = n;
    t->moved += n;
    t->band_got += n;
    if (n == left) {
        *result = copy_band(t, &t->band, t->stage.begun, 1);
        t->stage.begun += !*result;
        t->band_got = 0;
    }
    return GB_OK;
}

static gb_status_t take_direct(px_transfer_t *t, uint64_t size)
{
    px_see_moved(t->peer->peers->session);
    gb_status_t st = px_peer_receive(t->peer, t->direct + t->moved, size);
    if (st == GB_OK)
        t->moved += size;
    return st;
}

gb_status_t px_transfer_take(px_transfer_t *t, uint64_t size)
{
    CUresult result = CUDA_SUCCESS;
    gb_status_t st = GB_OK;
    if (t->direct)
        return take_direct(t, size);
    CUcontext handle = atomic_load(&t->context->handle);
    result = handle ? t->peer->peers->session->cuda->cuCtxSetCurrent(handle)
                    : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    while (size > 0 && st == GB_OK && !result) {
        uint64_t took = 0;
        st = take_some(t, size, &took, &result);
        size -= took;
    }
    fail(t, result);
    return st == GB_OK ? px_peer_discard(t->peer, size) : st;
}

/* From here on the other end may send; or it need not any more. */
static int ask(px_transfer_t *t)
{
    lock(t);
    int open = !t->result && !t->ended;
    t->open = open;
    unlock(t);
    return open && px_peer_say(t->peer, PX_PEER_ASK, t->token, CUDA_SUCCESS) == GB_OK;
}

static void receive(px_transfer_t *t)
{
    CUresult result = result_of(t);
    int staged = !result && !t->direct;
    if (staged)
        result = take_stage(t);
    fail(t, result);
    if (ask(t))
        await_end(t, 1);
    lock(t);
    while (t->reading)
        pthread_cond_wait(&t->changed, &t->peer->peers->lock);
    if (!t->result && t->moved < t->total)
        px_transfer_fail(t, CUDA_ERROR_UNKNOWN); /* the other end says that this was all */
    unlock(t);
    if (staged) {
        fail(t, await_slots(t));
        give_stage(t);
    }
}

/* ---- all of it ---- */

void px_transfer_run(px_transfer_t *t)
{
    const gb_cuda_table_t *cuda = t->peer->peers->session->cuda;
    CUcontext handle = t->context ? atomic_load(&t->context->handle) : NULL;
    CUresult result = handle ? cuda->cuCtxSetCurrent(handle) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!result && t->ready)
        result = cuda->cuEventSynchronize(t->ready);
    fail(t, result);
    if (t->signals) {
        if (!t->sends)
            await_end(t, 1);
    } else if (t->sends) {
        send(t);
    } else {
        receive(t);
    }
    px_transfer_over(t);
}

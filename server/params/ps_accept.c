/* The data port: one thread accepts, a short-lived thread per connection does the handshake and the
 * hello under a deadline, then the connection belongs to an owner thread. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "common/link/gb_link.h"
#include "server/client/gbx_wire.h"
#include "server/params/ps_conn.h"
#include "server/params/ps_server.h"

enum { PS_HELLO_MS = 5000, PS_MAX_HELLO = 256 };

typedef struct {
    ps_params_t *ps;
    int fd, slot;
    char peer[GB_PEER_TEXT];
} handshake_t;

/* ---- the table of handshakes under way, so that stopping need not wait for their deadlines ---- */

static int slot_free(const ps_params_t *ps)
{
    for (int i = 0; i < PS_MAX_HANDSHAKES; i++) {
        if (ps->handshakes[i] == -1)
            return i;
    }
    return -1;
}

/* Connections that say nothing must not keep honest ones out. */
static void end_oldest(ps_params_t *ps)
{
    int oldest = 0;
    for (int i = 1; i < PS_MAX_HANDSHAKES; i++) {
        if (ps->handshake_turn[i] < ps->handshake_turn[oldest])
            oldest = i;
    }
    ps->handshake_turn[oldest] = UINT64_MAX; /* once */
    shutdown(ps->handshakes[oldest], SHUT_RDWR);
}

static int slot_take(ps_params_t *ps, int fd)
{
    pthread_mutex_lock(&ps->lock);
    int slot = slot_free(ps);
    while (slot < 0 && !ps->stopping) {
        end_oldest(ps);
        pthread_cond_wait(&ps->changed, &ps->lock);
        slot = slot_free(ps);
    }
    if (ps->stopping)
        slot = -1;
    if (slot >= 0) {
        /* a copy: the link closes the socket itself */
        ps->handshakes[slot] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (ps->handshakes[slot] < 0) {
            ps->handshakes[slot] = -1;
            slot = -1;
        } else {
            ps->handshake_turn[slot] = ps->next_turn++;
            ps->handshake_count++;
        }
    }
    pthread_mutex_unlock(&ps->lock);
    return slot;
}

static void slot_give(ps_params_t *ps, int slot)
{
    pthread_mutex_lock(&ps->lock);
    close(ps->handshakes[slot]);
    ps->handshakes[slot] = -1;
    ps->handshake_count--;
    pthread_cond_broadcast(&ps->changed);
    pthread_mutex_unlock(&ps->lock);
}

/* ---- hello ---- */

static void refuse(gb_link_t *link, const gb_frame_t *frame, gbx_poison_t code, uint32_t generation,
                   const char *text)
{
    uint8_t out[GB_FRAME_HEADER + GBX_MAX_ERROR];
    gb_frame_t reply = *frame;
    reply.flags = GB_FRAME_REPLY | GB_FRAME_ERROR;
    reply.length = gbx_error_encode(code, generation, text, out + GB_FRAME_HEADER);
    gb_frame_encode(&reply, out);
    gb_link_send(link, out, GB_FRAME_HEADER + reply.length);
}

static gb_status_t welcome(ps_params_t *ps, gb_link_t *link, const gb_frame_t *frame,
                           uint32_t generation)
{
    uint8_t out[GB_FRAME_HEADER + 8];
    gb_frame_t reply = *frame;
    reply.flags = GB_FRAME_REPLY;
    reply.length = 8;
    gb_frame_encode(&reply, out);
    gb_writer_t w = gb_writer(out + GB_FRAME_HEADER, 8);
    gb_write_u32(&w, generation);
    gb_write_u32(&w, ps->owner_count);
    return gb_link_send(link, out, sizeof(out));
}

static gb_status_t read_hello(gb_link_t *link, uint64_t deadline, gb_frame_t *frame,
                              gbx_hello_t *hello)
{
    uint8_t head[GB_FRAME_HEADER], payload[PS_MAX_HELLO];
    gb_status_t st = gb_link_recv(link, head, sizeof(head), deadline);
    if (st == GB_OK)
        st = gb_frame_decode(head, sizeof(payload), frame);
    if (st == GB_OK && frame->operation != GBX_OP_HELLO)
        st = gb_fail(GB_ERR_PROTOCOL, "the first frame was no hello");
    if (st == GB_OK)
        st = gb_link_recv(link, payload, frame->length, deadline);
    return st == GB_OK ? gbx_hello_decode(payload, frame->length, hello) : st;
}

typedef struct {
    ps_task_t task;
    ps_conn_t *conn;
} adopt_task_t;

static void adopt(ps_owner_t *owner, ps_task_t *task)
{
    adopt_task_t *self = (adopt_task_t *)task;
    ps_conn_adopt(owner, self->conn);
    free(self);
}

/* Hands the connection to its owner. Takes the link over. */
static gb_status_t enter(ps_params_t *ps, gb_link_t *link, uint64_t lease, const gbx_hello_t *hello,
                         ps_job_t *job)
{
    adopt_task_t *task = calloc(1, sizeof(*task));
    if (!task) {
        gb_link_close(link);
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    }
    gb_link_set_silence(link, ps->config.silence_ms);
    gb_status_t st = ps_conn_new(link, lease, hello, job, &task->conn);
    if (st == GB_OK)
        st = ps_job_came(job, hello->worker, ps->owner_count);
    if (st != GB_OK) {
        if (task->conn)
            ps_conn_free(task->conn);
        free(task);
        return st;
    }
    task->task.run = adopt;
    ps_owner_post(&ps->owners[hello->owner % ps->owner_count], &task->task);
    return GB_OK;
}

static gb_status_t greet(ps_params_t *ps, gb_link_t *link, uint64_t lease, uint64_t deadline)
{
    gb_frame_t frame;
    gbx_hello_t hello;
    gb_status_t st = read_hello(link, deadline, &frame, &hello);
    if (st != GB_OK) {
        gb_link_close(link);
        return st;
    }
    ps_job_t *job = ps_params_find_job(ps, hello.job);
    if (!job) {
        refuse(link, &frame, GBX_REFUSED, 0, "this shard knows no job of that name");
        gb_link_close(link);
        return gb_fail(GB_ERR_NOT_FOUND, "worker %u asked for unknown job %s", hello.worker,
                       hello.job);
    }
    uint32_t generation = atomic_load(&job->generation);
    if (hello.generation != generation) {
        refuse(link, &frame, GBX_GENERATION, generation,
               "the job has a new generation: join it again");
        gb_link_close(link);
        st = gb_fail(GB_ERR_CANCELLED, "job %s: worker %u comes with generation %u, now it is %u",
                     job->name, hello.worker, hello.generation, generation);
    } else {
        st = welcome(ps, link, &frame, generation);
        if (st == GB_OK)
            st = enter(ps, link, lease, &hello, job);
        else
            gb_link_close(link);
    }
    ps_job_unref(job);
    return st;
}

/* ---- threads ---- */

static void *handshake(void *arg)
{
    handshake_t *self = arg;
    ps_params_t *ps = self->ps;
    gb_preamble_t facts;
    gb_link_t *link;
    uint64_t deadline = gb_now_ns() + (uint64_t)PS_HELLO_MS * 1000000u;
    gb_status_t st = gb_link_accept(self->fd, deadline, GB_SERVICE_SHARD, ps->config.insecure,
                                    ps_grants_lookup, ps->grants, &facts, &link);
    if (st == GB_OK)
        st = greet(ps, link, facts.lease, deadline);
    if (st != GB_OK)
        gb_log(GB_LOG_WARN, "data port: connection from %s closed: %s", self->peer, gb_why());
    slot_give(ps, self->slot);
    free(self);
    return NULL;
}

static void begin_handshake(ps_params_t *ps, int fd, const char *peer)
{
    handshake_t *self = calloc(1, sizeof(*self));
    int slot = self ? slot_take(ps, fd) : -1;
    if (slot < 0) {
        gb_log(GB_LOG_WARN, "data port: connection from %s closed: out of descriptors or memory",
               peer);
        free(self);
        close(fd);
        return;
    }
    self->ps = ps;
    self->fd = fd;
    self->slot = slot;
    memcpy(self->peer, peer, GB_PEER_TEXT);
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, handshake, self) != 0) {
        gb_log(GB_LOG_WARN, "data port: connection from %s closed: no thread to be had", peer);
        slot_give(ps, slot);
        free(self);
        close(fd);
    }
    pthread_attr_destroy(&attr);
}

static void *acceptor(void *arg)
{
    ps_params_t *ps = arg;
    char peer[GB_PEER_TEXT];
    for (;;) {
        int fd = -1;
        gb_status_t st = gb_listener_accept(ps->listener, GB_NEVER, &fd, peer);
        if (st == GB_OK) {
            begin_handshake(ps, fd, peer);
        } else if (st == GB_ERR_LIMIT) {
            gb_log(GB_LOG_WARN, "data port: %s", gb_why());
            usleep(50000); /* descriptors come back in their own time */
        } else if (st == GB_ERR_CANCELLED) {
            return NULL;
        } else {
            gb_log(GB_LOG_ERROR, "data port: cannot accept any more: %s", gb_why());
            return NULL;
        }
    }
}

gb_status_t ps_accept_start(ps_params_t *ps)
{
    for (int i = 0; i < PS_MAX_HANDSHAKES; i++)
        ps->handshakes[i] = -1;
    int error = pthread_create(&ps->acceptor, NULL, acceptor, ps);
    return error == 0 ? GB_OK : gb_fail_errno(GB_ERR_IO, error, "cannot start a thread");
}

void ps_accept_stop(ps_params_t *ps)
{
    gb_listener_shutdown(ps->listener);
    pthread_mutex_lock(&ps->lock);
    ps->stopping = 1;
    pthread_cond_broadcast(&ps->changed);
    pthread_mutex_unlock(&ps->lock);
    pthread_join(ps->acceptor, NULL);
    pthread_mutex_lock(&ps->lock);
    for (int i = 0; i < PS_MAX_HANDSHAKES; i++) {
        if (ps->handshakes[i] != -1)
            shutdown(ps->handshakes[i], SHUT_RDWR);
    }
    while (ps->handshake_count > 0)
        pthread_cond_wait(&ps->changed, &ps->lock);
    pthread_mutex_unlock(&ps->lock);
}

#include "gpu-proxy/session/px_locker.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gpu-proxy/session/px_boot.h"

static ssize_t send_message(int socket, void *bytes, size_t size, int fd, int flags)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } ancillary = {0};
    struct iovec v = {bytes, size};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    ssize_t n;
    if (fd >= 0) {
        m.msg_control = ancillary.bytes;
        m.msg_controllen = sizeof ancillary.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    do {
        n = sendmsg(socket, &m, flags | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n;
}

enum { TRUNCATED = -2 }; /* a descriptor did not fit into this process */

static ssize_t receive_message(int socket, void *bytes, size_t size, int *fd, int flags)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } ancillary;
    struct iovec v = {bytes, size};
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = ancillary.bytes,
                       .msg_controllen = sizeof ancillary.bytes};
    ssize_t n;
    do {
        n = recvmsg(socket, &m, flags | MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    *fd = n > 0 ? px_boot_descriptor(&m) : -1;
    return n > 0 && (m.msg_flags & MSG_CTRUNC) ? TRUNCATED : n;
}

/* ---- sessions ---- */

static gb_status_t ask(int socket, px_locker_request_t *request, int fd, px_locker_reply_t *reply,
                       int *got)
{
    request->version = PX_LOCKER_VERSION;
    *got = -1;
    if (socket <= 0)
        return gb_fail(GB_ERR_UNSUPPORTED, "this session has no proxy");
    if (send_message(socket, request, sizeof *request, fd, 0) != (ssize_t)sizeof *request ||
        receive_message(socket, reply, sizeof *reply, got, 0) != (ssize_t)sizeof *reply ||
        reply->version != PX_LOCKER_VERSION) {
        if (*got >= 0)
            close(*got);
        return gb_fail(GB_ERR_LOST, "gpu-proxy does not answer");
    }
    return (gb_status_t)reply->status;
}

/* The same for what brings no descriptor back. */
static gb_status_t tell(int socket, px_locker_request_t *request, int fd, px_locker_reply_t *reply)
{
    int none;
    gb_status_t st = ask(socket, request, fd, reply, &none);
    if (none >= 0)
        close(none);
    return st;
}

gb_status_t px_locker_put(int socket, const px_token_t *token, const void *data, int fd,
                          px_locker_memory_t *memory)
{
    px_locker_request_t request = {.op = PX_LOCKER_PUT, .token = *token};
    px_locker_reply_t reply;
    if (data)
        memcpy(request.data, data, sizeof request.data);
    if (memory)
        request.memory = *memory;
    gb_status_t st = tell(socket, &request, fd, &reply);
    if (st == GB_OK && memory)
        memory->number = reply.number;
    return st;
}

gb_status_t px_locker_get(int socket, const px_token_t *token, void *data, int *fd,
                          uint64_t *memory)
{
    px_locker_request_t request = {.op = PX_LOCKER_GET, .token = *token};
    px_locker_reply_t reply;
    int got;
    gb_status_t st = ask(socket, &request, -1, &reply, &got);
    if (st == GB_OK) {
        memcpy(data, reply.data, sizeof reply.data);
        *fd = got;
        *memory = reply.number;
    }
    return st;
}

gb_status_t px_locker_drop(int socket, const px_token_t *token)
{
    px_locker_request_t request = {.op = PX_LOCKER_DROP, .token = *token};
    px_locker_reply_t reply;
    return tell(socket, &request, -1, &reply);
}

gb_status_t px_locker_release(int socket, uint64_t memory)
{
    px_locker_request_t request = {.op = PX_LOCKER_RELEASE, .memory = {.number = memory}};
    px_locker_reply_t reply;
    return tell(socket, &request, -1, &reply);
}

/* ---- the daemon ---- */

gb_status_t px_locker_receive(int socket, px_locker_request_t *request, int *fd)
{
    px_locker_request_t r;
    ssize_t n = receive_message(socket, &r, sizeof r, fd, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return GB_ERR_AGAIN;
    if (n == TRUNCATED) { /* it gets an answer: no */
        *request = (px_locker_request_t){.version = PX_LOCKER_VERSION};
        return GB_OK;
    }
    if (n <= 0)
        return gb_fail(GB_ERR_LOST, "the session is gone");
    if (n != (ssize_t)sizeof r || r.version != PX_LOCKER_VERSION) {
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
        return gb_fail(GB_ERR_PROTOCOL, "a session asks for something that makes no sense");
    }
    *request = r;
    return GB_OK;
}

void px_locker_answer(int socket, const px_locker_reply_t *reply, int fd)
{
    px_locker_reply_t copy = *reply;
    copy.version = PX_LOCKER_VERSION;
    (void)send_message(socket, &copy, sizeof copy, fd, MSG_DONTWAIT); /* it waits in vain then */
}

#include "gpu-proxy/session/px_boot.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DESCRIPTORS = 3 }; /* a connection, and the sockets of px_sockets_t in their order */

static gb_status_t pair(int *daemon, int *session)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return gb_fail_errno(GB_ERR_IO, errno, "no socket pair for a session");
    *daemon = ends[0];
    *session = ends[1];
    return GB_OK;
}

gb_status_t px_sockets_pair(px_sockets_t *daemon, px_sockets_t *session)
{
    *daemon = *session = (px_sockets_t){-1, -1};
    gb_status_t st = pair(&daemon->account, &session->account);
    if (st == GB_OK)
        st = pair(&daemon->locker, &session->locker);
    if (st != GB_OK) {
        px_sockets_close(daemon);
        px_sockets_close(session);
    }
    return st;
}

void px_sockets_close(px_sockets_t *sockets)
{
    if (sockets->account >= 0)
        close(sockets->account);
    if (sockets->locker >= 0)
        close(sockets->locker);
    *sockets = (px_sockets_t){-1, -1};
}

gb_status_t px_boot_send(int control, const px_boot_t *boot, int fd, const px_sockets_t *sockets)
{
    px_boot_t copy = *boot;
    const int fds[DESCRIPTORS] = {fd, sockets ? sockets->account : -1,
                                  sockets ? sockets->locker : -1};
    size_t size = (sockets ? DESCRIPTORS : 1) * sizeof(int);
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
    } ancillary = {0};
    struct iovec v = {&copy, sizeof copy};
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = ancillary.bytes,
                       .msg_controllen = CMSG_SPACE(size)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(c), fds, size);
    copy.version = PX_BOOT_VERSION;
    ssize_t n = sendmsg(control, &m, MSG_NOSIGNAL);
    int error = errno;
    gb_wipe(&copy, sizeof copy);
    if (n != (ssize_t)sizeof copy)
        return gb_fail_errno(GB_ERR_IO, error, "cannot hand a connection to a session");
    return GB_OK;
}

/* Takes `most` descriptors of a message; -1 for those it did not bring. Others are closed. */
static void take_descriptors(struct msghdr *m, int *out, int most)
{
    int taken = 0;
    for (int i = 0; i < most; i++)
        out[i] = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int got;
            memcpy(&got, CMSG_DATA(c) + i * sizeof got, sizeof got);
            if (taken < most)
                out[taken++] = got;
            else
                close(got);
        }
    }
}

int px_boot_descriptor(struct msghdr *message)
{
    int fd;
    take_descriptors(message, &fd, 1);
    return fd;
}

gb_status_t px_boot_receive(int control, px_boot_t *boot, int *fd, px_sockets_t *sockets)
{
    px_boot_t copy;
    int fds[DESCRIPTORS];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
    } ancillary;
    struct iovec v = {&copy, sizeof copy};
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = ancillary.bytes,
                       .msg_controllen = sizeof ancillary.bytes};
    ssize_t n;
    do {
        n = recvmsg(control, &m, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return gb_fail_errno(GB_ERR_IO, errno,
                             "cannot receive a connection: is this a session "
                             "started by gpu-proxy?");
    if (n == 0)
        return gb_fail(GB_ERR_LOST, "gpu-proxy is gone");
    take_descriptors(&m, fds, DESCRIPTORS);
    *sockets = (px_sockets_t){fds[1], fds[2]};
    if (n != (ssize_t)sizeof copy || fds[0] < 0 || copy.version != PX_BOOT_VERSION ||
        copy.device_count < 0 || copy.device_count > PX_BOOT_DEVICES) {
        if (fds[0] >= 0)
            close(fds[0]);
        px_sockets_close(sockets);
        return gb_fail(GB_ERR_VERSION, "gpu-proxy and gpu-session are of different releases: "
                                       "install the same one");
    }
    copy.peer[sizeof copy.peer - 1] = 0;
    *boot = copy;
    *fd = fds[0];
    gb_wipe(&copy, sizeof copy);
    return GB_OK;
}

void px_boot_report(int control, uint64_t memory)
{
    const px_boot_report_t r = {.version = PX_BOOT_VERSION, .memory = memory};
    ssize_t n = send(control, &r, sizeof r, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)n; /* full or gone: the next report, or the EOF, tells */
}

gb_status_t px_boot_receive_report(int control, px_boot_report_t *report)
{
    px_boot_report_t r;
    ssize_t n = recv(control, &r, sizeof r, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return GB_ERR_AGAIN;
    if (n <= 0)
        return gb_fail(GB_ERR_LOST, "the session is gone");
    if (n != (ssize_t)sizeof r || r.version != PX_BOOT_VERSION)
        return gb_fail(GB_ERR_PROTOCOL, "the session sends a report that makes no sense");
    *report = r;
    return GB_OK;
}

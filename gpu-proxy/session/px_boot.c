#include "gpu-proxy/session/px_boot.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

gb_status_t px_boot_send(int control, const px_boot_t *boot, int fd)
{
    px_boot_t copy = *boot;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } ancillary = {0};
    struct iovec v = {&copy, sizeof copy};
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = ancillary.bytes,
                       .msg_controllen = sizeof ancillary.bytes};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    copy.version = PX_BOOT_VERSION;
    ssize_t n = sendmsg(control, &m, MSG_NOSIGNAL);
    int error = errno;
    gb_wipe(&copy, sizeof copy);
    if (n != (ssize_t)sizeof copy)
        return gb_fail_errno(GB_ERR_IO, error, "cannot hand a connection to a session");
    return GB_OK;
}

/* The descriptor of a message; -1 if it brought none. Surplus ones are closed. */
static int take_descriptor(struct msghdr *m)
{
    int fd = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int got;
            memcpy(&got, CMSG_DATA(c) + i * sizeof got, sizeof got);
            if (fd < 0)
                fd = got;
            else
                close(got);
        }
    }
    return fd;
}

gb_status_t px_boot_receive(int control, px_boot_t *boot, int *fd)
{
    px_boot_t copy;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
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
    int got = take_descriptor(&m);
    if (n != (ssize_t)sizeof copy || got < 0 || copy.version != PX_BOOT_VERSION ||
        copy.device_count < 0 || copy.device_count > PX_BOOT_DEVICES) {
        if (got >= 0)
            close(got);
        return gb_fail(GB_ERR_VERSION, "gpu-proxy and gpu-session are of different releases: "
                                       "install the same one");
    }
    copy.peer[sizeof copy.peer - 1] = 0;
    *boot = copy;
    *fd = got;
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

#include "gpu-proxy/session/px_boot.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

gb_status_t px_boot_send(int control, const px_boot_t *boot, int fd, int account)
{
    px_boot_t copy = *boot;
    const int fds[2] = {fd, account};
    size_t size = (account < 0 ? 1 : 2) * sizeof(int);
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
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

/* The descriptors of a message; -1 for those it did not bring. Surplus ones are closed. */
static void take_descriptors(struct msghdr *m, int fds[2])
{
    int taken = 0;
    fds[0] = fds[1] = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int got;
            memcpy(&got, CMSG_DATA(c) + i * sizeof got, sizeof got);
            if (taken < 2)
                fds[taken++] = got;
            else
                close(got);
        }
    }
}

static void close_all(const int fds[2])
{
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

gb_status_t px_boot_receive(int control, px_boot_t *boot, int *fd, int *account)
{
    px_boot_t copy;
    int fds[2];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
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
    take_descriptors(&m, fds);
    if (n != (ssize_t)sizeof copy || fds[0] < 0 || copy.version != PX_BOOT_VERSION ||
        copy.device_count < 0 || copy.device_count > PX_BOOT_DEVICES) {
        close_all(fds);
        return gb_fail(GB_ERR_VERSION, "gpu-proxy and gpu-session are of different releases: "
                                       "install the same one");
    }
    copy.peer[sizeof copy.peer - 1] = 0;
    *boot = copy;
    *fd = fds[0];
    *account = fds[1];
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

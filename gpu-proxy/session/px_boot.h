/* px_boot.h - how the daemon starts a session and hands it its client.
 *
 * The daemon execs `gpu-session` with one end of a socketpair (SOCK_SEQPACKET) as descriptor
 * PX_BOOT_FD. Down it come px_boot_t messages, each with one verified data connection as SCM_RIGHTS, the
 * first with the session's sockets (px_sockets_t) besides; up it go px_boot_report_t messages. EOF on it
 * means that the daemon is gone: the session ends.
 * Keys travel here and nowhere else: not in arguments, not in the environment. Both ends come from
 * the same build; the version is checked all the same. */
#ifndef PX_BOOT_H
#define PX_BOOT_H

#include <stdint.h>

#include "common/core/gb_status.h"
#include "common/crypto/gb_crypto.h"
#include "common/link/gb_preamble.h"

enum { PX_BOOT_FD = 3, PX_BOOT_VERSION = 4, PX_BOOT_DEVICES = 64 };

typedef struct {
    uint32_t version;
    uint32_t timeout_ms; /* silence of the client after which the session ends */
    gb_preamble_t facts;
    gb_key_t key;
    uint64_t memory_quota; /* bytes on each device; 0 = none */
    uint64_t expires_ms;   /* of the lease; informative, the daemon enforces it */
    int32_t device_count;  /* 0: all */
    int32_t devices[PX_BOOT_DEVICES];
    char peer[96];   /* for logs */
    char tenant[96]; /* who the lease belongs to; "" if nobody is authenticated */
} px_boot_t;

typedef struct {
    uint32_t version;
    uint32_t reserved;
    uint64_t memory; /* bytes of device memory that the session holds now */
} px_boot_report_t;

/* What a session asks its daemon through: socket pairs (SOCK_SEQPACKET), either side has its ends. -1 = there
 * is none. */
typedef struct {
    int account; /* px_account.h */
    int locker;  /* px_locker.h */
} px_sockets_t;

/* All of them, closed on exec. */
gb_status_t px_sockets_pair(px_sockets_t *daemon, px_sockets_t *session);

/* Closes what there is; there is none of them then. */
void px_sockets_close(px_sockets_t *sockets);

/* Sends `boot` and the descriptors; the caller keeps its own. `sockets` is NULL but for the first one. */
gb_status_t px_boot_send(int control, const px_boot_t *boot, int fd, const px_sockets_t *sockets);

/* Receives one; waits. GB_ERR_LOST: the daemon is gone. The caller owns the descriptors and wipes
 * boot->key. */
gb_status_t px_boot_receive(int control, px_boot_t *boot, int *fd, px_sockets_t *sockets);

/* The first descriptor that a message has brought; -1 if it brought none. Others are closed. */
struct msghdr;
int px_boot_descriptor(struct msghdr *message);

/* Tells the daemon how much device memory the session holds. Never waits (a report that does not fit
 * is dropped: the next one tells all); thread-safe. */
void px_boot_report(int control, uint64_t memory);

/* Receives one report without waiting: GB_ERR_AGAIN, GB_ERR_LOST. */
gb_status_t px_boot_receive_report(int control, px_boot_report_t *report);

#endif

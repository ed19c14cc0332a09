/* px_boot.h - how the daemon starts a session and hands it its client.
 *
 * The daemon execs `gpu-session` with one end of a socketpair (SOCK_SEQPACKET) as descriptor
 * PX_BOOT_FD. Down it come px_boot_t messages, each with one verified data connection as SCM_RIGHTS, the
 * first with the end of px_account.h as well;
 * up it go px_boot_report_t messages. EOF on it means that the daemon is gone: the session ends.
 * Keys travel here and nowhere else: not in arguments, not in the environment. Both ends come from
 * the same build; the version is checked all the same. */
#ifndef PX_BOOT_H
#define PX_BOOT_H

#include <stdint.h>

#include "common/core/gb_status.h"
#include "common/crypto/gb_crypto.h"
#include "common/link/gb_preamble.h"

enum { PX_BOOT_FD = 3, PX_BOOT_VERSION = 3, PX_BOOT_DEVICES = 64 };

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

/* Sends `boot`, `fd`, and `account` unless that is -1; the caller keeps both. */
gb_status_t px_boot_send(int control, const px_boot_t *boot, int fd, int account);

/* Receives one; waits. GB_ERR_LOST: the daemon is gone. The caller owns *fd and *account (-1: none came)
 * and wipes boot->key. */
gb_status_t px_boot_receive(int control, px_boot_t *boot, int *fd, int *account);

/* Tells the daemon how much device memory the session holds. Never waits (a report that does not fit
 * is dropped: the next one tells all); thread-safe. */
void px_boot_report(int control, uint64_t memory);

/* Receives one report without waiting: GB_ERR_AGAIN, GB_ERR_LOST. */
gb_status_t px_boot_receive_report(int control, px_boot_report_t *report);

#endif

/* px_sessions.h - the table of running sessions. Thread-safe; adding, reaping and destroying belong to
 * the daemon's thread. */
#ifndef PX_SESSIONS_H
#define PX_SESSIONS_H

#include <poll.h>

#include "gpu-proxy/daemon/px_daemon.h"
#include "gpu-proxy/session/px_boot.h"

typedef struct px_sessions px_sessions_t;

gb_status_t px_sessions_create(int limit, px_sessions_t **out);

/* Kills what still runs, waits for it, frees. */
void px_sessions_destroy(px_sessions_t *sessions);

/* GB_ERR_LIMIT: the table is full. GB_ERR_EXISTS: that session runs already. */
gb_status_t px_sessions_check(px_sessions_t *sessions, uint64_t lease, uint64_t id);

/* What devices have for all sessions together, by ordinal; 0 = their driver sees to that. Before any are added. */
void px_sessions_set_memory(px_sessions_t *sessions, const uint64_t memory[PX_DEVICES]);

/* Adds a process that was started for `grant`; takes `control` and our ends of its sockets over. After
 * px_sessions_check, so there is room. */
void px_sessions_add(px_sessions_t *sessions, const px_session_info_t *info,
                     const px_grant_t *grant, int control, px_sockets_t *sockets);

/* Passes a further connection to the session that it belongs to. GB_ERR_NOT_FOUND: there is none. */
gb_status_t px_sessions_pass(px_sessions_t *sessions, const px_boot_t *boot, int fd);

size_t px_sessions_list(px_sessions_t *sessions, px_session_info_t *out, size_t cap);
gb_status_t px_sessions_kill(px_sessions_t *sessions, uint64_t id);

/* Kills the sessions whose lease is no longer in `grants`. */
void px_sessions_enforce(px_sessions_t *sessions, px_grants_t *grants);

/* Fills poll entries with the sockets that may bring reports, wishes and requests; returns their number,
 * at most PX_SESSION_POLLS for each session. */
enum { PX_SESSION_POLLS = 3 };
int px_sessions_poll(px_sessions_t *sessions, struct pollfd *out, int cap);

/* Takes the reports that have come, and answers wishes for memory and requests of lockers. */
void px_sessions_read_reports(px_sessions_t *sessions);

/* Takes ended processes out of the table and logs how they ended; returns how many there were. */
int px_sessions_reap(px_sessions_t *sessions);

#endif

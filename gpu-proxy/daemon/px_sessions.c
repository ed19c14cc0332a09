#include "gpu-proxy/daemon/px_sessions.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "gpu-proxy/daemon/px_ledger.h"
#include "gpu-proxy/daemon/px_lockers.h"
#include "gpu-proxy/session/px_boot.h"

typedef struct {
    px_session_info_t info;
    int control;          /* -1 once it has ended */
    px_sockets_t sockets; /* the same */
    px_share_t *share;
    char tenant[PX_HOLDER];
    const char *why; /* what we killed it for; NULL = it ended by itself */
} entry_t;

struct px_sessions {
    pthread_mutex_t lock;
    entry_t *list;
    size_t count;
    size_t limit;
    px_share_t **shares; /* of the list, in its order */
    uint64_t memory[PX_DEVICES];
    px_lockers_t *lockers;
};

gb_status_t px_sessions_create(int limit, px_sessions_t **out)
{
    px_sessions_t *s = calloc(1, sizeof *s);
    entry_t *list = calloc((size_t)limit, sizeof *list);
    px_share_t **shares = calloc((size_t)limit, sizeof *shares);
    if (!s || !list || !shares || px_lockers_create(&s->lockers) != GB_OK) {
        free(s);
        free(list);
        free(shares);
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory for the table of sessions");
    }
    s->list = list;
    s->shares = shares;
    s->limit = (size_t)limit;
    pthread_mutex_init(&s->lock, NULL);
    *out = s;
    return GB_OK;
}

/* Under the lock; a pid is valid until it is reaped, which needs the lock too. */
static void end_entry(entry_t *e, const char *why)
{
    if (!e->why)
        e->why = why;
    kill(e->info.pid, SIGKILL);
}

static void log_end(const entry_t *e, int status)
{
    unsigned long long id = (unsigned long long)e->info.id;
    double seconds = (double)(gb_wall_ms() - e->info.started_ms) / 1e3;
    if (e->why)
        gb_log(GB_LOG_INFO, "session %016llx of %s ended after %.1f s: %s", id, e->info.peer,
               seconds, e->why);
    else if (WIFSIGNALED(status))
        gb_log(GB_LOG_WARN, "session %016llx of %s crashed after %.1f s: signal %d (%s)", id,
               e->info.peer, seconds, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status))
        gb_log(GB_LOG_WARN, "session %016llx of %s failed after %.1f s with code %d", id,
               e->info.peer, seconds, WEXITSTATUS(status));
    else
        gb_log(GB_LOG_INFO, "session %016llx of %s ended after %.1f s", id, e->info.peer, seconds);
}

static px_lodger_t lodger(const entry_t *e)
{
    return (px_lodger_t){{e->info.id, e->info.lease}, e->tenant};
}

static void remove_at(px_sessions_t *s, size_t i)
{
    px_lodger_t who = lodger(&s->list[i]);
    px_lockers_leave(s->lockers, &who);
    if (s->list[i].control >= 0)
        close(s->list[i].control);
    px_sockets_close(&s->list[i].sockets);
    free(s->list[i].share);
    s->list[i] = s->list[--s->count];
    s->shares[i] = s->list[i].share;
}

void px_sessions_destroy(px_sessions_t *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->count; i++)
        end_entry(&s->list[i], "the proxy ends");
    while (s->count) {
        int status = 0;
        while (waitpid(s->list[0].info.pid, &status, 0) < 0 && errno == EINTR)
            ;
        log_end(&s->list[0], status);
        remove_at(s, 0);
    }
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_destroy(&s->lock);
    px_lockers_destroy(s->lockers);
    free(s->list);
    free(s->shares);
    free(s);
}

void px_sessions_set_memory(px_sessions_t *s, const uint64_t memory[PX_DEVICES])
{
    pthread_mutex_lock(&s->lock);
    memcpy(s->memory, memory, sizeof s->memory);
    pthread_mutex_unlock(&s->lock);
}

gb_status_t px_sessions_check(px_sessions_t *s, uint64_t lease, uint64_t id)
{
    gb_status_t st = GB_OK;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].info.id == id && s->list[i].info.lease == lease)
            st = gb_fail(GB_ERR_EXISTS, "session %016llx runs already", (unsigned long long)id);
    if (st == GB_OK && s->count == s->limit)
        st = gb_fail(GB_ERR_LIMIT, "all %zu sessions are taken (--sessions)", s->limit);
    pthread_mutex_unlock(&s->lock);
    return st;
}

void px_sessions_add(px_sessions_t *s, const px_session_info_t *info, const px_grant_t *grant,
                     int control, px_sockets_t *sockets)
{
    px_share_t *share = calloc(1, sizeof *share); /* without one its wishes are not answered */
    if (share) {
        share->lease = info->lease;
        share->quota = grant->memory;
    } else {
        close(sockets->account);
        sockets->account = -1;
    }
    pthread_mutex_lock(&s->lock);
    entry_t *e = &s->list[s->count];
    *e = (entry_t){.info = *info, .control = control, .sockets = *sockets, .share = share};
    snprintf(e->tenant, sizeof e->tenant, "%s", grant->tenant);
    s->shares[s->count++] = share;
    pthread_mutex_unlock(&s->lock);
}

gb_status_t px_sessions_pass(px_sessions_t *s, const px_boot_t *boot, int fd)
{
    gb_status_t st = GB_ERR_NOT_FOUND;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->count; i++) {
        const entry_t *e = &s->list[i];
        if (e->info.id == boot->facts.session && e->info.lease == boot->facts.lease &&
            e->control >= 0 && !e->why) {
            /* The answer goes out before the session can send anything on the same connection. */
            st = gb_preamble_answer(fd, GB_OK);
            if (st == GB_OK)
                st = px_boot_send(e->control, boot, fd, NULL);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return st != GB_ERR_NOT_FOUND ? st
                                  : gb_fail(st, "session %016llx does not run any more",
                                            (unsigned long long)boot->facts.session);
}

size_t px_sessions_list(px_sessions_t *s, px_session_info_t *out, size_t cap)
{
    pthread_mutex_lock(&s->lock);
    size_t n = s->count;
    for (size_t i = 0; i < n && i < cap; i++)
        out[i] = s->list[i].info;
    pthread_mutex_unlock(&s->lock);
    return n;
}

gb_status_t px_sessions_kill(px_sessions_t *s, uint64_t id)
{
    gb_status_t st = GB_ERR_NOT_FOUND;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->count; i++) {
        if (s->list[i].info.id == id) {
            end_entry(&s->list[i], "killed on request");
            st = GB_OK;
        }
    }
    pthread_mutex_unlock(&s->lock);
    return st == GB_OK ? st : gb_fail(st, "no session %016llx runs here", (unsigned long long)id);
}

void px_sessions_enforce(px_sessions_t *s, px_grants_t *grants)
{
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->count; i++) {
        px_grant_t grant;
        if (px_grants_find(grants, s->list[i].info.lease, &grant) == GB_OK)
            gb_wipe(&grant, sizeof grant);
        else
            end_entry(&s->list[i], "its lease has expired or was revoked");
    }
    pthread_mutex_unlock(&s->lock);
}

int px_sessions_poll(px_sessions_t *s, struct pollfd *out, int cap)
{
    int n = 0;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->count; i++) {
        const entry_t *e = &s->list[i];
        const int sockets[PX_SESSION_POLLS] = {e->control, e->sockets.account, e->sockets.locker};
        for (int k = 0; k < PX_SESSION_POLLS && n < cap; k++)
            if (sockets[k] >= 0)
                out[n++] = (struct pollfd){sockets[k], POLLIN, 0};
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}

static void read_reports(entry_t *e)
{
    px_boot_report_t report;
    gb_status_t st;
    while ((st = px_boot_receive_report(e->control, &report)) == GB_OK)
        e->info.memory = report.memory;
    if (st == GB_ERR_AGAIN)
        return;
    if (st == GB_ERR_PROTOCOL)
        end_entry(e, "it broke the protocol with the proxy");
    /* EOF: the process is on its way out; reaping takes the entry away */
    close(e->control);
    e->control = -1;
}

static void add_kept(void *arg, const px_keeper_t *who, uint32_t ordinal, uint64_t bytes)
{
    px_sessions_t *s = arg;
    for (size_t i = 0; i < s->count; i++)
        if (s->shares[i] && s->list[i].info.id == who->session &&
            s->list[i].info.lease == who->lease)
            s->shares[i]->kept[ordinal] += bytes;
}

static void count_kept(px_sessions_t *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->shares[i])
            memset(s->shares[i]->kept, 0, sizeof s->shares[i]->kept);
    px_kept_count(px_lockers_kept(s->lockers), add_kept, s);
}

static void read_wishes(px_sessions_t *s, entry_t *e)
{
    px_account_wish_t wish;
    gb_status_t st;
    while ((st = px_account_receive(e->sockets.account, &wish)) == GB_OK) {
        count_kept(s);
        px_account_answer_t answer =
            px_ledger_decide(s->shares, s->count, e->share, s->memory, &wish);
        px_account_reply(e->sockets.account, &answer);
    }
    if (st == GB_ERR_AGAIN)
        return;
    if (st == GB_ERR_PROTOCOL)
        end_entry(e, "it broke the protocol with the proxy");
    close(e->sockets.account);
    e->sockets.account = -1;
}

static void answer_requests(px_sessions_t *s, entry_t *e)
{
    px_lodger_t who = lodger(e);
    gb_status_t st = px_lockers_serve(s->lockers, e->sockets.locker, &who);
    if (st == GB_OK)
        return;
    if (st == GB_ERR_PROTOCOL)
        end_entry(e, "it broke the protocol with the proxy");
    close(e->sockets.locker);
    e->sockets.locker = -1;
}

void px_sessions_read_reports(px_sessions_t *s)
{
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->count; i++) {
        if (s->list[i].control >= 0)
            read_reports(&s->list[i]);
        if (s->list[i].sockets.account >= 0)
            read_wishes(s, &s->list[i]);
        if (s->list[i].sockets.locker >= 0)
            answer_requests(s, &s->list[i]);
    }
    pthread_mutex_unlock(&s->lock);
}

int px_sessions_reap(px_sessions_t *s)
{
    int ended = 0;
    pthread_mutex_lock(&s->lock);
    for (size_t i = s->count; i-- > 0;) {
        int status;
        if (waitpid(s->list[i].info.pid, &status, WNOHANG) != s->list[i].info.pid)
            continue;
        log_end(&s->list[i], status);
        remove_at(s, i);
        ended++;
    }
    pthread_mutex_unlock(&s->lock);
    return ended;
}

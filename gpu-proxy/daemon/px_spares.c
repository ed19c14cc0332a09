#include "gpu-proxy/daemon/px_spares.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "gpu-proxy/daemon/px_process.h"

#define QUIET_NS 20000000ull         /* after a client came */
#define RETRY_MOST_NS 60000000000ull /* between tries that fail */
#define RETRY_FIRST_NS 1000000000ull

typedef struct {
    pid_t pid;
    int control;
} spare_t;

struct px_spares {
    const char *driver;
    int tls;
    int wanted;
    int count;
    spare_t list[PX_SPARES_MAX];
    uint64_t due;   /* when to start the next one, if one is missing */
    uint64_t retry; /* how long to wait after a failure */
};

gb_status_t px_spares_create(const char *driver, int tls, int count, px_spares_t **out)
{
    px_spares_t *s = calloc(1, sizeof(*s));
    if (!s)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    s->driver = driver;
    s->tls = tls;
    s->wanted = count < PX_SPARES_MAX ? count : PX_SPARES_MAX;
    s->retry = RETRY_FIRST_NS;
    *out = s;
    return GB_OK;
}

void px_spares_destroy(px_spares_t *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->count; i++) {
        kill(s->list[i].pid, SIGKILL);
        while (waitpid(s->list[i].pid, NULL, 0) < 0 && errno == EINTR)
            ;
        close(s->list[i].control);
    }
    free(s);
}

gb_status_t px_spares_take(px_spares_t *s, pid_t *pid, int *control)
{
    s->due = gb_now_ns() + QUIET_NS;
    while (s->count > 0) {
        spare_t spare = s->list[0];
        s->list[0] = s->list[--s->count];
        if (waitpid(spare.pid, NULL, WNOHANG) == 0) {
            *pid = spare.pid;
            *control = spare.control;
            return GB_OK;
        }
        close(spare.control);
    }
    return GB_ERR_NOT_FOUND;
}

uint64_t px_spares_due(const px_spares_t *s)
{
    return s->count < s->wanted ? s->due : UINT64_MAX;
}

static void fail(px_spares_t *s, const char *why)
{
    gb_log(GB_LOG_WARN, "no spare session: %s: the next try is in %.0f s", why,
           (double)s->retry / 1e9);
    s->due = gb_now_ns() + s->retry;
    s->retry = s->retry * 2 < RETRY_MOST_NS ? s->retry * 2 : RETRY_MOST_NS;
}

void px_spares_fill(px_spares_t *s)
{
    for (int i = s->count; i-- > 0;)
        if (waitpid(s->list[i].pid, NULL, WNOHANG) != 0) {
            close(s->list[i].control);
            s->list[i] = s->list[--s->count];
            fail(s, "it ended by itself (its own line is above)");
        }
    if (s->count >= s->wanted || gb_now_ns() < s->due)
        return;
    spare_t *spare = &s->list[s->count];
    if (px_process_session(s->driver, s->tls, &spare->pid, &spare->control) != GB_OK)
        fail(s, gb_why());
    else
        s->count++;
}

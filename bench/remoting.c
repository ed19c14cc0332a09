/* remoting - what CUDA costs over each link: one program, directly and through a proxy.
 *
 * Metrics are LINK.PLACEMENT.what. LINK: shm (shared memory), unix, tcp, tls. PLACEMENT: both ends on
 * `one` core, or `split` over two. On the `null` driver, which does nothing (pure remoting):
 *   sync          us of a tiny synchronous call; floor: 64 bytes there and back
 *   launch        us of a queued launch, 1000 and then one synchronise; floor: the same bytes
 *   step          us of 401 KB in, 30 launches, 4 bytes out; floor: the same bytes
 *   h2d, d2h      GB/s of 64 MiB pageable; floor: a stream of as many bytes
 *   h2d_async     the same in 64 copies of 1 MiB
 *   tiny_copies   s of a million copies of 64 bytes at 1 ms emulated round trip
 *   memory_*      MiB beyond the program's own, with as much queued as goes; without a floor
 * On the software device:
 *   h2d_device, d2h_device   floor on shm: memcpy, else the stream
 *   open, open_cold   ms of cuInit and contexts over two proxies, with spare sessions and without, less
 *                     the direct ones; floor: those
 *   open64        ms until 64 programs that begin at once have their context on one proxy
 *   lenet5_step*  ms of a training step (mode single, batch 128) at 0.1, 1 and 10 ms emulated round
 *                 trip; floor: in process
 *   p2p           GB/s of 64 MiB from one proxy's device to another's, `split`: on the other core; floor: the
 *                 stream
 *
 * Floors run on a bare socket of the same kind, in the same round, polling before they block where the
 * ends have two cores. ratio: value / floor, for GB/s floor / value: more is worse. Medians of
 * interleaved rounds. No peer is installed by any package; field notes have Lupine at 4 us a launch, 35
 * us a synchronous call, 613 us a step, 1.1-1.3 GB/s, Cricket at 18.6, 17, 723 and 0.9. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/remoting_rows.h"
#include "common/core/gb_log.h"
#include "common/core/gb_opt.h"

typedef struct {
    bool json, smoke;
    int64_t rounds;
    const char *link, *placement, *only, *data, *driver;
} options_t;

#define FIELD(name) offsetof(options_t, name)

static const gb_opt_t option_list[] = {
    {"json", GB_OPT_FLAG, FIELD(json), "0", NULL, NULL, "one JSON object a line"},
    {"smoke", GB_OPT_FLAG, FIELD(smoke), "0", NULL, NULL, "two short rounds, both cores"},
    {"rounds", GB_OPT_INT, FIELD(rounds), "11", NULL, "N", "interleaved rounds"},
    {"link", GB_OPT_STRING, FIELD(link), "", NULL, "LINK", "only shm, unix, tcp or tls"},
    {"placement", GB_OPT_STRING, FIELD(placement), "", NULL, "P", "only one or split"},
    {"only", GB_OPT_STRING, FIELD(only), "", NULL, "WHAT", "only rows whose name contains it"},
    {"data", GB_OPT_STRING, FIELD(data), GABLE_SOURCE_DIR "/tests/data/mnist", NULL, "DIR",
     "folder of the MNIST files"},
    {"driver", GB_OPT_STRING, FIELD(driver), "cpu", NULL, "NAME",
     "of the rows on a device: cpu, nvidia or a path"},
    {NULL},
};

typedef gb_status_t (*part_t)(const rows_t *o, const site_t *site);

/* Runs a part in a process of its own: a CUDA library serves one list of proxies in its life. */
static int run_part(const rows_t *o, const site_t *site, part_t part)
{
    int status = -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        gb_status_t result = part(o, site);
        if (result)
            gb_complain("%s.%s: %s", o->link_name, o->placement, gb_why());
        exit(result ? 1 : 0);
    }
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
        gb_complain("%s.%s: signal %d", o->link_name, o->placement, WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static gb_status_t part_calls(const rows_t *o, const site_t *site)
{
    (void)site;
    return rows_calls(o, NULL);
}

static gb_status_t part_tiny(const rows_t *o, const site_t *site)
{
    (void)site;
    return rows_tiny(o);
}

static gb_status_t part_device(const rows_t *o, const site_t *site)
{
    (void)site;
    return rows_device(o);
}

static gb_status_t part_open(const rows_t *o, const site_t *site)
{
    (void)site;
    return rows_open(o);
}

static gb_status_t part_p2p(const rows_t *o, const site_t *site)
{
    (void)site;
    return rows_p2p(o);
}

static gb_status_t part_train_01(const rows_t *o, const site_t *site)
{
    (void)site;
    return rows_train(o, "100us", "lenet5_step_0.1ms");
}

static gb_status_t part_train_1(const rows_t *o, const site_t *site)
{
    (void)site;
    return rows_train(o, "1ms", "lenet5_step_1ms");
}

static gb_status_t part_train_10(const rows_t *o, const site_t *site)
{
    (void)site;
    return rows_train(o, "10ms", "lenet5_step_10ms");
}

/* An emulated line runs over a socket, so it says nothing about shared memory. */
enum { EMULATED = 1, ANYWHERE = 2 };

static const struct {
    const char *names; /* of the rows */
    const char *driver;
    int proxies;
    int how;
    int spare; /* sessions kept ready; -1 = as by default */
    part_t run;
} parts[] = {
    {"sync launch step h2d d2h h2d_async", "null", 1, 0, -1, part_calls},
    {"memory_client memory_session", "null", 1, 0, 0, rows_calls},
    {"tiny_copies", "null", 1, EMULATED, -1, part_tiny},
    {"h2d_device d2h_device", "cpu", 1, 0, -1, part_device},
    {"open open_cold open64", NULL, 0, ANYWHERE, -1, part_open},
    {"p2p", "cpu", 2, 0, -1, part_p2p},
    {"lenet5_step_0.1ms", "cpu", 1, EMULATED | ANYWHERE, -1, part_train_01},
    {"lenet5_step_1ms", "cpu", 1, EMULATED | ANYWHERE, -1, part_train_1},
    {"lenet5_step_10ms", "cpu", 1, EMULATED | ANYWHERE, -1, part_train_10},
};

static int run_parts(rows_t o)
{
    int good = 1, split = strcmp(o.placement, "split") == 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        site_t site;
        gb_status_t status = GB_OK;
        int cpus[SITE_PROXIES];
        int anywhere = (parts[i].how & ANYWHERE) != 0;
        int device = parts[i].driver && strcmp(parts[i].driver, "cpu") == 0;
        if ((*o.only && !strstr(parts[i].names, o.only)) ||
            ((parts[i].how & EMULATED) && o.link == RAW_SHM) || (anywhere && !split))
            continue;
        o.here = anywhere ? -1 : 0;
        o.there = anywhere ? -1 : split;
        for (int k = 0; k < SITE_PROXIES; k++) /* two talk to each other: each has a core */
            cpus[k] = k + 1 < parts[i].proxies ? o.here : o.there;
        if (parts[i].driver)
            status = site_start(&site, o.link, device ? o.driver : parts[i].driver,
                                parts[i].proxies, parts[i].spare, cpus, o.here);
        if (status)
            gb_complain("%s", gb_why());
        good &= status == GB_OK && run_part(&o, parts[i].driver ? &site : NULL, parts[i].run);
        if (parts[i].driver && status == GB_OK)
            site_stop(&site);
    }
    return good;
}

int main(int argc, char **argv)
{
    static const gb_opt_table_t table = {"remoting", "remoting [options]",
                                         "CUDA over each link, beside bare sockets.", option_list};
    static const char *const links[RAW_KINDS] = {"shm", "unix", "tcp", "tls"};
    static const char *const placements[2] = {"one", "split"};
    options_t o;
    int first, good = 1;
    gb_log_init("remoting", GB_LOG_WARN);
    setenv("GABLE_LOG", "warn", 0);
    gb_status_t status = gb_opt_parse(&table, argc, argv, 0, &o, &first);
    if (status == GB_ERR_CANCELLED)
        return 0;
    if (status == GB_OK && (o.rounds < 1 || o.rounds > 64))
        status = gb_fail(GB_ERR_INVALID, "use 1 to 64 rounds");
    if (status) {
        gb_complain("%s", gb_why());
        return 2;
    }
    for (int link = 0; link < RAW_KINDS; link++)
        for (int p = 0; p < 2; p++) {
            rows_t rows = {.json = o.json,
                           .smoke = o.smoke,
                           .rounds = (int)o.rounds,
                           .link = (raw_kind_t)link,
                           .link_name = links[link],
                           .placement = placements[p],
                           .only = o.only,
                           .data = o.data,
                           .driver = o.driver};
            if ((*o.link && strcmp(o.link, links[link])) ||
                (*o.placement && strcmp(o.placement, placements[p])))
                continue;
            if (o.smoke && p == 0 && link != RAW_UNIX)
                continue;
            good &= run_parts(rows);
        }
    return good ? 0 : 1;
}

/* remoting_site.h - the proxies that bench/remoting measures, and the environment of their clients. */
#ifndef REMOTING_SITE_H
#define REMOTING_SITE_H

#include "bench/bench_process.h"
#include "bench/remoting_raw.h"

enum { SITE_PROXIES = 2 };

typedef struct {
    raw_kind_t link;
    int count;
    char dir[64];
    char proxies[512]; /* for GABLE_PROXIES */
    char key_file[96]; /* for GABLE_KEY_FILE; "" = none */
    bench_process_t process[SITE_PROXIES];
} site_t;

/* Starts `count` proxies with `driver`, each on its one of `cpus` (-1 = anywhere) and with `spare` sessions ready
 * (-1 = as by default), and sets this process's environment for them. The calling thread is pinned to
 * `here` afterwards. */
gb_status_t site_start(site_t *site, raw_kind_t link, const char *driver, int count, int spare,
                       const int cpus[SITE_PROXIES], int here);
void site_stop(site_t *site);

/* The process of the newest session of proxy `n`, 0 if there is none. */
pid_t site_session(const site_t *site, int n);

#endif

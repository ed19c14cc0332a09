/* bench_process.h - servers that a benchmark starts and stops. One thread at a time. */
#ifndef BENCH_PROCESS_H
#define BENCH_PROCESS_H

#include <stddef.h>
#include <sys/types.h>

#include "common/core/gb_status.h"

typedef struct {
    pid_t pid;
    int out; /* its stdout, or stderr if asked for */
} bench_process_t;

/* Starts argv[0] (a path) with its stdout (which = 1) or stderr (which = 2) readable here. */
gb_status_t bench_process_start(char *const argv[], int which, bench_process_t *out);

/* Reads lines until one contains `text`; copies it without the newline. Waits up to timeout_ms.
 * GB_ERR_TIMEOUT, GB_ERR_CLOSED (the program ended). */
gb_status_t bench_process_line(bench_process_t *process, const char *text, int timeout_ms,
                               char *line, size_t size);

/* Ends it (SIGTERM) and waits for it. */
void bench_process_stop(bench_process_t *process);

/* Word after `key` in a ready line ("data=" gives "127.0.0.1:7073"); 0 if there is none. */
int bench_process_field(const char *line, const char *key, char *out, size_t size);

#endif

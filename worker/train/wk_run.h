/* wk_run.h - a whole run of the worker: from the configuration to the last JSON line. */
#ifndef WK_RUN_H
#define WK_RUN_H

#include "worker/train/wk_config.h"

/* Trains as configured and returns the process's exit code: 0 done, 1 failed, 2 bad input. *stop
 * becomes non-zero when the run shall end early. Failures have been told to the user. */
int wk_run(const wk_config_t *config, volatile const int *stop);

#endif

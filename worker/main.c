/* worker - trains a model on local or leased GPUs. */
#include <signal.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "worker/train/wk_config.h"
#include "worker/train/wk_run.h"

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

int main(int argc, char **argv)
{
    wk_config_t config;
    gb_log_init("worker", GB_LOG_WARN);
    gb_status_t status = wk_config_parse(argc, argv, &config);
    if (status == GB_ERR_CANCELLED)
        return 0;
    if (status != GB_OK) {
        gb_complain("%s", gb_why());
        return 2;
    }
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESETHAND; /* a second one ends the process at once */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return wk_run(&config, &stop);
}

/* wk_config.h - what the worker's command line says, checked. */
#ifndef WK_CONFIG_H
#define WK_CONFIG_H

#include <stdint.h>

#include "common/core/gb_status.h"

typedef enum { WK_MODE_SINGLE, WK_MODE_BSP } wk_mode_t;

typedef struct {
    const char *server;  /* "HOST:PORT" of ps-server, or NULL */
    const char *tls_dir; /* or NULL */
    int insecure;
    const char *model;              /* name or file */
    const char *data;               /* folder */
    const char *job;                /* or NULL: the model's name */
    const char *mode_name, *driver; /* as given, or NULL */
    const char *out;                /* file for the weights, or NULL */
    int64_t epochs, batch, seed, gpus, workers;
    double lr, lr_end; /* lr_end: of the last epoch, as a part of the first one's */
    double momentum;
    double server_wait; /* seconds */
    int json;
    wk_mode_t mode; /* made by wk_config_parse */
} wk_config_t;

/* Factor of the learning rate from one epoch to the next. */
double wk_config_lr_gamma(const wk_config_t *config);

/* Reads the command line. GB_ERR_CANCELLED: --help or --version was printed; GB_ERR_INVALID: explained
 * by gb_why(). Strings point into argv or the environment. */
gb_status_t wk_config_parse(int argc, char **argv, wk_config_t *out);

#endif

/* remoting_rows.h - the measurements of bench/remoting. Each function runs in a process of its own whose
 * environment names the proxies, and prints its lines. */
#ifndef REMOTING_ROWS_H
#define REMOTING_ROWS_H

#include "bench/remoting_raw.h"
#include "bench/remoting_site.h"
#include "common/core/gb_status.h"

typedef struct {
    int json, smoke;
    int rounds;
    raw_kind_t link;
    const char *link_name;
    const char *placement; /* "one" core or "split" over two */
    int here, there;       /* the CPUs */
    const char *only;      /* rows whose name contains it */
    const char *data;      /* folder of the MNIST files */
    const char *driver;    /* of the rows on a device */
} rows_t;

/* `what` is wanted. */
int rows_wanted(const rows_t *o, const char *what);
/* ratio: value / floor for times, floor / value for rates; NAN without a floor. */
void rows_line(const rows_t *o, const char *what, double value, const char *unit, double floor);

/* sync, launch, step, h2d, d2h, h2d_async, memory: on the null driver. */
gb_status_t rows_calls(const rows_t *o, const site_t *site);
/* h2d_device, d2h_device: on the software device. */
gb_status_t rows_device(const rows_t *o);
/* tiny_copies: 64 bytes at a time, at 1 ms emulated round trip. */
gb_status_t rows_tiny(const rows_t *o);
/* open, open_cold, open64. */
gb_status_t rows_open(const rows_t *o);
/* lenet5_step at emulated round trips. */
gb_status_t rows_train(const rows_t *o, const char *rtt, const char *what);
/* p2p: device to device over two proxies. */
gb_status_t rows_p2p(const rows_t *o);

#endif

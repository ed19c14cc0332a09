/* wk_progress.h - what people see while it trains: a bar on a terminal, plain lines otherwise.
 *
 * Everything goes to stderr. GABLE_PROGRESS=bar|lines|none overrides the choice. One thread at a
 * time. */
#ifndef WK_PROGRESS_H
#define WK_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

typedef enum { WK_PROGRESS_NONE, WK_PROGRESS_LINES, WK_PROGRESS_BAR } wk_progress_style_t;

typedef struct {
    wk_progress_style_t style;
    uint32_t epochs;
    uint64_t last_ns; /* when something was last shown */
    int open;         /* a bar stands on the current line */
} wk_progress_t;

/* Where an epoch stands. */
typedef struct {
    uint32_t epoch; /* 0.. */
    double done;    /* part of the epoch, 0 to 1 */
    double rate;    /* samples per second */
    double loss;    /* mean of the last steps */
    double left;    /* seconds to the end of the last epoch */
} wk_progress_at_t;

void wk_progress_init(wk_progress_t *progress, uint32_t epochs);

/* Called after every group of steps; shows at most ten times a second on a bar, every five seconds in
 * lines. */
void wk_progress_show(wk_progress_t *progress, const wk_progress_at_t *at);

/* An epoch's result; accuracy is 0 to 1. */
void wk_progress_epoch(wk_progress_t *progress, uint32_t epoch, double loss, double accuracy,
                       double rate, double seconds);

/* Any other line, e.g. "waiting for the server". */
void wk_progress_note(wk_progress_t *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Formats the bar's line, without control characters; for tests. */
void wk_progress_format(const wk_progress_at_t *at, uint32_t epochs, char *out, size_t size);

#endif

#include "worker/train/wk_progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/core/gb_clock.h"

#define BAR_WIDTH 24
#define BAR_NS 100000000ull
#define LINES_NS 5000000000ull
#define CLEAR_LINE "\r\x1b[K"

void wk_progress_init(wk_progress_t *p, uint32_t epochs)
{
    const char *wish = getenv("GABLE_PROGRESS");
    *p = (wk_progress_t){.epochs = epochs, .last_ns = gb_now_ns()};
    p->style = isatty(STDERR_FILENO) ? WK_PROGRESS_BAR : WK_PROGRESS_LINES;
    if (wish && strcmp(wish, "bar") == 0)
        p->style = WK_PROGRESS_BAR;
    else if (wish && strcmp(wish, "lines") == 0)
        p->style = WK_PROGRESS_LINES;
    else if (wish && strcmp(wish, "none") == 0)
        p->style = WK_PROGRESS_NONE;
}

void wk_progress_format(const wk_progress_at_t *at, uint32_t epochs, char *out, size_t size)
{
    char bar[BAR_WIDTH + 1];
    double done = at->done < 0 ? 0 : at->done > 1 ? 1 : at->done;
    int filled = (int)(done * BAR_WIDTH);
    long left = at->left > 0 ? (long)(at->left + 0.5) : 0;
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    bar[BAR_WIDTH] = 0;
    snprintf(out, size, "epoch %u/%u [%s] %3d%%  %.0f samples/s  loss %.4f  left %ld:%02ld",
             at->epoch + 1, epochs, bar, (int)(done * 100), at->rate, at->loss, left / 60,
             left % 60);
}

void wk_progress_show(wk_progress_t *p, const wk_progress_at_t *at)
{
    uint64_t now = gb_now_ns();
    if (p->style == WK_PROGRESS_NONE ||
        now - p->last_ns < (p->style == WK_PROGRESS_BAR ? BAR_NS : LINES_NS))
        return;
    char line[160];
    p->last_ns = now;
    wk_progress_format(at, p->epochs, line, sizeof(line));
    p->open = p->style == WK_PROGRESS_BAR;
    fprintf(stderr, p->open ? CLEAR_LINE "%s" : "%s\n", line);
    fflush(stderr);
}

/* Takes the bar away, so that a line can stand in its place. */
static void clear_bar(wk_progress_t *p)
{
    if (p->open)
        fputs(CLEAR_LINE, stderr);
    p->open = 0;
}

void wk_progress_epoch(wk_progress_t *p, uint32_t epoch, double loss, double accuracy, double rate,
                       double seconds)
{
    if (p->style == WK_PROGRESS_NONE)
        return;
    clear_bar(p);
    fprintf(stderr, "epoch %u/%u  loss %.4f  test accuracy %.4f  %.0f samples/s  %.1f s\n",
            epoch + 1, p->epochs, loss, accuracy, rate, seconds);
}

void wk_progress_note(wk_progress_t *p, const char *format, ...)
{
    if (p->style == WK_PROGRESS_NONE)
        return;
    va_list args;
    clear_bar(p);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

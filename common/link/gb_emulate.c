/* A detached thread owns the far socket and one end of the pair. Each direction is a queue of pieces
 * with the time at which they are due; a full queue stops reading, so that back-pressure works as on
 * a real line. */
#include "common/link/gb_emulate.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_opt.h"
#include "common/link/gb_socket.h"

enum { PIECE = 16 * 1024, PACKET = 1448, QUEUE_MIN = 256 * 1024, QUEUE_MAX = 64 * 1024 * 1024 };

typedef struct piece {
    struct piece *next;
    uint64_t due;
    size_t at;
    size_t size;
    uint8_t bytes[];
} piece_t;

typedef struct {
    int from;
    int to;
    piece_t *first;
    piece_t **last;
    size_t queued;
    uint64_t line_free; /* when the line has put the last queued byte on the wire */
    uint64_t last_due;
    int ended;    /* `from` is at its end */
    int finished; /* and `to` has been told */
} lane_t;

typedef struct {
    gb_emulate_t line;
    size_t queue_limit;
    uint64_t carried;
    uint64_t random;
    lane_t lanes[2];
} pump_t;

/* ---- the text ---- */

static gb_status_t bad(const char *part)
{
    return gb_fail(GB_ERR_INVALID,
                   "GABLE_LINK_EMULATE: bad part '%s': write rtt=1ms,bw=1Gbit,drop=0.01,cut=10M",
                   part);
}

static int scaled(const char *text, const char *const *units, const double *factors, double *out)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || !(v >= 0))
        return 0;
    for (int i = 0; units[i]; i++) {
        if (!strcmp(end, units[i])) {
            *out = v * factors[i];
            return 1;
        }
    }
    return 0;
}

static gb_status_t parse_part(const char *part, gb_emulate_t *e)
{
    static const char *const times[] = {"ns", "us", "ms", "s", NULL};
    static const double time_ns[] = {1, 1e3, 1e6, 1e9};
    static const char *const rates[] = {"bit", "Kbit", "Mbit", "Gbit", NULL};
    static const double rate_bytes[] = {1. / 8, 1e3 / 8, 1e6 / 8, 1e9 / 8};
    static const char *const plain[] = {"", NULL};
    static const double one[] = {1};
    double v;
    int64_t bytes;
    if (!strncmp(part, "rtt=", 4) && scaled(part + 4, times, time_ns, &v) && v <= 60e9)
        e->rtt_ns = (uint64_t)v;
    else if (!strncmp(part, "bw=", 3) && scaled(part + 3, rates, rate_bytes, &v) && v >= 1)
        e->bytes_per_s = v;
    else if (!strncmp(part, "drop=", 5) && scaled(part + 5, plain, one, &v) && v < 1)
        e->drop = v;
    else if (!strncmp(part, "cut=", 4) && gb_parse_int(part + 4, &bytes) == GB_OK && bytes > 0)
        e->cut = (uint64_t)bytes;
    else
        return bad(part);
    return GB_OK;
}

gb_status_t gb_emulate_parse(const char *text, gb_emulate_t *out)
{
    gb_emulate_t e = {0};
    char copy[256];
    char *rest = NULL;
    gb_status_t st = GB_OK;
    if (strlen(text) >= sizeof copy)
        return bad(text);
    memcpy(copy, text, strlen(text) + 1);
    for (char *p = strtok_r(copy, ",", &rest); p && st == GB_OK; p = strtok_r(NULL, ",", &rest))
        st = parse_part(p, &e);
    if (st == GB_OK)
        *out = e;
    return st;
}

/* ---- the line ---- */

/* xorshift: losses need no better, and a fixed start makes a run repeatable. */
static double next_random(pump_t *p)
{
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return (double)(p->random >> 11) / 9007199254740992.0;
}

static void schedule(pump_t *p, lane_t *lane, piece_t *piece)
{
    uint64_t now = gb_now_ns();
    uint64_t due = now > lane->line_free ? now : lane->line_free;
    if (p->line.bytes_per_s > 0)
        due += (uint64_t)((double)piece->size / p->line.bytes_per_s * 1e9);
    lane->line_free = due;
    due += p->line.rtt_ns / 2;
    for (size_t i = 0; p->line.drop > 0 && i < piece->size; i += PACKET)
        if (next_random(p) < p->line.drop)
            due += p->line.rtt_ns;
    if (due < lane->last_due)
        due = lane->last_due; /* a stream stays in order */
    lane->last_due = due;
    piece->due = due;
    piece->next = NULL;
    *lane->last = piece;
    lane->last = &piece->next;
    lane->queued += piece->size;
}

/* Reads one piece. 0 = the line is to end (out of memory). */
static int take(pump_t *p, lane_t *lane)
{
    piece_t *piece = malloc(sizeof *piece + PIECE);
    if (!piece)
        return 0;
    ssize_t n = recv(lane->from, piece->bytes, PIECE, MSG_DONTWAIT);
    if (n > 0) {
        piece->at = 0;
        piece->size = (size_t)n;
        p->carried += (uint64_t)n;
        schedule(p, lane, piece);
        return 1;
    }
    free(piece);
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        lane->ended = 1;
    return 1;
}

/* Delivers what is due; 1 = the receiver has no room. */
static int deliver(lane_t *lane, uint64_t now)
{
    while (lane->first && lane->first->due <= now) {
        piece_t *piece = lane->first;
        ssize_t n = send(lane->to, piece->bytes + piece->at, piece->size - piece->at,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 1;
        if (n < 0)
            n = (ssize_t)(piece->size - piece->at); /* nobody is there: drop it */
        piece->at += (size_t)n;
        lane->queued -= (size_t)n;
        if (piece->at < piece->size)
            return 1;
        lane->first = piece->next;
        if (!lane->first)
            lane->last = &lane->first;
        free(piece);
    }
    if (lane->ended && !lane->first && !lane->finished) {
        lane->finished = 1;
        shutdown(lane->to, SHUT_WR);
    }
    return 0;
}

static void cut_line(pump_t *p)
{
    /* With no linger time the peer gets a reset, as from a machine that lost its state. */
    struct linger hard = {1, 0};
    for (int i = 0; i < 2; i++)
        (void)setsockopt(p->lanes[i].to, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
}

/* One round: waits for bytes, for room or for the next due piece. 0 = the line has ended. */
static int pump_round(pump_t *p)
{
    struct pollfd fds[2] = {{p->lanes[0].from, 0, 0}, {p->lanes[1].from, 0, 0}};
    uint64_t deadline = UINT64_MAX;
    uint64_t now = gb_now_ns();
    for (int i = 0; i < 2; i++) {
        lane_t *lane = &p->lanes[i];
        if (deliver(lane, now))
            fds[1 - i].events |= POLLOUT; /* lanes[i].to is lanes[1 - i].from */
        else if (lane->first && lane->first->due < deadline)
            deadline = lane->first->due;
        if (!lane->ended && lane->queued < p->queue_limit)
            fds[i].events |= POLLIN;
    }
    if (p->lanes[0].finished && p->lanes[1].finished)
        return 0;
    if (p->line.cut && p->carried >= p->line.cut) {
        cut_line(p);
        return 0;
    }
    /* A hang-up alone must not make the loop spin; but once the near side's bytes are all out, its
     * hang-up means that the link was closed, and the line with it. */
    for (int i = 0; i < 2; i++)
        if (!fds[i].events && !(i == 0 && p->lanes[0].finished))
            fds[i].fd = -1;
    if (gb_socket_poll(fds, 2, deadline) < 0)
        return 0;
    if (p->lanes[0].finished && (fds[0].revents & POLLHUP))
        return 0;
    for (int i = 0; i < 2; i++) {
        if ((fds[i].revents & (POLLIN | POLLHUP | POLLERR)) && (fds[i].events & POLLIN) &&
            !take(p, &p->lanes[i]))
            return 0;
    }
    return 1;
}

static void *pump_main(void *arg)
{
    pump_t *p = arg;
    while (pump_round(p))
        ;
    for (int i = 0; i < 2; i++) {
        while (p->lanes[i].first) {
            piece_t *next = p->lanes[i].first->next;
            free(p->lanes[i].first);
            p->lanes[i].first = next;
        }
    }
    close(p->lanes[0].from);
    close(p->lanes[0].to);
    free(p);
    return NULL;
}

static void lane_init(lane_t *lane, int from, int to)
{
    *lane = (lane_t){.from = from, .to = to};
    lane->last = &lane->first;
}

gb_status_t gb_emulate_start(const gb_emulate_t *line, int *fd)
{
    int sv[2];
    pthread_t thread;
    pump_t *p = calloc(1, sizeof *p);
    if (!p)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory for the link emulator");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv)) {
        free(p);
        return gb_fail_errno(GB_ERR_IO, errno, "link emulator");
    }
    p->line = *line;
    p->random = 88172645463325252u;
    p->queue_limit = QUEUE_MAX;
    if (line->bytes_per_s > 0) {
        double bdp = line->bytes_per_s * (double)line->rtt_ns / 1e9 + QUEUE_MIN;
        p->queue_limit = bdp < QUEUE_MAX ? (size_t)bdp : QUEUE_MAX;
    }
    lane_init(&p->lanes[0], sv[1], *fd);
    lane_init(&p->lanes[1], *fd, sv[1]);
    int error = pthread_create(&thread, NULL, pump_main, p);
    if (error) {
        close(sv[0]);
        close(sv[1]);
        free(p);
        return gb_fail_errno(GB_ERR_IO, error, "link emulator");
    }
    pthread_detach(thread);
    *fd = sv[0];
    return GB_OK;
}

gb_status_t gb_emulate_wrap(int *fd)
{
    gb_emulate_t line;
    const char *text = getenv("GABLE_LINK_EMULATE");
    if (!text || !*text)
        return GB_OK;
    gb_status_t st = gb_emulate_parse(text, &line);
    return st == GB_OK ? gb_emulate_start(&line, fd) : st;
}

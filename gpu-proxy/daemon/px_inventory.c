#include "gpu-proxy/daemon/px_inventory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LINE_SIZE = 1024 };

typedef struct {
    px_inventory_t inventory;
    int begun;
    int ended;
} block_t;

static gb_status_t bad(const char *line)
{
    return gb_fail(GB_ERR_FORMAT, "the probe reports a line that makes no sense: '%.80s'", line);
}

static gb_status_t parse_driver(px_inventory_t *v, const char *line)
{
    int at = 0;
    if (sscanf(line, "driver %23s %d %n", v->driver_kind, &v->driver_version, &at) < 2 || !at)
        return bad(line);
    snprintf(v->driver_path, sizeof v->driver_path, "%s", line + at);
    return GB_OK;
}

static gb_status_t parse_device(px_inventory_t *v, const char *line)
{
    px_device_t d = {0};
    int at = 0;
    int n = sscanf(line, "device %d cc %d.%d sm %d clock %d memory %" SCNu64 " name %n", &d.ordinal,
                   &d.cc_major, &d.cc_minor, &d.sm_count, &d.clock_khz, &d.memory, &at);
    if (n < 6 || !at || d.ordinal < 0 || d.ordinal >= PX_DEVICES)
        return bad(line);
    if (v->device_count == PX_DEVICES)
        return gb_fail(GB_ERR_LIMIT, "a proxy serves at most %d devices", PX_DEVICES);
    snprintf(d.name, sizeof d.name, "%.127s", line + at);
    v->devices[v->device_count++] = d;
    return GB_OK;
}

static gb_status_t parse_measured(px_inventory_t *v, const char *line)
{
    int ordinal;
    double value;
    char what[64];
    if (sscanf(line, "measured %d %63s %lf", &ordinal, what, &value) != 3)
        return bad(line);
    for (int i = 0; i < v->device_count; i++) {
        px_device_t *d = &v->devices[i];
        if (d->ordinal != ordinal)
            continue;
        if (!strcmp(what, "h2d_bytes_per_s"))
            d->h2d_bytes_per_s = value;
        else if (!strcmp(what, "d2h_bytes_per_s"))
            d->d2h_bytes_per_s = value;
        else if (!strcmp(what, "memory_bytes_per_s"))
            d->memory_bytes_per_s = value;
        else if (!strcmp(what, "fp32_flops"))
            d->fp32_flops = value;
        else if (!strcmp(what, "launch_s"))
            d->launch_s = value;
    }
    return GB_OK;
}

static gb_status_t parse_line(block_t *b, const char *line)
{
    if (!b->begun) {
        b->begun = !strcmp(line, "gable-probe 1");
        return GB_OK; /* a driver may have said something before */
    }
    if (!strcmp(line, "end"))
        b->ended = 1;
    else if (!strncmp(line, "driver ", 7))
        return parse_driver(&b->inventory, line);
    else if (!strncmp(line, "device ", 7))
        return parse_device(&b->inventory, line);
    else if (!strncmp(line, "measured ", 9))
        return parse_measured(&b->inventory, line);
    return GB_OK;
}

gb_status_t px_inventory_parse(const char *text, size_t size, px_inventory_t *out)
{
    block_t b = {0};
    const char *end = text + size;
    gb_status_t st = GB_OK;
    while (st == GB_OK && text < end && !b.ended) {
        char line[LINE_SIZE];
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop)
            break; /* cut short */
        size_t n = (size_t)(stop - text);
        if (n < sizeof line && !memchr(text, 0, n)) {
            memcpy(line, text, n);
            line[n] = 0;
            st = parse_line(&b, line);
        }
        text = stop + 1;
    }
    if (st == GB_OK && !b.ended)
        st = gb_fail(GB_ERR_FORMAT, "the probe of the devices gave no complete report");
    if (st == GB_OK)
        *out = b.inventory;
    return st;
}

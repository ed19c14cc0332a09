/* sc_place.c - least loaded placement. */
#include "server/scheduler/sc_place.h"

#include <stdio.h>
#include <string.h>

static int is_free(const sc_request_t *request, const sc_device_t *device)
{
    return device->leases < device->leases_max && device->memory >= request->memory;
}

static int is_named(const sc_request_t *request, const sc_device_t *device)
{
    char id[128];
    if (!request->device)
        return 1;
    snprintf(id, sizeof id, "%.100s/%u", device->proxy, device->index);
    return !strcmp(id, request->device);
}

static int is_taken(const uint32_t *out, uint32_t taken, uint32_t place)
{
    for (uint32_t i = 0; i < taken; i++)
        if (out[i] == place)
            return 1;
    return 0;
}

/* Leases on all devices of a machine, those just chosen included. */
static uint32_t machine_load(const sc_device_t *devices, uint32_t count, const char *proxy,
                             const uint32_t *out, uint32_t taken)
{
    uint32_t load = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(devices[i].proxy, proxy))
            load += devices[i].leases + (uint32_t)is_taken(out, taken, i);
    return load;
}

static int64_t best_place(const sc_request_t *request, const sc_device_t *devices, uint32_t count,
                          const uint32_t *out, uint32_t taken)
{
    int64_t best = -1;
    uint32_t best_load = 0;
    for (uint32_t i = 0; i < count; i++) {
        const sc_device_t *device = &devices[i];
        if (!is_named(request, device) || !is_free(request, device) || is_taken(out, taken, i))
            continue;
        uint32_t load = machine_load(devices, count, device->proxy, out, taken);
        if (best < 0 || device->leases < devices[best].leases ||
            (device->leases == devices[best].leases && load < best_load)) {
            best = i;
            best_load = load;
        }
    }
    return best;
}

static gb_status_t refuse(const sc_request_t *request, const sc_device_t *devices, uint32_t count)
{
    uint32_t named = 0, unused = 0, fitting = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_named(request, &devices[i]))
            continue;
        named++;
        unused += devices[i].leases < devices[i].leases_max;
        fitting += (uint32_t)is_free(request, &devices[i]);
    }
    if (request->device && !named)
        return gb_fail(GB_ERR_NOT_FOUND, "no device %s here: see `gable devices`", request->device);
    if (unused != fitting)
        return gb_fail(GB_ERR_LIMIT,
                       "%u GPU%s with %llu MiB asked, %u of %u free and only %u with that much "
                       "memory: ask for less, or wait",
                       request->gpus, request->gpus == 1 ? "" : "s",
                       (unsigned long long)(request->memory >> 20), unused, named, fitting);
    return gb_fail(GB_ERR_LIMIT,
                   "%u GPU%s asked, %u of %u free: ask for fewer, wait, or start more proxies",
                   request->gpus, request->gpus == 1 ? "" : "s", unused, named);
}

gb_status_t sc_place(const sc_request_t *request, const sc_device_t *devices, uint32_t count,
                     uint32_t *out)
{
    if (request->gpus > count)
        return refuse(request, devices, count);
    for (uint32_t taken = 0; taken < request->gpus; taken++) {
        int64_t place = best_place(request, devices, count, out, taken);
        if (place < 0)
            return refuse(request, devices, count);
        out[taken] = (uint32_t)place;
    }
    return GB_OK;
}

/* Where the devices are: GABLE_LEASE, else GABLE_PROXIES; and which of them the program sees. */
#include "gpu-proxy/client/rc_config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/crypto/gb_crypto.h"
#include "common/lease/gb_lease.h"

static gb_status_t add(rc_targets_t *targets, const gb_endpoint_t *endpoint, uint64_t lease,
                       const gb_key_t *key)
{
    if (targets->count == RC_SESSIONS)
        return gb_fail(GB_ERR_LIMIT, "more than %d proxies", RC_SESSIONS);
    rc_target_t *target = &targets->list[targets->count++];
    memset(target, 0, sizeof(*target));
    target->endpoint = *endpoint;
    target->credential.service = GB_SERVICE_SESSION;
    target->credential.lease = lease;
    target->credential.key = *key;
    target->credential.insecure = gb_key_is_zero(key);
    return gb_random(&target->credential.session, sizeof(target->credential.session));
}

static gb_status_t from_lease(const char *path, rc_targets_t *targets)
{
    gb_lease_t lease;
    gb_status_t status = gb_lease_load(path, &lease);
    if (status)
        return status;
    if (gb_lease_expired(&lease, gb_wall_ms()))
        status = gb_fail(GB_ERR_UNAUTHORISED, "the lease in %s has expired: take a new one", path);
    for (size_t i = 0; i < lease.proxy_count && !status; i++)
        status = add(targets, &lease.proxies[i].endpoint, lease.id, &lease.proxies[i].key);
    gb_lease_free(&lease);
    return status;
}

static gb_status_t from_list(const char *list, rc_targets_t *targets)
{
    gb_key_t key = {{0}};
    const char *key_file = getenv("GABLE_KEY_FILE");
    gb_status_t status = key_file ? gb_key_load(key_file, &key) : GB_OK;
    while (status == GB_OK && *list) {
        char text[GB_ENDPOINT_TEXT];
        gb_endpoint_t endpoint;
        size_t size = strcspn(list, ",");
        if (size >= sizeof(text)) {
            status = gb_fail(GB_ERR_INVALID, "GABLE_PROXIES: an endpoint is too long");
        } else if (size > 0) {
            memcpy(text, list, size);
            text[size] = 0;
            status = gb_endpoint_parse(text, 7072, &endpoint);
            if (status == GB_OK)
                status = add(targets, &endpoint, 0, &key);
        }
        list += size + (list[size] == ',');
    }
    gb_wipe(&key, sizeof(key));
    return status;
}

gb_status_t rc_config_targets(rc_targets_t *out)
{
    const char *lease = getenv("GABLE_LEASE"), *list = getenv("GABLE_PROXIES");
    out->count = 0;
    gb_status_t status;
    if (lease && *lease)
        status = from_lease(lease, out);
    else if (list && *list)
        status = from_list(list, out);
    else
        status = gb_fail(GB_ERR_NOT_FOUND, "no remote GPUs are named: start the program with "
                                           "`gable run` or set GABLE_PROXIES");
    if (status == GB_OK && out->count == 0)
        status = gb_fail(GB_ERR_NOT_FOUND, "the lease or GABLE_PROXIES names no proxy");
    return status;
}

/* "GPU-8-4-4-4-12", or the beginning of one, compared without case. */
static int uuid_matches(const uint8_t *uuid, const char *text, size_t size)
{
    char full[48];
    size_t at = (size_t)snprintf(full, sizeof(full), "GPU-");
    for (int i = 0; i < 16; i++)
        at += (size_t)snprintf(full + at, sizeof(full) - at, "%s%02x",
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    return size > 4 && size <= at && strncasecmp(full, text, size) == 0;
}

static int find_device(const rc_device_t *all, int count, const char *text, size_t size)
{
    if (size > 0 && isdigit((unsigned char)text[0])) {
        char *end;
        long index = strtol(text, &end, 10);
        return end == text + size && index < count ? (int)index : -1;
    }
    for (int i = 0; i < count; i++)
        if (uuid_matches(all[i].info.uuid, text, size))
            return i;
    return -1;
}

int rc_config_visible(const rc_device_t *all, int count, int *order)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    int chosen = 0;
    if (!list) {
        for (int i = 0; i < count; i++)
            order[i] = i;
        return count;
    }
    while (*list && chosen < count) {
        list += strspn(list, " ");
        size_t size = strcspn(list, ",");
        size_t word = size;
        while (word > 0 && list[word - 1] == ' ')
            word--;
        int index = find_device(all, count, list, word);
        /* As CUDA has it: the first name that is none ends the list; a repetition hides all. */
        if (index < 0)
            break;
        for (int i = 0; i < chosen; i++)
            if (order[i] == index)
                return 0;
        order[chosen++] = index;
        list += size + (list[size] == ',');
    }
    return chosen;
}

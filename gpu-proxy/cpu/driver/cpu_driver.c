#include "gpu-proxy/cpu/driver/cpu_driver.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "common/core/gb_log.h"
#include "common/core/gb_opt.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"
#include "gpu-proxy/cpu/driver/cpu_sched.h"
#include "gpu-proxy/cpu/jit/cpu_code.h"

static cpu_driver_t the_driver;
static _Atomic(cpu_driver_t *) ready;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static CUresult outcome;

static CUresult bad_setting(const char *name, const char *value, const char *wanted)
{
    gb_log(GB_LOG_ERROR, "%s=%s is not %s: correct or unset it", name, value, wanted);
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult read_number(const char *name, int64_t low, int64_t high, const char *wanted,
                            int64_t *value)
{
    const char *text = getenv(name);
    int64_t number;
    if (!text || !*text)
        return CUDA_SUCCESS;
    if (gb_parse_int(text, &number) != GB_OK || number < low || number > high)
        return bad_setting(name, text, wanted);
    *value = number;
    return CUDA_SUCCESS;
}

/* Physical memory, or the control group's share of it. */
static uint64_t machine_memory(void)
{
    struct sysinfo info;
    unsigned long long limit;
    sysinfo(&info);
    uint64_t total = (uint64_t)info.totalram * info.mem_unit;
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "re");
    if (file) {
        if (fscanf(file, "%llu", &limit) == 1 && limit < total)
            total = limit;
        fclose(file);
    }
    return total;
}

static int usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        return CPU_COUNT(&set);
    return get_nprocs();
}

static CUresult read_config(cpu_config_t *config)
{
    int64_t threads = usable_cores(), devices = 1, width = 0, memory = 0, code = CPU_CODE_BYTES;
    CUresult result =
        read_number("GABLE_CPU_THREADS", 1, 1024, "a number from 1 to 1024", &threads);
    if (!result)
        result =
            read_number("GABLE_CPU_DEVICES", 1, CPU_MAX_DEVICES, "a number from 1 to 16", &devices);
    if (!result)
        result = read_number("GABLE_CPU_WIDTH", 0, 32, "1, 4, 8, 16 or 32", &width);
    if (!result)
        result = read_number("GABLE_CPU_MEMORY", 1 << 20, (int64_t)1 << 44,
                             "a size of at least 1M, such as 4G", &memory);
    if (!result)
        result =
            read_number("GABLE_CPU_CODE_BYTES", 0, (int64_t)1 << 44, "a size, such as 64M", &code);
    if (!result && width && width != 1 && width != 4 && width != 8 && width != 16 && width != 32)
        result = bad_setting("GABLE_CPU_WIDTH", getenv("GABLE_CPU_WIDTH"), "1, 4, 8, 16 or 32");
    if (result)
        return result;
    config->threads = (int)threads;
    config->devices = (int)devices;
    config->width = (unsigned)width;
    config->code_bytes = (uint64_t)code;
    config->memory = memory ? (uint64_t)memory : machine_memory() / 2 / (uint64_t)devices;
    config->memory &= ~(uint64_t)0xffff;
    const char *text = getenv("GABLE_CPU_SPEED");
    config->speed = 1.0;
    if (text && *text) {
        char *end;
        config->speed = strtod(text, &end);
        if (*end || !(config->speed >= 1.0 && config->speed <= 1000.0))
            return bad_setting("GABLE_CPU_SPEED", text, "a factor from 1 to 1000");
    }
    text = getenv("GABLE_CPU_CHECKS");
    if (text && strcmp(text, "off") && strcmp(text, "on"))
        return bad_setting("GABLE_CPU_CHECKS", text, "on or off");
    config->unchecked = text && strcmp(text, "off") == 0;
    text = getenv("GABLE_CPU_TARGET");
    if (cpu_target_name(text && *text ? text : NULL, &config->target) != GB_OK) {
        gb_log(GB_LOG_ERROR, "%s", gb_why());
        return CUDA_ERROR_NO_DEVICE;
    }
    return CUDA_SUCCESS;
}

/* The processor's name without its decoration. */
static void processor_name(char *out, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    snprintf(out, size, "x86-64");
    while (file && fgets(line, sizeof(line), file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon)
            continue;
        colon[strcspn(colon, "\n")] = 0;
        snprintf(out, size, "%.80s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    if (file)
        fclose(file);
}

static uint64_t fnv(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

/* The same for every process of this machine, different on other machines. */
static void make_uuid(int ordinal, const char *processor, CUuuid *uuid)
{
    char id[64] = "";
    FILE *file = fopen("/etc/machine-id", "re");
    if (file) {
        if (!fgets(id, sizeof(id), file))
            id[0] = 0;
        fclose(file);
    }
    if (!id[0])
        gethostname(id, sizeof(id) - 1);
    uint64_t high = fnv(fnv(0xcbf29ce484222325u, id), processor);
    uint64_t low = fnv(high, "gable") + (uint64_t)ordinal;
    memcpy(uuid->bytes, &high, 8);
    memcpy(uuid->bytes + 8, &low, 8);
    uuid->bytes[6] = (char)((uuid->bytes[6] & 0x0f) | 0x40); /* marked as RFC 4122, version 4 */
    uuid->bytes[8] = (char)((uuid->bytes[8] & 0x3f) | 0x80);
}

static void make_device(cpu_device_t *device, int ordinal, const cpu_config_t *config)
{
    char processor[96];
    processor_name(processor, sizeof(processor));
    device->ordinal = ordinal;
    pthread_mutex_init(&device->lock, NULL);
    snprintf(device->name, sizeof(device->name), "Gable CPU device (%s, %d %s)", processor,
             config->threads, config->threads == 1 ? "core" : "cores");
    make_uuid(ordinal, processor, &device->uuid);
}

static void format_uuid(const CUuuid *uuid, char out[48])
{
    int at = sprintf(out, "GPU-");
    for (int i = 0; i < 16; i++)
        at += sprintf(out + at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                      (unsigned char)uuid->bytes[i]);
}

/* The device that an item of CUDA_VISIBLE_DEVICES names: an index or the beginning of a UUID; -1. */
static int named_device(const char *item, const cpu_device_t *all, int count)
{
    char *end;
    char text[48];
    if (strncmp(item, "GPU-", 4) == 0) {
        int found = -1;
        for (int i = 0; i < count; i++) {
            format_uuid(&all[i].uuid, text);
            if (strncmp(text, item, strlen(item)) == 0) {
                if (found >= 0)
                    return -1; /* ambiguous */
                found = i;
            }
        }
        return found;
    }
    long number = strtol(item, &end, 10);
    return end != item && *end == 0 && number >= 0 && number < count ? (int)number : -1;
}

/* As CUDA: the list ends at the first name that fits no device; a repeated one empties it. */
static void select_visible(cpu_driver_t *driver, const cpu_device_t *all, int count)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    bool seen[CPU_MAX_DEVICES] = {false};
    driver->device_count = 0;
    if (!list) {
        for (int i = 0; i < count; i++)
            driver->devices[driver->device_count++] = all[i];
    }
    while (list && *list) {
        char item[64];
        size_t length = strcspn(list, ",");
        snprintf(item, sizeof(item), "%.*s", (int)(length < 63 ? length : 63), list);
        list += length + (list[length] == ',');
        int chosen = named_device(item + strspn(item, " "), all, count);
        if (chosen < 0)
            break;
        if (seen[chosen]) {
            driver->device_count = 0;
            break;
        }
        seen[chosen] = true;
        driver->devices[driver->device_count++] = all[chosen];
    }
    for (int i = 0; i < driver->device_count; i++)
        driver->devices[i].index = i;
}

/* Threads do not survive fork(), so neither does the driver. */
static void forget(void)
{
    atomic_store(&ready, NULL);
    outcome = CUDA_ERROR_NOT_INITIALIZED;
}

static void init(void)
{
    cpu_driver_t *driver = &the_driver;
    cpu_device_t all[CPU_MAX_DEVICES] = {{0}};
    outcome = read_config(&driver->config);
    if (outcome)
        return;
    for (int i = 0; i < driver->config.devices; i++)
        make_device(&all[i], i, &driver->config);
    select_visible(driver, all, driver->config.devices);
    if (driver->device_count == 0)
        outcome = CUDA_ERROR_NO_DEVICE;
    if (!outcome)
        outcome = cpu_memory_open(driver->device_count, driver->config.memory);
    if (!outcome)
        outcome = cpu_sched_start(driver->config.threads, driver->config.speed);
    if (outcome)
        return;
    pthread_atfork(NULL, NULL, forget);
    atomic_store(&ready, driver);
}

CUresult cpu_driver_init(unsigned flags)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_once(&once, init);
    return outcome;
}

cpu_driver_t *cpu_driver(void)
{
    return atomic_load_explicit(&ready, memory_order_acquire);
}

CUresult cpu_device_get(CUdevice ordinal, cpu_device_t **device)
{
    cpu_driver_t *driver = cpu_driver();
    if (!driver)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (ordinal < 0 || ordinal >= driver->device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = &driver->devices[ordinal];
    return CUDA_SUCCESS;
}

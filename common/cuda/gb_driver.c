#include "common/cuda/gb_driver.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "common/core/gb_path.h"
#include "common/cuda/gb_identity.h"

static CUresult not_there(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

void gb_cuda_table_defaults(gb_cuda_table_t *table)
{
    void (**slot)(void) = (void (**)(void))table;
    for (int i = 0; i < GB_CUDA_TABLE_COUNT; i++)
        slot[i] = (void (*)(void))not_there;
}

static unsigned fill(void *handle, gb_cuda_table_t *table)
{
    void (**slot)(void) = (void (**)(void))table;
    unsigned found = 0;
    gb_cuda_table_defaults(table);
    for (int i = 0; i < GB_CUDA_TABLE_COUNT; i++) {
        void (*symbol)(void) = (void (*)(void))dlsym(handle, gb_cuda_table_names[i]);
        if (!symbol && gb_cuda_table_older[i])
            symbol = (void (*)(void))dlsym(handle, gb_cuda_table_older[i]);
        if (symbol) {
            slot[i] = symbol;
            found++;
        }
    }
    return found;
}

/* A table is valid for ever, so that every driver is held until the process ends. */
static void keep(gb_driver_t *driver)
{
    typedef struct held {
        struct held *next;
        gb_driver_t *driver;
    } held_t;
    static _Atomic(held_t *) all;
    held_t *entry = malloc(sizeof(*entry));
    if (!entry)
        return; /* nothing depends on the list */
    entry->driver = driver;
    entry->next = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &entry->next, entry))
        continue;
}

static void identify(gb_driver_t *driver)
{
    const void *table = NULL;
    driver->kind = GB_DRIVER_NVIDIA;
    driver->kind_name = "nvidia";
    if (driver->table.cuGetExportTable(&table, &gb_identity_uuid) || !table)
        return;
    const gb_identity_t *identity = table;
    driver->kind = strcmp(identity->kind, "gable-remote") == 0 ? GB_DRIVER_REMOTE : GB_DRIVER_CPU;
    driver->kind_name = identity->kind;
    driver->leave = identity->version >= 2 ? identity->leave : NULL;
}

void gb_driver_leave(const gb_driver_t *driver)
{
    if (driver && driver->leave)
        driver->leave();
}

gb_status_t gb_driver_open(const char *path, const gb_driver_t **out)
{
    gb_driver_t *driver = calloc(1, sizeof(*driver));
    if (!driver)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    gb_status_t status;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        status = gb_fail(GB_ERR_NOT_FOUND, "cannot load the CUDA driver: %s", dlerror());
        goto err_free;
    }
    if (fill(handle, &driver->table) == 0) {
        status = gb_fail(GB_ERR_FORMAT, "%s is no CUDA driver library", path);
        goto err_close;
    }
    snprintf(driver->path, sizeof(driver->path), "%s", path);
    identify(driver);
    keep(driver);
    *out = driver;
    return GB_OK;
err_close:
    dlclose(handle);
err_free:
    free(driver);
    return status;
}

static gb_status_t open_installed(const char *relative, const gb_driver_t **out)
{
    char path[512];
    gb_status_t status = gb_path_installed(relative, path, sizeof(path));
    return status ? status : gb_driver_open(path, out);
}

/* The plain name first, as any program would find it; then where distributions keep NVIDIA's, because
 * the plain name may lead to the shim. */
static gb_status_t open_nvidia(const gb_driver_t **out)
{
    static const char *const places[] = {"libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
                                         "/usr/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1",
                                         "/usr/local/nvidia/lib64/libcuda.so.1"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const gb_driver_t *driver;
        if (gb_driver_open(places[i], &driver) == GB_OK && driver->kind == GB_DRIVER_NVIDIA) {
            *out = driver;
            return GB_OK;
        }
    }
    return gb_fail(
        GB_ERR_NOT_FOUND,
        "NVIDIA's libcuda.so.1 is not installed: install the driver or use --driver=cpu");
}

gb_status_t gb_driver_choose(const char *choice, const gb_driver_t **out)
{
    if (strcmp(choice, "cpu") == 0)
        return open_installed("lib/gable/cpu/libcuda.so.1", out);
    if (strcmp(choice, "remote") == 0)
        return open_installed("lib/gable/remote/libcuda.so.1", out);
    if (strcmp(choice, "nvidia") == 0)
        return open_nvidia(out);
    if (strcmp(choice, "auto") == 0) {
        const gb_driver_t *driver;
        int count = 0;
        if (open_nvidia(&driver) == GB_OK && driver->table.cuInit(0) == CUDA_SUCCESS &&
            driver->table.cuDeviceGetCount(&count) == CUDA_SUCCESS && count > 0) {
            *out = driver;
            return GB_OK;
        }
        return open_installed("lib/gable/cpu/libcuda.so.1", out);
    }
    return gb_driver_open(choice, out);
}

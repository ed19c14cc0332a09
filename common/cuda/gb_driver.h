/* gb_driver.h - a CUDA driver library, opened by path.
 *
 * Nothing of ours links libcuda: programs open one and call through its table. Opening never calls
 * cuInit. Thread-safe; a driver stays loaded until the process ends (CUDA libraries do not unload
 * cleanly), so a table is valid for ever. */
#ifndef GB_DRIVER_H
#define GB_DRIVER_H

#include "common/core/gb_status.h"
#include "gb_cuda_table.h"

typedef enum {
    GB_DRIVER_NVIDIA, /* no identity of ours: taken for NVIDIA's */
    GB_DRIVER_CPU,    /* the software device */
    GB_DRIVER_REMOTE, /* the shim */
} gb_driver_kind_t;

typedef struct {
    gb_driver_kind_t kind;
    const char *kind_name; /* "nvidia", "gable-cpu", "gable-remote" */
    char path[512];
    void (*leave)(void);   /* NULL: nothing to end */
    gb_cuda_table_t table; /* no NULL: what the library lacks answers CUDA_ERROR_NOT_SUPPORTED */
} gb_driver_t;

/* Opens the library at `path` (a plain name is searched as dlopen does). Symbols it does not have are
 * filled with defaults. GB_ERR_NOT_FOUND: no such file or not loadable; GB_ERR_FORMAT: no libcuda. */
gb_status_t gb_driver_open(const char *path, const gb_driver_t **out);

/* Opens by choice: "cpu" (the software device of this installation), "remote" (its shim), "nvidia",
 * "auto" (NVIDIA's if it finds a device, else the software device) or a path. "auto" and "nvidia" never
 * take the shim. */
gb_status_t gb_driver_choose(const char *choice, const gb_driver_t **out);

/* Ends what the driver has over the network, before the process does: leases can be given back then. Its
 * calls fail from here on. Does nothing for other drivers and NULL. */
void gb_driver_leave(const gb_driver_t *driver);

/* Fills a table with the defaults: every entry answers CUDA_ERROR_NOT_SUPPORTED. */
void gb_cuda_table_defaults(gb_cuda_table_t *table);

#endif

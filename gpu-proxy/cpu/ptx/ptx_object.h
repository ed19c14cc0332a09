/* ptx_object.h - finds the fat binaries in what a host compiler and an archiver make: object files and
 * programs (ELF) with the sections that nvcc fills, and libraries (.a) of them. Bytes need not be
 * trusted. Thread-safe; calls share nothing. */
#ifndef PTX_OBJECT_H
#define PTX_OBJECT_H

#include <stddef.h>

#include "common/core/gb_status.h"

/* Called for each image (fat binary, or PTX text that is a library's member by itself) in `size`
 * bytes at `data`, within the file's bytes. `member` is the library's member ("" if the file is no
 * library), valid during the call. An error ends the walk. */
typedef gb_status_t (*ptx_object_visit_fn)(void *arg, const char *member, const void *data,
                                           size_t size);

/* GB_ERR_NOT_FOUND: there is no image in it; GB_ERR_FORMAT: damaged; or what `visit` gives. */
gb_status_t ptx_object_visit(const void *data, size_t size, ptx_object_visit_fn visit, void *arg);

#endif

/* gb_path.h - where the installed files of this tree are, seen from the running program. */
#ifndef GB_PATH_H
#define GB_PATH_H

#include <stddef.h>

#include "common/core/gb_status.h"

/* Path of `relative` (e.g. "lib/gable/cpu/libcuda.so.1", "bin/gpu-session") in the installation
 * that the running executable belongs to: GABLE_HOME if set, else the parent of the nearest folder
 * named bin, tests or bench above /proc/self/exe. GB_ERR_NOT_FOUND if no such file is there,
 * GB_ERR_LIMIT if `size` is too small. */
gb_status_t gb_path_installed(const char *relative, char *out, size_t size);

/* "$XDG_CACHE_HOME/gable", else "$HOME/.cache/gable", else "/tmp/gable-<uid>"; created with mode
 * 0700 if missing. */
gb_status_t gb_path_cache_dir(char *out, size_t size);

#endif

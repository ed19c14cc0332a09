/* Opens the compiler's library when the first kernel must be compiled. */
#include "gpu-proxy/cpu/jit/jit.h"

#include "common/core/gb_path.h"

#include <dlfcn.h>
#include <limits.h>
#include <string.h>

gb_status_t cpu_jit_open(const char *path, cpu_jit_compile_fn *compile)
{
    char found[PATH_MAX];
    if (path == NULL) {
        gb_status_t st = gb_path_installed("lib/gable/cpu/libgable-jit.so", found, sizeof found);
        if (st != GB_OK) {
            return st;
        }
        path = found;
    }
    int flags = RTLD_NOW | RTLD_LOCAL;
#ifndef GABLE_SANITIZED
    flags |= RTLD_DEEPBIND; /* the host program may export LLVM symbols of another version */
#endif
    void *library = dlopen(path, flags);
    if (library == NULL) {
        return gb_fail(GB_ERR_NOT_FOUND, "cannot open the kernel compiler: %s", dlerror());
    }
    void *symbol = dlsym(library, "cpu_jit_compile");
    if (symbol == NULL) {
        dlclose(library);
        return gb_fail(GB_ERR_FORMAT, "%s is not Gable's kernel compiler: reinstall it", path);
    }
    memcpy(compile, &symbol, sizeof symbol); /* stays open: LLVM cannot be unloaded cleanly */
    return GB_OK;
}

/* cpu_library.h - libraries and kernels: modules that belong to no context, and become modules of each
 * context in which they are used. Thread-safe. */
#ifndef CPU_LIBRARY_H
#define CPU_LIBRARY_H

#include "gpu-proxy/cpu/driver/cpu_module.h"

typedef struct cpu_library cpu_library_t;

typedef struct cpu_kernel {
    cpu_object_t object;
    cpu_library_t *library; /* referenced */
    uint32_t index;         /* in the PTX */
} cpu_kernel_t;

/* The library of a context: contexts that are gone are forgotten when the next one comes. */
typedef struct cpu_instance {
    struct cpu_instance *next;
    cpu_module_t *module; /* referenced */
} cpu_instance_t;

struct cpu_library {
    cpu_object_t object;
    cpu_image_t *image;   /* referenced */
    pthread_mutex_t lock; /* of the following */
    cpu_instance_t *instances;
    cpu_managed_t *managed; /* of all instances; referenced; NULL: none is loaded, or it has none */
    cpu_kernel_t **kernels; /* by index, made when asked for; the handle table holds them */
};

/* A new library, entered in the handle table. Takes a reference to the image. */
CUresult cpu_library_open(cpu_image_t *image, cpu_library_t **library);

/* Ends it: its kernels and its modules everywhere. CUDA_ERROR_INVALID_HANDLE if it is gone. */
CUresult cpu_library_close(CUlibrary handle);

/* With a reference. CUDA_ERROR_INVALID_HANDLE. */
CUresult cpu_library_get(CUlibrary handle, cpu_library_t **library);

/* The library's module in a context, loaded if need be; with a reference. */
CUresult cpu_library_module(cpu_library_t *library, cpu_context_t *context, cpu_module_t **module);

/* Handle of the kernel with that index in the PTX. */
CUresult cpu_library_kernel(cpu_library_t *library, uint32_t index, CUkernel *kernel);

/* A kernel's function in a context; with a reference. CUDA_ERROR_INVALID_HANDLE. */
CUresult cpu_kernel_function(CUkernel handle, cpu_context_t *context, cpu_function_t **function);

/* The library and index of a kernel; the library with a reference. CUDA_ERROR_INVALID_HANDLE. */
CUresult cpu_kernel_get(CUkernel handle, cpu_library_t **library, uint32_t *index);

#endif

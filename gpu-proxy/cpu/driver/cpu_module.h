/* cpu_module.h - modules and functions of a context. Thread-safe.
 *
 * A module owns its variables' memory. Functions are made when first asked for, and live as long as
 * the module or a launch that uses them. */
#ifndef CPU_MODULE_H
#define CPU_MODULE_H

#include "gpu-proxy/cpu/driver/cpu_context.h"
#include "gpu-proxy/cpu/driver/cpu_image.h"
#include "gpu-proxy/cpu/driver/cpu_managed.h"
#include "gpu-proxy/cpu/driver/cpu_texref.h"
#include "gpu-proxy/cpu/jit/cpu_code.h"

/* A function compiled for one class of block shapes. What launches read of it never changes. */
typedef struct cpu_variant {
    _Atomic(struct cpu_variant *) next; /* of the function */
    cpu_shape_t shape;
    cpu_code_t *code;
    uint64_t *globals; /* addresses in the order of the code's symbols */
    /* of cpu_code_cache.h */
    struct cpu_function *function;
    struct cpu_variant *next_listed, *previous_listed;
    /* Written by each launch: away from what kernels that run are read from. */
    alignas(CPU_LINE) atomic_uint holders; /* launches that may run it */
    _Atomic uint64_t used;                 /* id of the last launch, never 0 */
} cpu_variant_t;

typedef struct cpu_function {
    cpu_object_t object;
    atomic_uint lookers; /* threads that walk the variants, see cpu_code_cache.c */
    alignas(CPU_LINE) cpu_module_t *module; /* referenced */
    uint32_t index;                         /* in the module's PTX */
    const ptx_function_t *ptx;
    pthread_mutex_t lock; /* of compiling, and of attributes */
    _Atomic(cpu_variant_t *) variants;
    unsigned variant_count;
    atomic_int max_dynamic_shared; /* bytes; CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
    atomic_int carveout;
    atomic_int cache_config;
} cpu_function_t;

struct cpu_module {
    cpu_object_t object;
    cpu_context_t *context; /* referenced */
    cpu_image_t *image;     /* referenced */
    uint64_t *addresses;    /* of the PTX module's variables; 0: none */
    uint64_t block;         /* memory of its variables; 0: none */
    cpu_managed_t *managed; /* referenced: memory of its managed variables; NULL: none */
    pthread_mutex_t lock;
    cpu_function_t **functions; /* by index; not referenced: a function's end clears its place */
    cpu_texref_t *
        *references;    /* texture and surface references by variable; NULL: there are none */
    cpu_module_t *next; /* of the context */
};

/* A new module of the context, entered in the handle table and in the context's list, which holds the
 * references. Takes a reference to the image. Variables are initialised. Managed variables are those in
 * `managed`, which are initialised already; NULL: the module makes its own. */
CUresult cpu_module_open(cpu_context_t *context, cpu_image_t *image, cpu_managed_t *managed,
                         cpu_image_log_t *log, cpu_module_t **module);

/* Unloads: handles of the module and its functions become invalid, memory goes. */
CUresult cpu_module_close(cpu_module_t *module);

/* Unloads all modules of the context. */
void cpu_module_close_all(cpu_context_t *context);

/* The context of a module or function object. */
const cpu_context_t *cpu_module_context(const cpu_object_t *object);

/* The module behind a handle, with a reference. CUDA_ERROR_INVALID_HANDLE, or the state of its
 * context. */
CUresult cpu_module_get(CUmodule handle, cpu_module_t **module);

/* The kernel of that name, with a reference. CUDA_ERROR_NOT_FOUND. */
CUresult cpu_module_function(cpu_module_t *module, const char *name, cpu_function_t **function);

/* Kernels of the module: how many, and the name of each. */
uint32_t cpu_image_kernels(const cpu_image_t *image);
uint32_t cpu_image_kernel(const cpu_image_t *image, uint32_t n);

/* A variable of global or constant space. CUDA_ERROR_NOT_FOUND. */
CUresult cpu_module_variable(cpu_module_t *module, const char *name, uint64_t *address,
                             uint64_t *bytes);

/* Opaque variables (cpu_module_refs.c): made when memory is there, ended with the module. */
CUresult cpu_module_open_references(cpu_module_t *module);
void cpu_module_close_references(cpu_module_t *module);

/* The handle of a texture or surface reference. CUDA_ERROR_NOT_FOUND. */
CUresult cpu_module_reference(cpu_module_t *module, const char *name, cpu_texture_kind_t kind,
                              uint64_t *handle);

/* The function behind a CUfunction, or behind a CUkernel in the current context `context`; with a
 * reference. CUDA_ERROR_INVALID_HANDLE, or the state of its context. */
CUresult cpu_function_get(cpu_context_t *context, CUfunction handle, cpu_function_t **function);

/* Code that serves the block, from memory, from disk or compiled now. It stays until the caller gives
 * it back. */
CUresult cpu_function_variant(cpu_function_t *function, const uint32_t block[3],
                              cpu_variant_t **variant);
void cpu_variant_put(cpu_variant_t *variant);
void cpu_variant_put_many(cpu_variant_t *variant, unsigned count);

/* Static shared memory and parameter bytes come from ->ptx. Threads per block at most: */
int cpu_function_max_threads(const cpu_function_t *function);
/* Bytes of static shared memory as users see them: without what is reserved for system software. */
uint64_t cpu_function_static_shared(const cpu_function_t *function);

#endif

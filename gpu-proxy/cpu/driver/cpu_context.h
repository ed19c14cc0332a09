/* cpu_context.h - CUDA contexts: who owns streams, events, modules and memory, and what has failed.
 *
 * A context object stays in memory as long as anything refers to it; once it is destroyed it is dead
 * and every call on it answers CUDA_ERROR_CONTEXT_IS_DESTROYED. Thread-safe. */
#ifndef CPU_CONTEXT_H
#define CPU_CONTEXT_H

#include <pthread.h>

#include "gpu-proxy/cpu/driver/cpu_console.h"
#include "gpu-proxy/cpu/driver/cpu_driver.h"
#include "gpu-proxy/cpu/driver/cpu_kernel_heap.h"
#include "gpu-proxy/cpu/driver/cpu_sched.h"
#include "gpu-proxy/cpu/jit/cpu_code.h"

typedef struct cpu_module cpu_module_t;

enum { CPU_LIMITS = 8 };

struct cpu_context {
    cpu_object_t object;
    cpu_device_t *device;
    cpu_lanes_t lanes;
    cpu_console_t console;
    cpu_kernel_heap_t heap;
    atomic_bool dead;
    bool primary;
    atomic_uint attached; /* calls of cuCtxAttach, less those of cuCtxDetach */
    uint64_t id;
    pthread_mutex_t lock; /* of the following */
    unsigned flags;
    uint64_t limits[CPU_LIMITS]; /* as set; by CUlimit */
    CUfunc_cache cache_config;
    CUsharedconfig shared_config;
    uint32_t peers;        /* bit per device index: peer access was enabled */
    cpu_module_t *modules; /* linked; each with a reference */
};

/* A new context; the caller has the only reference and enters it into the handle table. */
CUresult cpu_context_open(cpu_device_t *device, unsigned flags, bool primary,
                          cpu_context_t **context);

/* Ends the context: kernels leave, queues drain, memory, modules and handles go. Only the first
 * call does it; returns false for the others. */
bool cpu_context_close(cpu_context_t *context);

static inline bool cpu_context_alive(const cpu_context_t *context)
{
    return !atomic_load_explicit(&context->dead, memory_order_acquire);
}

/* cpu_services.c: what kernels may ask for; the user's pointer is the context. */
const cpu_services_t *cpu_context_services(void);

/* Bytes of stack for a thread of a kernel that recurses: from CU_LIMIT_STACK_SIZE. */
uint64_t cpu_context_stack(cpu_context_t *context);

/* CUDA_SUCCESS, CUDA_ERROR_CONTEXT_IS_DESTROYED or the context's fault. */
CUresult cpu_context_state(const cpu_context_t *context);

/* The context behind a handle, with a reference. CUDA_ERROR_INVALID_CONTEXT if there is none. */
CUresult cpu_context_get(CUcontext handle, cpu_context_t **context);

/* The device's primary context, made if need be, with a reference; counts a retain. */
CUresult cpu_primary_retain(cpu_device_t *device, cpu_context_t **context);

/* Counts a release; the last one closes the context. CUDA_ERROR_INVALID_CONTEXT without a retain. */
CUresult cpu_primary_release(cpu_device_t *device);

/* Closes the context whatever its count, which stays as it is: a reset does not release. */
void cpu_primary_reset(cpu_device_t *device);

#endif

/* cpu_graph_memory.h - memory that graphs allocate and free.
 *
 * The address is there from the making of the node on, and stays the same in every launch. Launching
 * decides, in the order of the calls, whether the memory is in use: an allocation that is in use
 * already, or a free of what is not, is an error of the launch. The pages are the device's as long as a
 * graph names them or they are in use, and until the work that was launched with them is done.
 * Thread-safe. */
#ifndef CPU_GRAPH_MEMORY_H
#define CPU_GRAPH_MEMORY_H

#include "gpu-proxy/cpu/driver/cpu_context.h"

typedef struct cpu_graph_memory {
    cpu_object_t object; /* has no handle */
    int device;
    uint64_t base, bytes, id; /* id: of the entry in cpu_memory.h */
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    const cpu_context_t *context; /* not referenced; NULL: it has ended, with the memory */
    /* Under the lock of all: */
    bool live;          /* allocated by a launch and not freed since */
    bool will;          /* scratch: after the launch that is looked at */
    unsigned instances; /* executable graphs that allocate it */
    struct cpu_graph_memory *next, *previous;
} cpu_graph_memory_t;

/* What a launch does to one memory. */
typedef struct {
    cpu_graph_memory_t *memory;
    bool frees;
} cpu_graph_memory_step_t;

/* Memory on the device for one allocation node, with a reference. CUDA_ERROR_INVALID_VALUE,
 * _OUT_OF_MEMORY. params->dptr is set. */
CUresult cpu_graph_memory_make(cpu_context_t *context, CUDA_MEM_ALLOC_NODE_PARAMS *params,
                               cpu_graph_memory_t **memory);

/* That which begins at the address, with a reference; NULL: none does. */
cpu_graph_memory_t *cpu_graph_memory_at(uint64_t base);

/* Does the steps of a launch, in order, or none. `auto_free`: what is in use is freed before it is
 * allocated again. CUDA_ERROR_INVALID_VALUE. */
CUresult cpu_graph_memory_launch(const cpu_graph_memory_step_t *steps, size_t count,
                                 bool auto_free);

/* Keeps the memory until the stream has done what it has now. */
CUresult cpu_graph_memory_hold(cpu_graph_memory_t *memory, cpu_stream_t *stream);

/* An executable graph that allocates it comes (false: there is one already) or goes. */
bool cpu_graph_memory_instantiate(cpu_graph_memory_t *memory);
void cpu_graph_memory_end_instance(cpu_graph_memory_t *memory);

/* The context ends. */
void cpu_graph_memory_forget_context(const cpu_context_t *context);

/* Of a device; setting only resets the high-water marks. CUDA_ERROR_INVALID_VALUE. */
CUresult cpu_graph_memory_attribute(int device, CUgraphMem_attribute attribute, uint64_t *value);
CUresult cpu_graph_memory_reset(int device, CUgraphMem_attribute attribute, uint64_t value);

#endif

/* cpu_work.h - what a graph's node does: the same operations that streams take, kept to be queued many
 * times. */
#ifndef CPU_WORK_H
#define CPU_WORK_H

#include "gpu-proxy/cpu/driver/cpu_event.h"
#include "gpu-proxy/cpu/driver/cpu_graph_memory.h"
#include "gpu-proxy/cpu/driver/cpu_launch.h"

typedef struct cpu_graph cpu_graph_t;

typedef struct {
    cpu_function_t *function; /* referenced */
    CUfunction func;          /* as the program gave it; NULL if it gave a kernel */
    CUkernel kern;
    cpu_shape_of_launch_t shape;
    int priority;
    size_t param_bytes;
    void **pointers; /* into `params`, one per parameter, for who asks */
    uint8_t *params; /* packed */
} cpu_kernel_work_t;

typedef struct {
    CUDA_MEMCPY3D copy; /* memory is read and written when the node runs */
} cpu_copy_work_t;

typedef struct {
    CUDA_MEMSET_NODE_PARAMS fill;
} cpu_fill_work_t;

typedef struct {
    CUstreamBatchMemOpParams *ops;
    unsigned count;
} cpu_values_work_t;

/* Owns what it points at. */
typedef struct {
    CUgraphNodeType type;
    cpu_context_t *context; /* referenced; NULL if it needs none */
    union {
        cpu_kernel_work_t kernel;
        cpu_copy_work_t copy;
        cpu_fill_work_t fill;
        CUDA_HOST_NODE_PARAMS host;
        cpu_graph_t *child; /* referenced, nobody else's */
        cpu_event_t *event; /* referenced */
        cpu_values_work_t values;
        cpu_graph_memory_t *memory; /* referenced; of an allocation or a free */
    };
} cpu_work_t;

/* Each makes a work from what the driver API describes, checked as the call for a stream would be;
 * `context` is the one it belongs to. On an error nothing is owned. */
CUresult cpu_work_kernel(cpu_context_t *context, const CUDA_KERNEL_NODE_PARAMS *params,
                         cpu_work_t *work);
CUresult cpu_work_copy(cpu_context_t *context, const CUDA_MEMCPY3D *copy, cpu_work_t *work);
CUresult cpu_work_fill(cpu_context_t *context, const CUDA_MEMSET_NODE_PARAMS *fill,
                       cpu_work_t *work);
CUresult cpu_work_host(const CUDA_HOST_NODE_PARAMS *host, cpu_work_t *work);
CUresult cpu_work_event(CUgraphNodeType type, CUevent event, cpu_work_t *work);
CUresult cpu_work_values(cpu_context_t *context, const CUstreamBatchMemOpParams *ops,
                         unsigned count, cpu_work_t *work);
void cpu_work_empty(cpu_work_t *work);

/* Memory of graphs; an allocation sets params->dptr, and belongs to the current context. A free names
 * what an allocation gave. */
CUresult cpu_work_mem_alloc(CUDA_MEM_ALLOC_NODE_PARAMS *params, cpu_work_t *work);
CUresult cpu_work_mem_free(uint64_t base, cpu_work_t *work);

/* A kernel that is launched already: for capture. */
CUresult cpu_work_launch(cpu_function_t *function, CUfunction handle,
                         const cpu_shape_of_launch_t *shape, void **params, void **extra,
                         cpu_work_t *work);

/* A copy of it; child graphs are cloned. */
CUresult cpu_work_clone(const cpu_work_t *work, cpu_work_t *copy);

/* Attributes that a kernel's parameters do not have stay as they are when those are set anew. */
void cpu_work_keep_attributes(cpu_work_t *work, const cpu_work_t *old);

/* Whether both copies are between the same kinds of memory: the program's, or the device's. */
bool cpu_work_same_sides(const cpu_work_t *a, const cpu_work_t *b);

/* Drops what it owns. */
void cpu_work_drop(cpu_work_t *work);

/* Queues it in the stream; child graphs are not for this. */
CUresult cpu_work_submit(const cpu_work_t *work, cpu_stream_t *stream);

/* A kernel's launch, to be queued with cpu_launch_submit. */
CUresult cpu_work_make_launch(const cpu_kernel_work_t *kernel, cpu_stream_t *stream, cpu_op_t **op);

#endif

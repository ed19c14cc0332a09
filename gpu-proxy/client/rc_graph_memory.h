/* rc_graph_memory.h - memory that graphs allocate and free.
 *
 * The address is there from the making of the node on, and stays the same in every launch; the session has
 * the memory as long as a graph names it or it is in use, and gives it to nobody else before the work that
 * was launched with it is done. Launching decides, in the order of the calls, whether the memory is in use;
 * at the session these nodes do nothing. With rc_graph_lock held, unless said otherwise. */
#ifndef RC_GRAPH_MEMORY_H
#define RC_GRAPH_MEMORY_H

#include "gpu-proxy/client/rc_call.h"

typedef struct rc_graph_memory {
    struct rc_graph_memory *next;
    unsigned refs;
    rc_device_t *device;
    CUcontext context; /* it goes with this */
    uint64_t base, bytes;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    int live;      /* allocated by a launch and not freed since */
    int will;      /* scratch: after the launch that is looked at */
    int instances; /* executable graphs that allocate it: 0 or 1 */
} rc_graph_memory_t;

/* What a launch does to one memory. */
typedef struct {
    rc_graph_memory_t *memory;
    int frees;
} rc_memory_step_t;

/* Memory for one allocation node, with a reference; params->dptr is set. Without the lock: asks the session.
 * CUDA_ERROR_INVALID_VALUE, _INVALID_DEVICE, _OUT_OF_MEMORY. */
CUresult rc_graph_memory_make(rc_call_t *call, CUDA_MEM_ALLOC_NODE_PARAMS *params,
                              rc_graph_memory_t **memory);
/* That which begins at the address; NULL: none does. */
rc_graph_memory_t *rc_graph_memory_at(uint64_t base);
void rc_graph_memory_put(rc_graph_memory_t *memory);

/* Does the steps of a launch, in order, or none. `auto_free`: what is in use is freed before it is allocated
 * again. CUDA_ERROR_INVALID_VALUE. */
CUresult rc_graph_memory_launch(const rc_memory_step_t *steps, size_t count, int auto_free);

/* A free outside of graphs, of memory that one has left allocated. 0: it is none. Takes the lock itself. */
int rc_graph_memory_free(uint64_t base, CUresult *result);

/* The context is gone, with its memory. Takes the lock itself. */
void rc_graph_memory_forget_context(const rc_object_t *context);

CUresult rc_graph_memory_attribute(const rc_device_t *device, CUgraphMem_attribute attribute,
                                   uint64_t *value);
CUresult rc_graph_memory_reset(const rc_device_t *device, CUgraphMem_attribute attribute,
                               uint64_t value);

#endif

/* rc_work.h - what a graph's node does, as the client keeps it until the graph is instantiated: the same
 * operations that streams take, checked like them when the node is made. */
#ifndef RC_WORK_H
#define RC_WORK_H

#include "gpu-proxy/client/rc_call.h"
#include "proto/px_wire_graph.h"

typedef struct rc_graph rc_graph_t;

typedef struct {
    CUfunction func; /* as the program gave it; NULL if it gave a kernel */
    CUkernel kern;
    px_wire_launch_t launch; /* without a stream */
    int priority;
    uint32_t count;  /* parameters */
    void **pointers; /* into `params`, one for each, for who asks */
    uint8_t *params; /* packed, launch.params bytes */
} rc_kernel_work_t;

typedef struct {
    CUstreamBatchMemOpParams *ops;
    uint32_t count;
} rc_values_work_t;

/* Owns what it points at. */
typedef struct {
    CUgraphNodeType type;
    CUcontext context; /* it belongs to; NULL if it needs none */
    union {
        rc_kernel_work_t kernel;
        CUDA_MEMCPY3D copy; /* memory is read and written when the node runs */
        CUDA_MEMSET_NODE_PARAMS fill;
        CUDA_HOST_NODE_PARAMS host;
        rc_graph_t *child; /* nobody else's */
        CUevent event;
        struct rc_graph_memory *memory; /* referenced */
        rc_values_work_t values;
    };
} rc_work_t;

/* Each makes a work of what the driver API describes; `call` has begun. A NULL context is the current
 * one. On an error nothing is owned. Without rc_graph_lock: a kernel may have to be loaded. */
CUresult rc_work_kernel(rc_call_t *call, const CUDA_KERNEL_NODE_PARAMS *params, rc_work_t *work);
CUresult rc_work_copy(rc_call_t *call, const CUDA_MEMCPY3D *copy, CUcontext context,
                      rc_work_t *work);
CUresult rc_work_fill(rc_call_t *call, const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context,
                      rc_work_t *work);
CUresult rc_work_host(const CUDA_HOST_NODE_PARAMS *host, rc_work_t *work);
CUresult rc_work_event(CUgraphNodeType type, CUevent event, rc_work_t *work);
CUresult rc_work_values(rc_call_t *call, const CUDA_BATCH_MEM_OP_NODE_PARAMS *values,
                        rc_work_t *work);
void rc_work_empty(rc_work_t *work);
/* Asks the session for the memory; params->dptr is where it lies. */
CUresult rc_work_mem_alloc(rc_call_t *call, CUDA_MEM_ALLOC_NODE_PARAMS *params, rc_work_t *work);
/* With rc_graph_lock held. CUDA_ERROR_INVALID_VALUE: no graph's memory begins there. */
CUresult rc_work_mem_free(uint64_t address, rc_work_t *work);

/* A launch that has been checked and packed: for capture. */
CUresult rc_work_launch(rc_object_t *context, const rc_function_t *function,
                        const px_wire_launch_t *launch, const void *params, rc_work_t *work);

/* A copy of it; child graphs are cloned. With rc_graph_lock held. */
CUresult rc_work_clone(const rc_work_t *work, rc_work_t *copy);

/* Attributes that a kernel's parameters do not have stay as they are when those are set anew. */
void rc_work_keep_attributes(rc_work_t *work, const rc_work_t *old);

/* Drops what it owns. With rc_graph_lock held if it is a child graph, or memory. */
void rc_work_drop(rc_work_t *work);

/* Do both do the same? Child graphs are not for this. */
int rc_work_same(const rc_work_t *a, const rc_work_t *b);

/* The two sides of a copy: addresses of the first bytes, and whether they are the program's memory. */
typedef struct {
    uint64_t dst, dst_pitch, dst_height;
    uint64_t src, src_pitch, src_height;
    uint64_t width, height, depth; /* bytes, rows, layers; a width of 0 is nothing to copy */
    uint64_t dst_array, src_array; /* numbers of arrays that are sides; 0: none */
    uint64_t dst_at[3], src_at[3]; /* where in those: bytes, rows, layers */
    int dst_host, src_host;
} rc_copy_sides_t;

/* As the memory is now: CUDA_ERROR_INVALID_VALUE if some of it is gone since. */
CUresult rc_work_sides(const rc_work_t *work, rc_copy_sides_t *out);

/* What a node's frame says about the work: its body, and the priority. */
typedef struct {
    const void *head; /* fixed part */
    size_t head_size;
    const void *tail; /* the rest, in the work */
    size_t tail_size;
    int32_t priority;
    union {
        px_wire_launch_t launch;
        px_wire_graph_copy_t copy;
        px_wire_graph_fill_t fill;
        px_wire_value_t values[PX_WIRE_VALUES];
        uint64_t number; /* of an event; of a token */
    };
    uint32_t type; /* on the wire */
} rc_work_body_t;

/* `body` points into itself and into the work. `token` names the client's part of it, if it has one.
 * CUDA_ERROR_INVALID_HANDLE: the work's event is gone. */
CUresult rc_work_encode(const rc_work_t *work, uint64_t token, rc_work_body_t *body);

#endif

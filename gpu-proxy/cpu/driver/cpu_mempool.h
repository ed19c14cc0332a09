/* cpu_mempool.h - memory pools and stream-ordered allocation.
 *
 * Memory of a pool is the device's as any other: it is there from the call on, and goes when the stream
 * has come to the free, so that nothing is kept in reserve. A pool counts what is allocated from it.
 * Thread-safe. */
#ifndef CPU_MEMPOOL_H
#define CPU_MEMPOOL_H

#include "gpu-proxy/cpu/driver/cpu_context.h"
#include "gpu-proxy/cpu/driver/cpu_ipc.h"

typedef struct cpu_mempool {
    cpu_object_t object;
    int device;      /* index in the driver's table */
    bool is_default; /* of the device: cannot be destroyed */
    bool imported;   /* of another process: gives out nothing itself */
    int fd;          /* names it to other processes; -1: it is not for them */
    uint8_t name[16];
    uint64_t most; /* bytes that it may hand out; 0: as many as there are */
    /* Under the pools' lock: */
    uint64_t used, used_high, reserved_high;
    uint64_t threshold; /* CU_MEMPOOL_ATTR_RELEASE_THRESHOLD */
    int reuse[3];       /* the attributes 1 to 3 */
} cpu_mempool_t;

/* The pool behind a handle, with a reference. CUDA_ERROR_INVALID_VALUE. */
CUresult cpu_mempool_get(CUmemoryPool handle, cpu_mempool_t **pool);

/* A new pool, with a handle that holds it. `exported`: other processes can import it. */
CUresult cpu_mempool_open(int device, uint64_t most, bool exported, cpu_mempool_t **pool);

/* A file descriptor of the caller's that names the pool; what such a descriptor of another process
 * names. CUDA_ERROR_INVALID_VALUE, _INVALID_DEVICE, _OUT_OF_MEMORY. */
CUresult cpu_mempool_export(const cpu_mempool_t *pool, int *fd);
CUresult cpu_mempool_import(int fd, cpu_mempool_t **pool);

/* Memory of an exported pool, named for other processes, and what they map of an imported one.
 * CUDA_ERROR_INVALID_VALUE. */
CUresult cpu_mempool_export_pointer(uint64_t base, cpu_ipc_handle_t *handle);
CUresult cpu_mempool_import_pointer(cpu_mempool_t *pool, cpu_context_t *context,
                                    const cpu_ipc_handle_t *handle, uint64_t *base);

/* The device's own pool, and the one that allocations without a pool take from; with a reference. */
CUresult cpu_mempool_default(int device, cpu_mempool_t **pool);
CUresult cpu_mempool_current(int device, cpu_mempool_t **pool);
CUresult cpu_mempool_set_current(int device, cpu_mempool_t *pool);

/* The handle goes; memory that is allocated stays until it is freed. */
CUresult cpu_mempool_close(CUmemoryPool handle);

CUresult cpu_mempool_alloc(cpu_mempool_t *pool, cpu_context_t *context, uint64_t bytes,
                           uint64_t *base);

/* Queues a free in the stream. CUDA_ERROR_INVALID_VALUE: no device memory begins there, or it is being
 * freed already. */
CUresult cpu_mempool_free_async(cpu_stream_t *stream, uint64_t base);

/* The memory is about to be freed otherwise. False: a free of it is queued already. */
bool cpu_mempool_forget(uint64_t base);

/* The context ends, with all its memory. */
void cpu_mempool_forget_context(const cpu_context_t *context);

/* The pool that the memory at this address is from, or 0. */
uint64_t cpu_mempool_of(uint64_t address);

CUresult cpu_mempool_attribute(cpu_mempool_t *pool, CUmemPool_attribute attribute, void *value);
CUresult cpu_mempool_set_attribute(cpu_mempool_t *pool, CUmemPool_attribute attribute,
                                   const void *value);

#endif

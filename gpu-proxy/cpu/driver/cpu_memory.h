/* cpu_memory.h - all memory that the device knows: who has which addresses, and may kernels go there.
 *
 * One reserved arena holds a window per device and one for page-locked host memory; on every other
 * address kernels fault, unless it was registered or reserved through the VMM calls. Pages of the
 * arena that nothing lies on are inaccessible. Device addresses are host addresses. Thread-safe. */
#ifndef CPU_MEMORY_H
#define CPU_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cuda/gb_cuda.h"
#include "gpu-proxy/cpu/driver/cpu_shared.h"
#include "gpu-proxy/cpu/driver/cpu_tree.h"
#include "gpu-proxy/cpu/jit/cpu_code.h"

typedef struct cpu_context cpu_context_t;

enum { CPU_MEMORY_GRAIN = 256 }; /* bytes: sizes are rounded up to this */

/* Bits, so that sets of kinds can be asked for. */
typedef enum {
    CPU_MEMORY_DEVICE = 1,      /* cuMemAlloc */
    CPU_MEMORY_MANAGED = 2,     /* cuMemAllocManaged */
    CPU_MEMORY_GLOBAL = 4,      /* variables of a module */
    CPU_MEMORY_HOST = 8,        /* cuMemHostAlloc */
    CPU_MEMORY_REGISTERED = 16, /* cuMemHostRegister */
    CPU_MEMORY_VIRTUAL = 32,    /* mapped by cuMemMap */
    CPU_MEMORY_ARRAY = 64,      /* texels: programs have no address of it, the array frees it */
    CPU_MEMORY_IMPORTED = 128,  /* another process's */
    CPU_MEMORY_MANAGED_VARIABLE = 256, /* cpu_managed.h */
    CPU_MEMORY_ANY = 63 | 128 | 256,
    CPU_MEMORY_ALL_MANAGED = CPU_MEMORY_MANAGED | CPU_MEMORY_MANAGED_VARIABLE,
} cpu_memory_kind_t;

typedef struct {
    cpu_node_t node; /* base and size; size is rounded up to the allocator's grain */
    cpu_memory_kind_t kind;
    int device;             /* index in the driver's table */
    cpu_context_t *context; /* not referenced: its destruction frees its memory first */
    unsigned flags;         /* of the call that made it */
    uint64_t id;            /* unique in the process */
    uint64_t asked;         /* bytes that the program asked for */
} cpu_memory_t;

/* Reserves the arena. `limit`: bytes that each device may hand out. Once per process. */
CUresult cpu_memory_open(int devices, uint64_t limit);

/* Bytes in use and in all on a device. */
void cpu_memory_usage(int device, uint64_t *used, uint64_t *limit);

/* Counts bytes against the device's limit, for memory that is not in its window. */
CUresult cpu_memory_charge(int device, uint64_t bytes);
void cpu_memory_uncharge(int device, uint64_t bytes);

/* Takes `bytes` from the window that the kind lives in (DEVICE, MANAGED, GLOBAL or HOST), aligned
 * to at least 256. The memory is readable and writable by kernels and host. */
CUresult cpu_memory_alloc(cpu_memory_kind_t kind, int device, cpu_context_t *context,
                          uint64_t bytes, unsigned flags, uint64_t *base);

/* Frees what begins exactly at `base` and is one of `kinds`. CUDA_ERROR_INVALID_VALUE otherwise. */
CUresult cpu_memory_free(unsigned kinds, uint64_t base);

/* Enters and removes memory that lies elsewhere (REGISTERED, VIRTUAL, MANAGED_VARIABLE). Adding fails with
 * CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED if it overlaps. */
CUresult cpu_memory_add(cpu_memory_kind_t kind, int device, cpu_context_t *context, uint64_t base,
                        uint64_t bytes, unsigned flags);
CUresult cpu_memory_remove(unsigned kinds, uint64_t base);

/* The device memory (CPU_MEMORY_DEVICE) that the address lies in moves into a file, if it does not lie in
 * one yet. Kernels that use it go on. CUDA_ERROR_INVALID_VALUE, _OUT_OF_MEMORY. */
CUresult cpu_memory_share(uint64_t address, cpu_memory_t *memory, cpu_segment_t *segment);

/* Maps memory of another process, `bytes` at `offset` of its file, as CPU_MEMORY_IMPORTED, which
 * cpu_memory_free unmaps. CUDA_ERROR_INVALID_HANDLE: the file cannot be of a device's memory. */
CUresult cpu_memory_import(int device, cpu_context_t *context, int fd, const cpu_file_t *file,
                           uint64_t offset, uint64_t bytes, uint64_t *base);

/* Copies the entry that contains the address. */
bool cpu_memory_find(uint64_t address, cpu_memory_t *out);

/* Whether every byte of [address, address + bytes) is memory of one of the kinds. */
bool cpu_memory_covers(unsigned kinds, uint64_t address, uint64_t bytes);

/* Frees or removes everything that belongs to the context. */
void cpu_memory_free_context(const cpu_context_t *context);

/* Kernels may go to [base, base + bytes) from now on (or no longer). For address space that is
 * reserved outside the arena. */
CUresult cpu_memory_open_range(uint64_t base, uint64_t bytes);
void cpu_memory_close_range(uint64_t base);

/* ---- what generated code checks against ---- */

typedef struct cpu_ranges cpu_ranges_t;

struct cpu_ranges {
    _Atomic uint32_t refs;
    uint64_t version;
    /* Where most accesses are expected, for the quick check: the largest range of address space that
     * the program has reserved itself, as a session does for all its memory, else the arena. Small ranges
     * do not count. */
    cpu_range_t window;
    uint64_t count;
    cpu_range_t ranges[]; /* sorted, disjoint; the arena is among them */
};

/* The arena: memory that is not in address space of the program's own. */
void cpu_memory_arena(uint64_t *base, uint64_t *bytes);

/* Replaces *held (NULL at first) by the current table if it is out of date. Cheap if it is not. */
void cpu_memory_refresh_ranges(cpu_ranges_t **held);

/* Gives up what cpu_memory_refresh_ranges gave; NULL is fine. */
void cpu_memory_drop_ranges(cpu_ranges_t *held);

#endif

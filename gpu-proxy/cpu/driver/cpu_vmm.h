/* cpu_vmm.h - virtual memory management: address space, physical memory, and the one mapped into the
 * other. Thread-safe.
 *
 * Physical memory is private anonymous memory that moves: it lies where it is mapped, and is parked
 * elsewhere while it is not. A handle is therefore mapped at one place at a time. Memory that is made
 * to be exported (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) moves into a file when it is, or when it is
 * mapped at a second place: any number of places and processes may map that. The file has one page more
 * than the memory, which says what it is. */
#ifndef CPU_VMM_H
#define CPU_VMM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cuda/gb_cuda.h"
#include "gpu-proxy/cpu/driver/cpu_handle.h"

enum { CPU_VMM_GRAIN = 2 << 20 }; /* bytes: granularity of everything here */

typedef struct {
    cpu_object_t object;
    int device;
    uint64_t bytes;
    uint64_t at;     /* where its pages are: mapped or parked; 0: it has none yet */
    uint64_t mapped; /* address where it is mapped; 0: nowhere. Not of a file */
    bool imported;   /* another process has made it, and pays for it */
    int fd;          /* -1: it is not in a file */
    unsigned holds;  /* calls that made or retained the handle, less releases */
    CUmemAllocationProp properties;
} cpu_physical_t;

/* Reserves address space; `hint` is taken if it is free. CUDA_ERROR_OUT_OF_MEMORY. */
CUresult cpu_vmm_reserve(uint64_t bytes, uint64_t align, uint64_t hint, uint64_t *base);
CUresult cpu_vmm_unreserve(uint64_t base, uint64_t bytes);

CUresult cpu_vmm_create(const CUmemAllocationProp *properties, int device, uint64_t bytes,
                        CUmemGenericAllocationHandle *handle);
CUresult cpu_vmm_release(CUmemGenericAllocationHandle handle);

/* A handle for physical memory that somebody has a reference to; it wants a release of its own. */
CUresult cpu_vmm_retain(cpu_physical_t *physical, CUmemGenericAllocationHandle *handle);

/* A file descriptor of the caller's. CUDA_ERROR_INVALID_VALUE: the memory was not made for that. */
CUresult cpu_vmm_export(cpu_physical_t *physical, int *fd);

/* Memory of a file descriptor that cpu_vmm_export has made, here or in another process. The descriptor
 * stays the caller's. CUDA_ERROR_INVALID_VALUE; CUDA_ERROR_INVALID_DEVICE: this process does not see
 * its device. */
CUresult cpu_vmm_import(int fd, CUmemGenericAllocationHandle *handle);

/* With a reference. CUDA_ERROR_INVALID_VALUE. */
CUresult cpu_vmm_get(CUmemGenericAllocationHandle handle, cpu_physical_t **physical);

/* The physical memory that is mapped at an address; with a reference. CUDA_ERROR_INVALID_VALUE. */
CUresult cpu_vmm_at(uint64_t address, cpu_physical_t **physical);

/* Maps all of it at `base`, inside one reservation and over nothing else. It is not accessible
 * before cpu_vmm_access. */
CUresult cpu_vmm_map(uint64_t base, uint64_t bytes, cpu_physical_t *physical);

/* Unmaps whole mappings that fill [base, base + bytes). */
CUresult cpu_vmm_unmap(uint64_t base, uint64_t bytes);

/* Sets the access to mappings that fill [base, base + bytes). */
CUresult cpu_vmm_access(uint64_t base, uint64_t bytes, CUmemAccess_flags flags);
CUresult cpu_vmm_get_access(uint64_t address, CUmemAccess_flags *flags);

#endif

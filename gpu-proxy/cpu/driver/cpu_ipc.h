/* cpu_ipc.h - device memory that one process exports and another one opens, by a handle of 64 bytes
 * (cuIpcGetMemHandle, cuMemPoolExportPointer). Thread-safe. */
#ifndef CPU_IPC_H
#define CPU_IPC_H

#include "gpu-proxy/cpu/driver/cpu_context.h"
#include "gpu-proxy/cpu/driver/cpu_shared.h"

typedef enum { CPU_IPC_MEMORY = 1, CPU_IPC_POOL_POINTER, CPU_IPC_EVENT } cpu_ipc_kind_t;

/* What a handle says: as large as CUDA's handles are. */
typedef struct {
    uint32_t magic;
    uint32_t kind;
    cpu_file_t file;
    uint32_t offset; /* of the memory in the file */
    uint32_t device; /* ordinal in the machine, of who looks for it by `pool` */
    uint64_t bytes;
    uint8_t owner[16]; /* the device's UUID, or what the pool is called */
} cpu_ipc_handle_t;

/* Fills in a handle for a file. */
cpu_ipc_handle_t cpu_ipc_handle(cpu_ipc_kind_t kind, const cpu_file_t *file);

/* The descriptor that a handle of this process names, -1: none; and: the handle of another process names
 * one of this process's from now on (gb_travel_abi.h). */
int cpu_ipc_descriptor(const CUipcEventHandle *handle);
void cpu_ipc_adopt(CUipcEventHandle *handle, int descriptor);

/* Reads one that came from elsewhere. CUDA_ERROR_INVALID_HANDLE. */
CUresult cpu_ipc_read(const void *bytes, cpu_ipc_kind_t kind, cpu_ipc_handle_t *handle);

/* A handle for the device memory that the address lies in, whatever it is for. */
CUresult cpu_ipc_export(uint64_t address, cpu_ipc_kind_t kind, cpu_ipc_handle_t *handle);

/* Maps what the handle names. CUDA_ERROR_INVALID_HANDLE, _OUT_OF_MEMORY. */
CUresult cpu_ipc_import(cpu_context_t *context, int device, const cpu_ipc_handle_t *handle,
                        uint64_t *base);

/* cuIpcOpenMemHandle: a handle that the context has opened already gives the same address, and wants
 * one more close. */
CUresult cpu_ipc_open(cpu_context_t *context, const cpu_ipc_handle_t *handle, uint64_t *base);

/* CUDA_ERROR_INVALID_VALUE: nothing was opened there. */
CUresult cpu_ipc_close(uint64_t base);

/* The context ends, with all its memory. */
void cpu_ipc_forget_context(const cpu_context_t *context);

#endif

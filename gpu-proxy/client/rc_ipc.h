/* rc_ipc.h - memory of several processes: what handles say, and what was opened.
 *
 * Two clients of one proxy share memory: its sessions do (gpu-proxy/session/px_ipc.h), under tokens that
 * CUDA's handles carry. A session exports whole mappings, of which a handle names a part; who opens it
 * reserves addresses for the mapping, and has the part as memory of its own context. Thread-safe. */
#ifndef RC_IPC_H
#define RC_IPC_H

#include "gpu-proxy/client/rc_call.h"

typedef enum {
    RC_IPC_MEMORY = 1,   /* cuIpcGetMemHandle */
    RC_IPC_EVENT,        /* cuIpcGetEventHandle */
    RC_IPC_POOL_POINTER, /* cuMemPoolExportPointer */
    RC_IPC_POOL,         /* in a file: cuMemPoolExportToShareableHandle */
    RC_IPC_PHYSICAL,     /* in a file: cuMemExportToShareableHandle */
} rc_ipc_kind_t;

/* As large as CUDA's handles are. */
typedef struct {
    uint32_t magic;
    uint32_t kind;
    uint64_t token[2];      /* the session's, or the pool's own name */
    uint64_t mapping;       /* bytes of the memory that the token names; of a pool its limit */
    uint64_t offset, bytes; /* of the part */
    uint8_t owner[16];      /* UUID of the device; of a pool's pointer the pool's name */
} rc_ipc_handle_t;

rc_ipc_handle_t rc_ipc_handle(rc_ipc_kind_t kind, const rc_device_t *device);

/* 0: it is no such handle of ours. */
int rc_ipc_read(const void *bytes, rc_ipc_kind_t kind, rc_ipc_handle_t *handle);

/* The same through a file that processes pass to each other: its descriptor is the caller's, -1: memory is
 * out. */
int rc_ipc_to_file(const rc_ipc_handle_t *handle);
int rc_ipc_from_file(int fd, rc_ipc_kind_t kind, rc_ipc_handle_t *handle);

/* A device of the program with that UUID, of `session` if it is not NULL; NULL: there is none. */
rc_device_t *rc_ipc_device(const rc_ipc_handle_t *handle, const rc_session_t *session);

/* A handle for device memory; CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED. */
CUresult rc_ipc_export(rc_call_t *call, const rc_block_t *block, rc_ipc_kind_t kind,
                       rc_ipc_handle_t *handle);

/* The allocation is about to be freed. 1 if it was exported: other processes may be told that it is gone as
 * soon as the call has returned. */
int rc_ipc_forget_exported(uint64_t start);

/* The memory that a handle names, in the current context, which is of the device's session. What the context
 * has opened already has the same address, and wants one more close. CUDA_ERROR_INVALID_HANDLE;
 * CUDA_ERROR_INVALID_CONTEXT: this process has exported it. */
CUresult rc_ipc_open(rc_call_t *call, const rc_device_t *device, const rc_ipc_handle_t *handle,
                     uint64_t *address);

/* Ends what begins at `address`, once the work of its context is done; or, in the order of a stream, when
 * later calls of this file find that the stream has come so far. CUDA_ERROR_INVALID_VALUE: nothing was
 * opened there as this kind. */
CUresult rc_ipc_close(uint64_t address, rc_ipc_kind_t kind);
CUresult rc_ipc_close_in(uint64_t address, CUstream stream);

/* The context has ended. */
void rc_ipc_drop(const rc_object_t *context);

#endif

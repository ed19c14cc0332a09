/* px_ipc.h - memory and events that sessions of one proxy share: named by tokens, which the clients carry to
 * each other in CUDA's handles, and left with the daemon (px_locker.h). */
#ifndef PX_IPC_H
#define PX_IPC_H

#include "gb_cuda_table.h"
#include "gpu-proxy/session/px_locker.h"

struct px_session;

/* Leaves physical memory with the daemon, which sets what->number. CUDA_ERROR_NOT_SUPPORTED: the driver cannot
 * export it, or there is no daemon; CUDA_ERROR_OUT_OF_MEMORY: too much is left already. Thread-safe, as the
 * others. */
CUresult px_ipc_leave(struct px_session *session, CUmemGenericAllocationHandle memory,
                      px_locker_memory_t *what, px_token_t *token);

/* Nobody else can find it any more. */
void px_ipc_drop(struct px_session *session, const px_token_t *token);

/* Physical memory that another session, or this one, has left; `number` is for px_ipc_release, once it is
 * not used any more. CUDA_ERROR_INVALID_HANDLE. */
CUresult px_ipc_find(struct px_session *session, const px_token_t *token,
                     CUmemGenericAllocationHandle *memory, uint64_t *number);
void px_ipc_release(struct px_session *session, uint64_t number);

/* The event is about to be destroyed. */
void px_ipc_event_gone(struct px_session *session, CUevent event);

/* The session ends. */
void px_ipc_end(struct px_session *session);

#endif

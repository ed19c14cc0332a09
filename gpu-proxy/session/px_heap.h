/* px_heap.h - device memory inside the client's window, sub-allocated.
 *
 * A window is one range of addresses of a device. Memory is mapped into it with the driver's virtual
 * memory calls and handed out in pieces: small ones from shared mappings of 4 MiB, large ones (1 MiB
 * and more) each in a mapping of its own, rounded to the device's granularity. Pieces start at
 * multiples of 512 bytes.
 *
 * A freed piece may still be in use by work that was issued before: it waits until the device has
 * passed that work (px_heap_passed) before it is handed out again.
 *
 * Thread-safe. */
#ifndef PX_HEAP_H
#define PX_HEAP_H

#include <stdint.h>

#include "gb_cuda_table.h"
#include "gpu-proxy/session/px_locker.h"

typedef struct px_heap px_heap_t;

/* Reserves [base, base + size) of the driver's address space. *base is the wish, 0 = anywhere, and
 * becomes what the driver gave. `quota` bytes at most are handed out (0 = what the device has).
 * CUDA_ERROR_OUT_OF_MEMORY if the driver has no room. */
CUresult px_heap_create(const gb_cuda_table_t *cuda, CUdevice device, uint64_t *base, uint64_t size,
                        uint64_t quota, px_heap_t **out);

/* Who is asked before more is handed out or charged than was allowed before: returns how many bytes may be held,
 * at least as many as are, and in *left how many more there are for whoever asks. A smaller number is news, and
 * always fine. */
typedef uint64_t (*px_heap_allow_t)(void *arg, uint64_t bytes, uint64_t *left);
void px_heap_set_allow(px_heap_t *heap, px_heap_allow_t allow, void *arg);

/* Nothing may use the memory any more. NULL is allowed. */
void px_heap_destroy(px_heap_t *heap);

/* `bytes` >= 1, owned by `owner` (a context's number). CUDA_ERROR_NOT_READY: there is memory, but the
 * device has to pass the work before some frees first (synchronise, call px_heap_passed with a mark
 * taken before, try again). */
CUresult px_heap_take(px_heap_t *heap, uint64_t bytes, uint32_t owner, uint64_t *address);

/* Frees the piece that starts at `address`. CUDA_ERROR_INVALID_VALUE if none does. */
CUresult px_heap_give(px_heap_t *heap, uint64_t address);

/* 1 if [address, address + bytes) lies in one piece that is handed out. */
int px_heap_holds(px_heap_t *heap, uint64_t address, uint64_t bytes);

/* The mapping that a piece lies in, and under which token other sessions find it (px_ipc.h), if the piece
 * is shared. */
typedef struct {
    uint64_t base, size;
    CUmemGenericAllocationHandle memory;
    px_token_t token;
    int shared;
    uint64_t number; /* of px_locker_memory_t; 0: no piece of it was shared yet */
} px_heap_mapping_t;

/* Of the piece that starts at `address`; 0 if none does. */
int px_heap_mapping(px_heap_t *heap, uint64_t address, px_heap_mapping_t *out);

/* The piece is shared from now on, and its mapping has the number. 0 if it has gone meanwhile, or was shared
 * already. */
int px_heap_note_shared(px_heap_t *heap, uint64_t address, const px_token_t *token,
                        uint64_t number);

/* `gone` is called with the token of every shared piece that is freed; with the heap's lock held. */
void px_heap_on_gone(px_heap_t *heap, void (*gone)(void *arg, const px_token_t *token), void *arg);

/* Frees all that `owner` has. */
void px_heap_give_all(px_heap_t *heap, uint32_t owner);

/* Memory of the device that is not from here counts against the quota, too. CUDA_ERROR_OUT_OF_MEMORY, or
 * CUDA_ERROR_NOT_READY as px_heap_take. */
CUresult px_heap_charge(px_heap_t *heap, uint64_t bytes);
void px_heap_uncharge(px_heap_t *heap, uint64_t bytes);

/* Now, as a mark; and: all work issued before the mark was taken is done. */
uint64_t px_heap_mark(px_heap_t *heap);
void px_heap_passed(px_heap_t *heap, uint64_t mark);

/* Gives mappings that are free back to the driver, for others to use. */
void px_heap_trim(px_heap_t *heap);

/* Bytes handed out or charged; bytes that are mapped but free. */
uint64_t px_heap_used(px_heap_t *heap);
/* Bytes that may still be handed out as far as others leave them; UINT64_MAX without px_heap_set_allow. */
uint64_t px_heap_left(px_heap_t *heap);
uint64_t px_heap_spare(px_heap_t *heap);

#endif

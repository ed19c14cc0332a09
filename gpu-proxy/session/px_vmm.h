/* px_vmm.h - what the client has reserved and mapped by itself (cuMemAddressReserve, cuMemMap). */
#ifndef PX_VMM_H
#define PX_VMM_H

typedef struct px_vmm px_vmm_t;
typedef struct px_physical px_physical_t;
struct px_session;

/* NULL: out of memory. */
px_vmm_t *px_vmm_create(void);
/* Gives everything back to the driver. */
void px_vmm_destroy(struct px_session *session);
/* The handle is gone; mappings keep the memory. */
void px_physical_forget(struct px_session *session, px_physical_t *physical);

#endif

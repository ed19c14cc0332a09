/* rc_vmm.h - addresses that are reserved here and at a session. */
#ifndef RC_VMM_H
#define RC_VMM_H

#include "gpu-proxy/client/rc_call.h"

/* Reserves `bytes` at the same addresses here and at the call's session. CUDA_ERROR_OUT_OF_MEMORY. */
CUresult rc_vmm_place(rc_call_t *call, uint64_t bytes, uint64_t *base);
/* Gives them back; nothing is mapped there. */
void rc_vmm_unplace(rc_call_t *call, uint64_t base, uint64_t bytes);

#endif

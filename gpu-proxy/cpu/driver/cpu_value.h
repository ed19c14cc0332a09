/* cpu_value.h - streams that write values to memory and wait for values in memory.
 *
 * A waiting stream holds no thread. It is looked at again whenever an operation completes anywhere on
 * the device, and every 0.1 to 1 ms in between, so that values written by host code are seen too. */
#ifndef CPU_VALUE_H
#define CPU_VALUE_H

#include "gpu-proxy/cpu/driver/cpu_sched.h"

/* `bytes`: 4 or 8; the address is aligned to it and has been checked. `flags` as CUDA has them:
 * CU_STREAM_WAIT_VALUE_GEQ, _EQ, _AND, _NOR. */
CUresult cpu_value_wait(cpu_stream_t *stream, uint64_t address, uint64_t value, unsigned bytes,
                        unsigned flags);
CUresult cpu_value_write(cpu_stream_t *stream, uint64_t address, uint64_t value, unsigned bytes);

#endif

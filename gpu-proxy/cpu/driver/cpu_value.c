#include "gpu-proxy/cpu/driver/cpu_value.h"

#include <stdlib.h>

#include "gpu-proxy/cpu/driver/cpu_guard.h"

typedef struct {
    cpu_op_t op;
    uint64_t address, value;
    unsigned bytes, flags;
} value_op_t;

/* Memory may have been unmapped since the call: that is the context's fault, not ours. */
static bool load(const value_op_t *op, uint64_t *value)
{
    cpu_guard_t guard;
    if (sigsetjmp(guard.jump, 0)) {
        cpu_sched_fault(op->op.stream->lanes, CUDA_ERROR_ILLEGAL_ADDRESS);
        return false;
    }
    cpu_guard_set(&guard);
    if (op->bytes == 4)
        *value = __atomic_load_n((const uint32_t *)op->address, __ATOMIC_ACQUIRE);
    else
        *value = __atomic_load_n((const uint64_t *)op->address, __ATOMIC_ACQUIRE);
    cpu_guard_set(NULL);
    return true;
}

static bool arrived(cpu_op_t *op)
{
    const value_op_t *wait = (const value_op_t *)op;
    uint64_t seen;
    if (!load(wait, &seen))
        return false;
    switch (wait->flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ: /* cyclic, as CUDA compares */
        return wait->bytes == 4 ? (int32_t)((uint32_t)seen - (uint32_t)wait->value) >= 0
                                : (int64_t)(seen - wait->value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return seen == wait->value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (seen & wait->value) != 0;
    default: /* NOR */
        return (wait->bytes == 4 ? (uint64_t)(uint32_t)~(seen | wait->value)
                                 : ~(seen | wait->value)) != 0;
    }
}

static void nothing(cpu_op_t *op)
{
    (void)op;
}

static void store(cpu_op_t *op)
{
    const value_op_t *write = (const value_op_t *)op;
    cpu_guard_t guard;
    if (sigsetjmp(guard.jump, 0)) {
        cpu_sched_fault(op->stream->lanes, CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
    cpu_guard_set(&guard);
    if (write->bytes == 4)
        __atomic_store_n((uint32_t *)write->address, (uint32_t)write->value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)write->address, write->value, __ATOMIC_RELEASE);
    cpu_guard_set(NULL);
}

static void release(cpu_op_t *op)
{
    free(op);
}

static const cpu_op_ops_t wait_ops = {
    .name = "wait value", .ready = arrived, .instant = nothing, .release = release};
static const cpu_op_ops_t write_ops = {.name = "write value", .instant = store, .release = release};

static CUresult submit(cpu_stream_t *stream, const cpu_op_ops_t *ops, uint64_t address,
                       uint64_t value, unsigned bytes, unsigned flags)
{
    value_op_t *op = malloc(sizeof(*op));
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_op_init(&op->op, ops, 0, 0);
    op->address = address;
    op->value = bytes == 4 ? (uint32_t)value : value;
    op->bytes = bytes;
    op->flags = flags;
    return cpu_sched_submit(stream, &op->op, NULL);
}

CUresult cpu_value_wait(cpu_stream_t *stream, uint64_t address, uint64_t value, unsigned bytes,
                        unsigned flags)
{
    return submit(stream, &wait_ops, address, value, bytes, flags);
}

CUresult cpu_value_write(cpu_stream_t *stream, uint64_t address, uint64_t value, unsigned bytes)
{
    return submit(stream, &write_ops, address, value, bytes, 0);
}

#include "gpu-proxy/cpu/driver/cpu_host.h"

#include <stdlib.h>

#include "gpu-proxy/cpu/driver/cpu_context.h"

typedef struct {
    cpu_op_t op;
    CUhostFn function;
    CUstreamCallback callback;
    CUstream handle;
    void *data;
} host_op_t;

static CUresult run(cpu_op_t *op, cpu_seat_t *seat, uint64_t first, uint64_t count)
{
    const host_op_t *host = (const host_op_t *)op;
    (void)seat;
    (void)first;
    (void)count;
    cpu_console_flush(&op->stream->context->console);
    if (host->function)
        host->function(host->data);
    else
        host->callback(host->handle, atomic_load(&op->stream->lanes->fault), host->data);
    return CUDA_SUCCESS;
}

static void release(cpu_op_t *op)
{
    free(op);
}

static const cpu_op_ops_t launch_ops = {
    .name = "host function", .run = run, .release = release, .hosted = true};
static const cpu_op_ops_t beside_ops = {
    .name = "host function", .run = run, .release = release, .hosted = true, .beside = true};
static const cpu_op_ops_t callback_ops = {
    .name = "callback", .run = run, .release = release, .hosted = true, .after_fault = true};

static CUresult submit(cpu_stream_t *stream, const cpu_op_ops_t *ops, const host_op_t *template)
{
    host_op_t *host = malloc(sizeof(*host));
    if (!host)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *host = *template;
    cpu_op_init(&host->op, ops, 1, 1);
    return cpu_sched_submit(stream, &host->op, NULL);
}

CUresult cpu_host_launch(cpu_stream_t *stream, CUhostFn function, void *data)
{
    host_op_t host = {.function = function, .data = data};
    return submit(stream, &launch_ops, &host);
}

CUresult cpu_host_beside(cpu_stream_t *stream, CUhostFn function, void *data)
{
    host_op_t host = {.function = function, .data = data};
    return submit(stream, &beside_ops, &host);
}

CUresult cpu_host_callback(cpu_stream_t *stream, CUstream handle, CUstreamCallback function,
                           void *data)
{
    host_op_t host = {.callback = function, .handle = handle, .data = data};
    return submit(stream, &callback_ops, &host);
}

#include "tests/unit/gbx/fake_cuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda/gb_driver.h"

typedef enum { OP_COPY, OP_RECORD, OP_WAIT_EVENT, OP_WAIT_VALUE, OP_WRITE_VALUE, OP_LAUNCH } kind_t;

struct CUevent_st {
    unsigned long recorded, done;
};

typedef struct op {
    struct op *next;
    kind_t kind;
    void *to;
    const void *from;
    size_t bytes;
    CUevent event;
    unsigned long ticket;
    uint32_t *word;
    uint32_t value;
    void (*kernel)(void *arg);
    void *arg;
} op_t;

struct CUstream_st {
    pthread_t thread;
    op_t *first, **last;
    unsigned long queued, executed;
    int end;
};

/* One lock and one condition for everything: slow, simple, right. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int alive;
    unsigned long allocations;
    const char *fail;
    int fail_after;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static char context;

static int failing(const char *name)
{
    pthread_mutex_lock(&fake.lock);
    int fails = fake.fail && strcmp(fake.fail, name) == 0 && fake.fail_after-- <= 0;
    pthread_mutex_unlock(&fake.lock);
    return fails;
}

void fake_cuda_fail(const char *name, int after)
{
    pthread_mutex_lock(&fake.lock);
    fake.fail = name;
    fake.fail_after = after;
    pthread_mutex_unlock(&fake.lock);
}

static void count(int alive)
{
    pthread_mutex_lock(&fake.lock);
    fake.alive += alive;
    fake.allocations += alive > 0;
    pthread_mutex_unlock(&fake.lock);
}

int fake_cuda_alive(void)
{
    pthread_mutex_lock(&fake.lock);
    int alive = fake.alive;
    pthread_mutex_unlock(&fake.lock);
    return alive;
}

unsigned long fake_cuda_allocations(void)
{
    pthread_mutex_lock(&fake.lock);
    unsigned long n = fake.allocations;
    pthread_mutex_unlock(&fake.lock);
    return n;
}

/* Called with the lock; gives it up while it works. */
static void execute(op_t *op)
{
    switch (op->kind) {
    case OP_COPY:
    case OP_LAUNCH:
        pthread_mutex_unlock(&fake.lock);
        if (op->kind == OP_COPY)
            memcpy(op->to, op->from, op->bytes);
        else
            op->kernel(op->arg);
        pthread_mutex_lock(&fake.lock);
        break;
    case OP_RECORD:
        if (op->ticket > op->event->done)
            op->event->done = op->ticket;
        break;
    case OP_WAIT_EVENT:
        while (op->event->done < op->ticket)
            pthread_cond_wait(&fake.changed, &fake.lock);
        break;
    case OP_WAIT_VALUE:
        while ((int32_t)(*op->word - op->value) < 0)
            pthread_cond_wait(&fake.changed, &fake.lock);
        break;
    case OP_WRITE_VALUE:
        *op->word = op->value;
        break;
    }
}

static void *stream_run(void *arg)
{
    CUstream stream = arg;
    pthread_mutex_lock(&fake.lock);
    for (;;) {
        while (!stream->first && !stream->end)
            pthread_cond_wait(&fake.changed, &fake.lock);
        op_t *op = stream->first;
        if (!op)
            break;
        execute(op);
        stream->first = op->next;
        if (!stream->first)
            stream->last = &stream->first;
        stream->executed++;
        free(op);
        pthread_cond_broadcast(&fake.changed);
    }
    pthread_mutex_unlock(&fake.lock);
    return NULL;
}

static void enqueue(CUstream stream, op_t op)
{
    op_t *copy = malloc(sizeof(*copy));
    *copy = op;
    copy->next = NULL;
    *stream->last = copy;
    stream->last = &copy->next;
    stream->queued++;
    pthread_cond_broadcast(&fake.changed);
}

static CUresult put(const char *name, CUstream stream, op_t op)
{
    if (failing(name))
        return CUDA_ERROR_LAUNCH_FAILED;
    pthread_mutex_lock(&fake.lock);
    if (op.kind == OP_RECORD)
        op.ticket = ++op.event->recorded;
    if (op.kind == OP_WAIT_EVENT)
        op.ticket = op.event->recorded;
    enqueue(stream, op);
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

void fake_cuda_launch(CUstream stream, void (*kernel)(void *arg), void *arg)
{
    put("launch", stream, (op_t){.kind = OP_LAUNCH, .kernel = kernel, .arg = arg});
}

static CUresult get_export_table(const void **table, const CUuuid *id)
{
    (void)table;
    (void)id;
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult ctx_get(CUcontext *out)
{
    *out = (CUcontext)(void *)&context;
    return CUDA_SUCCESS;
}

static CUresult ctx_set(CUcontext ctx)
{
    return ctx == (CUcontext)(void *)&context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult ctx_pop(CUcontext *out)
{
    return ctx_get(out);
}

static CUresult stream_create(CUstream *out, unsigned int flags)
{
    (void)flags;
    if (failing("cuStreamCreate"))
        return CUDA_ERROR_LAUNCH_FAILED;
    CUstream stream = calloc(1, sizeof(*stream));
    stream->last = &stream->first;
    pthread_create(&stream->thread, NULL, stream_run, stream);
    count(1);
    *out = stream;
    return CUDA_SUCCESS;
}

static CUresult stream_sync(CUstream stream)
{
    pthread_mutex_lock(&fake.lock);
    unsigned long target = stream->queued;
    while (stream->executed < target)
        pthread_cond_wait(&fake.changed, &fake.lock);
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

static CUresult stream_query(CUstream stream)
{
    pthread_mutex_lock(&fake.lock);
    int idle = stream->executed == stream->queued;
    pthread_mutex_unlock(&fake.lock);
    return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult event_query(CUevent event)
{
    pthread_mutex_lock(&fake.lock);
    int idle = event->done >= event->recorded;
    pthread_mutex_unlock(&fake.lock);
    return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult stream_destroy(CUstream stream)
{
    pthread_mutex_lock(&fake.lock);
    stream->end = 1;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    pthread_join(stream->thread, NULL);
    free(stream);
    count(-1);
    return CUDA_SUCCESS;
}

static CUresult mem_alloc(CUdeviceptr *out, size_t bytes)
{
    if (failing("cuMemAlloc_v2"))
        return CUDA_ERROR_LAUNCH_FAILED;
    *out = (CUdeviceptr)(uintptr_t)calloc(1, bytes);
    count(1);
    return CUDA_SUCCESS;
}

static CUresult mem_free(CUdeviceptr p)
{
    free((void *)(uintptr_t)p);
    count(-1);
    return CUDA_SUCCESS;
}

static CUresult memset32(CUdeviceptr p, unsigned int value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((unsigned int *)(uintptr_t)p)[i] = value;
    return CUDA_SUCCESS;
}

static CUresult host_alloc(void **out, size_t bytes, unsigned int flags)
{
    (void)flags;
    if (failing("cuMemHostAlloc"))
        return CUDA_ERROR_LAUNCH_FAILED;
    *out = malloc(bytes);
    count(1);
    return CUDA_SUCCESS;
}

static CUresult host_free(void *p)
{
    free(p);
    count(-1);
    return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *out, unsigned int flags)
{
    (void)flags;
    *out = calloc(1, sizeof(**out));
    count(1);
    return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event)
{
    free(event);
    count(-1);
    return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
    return put("cuEventRecord", stream, (op_t){.kind = OP_RECORD, .event = event});
}

static CUresult event_sync(CUevent event)
{
    if (failing("cuEventSynchronize"))
        return CUDA_ERROR_LAUNCH_FAILED;
    pthread_mutex_lock(&fake.lock);
    unsigned long ticket = event->recorded;
    while (event->done < ticket)
        pthread_cond_wait(&fake.changed, &fake.lock);
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

static CUresult stream_wait_event(CUstream stream, CUevent event, unsigned int flags)
{
    (void)flags;
    return put("cuStreamWaitEvent", stream, (op_t){.kind = OP_WAIT_EVENT, .event = event});
}

static CUresult copy_out(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return put("cuMemcpyDtoHAsync_v2", stream,
               (op_t){.kind = OP_COPY, .to = to, .from = (void *)(uintptr_t)from, .bytes = bytes});
}

static CUresult copy_in(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return put("cuMemcpyHtoDAsync_v2", stream,
               (op_t){.kind = OP_COPY, .to = (void *)(uintptr_t)to, .from = from, .bytes = bytes});
}

static CUresult wait_value(CUstream stream, CUdeviceptr p, uint32_t value, unsigned int flags)
{
    (void)flags;
    return put("cuStreamWaitValue32_v2", stream,
               (op_t){.kind = OP_WAIT_VALUE, .word = (uint32_t *)(uintptr_t)p, .value = value});
}

static CUresult write_value(CUstream stream, CUdeviceptr p, uint32_t value, unsigned int flags)
{
    (void)flags;
    return put("cuStreamWriteValue32_v2", stream,
               (op_t){.kind = OP_WRITE_VALUE, .word = (uint32_t *)(uintptr_t)p, .value = value});
}

static gb_cuda_table_t table;

static void fill_table(void)
{
    gb_cuda_table_defaults(&table);
    table.cuGetExportTable = get_export_table;
    table.cuCtxGetCurrent = ctx_get;
    table.cuCtxSetCurrent = ctx_set;
    table.cuCtxPushCurrent_v2 = ctx_set;
    table.cuCtxPopCurrent_v2 = ctx_pop;
    table.cuStreamCreate = stream_create;
    table.cuStreamSynchronize = stream_sync;
    table.cuStreamQuery = stream_query;
    table.cuEventQuery = event_query;
    table.cuStreamDestroy_v2 = stream_destroy;
    table.cuMemAlloc_v2 = mem_alloc;
    table.cuMemFree_v2 = mem_free;
    table.cuMemsetD32_v2 = memset32;
    table.cuMemHostAlloc = host_alloc;
    table.cuMemFreeHost = host_free;
    table.cuEventCreate = event_create;
    table.cuEventDestroy_v2 = event_destroy;
    table.cuEventRecord = event_record;
    table.cuEventSynchronize = event_sync;
    table.cuStreamWaitEvent = stream_wait_event;
    table.cuMemcpyDtoHAsync_v2 = copy_out;
    table.cuMemcpyHtoDAsync_v2 = copy_in;
    table.cuStreamWaitValue32_v2 = wait_value;
    table.cuStreamWriteValue32_v2 = write_value;
}

const gb_cuda_table_t *fake_cuda_table(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_table);
    return &table;
}

#include "gpu-proxy/cpu/driver/cpu_thread.h"

#include <pthread.h>
#include <stdlib.h>

#include "gpu-proxy/cpu/driver/cpu_cells.h"
#include "gpu-proxy/cpu/driver/cpu_context.h"
#include "gpu-proxy/cpu/driver/cpu_driver.h"
#include "gpu-proxy/cpu/driver/cpu_stream.h"

/* Per-thread default streams, one per context that the thread has used one of. */
typedef struct lane {
    struct lane *next;
    cpu_stream_t *stream; /* referenced */
} lane_t;

typedef struct {
    cpu_context_t **stack; /* referenced */
    unsigned depth, room;
    lane_t *lanes;
    bool in_callback;
} thread_t;

static __thread thread_t *self;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void end(void *argument)
{
    thread_t *thread = argument;
    while (thread->lanes) {
        lane_t *lane = thread->lanes;
        thread->lanes = lane->next;
        cpu_stream_close(lane->stream);
        free(lane);
    }
    while (thread->depth)
        cpu_object_put(&thread->stack[--thread->depth]->object);
    free(thread->stack);
    free(thread);
    cpu_cells_flush();
    self = NULL;
}

static void make_key(void)
{
    pthread_key_create(&key, end);
}

static thread_t *own(void)
{
    if (!self) {
        pthread_once(&once, make_key);
        self = calloc(1, sizeof(*self));
        if (self)
            pthread_setspecific(key, self);
    }
    return self;
}

CUresult cpu_thread_peek(cpu_context_t **context)
{
    if (!cpu_driver())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (self && self->in_callback)
        return CUDA_ERROR_NOT_PERMITTED;
    *context = self && self->depth ? self->stack[self->depth - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult cpu_thread_context(cpu_context_t **context)
{
    CUresult result = cpu_thread_peek(context);
    if (result)
        return result;
    if (!*context)
        return CUDA_ERROR_INVALID_CONTEXT;
    return cpu_context_state(*context);
}

CUresult cpu_thread_refuse(CUresult error)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    return result ? result : error;
}

CUresult cpu_thread_refuse_here(CUresult error)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    return result ? result : error;
}

CUresult cpu_thread_push(cpu_context_t *context)
{
    thread_t *thread = own();
    if (!thread)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (thread->depth == thread->room) {
        unsigned room = thread->room ? thread->room * 2 : 4;
        cpu_context_t **stack = realloc(thread->stack, room * sizeof(*stack));
        if (!stack)
            return CUDA_ERROR_OUT_OF_MEMORY;
        thread->stack = stack;
        thread->room = room;
    }
    cpu_object_ref(&context->object);
    thread->stack[thread->depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cpu_thread_pop(CUcontext *handle)
{
    if (!self || !self->depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    cpu_context_t *context = self->stack[--self->depth];
    if (handle)
        *handle = (CUcontext)context->object.handle;
    cpu_object_put(&context->object);
    return CUDA_SUCCESS;
}

CUresult cpu_thread_set(cpu_context_t *context)
{
    if (!context)
        return self && self->depth ? cpu_thread_pop(NULL) : CUDA_SUCCESS;
    if (!self || !self->depth)
        return cpu_thread_push(context);
    cpu_context_t **top = &self->stack[self->depth - 1];
    cpu_context_t *old = *top;
    cpu_object_ref(&context->object);
    *top = context;
    cpu_object_put(&old->object);
    return CUDA_SUCCESS;
}

/* Forgets streams whose contexts are gone. */
static void sweep(thread_t *thread)
{
    for (lane_t **at = &thread->lanes; *at;) {
        lane_t *lane = *at;
        if (cpu_context_alive(lane->stream->context)) {
            at = &lane->next;
            continue;
        }
        *at = lane->next;
        cpu_stream_close(lane->stream);
        free(lane);
    }
}

CUresult cpu_thread_stream(cpu_context_t *context, cpu_stream_t **stream)
{
    thread_t *thread = own();
    if (!thread)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (lane_t *lane = thread->lanes; lane; lane = lane->next) {
        if (lane->stream->context == context) {
            cpu_object_ref(&lane->stream->object);
            *stream = lane->stream;
            return CUDA_SUCCESS;
        }
    }
    sweep(thread);
    lane_t *lane = calloc(1, sizeof(*lane));
    if (!lane)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = cpu_stream_open(context, CU_STREAM_DEFAULT, 0, &lane->stream);
    if (result) {
        free(lane);
        return result;
    }
    lane->next = thread->lanes;
    thread->lanes = lane;
    cpu_object_ref(&lane->stream->object);
    *stream = lane->stream;
    return CUDA_SUCCESS;
}

void cpu_thread_enter_callback(void)
{
    thread_t *thread = own();
    if (thread)
        thread->in_callback = true;
}

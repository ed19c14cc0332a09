/* What kernels ask of the device: output and heap of the context that they run in. */
#include <stdio.h>

#include "gpu-proxy/cpu/driver/cpu_context.h"

static uint64_t limit_of(cpu_context_t *context, CUlimit limit)
{
    pthread_mutex_lock(&context->lock);
    uint64_t value = context->limits[limit];
    pthread_mutex_unlock(&context->lock);
    return value;
}

static void print(void *user, const char *text, size_t bytes)
{
    cpu_context_t *context = user;
    cpu_console_print(&context->console, text, bytes, limit_of(context, CU_LIMIT_PRINTF_FIFO_SIZE));
}

static void complain(void *user, const char *line)
{
    (void)user;
    fputs(line, stderr);
}

static uint64_t allocate(void *user, uint64_t bytes)
{
    cpu_context_t *context = user;
    return cpu_kernel_heap_take(&context->heap, context, bytes,
                                limit_of(context, CU_LIMIT_MALLOC_HEAP_SIZE));
}

static void give_back(void *user, uint64_t address)
{
    cpu_context_t *context = user;
    cpu_kernel_heap_give(&context->heap, address);
}

const cpu_services_t *cpu_context_services(void)
{
    static const cpu_services_t services = {
        .print = print, .complain = complain, .allocate = allocate, .release = give_back};
    return &services;
}

uint64_t cpu_context_stack(cpu_context_t *context)
{
    enum { MOST = 512 << 10, LEAST = 1024 };
    uint64_t bytes = limit_of(context, CU_LIMIT_STACK_SIZE);
    bytes = bytes < LEAST ? LEAST : bytes > MOST ? MOST : bytes;
    return 2 * ((bytes + 15) & ~(uint64_t)15); /* registers lie on it that a GPU keeps in its own */
}

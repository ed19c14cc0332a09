#include "gpu-proxy/cpu/driver/cpu_managed.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "gpu-proxy/cpu/driver/cpu_advice.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Where the variables may lie, and on which boundaries. */
#define PLACE_BASE 0x400000000000ull
#define PLACE_BYTES (16ull << 40)
#define GRAIN (2ull << 20)

enum { TRIES = 8 };

/* A thread-sanitized process ends at the attempt to map anything there. */
extern void __tsan_init(void) __attribute__((weak));

static void *map_somewhere(uint64_t bytes)
{
    const int prot = PROT_READ | PROT_WRITE;
    uint64_t at;
    for (int i = 0; i < TRIES && !__tsan_init && bytes < PLACE_BYTES; i++) {
        if (getrandom(&at, sizeof(at), 0) != sizeof(at))
            break;
        void *wish = (void *)(PLACE_BASE + at % ((PLACE_BYTES - bytes) / GRAIN + 1) * GRAIN);
        void *got =
            mmap(wish, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (got == wish)
            return got;
        if (got != MAP_FAILED) /* a kernel that knows no such flag */
            munmap(got, bytes);
    }
    void *got = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return got == MAP_FAILED ? NULL : got;
}

static CUresult enter(int device, uint64_t base, uint64_t size)
{
    CUresult result = cpu_memory_open_range(base, size);
    if (result)
        return result;
    result = cpu_memory_add(CPU_MEMORY_MANAGED_VARIABLE, device, NULL, base, size, 0);
    if (result)
        cpu_memory_close_range(base);
    return result;
}

CUresult cpu_managed_open(int device, uint64_t bytes, cpu_managed_t **managed)
{
    enum { PAGE = 4096 };
    uint64_t size = (bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    if (size < bytes || cpu_memory_charge(device, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_managed_t *made = malloc(sizeof(*made));
    void *at = made ? map_somewhere(size) : NULL;
    if (!at || enter(device, (uint64_t)at, size))
        goto err_undo;
    atomic_init(&made->refs, 1);
    made->base = (uint64_t)at;
    *managed = made;
    return CUDA_SUCCESS;
err_undo:
    if (at)
        munmap(at, size);
    free(made);
    cpu_memory_uncharge(device, size);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void cpu_managed_ref(cpu_managed_t *managed)
{
    atomic_fetch_add(&managed->refs, 1);
}

void cpu_managed_put(cpu_managed_t *managed)
{
    cpu_memory_t memory;
    if (!managed || atomic_fetch_sub(&managed->refs, 1) != 1)
        return;
    if (cpu_memory_find(managed->base, &memory)) {
        (void)cpu_memory_remove(CPU_MEMORY_MANAGED_VARIABLE, managed->base);
        cpu_memory_close_range(managed->base);
        cpu_advice_forget(managed->base, memory.node.size);
        munmap((void *)managed->base, memory.node.size);
        cpu_memory_uncharge(memory.device, memory.node.size);
    }
    free(managed);
}

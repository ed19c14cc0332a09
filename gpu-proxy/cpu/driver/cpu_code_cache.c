/* Looking up takes no lock: whoever walks a function's list counts as its looker meanwhile. A variant
 * is taken off the list first; when the lookers of that moment have gone, nobody new can come by it,
 * and it can be freed if nobody holds it. Locks: a function's before this one; the other way round
 * only trying. */
#include "gpu-proxy/cpu/driver/cpu_code_cache.h"

#include <sched.h>
#include <stdlib.h>

#include "common/core/gb_log.h"

/* Of the process, like the driver itself. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cpu_variant_t *listed; /* all, in no order */
static uint64_t bytes;

/* Code is mapped by pages. */
static uint64_t size_of(const cpu_variant_t *variant)
{
    uint64_t page = 4096;
    return (cpu_code_header(variant->code)->image_bytes + page - 1) & ~(page - 1);
}

/* Kernels that recurse are compiled for a size of stack. */
static bool has_stack(const cpu_function_t *function, const cpu_variant_t *variant)
{
    uint32_t stack = cpu_code_header(variant->code)->stack_bytes;
    return stack == 0 || stack == cpu_context_stack(function->module->context);
}

cpu_variant_t *cpu_code_cache_find(cpu_function_t *function, const uint32_t block[3])
{
    atomic_fetch_add(&function->lookers, 1);
    cpu_variant_t *variant = atomic_load(&function->variants);
    while (variant && (!cpu_shape_serves(&variant->shape, block) || !has_stack(function, variant)))
        variant = atomic_load_explicit(&variant->next, memory_order_acquire);
    if (variant)
        atomic_fetch_add_explicit(&variant->holders, 1, memory_order_acquire);
    atomic_fetch_sub_explicit(&function->lookers, 1, memory_order_release);
    return variant;
}

void cpu_code_cache_add(cpu_function_t *function, cpu_variant_t *variant)
{
    variant->function = function;
    atomic_init(&variant->holders, 1);
    atomic_init(&variant->next, atomic_load(&function->variants));
    pthread_mutex_lock(&lock);
    variant->previous_listed = NULL;
    variant->next_listed = listed;
    if (listed)
        listed->previous_listed = variant;
    listed = variant;
    bytes += size_of(variant);
    pthread_mutex_unlock(&lock);
    atomic_store(&function->variants, variant);
    function->variant_count++;
}

void cpu_variant_put(cpu_variant_t *variant)
{
    atomic_fetch_sub_explicit(&variant->holders, 1, memory_order_release);
}

void cpu_variant_put_many(cpu_variant_t *variant, unsigned count)
{
    atomic_fetch_sub_explicit(&variant->holders, count, memory_order_release);
}

/* Under the lock. */
static void unlist(cpu_variant_t *variant)
{
    if (variant->previous_listed)
        variant->previous_listed->next_listed = variant->next_listed;
    else
        listed = variant->next_listed;
    if (variant->next_listed)
        variant->next_listed->previous_listed = variant->previous_listed;
    bytes -= size_of(variant);
}

static void destroy(cpu_variant_t *variant)
{
    cpu_code_free(variant->code);
    free(variant->globals);
    free(variant);
}

/* Takes it off its function's list; under the function's lock. */
static void unlink_variant(cpu_variant_t *variant)
{
    _Atomic(cpu_variant_t *) *at = &variant->function->variants;
    while (atomic_load(at) != variant)
        at = &atomic_load(at)->next;
    atomic_store(at, atomic_load(&variant->next));
    variant->function->variant_count--;
}

static void link_again(cpu_variant_t *variant)
{
    cpu_function_t *function = variant->function;
    atomic_store(&variant->next, atomic_load(&function->variants));
    atomic_store(&function->variants, variant);
    function->variant_count++;
}

/* Under the lock: whether it is gone. */
static bool evict(cpu_variant_t *variant)
{
    cpu_function_t *function = variant->function;
    if (pthread_mutex_trylock(&function->lock))
        return false;
    unlink_variant(variant);
    while (atomic_load(&function->lookers))
        sched_yield();
    bool unused = atomic_load(&variant->holders) == 0;
    if (!unused)
        link_again(variant);
    pthread_mutex_unlock(&function->lock);
    if (unused) {
        gb_log(GB_LOG_DEBUG, "kernel %s: code leaves memory", function->ptx->name);
        unlist(variant);
        destroy(variant);
    }
    return unused;
}

/* The variant that was used longest ago, of those used after `after` that nobody holds. */
static cpu_variant_t *oldest(uint64_t after)
{
    cpu_variant_t *found = NULL;
    uint64_t best = UINT64_MAX;
    for (cpu_variant_t *v = listed; v; v = v->next_listed) {
        uint64_t used = atomic_load_explicit(&v->used, memory_order_relaxed);
        if (used > after && used < best && atomic_load(&v->holders) == 0) {
            best = used;
            found = v;
        }
    }
    return found;
}

void cpu_code_cache_trim(void)
{
    uint64_t limit = cpu_driver()->config.code_bytes, after = 0;
    pthread_mutex_lock(&lock);
    while (bytes > limit) {
        cpu_variant_t *variant = oldest(after);
        if (!variant)
            break;
        /* One that cannot go now is not tried again. */
        uint64_t used = atomic_load_explicit(&variant->used, memory_order_relaxed);
        if (!evict(variant))
            after = used;
    }
    pthread_mutex_unlock(&lock);
}

void cpu_code_cache_drop(cpu_function_t *function)
{
    pthread_mutex_lock(
        &lock); /* before the first look: another thread may be evicting one of them */
    cpu_variant_t *variant = atomic_load(&function->variants);
    while (variant) {
        cpu_variant_t *next = atomic_load(&variant->next);
        unlist(variant);
        destroy(variant);
        variant = next;
    }
    pthread_mutex_unlock(&lock);
}

uint64_t cpu_code_cache_bytes(void)
{
    pthread_mutex_lock(&lock);
    uint64_t now = bytes;
    pthread_mutex_unlock(&lock);
    return now;
}

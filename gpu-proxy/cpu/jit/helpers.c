/* The helpers of generated code: the slow, exact way to check and to touch memory lane by lane, and
 * atomic operations. */
#include "gpu-proxy/cpu/jit/code.h"
#include "gpu-proxy/cpu/jit/helpers_lane.h"
#include "gpu-proxy/cpu/jit/helpers_tex.h"
#include "gpu-proxy/cpu/ptx/ptx_ir.h"

#include <string.h>
#include <time.h>

static bool inside(uint64_t base, uint64_t bytes, uint64_t address, uint64_t size)
{
    return bytes >= size && address - base <= bytes - size;
}

static bool in_ranges(const cpu_launch_t *l, uint64_t address, uint64_t size)
{
    if (inside(l->window_base, l->window_bytes, address, size)) {
        return true;
    }
    uint64_t low = 0, high = l->range_count;
    while (low < high) { /* last range with base <= address */
        uint64_t mid = low + (high - low) / 2;
        if (l->ranges[mid].base <= address) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low != 0 && inside(l->ranges[low - 1].base, l->ranges[low - 1].bytes, address, size);
}

static uint32_t linear_thread(const cpu_launch_t *l, const uint32_t tid[3])
{
    return tid[0] + l->block[0] * (tid[1] + l->block[1] * tid[2]);
}

/* Host address of `size` bytes, or NULL if they may not be touched. */
static void *resolve(cpu_launch_t *l, uint64_t address, uint64_t size, cpu_access_t a,
                     const uint32_t tid[3])
{
    uint64_t base;
    switch (a.space) {
    case PTX_SPACE_SHARED:
        return inside(0, l->shared_bytes, address, size) ? l->shared + address : NULL;
    case PTX_SPACE_LOCAL:
        base = (uint64_t)linear_thread(l, tid) * l->code->header.local_bytes;
        return inside(0, l->code->header.local_bytes, address, size) ? l->local + base + address
                                                                     : NULL;
    case PTX_SPACE_PARAM:
        return !a.write && inside((uintptr_t)l->params, l->param_bytes, address, size)
                   ? (void *)(uintptr_t)address
                   : NULL;
    case PTX_SPACE_GENERIC:
        if (inside((uintptr_t)l->shared, l->shared_bytes, address, size) ||
            inside((uintptr_t)l->local, l->local_bytes, address, size) ||
            (!a.write && inside((uintptr_t)l->params, l->param_bytes, address, size))) {
            return (void *)(uintptr_t)address;
        }
        break;
    default:
        break;
    }
    return in_ranges(l, address, size) ? (void *)(uintptr_t)address : NULL;
}

static int32_t record(cpu_launch_t *l, int32_t code, uint64_t address, cpu_access_t a,
                      const uint32_t tid[3])
{
    l->fault.code = code;
    l->fault.address = address;
    l->fault.bytes = (uint32_t)a.bytes * a.count;
    l->fault.space = a.space;
    l->fault.write = a.write;
    memcpy(l->fault.tid, tid, sizeof l->fault.tid);
    memcpy(l->fault.ctaid, l->ctaid, sizeof l->fault.ctaid);
    return CPU_STATE_FAULT;
}

static void *checked(cpu_launch_t *l, uint64_t address, uint64_t size, uint64_t align,
                     cpu_access_t a, uint32_t strip, unsigned lane)
{
    uint32_t tid[3] = {0};
    if (a.space == PTX_SPACE_LOCAL) { /* nobody else needs to know the thread */
        cpu_thread_of(&l->code->header, l->block, strip, lane, tid);
    }
    void *p = resolve(l, address, size, a, tid);
    if (p != NULL && ((uintptr_t)p & (align - 1)) == 0) {
        return p;
    }
    cpu_thread_of(&l->code->header, l->block, strip, lane, tid);
    record(l, p == NULL ? CPU_FAULT_ADDRESS : CPU_FAULT_MISALIGNED, address, a, tid);
    return NULL;
}

void *cpu_lane_pointer(cpu_launch_t *l, uint64_t address, cpu_access_t a, uint32_t strip,
                       unsigned lane)
{
    uint64_t size = (uint64_t)a.bytes * a.count;
    return checked(l, address, size, size, a, strip, lane);
}

void *cpu_lane_stretch(cpu_launch_t *l, uint64_t address, uint64_t bytes, uint64_t align,
                       unsigned space, bool write, uint32_t strip, unsigned lane)
{
    cpu_access_t a = {.bytes = 1, .count = 1, .space = (uint8_t)space, .write = write};
    return checked(l, address, bytes, align, a, strip, lane);
}

static int32_t help_check(cpu_launch_t *l, const uint64_t *addresses, uint32_t mask,
                          uint32_t access, uint32_t strip)
{
    cpu_access_t a = cpu_access_unpack(access);
    for (uint32_t m = mask; m != 0; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        if (cpu_lane_pointer(l, addresses[lane], a, strip, lane) == NULL) {
            return CPU_STATE_FAULT;
        }
    }
    return 0;
}

/* Address of a lane without the offset. */
static uint64_t strip_address(const cpu_strip_access_t *w, uint64_t base, uint32_t index,
                              unsigned lane)
{
    uint64_t address = base + (uint64_t)w->stride * lane;
    if (w->bits == 32) {
        return (uint32_t)address;
    }
    uint32_t inner = index + (uint32_t)w->step * lane;
    uint64_t wide = w->sign ? (uint64_t)(int64_t)(int32_t)inner : inner;
    return address + (uint64_t)w->scale * wide;
}

static int32_t help_check_strip(cpu_launch_t *l, const cpu_strip_access_t *w, uint64_t base,
                                uint32_t index, uint32_t mask, uint32_t strip)
{
    cpu_access_t a = cpu_access_unpack(w->access);
    if (w->one) {
        mask &= 0 - mask;
    }
    for (uint32_t n = 0; n < w->count; n++) {
        for (uint32_t m = mask; m != 0; m &= m - 1) {
            unsigned lane = (unsigned)__builtin_ctz(m);
            uint64_t address = strip_address(w, base, index, lane) + (uint64_t)w->offsets[n];
            if (cpu_lane_pointer(l, address, a, strip, lane) == NULL) {
                return CPU_STATE_FAULT;
            }
        }
    }
    return 0;
}

/* Where a lane's element is in the copy that gather makes and scatter reads. */
static size_t copy_place(const cpu_strip_access_t *w, unsigned lane, uint32_t n)
{
    int64_t low = w->offsets[0];
    for (uint32_t k = 1; k < w->count; k++) {
        low = w->offsets[k] < low ? w->offsets[k] : low;
    }
    return (size_t)w->pitch * lane + (size_t)(w->offsets[n] - low);
}

/* Other threads see each element's move as one, and once: memcpy of a size that is known at run time
 * only may write a word twice. */
static void move(void *to, const void *from, size_t size)
{
    switch (size) {
    case 1:
        memcpy(to, from, 1);
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    case 8:
        memcpy(to, from, 8);
        break;
    case 16:
        memcpy(to, from, 16);
        break;
    default:
        memcpy(to, from, size);
    }
}

static int32_t copy_strip(cpu_launch_t *l, const cpu_strip_access_t *w, uint64_t base,
                          uint32_t index, uint32_t mask, uint32_t strip, uint8_t *out,
                          const uint8_t *values)
{
    cpu_access_t a = cpu_access_unpack(w->access);
    size_t size = (size_t)a.bytes * a.count;
    for (uint32_t n = 0; n < w->count; n++) {
        for (uint32_t m = mask; m != 0; m &= m - 1) {
            unsigned lane = (unsigned)__builtin_ctz(m);
            uint64_t address = strip_address(w, base, index, lane) + (uint64_t)w->offsets[n];
            uint8_t *p = cpu_lane_pointer(l, address, a, strip, lane);
            if (p == NULL) {
                return CPU_STATE_FAULT;
            }
            if (out != NULL) {
                move(out + copy_place(w, lane, n), p, size);
            } else {
                move(p, values + copy_place(w, lane, n), size);
            }
        }
    }
    return 0;
}

static int32_t help_gather(cpu_launch_t *l, const cpu_strip_access_t *w, uint64_t base,
                           uint32_t index, uint32_t mask, uint32_t strip, void *out)
{
    return copy_strip(l, w, base, index, mask, strip, out, NULL);
}

static int32_t help_scatter(cpu_launch_t *l, const cpu_strip_access_t *w, uint64_t base,
                            uint32_t index, uint32_t mask, uint32_t strip, const void *values)
{
    return copy_strip(l, w, base, index, mask, strip, NULL, values);
}

static int32_t help_spans(const cpu_launch_t *l, const uint64_t *pairs, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        uint64_t low = pairs[2 * n], high = pairs[2 * n + 1];
        if (low >= high || !in_ranges(l, low, high - low)) {
            return 0;
        }
    }
    return 1;
}

static float f32_of(uint64_t v)
{
    float f;
    uint32_t w = (uint32_t)v;
    memcpy(&f, &w, 4);
    return f;
}

static uint64_t of_f32(float f)
{
    uint32_t w;
    memcpy(&w, &f, 4);
    return w;
}

static double f64_of(uint64_t v)
{
    double f;
    memcpy(&f, &v, 8);
    return f;
}

static uint64_t of_f64(double f)
{
    uint64_t w;
    memcpy(&w, &f, 8);
    return w;
}

static uint64_t minmax(uint64_t old, uint64_t a, uint32_t type, bool want_max)
{
    bool less;
    switch (type) {
    case PTX_S32:
        less = (int32_t)(uint32_t)a < (int32_t)(uint32_t)old;
        break;
    case PTX_S64:
        less = (int64_t)a < (int64_t)old;
        break;
    case PTX_F32:
        less = f32_of(a) < f32_of(old);
        return less != want_max && f32_of(a) != f32_of(old) ? a : old;
    case PTX_F64:
        less = f64_of(a) < f64_of(old);
        return less != want_max && f64_of(a) != f64_of(old) ? a : old;
    default:
        less = a < old;
    }
    return less != want_max ? a : old;
}

/* The new value of a memory cell; values are zero-extended to 64 bits. */
static uint64_t combine(uint32_t mode, uint32_t type, uint64_t old, uint64_t a, uint64_t b)
{
    switch (mode) {
    case PTX_ATOM_ADD:
        return type == PTX_F32   ? of_f32(f32_of(old) + f32_of(a))
               : type == PTX_F64 ? of_f64(f64_of(old) + f64_of(a))
                                 : old + a;
    case PTX_ATOM_MIN:
        return minmax(old, a, type, false);
    case PTX_ATOM_MAX:
        return minmax(old, a, type, true);
    case PTX_ATOM_AND:
        return old & a;
    case PTX_ATOM_OR:
        return old | a;
    case PTX_ATOM_XOR:
        return old ^ a;
    case PTX_ATOM_EXCH:
        return a;
    case PTX_ATOM_CAS:
        return old == a ? b : old;
    case PTX_ATOM_INC:
        return old >= a ? 0 : old + 1;
    default: /* PTX_ATOM_DEC */
        return old == 0 || old > a ? a : old - 1;
    }
}

static uint64_t atomic32(uint32_t *p, uint32_t mode, uint32_t type, uint64_t a, uint64_t b)
{
    uint32_t old = __atomic_load_n(p, __ATOMIC_RELAXED);
    for (;;) {
        uint32_t next = (uint32_t)combine(mode, type, old, (uint32_t)a, (uint32_t)b);
        if (__atomic_compare_exchange_n(p, &old, next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
            return old;
        }
    }
}

static uint64_t atomic64(uint64_t *p, uint32_t mode, uint32_t type, uint64_t a, uint64_t b)
{
    uint64_t old = __atomic_load_n(p, __ATOMIC_RELAXED);
    for (;;) {
        uint64_t next = combine(mode, type, old, a, b);
        if (__atomic_compare_exchange_n(p, &old, next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
            return old;
        }
    }
}

static uint64_t atomic16(uint16_t *p, uint32_t mode, uint32_t type, uint64_t a, uint64_t b)
{
    uint16_t old = __atomic_load_n(p, __ATOMIC_RELAXED);
    for (;;) {
        uint16_t next = (uint16_t)combine(mode, type, old, (uint16_t)a, (uint16_t)b);
        if (__atomic_compare_exchange_n(p, &old, next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
            return old;
        }
    }
}

uint64_t cpu_atomic_cell(void *cell, uint32_t mode, uint32_t type, uint64_t a, uint64_t b)
{
    switch (ptx_type_size((ptx_type_t)type)) {
    case 2:
        return atomic16(cell, mode, type, a, b);
    case 4:
        return atomic32(cell, mode, type, a, b);
    default:
        return atomic64(cell, mode, type, a, b);
    }
}

static int32_t help_atomic(cpu_launch_t *l, const uint64_t *addresses, uint32_t mask,
                           uint32_t access, uint32_t strip, uint32_t what, const uint64_t *a,
                           const uint64_t *b, uint64_t *old)
{
    cpu_access_t acc = cpu_access_unpack(access);
    uint32_t mode = what & 0xff, type = what >> 8;
    for (uint32_t m = mask; m != 0; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        void *p = cpu_lane_pointer(l, addresses[lane], acc, strip, lane);
        if (p == NULL) {
            return CPU_STATE_FAULT;
        }
        old[lane] = cpu_atomic_cell(p, mode, type, a[lane], b[lane]);
    }
    return 0;
}

static int32_t help_fault(cpu_launch_t *l, uint32_t code, uint32_t mask, uint32_t strip)
{
    uint32_t tid[3];
    unsigned lane = mask != 0 ? (unsigned)__builtin_ctz(mask) : 0;
    cpu_thread_of(&l->code->header, l->block, strip, lane, tid);
    return record(l, (int32_t)code, 0, (cpu_access_t){0}, tid);
}

static uint64_t help_nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

const cpu_helpers_t *cpu_helpers(void)
{
    static const cpu_helpers_t table = {
        .check = help_check,
        .check_strip = help_check_strip,
        .gather = help_gather,
        .scatter = help_scatter,
        .atomic = help_atomic,
        .fault = help_fault,
        .nanoseconds = help_nanoseconds,
        .runtime = cpu_help_runtime,
        .atomic_rare = cpu_help_atomic_rare,
        .async = cpu_help_async,
        .matrix = cpu_help_matrix,
        .texture = cpu_help_texture,
        .spans = help_spans,
    };
    return &table;
}

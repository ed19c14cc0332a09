/* The beginning of a kernel's function: values of the launch, and where the group's threads are. */
#include "gpu-proxy/cpu/jit/gen_state.h"

static val_t field(cpu_gen_t *gen, size_t offset, type_t type)
{
    val_t at = LLVMConstInt(gen->i64, offset, 0);
    val_t p = LLVMBuildGEP2(gen->b, gen->i8, gen->launch, &at, 1, "");
    return LLVMBuildLoad2(gen->b, type, p, "");
}

static void lengths(cpu_gen_t *gen)
{
    const cpu_shape_t *s = &gen->a->config.shape;
    for (unsigned d = 0; d < 3; d++) {
        gen->ctaid[d] = field(gen, offsetof(cpu_launch_t, ctaid) + 4 * d, gen->i32);
        gen->nctaid[d] = field(gen, offsetof(cpu_launch_t, grid) + 4 * d, gen->i32);
        gen->ntid[d] = s->kind == CPU_SHAPE_EXACT ? LLVMConstInt(gen->i32, s->block[d], 0)
                       : s->kind == CPU_SHAPE_LINEAR && d > 0
                           ? LLVMConstInt(gen->i32, 1, 0)
                           : field(gen, offsetof(cpu_launch_t, block) + 4 * d, gen->i32);
    }
}

static val_t mul(cpu_gen_t *gen, val_t x, val_t y)
{
    return LLVMBuildMul(gen->b, x, y, "");
}

static val_t add(cpu_gen_t *gen, val_t x, val_t y)
{
    return LLVMBuildAdd(gen->b, x, y, "");
}

static val_t constant(cpu_gen_t *gen, uint32_t v)
{
    return LLVMConstInt(gen->i32, v, 0);
}

static val_t strips_per_row(cpu_gen_t *gen)
{
    val_t n = add(gen, gen->ntid[0], constant(gen, gen->W - 1));
    return LLVMBuildUDiv(gen->b, n, constant(gen, gen->W), "");
}

/* Mirrors cpu_strip_at. */
void gen_place_strips(cpu_gen_t *gen)
{
    uint32_t layout = gen->a->config.layout;
    val_t per_row = layout == CPU_LAYOUT_WARPS ? NULL : strips_per_row(gen);
    val_t first = mul(gen, gen->group, constant(gen, gen->G));
    for (unsigned g = 0; g < gen->G; g++) {
        val_t strip = add(gen, first, constant(gen, g)), row = NULL;
        if (layout == CPU_LAYOUT_WARPS) {
            gen->linear[g] = mul(gen, strip, constant(gen, gen->W));
            continue;
        }
        if (layout == CPU_LAYOUT_ROWS) {
            val_t c = LLVMBuildURem(gen->b, gen->group, per_row, "");
            val_t r = LLVMBuildUDiv(gen->b, gen->group, per_row, "");
            gen->column[g] = mul(gen, c, constant(gen, gen->W));
            row = add(gen, mul(gen, r, constant(gen, gen->G)), constant(gen, g));
        } else {
            val_t c = LLVMBuildURem(gen->b, strip, per_row, "");
            gen->column[g] = mul(gen, c, constant(gen, gen->W));
            row = LLVMBuildUDiv(gen->b, strip, per_row, "");
        }
        gen->row_y[g] = LLVMBuildURem(gen->b, row, gen->ntid[1], "");
        gen->row_z[g] = LLVMBuildUDiv(gen->b, row, gen->ntid[1], "");
        gen->linear[g] = add(gen, mul(gen, row, gen->ntid[0]), gen->column[g]);
    }
}

void gen_setup(cpu_gen_t *gen)
{
    gen->launch = LLVMGetParam(gen->fn, 0);
    gen->ctx = LLVMGetParam(gen->fn, 1);
    gen->group = LLVMGetParam(gen->fn, 2);
    gen->state = LLVMGetParam(gen->fn, 3);
    gen->params = field(gen, offsetof(cpu_launch_t, params), gen->ptr);
    gen->globals = field(gen, offsetof(cpu_launch_t, globals), gen->ptr);
    gen->cancel = field(gen, offsetof(cpu_launch_t, cancel), gen->ptr);
    gen->shared = field(gen, offsetof(cpu_launch_t, shared), gen->ptr);
    gen->shared_bytes = field(gen, offsetof(cpu_launch_t, shared_bytes), gen->i64);
    gen->local = field(gen, offsetof(cpu_launch_t, local), gen->ptr);
    gen->window_base = field(gen, offsetof(cpu_launch_t, window_base), gen->i64);
    gen->window_bytes = field(gen, offsetof(cpu_launch_t, window_bytes), gen->i64);
    lengths(gen);
    gen->buffer = gen_alloca(gen, LLVMArrayType2(gen->i8, BUFFER_BYTES), 64);
}

static uint64_t block_threads(const cpu_shape_t *s)
{
    return (uint64_t)s->block[0] * s->block[1] * s->block[2];
}

bool gen_group_is_full(const cpu_gen_t *gen)
{
    const cpu_shape_t *s = &gen->a->config.shape;
    uint64_t rows = (uint64_t)s->block[1] * s->block[2];
    if (gen->W * gen->G == 1) {
        return true;
    }
    if (s->kind != CPU_SHAPE_EXACT) {
        return false;
    }
    switch (gen->a->config.layout) {
    case CPU_LAYOUT_ROWS:
        return s->block[0] % gen->W == 0 && rows % gen->G == 0;
    case CPU_LAYOUT_COLUMNS:
        return s->block[0] % gen->W == 0 && s->block[0] / gen->W * rows % gen->G == 0;
    default:
        return block_threads(s) % ((uint64_t)gen->W * gen->G) == 0;
    }
}

bool gen_group_may_be_full(const cpu_gen_t *gen)
{
    const cpu_shape_t *s = &gen->a->config.shape;
    uint64_t rows = (uint64_t)s->block[1] * s->block[2];
    if (s->kind != CPU_SHAPE_EXACT) {
        return true;
    }
    switch (gen->a->config.layout) {
    case CPU_LAYOUT_ROWS:
        return s->block[0] >= gen->W && rows >= gen->G;
    case CPU_LAYOUT_COLUMNS: /* G neighbouring strips, all full */
        return s->block[0] >= gen->W &&
               (s->block[0] % gen->W == 0 ? s->block[0] / gen->W * rows : s->block[0] / gen->W) >=
                   gen->G;
    default:
        return block_threads(s) >= (uint64_t)gen->W * gen->G;
    }
}

static val_t below(cpu_gen_t *gen, val_t first, val_t limit)
{
    val_t lanes = gen_thread_vector(gen, first, 1);
    return LLVMBuildICmp(gen->b, LLVMIntULT, lanes, gen_splat(gen, limit), "");
}

val_t gen_valid_lanes(cpu_gen_t *gen, unsigned g)
{
    val_t rows = mul(gen, gen->ntid[1], gen->ntid[2]);
    if (gen->a->config.layout == CPU_LAYOUT_WARPS) {
        return below(gen, gen->linear[g], mul(gen, gen->ntid[0], rows));
    }
    val_t in_row = below(gen, gen->column[g], gen->ntid[0]);
    val_t is_row = LLVMBuildICmp(gen->b, LLVMIntULT, gen->row_z[g], gen->ntid[2], "");
    return LLVMBuildAnd(gen->b, in_row, gen_splat(gen, is_row), "");
}

/* Which thread is where: strips and groups of a block. The code generator emits the same sums. */
#include "gpu-proxy/cpu/jit/helpers.h"

/* Exact shapes are worth their compile time for the few block sizes that a program really uses. */
enum { EXACT_VARIANTS = 6 };

cpu_shape_t cpu_shape_choose(const uint32_t block[3], unsigned variants)
{
    cpu_shape_t s = {CPU_SHAPE_EXACT, {block[0], block[1], block[2]}};
    if (variants >= EXACT_VARIANTS) {
        s.kind = block[1] == 1 && block[2] == 1 ? CPU_SHAPE_LINEAR : CPU_SHAPE_ANY;
        s.block[0] = s.block[1] = s.block[2] = 0;
    }
    return s;
}

bool cpu_shape_serves(const cpu_shape_t *shape, const uint32_t block[3])
{
    switch (shape->kind) {
    case CPU_SHAPE_EXACT:
        return shape->block[0] == block[0] && shape->block[1] == block[1] &&
               shape->block[2] == block[2];
    case CPU_SHAPE_LINEAR:
        return block[1] == 1 && block[2] == 1;
    default:
        return shape->kind == CPU_SHAPE_ANY;
    }
}

cpu_grouping_t cpu_grouping(uint32_t layout, uint32_t width, uint32_t strips,
                            const uint32_t block[3])
{
    cpu_grouping_t g;
    uint32_t rows = block[1] * block[2];
    switch (layout) {
    case CPU_LAYOUT_ROWS:
        g.strips_per_row = (block[0] + width - 1) / width;
        g.groups = g.strips_per_row * ((rows + strips - 1) / strips);
        break;
    case CPU_LAYOUT_COLUMNS:
        g.strips_per_row = (block[0] + width - 1) / width;
        g.groups = (g.strips_per_row * rows + strips - 1) / strips;
        break;
    default:
        g.strips_per_row = (block[0] * rows + width - 1) / width;
        g.groups = (g.strips_per_row + strips - 1) / strips;
    }
    return g;
}

cpu_strip_t cpu_strip_at(uint32_t layout, uint32_t width, uint32_t strips, uint32_t strips_per_row,
                         uint32_t strip)
{
    cpu_strip_t s = {0, 0};
    uint32_t group = strip / strips;
    switch (layout) {
    case CPU_LAYOUT_ROWS:
        s.column = group % strips_per_row * width;
        s.row = group / strips_per_row * strips + strip % strips;
        break;
    case CPU_LAYOUT_COLUMNS:
        s.column = strip % strips_per_row * width;
        s.row = strip / strips_per_row;
        break;
    default:
        s.column = strip * width;
    }
    return s;
}

bool cpu_thread_of(const cpu_code_header_t *header, const uint32_t block[3], uint32_t strip,
                   unsigned lane, uint32_t tid[3])
{
    cpu_grouping_t g = cpu_grouping(header->layout, header->width, header->strips, block);
    cpu_strip_t s =
        cpu_strip_at(header->layout, header->width, header->strips, g.strips_per_row, strip);
    uint32_t x = s.column + lane;
    if (header->layout == CPU_LAYOUT_WARPS) {
        tid[0] = x % block[0];
        tid[1] = x / block[0] % block[1];
        tid[2] = x / block[0] / block[1];
        return x < block[0] * block[1] * block[2];
    }
    tid[0] = x;
    tid[1] = s.row % block[1];
    tid[2] = s.row / block[1];
    return x < block[0] && s.row < block[1] * block[2];
}

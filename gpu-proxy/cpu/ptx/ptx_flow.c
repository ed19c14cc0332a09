#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_parser.h"

static ptx_instr_t *instr_at(const ptx_parser_t *p, uint32_t i)
{
    return (ptx_instr_t *)p->body.instrs.data + i;
}

/* Control does not simply go on behind it. */
static bool ends_block(const ptx_instr_t *in)
{
    return in->op == PTX_OP_BRA || in->op == PTX_OP_BRX || in->op == PTX_OP_RET ||
           in->op == PTX_OP_EXIT || in->op == PTX_OP_TRAP || in->op == PTX_OP_BAR;
}

static bool never_goes_on(const ptx_instr_t *in)
{
    return ends_block(in) && in->op != PTX_OP_BAR && in->guard == PTX_NONE;
}

/* The label operand of a branch, or NULL. */
static ptx_operand_t *target(const ptx_parser_t *p, const ptx_instr_t *in)
{
    if (in->op != PTX_OP_BRA && in->op != PTX_OP_BRX)
        return NULL;
    return (ptx_operand_t *)p->body.operands.data + in->operand_first + in->src_count - 1;
}

/* Running off the end is a return, also for labels that stand behind the last instruction. */
static bool close_end(ptx_parser_t *p, bool label_at_end)
{
    uint32_t n = p->body.instrs.count;
    if (n > 0 && never_goes_on(instr_at(p, n - 1)) && !label_at_end)
        return true;
    ptx_instr_t *ret = ptx_vec_push(&p->body.instrs, sizeof *ret, 1);
    if (!ret)
        return ptx_p_no_memory(p);
    *ret = (ptx_instr_t){.op = PTX_OP_RET,
                         .vec = 1,
                         .guard = PTX_NONE,
                         .line = p->lex.tok.line,
                         .operand_first = p->body.operands.count,
                         .mnemonic = "ret"};
    return true;
}

static bool check_targets(ptx_parser_t *p, bool *label_at_end)
{
    const uint32_t *entries = p->body.table_entries.data;
    uint32_t first = 0, n = p->body.instrs.count;
    for (uint32_t i = 0; i < n; i++) {
        const ptx_operand_t *o = target(p, instr_at(p, i));
        const ptx_instr_t *in = instr_at(p, i);
        if (!o)
            continue;
        if (o->kind != (in->op == PTX_OP_BRA ? PTX_OPERAND_BLOCK : PTX_OPERAND_TABLE))
            return ptx_p_fail(p, GB_ERR_FORMAT, in->line, "'%s' does not go to such a label",
                              in->mnemonic);
        if (in->op == PTX_OP_BRX && ((ptx_table_t *)p->body.tables.data)[o->index].of_functions)
            return ptx_p_fail(p, GB_ERR_FORMAT, in->line, "'%s' wants .branchtargets",
                              in->mnemonic);
        *label_at_end |= in->op == PTX_OP_BRA && o->index == n;
    }
    for (uint32_t t = 0; t < p->body.tables.count; t++) {
        const ptx_table_t *table = (const ptx_table_t *)p->body.tables.data + t;
        for (uint32_t i = 0; !table->of_functions && i < table->count; i++)
            *label_at_end |= entries[first + i] == n;
        first += table->count;
    }
    return true;
}

/* block_of[i] = 1 where a block starts. */
static void mark_starts(const ptx_parser_t *p, uint32_t *block_of)
{
    uint32_t n = p->body.instrs.count, first = 0;
    block_of[0] = 1;
    for (uint32_t i = 0; i < n; i++) {
        const ptx_instr_t *in = instr_at(p, i);
        const ptx_operand_t *o = target(p, in);
        if (ends_block(in) && i + 1 < n)
            block_of[i + 1] = 1;
        if (o && o->kind == PTX_OPERAND_BLOCK)
            block_of[o->index] = 1;
    }
    for (uint32_t t = 0; t < p->body.tables.count; t++) {
        const ptx_table_t *table = (const ptx_table_t *)p->body.tables.data + t;
        for (uint32_t i = 0; !table->of_functions && i < table->count; i++)
            block_of[((uint32_t *)p->body.table_entries.data)[first + i]] = 1;
        first += table->count;
    }
}

/* Turns the marks into block numbers; returns how many there are. */
static uint32_t number_blocks(uint32_t *block_of, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        count += block_of[i];
        block_of[i] = count - 1;
    }
    return count;
}

static void patch_labels(const ptx_parser_t *p, const uint32_t *block_of)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < p->body.instrs.count; i++) {
        ptx_operand_t *o = target(p, instr_at(p, i));
        if (o && o->kind == PTX_OPERAND_BLOCK)
            o->index = block_of[o->index];
    }
    for (uint32_t t = 0; t < p->body.tables.count; t++) {
        const ptx_table_t *table = (const ptx_table_t *)p->body.tables.data + t;
        uint32_t *entries = (uint32_t *)p->body.table_entries.data + first;
        for (uint32_t i = 0; !table->of_functions && i < table->count; i++)
            entries[i] = block_of[entries[i]];
        first += table->count;
    }
}

static void connect(const ptx_parser_t *p, ptx_block_t *block, uint32_t next)
{
    const ptx_instr_t *last = instr_at(p, block->first + block->count - 1);
    const ptx_operand_t *o = target(p, last);
    block->succ_table = PTX_NONE;
    if (last->op == PTX_OP_BRA)
        block->succ[block->succ_count++] = o->index;
    else if (last->op == PTX_OP_BRX)
        block->succ_table = o->index;
    if (!never_goes_on(last))
        block->succ[block->succ_count++] = next;
}

static ptx_block_t *make_blocks(ptx_parser_t *p, const uint32_t *block_of, uint32_t count)
{
    ptx_block_t *blocks = ptx_arena_alloc(p->arena, count * sizeof *blocks);
    if (!blocks) {
        ptx_p_no_memory(p);
        return NULL;
    }
    for (uint32_t i = 0; i < p->body.instrs.count; i++) {
        ptx_block_t *block = &blocks[block_of[i]];
        if (block->count++ == 0)
            block->first = i;
    }
    for (uint32_t b = 0; b < count; b++)
        connect(p, &blocks[b], b + 1);
    return blocks;
}

/* Gives every table its entries in the arena. */
static bool finish_tables(ptx_parser_t *p)
{
    uint32_t *entries = ptx_arena_copy(p->arena, p->body.table_entries.data,
                                       p->body.table_entries.count * sizeof *entries);
    if (p->body.table_entries.count && !entries)
        return ptx_p_no_memory(p);
    for (uint32_t t = 0; t < p->body.tables.count; t++) {
        ptx_table_t *table = (ptx_table_t *)p->body.tables.data + t;
        table->entries = entries;
        entries += table->count;
    }
    return true;
}

static bool keep(ptx_parser_t *p, const ptx_vec_t *vec, size_t item, const void *out,
                 uint32_t *count)
{
    void *copy = ptx_arena_copy(p->arena, vec->data, vec->count * item);
    if (vec->count && !copy)
        return ptx_p_no_memory(p);
    memcpy((void *)(uintptr_t)out, &copy, sizeof copy);
    *count = vec->count;
    return true;
}

static bool move_to_module(ptx_parser_t *p)
{
    ptx_body_t *b = &p->body;
    ptx_function_t *f = ptx_p_function(p, b->function);
    ptx_shared_use_t *use = (ptx_shared_use_t *)p->shared_uses.data + b->function;
    f->local_size = b->local_size;
    f->local_align = b->local_align;
    f->args_size = b->args_size;
    f->calls_indirect = b->calls_indirect;
    f->has_barrier = b->has_barrier;
    return finish_tables(p) && keep(p, &b->regs, sizeof(ptx_reg_t), &f->regs, &f->reg_count) &&
           keep(p, &b->instrs, sizeof(ptx_instr_t), &f->instrs, &f->instr_count) &&
           keep(p, &b->operands, sizeof(ptx_operand_t), &f->operands, &f->operand_count) &&
           keep(p, &b->tables, sizeof(ptx_table_t), &f->tables, &f->table_count) &&
           keep(p, &b->protos, sizeof(ptx_proto_t), &f->protos, &f->proto_count) &&
           keep(p, &b->callees, sizeof(uint32_t), &f->callees, &f->callee_count) &&
           keep(p, &b->shared, sizeof(uint32_t), &use->vars, &use->count);
}

static bool build_flow(ptx_parser_t *p, uint32_t *block_of)
{
    mark_starts(p, block_of);
    uint32_t count = number_blocks(block_of, p->body.instrs.count);
    patch_labels(p, block_of);
    ptx_block_t *blocks = make_blocks(p, block_of, count);
    if (!blocks)
        return false;
    ptx_function_t *f = ptx_p_function(p, p->body.function);
    f->blocks = blocks;
    f->block_count = count;
    return move_to_module(p);
}

bool ptx_p_finish_body(ptx_parser_t *p)
{
    bool label_at_end = false;
    if (!check_targets(p, &label_at_end) || !close_end(p, label_at_end))
        return false;
    uint32_t *block_of = calloc(p->body.instrs.count, sizeof *block_of);
    if (!block_of)
        return ptx_p_no_memory(p);
    bool ok = build_flow(p, block_of);
    free(block_of);
    return ok;
}

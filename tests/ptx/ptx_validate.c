#include "tests/ptx/ptx_validate.h"

#include <string.h>

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return #condition;                                                                     \
    } while (0)

static const char *check_operand(const ptx_module_t *m, const ptx_function_t *f,
                                 const ptx_operand_t *o, bool nested)
{
    switch (o->kind) {
    case PTX_OPERAND_NONE:
    case PTX_OPERAND_SINK:
    case PTX_OPERAND_IMM:
        return NULL;
    case PTX_OPERAND_REG:
        REQUIRE(o->index < f->reg_count);
        return NULL;
    case PTX_OPERAND_SREG:
        REQUIRE(o->index > PTX_SREG_NONE && o->index < PTX_SREG_COUNT);
        return NULL;
    case PTX_OPERAND_VAR:
        REQUIRE(o->index < m->var_count);
        return NULL;
    case PTX_OPERAND_FUNC:
        REQUIRE(o->index < m->function_count);
        return NULL;
    case PTX_OPERAND_ADDRESS:
        REQUIRE(o->base == PTX_OPERAND_REG || o->base == PTX_OPERAND_VAR ||
                o->base == PTX_OPERAND_IMM);
        REQUIRE(o->base != PTX_OPERAND_REG || o->index < f->reg_count);
        REQUIRE(o->base != PTX_OPERAND_VAR || o->index < m->var_count);
        return NULL;
    case PTX_OPERAND_VECTOR:
        REQUIRE(!nested);
        REQUIRE(o->index <= f->operand_count && o->count <= f->operand_count - o->index);
        for (unsigned i = 0; i < o->count; i++) {
            const char *why = check_operand(m, f, ptx_element(f, o, i), true);
            if (why)
                return why;
        }
        return NULL;
    case PTX_OPERAND_BLOCK:
        REQUIRE(o->index < f->block_count);
        return NULL;
    case PTX_OPERAND_TABLE:
        REQUIRE(o->index < f->table_count);
        return NULL;
    case PTX_OPERAND_PROTO:
        REQUIRE(o->index < f->proto_count);
        return NULL;
    default:
        return "unknown kind of operand";
    }
}

static const char *check_instr(const ptx_module_t *m, const ptx_function_t *f,
                               const ptx_instr_t *in)
{
    unsigned operands = in->dst_count + in->src_count;
    REQUIRE(in->op > PTX_OP_INVALID && in->op < PTX_OP_COUNT);
    REQUIRE(in->type < PTX_TYPE_COUNT && in->type2 < PTX_TYPE_COUNT);
    REQUIRE(in->mnemonic && strlen(in->mnemonic) >= 2);
    REQUIRE(in->guard == PTX_NONE ||
            (in->guard < f->reg_count && f->regs[in->guard].type == PTX_PRED));
    REQUIRE(in->operand_first <= f->operand_count &&
            operands <= f->operand_count - in->operand_first);
    for (unsigned i = 0; i < operands; i++) {
        const char *why = check_operand(m, f, &f->operands[in->operand_first + i], false);
        if (why)
            return why;
    }
    return NULL;
}

static const char *check_blocks(const ptx_function_t *f)
{
    uint32_t next = 0;
    for (uint32_t b = 0; b < f->block_count; b++) {
        const ptx_block_t *block = &f->blocks[b];
        REQUIRE(block->first == next && block->count > 0);
        next += block->count;
        REQUIRE(next <= f->instr_count);
        REQUIRE(block->succ_count <= 2);
        for (uint32_t s = 0; s < block->succ_count; s++)
            REQUIRE(block->succ[s] < f->block_count);
        REQUIRE(block->succ_table == PTX_NONE || block->succ_table < f->table_count);
        for (uint32_t i = block->first; i + 1 < next; i++) {
            uint16_t op = f->instrs[i].op;
            REQUIRE(op != PTX_OP_BRA && op != PTX_OP_BRX && op != PTX_OP_RET && op != PTX_OP_EXIT &&
                    op != PTX_OP_TRAP && op != PTX_OP_BAR);
        }
    }
    REQUIRE(next == f->instr_count);
    return NULL;
}

static const char *check_tables(const ptx_module_t *m, const ptx_function_t *f)
{
    for (uint32_t t = 0; t < f->table_count; t++) {
        uint32_t limit = f->tables[t].of_functions ? m->function_count : f->block_count;
        for (uint32_t i = 0; i < f->tables[t].count; i++)
            REQUIRE(f->tables[t].entries[i] < limit);
    }
    return NULL;
}

static const char *check_shared(const ptx_module_t *m, const ptx_function_t *f)
{
    for (uint32_t i = 0; i < f->shared_count; i++) {
        const ptx_shared_slot_t *slot = &f->shared[i];
        REQUIRE(slot->var < m->var_count && (i == 0 || f->shared[i - 1].var < slot->var));
        const ptx_var_t *var = &m->vars[slot->var];
        REQUIRE(var->space == PTX_SPACE_SHARED && slot->offset % var->align == 0);
        REQUIRE(var->dynamic || slot->offset + var->size <= f->shared_size);
        REQUIRE(ptx_shared_offset(m, f, slot->var) == slot->offset);
    }
    return NULL;
}

static const char *check_function(const ptx_module_t *m, uint32_t index)
{
    const ptx_function_t *f = &m->functions[index];
    const char *why;
    REQUIRE(f->name && ptx_module_function(m, f->name) == index);
    REQUIRE(f->param_count == 0 || f->param_first + f->param_count <= m->var_count);
    for (uint32_t i = 0; i < f->param_count; i++) {
        const ptx_var_t *param = &m->vars[f->param_first + i];
        REQUIRE(param->space == PTX_SPACE_PARAM && param->offset + param->size <= f->param_size);
    }
    if (!f->defined)
        return NULL;
    REQUIRE(f->block_count > 0);
    for (uint32_t i = 0; i < f->instr_count; i++) {
        if ((why = check_instr(m, f, &f->instrs[i])) != NULL)
            return why;
    }
    for (uint32_t i = 0; i < f->callee_count; i++)
        REQUIRE(f->callees[i] < m->function_count);
    if ((why = check_blocks(f)) != NULL || (why = check_tables(m, f)) != NULL)
        return why;
    return f->is_kernel ? check_shared(m, f) : NULL;
}

static const char *check_var(const ptx_module_t *m, const ptx_var_t *var)
{
    REQUIRE(var->name && var->align && (var->align & (var->align - 1)) == 0);
    REQUIRE(var->owner == PTX_NONE || var->owner < m->function_count);
    REQUIRE(var->reloc_first <= m->reloc_count &&
            var->reloc_count <= m->reloc_count - var->reloc_first);
    volatile unsigned char sum = 0; /* reads every byte: sanitizers look on */
    for (uint64_t i = 0; var->init && i < var->size; i++)
        sum = (unsigned char)(sum + var->init[i]);
    for (uint32_t i = 0; i < var->reloc_count; i++) {
        const ptx_reloc_t *reloc = &m->relocs[var->reloc_first + i];
        REQUIRE(reloc->offset + reloc->size <= var->size);
        REQUIRE((reloc->var < m->var_count) != (reloc->function < m->function_count));
    }
    return NULL;
}

const char *ptx_validate(const ptx_module_t *m)
{
    const char *why = NULL;
    REQUIRE(m->isa_major >= 1 && m->target && m->address_size == 64);
    for (uint32_t i = 0; i < m->var_count && !why; i++)
        why = check_var(m, &m->vars[i]);
    for (uint32_t i = 0; i < m->function_count && !why; i++)
        why = check_function(m, i);
    return why;
}

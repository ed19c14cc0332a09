/* Lists of instructions under construction. */
#include "gpu-proxy/cpu/lower/lower_state.h"

#include <string.h>

void *lw_push(lw_t *lw, lw_vec_t *vec, size_t item, uint32_t count)
{
    if (vec->count + count > vec->capacity) {
        uint32_t room = vec->capacity == 0 ? 16 : vec->capacity * 2;
        room = room < vec->count + count ? vec->count + count : room;
        void *grown = cpu_arena_alloc(lw->arena, room, item);
        if (vec->count != 0) {
            memcpy(grown, vec->data, vec->count * item);
        }
        vec->data = grown;
        vec->capacity = room;
    }
    void *at = (char *)vec->data + vec->count * item;
    vec->count += count;
    return at;
}

void lw_trouble(lw_t *lw, const char *why)
{
    if (lw->trouble == NULL) {
        lw->trouble = why;
        lw->trouble_line = lw->line;
    }
}

uint32_t lw_reg(lw_t *lw, unsigned type, const char *name)
{
    ptx_reg_t *r = lw_push(lw, &lw->regs, sizeof *r, 1);
    *r = (ptx_reg_t){.name = name, .number = lw->regs.count - 1, .type = (uint8_t)type};
    return lw->regs.count - 1;
}

unsigned lw_reg_bytes(const lw_t *lw, uint32_t reg)
{
    return ptx_type_size((ptx_type_t)((const ptx_reg_t *)lw->regs.data)[reg].type);
}

uint32_t lw_label(lw_t *lw)
{
    return lw->labels++;
}

ptx_operand_t lw_of_reg(uint32_t reg)
{
    return (ptx_operand_t){.kind = PTX_OPERAND_REG, .index = reg};
}

ptx_operand_t lw_of_imm(uint64_t value)
{
    return (ptx_operand_t){.kind = PTX_OPERAND_IMM, .value = value};
}

ptx_instr_t *lw_emit(lw_t *lw, unsigned op, unsigned type, const ptx_operand_t *operands,
                     unsigned dst_count, unsigned src_count)
{
    uint32_t first = lw->operands.count;
    unsigned count = dst_count + src_count;
    if (count != 0) {
        memcpy(lw_push(lw, &lw->operands, sizeof *operands, count), operands,
               count * sizeof *operands);
    }
    if (lw->out->count >= LW_MAX_INSTRS) {
        lw_trouble(lw, "the kernel and what it calls are too large");
        lw->out->count = 0; /* nothing of it will be used */
    }
    ptx_instr_t *i = lw_push(lw, lw->out, sizeof *i, 1);
    *i = (ptx_instr_t){.op = (uint16_t)op,
                       .type = (uint8_t)type,
                       .vec = 1,
                       .dst_count = (uint8_t)dst_count,
                       .src_count = (uint8_t)src_count,
                       .guard = PTX_NONE,
                       .line = lw->line,
                       .operand_first = first,
                       .mnemonic = op < PTX_OP_COUNT ? ptx_op_name((ptx_op_t)op) : ""};
    return i;
}

void lw_here(lw_t *lw, uint32_t label)
{
    ptx_operand_t o = lw_of_imm(label);
    lw_emit(lw, LW_LABEL, PTX_TYPE_NONE, &o, 0, 1);
}

void lw_mov(lw_t *lw, unsigned type, uint32_t to, ptx_operand_t from)
{
    ptx_operand_t o[2] = {lw_of_reg(to), from};
    lw_emit(lw, PTX_OP_MOV, type, o, 1, 1);
}

void lw_bra(lw_t *lw, uint32_t label)
{
    ptx_operand_t o = {.kind = PTX_OPERAND_BLOCK, .index = label};
    lw_emit(lw, PTX_OP_BRA, PTX_TYPE_NONE, &o, 0, 1);
}

void lw_bra_if(lw_t *lw, uint32_t pred, bool negated, uint32_t label)
{
    lw_bra(lw, label);
    ptx_instr_t *i = lw_at(lw->out, lw->out->count - 1);
    i->guard = pred;
    i->guard_negated = negated;
}

void lw_tree(lw_t *lw, uint32_t reg, const uint64_t *keys, const uint32_t *labels, uint32_t count)
{
    if (count == 1) {
        lw_bra(lw, labels[0]);
        return;
    }
    uint32_t half = count / 2, low = lw_label(lw), p = lw_reg(lw, PTX_PRED, "%tree");
    unsigned type = lw_reg_bytes(lw, reg) == 8 ? PTX_U64 : PTX_U32;
    ptx_operand_t o[3] = {lw_of_reg(p), lw_of_reg(reg), lw_of_imm(keys[half])};
    lw_emit(lw, PTX_OP_SETP, type, o, 1, 2)->cmp = PTX_CMP_LT;
    lw_bra_if(lw, p, false, half == 1 ? labels[0] : low);
    lw_tree(lw, reg, keys + half, labels + half, count - half);
    if (half > 1) {
        lw_here(lw, low);
        lw_tree(lw, reg, keys, labels, half);
    }
}

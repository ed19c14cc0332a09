/* Coverage of arithmetic and logic: which operation on which type, with which modifiers. */
#include "gpu-proxy/cpu/jit/gaps.h"

static bool is_half(unsigned type)
{
    return type == PTX_F16 || type == PTX_BF16 || type == PTX_F16X2 || type == PTX_BF16X2;
}

bool cpu_is_directed(const ptx_instr_t *i)
{
    return i->round == PTX_ROUND_RZ || i->round == PTX_ROUND_RM || i->round == PTX_ROUND_RP;
}

static bool on_f32(const ptx_instr_t *i)
{
    switch (i->op) {
    case PTX_OP_REM:
    case PTX_OP_AND:
    case PTX_OP_OR:
    case PTX_OP_XOR:
    case PTX_OP_NOT:
        return false;
    default:
        return (i->flags & (PTX_F_CC | PTX_F_RELU | PTX_F_OOB)) == 0;
    }
}

static bool on_pairs(const ptx_instr_t *i)
{
    if (i->type == PTX_F32X2) {
        return (i->op == PTX_OP_ADD || i->op == PTX_OP_SUB || i->op == PTX_OP_MUL ||
                i->op == PTX_OP_FMA) &&
               (i->flags & PTX_F_SAT) == 0;
    }
    bool relu = (i->flags & PTX_F_RELU) != 0;
    return i->op == PTX_OP_ADD || ((i->op == PTX_OP_MIN || i->op == PTX_OP_MAX) &&
                                   (!relu || i->type == PTX_S16X2) && i->src_count == 2);
}

static bool on_integers(const ptx_instr_t *i)
{
    unsigned bytes = ptx_type_size((ptx_type_t)i->type);
    if (bytes < 2) {
        return false;
    }
    switch (i->op) {
    case PTX_OP_AND:
    case PTX_OP_OR:
    case PTX_OP_XOR:
    case PTX_OP_NOT:
        return true;
    case PTX_OP_FMA:
    case PTX_OP_RCP:
    case PTX_OP_SQRT:
    case PTX_OP_RSQRT:
    case PTX_OP_COPYSIGN:
        return false;
    case PTX_OP_MIN:
    case PTX_OP_MAX: {
        bool relu = (i->flags & PTX_F_RELU) != 0;
        return (i->flags & PTX_F_XORSIGN) == 0 && (!relu || i->type == PTX_S32) &&
               i->src_count == 2;
    }
    default:
        break;
    }
    if ((i->flags & PTX_F_CC) != 0) {
        return bytes >= 4;
    }
    return (i->flags & PTX_F_SAT) == 0 || i->type == PTX_S32;
}

bool cpu_covers_arithmetic(const ptx_instr_t *i)
{
    if (is_half(i->type)) {
        return cpu_covers_half(i);
    }
    switch (i->type) {
    case PTX_PRED:
        return i->op == PTX_OP_AND || i->op == PTX_OP_OR || i->op == PTX_OP_XOR ||
               i->op == PTX_OP_NOT;
    case PTX_F32:
    case PTX_F64:
        return on_f32(i);
    case PTX_F32X2:
    case PTX_S16X2:
    case PTX_U16X2:
        return on_pairs(i);
    default:
        return i->type != PTX_B128 && !ptx_type_is_float((ptx_type_t)i->type) && on_integers(i);
    }
}

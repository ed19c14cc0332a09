/* Coverage of f16, bf16 and pairs of them. */
#include "gpu-proxy/cpu/jit/gaps.h"

static bool is_pair(unsigned type)
{
    return type == PTX_F16X2 || type == PTX_BF16X2;
}

static bool is_single(unsigned type)
{
    return type == PTX_F16 || type == PTX_BF16;
}

/* set: a pair gives a pair or a word of two masks; a pair never comes of anything else. */
static bool setting(const ptx_instr_t *i)
{
    unsigned bytes = ptx_type_size((ptx_type_t)i->type);
    bool word = !ptx_type_is_float((ptx_type_t)i->type) && bytes == 4;
    if (is_pair(i->type2)) {
        return i->type == i->type2 || word;
    }
    if (is_single(i->type2)) {
        return i->type == i->type2 || word || i->type == PTX_U16 || i->type == PTX_S16;
    }
    return is_single(i->type) && i->type2 != PTX_TF32 && ptx_type_size((ptx_type_t)i->type2) >= 2 &&
           i->type2 != PTX_PRED;
}

bool cpu_covers_half(const ptx_instr_t *i)
{
    bool directed = i->round != PTX_ROUND_NONE && i->round != PTX_ROUND_RN;
    if (directed || (i->flags & PTX_F_OOB) != 0) {
        return false;
    }
    switch (i->op) {
    case PTX_OP_ADD:
    case PTX_OP_SUB:
    case PTX_OP_MUL:
    case PTX_OP_FMA:
    case PTX_OP_NEG:
    case PTX_OP_ABS:
    case PTX_OP_MIN:
    case PTX_OP_MAX:
    case PTX_OP_EX2:
    case PTX_OP_TANH:
    case PTX_OP_SETP:
        return true;
    case PTX_OP_SET:
        return setting(i);
    default:
        return false;
    }
}

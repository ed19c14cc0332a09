/* Which atomic operations are covered: the types and modes of PTX's atom and red. */
#include "gpu-proxy/cpu/jit/packet.h"

static bool is_add_min_max(unsigned mode)
{
    return mode == PTX_ATOM_ADD || mode == PTX_ATOM_MIN || mode == PTX_ATOM_MAX;
}

static bool is_half(unsigned type)
{
    return type == PTX_F16 || type == PTX_BF16;
}

static bool is_packed_half(unsigned type)
{
    return type == PTX_F16X2 || type == PTX_BF16X2;
}

/* Vectors are for global memory: 8, 16 bytes; of f32 only add. */
static bool vector_fits(const ptx_instr_t *i)
{
    unsigned bytes = i->vec * ptx_type_size((ptx_type_t)i->type);
    bool space = i->space == PTX_SPACE_GLOBAL || i->space == PTX_SPACE_GENERIC;
    if (!space || bytes > 16 || !is_add_min_max(i->mode)) {
        return false;
    }
    return i->type == PTX_F32 ? i->mode == PTX_ATOM_ADD && i->vec <= 4
                              : is_half(i->type) || is_packed_half(i->type);
}

bool cpu_atomic_rare(const ptx_instr_t *i, cpu_rare_t *out)
{
    bool rare = i->type == PTX_B128 || is_half(i->type) || is_packed_half(i->type) || i->vec > 1;
    *out = (cpu_rare_t){i->mode, i->type, i->vec > 1 ? i->vec : 1, i->space};
    if (!rare) {
        return false;
    }
    if (i->vec > 1) {
        return vector_fits(i);
    }
    if (i->type == PTX_B128) {
        return i->op == PTX_OP_ATOM && (i->mode == PTX_ATOM_EXCH || i->mode == PTX_ATOM_CAS);
    }
    return i->mode == PTX_ATOM_ADD;
}

static bool plain_fits(const ptx_instr_t *i)
{
    switch (i->mode) {
    case PTX_ATOM_ADD:
        return i->type == PTX_U32 || i->type == PTX_S32 || i->type == PTX_U64 ||
               i->type == PTX_S64 || i->type == PTX_F32 || i->type == PTX_F64;
    case PTX_ATOM_MIN:
    case PTX_ATOM_MAX:
        return i->type == PTX_U32 || i->type == PTX_S32 || i->type == PTX_U64 || i->type == PTX_S64;
    case PTX_ATOM_AND:
    case PTX_ATOM_OR:
    case PTX_ATOM_XOR:
        return i->type == PTX_B32 || i->type == PTX_B64;
    case PTX_ATOM_INC:
    case PTX_ATOM_DEC:
        return i->type == PTX_U32;
    case PTX_ATOM_EXCH:
        return i->op == PTX_OP_ATOM && (i->type == PTX_B32 || i->type == PTX_B64);
    case PTX_ATOM_CAS:
        return i->op == PTX_OP_ATOM &&
               (i->type == PTX_B16 || i->type == PTX_B32 || i->type == PTX_B64);
    default:
        return false;
    }
}

bool cpu_atomic_covered(const ptx_instr_t *i)
{
    cpu_rare_t rare;
    bool space = i->space == PTX_SPACE_GENERIC || i->space == PTX_SPACE_GLOBAL ||
                 i->space == PTX_SPACE_SHARED;
    return space && (cpu_atomic_rare(i, &rare) || (i->vec <= 1 && plain_fits(i)));
}

/* Which texture and surface instructions are covered. */
#include "gpu-proxy/cpu/jit/gaps.h"
#include "gpu-proxy/cpu/jit/tex_op.h"

static unsigned elements_of(const ptx_operand_t *o)
{
    return o->kind == PTX_OPERAND_VECTOR ? o->count : 1;
}

/* An object: a handle in a register, or a variable of the module. */
static bool is_object(const ptx_operand_t *o)
{
    return o->kind == PTX_OPERAND_REG || (o->kind == PTX_OPERAND_VAR && o->value == 0);
}

/* Enough coordinates; a layer number must not be read as a float. */
static bool coordinates(const ptx_function_t *f, const ptx_instr_t *i, const cpu_tex_op_t *op)
{
    if (i->src_count < 3) {
        return false;
    }
    const ptx_operand_t *at = ptx_src(f, i, 2);
    if (elements_of(at) < (unsigned)op->coordinates + op->layered) {
        return false;
    }
    const ptx_operand_t *first = at->kind == PTX_OPERAND_VECTOR ? ptx_element(f, at, 0) : at;
    return !op->layered || op->integer || first->kind == PTX_OPERAND_REG;
}

static bool result_fits(const ptx_function_t *f, const ptx_instr_t *i)
{
    const ptx_operand_t *d = ptx_dst(f, i, 0);
    switch (i->type) {
    case PTX_F32:
    case PTX_S32:
    case PTX_U32:
    case PTX_F16:
        return elements_of(d) == 4;
    case PTX_F16X2:
        return i->vec == 2 && elements_of(d) == 2;
    default:
        return false;
    }
}

/* Behind the coordinates: the level or two gradients, then an offset. A depth to compare with is a
 * float where the offset stands, and not covered. */
static bool extras(const ptx_function_t *f, const ptx_instr_t *i, const cpu_tex_op_t *op)
{
    unsigned n = 3;
    if (op->how == CPU_TEX_LEVEL) {
        n += 1;
    } else if (op->how == CPU_TEX_GRADIENT) {
        n += 2;
        for (unsigned k = 3; k < n && k < i->src_count; k++) {
            if (elements_of(ptx_src(f, i, k)) < op->coordinates) {
                return false;
            }
        }
    }
    if (i->src_count == n) {
        return true;
    }
    const ptx_operand_t *offset = ptx_src(f, i, n);
    return i->src_count == n + 1 && op->geometry != PTX_TEX_CUBE && op->geometry != PTX_TEX_ACUBE &&
           (offset->kind == PTX_OPERAND_VECTOR
                ? offset->count >= op->coordinates
                : op->coordinates == 1 && offset->kind == PTX_OPERAND_REG &&
                      f->regs[offset->index].type != PTX_F32);
}

static bool reading(const ptx_function_t *f, const ptx_instr_t *i, const cpu_tex_op_t *op)
{
    bool coordinate = i->type2 == PTX_F32 || i->type2 == PTX_S32;
    bool shape = op->how != CPU_TEX_GATHER || op->coordinates + op->layered > 1;
    if (op->integer &&
        (op->coordinates == 3 || op->how == CPU_TEX_GRADIENT || op->how == CPU_TEX_GATHER)) {
        shape =
            op->how != CPU_TEX_GRADIENT && op->how != CPU_TEX_GATHER && op->geometry == PTX_TEX_3D;
    }
    return coordinate && shape && result_fits(f, i) && is_object(ptx_src(f, i, 0)) &&
           coordinates(f, i, op) && extras(f, i, op);
}

static bool surface(const ptx_function_t *f, const ptx_instr_t *i, const cpu_tex_op_t *op)
{
    if (op->geometry == PTX_TEX_CUBE || op->geometry == PTX_TEX_ACUBE ||
        !is_object(ptx_src(f, i, 0)) || i->src_count < 3 ||
        elements_of(ptx_src(f, i, 2)) < (unsigned)op->coordinates + op->layered) {
        return false;
    }
    if (i->op == PTX_OP_SURED) {
        bool wide = i->type == PTX_U64 || i->type == PTX_S64 || i->type == PTX_B64;
        bool word = i->type == PTX_U32 || i->type == PTX_S32 || i->type == PTX_B32;
        bool bits = op->atom == PTX_ATOM_AND || op->atom == PTX_ATOM_OR;
        return op->atom != PTX_ATOM_NONE && (word || (wide && !op->formatted && !bits)) &&
               i->src_count == 4 && elements_of(ptx_src(f, i, 3)) == 1;
    }
    const ptx_operand_t *data = i->op == PTX_OP_SULD ? ptx_dst(f, i, 0)
                                : i->src_count == 4  ? ptx_src(f, i, 3)
                                                     : NULL;
    if (data == NULL || elements_of(data) != i->vec) {
        return false;
    }
    if (op->formatted) {
        return i->type == PTX_B32 || i->type == PTX_U32 || i->type == PTX_S32 || i->type == PTX_F32;
    }
    return i->type == PTX_B8 || i->type == PTX_B16 || i->type == PTX_B32 ||
           (i->type == PTX_B64 && i->vec <= 2);
}

bool cpu_covers_texture(const ptx_function_t *f, const ptx_instr_t *i)
{
    cpu_tex_op_t op;
    if (i->op == PTX_OP_ISTYPEP) {
        return i->type >= PTX_TEXREF && i->type <= PTX_SURFREF && is_object(ptx_src(f, i, 0));
    }
    if (!cpu_tex_op(i, &op)) {
        return false;
    }
    switch (i->op) {
    case PTX_OP_TEX:
    case PTX_OP_TLD4:
        return reading(f, i, &op);
    case PTX_OP_TXQ:
        return is_object(ptx_src(f, i, 0)) && i->src_count == (op.of_level ? 2 : 1);
    case PTX_OP_SUQ:
        return is_object(ptx_src(f, i, 0)) && i->src_count == 1;
    default:
        return surface(f, i, &op);
    }
}

/* Loads, stores and copies of .param variables; operands of copied instructions. */
#include "gpu-proxy/cpu/lower/lower_state.h"

#include <string.h>

static const lw_piece_t *pieces_of(const lw_t *lw, uint32_t var, uint32_t *count)
{
    const lw_param_t *c = lw_class(lw, var);
    *count = c->pieces.count;
    return c->pieces.data;
}

static uint32_t first_reg(const lw_t *lw, const lw_body_t *body, uint32_t var)
{
    return body->pieces[lw->params[var].ordinal];
}

uint64_t lw_place(const lw_t *lw, const lw_body_t *body, uint32_t var)
{
    return body->frame + lw->params[var].place;
}

ptx_operand_t lw_local(const lw_t *lw, const lw_root_t *root, uint64_t offset)
{
    bool kernel = root->f == lw->kernel;
    return (ptx_operand_t){.kind = PTX_OPERAND_ADDRESS,
                           .base = kernel ? PTX_OPERAND_IMM : PTX_OPERAND_REG,
                           .index = kernel ? 0 : lw->sp,
                           .value = offset};
}

/* The address itself as an operand of mov or an addition. */
static ptx_operand_t local_value(lw_t *lw, const lw_root_t *root, uint64_t offset)
{
    if (root->f == lw->kernel) {
        return lw_of_imm(offset);
    }
    uint32_t at = lw_reg(lw, PTX_B64, "%at");
    ptx_operand_t o[3] = {lw_of_reg(at), lw_of_reg(lw->sp), lw_of_imm(offset)};
    lw_emit(lw, PTX_OP_ADD, PTX_U64, o, 1, 2);
    return o[0];
}

ptx_operand_t lw_remap(lw_t *lw, lw_body_t *body, const ptx_operand_t *o)
{
    ptx_operand_t r = *o;
    bool var = o->kind == PTX_OPERAND_VAR ||
               (o->kind == PTX_OPERAND_ADDRESS && o->base == PTX_OPERAND_VAR);
    if (o->kind == PTX_OPERAND_REG ||
        (o->kind == PTX_OPERAND_ADDRESS && o->base == PTX_OPERAND_REG)) {
        r.index += body->reg_base;
    } else if (o->kind == PTX_OPERAND_FUNC) {
        r = lw_of_imm(ptx_function_code(lw->module, o->index));
    } else if (var &&
               (lw->module->vars[o->index].space == PTX_SPACE_LOCAL || lw_is_param(lw, o->index))) {
        const ptx_var_t *v = &lw->module->vars[o->index];
        uint64_t at =
            v->space == PTX_SPACE_LOCAL ? body->frame + v->offset : lw_place(lw, body, o->index);
        r = o->kind == PTX_OPERAND_VAR ? local_value(lw, body->root, at + o->value)
                                       : lw_local(lw, body->root, at + o->value);
    } else if (o->kind == PTX_OPERAND_VECTOR) {
        ptx_operand_t all[255];
        for (unsigned n = 0; n < o->count; n++) {
            all[n] = lw_remap(lw, body, ptx_element(body->f, o, n));
        }
        r.index = lw->operands.count;
        if (o->count != 0) {
            memcpy(lw_push(lw, &lw->operands, sizeof *all, o->count), all, o->count * sizeof *all);
        }
    }
    return r;
}

/* ---- values and pieces ---- */

static bool is_float(const lw_t *lw, uint32_t reg)
{
    return ptx_type_is_float((ptx_type_t)((const ptx_reg_t *)lw->regs.data)[reg].type);
}

static unsigned integer(unsigned bytes, bool sign)
{
    switch (bytes) {
    case 1:
        return sign ? PTX_S8 : PTX_U8;
    case 2:
        return sign ? PTX_S16 : PTX_U16;
    case 4:
        return sign ? PTX_S32 : PTX_U32;
    default:
        return sign ? PTX_S64 : PTX_U64;
    }
}

static void convert(lw_t *lw, uint32_t to, unsigned to_bytes, uint32_t from, unsigned bytes,
                    bool sign)
{
    ptx_operand_t o[2] = {lw_of_reg(to), lw_of_reg(from)};
    lw_emit(lw, PTX_OP_CVT, integer(to_bytes, sign), o, 1, 1)->type2 =
        (uint8_t)integer(bytes, sign);
}

/* `bytes` of register `from` at a byte offset, extended, to register `to`. */
static void extract(lw_t *lw, uint32_t to, uint32_t from, unsigned offset, unsigned bytes,
                    bool sign)
{
    unsigned have = lw_reg_bytes(lw, from), want = lw_reg_bytes(lw, to);
    if (offset == 0 && bytes == want && want == have) {
        lw_mov(lw, lw_piece_type(want), to, lw_of_reg(from));
        return;
    }
    if (offset != 0) {
        uint32_t shifted = lw_reg(lw, lw_piece_type(have), "%part");
        ptx_operand_t o[3] = {lw_of_reg(shifted), lw_of_reg(from), lw_of_imm(offset * 8)};
        lw_emit(lw, PTX_OP_SHR, integer(have, false), o, 1, 2);
        from = shifted;
    }
    if (is_float(lw, to)) {
        uint32_t part = lw_reg(lw, lw_piece_type(want), "%part");
        convert(lw, part, want, from, bytes, sign);
        lw_mov(lw, lw_piece_type(want), to, lw_of_reg(part));
    } else {
        convert(lw, to, want, from, bytes, sign);
    }
}

/* An operand (already renamed) of `bytes` to a piece's register. */
static void put(lw_t *lw, uint32_t piece, ptx_operand_t from, unsigned bytes)
{
    unsigned have = from.kind == PTX_OPERAND_REG ? lw_reg_bytes(lw, from.index) : 0;
    unsigned want = lw_reg_bytes(lw, piece);
    if (have == 0 || have == bytes || (bytes == 1 && have == want)) {
        lw_mov(lw, lw_piece_type(want), piece, from);
    } else if (is_float(lw, from.index)) {
        uint32_t bits = lw_reg(lw, lw_piece_type(have), "%part");
        lw_mov(lw, lw_piece_type(have), bits, from);
        convert(lw, piece, want, bits, bytes, false);
    } else {
        convert(lw, piece, want, from.index, bytes, false);
    }
}

static uint32_t piece_at(const lw_t *lw, uint32_t var, uint64_t offset, unsigned bytes,
                         const lw_piece_t **piece)
{
    uint32_t count;
    const lw_piece_t *pieces = pieces_of(lw, var, &count);
    for (uint32_t n = 0; n < count; n++) {
        if (pieces[n].offset <= offset && offset + bytes <= pieces[n].offset + pieces[n].size) {
            *piece = &pieces[n];
            return n;
        }
    }
    return PTX_NONE;
}

static void guard_from(lw_t *lw, uint32_t first, const lw_body_t *body, const ptx_instr_t *i)
{
    if (i->guard == PTX_NONE) {
        return;
    }
    for (uint32_t n = first; n < lw->out->count; n++) {
        ptx_instr_t *own = lw_at(lw->out, n);
        own->guard = body->reg_base + i->guard;
        own->guard_negated = i->guard_negated;
    }
}

/* ld.param and st.param of a variable whose pieces are registers. */
static void in_registers(lw_t *lw, lw_body_t *body, const ptx_instr_t *i, const ptx_operand_t *o)
{
    bool store = i->op == PTX_OP_ST;
    const ptx_operand_t *list = store ? ptx_src(body->f, i, 1) : ptx_dst(body->f, i, 0);
    unsigned bytes = ptx_type_size((ptx_type_t)i->type);
    bool sign = ptx_type_is_signed((ptx_type_t)i->type);
    uint32_t first = lw->out->count;
    for (unsigned n = 0; n < (i->vec > 1 ? i->vec : 1); n++) {
        const ptx_operand_t *e =
            list->kind == PTX_OPERAND_VECTOR ? ptx_element(body->f, list, n) : list;
        uint64_t at = o->value + n * bytes;
        const lw_piece_t *piece = NULL;
        uint32_t p = piece_at(lw, o->index, at, bytes, &piece);
        if (e->kind == PTX_OPERAND_SINK || p == PTX_NONE) {
            continue;
        }
        uint32_t reg = first_reg(lw, body, o->index) + p;
        if (store) {
            put(lw, reg, lw_remap(lw, body, e), bytes);
        } else {
            extract(lw, body->reg_base + e->index, reg, (unsigned)(at - piece->offset), bytes,
                    sign);
        }
    }
    guard_from(lw, first, body, i);
}

void lw_param_access(lw_t *lw, lw_body_t *body, const ptx_instr_t *i)
{
    const ptx_operand_t *o = ptx_src(body->f, i, 0);
    if (o->base == PTX_OPERAND_VAR && !lw_class(lw, o->index)->memory) {
        in_registers(lw, body, i, o);
        return;
    }
    ptx_operand_t all[255];
    unsigned count = i->dst_count + i->src_count;
    for (unsigned n = 0; n < count && n < 255; n++) {
        all[n] = lw_remap(lw, body, &body->f->operands[i->operand_first + n]);
    }
    ptx_instr_t *own = lw_emit(lw, i->op, i->type, all, i->dst_count, i->src_count);
    uint32_t first = own->operand_first;
    *own = *i;
    own->operand_first = first;
    own->space = PTX_SPACE_LOCAL;
    own->guard = i->guard == PTX_NONE ? PTX_NONE : body->reg_base + i->guard;
}

/* ---- passing ---- */

static void memory_move(lw_t *lw, bool load, unsigned bytes, ptx_operand_t reg, ptx_operand_t at)
{
    ptx_operand_t o[2] = {load ? reg : at, load ? at : reg};
    ptx_instr_t *i =
        lw_emit(lw, load ? PTX_OP_LD : PTX_OP_ST, integer(bytes, false), o, load, load ? 1 : 2);
    i->space = PTX_SPACE_LOCAL;
}

static void copy_memory(lw_t *lw, const lw_root_t *root, uint64_t to, uint64_t from, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes;) {
        unsigned n = 8;
        while (at + n > bytes) {
            n /= 2;
        }
        ptx_operand_t v = lw_of_reg(lw_reg(lw, lw_piece_type(n), "%copy"));
        memory_move(lw, true, n, v, lw_local(lw, root, from + at));
        memory_move(lw, false, n, v, lw_local(lw, root, to + at));
        at += n;
    }
}

static uint64_t smaller(const lw_t *lw, uint32_t x, uint32_t y)
{
    uint64_t a = lw->module->vars[x].size, b = lw->module->vars[y].size;
    return a < b ? a : b;
}

static void copy_pieces(lw_t *lw, uint32_t var, uint32_t to, uint32_t from)
{
    uint32_t count;
    const lw_piece_t *pieces = pieces_of(lw, var, &count);
    for (uint32_t n = 0; n < count; n++) {
        lw_mov(lw, lw_piece_type(pieces[n].size), to + n, lw_of_reg(from + n));
    }
}

void lw_pass(lw_t *lw, lw_body_t *from, const ptx_operand_t *actual, lw_body_t *to, uint32_t formal,
             uint64_t shift)
{
    ptx_operand_t a = *actual;
    uint32_t var = to->f->param_first + formal;
    bool memory = lw_class(lw, var)->memory;
    if (a.kind == PTX_OPERAND_VAR && memory) {
        copy_memory(lw, from->root, shift + lw_place(lw, to, var), lw_place(lw, from, a.index),
                    smaller(lw, a.index, var));
    } else if (a.kind == PTX_OPERAND_VAR) {
        copy_pieces(lw, var, first_reg(lw, to, var), first_reg(lw, from, a.index));
    } else {
        unsigned bytes = (unsigned)lw->module->vars[var].size;
        a = lw_remap(lw, from, actual);
        const lw_piece_t *piece;
        uint32_t p = memory ? PTX_NONE : piece_at(lw, var, 0, bytes, &piece);
        if (memory) {
            memory_move(lw, false, bytes, a,
                        lw_local(lw, from->root, shift + lw_place(lw, to, var)));
        } else if (p != PTX_NONE) {
            put(lw, first_reg(lw, to, var) + p, a, bytes);
        }
    }
}

void lw_fetch(lw_t *lw, lw_body_t *to, const ptx_operand_t *actual, lw_body_t *from,
              uint32_t formal, uint64_t shift)
{
    if (actual->kind == PTX_OPERAND_SINK) {
        return;
    }
    uint32_t var = from->f->result_first + formal;
    bool memory = lw_class(lw, var)->memory;
    uint64_t at = shift + lw_place(lw, from, var);
    if (actual->kind == PTX_OPERAND_VAR && memory) {
        copy_memory(lw, to->root, lw_place(lw, to, actual->index), at,
                    smaller(lw, actual->index, var));
    } else if (actual->kind == PTX_OPERAND_VAR) {
        copy_pieces(lw, var, first_reg(lw, to, actual->index), first_reg(lw, from, var));
    } else {
        unsigned bytes = (unsigned)lw->module->vars[var].size;
        uint32_t own = to->reg_base + actual->index;
        const lw_piece_t *piece;
        uint32_t p = memory ? PTX_NONE : piece_at(lw, var, 0, bytes, &piece);
        if (memory) {
            memory_move(lw, true, bytes, lw_of_reg(own), lw_local(lw, to->root, at));
        } else if (p != PTX_NONE) {
            extract(lw, own, first_reg(lw, from, var) + p, 0, bytes, false);
        }
    }
}

/* ---- the runtime's functions ---- */

uint32_t lw_argument(lw_t *lw, lw_body_t *body, const ptx_operand_t *actual)
{
    uint32_t value = lw_reg(lw, PTX_B64, "%arg");
    if (actual->kind != PTX_OPERAND_VAR) {
        ptx_operand_t a = lw_remap(lw, body, actual);
        if (a.kind == PTX_OPERAND_REG) {
            extract(lw, value, a.index, 0, lw_reg_bytes(lw, a.index), false);
        } else {
            lw_mov(lw, PTX_B64, value, a);
        }
        return value;
    }
    uint64_t size = lw->module->vars[actual->index].size;
    unsigned bytes = size > 4 ? 8 : 4;
    if (lw_class(lw, actual->index)->memory) {
        memory_move(lw, true, bytes, lw_of_reg(value),
                    lw_local(lw, body->root, lw_place(lw, body, actual->index)));
        return value;
    }
    const lw_piece_t *piece;
    uint32_t p = piece_at(lw, actual->index, 0, bytes, &piece);
    if (p == PTX_NONE) {
        lw_mov(lw, PTX_B64, value, lw_of_imm(0));
    } else {
        extract(lw, value, first_reg(lw, body, actual->index) + p, 0, bytes, false);
    }
    return value;
}

void lw_give(lw_t *lw, lw_body_t *body, const ptx_operand_t *actual, uint32_t value)
{
    if (actual->kind == PTX_OPERAND_REG) {
        extract(lw, body->reg_base + actual->index, value, 0,
                lw_reg_bytes(lw, body->reg_base + actual->index), false);
        return;
    }
    if (actual->kind != PTX_OPERAND_VAR) {
        return;
    }
    if (lw_class(lw, actual->index)->memory) {
        unsigned bytes = lw->module->vars[actual->index].size > 4 ? 8 : 4;
        memory_move(lw, false, bytes, lw_of_reg(value),
                    lw_local(lw, body->root, lw_place(lw, body, actual->index)));
        return;
    }
    uint32_t count;
    const lw_piece_t *pieces = pieces_of(lw, actual->index, &count);
    for (uint32_t n = 0; n < count; n++) {
        uint32_t reg = first_reg(lw, body, actual->index) + n;
        extract(lw, reg, value, pieces[n].offset, pieces[n].size, false);
    }
}

void lw_visit_pieces(const lw_t *lw, const lw_body_t *body, const ptx_operand_t *o,
                     void (*visit)(void *, uint32_t), void *context)
{
    if (o->kind == PTX_OPERAND_REG) {
        visit(context, body->reg_base + o->index);
        return;
    }
    if (o->kind != PTX_OPERAND_VAR || !lw_is_param(lw, o->index) ||
        lw_class(lw, o->index)->memory) {
        return;
    }
    uint32_t count;
    pieces_of(lw, o->index, &count);
    for (uint32_t n = 0; n < count; n++) {
        visit(context, first_reg(lw, body, o->index) + n);
    }
}

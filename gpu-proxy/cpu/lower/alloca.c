/* alloca, stacksave and stackrestore: a second stack, behind the frames, that grows upwards.
 *
 * `ap` is where the next allocation begins, a multiple of STEP, and `ap_end` where the thread's
 * local memory ends. Each body that allocates notes ap when it is entered and puts it back when it
 * returns, whether it is spliced or there once; the note is a register like any other, so a recursive
 * function saves it with the rest. */
#include "gpu-proxy/cpu/lower/lower_state.h"

enum { STEP = 16 };

static bool allocates(const ptx_function_t *f)
{
    for (uint32_t n = 0; n < f->instr_count; n++) {
        uint16_t op = f->instrs[n].op;
        if (op == PTX_OP_ALLOCA || op == PTX_OP_STACKRESTORE) {
            return true;
        }
    }
    return false;
}

/* d = a op b, on 64 bits. */
static void calculate(lw_t *lw, unsigned op, uint32_t d, uint32_t a, ptx_operand_t b)
{
    ptx_operand_t o[3] = {lw_of_reg(d), lw_of_reg(a), b};
    unsigned type = op == PTX_OP_AND ? PTX_B64 : op == PTX_OP_MAX ? PTX_S64 : PTX_U64;
    lw_emit(lw, op, type, o, 1, 2);
}

/* To a register of the program, which may have 32 bits. */
static void give(lw_t *lw, lw_body_t *body, const ptx_instr_t *i, uint32_t value)
{
    ptx_operand_t to = lw_remap(lw, body, ptx_dst(body->f, i, 0));
    if (to.kind != PTX_OPERAND_REG) {
        return;
    }
    if (lw_reg_bytes(lw, to.index) == 8) {
        lw_mov(lw, PTX_B64, to.index, lw_of_reg(value));
    } else {
        ptx_operand_t o[2] = {to, lw_of_reg(value)};
        lw_emit(lw, PTX_OP_CVT, PTX_U32, o, 1, 1)->type2 = PTX_U64;
    }
}

/* Ends the program unless `size` bytes from `start` on are left. */
static void check_room(lw_t *lw, uint32_t start, uint32_t size)
{
    uint32_t left = lw_reg(lw, PTX_B64, "%left"), p = lw_reg(lw, PTX_PRED, "%fits");
    uint32_t on = lw_label(lw);
    calculate(lw, PTX_OP_SUB, left, lw->ap_end, lw_of_reg(start));
    calculate(lw, PTX_OP_MAX, left, left, lw_of_imm(0)); /* of what stackrestore was given */
    ptx_operand_t o[3] = {lw_of_reg(p), lw_of_reg(size), lw_of_reg(left)};
    lw_emit(lw, PTX_OP_SETP, PTX_U64, o, 1, 2)->cmp = PTX_CMP_LE;
    lw_bra_if(lw, p, false, on);
    lw_emit(lw, PTX_OP_TRAP, PTX_TYPE_NONE, NULL, 0, 0)->mode = PTX_TRAP_STACK;
    lw_emit(lw, PTX_OP_EXIT, PTX_TYPE_NONE, NULL, 0, 0);
    lw_here(lw, on);
}

static void allocate(lw_t *lw, lw_body_t *body, const ptx_instr_t *i)
{
    uint32_t size = lw_argument(lw, body, ptx_src(body->f, i, 0));
    uint32_t start = lw_reg(lw, PTX_B64, "%start");
    lw_mov(lw, PTX_B64, start, lw_of_reg(lw->ap));
    check_room(lw, start, size);
    calculate(lw, PTX_OP_ADD, lw->ap, start, lw_of_reg(size));
    calculate(lw, PTX_OP_ADD, lw->ap, lw->ap, lw_of_imm(STEP - 1));
    calculate(lw, PTX_OP_AND, lw->ap, lw->ap, lw_of_imm(~(uint64_t)(STEP - 1)));
    give(lw, body, i, start);
}

void lw_alloca_begin(lw_t *lw)
{
    if (lw->allocates) {
        lw_mov(lw, PTX_B64, lw->ap, lw_of_imm(lw->limit));
        lw_mov(lw, PTX_B64, lw->ap_end, lw_of_imm(lw->limit + lw_stack_room(lw)));
    }
}

uint32_t lw_alloca_enter(lw_t *lw, const lw_body_t *body)
{
    if (!allocates(body->f)) {
        return PTX_NONE;
    }
    lw->allocates = true;
    uint32_t note = lw_reg(lw, PTX_B64, "%entry");
    lw_mov(lw, PTX_B64, note, lw_of_reg(lw->ap));
    return note;
}

void lw_alloca_leave(lw_t *lw, uint32_t note)
{
    if (note != PTX_NONE) {
        lw_mov(lw, PTX_B64, lw->ap, lw_of_reg(note));
    }
}

bool lw_alloca(lw_t *lw, lw_body_t *body, const ptx_instr_t *i)
{
    if (i->op != PTX_OP_ALLOCA && i->op != PTX_OP_STACKSAVE && i->op != PTX_OP_STACKRESTORE) {
        return false;
    }
    uint32_t skip = lw_skip_unless(lw, body, i);
    lw->allocates = true;
    if (i->op == PTX_OP_ALLOCA) {
        allocate(lw, body, i);
    } else if (i->op == PTX_OP_STACKSAVE) {
        give(lw, body, i, lw->ap);
    } else {
        uint32_t value = lw_argument(lw, body, ptx_src(body->f, i, 0));
        lw_mov(lw, PTX_B64, lw->ap, lw_of_reg(value));
    }
    if (skip != PTX_NONE) {
        lw_here(lw, skip);
    }
    return true;
}

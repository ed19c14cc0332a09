/* Video instructions: their mnemonics, and which are covered. */
#include <string.h>

#include "gpu-proxy/cpu/jit/video.h"

static bool is(const char *word, size_t length, const char *text)
{
    return strlen(text) == length && memcmp(word, text, length) == 0;
}

static bool read_name(const char *name, size_t length, video_t *v)
{
    static const char *const names[] = {"vadd", "vsub", "vabsdiff", "vmin", "vmax",
                                        "vshl", "vshr", "vmad",     "vset", "vavrg"};
    char last = name[length - 1];
    v->parts = last == '2' ? 2 : last == '4' ? 4 : 1;
    length -= v->parts > 1;
    for (unsigned n = 0; n < sizeof names / sizeof names[0]; n++) {
        if (is(name, length, names[n])) {
            v->op = (video_op_t)n;
            bool shift_or_mad = n == VIDEO_SHL || n == VIDEO_SHR || n == VIDEO_MAD;
            return v->parts == 1 ? n != VIDEO_AVRG : !shift_or_mad;
        }
    }
    return false;
}

static bool read_word(const char *word, size_t length, video_t *v)
{
    static const char *const cmps[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    for (unsigned n = 0; n < 6; n++) {
        if (v->op == VIDEO_SET && is(word, length, cmps[n])) {
            memcpy(v->cmp, cmps[n], 3);
            return true;
        }
    }
    if (is(word, length, "sat")) {
        v->sat = true;
    } else if (is(word, length, "add")) {
        v->second = '+';
    } else if (is(word, length, "min") && v->parts == 1) {
        v->second = '<';
    } else if (is(word, length, "max") && v->parts == 1) {
        v->second = '>';
    } else if (is(word, length, "clamp")) {
        v->clamp = true;
    } else if (is(word, length, "wrap")) {
        v->wrap = true;
    } else if (is(word, length, "po")) {
        v->plus_one = true;
    } else if (is(word, length, "shr7")) {
        v->scale = 7;
    } else if (is(word, length, "shr15")) {
        v->scale = 15;
    } else {
        return false;
    }
    return true;
}

static bool fits(const video_t *v, unsigned types)
{
    bool shift = v->op == VIDEO_SHL || v->op == VIDEO_SHR, mad = v->op == VIDEO_MAD;
    return types == (v->op == VIDEO_SET ? 2 : 3) && (v->op != VIDEO_SET || v->cmp[0] != 0) &&
           shift == (v->clamp || v->wrap) && !(v->clamp && v->wrap) &&
           (mad || (!v->plus_one && v->scale == 0)) && !(mad && v->second != 0) &&
           !(shift && v->signed_b) && !(v->op == VIDEO_SET && v->sat) &&
           !(v->parts > 1 && v->sat && v->second != 0);
}

bool cpu_video_decode(const char *mnemonic, video_t *out)
{
    video_t v = {0};
    unsigned types = 0;
    size_t length = strcspn(mnemonic, ".");
    if (length == 0 || !read_name(mnemonic, length, &v)) {
        return false;
    }
    for (const char *p = mnemonic + length; *p == '.'; p += length) {
        length = strcspn(++p, ".");
        bool type = is(p, length, "s32") || is(p, length, "u32");
        if (type && types < 3) { /* vset has no type of its result: it is unsigned */
            unsigned at = types++ + (v.op == VIDEO_SET);
            *(at == 0 ? &v.signed_d : at == 1 ? &v.signed_a : &v.signed_b) = p[0] == 's';
        } else if (type || !read_word(p, length, &v)) {
            return false;
        }
    }
    *out = v;
    return fits(&v, types);
}

/* Parts as the number of elements asks for: ".b2" of scalars, ".b7654" or masks of several. */
static bool part_fits(const ptx_operand_t *o, const video_t *v, bool mask)
{
    if (o->kind != PTX_OPERAND_REG || o->base == 0) {
        return true;
    }
    if (v->parts == 1) {
        return o->count == 1 && o->value < (o->base == 'b' ? 4 : 2);
    }
    return o->base == (v->parts == 2 ? 'h' : 'b') && (mask || o->count == v->parts);
}

bool cpu_covers_video(const ptx_function_t *f, const ptx_instr_t *i)
{
    video_t v;
    if (!cpu_video_decode(i->mnemonic, &v) || i->dst_count != 1 || i->src_count < 2) {
        return false;
    }
    const ptx_operand_t *d = ptx_dst(f, i, 0);
    bool merges = d->kind == PTX_OPERAND_REG && d->base != 0;
    bool third = i->src_count == 3;
    bool wants = v.parts > 1 || v.op == VIDEO_MAD || v.second != 0 || merges;
    for (unsigned n = 0; n < i->src_count; n++) {
        const ptx_operand_t *o = ptx_src(f, i, n);
        if ((o->kind != PTX_OPERAND_REG && o->kind != PTX_OPERAND_IMM) ||
            (n == 2 ? o->base != 0 && o->kind == PTX_OPERAND_REG : !part_fits(o, &v, false))) {
            return false;
        }
        if (o->kind == PTX_OPERAND_REG && ptx_type_size((ptx_type_t)f->regs[o->index].type) != 4) {
            return false;
        }
    }
    return third == wants && part_fits(d, &v, true) &&
           !(v.parts == 1 && merges && (v.second != 0 || v.op == VIDEO_MAD)) &&
           (d->kind != PTX_OPERAND_REG || ptx_type_size((ptx_type_t)f->regs[d->index].type) == 4);
}

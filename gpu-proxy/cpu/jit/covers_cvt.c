/* Coverage of conversions, by the table of the PTX ISA manual. */
#include "gpu-proxy/cpu/jit/gaps.h"

#include <string.h>

static bool is_integer(unsigned type)
{
    return (type >= PTX_U8 && type <= PTX_U64) || (type >= PTX_S8 && type <= PTX_S64) ||
           (type >= PTX_B8 && type <= PTX_B64);
}

static bool is_plain_float(unsigned type)
{
    return type == PTX_F16 || type == PTX_BF16 || type == PTX_F32 || type == PTX_F64;
}

static bool is_tiny(unsigned type)
{
    return type == PTX_E4M3X2 || type == PTX_E5M2X2 || type == PTX_E2M3X2 || type == PTX_E3M2X2 ||
           type == PTX_E2M1X2;
}

static bool is_nearest(const ptx_instr_t *i)
{
    return i->round == PTX_ROUND_RN;
}

bool cpu_covers_conversion(const ptx_instr_t *i)
{
    bool finite = (i->flags & PTX_F_SATFINITE) != 0, relu = (i->flags & PTX_F_RELU) != 0;
    bool sat = (i->flags & PTX_F_SAT) != 0;
    if (is_tiny(i->type)) {
        return is_nearest(i) && finite && !sat &&
               (i->type2 == PTX_F32 ? i->src_count == 2
                                    : i->type2 == PTX_F16X2 && i->src_count == 1);
    }
    if (is_tiny(i->type2)) {
        return is_nearest(i) && i->type == PTX_F16X2 && i->src_count == 1 && !finite && !sat;
    }
    if (i->type == PTX_F16X2 || i->type == PTX_BF16X2) {
        return i->type2 == PTX_F32 && (is_nearest(i) || i->round == PTX_ROUND_RZ) &&
               i->src_count == 2 && !sat;
    }
    if (i->type == PTX_TF32) {
        return i->type2 == PTX_F32 && i->src_count == 1 && !sat &&
               (is_nearest(i) || i->round == PTX_ROUND_RZ || (i->round == PTX_ROUND_RNA && !relu));
    }
    if (i->src_count != 1 || i->round == PTX_ROUND_RNA) {
        return false;
    }
    if ((finite || relu) && ((i->type != PTX_F16 && i->type != PTX_BF16) || i->type2 != PTX_F32 ||
                             (!is_nearest(i) && i->round != PTX_ROUND_RZ))) {
        return false;
    }
    return (is_integer(i->type) || is_plain_float(i->type)) &&
           (is_integer(i->type2) || is_plain_float(i->type2));
}

/* cvt.pack: .u16 and .s16 without a third operand, smaller types with one. */
bool cpu_covers_pack(const ptx_instr_t *i)
{
    static const char *const types[] = {"u16.s32",    "s16.s32",    "u8.s32.b32", "s8.s32.b32",
                                        "u4.s32.b32", "s4.s32.b32", "u2.s32.b32", "s2.s32.b32"};
    const char *all = i->mnemonic;
    if (strncmp(all, "cvt.pack.sat.", 13) != 0) {
        return false;
    }
    for (unsigned n = 0; n < sizeof types / sizeof types[0]; n++) {
        if (strcmp(all + 13, types[n]) == 0) {
            return i->src_count == (n < 2 ? 2 : 3);
        }
    }
    return false;
}

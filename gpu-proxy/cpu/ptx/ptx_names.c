#include <stdio.h>
#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_ir.h"
#include "gpu-proxy/cpu/ptx/ptx_opcode.h"

enum { IS_FLOAT = 1, IS_SIGNED = 2 };

static const struct {
    const char *name;
    uint8_t size; /* bytes */
    uint8_t flags;
} types[PTX_TYPE_COUNT] = {
    [PTX_TYPE_NONE] = {"none", 0, 0},
    [PTX_PRED] = {"pred", 1, 0},
    [PTX_B8] = {"b8", 1, 0},
    [PTX_B16] = {"b16", 2, 0},
    [PTX_B32] = {"b32", 4, 0},
    [PTX_B64] = {"b64", 8, 0},
    [PTX_B128] = {"b128", 16, 0},
    [PTX_U8] = {"u8", 1, 0},
    [PTX_U16] = {"u16", 2, 0},
    [PTX_U32] = {"u32", 4, 0},
    [PTX_U64] = {"u64", 8, 0},
    [PTX_S8] = {"s8", 1, IS_SIGNED},
    [PTX_S16] = {"s16", 2, IS_SIGNED},
    [PTX_S32] = {"s32", 4, IS_SIGNED},
    [PTX_S64] = {"s64", 8, IS_SIGNED},
    [PTX_F16] = {"f16", 2, IS_FLOAT},
    [PTX_F16X2] = {"f16x2", 4, IS_FLOAT},
    [PTX_BF16] = {"bf16", 2, IS_FLOAT},
    [PTX_BF16X2] = {"bf16x2", 4, IS_FLOAT},
    [PTX_TF32] = {"tf32", 4, IS_FLOAT},
    [PTX_F32] = {"f32", 4, IS_FLOAT},
    [PTX_F64] = {"f64", 8, IS_FLOAT},
    [PTX_U16X2] = {"u16x2", 4, 0},
    [PTX_S16X2] = {"s16x2", 4, IS_SIGNED},
    [PTX_F32X2] = {"f32x2", 8, IS_FLOAT},
    [PTX_E4M3X2] = {"e4m3x2", 2, IS_FLOAT},
    [PTX_E5M2X2] = {"e5m2x2", 2, IS_FLOAT},
    [PTX_E2M3X2] = {"e2m3x2", 2, IS_FLOAT},
    [PTX_E3M2X2] = {"e3m2x2", 2, IS_FLOAT},
    [PTX_E2M1X2] = {"e2m1x2", 1, IS_FLOAT},
    [PTX_TEXREF] = {"texref", 8, 0},
    [PTX_SAMPLERREF] = {"samplerref", 8, 0},
    [PTX_SURFREF] = {"surfref", 8, 0},
};

unsigned ptx_type_size(ptx_type_t type)
{
    return type < PTX_TYPE_COUNT ? types[type].size : 0;
}

bool ptx_type_is_float(ptx_type_t type)
{
    return type < PTX_TYPE_COUNT && types[type].flags & IS_FLOAT;
}

bool ptx_type_is_signed(ptx_type_t type)
{
    return type < PTX_TYPE_COUNT && types[type].flags & IS_SIGNED;
}

const char *ptx_type_name(ptx_type_t type)
{
    return type < PTX_TYPE_COUNT ? types[type].name : "none";
}

ptx_type_t ptx_type_by_name(const char *word, size_t length)
{
    for (int i = PTX_PRED; i < PTX_TYPE_COUNT; i++) {
        if (strlen(types[i].name) == length && memcmp(types[i].name, word, length) == 0)
            return (ptx_type_t)i;
    }
    return PTX_TYPE_NONE;
}

const char *ptx_space_name(ptx_space_t space)
{
    static const char *const names[PTX_SPACE_COUNT] = {
        [PTX_SPACE_GENERIC] = "generic", [PTX_SPACE_GLOBAL] = "global", [PTX_SPACE_CONST] = "const",
        [PTX_SPACE_SHARED] = "shared",   [PTX_SPACE_LOCAL] = "local",   [PTX_SPACE_PARAM] = "param",
        [PTX_SPACE_TEX] = "tex"};
    return space < PTX_SPACE_COUNT ? names[space] : "generic";
}

static const char *const sregs[PTX_SREG_COUNT] = {
    [PTX_SREG_NONE] = "%none",
    [PTX_SREG_TID_X] = "%tid.x",
    [PTX_SREG_TID_Y] = "%tid.y",
    [PTX_SREG_TID_Z] = "%tid.z",
    [PTX_SREG_NTID_X] = "%ntid.x",
    [PTX_SREG_NTID_Y] = "%ntid.y",
    [PTX_SREG_NTID_Z] = "%ntid.z",
    [PTX_SREG_CTAID_X] = "%ctaid.x",
    [PTX_SREG_CTAID_Y] = "%ctaid.y",
    [PTX_SREG_CTAID_Z] = "%ctaid.z",
    [PTX_SREG_NCTAID_X] = "%nctaid.x",
    [PTX_SREG_NCTAID_Y] = "%nctaid.y",
    [PTX_SREG_NCTAID_Z] = "%nctaid.z",
    [PTX_SREG_LANEID] = "%laneid",
    [PTX_SREG_WARPID] = "%warpid",
    [PTX_SREG_NWARPID] = "%nwarpid",
    [PTX_SREG_SMID] = "%smid",
    [PTX_SREG_NSMID] = "%nsmid",
    [PTX_SREG_GRIDID] = "%gridid",
    [PTX_SREG_LANEMASK_EQ] = "%lanemask_eq",
    [PTX_SREG_LANEMASK_LE] = "%lanemask_le",
    [PTX_SREG_LANEMASK_LT] = "%lanemask_lt",
    [PTX_SREG_LANEMASK_GE] = "%lanemask_ge",
    [PTX_SREG_LANEMASK_GT] = "%lanemask_gt",
    [PTX_SREG_CLOCK] = "%clock",
    [PTX_SREG_CLOCK_HI] = "%clock_hi",
    [PTX_SREG_CLOCK64] = "%clock64",
    [PTX_SREG_GLOBALTIMER] = "%globaltimer",
    [PTX_SREG_GLOBALTIMER_LO] = "%globaltimer_lo",
    [PTX_SREG_GLOBALTIMER_HI] = "%globaltimer_hi",
    [PTX_SREG_TOTAL_SMEM_SIZE] = "%total_smem_size",
    [PTX_SREG_DYNAMIC_SMEM_SIZE] = "%dynamic_smem_size",
    [PTX_SREG_AGGR_SMEM_SIZE] = "%aggr_smem_size",
    [PTX_SREG_ENVREG] = "%envreg",
    [PTX_SREG_PM] = "%pm",
    [PTX_SREG_PM64] = "%pm_64",
    [PTX_SREG_IS_EXPLICIT_CLUSTER] = "%is_explicit_cluster",
    [PTX_SREG_CLUSTERID_X] = "%clusterid.x",
    [PTX_SREG_CLUSTERID_Y] = "%clusterid.y",
    [PTX_SREG_CLUSTERID_Z] = "%clusterid.z",
    [PTX_SREG_NCLUSTERID_X] = "%nclusterid.x",
    [PTX_SREG_NCLUSTERID_Y] = "%nclusterid.y",
    [PTX_SREG_NCLUSTERID_Z] = "%nclusterid.z",
    [PTX_SREG_CLUSTER_CTAID_X] = "%cluster_ctaid.x",
    [PTX_SREG_CLUSTER_CTAID_Y] = "%cluster_ctaid.y",
    [PTX_SREG_CLUSTER_CTAID_Z] = "%cluster_ctaid.z",
    [PTX_SREG_CLUSTER_NCTAID_X] = "%cluster_nctaid.x",
    [PTX_SREG_CLUSTER_NCTAID_Y] = "%cluster_nctaid.y",
    [PTX_SREG_CLUSTER_NCTAID_Z] = "%cluster_nctaid.z",
    [PTX_SREG_CLUSTER_CTARANK] = "%cluster_ctarank",
    [PTX_SREG_CLUSTER_NCTARANK] = "%cluster_nctarank",
    [PTX_SREG_CURRENT_GRAPH_EXEC] = "%current_graph_exec",
    [PTX_SREG_RESERVED_SMEM] = "%reserved_smem",
};

const char *ptx_sreg_name(ptx_sreg_t sreg)
{
    return sreg < PTX_SREG_COUNT ? sregs[sreg] : sregs[0];
}

/* %envreg<32>, %pm<8> and %pm<8>_64 */
static ptx_sreg_t numbered_sreg(const char *name, size_t length, uint64_t *number)
{
    char copy[32], tail[8] = "";
    unsigned n;
    if (length >= sizeof copy)
        return PTX_SREG_NONE;
    memcpy(copy, name, length);
    copy[length] = 0;
    ptx_sreg_t found = PTX_SREG_NONE;
    if (sscanf(copy, "%%envreg%2u%7s", &n, tail) == 1 && n < 32)
        found = PTX_SREG_ENVREG;
    else if (sscanf(copy, "%%pm%1u%7s", &n, tail) >= 1 && n < 8)
        found = tail[0] == 0 ? PTX_SREG_PM : strcmp(tail, "_64") == 0 ? PTX_SREG_PM64 : found;
    if (found != PTX_SREG_NONE)
        *number = n;
    return found;
}

ptx_sreg_t ptx_sreg_by_name(const char *name, size_t length, char component, uint64_t *number)
{
    *number = 0;
    if (length < 3 || name[0] != '%')
        return PTX_SREG_NONE;
    for (int i = PTX_SREG_TID_X; i < PTX_SREG_COUNT; i++) {
        const char *s = sregs[i];
        size_t n = strcspn(s, ".");
        if (n == length && memcmp(s, name, n) == 0 && (s[n] == '.' ? s[n + 1] : 0) == component)
            return (ptx_sreg_t)i;
    }
    if (length > 14 && memcmp(name, "%reserved_smem", 14) == 0)
        return PTX_SREG_RESERVED_SMEM;
    return component ? PTX_SREG_NONE : numbered_sreg(name, length, number);
}

void ptx_reg_name(const ptx_function_t *f, uint32_t reg, char *out, size_t size)
{
    if (reg >= f->reg_count)
        snprintf(out, size, "?");
    else if (f->regs[reg].number == PTX_NONE)
        snprintf(out, size, "%s", f->regs[reg].name);
    else
        snprintf(out, size, "%s%u", f->regs[reg].name, f->regs[reg].number);
}

ptx_runtime_t ptx_runtime_by_name(const char *name)
{
    static const struct {
        const char *name;
        ptx_runtime_t which;
    } all[] = {{"vprintf", PTX_RT_VPRINTF},
               {"__assertfail", PTX_RT_ASSERTFAIL},
               {"malloc", PTX_RT_MALLOC},
               {"free", PTX_RT_FREE}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(name, all[i].name) == 0)
            return all[i].which;
    return PTX_RT_NONE;
}

/* Which instructions the code generator covers: known when a module is loaded, without LLVM. */
#include "gpu-proxy/cpu/jit/gaps.h"
#include "gpu-proxy/cpu/jit/matrix.h"
#include "gpu-proxy/cpu/jit/packet.h"
#include "gpu-proxy/cpu/jit/video.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 8 };

void cpu_jit_log(cpu_jit_log_t *log, const char *format, ...)
{
    if (log == NULL || log->capacity == 0 || log->used + 1 >= log->capacity) {
        return;
    }
    va_list args;
    va_start(args, format);
    int n = vsnprintf(log->text + log->used, log->capacity - log->used, format, args);
    va_end(args);
    size_t room = log->capacity - log->used - 1;
    log->used += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room;
}

static bool is_small_float(unsigned type)
{
    return type == PTX_F16 || type == PTX_BF16;
}

static bool is_wide_float(unsigned type)
{
    return type == PTX_F32 || type == PTX_F64;
}

static bool is_integer(unsigned type)
{
    return (type >= PTX_B8 && type <= PTX_B64) || (type >= PTX_U8 && type <= PTX_U64) ||
           (type >= PTX_S8 && type <= PTX_S64);
}

static bool is_half(unsigned type)
{
    return is_small_float(type) || type == PTX_F16X2 || type == PTX_BF16X2;
}

static bool comparison(const ptx_instr_t *i)
{
    unsigned type = i->op == PTX_OP_SET ? i->type2 : i->type;
    if (is_half(type) || (i->op == PTX_OP_SET && is_half(i->type))) {
        return cpu_covers_half(i);
    }
    bool result =
        i->op != PTX_OP_SET || i->type == PTX_F32 || ptx_type_size((ptx_type_t)i->type) == 4;
    return result && (is_wide_float(type) || is_integer(type));
}

static bool access(const ptx_instr_t *i)
{
    return i->type != PTX_PRED &&
           ptx_type_size((ptx_type_t)i->type) * (i->vec > 1 ? i->vec : 1u) <= 32 &&
           i->space != PTX_SPACE_TEX;
}

static bool special_registers(const ptx_function_t *f, const ptx_instr_t *i)
{
    for (unsigned n = 0; n < i->src_count; n++) {
        const ptx_operand_t *o = ptx_src(f, i, n);
        if ((o->kind == PTX_OPERAND_FUNC && i->op != PTX_OP_MOV) ||
            (o->kind == PTX_OPERAND_SREG && i->op != PTX_OP_MOV && i->op != PTX_OP_CVT &&
             o->index == PTX_SREG_IS_EXPLICIT_CLUSTER)) {
            return false;
        }
    }
    return true;
}

static bool covered(const ptx_function_t *f, const ptx_instr_t *i)
{
    if (!special_registers(f, i)) {
        return false;
    }
    switch (i->op) {
    case PTX_OP_ADD:
    case PTX_OP_SUB:
    case PTX_OP_MUL:
    case PTX_OP_MAD:
    case PTX_OP_DIV:
    case PTX_OP_REM:
    case PTX_OP_ABS:
    case PTX_OP_NEG:
    case PTX_OP_MIN:
    case PTX_OP_MAX:
    case PTX_OP_AND:
    case PTX_OP_OR:
    case PTX_OP_XOR:
    case PTX_OP_NOT:
    case PTX_OP_FMA:
    case PTX_OP_RCP:
    case PTX_OP_SQRT:
    case PTX_OP_RSQRT:
    case PTX_OP_COPYSIGN:
        return cpu_covers_arithmetic(i);
    case PTX_OP_MUL24:
    case PTX_OP_MAD24:
    case PTX_OP_SAD:
    case PTX_OP_POPC:
    case PTX_OP_CLZ:
    case PTX_OP_BFIND:
    case PTX_OP_BREV:
    case PTX_OP_BFE:
    case PTX_OP_BFI:
    case PTX_OP_CNOT:
    case PTX_OP_SHL:
    case PTX_OP_SHR:
    case PTX_OP_SHF:
    case PTX_OP_DP4A:
    case PTX_OP_DP2A:
    case PTX_OP_FNS:
    case PTX_OP_SZEXT:
    case PTX_OP_BMSK:
    case PTX_OP_ADDC:
    case PTX_OP_SUBC:
    case PTX_OP_MADC:
        return is_integer(i->type);
    case PTX_OP_LOP3:
        return i->boolop == PTX_BOOL_NONE ? i->dst_count == 1 && i->src_count == 4
                                          : i->src_count == 5;
    case PTX_OP_PRMT:
        return true;
    case PTX_OP_SIN:
    case PTX_OP_COS:
    case PTX_OP_LG2:
    case PTX_OP_EX2:
    case PTX_OP_TANH:
        return i->type == PTX_F32 || (is_half(i->type) && cpu_covers_half(i));
    case PTX_OP_TESTP:
        return is_wide_float(i->type);
    case PTX_OP_SETP:
    case PTX_OP_SET:
        return comparison(i);
    case PTX_OP_SLCT:
        return i->type2 == PTX_F32 || i->type2 == PTX_S32;
    case PTX_OP_MOV:
        return true;
    case PTX_OP_SELP:
        return i->type != PTX_B128;
    case PTX_OP_CVT:
        return cpu_covers_conversion(i);
    case PTX_OP_VIDEO:
        return cpu_covers_video(f, i);
    case PTX_OP_PACK:
        return cpu_covers_pack(i);
    case PTX_OP_CVTA:
        return i->space != PTX_SPACE_TEX;
    case PTX_OP_ISSPACEP:
        return i->space == PTX_SPACE_SHARED || i->space == PTX_SPACE_LOCAL ||
               i->space == PTX_SPACE_GLOBAL || i->space == PTX_SPACE_CONST ||
               i->space == PTX_SPACE_PARAM;
    case PTX_OP_LD:
    case PTX_OP_LDU:
    case PTX_OP_ST:
        return access(i) && (i->op != PTX_OP_ST || i->space != PTX_SPACE_PARAM);
    case PTX_OP_TEX:
    case PTX_OP_TLD4:
    case PTX_OP_TXQ:
    case PTX_OP_SULD:
    case PTX_OP_SUST:
    case PTX_OP_SURED:
    case PTX_OP_SUQ:
    case PTX_OP_ISTYPEP:
        return cpu_covers_texture(f, i);
    case PTX_OP_ATOM:
    case PTX_OP_RED:
        return cpu_atomic_covered(i);
    case PTX_OP_CP:
    case PTX_OP_MBARRIER:
        return cpu_async_parse(f, i, &(cpu_async_t){0});
    case PTX_OP_WMMA:
    case PTX_OP_MMA:
    case PTX_OP_LDMATRIX:
    case PTX_OP_STMATRIX:
    case PTX_OP_MOVMATRIX:
        return cpu_matrix_parse(f, i, &(cpu_matrix_t){0});
    case PTX_OP_REDUX:
        return i->type == PTX_F32 ? i->mode == PTX_ATOM_MIN || i->mode == PTX_ATOM_MAX
                                  : is_integer(i->type);
    case PTX_OP_BAR_CLUSTER:
        return i->mode == PTX_BAR_ARRIVE;
    case PTX_OP_MAPA:
    case PTX_OP_GETCTARANK:
    case PTX_OP_CREATEPOLICY:
    case PTX_OP_GRIDDEPCONTROL:
        return true;
    case PTX_OP_BAR:
        return i->mode != PTX_BAR_WAIT;
    case PTX_OP_SHFL:
    case PTX_OP_VOTE:
    case PTX_OP_MATCH:
    case PTX_OP_ACTIVEMASK:
    case PTX_OP_ELECT:
    case PTX_OP_BRA:
    case PTX_OP_RET:
    case PTX_OP_EXIT:
    case PTX_OP_TRAP:
    case PTX_OP_MEMBAR:
    case PTX_OP_BAR_WARP:
    case PTX_OP_RUNTIME:
    case PTX_OP_PREFETCH:
    case PTX_OP_PREFETCHU:
    case PTX_OP_DISCARD:
    case PTX_OP_APPLYPRIORITY:
    case PTX_OP_PMEVENT:
    case PTX_OP_NANOSLEEP:
    case PTX_OP_SETMAXNREG:
    case PTX_OP_STACKSAVE:
    case PTX_OP_STACKRESTORE:
        return true;
    case PTX_OP_ALLOCA:
        return cpu_alloca_covered(f, i);
    default:
        return false;
    }
}

/* A cluster has one CTA. */
static bool needs_cluster(const ptx_function_t *f)
{
    return f->req_cluster[0] > 1 || f->req_cluster[1] > 1 || f->req_cluster[2] > 1;
}

unsigned cpu_function_gaps(const ptx_module_t *module, const ptx_function_t *f, cpu_jit_log_t *log)
{
    unsigned gaps = 0;
    if (needs_cluster(f)) {
        gaps++;
        cpu_jit_log(
            log,
            "line %u: not covered by the software device: clusters of several thread blocks "
            "(%s)\n",
            f->line, f->name);
    }
    for (uint32_t n = 0; n < f->instr_count; n++) {
        const ptx_instr_t *i = &f->instrs[n];
        bool fine = i->op == PTX_OP_CALL || i->op == PTX_OP_BRX || cpu_is_argument(f, i)
                        ? cpu_call_covered(module, f, i)
                        : covered(f, i);
        if (!fine && gaps++ < LINES) {
            cpu_jit_log(log, "line %u: not covered by the software device: %s (in %s)\n", i->line,
                        i->mnemonic, f->name);
        }
    }
    return gaps;
}

gb_status_t cpu_jit_covers(const ptx_module_t *module, cpu_jit_log_t *log)
{
    unsigned gaps = 0;
    uint8_t *reached = cpu_reached_functions(module);
    if (reached == NULL) {
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    }
    for (uint32_t n = 0; n < module->function_count; n++) {
        if (reached[n]) {
            gaps += cpu_function_gaps(module, &module->functions[n], log);
        }
    }
    free(reached);
    if (gaps > LINES) {
        cpu_jit_log(log, "%u instructions are not covered\n", gaps);
    }
    return gaps == 0 ? GB_OK
                     : gb_fail(GB_ERR_UNSUPPORTED,
                               "%u instructions are not covered by the software device", gaps);
}

/* The words of texture and surface instructions. */
#include "gpu-proxy/cpu/jit/tex_op.h"

#include "gpu-proxy/cpu/ptx/ptx_opcode.h"

#include <string.h>

typedef enum {
    W_NOTHING,
    W_GEOMETRY,
    W_HOW,
    W_COMPONENT,
    W_BOUND,
    W_QUERY,
    W_LEVEL,
    W_FORMATTED,
    W_ATOM
} word_kind_t;

enum { ANY = 0xffff };

static const struct {
    const char *word;
    uint16_t ops; /* bit per opcode from PTX_OP_TEX on */
    uint8_t kind, value;
} words[] = {
#define OP(name) (1u << (PTX_OP_##name - PTX_OP_TEX))
    {"1d", ANY, W_GEOMETRY, PTX_TEX_1D},
    {"2d", ANY, W_GEOMETRY, PTX_TEX_2D},
    {"3d", ANY, W_GEOMETRY, PTX_TEX_3D},
    {"a1d", ANY, W_GEOMETRY, PTX_TEX_A1D},
    {"a2d", ANY, W_GEOMETRY, PTX_TEX_A2D},
    {"cube", ANY, W_GEOMETRY, PTX_TEX_CUBE},
    {"acube", ANY, W_GEOMETRY, PTX_TEX_ACUBE},
    {"v2", ANY, W_NOTHING, 0},
    {"v4", ANY, W_NOTHING, 0},
    {"add", OP(SURED), W_ATOM, PTX_ATOM_ADD},
    {"min", OP(SURED), W_ATOM, PTX_ATOM_MIN},
    {"max", OP(SURED), W_ATOM, PTX_ATOM_MAX},
    {"and", OP(SURED), W_ATOM, PTX_ATOM_AND},
    {"or", OP(SURED), W_ATOM, PTX_ATOM_OR},
    {"base", OP(TEX), W_HOW, CPU_TEX_BASE},
    {"level", OP(TEX), W_HOW, CPU_TEX_LEVEL},
    {"grad", OP(TEX), W_HOW, CPU_TEX_GRADIENT},
    {"level", OP(TXQ), W_LEVEL, 0},
    {"r", OP(TLD4), W_COMPONENT, 0},
    {"g", OP(TLD4), W_COMPONENT, 1},
    {"b", OP(TLD4), W_COMPONENT, 2},
    {"a", OP(TLD4), W_COMPONENT, 3},
    {"trap", OP(SULD) | OP(SUST) | OP(SURED), W_BOUND, CPU_SURF_TRAP},
    {"clamp", OP(SULD) | OP(SUST) | OP(SURED), W_BOUND, CPU_SURF_CLAMP},
    {"zero", OP(SULD) | OP(SUST) | OP(SURED), W_BOUND, CPU_SURF_ZERO},
    {"b", OP(SULD) | OP(SUST) | OP(SURED), W_NOTHING, 0},
    {"p", OP(SUST) | OP(SURED), W_FORMATTED, 0},
    {"ca", OP(SULD), W_NOTHING, 0},
    {"cg", OP(SULD) | OP(SUST), W_NOTHING, 0},
    {"cs", OP(SULD) | OP(SUST), W_NOTHING, 0},
    {"cv", OP(SULD), W_NOTHING, 0},
    {"wb", OP(SUST), W_NOTHING, 0},
    {"wt", OP(SUST), W_NOTHING, 0},
    {"width", OP(TXQ) | OP(SUQ), W_QUERY, CPU_QUERY_WIDTH},
    {"height", OP(TXQ) | OP(SUQ), W_QUERY, CPU_QUERY_HEIGHT},
    {"depth", OP(TXQ) | OP(SUQ), W_QUERY, CPU_QUERY_DEPTH},
    {"channel_data_type", OP(TXQ) | OP(SUQ), W_QUERY, CPU_QUERY_DATA_TYPE},
    {"channel_order", OP(TXQ) | OP(SUQ), W_QUERY, CPU_QUERY_ORDER},
    {"normalized_coords", OP(TXQ), W_QUERY, CPU_QUERY_NORMALISED},
    {"array_size", OP(TXQ) | OP(SUQ), W_QUERY, CPU_QUERY_LAYERS},
    {"num_mipmap_levels", OP(TXQ), W_QUERY, CPU_QUERY_LEVELS},
    {"num_samples", OP(TXQ), W_QUERY, CPU_QUERY_SAMPLES},
    {"memory_layout", OP(SUQ), W_QUERY, CPU_QUERY_LAYOUT},
    {"filter_mode", OP(TXQ), W_QUERY, CPU_QUERY_FILTER},
    {"addr_mode_0", OP(TXQ), W_QUERY, CPU_QUERY_ADDRESS_0},
    {"addr_mode_1", OP(TXQ), W_QUERY, CPU_QUERY_ADDRESS_1},
    {"addr_mode_2", OP(TXQ), W_QUERY, CPU_QUERY_ADDRESS_2},
    {"force_unnormalized_coords", OP(TXQ), W_QUERY, CPU_QUERY_UNNORMALISED},
#undef OP
};

static void apply(cpu_tex_op_t *op, unsigned kind, uint8_t value)
{
    switch (kind) {
    case W_GEOMETRY:
        op->geometry = value;
        break;
    case W_HOW:
        op->how = value;
        break;
    case W_COMPONENT:
        op->component = value;
        break;
    case W_BOUND:
        op->bound = value;
        break;
    case W_QUERY:
        op->query = value;
        break;
    case W_LEVEL:
        op->of_level = true;
        break;
    case W_FORMATTED:
        op->formatted = true;
        break;
    case W_ATOM:
        op->atom = value;
        break;
    default:
        break;
    }
}

static bool take(cpu_tex_op_t *op, const char *word, size_t length)
{
    for (size_t n = 0; n < sizeof words / sizeof words[0]; n++) {
        if ((words[n].ops >> (op->op - PTX_OP_TEX) & 1) != 0 && strlen(words[n].word) == length &&
            memcmp(words[n].word, word, length) == 0) {
            apply(op, words[n].kind, words[n].value);
            return true;
        }
    }
    return false;
}

static void count_coordinates(cpu_tex_op_t *op)
{
    static const struct {
        uint8_t coordinates;
        bool layered;
    } shapes[] = {
        [PTX_TEX_NONE] = {0, false}, [PTX_TEX_1D] = {1, false},   [PTX_TEX_2D] = {2, false},
        [PTX_TEX_3D] = {3, false},   [PTX_TEX_A1D] = {1, true},   [PTX_TEX_A2D] = {2, true},
        [PTX_TEX_CUBE] = {3, false}, [PTX_TEX_ACUBE] = {3, true},
    };
    op->coordinates = shapes[op->geometry].coordinates;
    op->layered = shapes[op->geometry].layered;
}

bool cpu_tex_op(const ptx_instr_t *i, cpu_tex_op_t *op)
{
    *op = (cpu_tex_op_t){.op = i->op};
    const char *p = strchr(i->mnemonic, '.');
    while (p != NULL) {
        size_t length = strcspn(++p, ".");
        if (!take(op, p, length) && ptx_type_by_name(p, length) == PTX_TYPE_NONE) {
            return false;
        }
        p = p[length] == '.' ? p + length : NULL;
    }
    op->how = i->op == PTX_OP_TLD4 ? CPU_TEX_GATHER : op->how;
    op->integer = i->type2 == PTX_S32;
    count_coordinates(op);
    return i->op == PTX_OP_TXQ || i->op == PTX_OP_SUQ ? op->query != CPU_QUERY_NONE
                                                      : op->geometry != PTX_TEX_NONE;
}

/* What the dot words of wmma, mma, ldmatrix, stmatrix and movmatrix mean, and which are covered. */
#include "gpu-proxy/cpu/jit/matrix.h"

#include <stdio.h>
#include <string.h>

enum { MAX_WORDS = 24 };

typedef struct {
    char words[MAX_WORDS][24];
    unsigned count;
} words_t;

static words_t split(const char *mnemonic)
{
    words_t w = {.count = 0};
    for (const char *p = mnemonic; *p != 0 && w.count < MAX_WORDS;) {
        size_t n = strcspn(p, ".");
        snprintf(w.words[w.count++], sizeof w.words[0], "%.*s", (int)n, p);
        p += n + (p[n] == '.');
    }
    return w;
}

static uint32_t elem_named(const char *word)
{
    static const struct {
        const char *name;
        uint32_t elem;
    } names[] = {{"f16", CPU_ELEM_F16},  {"bf16", CPU_ELEM_BF16}, {"tf32", CPU_ELEM_TF32},
                 {"f32", CPU_ELEM_F32},  {"f64", CPU_ELEM_F64},   {"s8", CPU_ELEM_S8},
                 {"u8", CPU_ELEM_U8},    {"s4", CPU_ELEM_S4},     {"u4", CPU_ELEM_U4},
                 {"b1", CPU_ELEM_B1},    {"s32", CPU_ELEM_S32},   {"e4m3", CPU_ELEM_E4M3},
                 {"e5m2", CPU_ELEM_E5M2}};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        if (strcmp(names[k].name, word) == 0) {
            return names[k].elem;
        }
    }
    return CPU_ELEM_NONE;
}

/* Takes what wmma and mma have in common; words that it does not know spoil it. */
typedef struct {
    uint32_t elems[4];
    unsigned elem_count, layout_count;
    bool layouts[2]; /* column-major */
    bool popc, logical;
} common_t;

static bool take_word(const char *word, cpu_matrix_t *out, common_t *c)
{
    static const char *const plain[] = {
        "sync", "aligned", "global", "shared", "rn", "shared::cta", "kind::f8f6f4", "mma",
        "load", "store",   "a",      "b",      "c",  "d",           "wmma"};
    uint32_t elem = elem_named(word);
    if (elem != CPU_ELEM_NONE) {
        if (c->elem_count == 4) {
            return false;
        }
        c->elems[c->elem_count++] = elem;
        return true;
    }
    if (strcmp(word, "row") == 0 || strcmp(word, "col") == 0) {
        if (c->layout_count == 2) {
            return false;
        }
        c->layouts[c->layout_count++] = word[0] == 'c';
        return true;
    }
    if (word[0] == 'm' && sscanf(word, "m%un%uk%u", &out->m, &out->n, &out->k) == 3) {
        return true;
    }
    if (strcmp(word, "satfinite") == 0) {
        out->flags |= CPU_MATRIX_SATURATE;
        return true;
    }
    if (strcmp(word, "xor") == 0 || strcmp(word, "and") == 0) {
        out->flags |= word[0] == 'a' ? CPU_MATRIX_AND : 0;
        return c->logical = true;
    }
    if (strcmp(word, "popc") == 0) {
        return c->popc = true;
    }
    for (size_t k = 0; k < sizeof plain / sizeof plain[0]; k++) {
        if (strcmp(plain[k], word) == 0) {
            return true;
        }
    }
    return false;
}

static bool take_words(const ptx_instr_t *i, cpu_matrix_t *out, common_t *c)
{
    words_t w = split(i->mnemonic);
    for (unsigned k = 0; k < w.count; k++) {
        if (!take_word(w.words[k], out, c)) {
            return false;
        }
    }
    return true;
}

/* ---- operands ---- */

static unsigned registers_in(const ptx_function_t *f, const ptx_operand_t *o)
{
    unsigned n = o->kind == PTX_OPERAND_VECTOR ? o->count : 1;
    for (unsigned k = 0; k < n; k++) {
        const ptx_operand_t *e = o->kind == PTX_OPERAND_VECTOR ? ptx_element(f, o, k) : o;
        if (e->kind != PTX_OPERAND_REG) {
            return 0;
        }
    }
    return n;
}

static bool sizes_fit(const ptx_function_t *f, const ptx_operand_t *o, uint32_t elem)
{
    unsigned n = o->kind == PTX_OPERAND_VECTOR ? o->count : 1;
    for (unsigned k = 0; k < n; k++) {
        const ptx_operand_t *e = o->kind == PTX_OPERAND_VECTOR ? ptx_element(f, o, k) : o;
        if (ptx_type_size((ptx_type_t)f->regs[e->index].type) != (elem == CPU_ELEM_F64 ? 8 : 4)) {
            return false;
        }
    }
    return true;
}

/* ---- shapes ---- */

typedef struct {
    uint8_t elem; /* of A */
    uint8_t m, n;
    uint16_t k;
} shape_t;

static const shape_t mma_shapes[] = {
    {CPU_ELEM_F16, 16, 8, 8},   {CPU_ELEM_F16, 16, 8, 16},  {CPU_ELEM_BF16, 16, 8, 8},
    {CPU_ELEM_BF16, 16, 8, 16}, {CPU_ELEM_TF32, 16, 8, 4},  {CPU_ELEM_TF32, 16, 8, 8},
    {CPU_ELEM_E4M3, 16, 8, 16}, {CPU_ELEM_E4M3, 16, 8, 32}, {CPU_ELEM_E5M2, 16, 8, 16},
    {CPU_ELEM_E5M2, 16, 8, 32}, {CPU_ELEM_F64, 8, 8, 4},    {CPU_ELEM_F64, 16, 8, 4},
    {CPU_ELEM_F64, 16, 8, 8},   {CPU_ELEM_F64, 16, 8, 16},  {CPU_ELEM_S8, 8, 8, 16},
    {CPU_ELEM_S8, 16, 8, 16},   {CPU_ELEM_S8, 16, 8, 32},   {CPU_ELEM_S4, 8, 8, 32},
    {CPU_ELEM_S4, 16, 8, 32},   {CPU_ELEM_S4, 16, 8, 64},   {CPU_ELEM_B1, 8, 8, 128},
    {CPU_ELEM_B1, 16, 8, 128},  {CPU_ELEM_B1, 16, 8, 256}};

static const shape_t wmma_shapes[] = {
    {CPU_ELEM_F16, 16, 16, 16},  {CPU_ELEM_F16, 32, 8, 16},  {CPU_ELEM_F16, 8, 32, 16},
    {CPU_ELEM_BF16, 16, 16, 16}, {CPU_ELEM_BF16, 32, 8, 16}, {CPU_ELEM_BF16, 8, 32, 16},
    {CPU_ELEM_S8, 16, 16, 16},   {CPU_ELEM_S8, 32, 8, 16},   {CPU_ELEM_S8, 8, 32, 16},
    {CPU_ELEM_TF32, 16, 16, 8},  {CPU_ELEM_F64, 8, 8, 4},    {CPU_ELEM_S4, 8, 8, 32},
    {CPU_ELEM_B1, 8, 8, 128}};

static uint32_t without_sign(uint32_t elem)
{
    return elem == CPU_ELEM_U8 ? CPU_ELEM_S8 : elem == CPU_ELEM_U4 ? CPU_ELEM_S4 : elem;
}

static bool has_shape(const shape_t *shapes, size_t count, const cpu_matrix_t *x, uint32_t elem)
{
    for (size_t k = 0; k < count; k++) {
        if (shapes[k].elem == without_sign(elem) && shapes[k].m == x->m && shapes[k].n == x->n &&
            shapes[k].k == x->k) {
            return true;
        }
    }
    return false;
}

static bool is_f8(uint32_t elem)
{
    return elem == CPU_ELEM_E4M3 || elem == CPU_ELEM_E5M2;
}

/* Do the four types go together? */
static bool types_fit(const cpu_matrix_t *x)
{
    if (x->a != x->b && !(without_sign(x->a) == without_sign(x->b) && x->a != x->b) &&
        !(is_f8(x->a) && is_f8(x->b))) {
        return false;
    }
    bool half_c = x->c == CPU_ELEM_F16 || x->c == CPU_ELEM_F32;
    bool half_d = x->d == CPU_ELEM_F16 || x->d == CPU_ELEM_F32;
    switch (without_sign(x->a)) {
    case CPU_ELEM_F16:
        return half_c && half_d && (x->flags & CPU_MATRIX_SATURATE) == 0;
    case CPU_ELEM_E4M3:
    case CPU_ELEM_E5M2:
        return half_c && half_d;
    case CPU_ELEM_BF16:
    case CPU_ELEM_TF32:
        return x->c == CPU_ELEM_F32 && x->d == CPU_ELEM_F32;
    case CPU_ELEM_F64:
        return x->c == CPU_ELEM_F64 && x->d == CPU_ELEM_F64;
    case CPU_ELEM_S8:
    case CPU_ELEM_S4:
    case CPU_ELEM_B1:
        return x->c == CPU_ELEM_S32 && x->d == CPU_ELEM_S32;
    default:
        return false;
    }
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- mma ---- */

static bool count_operands(const ptx_function_t *f, const ptx_instr_t *i, cpu_matrix_t *x)
{
    const ptx_operand_t *d = ptx_dst(f, i, 0), *a = ptx_src(f, i, 0), *b = ptx_src(f, i, 1);
    const ptx_operand_t *c = ptx_src(f, i, 2);
    x->a_regs = registers_in(f, a);
    x->b_regs = registers_in(f, b);
    x->c_regs = registers_in(f, c);
    x->d_regs = registers_in(f, d);
    return x->a_regs != 0 && x->b_regs != 0 && x->c_regs != 0 && x->d_regs != 0 &&
           sizes_fit(f, a, x->a) && sizes_fit(f, b, x->b) && sizes_fit(f, c, x->c) &&
           sizes_fit(f, d, x->d);
}

static bool parse_mma(const ptx_function_t *f, const ptx_instr_t *i, cpu_matrix_t *x)
{
    common_t c = {.elem_count = 0};
    if (!take_words(i, x, &c) || c.elem_count != 4 || c.layout_count != 2) {
        return false;
    }
    x->d = c.elems[0];
    x->a = c.elems[1];
    x->b = c.elems[2];
    x->c = c.elems[3];
    x->a_col = c.layouts[0];
    x->b_col = c.layouts[1];
    bool logical = x->a == CPU_ELEM_B1;
    if (!types_fit(x) || !count_operands(f, i, x) || logical != (c.popc && c.logical)) {
        return false;
    }
    if (x->a == CPU_ELEM_F16 && x->m == 8 && x->n == 8 && x->k == 4) {
        x->op = CPU_MATRIX_QUADS;
        return x->a_regs == 2 && x->b_regs == 2 && x->c_regs == (x->c == CPU_ELEM_F16 ? 4 : 8) &&
               x->d_regs == (x->d == CPU_ELEM_F16 ? 4 : 8);
    }
    bool registers = x->b_regs == cpu_regs_of_b(x->n, x->k, x->b) &&
                     x->c_regs == cpu_regs_of_c(x->m, x->n, x->c) &&
                     x->d_regs == cpu_regs_of_c(x->m, x->n, x->d);
    if (x->a_col || !x->b_col || !registers) {
        return false;
    }
    return i->src_count == 3 && has_shape(mma_shapes, COUNT(mma_shapes), x, x->a) &&
           x->a_regs == cpu_regs_of_a(x->m, x->k, x->a);
}

/* ---- wmma ---- */

/* How many registers a fragment has: those of f16 for A and B are 8 whatever the shape. */
static unsigned fragment_registers(const cpu_matrix_t *x, uint32_t part, uint32_t elem)
{
    if (part == 'c' || part == 'd') {
        return cpu_regs_of_c(x->m, x->n, elem);
    }
    if (elem == CPU_ELEM_F16) {
        return 8;
    }
    return part == 'a' ? cpu_regs_of_a(x->m, x->k, elem) : cpu_regs_of_b(x->n, x->k, elem);
}

static bool parse_wmma_mma(const ptx_function_t *f, const ptx_instr_t *i, cpu_matrix_t *x)
{
    common_t c = {.elem_count = 0};
    if (!take_words(i, x, &c) || c.layout_count != 2 || i->src_count != 3) {
        return false;
    }
    if (c.elem_count == 2) {
        x->d = c.elems[0];
        x->c = c.elems[1];
        x->a = x->b = CPU_ELEM_F16;
    } else if (c.elem_count == 4) {
        x->d = c.elems[0];
        x->a = c.elems[1];
        x->b = c.elems[2];
        x->c = c.elems[3];
    } else {
        return false;
    }
    bool logical = x->a == CPU_ELEM_B1;
    return types_fit(x) && count_operands(f, i, x) && logical == (c.popc && c.logical) &&
           has_shape(wmma_shapes, COUNT(wmma_shapes), x, x->a) &&
           x->a_regs == fragment_registers(x, 'a', x->a) &&
           x->b_regs == fragment_registers(x, 'b', x->b) &&
           x->c_regs == fragment_registers(x, 'c', x->c) &&
           x->d_regs == fragment_registers(x, 'd', x->d);
}

/* The element of A that a shape with this accumulator has: for the check of shapes. */
static bool accumulator_has_shape(const cpu_matrix_t *x)
{
    static const uint32_t of_f32[] = {CPU_ELEM_F16, CPU_ELEM_BF16, CPU_ELEM_TF32};
    static const uint32_t of_s32[] = {CPU_ELEM_S8, CPU_ELEM_S4, CPU_ELEM_B1};
    for (unsigned k = 0; k < 3; k++) {
        if ((x->a == CPU_ELEM_F32 && has_shape(wmma_shapes, COUNT(wmma_shapes), x, of_f32[k])) ||
            (x->a == CPU_ELEM_S32 && has_shape(wmma_shapes, COUNT(wmma_shapes), x, of_s32[k]))) {
            return true;
        }
    }
    return (x->a == CPU_ELEM_F16 || x->a == CPU_ELEM_F64) &&
           has_shape(wmma_shapes, COUNT(wmma_shapes), x, x->a);
}

static bool parse_access(const ptx_function_t *f, const ptx_instr_t *i, cpu_matrix_t *x, bool store)
{
    common_t c = {.elem_count = 0};
    x->part = (uint8_t)i->mnemonic[store ? 11 : 10]; /* wmma.store.d, wmma.load.a */
    if (!take_words(i, x, &c) || c.elem_count != 1 || c.layout_count != 1) {
        return false;
    }
    const ptx_operand_t *registers = store ? ptx_src(f, i, 1) : ptx_dst(f, i, 0);
    bool accumulator = x->part == 'c' || x->part == 'd';
    x->op = store ? CPU_MATRIX_STORE : CPU_MATRIX_LOAD;
    x->a = c.elems[0];
    x->col = c.layouts[0];
    x->space = i->space;
    x->has_stride = i->src_count == (store ? 3 : 2);
    x->a_regs = registers_in(f, registers);
    bool fits = accumulator ? accumulator_has_shape(x)
                            : has_shape(wmma_shapes, COUNT(wmma_shapes), x, x->a);
    /* elements of less than a byte lie along k only */
    bool order = cpu_elem_bits(x->a) >= 8 || x->col == (x->part == 'b');
    return fits && order && (x->part != 'd' || store) && x->a_regs != 0 &&
           x->a_regs == fragment_registers(x, x->part, x->a) && sizes_fit(f, registers, x->a) &&
           (x->space == PTX_SPACE_GENERIC || x->space == PTX_SPACE_GLOBAL ||
            x->space == PTX_SPACE_SHARED);
}

/* ---- ldmatrix, stmatrix, movmatrix ---- */

static bool parse_rows(const ptx_function_t *f, const ptx_instr_t *i, cpu_matrix_t *x)
{
    bool store = i->op == PTX_OP_STMATRIX;
    const ptx_operand_t *registers = store ? ptx_src(f, i, 1) : ptx_dst(f, i, 0);
    words_t w = split(i->mnemonic);
    unsigned count = 0;
    bool shape = false;
    for (unsigned k = 1; k < w.count; k++) {
        const char *word = w.words[k];
        if (word[0] == 'x' && (word[1] == '1' || word[1] == '2' || word[1] == '4') &&
            word[2] == 0) {
            count = (unsigned)(word[1] - '0');
        } else if (strcmp(word, "m8n8") == 0) {
            shape = true;
        } else if (strcmp(word, "trans") == 0) {
            x->col = 1;
        } else if (strcmp(word, "sync") != 0 && strcmp(word, "aligned") != 0 &&
                   strncmp(word, "shared", 6) != 0 && strcmp(word, "b16") != 0) {
            return false;
        }
    }
    x->op = store ? CPU_MATRIX_STMATRIX : CPU_MATRIX_LDMATRIX;
    x->a = CPU_ELEM_F16;
    x->space = i->space;
    x->a_regs = registers_in(f, registers);
    return shape && count != 0 && x->a_regs == count && sizes_fit(f, registers, x->a) &&
           (x->space == PTX_SPACE_GENERIC || x->space == PTX_SPACE_SHARED);
}

bool cpu_matrix_parse(const ptx_function_t *f, const ptx_instr_t *i, cpu_matrix_t *out)
{
    *out = (cpu_matrix_t){.op = CPU_MATRIX_MMA};
    switch (i->op) {
    case PTX_OP_MMA:
        return parse_mma(f, i, out);
    case PTX_OP_LDMATRIX:
    case PTX_OP_STMATRIX:
        return parse_rows(f, i, out);
    case PTX_OP_MOVMATRIX:
        out->op = CPU_MATRIX_MOVE;
        return strcmp(i->mnemonic, "movmatrix.sync.aligned.m8n8.trans.b16") == 0 &&
               registers_in(f, ptx_src(f, i, 0)) == 1;
    case PTX_OP_WMMA:
        if (strncmp(i->mnemonic, "wmma.load.", 10) == 0) {
            return parse_access(f, i, out, false);
        }
        if (strncmp(i->mnemonic, "wmma.store.", 11) == 0) {
            return parse_access(f, i, out, true);
        }
        return parse_wmma_mma(f, i, out);
    default:
        return false;
    }
}

#include "tests/ptx/pt_row.h"

#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ptx/pt_device.h"

enum {
    MAX_ROWS = 512,
    MAX_VALUES = 40,
    IMMEDIATES = 3,
    GROUP = 6,       /* rows of the same shape that share a kernel */
    PER_MODULE = 24, /* rows */
    BLOCK = 72
};

static pt_row_t rows[MAX_ROWS]; /* tests have one thread */
static unsigned row_count;

int64_t pt_signed(uint64_t value, unsigned bits)
{
    return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

uint64_t pt_low(uint64_t value, unsigned bits)
{
    return bits >= 64 ? value : value & (((uint64_t)1 << bits) - 1);
}

float pt_f32(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, 4);
    return value;
}

double pt_f64(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

uint64_t pt_bits32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

uint64_t pt_bits64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}

pt_row_t *pt_add(const char *shape, pt_ref_t ref, const char *mnemonic, ...)
{
    assert_true(row_count < MAX_ROWS);
    pt_row_t *row = &rows[row_count++];
    memset(row, 0, sizeof *row);
    va_list args;
    va_start(args, mnemonic);
    vsnprintf(row->mnemonic, sizeof row->mnemonic, mnemonic, args);
    va_end(args);
    snprintf(row->shape, sizeof row->shape, "%s", shape);
    snprintf(row->sources, sizeof row->sources, "%s", shape + 2);
    row->ref = ref;
    return row;
}

/* ---- values ---- */

static const uint64_t integers[] = {0,
                                    1,
                                    2,
                                    3,
                                    7,
                                    31,
                                    32,
                                    0x7f,
                                    0x80,
                                    0xff,
                                    0x7fff,
                                    0x8000,
                                    0xffff,
                                    0x10001,
                                    0x7fffffff,
                                    0x80000000,
                                    0x80000001,
                                    0xdeadbeef,
                                    0xfffffffe,
                                    0xffffffff,
                                    0x123456789abcdef0,
                                    0x7fffffffffffffff,
                                    0x8000000000000000,
                                    0xfffffffffffffff9,
                                    0xffffffffffffffff};
static const uint64_t shifts[] = {0, 1, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 0xffffffff};
static const double floats[] = {
    0.0,      -0.0,      1.0,      -1.0,         1.5,           -2.5,         3.0,
    0.1,      -1.0 / 3,  0.5,      -0.5,         127.5,         255.5,        -32768.5,
    65535.75, 8388609.5, 16777217, 2147483648.0, -2147483904.0, 4294967296.0, 9.3e18,
    -9.3e18,  1.9e19,    1e30,     -1e-30,       3.14159265};
static const double small_floats[] = {0.0,      -0.0, 1.0, -1.0, 0.5,  -2.5, 3.0,  0.1,
                                      -1.0 / 3, 1e-3, 3.1, -3.0, 1.75, 2.0,  7.25, -20.0};

static unsigned fill(uint64_t *out, const uint64_t *from, unsigned n, unsigned bits)
{
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++) {
        uint64_t value = pt_low(from[i], bits);
        bool known = false;
        for (unsigned k = 0; k < count; k++)
            known |= out[k] == value;
        if (!known)
            out[count++] = value;
    }
    return count;
}

static unsigned fill_floats(uint64_t *out, const double *from, unsigned n, bool wide, bool special)
{
    static const uint64_t special32[] = {1,          0x80000001, 0x7fffff,   0x800000,  0x80800000,
                                         0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000};
    static const uint64_t special64[] = {1,
                                         0x8000000000000001,
                                         0xfffffffffffff,
                                         0x10000000000000,
                                         0x7fefffffffffffff,
                                         0x7ff0000000000000,
                                         0xfff0000000000000,
                                         0x7ff8000000000000,
                                         0x3810000000000000};
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++)
        out[count++] = wide ? pt_bits64(from[i]) : pt_bits32((float)from[i]);
    for (unsigned i = 0; special && i < 9; i++)
        out[count++] = wide ? special64[i] : special32[i];
    return count;
}

#define COUNT(array) (unsigned)(sizeof(array) / sizeof((array)[0]))

static unsigned values_for(char kind, uint64_t *out)
{
    switch (kind) {
    case 'h':
        return fill(out, integers, COUNT(integers), 16);
    case 'w':
        return fill(out, integers, COUNT(integers), 32);
    case 'd':
        return fill(out, integers, COUNT(integers), 64);
    case 's':
        return fill(out, shifts, COUNT(shifts), 32);
    case 'f':
        return fill_floats(out, floats, COUNT(floats), false, true);
    case 'g':
        return fill_floats(out, floats, COUNT(floats), true, true);
    case 'n':
        return fill_floats(out, small_floats, COUNT(small_floats), false, false);
    case 'p':
        out[0] = 0;
        out[1] = 1;
        return 2;
    default:
        fail_msg("no values of kind %c", kind);
        return 0;
    }
}

/* All combinations, or a third of them by turns where there are many; `in` has 4 per case. */
static unsigned make_cases(const pt_row_t *row, uint64_t **in)
{
    uint64_t values[4][MAX_VALUES];
    unsigned counts[4] = {1, 1, 1, 1}, sources = (unsigned)strlen(row->sources), total = 1;
    for (unsigned s = 0; s < sources; s++) {
        counts[s] = values_for(row->sources[s], values[s]);
        total *= counts[s];
    }
    unsigned step = total > 20000 ? 13 : total > 4000 ? 7 : 1, n = 0;
    uint64_t *cases = calloc((size_t)total / step + 1, 4 * sizeof *cases);
    assert_non_null(cases);
    for (unsigned i = 0; i < total; i += step, n++) {
        unsigned rest = i;
        for (unsigned s = 0; s < sources; s++) {
            cases[4 * n + s] = values[s][rest % counts[s]];
            rest /= counts[s];
        }
    }
    *in = cases;
    return n;
}

/* The immediates that the last source is replaced with: some of its own values. */
static unsigned pick_immediates(const pt_row_t *row, uint64_t out[IMMEDIATES])
{
    size_t sources = strlen(row->sources);
    char kind = row->sources[sources - 1];
    uint64_t values[MAX_VALUES];
    if (sources < 2 || kind == 'p')
        return 0;
    unsigned n = values_for(kind, values);
    for (unsigned i = 0; i < IMMEDIATES; i++)
        out[i] = values[(i * 7 + 3) % n];
    return IMMEDIATES;
}

/* ---- kernels ---- */

typedef struct {
    char *text;
    size_t used, size;
} text_t;

static void emit(text_t *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void emit(text_t *t, const char *format, ...)
{
    va_list args;
    if (t->size - t->used < 512) {
        t->size = t->size ? t->size * 2 : 1 << 16;
        t->text = realloc(t->text, t->size);
        assert_non_null(t->text);
    }
    va_start(args, format);
    t->used += (size_t)vsnprintf(t->text + t->used, t->size - t->used, format, args);
    va_end(args);
}

static const char *memory_type(char kind)
{
    return kind == 'h' ? "b16" : kind == 'd' || kind == 'g' ? "b64" : kind == 'f' ? "f32" : "b32";
}

/* Bytes of a value in memory; predicates are words. */
static unsigned memory_size(char kind)
{
    return kind == 'h' ? 2 : kind == 'd' || kind == 'g' ? 8 : 4;
}

static unsigned source_count(const pt_row_t *row)
{
    return (unsigned)strlen(row->shape) - 2;
}

static char reg_kind(const pt_row_t *row, unsigned source)
{
    return row->shape[2 + source];
}

/* %d12 = parameter `base` + index * size */
static void emit_address(text_t *t, const char *base, unsigned size)
{
    emit(t,
         "ld.param.u64 %%d10, [%s]; mul.wide.u32 %%d11, %%w11, %u; add.s64 %%d12, %%d10, %%d11;\n",
         base, size);
}

static void load_source(text_t *t, char kind, unsigned s)
{
    char base[16];
    snprintf(base, sizeof base, "in%u", s);
    emit_address(t, base, memory_size(kind));
    if (kind == 'p')
        emit(t, "ld.global.u32 %%w9, [%%d12];\nsetp.ne.u32 %%p%u, %%w9, 0;\n", s + 1);
    else
        emit(t, "ld.global.%s %%%c%u, [%%d12];\n", kind == 'g' ? "f64" : memory_type(kind), kind,
             s + 1);
}

/* Results lie one array behind the other: %d13 is this thread's place, %d14 an array's bytes. */
static void store_result(text_t *t, char kind)
{
    if (kind == 'p')
        emit(t, "selp.u32 %%w0, 1, 0, %%p0;\nst.global.u32 [%%d13], %%w0;\n");
    else
        emit(t, "st.global.%s [%%d13], %%%c0;\n", kind == 'g' ? "f64" : memory_type(kind), kind);
    emit(t, "add.s64 %%d13, %%d13, %%d14;\n");
}

static void emit_immediate(text_t *t, char kind, uint64_t value)
{
    if (kind == 'f')
        emit(t, "0f%08X", (unsigned)value);
    else if (kind == 'g')
        emit(t, "0d%016llX", (unsigned long long)value);
    else
        emit(t, "0x%llX", (unsigned long long)value);
}

/* The instruction itself; with an immediate in place of the last source if given. */
static void emit_operation(text_t *t, const pt_row_t *row, const uint64_t *immediate)
{
    unsigned sources = source_count(row);
    emit(t, "%s %%%c0", row->mnemonic, row->shape[0]);
    for (unsigned s = 0; s < sources; s++) {
        emit(t, ", ");
        if (immediate && s + 1 == sources)
            emit_immediate(t, reg_kind(row, s), *immediate);
        else
            emit(t, "%%%c%u", reg_kind(row, s), s + 1);
    }
    emit(t, row->fixed[0] ? ", %s;\n" : "%s;\n", row->fixed);
}

/* Rows from `first` on that can share a kernel: the same registers and the same values. */
static unsigned group_size(unsigned first, unsigned end)
{
    unsigned n = 1;
    while (n < GROUP && first + n < end && strcmp(rows[first].shape, rows[first + n].shape) == 0 &&
           strcmp(rows[first].sources, rows[first + n].sources) == 0)
        n++;
    return n;
}

/* Kernel `v<first>` takes the case of its global thread index, `u<first>` that of its CTA. */
static void emit_kernel(text_t *t, unsigned first, unsigned group, bool uniform)
{
    const pt_row_t *row = &rows[first];
    uint64_t immediates[IMMEDIATES];
    unsigned count = pick_immediates(row, immediates), sources = source_count(row);
    emit(t, ".visible .entry %c%u(.param .u64 out, .param .u32 n", uniform ? 'u' : 'v', first);
    for (unsigned s = 0; s < sources; s++)
        emit(t, ", .param .u64 in%u", s);
    emit(t, ")\n{\n.reg .pred %%p<12>; .reg .b16 %%h<6>; .reg .b32 %%w<16>; .reg .b64 %%d<16>;\n"
            ".reg .f32 %%f<6>; .reg .f64 %%g<6>;\n"
            "ld.param.u32 %%w10, [n]; mov.u32 %%w11, %%ctaid.x;\n");
    if (!uniform)
        emit(t, "mov.u32 %%w12, %%ntid.x; mov.u32 %%w13, %%tid.x;\n"
                "mad.lo.s32 %%w11, %%w11, %%w12, %%w13;\n");
    emit(t, "setp.ge.u32 %%p10, %%w11, %%w10;\n@%%p10 bra Done;\n");
    for (unsigned s = 0; s < sources; s++)
        load_source(t, reg_kind(row, s), s);
    emit_address(t, "out", memory_size(row->shape[0]));
    emit(t, "mov.u64 %%d13, %%d12; mul.wide.u32 %%d14, %%w10, %u;\n", memory_size(row->shape[0]));
    for (unsigned g = 0; g < group; g++) {
        emit_operation(t, &rows[first + g], NULL);
        store_result(t, row->shape[0]);
        for (unsigned i = 0; i < count; i++) {
            emit_operation(t, &rows[first + g], &immediates[i]);
            store_result(t, row->shape[0]);
        }
    }
    emit(t, "Done: ret;\n}\n");
}

/* ---- reference ---- */

static bool read_type(const char *word, size_t length, char *name, unsigned *bits, bool *is_signed,
                      bool *is_float)
{
    if (length < 2 || length > 4 || !strchr("subf", word[0]))
        return false;
    unsigned n = 0;
    for (size_t i = 1; i < length; i++) {
        if (word[i] < '0' || word[i] > '9')
            return false;
        n = n * 10 + (unsigned)(word[i] - '0');
    }
    snprintf(name, 8, "%.*s", (int)length, word);
    *bits = n;
    *is_signed = word[0] == 's';
    *is_float = word[0] == 'f';
    return true;
}

static void read_word(pt_op_t *op, const char *word, size_t length)
{
    static const struct {
        char word[4];
        int round;
        bool integral;
    } rounds[] = {{"rn", FE_TONEAREST, false}, {"rz", FE_TOWARDZERO, false},
                  {"rm", FE_DOWNWARD, false},  {"rp", FE_UPWARD, false},
                  {"rni", FE_TONEAREST, true}, {"rzi", FE_TOWARDZERO, true},
                  {"rmi", FE_DOWNWARD, true},  {"rpi", FE_UPWARD, true}};
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
        if (strlen(rounds[i].word) == length && strncmp(rounds[i].word, word, length) == 0) {
            op->round = rounds[i].round;
            op->integral = rounds[i].integral;
        }
    }
    op->ftz |= length == 3 && strncmp(word, "ftz", 3) == 0;
    op->sat |= length == 3 && strncmp(word, "sat", 3) == 0;
}

static pt_op_t read_mnemonic(const char *mnemonic)
{
    pt_op_t op = {.round = FE_TONEAREST};
    unsigned types = 0;
    for (const char *p = strchr(mnemonic, '.'); p && *p == '.';) {
        size_t length = strcspn(++p, ".");
        bool first = types == 0;
        if (read_type(p, length, first ? op.type : op.type2, first ? &op.bits : &op.bits2,
                      first ? &op.is_signed : &op.is_signed2, first ? &op.is_float : &op.is_float2))
            types++;
        else
            read_word(&op, p, length);
        p += length;
    }
    if (types == 1) {
        memcpy(op.type2, op.type, sizeof op.type);
        op.bits2 = op.bits;
        op.is_signed2 = op.is_signed;
        op.is_float2 = op.is_float;
    }
    return op;
}

static unsigned kind_bits(char kind)
{
    return kind == 'h' ? 16 : kind == 'd' || kind == 'g' ? 64 : kind == 'p' ? 1 : 32;
}

static double ulp_of(double value, bool wide)
{
    int e;
    value = fabs(value);
    int least = wide ? -1074 : -149, digits = wide ? 53 : 24;
    if (value == 0)
        return ldexp(1, least);
    frexp(value, &e);
    return ldexp(1, e - digits > least ? e - digits : least);
}

static bool agrees(const pt_row_t *row, uint64_t got, uint64_t want)
{
    char kind = row->shape[0];
    if (got == want)
        return true;
    if (kind != 'f' && kind != 'g')
        return false;
    double a = kind == 'f' ? (double)pt_f32(got) : pt_f64(got);
    double b = kind == 'f' ? (double)pt_f32(want) : pt_f64(want);
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (row->compare == PT_EXACT || isinf(a) || isinf(b))
        return false;
    double limit =
        row->compare == PT_ULP ? row->tolerance * ulp_of(b, kind == 'g') : row->tolerance;
    return fabs(a - b) <= limit;
}

static void report(const pt_row_t *row, const char *form, const uint64_t *in, uint64_t got,
                   uint64_t want)
{
    print_error("%s (%s): %llx %llx %llx %llx gives %llx, must be %llx\n", row->mnemonic, form,
                (unsigned long long)in[0], (unsigned long long)in[1], (unsigned long long)in[2],
                (unsigned long long)in[3], (unsigned long long)got, (unsigned long long)want);
}

static uint64_t load_value(const uint8_t *array, unsigned i, unsigned size)
{
    uint64_t value = 0;
    memcpy(&value, array + (size_t)i * size, size);
    return value;
}

/* Checks one row's results, `k` of the immediates (0: none); returns how many differ. */
static unsigned check(const pt_row_t *row, const char *form, unsigned k, const uint64_t *in,
                      const uint8_t *out, unsigned n)
{
    uint64_t immediates[IMMEDIATES];
    unsigned bad = 0, bits = kind_bits(row->shape[0]), size = memory_size(row->shape[0]);
    size_t sources = strlen(row->sources);
    pt_op_t op = read_mnemonic(row->mnemonic);
    pick_immediates(row, immediates);
    for (unsigned i = 0; i < n; i++) {
        uint64_t args[4];
        memcpy(args, in + 4 * (size_t)i, sizeof args);
        if (k > 0)
            args[sources - 1] = immediates[k - 1];
        if (row->is_open && row->is_open(args))
            continue;
        uint64_t want = pt_low(row->ref(&op, args), bits);
        uint64_t got = pt_low(load_value(out, i, size), bits);
        if (!agrees(row, got, want) && bad++ < 3)
            report(row, k ? "immediate" : form, args, got, want);
    }
    return bad;
}

static CUdeviceptr upload_source(const pt_row_t *row, unsigned s, const uint64_t *in, unsigned n)
{
    unsigned size = memory_size(reg_kind(row, s));
    uint8_t *array = calloc(n, size);
    assert_non_null(array);
    for (unsigned i = 0; i < n; i++)
        memcpy(array + (size_t)i * size, &in[4 * (size_t)i + s], size);
    CUdeviceptr device = pt_upload(array, (size_t)n * size);
    free(array);
    return device;
}

static unsigned run_kernel(CUmodule module, unsigned first, unsigned group, bool uniform)
{
    const pt_row_t *row = &rows[first];
    uint64_t immediates[IMMEDIATES], *in;
    unsigned n = make_cases(row, &in), forms = 1 + pick_immediates(row, immediates), bad = 0;
    /* The same value in all lanes: a sample of the cases is enough. */
    if (uniform && n > 100) {
        for (unsigned i = 0; i < 100; i++)
            memmove(in + 4 * (size_t)i, in + 4 * ((size_t)i * n / 100), 4 * sizeof *in);
        n = 100;
    }
    size_t array = (size_t)n * memory_size(row->shape[0]), bytes = array * forms * group;
    uint8_t *out = calloc(1, bytes);
    assert_non_null(out);
    CUdeviceptr d_out = pt_upload(NULL, bytes), d_in[4];
    void *params[6] = {&d_out, &n};
    for (unsigned s = 0; s < source_count(row); s++) {
        d_in[s] = upload_source(row, s, in, n);
        params[2 + s] = &d_in[s];
    }
    char name[16];
    snprintf(name, sizeof name, "%c%u", uniform ? 'u' : 'v', first);
    pt_dim_t grid = {uniform ? n : (n + BLOCK - 1) / BLOCK, 1, 1};
    pt_dim_t block = {uniform ? 32 : BLOCK, 1, 1};
    pt_launch(pt_function(module, name), grid, block, 0, params);
    pt_download(out, d_out, bytes);
    for (unsigned g = 0; g < group; g++) {
        for (unsigned k = 0; k < forms; k++)
            bad += check(&rows[first + g], uniform ? "uniform" : "lanes", k, in,
                         out + array * (g * forms + k), n);
    }
    for (unsigned s = 0; s < source_count(row); s++)
        pt_free(d_in[s]);
    pt_free(d_out);
    free(in);
    free(out);
    return bad;
}

static unsigned run_module(unsigned first, unsigned end)
{
    text_t t = {0};
    unsigned bad = 0;
    emit(&t, ".version 7.0\n.target sm_70\n.address_size 64\n");
    for (unsigned i = first; i < end; i += group_size(i, end)) {
        emit_kernel(&t, i, group_size(i, end), false);
        emit_kernel(&t, i, group_size(i, end), true);
    }
    CUmodule module = pt_load(t.text);
    for (unsigned i = first; i < end; i += group_size(i, end)) {
        bad += run_kernel(module, i, group_size(i, end), false);
        bad += run_kernel(module, i, group_size(i, end), true);
    }
    pt_unload(module);
    free(t.text);
    return bad;
}

void pt_run_rows(void)
{
    unsigned bad = 0, n = row_count;
    row_count = 0;
    for (unsigned first = 0; first < n; first += PER_MODULE)
        bad += run_module(first, first + PER_MODULE < n ? first + PER_MODULE : n);
    if (bad)
        fail_msg("%u results of %u instructions differ", bad, n);
}

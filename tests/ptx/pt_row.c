#include "tests/ptx/pt_row.h"

#include <errno.h>
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ptx/pt_device.h"

enum {
    MAX_ROWS = 1024,
    GROUP = 8,       /* rows of the same shape that share a kernel */
    PER_MODULE = 32, /* rows */
};

/* The lengths of blocks, by turns: rows of any length, in one, two and three dimensions, so that
 * strips of every width occur, several to a group, and lanes without threads. */
static const pt_dim_t blocks[] = {{72, 1, 1}, {16, 8, 1}, {5, 3, 5}, {8, 9, 1}, {64, 1, 1},
                                  {33, 2, 1}, {32, 4, 1}, {7, 1, 1}, {4, 4, 2}, {24, 3, 1}};

static pt_row_t rows[MAX_ROWS]; /* tests have one thread */
static unsigned row_count;

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

/* ---- kernels ---- */

#define COUNT(array) (unsigned)(sizeof(array) / sizeof((array)[0]))

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

/* %d12 = parameter `base` + index (a register) * size */
static void emit_address(text_t *t, const char *base, const char *index, unsigned size)
{
    emit(t, "ld.param.u64 %%d10, [%s]; mul.wide.u32 %%d11, %s, %u; add.s64 %%d12, %%d10, %%d11;\n",
         base, index, size);
}

static void load_source(text_t *t, char kind, unsigned s)
{
    char base[16];
    snprintf(base, sizeof base, "in%u", s);
    emit_address(t, base, "%w11", memory_size(kind));
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
    if (row->body) {
        emit(t, "%s\n", row->body);
        return;
    }
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

/* Some rows run in two parts, each under a guard: what the others have must stay. */
static void emit_row(text_t *t, unsigned n)
{
    const pt_row_t *row = &rows[n];
    if (row->body || n % 4 != 1) {
        emit_operation(t, row, NULL);
        return;
    }
    emit(t, "@%%p9 ");
    emit_operation(t, row, NULL);
    emit(t, "@!%%p9 ");
    emit_operation(t, row, NULL);
}

/* Rows from `first` on that can share a kernel: the same registers and the same values. */
static unsigned group_size(unsigned first, unsigned end)
{
    unsigned n = 1;
    while (n < GROUP && first + n < end && strcmp(rows[first].shape, rows[first + n].shape) == 0 &&
           strcmp(rows[first].sources, rows[first + n].sources) == 0 &&
           !rows[first].body == !rows[first + n].body)
        n++;
    return n;
}

/* A kernel's beginning: w11 becomes the number of the case. In kernels of lanes every case runs in two
 * CTAs: once with all lanes, once with one half of them after the other. */
static void emit_start(text_t *t, unsigned results, bool uniform)
{
    emit(t, ")\n{\n.reg .pred %%p<12>; .reg .b16 %%h<6>; .reg .b32 %%w<20>; .reg .b64 %%d<16>;\n"
            ".reg .f32 %%f<6>; .reg .f64 %%g<6>;\n"
            "ld.param.u32 %%w10, [n]; mov.u32 %%w11, %%ctaid.x; mov.u32 %%w15, 0;\n"
            "mov.u32 %%w14, 0; mov.u32 %%w17, 0;\n");
    if (!uniform)
        emit(t, "mov.u32 %%w12, %%ntid.x; mov.u32 %%w13, %%tid.x; mov.u32 %%w16, %%ntid.y;\n"
                "mov.u32 %%w17, %%tid.z; mov.u32 %%w18, %%tid.y;\n"
                "mad.lo.u32 %%w17, %%w17, %%w16, %%w18; mad.lo.u32 %%w13, %%w17, %%w12, %%w13;\n"
                "mov.u32 %%w17, %%ntid.z; mul.lo.u32 %%w16, %%w16, %%w17;\n"
                "mul.lo.u32 %%w16, %%w16, %%w12; shr.u32 %%w18, %%w11, 1;\n"
                "and.b32 %%w17, %%w11, 1; mad.lo.u32 %%w11, %%w18, %%w16, %%w13;\n"
                "mul.lo.u32 %%w15, %%w13, 0x9E3779B1; shr.u32 %%w15, %%w15, 13;\n"
                "and.b32 %%w15, %%w15, %%w17;\n");
    emit(t,
         "and.b32 %%w18, %%w11, 2; setp.ne.u32 %%p9, %%w18, 0;\n"
         "mul.lo.u32 %%w17, %%w17, %%w10; mul.lo.u32 %%w17, %%w17, %u;\n"
         "setp.ge.u32 %%p10, %%w11, %%w10;\n@%%p10 bra Done;\n",
         results);
    if (!uniform)
        emit(t, "Again: setp.ne.u32 %%p11, %%w14, %%w15;\n@%%p11 bra Skip;\n");
}

/* Kernel `v<first>` takes the case of its global thread index, `u<first>` that of its CTA. */
static void emit_kernel(text_t *t, unsigned first, unsigned group, bool uniform)
{
    const pt_row_t *row = &rows[first];
    uint64_t immediates[PT_IMMEDIATES];
    unsigned count = uniform ? 0 : pt_immediates(row, immediates), sources = source_count(row);
    emit(t, ".visible .entry %c%u(.param .u64 out, .param .u32 n", uniform ? 'u' : 'v', first);
    for (unsigned s = 0; s < sources; s++)
        emit(t, ", .param .u64 in%u", s);
    emit_start(t, group * (1 + count), uniform);
    for (unsigned s = 0; s < sources; s++)
        load_source(t, reg_kind(row, s), s);
    emit(t, "add.u32 %%w18, %%w11, %%w17;\n");
    emit_address(t, "out", "%w18", memory_size(row->shape[0]));
    emit(t, "mov.u64 %%d13, %%d12; mul.wide.u32 %%d14, %%w10, %u;\n", memory_size(row->shape[0]));
    for (unsigned g = 0; g < group; g++) {
        emit_row(t, first + g);
        store_result(t, row->shape[0]);
        for (unsigned i = 0; i < count; i++) {
            emit_operation(t, &rows[first + g], &immediates[i]);
            store_result(t, row->shape[0]);
        }
    }
    if (!uniform)
        emit(t, "Skip: add.u32 %%w14, %%w14, 1; setp.lt.u32 %%p11, %%w14, 2;\n@%%p11 bra Again;\n");
    emit(t, "Done: ret;\n}\n");
}

/* Source s + 1 into %u<kind><s + 1>, from the case of number %w16: registers of which all lanes have
 * the same value, by definitions that show it. */
static void load_uniform(text_t *t, char kind, unsigned s)
{
    emit(t, "ld.param.u64 %%d6, [in%u]; mul.wide.u32 %%d7, %%w16, %u; add.s64 %%d8, %%d6, %%d7;\n",
         s, memory_size(kind));
    if (kind == 'p')
        emit(t, "ld.global.u32 %%w8, [%%d8];\nsetp.ne.u32 %%up%u, %%w8, 0;\n", s + 1);
    else
        emit(t, "ld.global.%s %%u%c%u, [%%d8];\n", kind == 'g' ? "f64" : memory_type(kind), kind,
             s + 1);
}

/* The operation with source `same` from the uniform registers, into register `number` of its own. */
static void emit_mixed(text_t *t, const pt_row_t *row, unsigned same, unsigned number)
{
    char kind = row->shape[0];
    emit(t, "%s %%t%c%u", row->mnemonic, kind, number);
    for (unsigned s = 0; s < source_count(row); s++)
        emit(t, ", %%%s%c%u", s == same ? "u" : "", reg_kind(row, s), s + 1);
    emit(t, row->fixed[0] ? ", %s;\n" : "%s;\n", row->fixed);
    if (kind == 'p')
        emit(t, "selp.u32 %%w0, 1, 0, %%tp%u;\nst.global.u32 [%%d13], %%w0;\n", number);
    else
        emit(t, "st.global.%s [%%d13], %%t%c%u;\n", kind == 'g' ? "f64" : memory_type(kind), kind,
             number);
    emit(t, "add.s64 %%d13, %%d13, %%d14;\n");
}

/* The case whose value the uniform source has in CTA c of `n` cases: %w16, and mixed_case() here. */
static unsigned mixed_case(unsigned cta, unsigned n)
{
    return (cta * 37 + 11) % n;
}

/* Kernel `m<first>`: each source in turn is the same in all lanes of a CTA, while the others differ. */
static void emit_mixed_kernel(text_t *t, unsigned first, unsigned group)
{
    const pt_row_t *row = &rows[first];
    unsigned sources = source_count(row);
    emit(t, ".visible .entry m%u(.param .u64 out, .param .u32 n", first);
    for (unsigned s = 0; s < sources; s++)
        emit(t, ", .param .u64 in%u", s);
    emit(t, ")\n{\n.reg .pred %%p<12>, %%up<6>, %%tp<40>; .reg .b16 %%h<6>, %%uh<6>, %%th<40>;\n"
            ".reg .b32 %%w<20>, %%uw<6>, %%tw<40>; .reg .b64 %%d<16>, %%ud<6>, %%td<40>;\n"
            ".reg .f32 %%f<6>, %%uf<6>, %%tf<40>; .reg .f64 %%g<6>, %%ug<6>, %%tg<40>;\n"
            "ld.param.u32 %%w10, [n]; mov.u32 %%w12, %%ctaid.x; mov.u32 %%w13, %%tid.x;\n"
            "mov.u32 %%w14, %%ntid.x; mad.lo.u32 %%w11, %%w12, %%w14, %%w13;\n"
            "mad.lo.u32 %%w15, %%w12, 37, 11; rem.u32 %%w16, %%w15, %%w10;\n"
            "setp.ge.u32 %%p10, %%w11, %%w10;\n@%%p10 bra Done;\n");
    for (unsigned s = 0; s < sources; s++) {
        load_source(t, reg_kind(row, s), s);
        load_uniform(t, reg_kind(row, s), s);
    }
    emit_address(t, "out", "%w11", memory_size(row->shape[0]));
    emit(t, "mov.u64 %%d13, %%d12; mul.wide.u32 %%d14, %%w10, %u;\n", memory_size(row->shape[0]));
    for (unsigned g = 0; g < group; g++)
        for (unsigned s = 0; s < sources; s++)
            emit_mixed(t, &rows[first + g], s, g * sources + s);
    emit(t, "Done: ret;\n}\n");
}

/* ---- reference ---- */

static unsigned kind_bits(char kind)
{
    return kind == 'h' ? 16 : kind == 'd' || kind == 'g' ? 64 : kind == 'p' ? 1 : 32;
}

static double ulp_of(double value, char kind)
{
    int e;
    value = fabs(value);
    int least = kind == 'g' ? -1074 : kind == 'H' ? -24 : kind == 'B' ? -133 : -149;
    int digits = kind == 'g' ? 53 : kind == 'H' ? 11 : kind == 'B' ? 8 : 24;
    if (value == 0)
        return ldexp(1, least);
    frexp(value, &e);
    return ldexp(1, e - digits > least ? e - digits : least);
}

static double as_double(char kind, uint64_t bits)
{
    return kind == 'g' ? pt_f64(bits) : kind == 'f' ? (double)pt_f32(bits) : pt_half(bits, kind);
}

static bool agrees_one(const pt_row_t *row, char kind, uint64_t got, uint64_t want)
{
    double a = as_double(kind, got), b = as_double(kind, want);
    if (got == want)
        return true;
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (row->compare == PT_EXACT || isinf(a) || isinf(b))
        return false;
    double limit = row->compare == PT_ULP     ? row->tolerance * ulp_of(b, kind)
                   : row->compare == PT_RATIO ? row->tolerance * fabs(b) + ulp_of(0, kind)
                                              : row->tolerance;
    return fabs(a - b) <= limit;
}

static bool agrees(const pt_row_t *row, uint64_t got, uint64_t want)
{
    char kind = row->result ? row->result : row->shape[0];
    if (kind == 'X' || kind == 'Y') {
        char one = kind == 'X' ? 'H' : 'B';
        return agrees_one(row, one, got & 0xffff, want & 0xffff) &&
               agrees_one(row, one, got >> 16, want >> 16);
    }
    if (kind == 'F')
        return agrees_one(row, 'f', got & UINT32_MAX, want & UINT32_MAX) &&
               agrees_one(row, 'f', got >> 32, want >> 32);
    return strchr("fgHB", kind) ? agrees_one(row, kind, got, want) : got == want;
}

static void report(const pt_row_t *row, const char *form, unsigned k, const uint64_t *in,
                   uint64_t got, uint64_t want)
{
    print_error("%s (%s%s): %llx %llx %llx %llx gives %llx, must be %llx\n", row->mnemonic, form,
                k ? ", immediate" : "", (unsigned long long)in[0], (unsigned long long)in[1],
                (unsigned long long)in[2], (unsigned long long)in[3], (unsigned long long)got,
                (unsigned long long)want);
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
    uint64_t immediates[PT_IMMEDIATES];
    unsigned bad = 0, bits = kind_bits(row->shape[0]), size = memory_size(row->shape[0]);
    size_t sources = strlen(row->sources);
    pt_op_t op = pt_read_mnemonic(row->mnemonic);
    pt_immediates(row, immediates);
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
            report(row, form, k, args, got, want);
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

/* Several lengths first, so that code for any length is compiled and used for the last ones. */
static void wear_out(CUfunction f, void **params)
{
    unsigned none = 0, *n = params[1];
    params[1] = &none;
    for (unsigned i = 0; i < 6; i++)
        pt_launch(f, (pt_dim_t){1, 1, 1}, (pt_dim_t){i + 1, 1 + i / 5, 1}, 0, params);
    params[1] = n;
}

/* At most `most` of the cases, evenly. */
static unsigned thin_out(uint64_t *in, unsigned n, unsigned most)
{
    for (unsigned i = 0; n > most && i < most; i++)
        memmove(in + 4 * (size_t)i, in + 4 * ((size_t)i * n / most), 4 * sizeof *in);
    return n < most ? n : most;
}

static unsigned run_kernel(CUmodule module, unsigned first, unsigned group, bool uniform)
{
    static unsigned turn;
    const pt_row_t *row = &rows[first];
    uint64_t immediates[PT_IMMEDIATES], *in;
    unsigned n = pt_cases(row, &in), copies = uniform ? 1 : 2, bad = 0;
    unsigned forms = 1 + (uniform ? 0 : pt_immediates(row, immediates));
    /* The same value in all lanes: a sample of the cases is enough. */
    if (uniform)
        n = thin_out(in, n, 100);
    size_t array = (size_t)n * memory_size(row->shape[0]), bytes = array * forms * group * copies;
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
    CUfunction f = pt_function(module, name);
    pt_dim_t block = uniform ? (pt_dim_t){32, 1, 1} : blocks[turn++ % COUNT(blocks)];
    unsigned threads = block.x * block.y * block.z;
    pt_dim_t grid = {uniform ? n : 2 * ((n + threads - 1) / threads), 1, 1};
    if (!uniform && turn % 16 == 3)
        wear_out(f, params);
    pt_launch(f, grid, block, 0, params);
    pt_download(out, d_out, bytes);
    for (unsigned k = 0; k < forms * group * copies; k++) {
        unsigned form = k % forms, g = k / forms % group;
        const char *how = uniform ? "uniform" : k < forms * group ? "lanes" : "divergent lanes";
        bad += check(&rows[first + g], how, form, in, out + array * k, n);
    }
    for (unsigned s = 0; s < source_count(row); s++)
        pt_free(d_in[s]);
    pt_free(d_out);
    free(in);
    free(out);
    return bad;
}

static bool mixes(const pt_row_t *row)
{
    return source_count(row) > 1 && !row->body;
}

static unsigned run_mixed_kernel(CUmodule module, unsigned first, unsigned group)
{
    enum { CASES = 512, THREADS = 64 };
    const pt_row_t *row = &rows[first];
    unsigned sources = source_count(row), bad = 0;
    uint64_t *in, *mixed;
    unsigned n = pt_cases(row, &in);
    n = thin_out(in, n, CASES);
    size_t array = (size_t)n * memory_size(row->shape[0]), bytes = array * group * sources;
    uint8_t *out = calloc(1, bytes);
    mixed = malloc(4 * (size_t)n * sizeof *mixed);
    assert_non_null(out);
    assert_non_null(mixed);
    CUdeviceptr d_out = pt_upload(NULL, bytes), d_in[4];
    void *params[6] = {&d_out, &n};
    for (unsigned s = 0; s < sources; s++) {
        d_in[s] = upload_source(row, s, in, n);
        params[2 + s] = &d_in[s];
    }
    char name[16];
    snprintf(name, sizeof name, "m%u", first);
    pt_launch(pt_function(module, name), (pt_dim_t){(n + THREADS - 1) / THREADS, 1, 1},
              (pt_dim_t){THREADS, 1, 1}, 0, params);
    pt_download(out, d_out, bytes);
    for (unsigned s = 0; s < sources; s++) {
        memcpy(mixed, in, 4 * (size_t)n * sizeof *mixed);
        for (unsigned i = 0; i < n; i++)
            mixed[4 * (size_t)i + s] = in[4 * (size_t)mixed_case(i / THREADS, n) + s];
        for (unsigned g = 0; g < group; g++)
            bad += check(&rows[first + g], "one source the same", 0, mixed,
                         out + array * (g * sources + s), n);
        pt_free(d_in[s]);
    }
    pt_free(d_out);
    free(mixed);
    free(in);
    free(out);
    return bad;
}

/* For developers: PT_MODULES=FOLDER gets the modules, to be checked by another assembler. */
static void keep_module(const char *text)
{
    static unsigned number;
    const char *folder = getenv("PT_MODULES");
    char path[512];
    if (!folder)
        return;
    snprintf(path, sizeof path, "%s/%s_%u.ptx", folder, program_invocation_short_name, number++);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* With PT_ROWS=FILE nothing runs: the instructions that the rows check are added to the file. */
static bool list_rows(unsigned count)
{
    const char *path = getenv("PT_ROWS");
    if (!path)
        return false;
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    for (unsigned i = 0; i < count; i++)
        fprintf(file, "%s %s\n", program_invocation_short_name, rows[i].mnemonic);
    fclose(file);
    return true;
}

static unsigned run_module(unsigned first, unsigned end)
{
    text_t t = {0};
    unsigned bad = 0;
    emit(&t, ".version 8.6\n.target sm_90\n.address_size 64\n");
    for (unsigned i = first; i < end; i += group_size(i, end)) {
        emit_kernel(&t, i, group_size(i, end), false);
        emit_kernel(&t, i, group_size(i, end), true);
        if (mixes(&rows[i]))
            emit_mixed_kernel(&t, i, group_size(i, end));
    }
    keep_module(t.text);
    CUmodule module = pt_load(t.text);
    for (unsigned i = first; i < end; i += group_size(i, end)) {
        bad += run_kernel(module, i, group_size(i, end), false);
        bad += run_kernel(module, i, group_size(i, end), true);
        if (mixes(&rows[i]))
            bad += run_mixed_kernel(module, i, group_size(i, end));
    }
    pt_unload(module);
    free(t.text);
    return bad;
}

void pt_run_rows(void)
{
    unsigned bad = 0, n = row_count;
    row_count = 0;
    if (list_rows(n))
        return;
    for (unsigned first = 0; first < n; first += PER_MODULE)
        bad += run_module(first, first + PER_MODULE < n ? first + PER_MODULE : n);
    if (bad)
        fail_msg("%u results of %u instructions differ", bad, n);
}

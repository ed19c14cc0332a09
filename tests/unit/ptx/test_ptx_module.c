/* Modules: declarations, layouts, control flow, scopes, and files that compilers made. */
#include "tests/unit/ptx/parse_help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/ptx/ptx_validate.h"

#define HEAD ".version 7.8\n.target sm_86, debug\n.address_size 64\n"

static void test_header(void **state)
{
    (void)state;
    char log[1024];
    ptx_module_t *m = parse_ok("// comment\n/* more\n */" HEAD);
    assert_int_equal(m->isa_major, 7);
    assert_int_equal(m->isa_minor, 8);
    assert_int_equal(m->sm, 86);
    assert_string_equal(m->target, "sm_86");
    assert_true(m->debug);
    assert_int_equal(m->function_count, 0);
    ptx_module_free(m);
    ptx_module_free(NULL);
    parse_bad("", log);
    assert_string_equal(log, "ptx: line 1: no .version: this is not PTX\n");
    parse_bad("hello", log);
    assert_string_equal(log, "ptx: line 1: expected a directive before 'hello'\n");
    assert_int_equal(parse_bad(".version 11.0\n", log), GB_ERR_UNSUPPORTED);
    assert_string_equal(log, "ptx: line 1: PTX version 11.0 is not known\n");
    parse_bad(".version 7.0\n", log);
    assert_string_equal(log, "ptx: line 1: no .target\n");
    assert_int_equal(parse_bad(".version 7.0\n.target sm_70\n.address_size 32\n", log),
                     GB_ERR_UNSUPPORTED);
}

static void test_params(void **state)
{
    (void)state;
    ptx_module_t *m = parse_ok(
        HEAD ".visible .entry k(\n .param .u8 a,\n .param .f64 b, .param .align 16 .b8 c[20],\n"
             " .param .u64 .ptr .global .align 8 d, .param .u16 e\n)\n"
             ".maxntid 256, 2, 1\n.minnctapersm 3\n.maxnreg 40 { ret; }\n"
             ".entry one .reqntid 32 { ret; }\n");
    const ptx_function_t *f = function_of(m, "k");
    const ptx_var_t *p = &m->vars[f->param_first];
    static const unsigned offsets[] = {0, 8, 16, 40, 48}, sizes[] = {1, 8, 20, 8, 2};
    assert_true(f->is_kernel && f->defined);
    assert_int_equal(f->linkage, PTX_LINK_VISIBLE);
    assert_int_equal(f->param_count, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(p[i].offset, offsets[i]);
        assert_int_equal(p[i].size, sizes[i]);
    }
    assert_int_equal(p[2].align, 16);
    assert_true(p[3].pointer);
    assert_int_equal(p[3].pointee, PTX_SPACE_GLOBAL);
    assert_int_equal(f->param_size, 50);
    assert_int_equal(f->max_ntid[0], 256);
    assert_int_equal(f->max_ntid[1], 2);
    assert_int_equal(f->min_cta_per_sm, 3);
    assert_int_equal(f->max_nreg, 40);
    f = function_of(m, "one");
    assert_int_equal(f->req_ntid[0], 32);
    assert_int_equal(f->req_ntid[2], 1);
    assert_int_equal(f->param_count, 0);
    ptx_module_free(m);
}

static void test_values(void **state)
{
    (void)state;
    ptx_module_t *m =
        parse_ok(HEAD ".global .s32 one = -5;\n"
                      ".visible .global .align 16 .u16 grid[2][3] = {{1, 2}, {0x10, 5}};\n"
                      ".const .f32 open[] = {1.5, 0f40000000};\n"
                      ".global .v2 .f32 vec[2] = {{1.0, 2.0}, {3.0, 4.0}};\n"
                      ".global .u64 pointers[4] = {one, grid+4, generic(open)+8, 7};\n"
                      ".global .b8 bytes[4] = {0xFF(one), 0xFF00(one), 1, 2};\n"
                      ".global .align 8 .b8 zeros[100];\n.extern .global .u32 elsewhere;\n"
                      ".global .f64 a = 0.5, b = 0d4000000000000000;\n"
                      ".global .attribute(.managed) .u32 shared_by_all;\n");
    const ptx_var_t *v = var_of(m, "one");
    int32_t number;
    memcpy(&number, v->init, 4);
    assert_int_equal(number, -5);
    v = var_of(m, "grid");
    static const uint16_t grid[6] = {1, 2, 0, 16, 5, 0};
    assert_int_equal(v->size, 12);
    assert_int_equal(v->align, 16);
    assert_memory_equal(v->init, grid, 12);
    v = var_of(m, "open");
    static const float open[2] = {1.5f, 2.0f};
    assert_int_equal(v->size, 8);
    assert_int_equal(v->space, PTX_SPACE_CONST);
    assert_memory_equal(v->init, open, 8);
    v = var_of(m, "vec");
    static const float vec[4] = {1, 2, 3, 4};
    assert_int_equal(v->align, 8);
    assert_memory_equal(v->init, vec, 16);
    v = var_of(m, "pointers");
    const ptx_reloc_t *r = &m->relocs[v->reloc_first];
    assert_int_equal(v->reloc_count, 3);
    assert_int_equal(r[1].offset, 8);
    assert_int_equal(r[1].addend, 4);
    assert_string_equal(m->vars[r[1].var].name, "grid");
    assert_false(r[1].generic);
    assert_true(r[2].generic);
    assert_int_equal(r[2].addend, 8);
    assert_int_equal(v->init[24], 7);
    v = var_of(m, "bytes");
    r = &m->relocs[v->reloc_first];
    assert_int_equal(v->reloc_count, 2);
    assert_int_equal(r[1].shift, 8);
    assert_int_equal(r[1].size, 1);
    assert_int_equal(v->init[3], 2);
    assert_null(var_of(m, "zeros")->init);
    assert_int_equal(var_of(m, "elsewhere")->linkage, PTX_LINK_EXTERN);
    double b;
    memcpy(&b, var_of(m, "b")->init, 8);
    assert_true(b == 2.0);
    assert_true(var_of(m, "shared_by_all")->managed);
    assert_int_equal(ptx_module_var(m, "nothing"), PTX_NONE);
    ptx_module_free(m);
}

static void test_wrong_values(void **state)
{
    (void)state;
    static const struct {
        const char *text, *log;
    } cases[] = {
        {".global .u32 a[2] = {1, 2, 3};", "ptx: line 4: too many initial values for 'a'\n"},
        {".global .u32 a[2][2] = {{1, 2, 3}};", "ptx: line 4: too many initial values for 'a'\n"},
        {".global .u32 a = {{1}};", "ptx: line 4: expected a value before '{'\n"},
        {".global .u16 a = a;", "ptx: line 4: expected a variable or function before 'a'\n"},
        {".global .u32 a; .global .u16 b = a;", "ptx: line 4: an address does not fit into .u16\n"},
        {".global .b8 a[1073741825];",
         "ptx: line 4: expected a whole number of at most 1073741824\n"},
        {".global .b8 a[1073741824][1073741824];", "ptx: line 4: 'a' is larger than 1 GiB\n"},
        {".shared .u32 a = 1;",
         "ptx: line 4: only .global and .const variables have initial values\n"},
        {".global .align 3 .u32 a;", "ptx: line 4: an alignment must be a power of two\n"},
        {".global .u32 a; .global .u32 a;", "ptx: line 4: 'a' is declared twice\n"},
        {".global .pred p;", "ptx: line 4: expected the type of a variable before 'p'\n"},
        {".entry k(.param .b8 a[40000]) { ret; }",
         "ptx: line 4: more than 32764 bytes of parameters\n"},
        {".entry k { .local .b8 a[600000]; ret; }",
         "ptx: line 4: more than 512 KiB of .local variables\n"},
        {".entry k { ret;", "ptx: line 4: '{' is never closed\n"},
        {".entry k { ret; } .entry k { ret; }", "ptx: line 4: 'k' is defined twice\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512], log[1024];
        snprintf(text, sizeof text, HEAD "%s\n", cases[i].text);
        parse_bad(text, log);
        assert_string_equal(log, cases[i].log);
    }
}

static void test_blocks(void **state)
{
    (void)state;
    ptx_module_t *m = parse_kernel("mov.u32 %r1, 0;\n"
                                   "Loop: add.u32 %r1, %r1, 1;\n"
                                   "setp.lt.u32 %p1, %r1, 10;\n"
                                   "@%p1 bra Loop;\n"
                                   "bar.sync 0;\n"
                                   "@%p2 ret;\n"
                                   "T: .branchtargets Loop, End, End;\n"
                                   "@%p3 brx.idx %r1, T;\n"
                                   "bra.uni End;\n"
                                   "End:");
    const ptx_function_t *f = function_of(m, "k");
    static const struct {
        uint32_t first, count, succ_count, succ[2];
    } want[] = {{0, 1, 1, {1}}, {1, 3, 2, {1, 2}}, {4, 1, 1, {3}}, {5, 1, 1, {4}},
                {6, 1, 1, {5}}, {7, 1, 1, {6}},    {8, 1, 0, {0}}};
    assert_int_equal(f->block_count, 7);
    for (uint32_t b = 0; b < 7; b++) {
        assert_int_equal(f->blocks[b].first, want[b].first);
        assert_int_equal(f->blocks[b].count, want[b].count);
        assert_int_equal(f->blocks[b].succ_count, want[b].succ_count);
        for (uint32_t s = 0; s < want[b].succ_count; s++)
            assert_int_equal(f->blocks[b].succ[s], want[b].succ[s]);
    }
    assert_true(f->has_barrier);
    assert_int_equal(f->blocks[4].succ_table, 0);
    assert_int_equal(f->tables[0].count, 3);
    assert_int_equal(f->tables[0].entries[0], 1);
    assert_int_equal(f->tables[0].entries[2], 6);
    assert_int_equal(f->instrs[8].op, PTX_OP_RET);
    ptx_module_free(m);
}

/* Every scope has its own registers and labels; ranges are not copied into inner scopes. */
static void test_scopes(void **state)
{
    (void)state;
    ptx_module_t *m = parse_kernel("mov.u32 %r1, 1;\n"
                                   "{ .reg .b32 t; mov.u32 t, 2; mov.u32 %r5, 3; @%p1 bra L;\n"
                                   "mov.u32 t, 4; L: mov.u32 t, 5; }\n"
                                   "{ .reg .b32 t; .reg .b32 %r<3>; mov.u32 t, 6; mov.u32 %r1, 7;\n"
                                   "@%p1 bra L; @%p1 bra Out; L: mov.u32 %r5, 8; }\n"
                                   "mov.u32 %r5, 9; Out: ret;");
    const ptx_function_t *f = function_of(m, "k");
    uint32_t reg[16];
    for (uint32_t i = 0; i < f->instr_count; i++) {
        const ptx_instr_t *in = &f->instrs[i];
        if (in->op == PTX_OP_MOV)
            reg[ptx_src(f, in, 0)->value] = ptx_dst(f, in, 0)->index;
    }
    assert_int_equal(reg[2], reg[4]);
    assert_int_equal(reg[2], reg[5]);
    assert_int_not_equal(reg[2], reg[6]);
    assert_int_not_equal(reg[1], reg[7]);
    assert_int_equal(reg[3], reg[8]);
    assert_int_equal(reg[3], reg[9]);
    ptx_module_free(m);
}

static void test_calls(void **state)
{
    (void)state;
    ptx_module_t *m = parse_ok(
        HEAD
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);\n"
        ".extern .func leave() .noreturn;\n"
        ".func (.param .f32 r) twice(.param .f32 x);\n"
        ".shared .b8 s0[100]; .shared .align 32 .b8 s1[8]; .shared .b8 unused[500];\n"
        ".extern .shared .align 64 .b8 dyn[];\n"
        ".func uses_s0() { .shared .b8 own[4]; .reg .b32 r; ld.shared.u32 r, [s0];\n"
        " ld.shared.u32 r, [own]; ret; }\n"
        ".entry k(.param .u64 p) {\n .reg .f32 %f<3>; .reg .b64 %d<3>; .reg .b32 %r<3>;\n"
        " { .reg .b32 temp; .param .b32 a; .param .b32 out; st.param.f32 [a+0], %f1;\n"
        " call.uni (out), twice, (a); ld.param.f32 %f2, [out+0]; }\n"
        " call uses_s0; mov.u64 %d1, twice; mov.u32 %r1, s1; mov.u32 %r2, dyn;\n"
        " proto: .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 8 .b8 _[16]);\n"
        " { .param .b32 out; .param .b64 a; .param .align 8 .b8 b[16];\n"
        " call (out), %d1, (a, b), proto; }\n ret;\n}\n"
        ".func (.param .f32 r) twice(.param .f32 x) { .reg .f32 f; ld.param.f32 f, [x];\n"
        " st.param.f32 [r], f; ret; }\n"
        ".visible .func (.param .f32 r) again(.param .f32 x);\n.alias again, twice;\n"
        ".entry other { ret; }\n");
    const ptx_function_t *k = function_of(m, "k");
    assert_false(function_of(m, "vprintf")->defined);
    assert_true(function_of(m, "leave")->noreturn);
    assert_true(function_of(m, "twice")->defined);
    assert_int_equal(function_of(m, "twice")->result_count, 1);
    assert_true(function_of(m, "again")->defined);
    assert_int_equal(function_of(m, "again")->instr_count, 3);
    assert_true(k->calls_indirect);
    assert_int_equal(k->callee_count, 2);
    assert_int_equal(k->proto_count, 1);
    assert_int_equal(k->protos[0].result_count, 1);
    assert_int_equal(k->protos[0].param_count, 2);
    assert_int_equal(k->protos[0].params[2].size, 16);
    assert_int_equal(k->shared_count, 4);
    assert_true(k->uses_dynamic_shared);
    assert_int_equal(ptx_shared_offset(m, k, ptx_module_var(m, "s0")), 0);
    assert_int_equal(ptx_shared_offset(m, k, ptx_module_var(m, "s1")), 128);
    assert_int_equal(k->shared_size, 140);
    assert_int_equal(ptx_shared_offset(m, k, ptx_module_var(m, "dyn")), 192);
    assert_true(ptx_shared_offset(m, k, ptx_module_var(m, "unused")) == UINT64_MAX);
    assert_int_equal(function_of(m, "other")->shared_size, 0);
    const ptx_instr_t *call = &k->instrs[1];
    assert_int_equal(call->op, PTX_OP_CALL);
    assert_int_equal(ptx_src(k, call, 0)->kind, PTX_OPERAND_FUNC);
    assert_int_equal(ptx_dst(k, call, 0)->count, 1);
    assert_int_equal(ptx_src(k, call, 1)->count, 1);
    assert_int_equal(ptx_module_function(m, "nothing"), PTX_NONE);
    ptx_module_free(m);
}

static char *read_file(const char *name, size_t *size)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/ptx/data/%s", GABLE_SOURCE_DIR, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = calloc(1, 1 << 20);
    *size = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    return text;
}

static void test_files(void **state)
{
    (void)state;
    static const char *const names[] = {"language.ptx", "language_debug.ptx",
                                        "language_clang14.ptx"};
    for (size_t i = 0; i < 3; i++) {
        size_t size;
        char *text = read_file(names[i], &size);
        ptx_module_t *m = parse_ok(text);
        static const char *const kernels[] = {"call_indirect", "call_direct", "jump",
                                              "by_value",      "data",        "half_precision",
                                              "assembly"};
        for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++)
            assert_true(function_of(m, kernels[k])->is_kernel);
        assert_true(function_of(m, "call_indirect")->calls_indirect);
        assert_int_equal(function_of(m, "call_indirect")->max_ntid[0], 128);
        assert_int_equal(var_of(m, "entries")->reloc_count, 4);
        assert_int_equal(var_of(m, "functions")->reloc_count, 2);
        /* What an indirect callee needs is part of the kernel's shared memory. */
        assert_int_equal(function_of(m, "call_direct")->shared_size, 256);
        assert_int_equal(m->vars[function_of(m, "by_value")->param_first].size, 44);
        ptx_module_free(m);
        free(text);
    }
}

/* Every prefix, and every text with one byte changed, gives a module or an error. */
static void test_damage(void **state)
{
    (void)state;
    size_t size;
    char *text = read_file("language.ptx", &size);
    for (size_t n = 0; n < size; n += 7) {
        ptx_module_t *m = NULL;
        if (ptx_parse(text, n, NULL, &m) == GB_OK)
            assert_null(ptx_validate(m));
        ptx_module_free(m);
    }
    static const char bytes[] = ";{}[](),.:@%!<>-+0fr\n\" ";
    uint32_t seed = 12345;
    for (int i = 0; i < 3000; i++) {
        seed = seed * 1664525 + 1013904223;
        size_t at = (seed >> 8) % size;
        char kept = text[at];
        text[at] = bytes[(seed >> 4) % (sizeof bytes - 1)];
        ptx_module_t *m = NULL;
        if (ptx_parse(text, size, NULL, &m) == GB_OK)
            assert_null(ptx_validate(m));
        ptx_module_free(m);
        text[at] = kept;
    }
    free(text);
}

/* Of this process: others on the machine do not count. */
static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Texts of a shape that costs much if anything in the parser is quadratic: each must take about
 * the same time per byte. `piece` is repeated `count` times between `before` and `after`. */
static double seconds_for(const char *before, const char *piece, size_t count, const char *after)
{
    size_t room = strlen(before) + strlen(after) + count * (strlen(piece) + 64) + 1;
    char *text = malloc(room), *end = text;
    assert_non_null(text);
    end += sprintf(end, "%s", before);
    for (size_t i = 0; i < count; i++) {
        for (const char *c = piece; *c; c++) {
            if (*c == '#')
                end += sprintf(end, "%zu", i);
            else
                *end++ = *c;
        }
    }
    sprintf(end, "%s", after);
    ptx_module_t *m = NULL;
    double start = cpu_seconds();
    gb_status_t status = ptx_parse(text, strlen(text), NULL, &m);
    double seconds = cpu_seconds() - start;
    if (status == GB_OK)
        assert_null(ptx_validate(m));
    ptx_module_free(m);
    free(text);
    return seconds;
}

static void test_hostile_shapes(void **state)
{
    (void)state;
    static const struct {
        const char *before, *piece, *after;
    } shapes[] = {
        {HEAD ".entry k {\n", "{", "}"},
        {HEAD ".global .u32 a = ", "(", ";"},
        {HEAD ".global .u32 a = ", "-", "1;"},
        {HEAD ".global .u32 a = ", "1?", "1;"},
        {HEAD ".global .u32 a", "[1]", ";"},
        {HEAD ".global .u32 a[] = {", "1,", "1};"},
        {HEAD ".global .u32 a = 1", "+1", ";"},
        {HEAD, ".global .u32 a#;\n", ""},
        {HEAD, ".func f# { ret; }\n", ""},
        {HEAD ".entry k {\n", ".reg .b32 r#<4000000000>;\n", "ret; }"},
        {HEAD ".entry k { .reg .b32 %r<4000000000>;\n", "mov.u32 %r#, 0;\n", "ret; }"},
        {HEAD ".entry k {\n", "L#: bra L#;\n", "ret; }"},
        {HEAD ".entry k {\n", "bra L#;\n", "}"},
        {HEAD ".entry k {\n", "{ .reg .b32 t; bra L; }\n", "L: ret; }"},
        {HEAD ".entry k {\n", "{ .reg .b32 t; mov.u32 t, 0; L: bra L; }\n", "ret; }"},
        {HEAD ".entry k {\n", "foo#.bar;\n", "}"},
        {HEAD ".entry k { L: ret; T: .branchtargets L", ", L", "; ret; }"},
        {HEAD ".shared .u32 s; .func f { .reg .b32 r; ld.shared.u32 r, [s]; ret; }\n",
         ".entry k# { call f; ret; }\n", ""},
        {HEAD ".entry k { mov.u32 ", "a", ", 0; }"},
        {HEAD ".entry k { ", "@", " ret; }"},
        {HEAD,
         ".visible .entry k#(.param .u64 p, .param .u32 n)\n{\n"
         ".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<9>;\n.shared .align 4 .b8 s#[128];\n"
         "ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;\n"
         "setp.ge.u32 %p1, %r2, %r1; @%p1 bra $L_#; mul.wide.u32 %d2, %r2, 4;\n"
         "add.s64 %d3, %d1, %d2; ld.global.u32 %r3, [%d3+8]; st.shared.u32 [s#], %r3;\n"
         "bar.sync 0; fma.rn.f32 %r4, %r3, 0f3F800000, %r3; st.global.u32 [%d3], %r4;\n"
         "$L_#: ret;\n}\n",
         ""},
        {HEAD "/*", "*", ""},
        {HEAD, "\"", ""},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        double few = seconds_for(shapes[i].before, shapes[i].piece, 4000, shapes[i].after);
        double many = seconds_for(shapes[i].before, shapes[i].piece, 40000, shapes[i].after);
        /* Ten times the size: linear takes 10 times, quadratic 100. Short times do not count. */
        if (many > 0.5 && many > few * 50)
            fail_msg("shape %zu takes %.3f s and %.3f s at ten times the size", i, few, many);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header), cmocka_unit_test(test_params),
        cmocka_unit_test(test_values), cmocka_unit_test(test_wrong_values),
        cmocka_unit_test(test_blocks), cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_calls),  cmocka_unit_test(test_files),
        cmocka_unit_test(test_damage), cmocka_unit_test(test_hostile_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Linking: what stays of each name, what is renamed, what is refused and how. */
#include "tests/unit/ptx/parse_help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_link.h"

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

static char log_text[2048];

static bool known(const char *function)
{
    return strcmp(function, "vprintf") == 0;
}

/* Links the texts; NULL and the log in log_text when that fails. Those behind a "lib:" are optional. */
static char *link_all(const char *const *texts)
{
    ptx_log_t log = {.text = log_text, .size = sizeof log_text};
    ptx_link_t *link = ptx_link_new();
    char *whole = NULL, name[8] = "a.ptx";
    size_t length = 0;
    assert_non_null(link);
    log_text[0] = 0;
    for (int i = 0; texts[i]; i++) {
        char text[2048];
        bool optional = strncmp(texts[i], "lib:", 4) == 0;
        name[0] = (char)('a' + i);
        snprintf(text, sizeof text, HEAD "%s\n", texts[i] + (optional ? 4 : 0));
        if (ptx_link_add(link, name, text, strlen(text), optional, &log) != GB_OK)
            fail_msg("%s%s", log_text, text);
    }
    gb_status_t status = ptx_link_finish(link, known, &log, &whole, &length);
    assert_int_equal(status, log_text[0] ? GB_ERR_INVALID : GB_OK);
    if (whole)
        assert_int_equal(strlen(whole), length);
    ptx_link_free(link);
    return whole;
}

static ptx_module_t *link_ok(const char *const *texts, char **text)
{
    *text = link_all(texts);
    if (!*text)
        fail_msg("%s", log_text);
    return parse_ok(*text);
}

/* Value of a variable's first four bytes. */
static uint32_t value_of(const ptx_module_t *m, const char *name)
{
    const ptx_var_t *v = var_of(m, name);
    uint32_t value = 0;
    if (v->init)
        memcpy(&value, v->init, 4);
    return value;
}

static void test_resolves(void **state)
{
    (void)state;
    char *text;
    ptx_module_t *m = link_ok(
        (const char *[]){
            ".extern .func (.param .b32 r) f (.param .b32 a);\n.extern .global .b8 x[16];\n"
            ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
            ".visible .entry k() { .param .b32 p, q; .reg .u64 %d; mov.u64 %d, x;\n"
            "call (q), f, (p); ret; }",
            ".visible .global .u32 x[4] = {7, 8};\n.extern .func unused ();\n"
            ".visible .func (.param .b32 r) f (.param .b32 a) { ret; }",
            NULL},
        &text);
    assert_true(function_of(m, "f")->defined);
    assert_int_equal(value_of(m, "x"), 7);
    assert_int_equal(var_of(m, "x")->linkage, PTX_LINK_VISIBLE);
    const ptx_function_t *k = function_of(m, "k");
    assert_int_equal(k->callees[0], ptx_module_function(m, "f"));
    assert_false(function_of(m, "vprintf")->defined);
    ptx_module_free(m);
    free(text);
}

static void test_weak_and_common(void **state)
{
    (void)state;
    char *text;
    ptx_module_t *m = link_ok(
        (const char *[]){
            ".weak .global .u32 w = 1;\n.weak .global .u32 s = 1;\n.common .global .b8 c[4];\n"
            ".weak .func f () { ret; }\n.weak .entry t() { ret; }\n"
            ".visible .entry k() { .reg .u64 %d; mov.u64 %d, s; mov.u64 %d, c; call f; ret; }",
            ".weak .global .u32 w = 2;\n.visible .global .u32 s = 2;\n.common .global .b8 c[64];\n"
            ".visible .func f () { trap; ret; }\n.weak .entry t() { trap; ret; }\n"
            ".common .global .u32 only;",
            ".weak .global .u32 w = 3;\n.common .global .u32 only;\n.weak .func f () { ret; }",
            NULL},
        &text);
    assert_int_equal(value_of(m, "w"), 1); /* the first weak one */
    assert_int_equal(value_of(m, "s"), 2); /* the strong one */
    assert_int_equal(var_of(m, "c")->size, 64);
    assert_int_equal(var_of(m, "only")->size, 4);
    assert_int_equal(function_of(m, "f")->instrs[0].op, PTX_OP_TRAP);
    assert_int_equal(function_of(m, "t")->instrs[0].op, PTX_OP_RET);
    for (uint32_t i = 0; i < m->var_count; i++)
        assert_int_not_equal(m->vars[i].linkage, PTX_LINK_EXTERN);
    ptx_module_free(m);
    free(text);
}

/* Two modules with private names alike, one of them also an opcode, a label and a local. */
static void test_renames(void **state)
{
    (void)state;
    static const char body[] =
        ".visible .entry %s() { .reg .u64 %%d; .reg .pred %%p; .reg .u32 %%r;\n"
        "mov.u64 %%d, add; add.u64 %%d, %%d, 1; @%%p add.u64 %%d, %%d, 1; { add.u32 %%r, %%r, 1; "
        "}\n"
        "mov.b64 {%%r, %%r}, %%d; call str, (%%d); lab: @!%%p bra lab; add: bra add; }\n";
    char one[1024], two[1024], *text;
    int n = snprintf(one, sizeof one,
                     ".global .u32 add = 1, other = 10;\n.const .u64 p = add;\n"
                     ".func str (.param .u64 a) { ret; }\n");
    snprintf(one + n, sizeof one - (size_t)n, body, "k1");
    n = snprintf(two, sizeof two,
                 ".global .u32 add = 2, other = 20;\n.const .u64 p = add;\n"
                 ".func str (.param .u64 a) { trap; ret; }\n");
    snprintf(two + n, sizeof two - (size_t)n, body, "k2");
    ptx_module_t *m =
        link_ok((const char *[]){one, two, ".visible .global .u32 p$1;", NULL}, &text);
    for (int i = 0; i < 2; i++) {
        const ptx_function_t *k = function_of(m, i ? "k2" : "k1");
        const ptx_operand_t *address = ptx_src(k, &k->instrs[0], 0);
        const ptx_var_t *v = &m->vars[address->index];
        uint32_t value;
        assert_int_equal(address->kind, PTX_OPERAND_VAR);
        memcpy(&value, v->init, 4);
        assert_int_equal(value, i + 1);
        for (int n_add = 1; n_add <= 3; n_add++)
            assert_int_equal(k->instrs[n_add].op, PTX_OP_ADD);
        const ptx_function_t *f = &m->functions[k->callees[0]];
        assert_int_equal(f->instrs[0].op, i ? PTX_OP_TRAP : PTX_OP_RET);
    }
    assert_int_equal(value_of(m, "other"), 10);
    assert_int_equal(value_of(m, "other$1"), 20);
    /* p$1 is taken, by a name that must stay */
    const ptx_var_t *p = var_of(m, "p$2");
    assert_ptr_equal(&m->vars[m->relocs[p->reloc_first].var], var_of(m, "add$1"));
    ptx_module_free(m);
    free(text);
}

static void test_library_members(void **state)
{
    (void)state;
    char *text;
    ptx_module_t *m =
        link_ok((const char *[]){"lib:.visible .global .u32 deep = 5;",
                                 ".extern .func f ();\n.visible .entry k() { call f; ret; }",
                                 "lib:.extern .global .u32 deep;\n"
                                 ".visible .func f () { .reg .u64 %d; mov.u64 %d, deep; ret; }",
                                 "lib:.visible .func f () { trap; ret; }",
                                 "lib:.visible .func unused () { ret; }", NULL},
                &text);
    assert_int_equal(function_of(m, "f")->instrs[0].op, PTX_OP_MOV);
    assert_int_equal(value_of(m, "deep"), 5);
    assert_int_equal(ptx_module_function(m, "unused"), PTX_NONE);
    ptx_module_free(m);
    free(text);
}

/* Everything that module scope can have survives, but for debug information. */
static void test_items(void **state)
{
    (void)state;
    char *text;
    ptx_module_t *m = link_ok(
        (const char *[]){
            "\t.file 1 \"a.cu\"\n.pragma \"x\";\n.extern .shared .align 16 .b8 dyn[];\n"
            ".visible .func g ();\n.visible .func f () .noreturn { exit; }\n.alias g, f;\n"
            ".extern .global .u64 y;\n"
            ".visible .const .align 16 .b8 table[8] = {1, 0xff(y), 0xff00(y)};\n"
            ".visible .global .u64 y = generic(table)+4, z[] = {y, 0};\n"
            ".visible .entry k(.param .align 8 .b8 p[8]) .maxntid 32, 1, 1 .minnctapersm 2\n"
            "{ .loc 1 2 3\n .reg .f32 %f; mov.f32 %f, 1.5e3; st.shared.f32 [dyn], %f; ret; }\n"
            ".section .debug_str { info: .b8 1, 2 }",
            ".extern .shared .align 16 .b8 dyn[];\n.visible .func g2 () { ret; }\n"
            ".visible .entry k2() { .reg .f32 %f; ld.shared.f32 %f, [dyn]; ret; }",
            NULL},
        &text);
    assert_null(strstr(text, "debug_str"));
    assert_null(strstr(text, ".file"));
    assert_true(function_of(m, "g")->defined);
    assert_true(function_of(m, "f")->noreturn);
    assert_int_equal(function_of(m, "k")->max_ntid[0], 32);
    assert_true(function_of(m, "k2")->uses_dynamic_shared);
    assert_int_equal(var_of(m, "table")->reloc_count, 2);
    assert_int_equal(var_of(m, "z")->size, 16);
    assert_int_equal(m->isa_major, 7);
    ptx_module_free(m);
    free(text);
}

static void test_refused(void **state)
{
    static const struct {
        const char *texts[3];
        const char *why;
    } table[] = {
        {{".extern .func f ();\n.visible .entry k() { call f; ret; }"},
         "link: undefined function 'f', used in a.ptx"},
        {{".extern .global .u32 x;\n.visible .entry k() { .reg .u64 %d; mov.u64 %d, x; ret; }"},
         "link: undefined variable 'x', used in a.ptx"},
        {{".visible .func f () { ret; }", ".visible .func f () { ret; }"},
         "link: multiple definition of 'f' in a.ptx and b.ptx"},
        {{".visible .global .u32 x;", ".visible .global .u32 x;"},
         "link: multiple definition of 'x' in a.ptx and b.ptx"},
        {{".visible .entry k() { ret; }", ".visible .entry k() { ret; }"},
         "link: multiple definition of 'k' in a.ptx and b.ptx"},
        {{".extern .func f (.param .u32 a);", ".visible .func f (.param .u64 a) { ret; }"},
         "link: different declarations of 'f' in a.ptx and b.ptx"},
        {{".extern .func f ();", ".visible .func (.param .u32 r) f () { ret; }"},
         "link: different declarations of 'f' in a.ptx and b.ptx"},
        {{".extern .global .u32 x[2];", ".visible .global .u32 x[3];"},
         "link: different declarations of 'x' in a.ptx and b.ptx"},
        {{".extern .global .u32 x;", ".visible .const .u32 x;"},
         "link: different declarations of 'x' in a.ptx and b.ptx"},
        {{".visible .global .u32 x;", ".visible .func x () { ret; }"},
         "link: different declarations of 'x' in a.ptx and b.ptx"},
        {{".extern .global .u32 x;\n.global .u64 p = x;", ".global .u32 x;"},
         "link: undefined variable 'x', used in a.ptx"},
        {{".extern .func f ();\n.global .u64 p = f;"},
         "link: undefined function 'f', used in a.ptx"},
        {{NULL}, "link: there is nothing to link"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char *text = link_all(table[i].texts);
        assert_null(text);
        if (!strstr(log_text, table[i].why))
            fail_msg("'%s' instead of '%s'", log_text, table[i].why);
    }
}

static void test_wrong_input(void **state)
{
    (void)state;
    ptx_log_t log = {.text = log_text, .size = sizeof log_text};
    ptx_link_t *link = ptx_link_new();
    log_text[0] = 0;
    assert_int_equal(ptx_link_add(link, "bad.ptx", HEAD "nonsense", sizeof HEAD + 7, false, &log),
                     GB_ERR_FORMAT);
    assert_string_equal(log_text, "bad.ptx: ptx: line 4: expected a directive before 'nonsense'\n");
    assert_int_equal(ptx_link_count(link), 0);
    ptx_link_free(link);
}

/* A linked text is an input like any other, and linking can go on after a failure. */
static void test_again(void **state)
{
    (void)state;
    ptx_log_t log = {.text = log_text, .size = sizeof log_text};
    ptx_link_t *link = ptx_link_new();
    static const char user[] = HEAD ".extern .func f ();\n.visible .entry k() { call f; ret; }";
    static const char giver[] = HEAD ".visible .func f () { ret; }";
    char *first = NULL, *second = NULL;
    size_t length;
    log_text[0] = 0;
    assert_int_equal(ptx_link_add(link, "a", user, sizeof user, false, &log), GB_OK);
    assert_int_equal(ptx_link_finish(link, NULL, &log, &first, &length), GB_ERR_INVALID);
    assert_int_equal(ptx_link_add(link, "b", giver, sizeof giver, false, &log), GB_OK);
    assert_int_equal(ptx_link_finish(link, NULL, &log, &first, &length), GB_OK);
    ptx_link_t *over = ptx_link_new();
    assert_int_equal(ptx_link_add(over, "c", first, length, false, &log), GB_OK);
    assert_int_equal(ptx_link_finish(over, NULL, &log, &second, &length), GB_OK);
    ptx_module_free(parse_ok(second));
    ptx_link_free(link);
    ptx_link_free(over);
    free(first);
    free(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resolves),    cmocka_unit_test(test_weak_and_common),
        cmocka_unit_test(test_renames),     cmocka_unit_test(test_library_members),
        cmocka_unit_test(test_items),       cmocka_unit_test(test_refused),
        cmocka_unit_test(test_wrong_input), cmocka_unit_test(test_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

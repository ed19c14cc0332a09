#include "tests/unit/ptx/parse_help.h"

#include <stdio.h>
#include <string.h>

#include "tests/ptx/ptx_validate.h"

void make_kernel(char *out, size_t size, const char *body)
{
    int n = snprintf(out, size,
                     ".version 8.0\n.target sm_90\n.address_size 64\n"
                     ".shared .align 4 .b8 s[64];\n.global .align 8 .b8 g0[64];\n"
                     ".visible .entry k(.param .u64 a, .param .u32 b)\n{\n"
                     ".reg .pred %%p<30>; .reg .b16 %%h<30>; .reg .b32 %%r<30>; .reg .b64 %%d<30>; "
                     ".reg .f32 %%f<30>; .reg .f64 %%g<30>; .reg .f16 %%x<30>;\n"
                     "%s\n}\n",
                     body);
    assert_true(n > 0 && (size_t)n < size);
}

ptx_module_t *parse_ok(const char *text)
{
    char log[2048];
    ptx_log_t sink = {.text = log, .size = sizeof log};
    ptx_module_t *m = NULL;
    gb_status_t status = ptx_parse(text, strlen(text), &sink, &m);
    if (status != GB_OK)
        fail_msg("%s%s", log, text);
    assert_string_equal(log, "");
    const char *why = ptx_validate(m);
    if (why)
        fail_msg("broken promise: %s\n%s", why, text);
    return m;
}

ptx_module_t *parse_kernel(const char *body)
{
    char text[16384];
    make_kernel(text, sizeof text, body);
    return parse_ok(text);
}

gb_status_t parse_bad(const char *text, char *log)
{
    ptx_log_t sink = {.text = log, .size = 1024};
    ptx_module_t *m = NULL;
    gb_status_t status = ptx_parse(text, strlen(text), &sink, &m);
    if (status == GB_OK)
        fail_msg("parsed: %s", text);
    assert_null(m);
    return status;
}

const ptx_function_t *function_of(const ptx_module_t *m, const char *name)
{
    uint32_t index = ptx_module_function(m, name);
    if (index == PTX_NONE)
        fail_msg("no function %s", name);
    return &m->functions[index];
}

const ptx_var_t *var_of(const ptx_module_t *m, const char *name)
{
    uint32_t index = ptx_module_var(m, name);
    if (index == PTX_NONE)
        fail_msg("no variable %s", name);
    return &m->vars[index];
}

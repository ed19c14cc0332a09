#include "tests/ptx/call_help.h"

#include <stdio.h>
#include <string.h>

enum { TEXT = 32768, MOST = 128 };

void call_program(char *text, size_t size, const char *functions, const char *code)
{
    int n = snprintf(text, size,
                     ".version 7.3\n.target sm_70\n.address_size 64\n%s\n"
                     ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
                     ".reg .b16 %%h<8>; .reg .b32 %%r<30>; .reg .b64 %%d<20>; .reg .pred %%p<8>;\n"
                     ".reg .f32 %%f<8>; .reg .f64 %%fd<8>;\n"
                     "ld.param.u64 %%d1, [in]; ld.param.u64 %%d5, [out];\n"
                     "mov.u32 %%r1, %%tid.x; mov.u32 %%r2, %%tid.y; mov.u32 %%r3, %%ntid.x;\n"
                     "mad.lo.s32 %%r1, %%r2, %%r3, %%r1; mul.wide.u32 %%d3, %%r1, 4;\n"
                     "add.s64 %%d1, %%d1, %%d3; add.s64 %%d5, %%d5, %%d3;\n"
                     "ld.global.u32 %%r3, [%%d1];\n%s\nst.global.u32 [%%d5], %%r9; ret;\n}\n",
                     functions, code);
    assert_true(n > 0 && (size_t)n < size);
}

static void check_one(const call_case_t *c, CUdeviceptr d_in, const uint32_t *in)
{
    static const pt_dim_t blocks[] = {{1, 1, 1}, {33, 1, 1}, {128, 1, 1}, {16, 8, 1}, {5, 21, 1}};
    static char text[TEXT];
    call_program(text, sizeof text, c->functions, c->code);
    CUmodule module = pt_load(text);
    for (size_t b = 0; b < sizeof blocks / sizeof blocks[0]; b++) {
        uint32_t out[MOST];
        CUdeviceptr d_out = pt_upload(NULL, sizeof out);
        pt_dim_t one = {1, 1, 1};
        void *params[] = {&d_in, &d_out};
        CUresult result = pt_run(pt_function(module, "k"), one, blocks[b], 0, params);
        if (result)
            fail_msg("%s, block %u x %u: error %d", c->name, blocks[b].x, blocks[b].y, result);
        pt_download(out, d_out, sizeof out);
        for (unsigned i = 0; i < blocks[b].x * blocks[b].y; i++) {
            if (out[i] != c->ref(i, in[i]))
                fail_msg("%s, block %u x %u: thread %u (input %u) gives %u, must be %u", c->name,
                         blocks[b].x, blocks[b].y, i, in[i], out[i], c->ref(i, in[i]));
        }
        pt_free(d_out);
    }
    pt_unload(module);
}

void call_check(const call_case_t *cases, size_t count, uint32_t limit)
{
    uint32_t in[MOST], seed = 7;
    for (unsigned i = 0; i < MOST; i++)
        in[i] = pt_random(&seed) % limit;
    CUdeviceptr d_in = pt_upload(in, sizeof in);
    for (size_t c = 0; c < count; c++)
        check_one(&cases[c], d_in, in);
    pt_free(d_in);
}

CUresult call_run(const char *functions, const char *code, uint32_t *out)
{
    enum { THREADS = 64 };
    static char text[TEXT];
    uint32_t in[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        in[i] = i;
    call_program(text, sizeof text, functions, code);
    CUmodule module = pt_load(text);
    CUdeviceptr d_in = pt_upload(in, sizeof in), d_out = pt_upload(NULL, sizeof in);
    pt_dim_t one = {1, 1, 1}, block = {THREADS, 1, 1};
    void *params[] = {&d_in, &d_out};
    CUresult result = pt_run(pt_function(module, "k"), one, block, 0, params);
    if (result == CUDA_SUCCESS && out)
        pt_download(out, d_out, sizeof in);
    if (result == CUDA_SUCCESS) {
        pt_free(d_in);
        pt_free(d_out);
        pt_unload(module);
    }
    return result;
}

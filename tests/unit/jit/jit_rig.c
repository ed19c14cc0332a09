#include "tests/unit/jit/jit_rig.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { GUARD = 1 << 20, SCRATCH = 4 << 20 };

uint8_t *rig_memory(void)
{
    static uint8_t *window;
    if (window == NULL) {
        uint8_t *p = mmap(NULL, RIG_WINDOW + 2 * GUARD, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_ptr_not_equal(p, MAP_FAILED);
        window = p + GUARD;
        assert_int_equal(mprotect(window, RIG_WINDOW, PROT_READ | PROT_WRITE), 0);
    }
    return window;
}

void rig_clear(void)
{
    memset(rig_memory(), 0, RIG_WINDOW);
}

cpu_shape_t rig_exact(uint32_t x, uint32_t y, uint32_t z)
{
    return (cpu_shape_t){CPU_SHAPE_EXACT, {x, y, z}};
}

static cpu_jit_compile_fn compiler(void)
{
    static cpu_jit_compile_fn compile;
    if (compile == NULL) {
        assert_int_equal(cpu_jit_open(GABLE_BUILD_DIR "/lib/gable/cpu/libgable-jit.so", &compile),
                         GB_OK);
    }
    return compile;
}

void rig_begin_strips(rig_t *rig, const char *ptx, const char *kernel, cpu_shape_t shape,
                      unsigned width, unsigned strips)
{
    void *blob;
    size_t bytes;
    const char *target;
    memset(rig, 0, sizeof *rig);
    ptx_log_t parse_log = {rig->log, sizeof rig->log, 0};
    if (ptx_parse(ptx, strlen(ptx), &parse_log, &rig->module) != GB_OK) {
        fail_msg("parse: %s\n%s", rig->log, ptx);
    }
    assert_int_equal(cpu_target_name(getenv("GABLE_CPU_TARGET"), &target), GB_OK);
    cpu_jit_options_t o = {.shape = shape, .target = target, .width = width, .strips = strips};
    cpu_jit_log_t log = {rig->log, sizeof rig->log, 0};
    uint32_t f = ptx_module_function(rig->module, kernel);
    assert_int_not_equal(f, PTX_NONE);
    assert_int_equal(cpu_jit_covers(rig->module, &log), GB_OK);
    if (compiler()(rig->module, f, &o, &log, &blob, &bytes) != GB_OK) {
        fail_msg("compile: %s\n%s", rig->log, ptx);
    }
    assert_int_equal(cpu_code_load(blob, bytes, &rig->code), GB_OK);
    free(blob);
    rig->scratch = aligned_alloc(64, SCRATCH);
    assert_non_null(rig->scratch);
    memset(rig->scratch, 0xa5, SCRATCH);
}

void rig_begin(rig_t *rig, const char *ptx, const char *kernel, cpu_shape_t shape, unsigned width)
{
    rig_begin_strips(rig, ptx, kernel, shape, width, 0);
}

void rig_end(rig_t *rig)
{
    cpu_code_free(rig->code);
    ptx_module_free(rig->module);
    free(rig->scratch);
}

static size_t round_up(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

cpu_run_t rig_run(rig_t *rig, const uint32_t grid[3], const uint32_t block[3], const void *params,
                  uint32_t dynamic_shared)
{
    cpu_launch_t *l = &rig->launch;
    cpu_scratch_t s = cpu_code_scratch(rig->code, block, dynamic_shared);
    assert_true(round_up(s.shared_bytes) + round_up(s.local_bytes) + s.context_bytes <= SCRATCH);
    l->helpers = cpu_helpers();
    l->params = params;
    l->param_bytes = cpu_code_header(rig->code)->param_bytes;
    l->cancel = &rig->cancel;
    l->window_base = (uintptr_t)rig_memory();
    l->window_bytes = RIG_WINDOW;
    l->dynamic_shared_bytes = dynamic_shared;
    l->shared = rig->scratch;
    l->shared_bytes = s.shared_bytes;
    l->local = l->shared + round_up(s.shared_bytes);
    l->local_bytes = s.local_bytes;
    l->context = l->local + round_up(s.local_bytes);
    memcpy(l->grid, grid, sizeof l->grid);
    memcpy(l->block, block, sizeof l->block);
    for (uint32_t n = 0; n < grid[0] * grid[1] * grid[2]; n++) {
        l->ctaid[0] = n % grid[0];
        l->ctaid[1] = n / grid[0] % grid[1];
        l->ctaid[2] = n / grid[0] / grid[1];
        cpu_run_t r = cpu_code_run_cta(rig->code, l);
        if (r != CPU_RUN_OK) {
            return r;
        }
    }
    return CPU_RUN_OK;
}

char *rig_kernel(const char *declarations, const char *body)
{
    static const char FORM[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n%s\n"
        ".visible .entry k(.param .u64 p)\n{\n.reg .pred %%p<10>;\n.reg .b32 %%r<40>;\n"
        ".reg .b64 %%rd<40>;\n.reg .f32 %%f<40>;\n.reg .b16 %%h<10>;\n.reg .f64 %%d<10>;\n"
        "ld.param.u64 %%rd0, [p];\nmov.u32 %%r1, %%ntid.x;\nmov.u32 %%r2, %%ntid.y;\n"
        "mov.u32 %%r3, %%ntid.z;\nmov.u32 %%r4, %%tid.z;\nmov.u32 %%r5, %%tid.y;\n"
        "mad.lo.s32 %%r4, %%r4, %%r2, %%r5;\nmov.u32 %%r5, %%tid.x;\n"
        "mad.lo.s32 %%r4, %%r4, %%r1, %%r5;\nmul.lo.s32 %%r2, %%r2, %%r3;\n"
        "mul.lo.s32 %%r2, %%r2, %%r1;\nmov.u32 %%r5, %%ctaid.x;\n"
        "mad.lo.s32 %%r0, %%r5, %%r2, %%r4;\n%s\nret;\n}\n";
    size_t room = sizeof FORM + strlen(declarations) + strlen(body) + 1;
    char *text = malloc(room);
    assert_non_null(text);
    snprintf(text, room, FORM, declarations, body);
    return text;
}

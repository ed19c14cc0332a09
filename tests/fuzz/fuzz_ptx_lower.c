/* Any bytes as PTX, and on with what parses: what is covered, lowered and analysed, as far as it goes
 * without LLVM. Nothing of it reads outside, whatever a module says that no compiler would write. */
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/jit/analysis/analysis.h"
#include "gpu-proxy/cpu/jit/jit.h"
#include "gpu-proxy/cpu/lower/lower.h"
#include "gpu-proxy/cpu/ptx/ptx_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void analyse(cpu_analysis_t *a)
{
    if (cpu_lower_needed(a->f)) {
        cpu_lowered_t l = cpu_lower(a->arena, a->module, a->f, 1024);
        if (l.trouble)
            return;
        a->f = l.f;
    }
    cpu_analyse_flow(a);
    if (a->trouble)
        return;
    cpu_analyse_given(a);
    cpu_analyse_live(a);
}

static void try_kernel(const ptx_module_t *m, const ptx_function_t *f)
{
    jmp_buf no_memory;
    cpu_arena_t arena = {.failed = &no_memory};
    cpu_analysis_t a = {.arena = &arena, .module = m, .f = f};
    if (setjmp(no_memory) == 0)
        analyse(&a);
    cpu_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[256] = "";
    ptx_log_t sink = {.text = text, .size = sizeof text};
    cpu_jit_log_t log = {text, sizeof text, 0};
    ptx_module_t *m = NULL;
    if (ptx_parse((const char *)data, size, &sink, &m) != GB_OK)
        return 0;
    if (cpu_jit_covers(m, &log) == GB_OK) {
        for (uint32_t i = 0; i < m->function_count; i++)
            if (m->functions[i].is_kernel && m->functions[i].defined)
                try_kernel(m, &m->functions[i]);
    } else if (!text[0]) {
        abort();
    }
    ptx_module_free(m);
    return 0;
}

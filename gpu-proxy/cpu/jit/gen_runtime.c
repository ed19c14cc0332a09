/* Calls of the device's runtime: printf, assertions, the heap. A helper does them lane by lane. */
#include "gpu-proxy/cpu/jit/gen_packet.h"

void gen_runtime(cpu_gen_t *gen)
{
    const ptx_instr_t *i = gen->i;
    cpu_runtime_call_t what = {.which = i->mode};
    for (unsigned n = 0; n < i->src_count; n++) {
        gen_packet_put(gen, n, ptx_src(gen->f, i, n), PTX_U64);
    }
    gen_packet_call(gen, offsetof(cpu_helpers_t, runtime), &what, sizeof what);
    gen_packet_get(gen, CPU_RUNTIME_RESULT, ptx_dst(gen->f, i, 0), 64);
}

/* lower.h - from a kernel and all that it calls to one function without calls. No LLVM here.
 *
 * The code generator knows basic blocks, two-way branches and reducible loops. This pass makes that of
 * everything else PTX can say:
 *
 *   calls      Small functions, and those with one call, are spliced into their callers. All others,
 *              recursive ones and those called through addresses are there once: a call notes where
 *              to go on in a register of the callee and jumps to its entry; its returns branch over
 *              the calls. A function that can be active more than once in a thread keeps what must
 *              survive a call in the thread's local memory, which then ends with a stack.
 *   addresses  A function's address is a number (ptx_function_code); a call through one branches over
 *              the functions whose address is taken somewhere and that fit the call.
 *   parameters .param variables become registers, one for each element that is accessed, or local
 *              memory if their address is taken or their elements overlap.
 *   runtime    vprintf, malloc and the like become PTX_OP_RUNTIME.
 *   flow       brx.idx becomes a tree of compares; a loop with several entries gets a header that
 *              branches over a selector.
 *
 * Frames, in bytes of a thread's local memory: the kernel's own at 0, then the stack; sp is where the
 * frame of the running function begins. */
#ifndef CPU_LOWER_H
#define CPU_LOWER_H

#include "gpu-proxy/cpu/jit/arena.h"
#include "gpu-proxy/cpu/ptx/ptx_ir.h"

typedef struct {
    const ptx_function_t *f; /* in the arena; no calls, no brx, only reducible loops */
    const char *trouble;     /* why there is none, else NULL */
    uint32_t line;           /* of the trouble */
    bool grows;              /* recursion or alloca: the stack is as large as was asked for */
} cpu_lowered_t;

/* Whether the kernel has anything to lower, apart from irreducible loops. */
bool cpu_lower_needed(const ptx_function_t *f);

/* Lowers a kernel of the module. `stack_bytes`: how much stack a thread gets if it cannot be computed.
 * Leaves through the arena when memory is out. */
cpu_lowered_t cpu_lower(cpu_arena_t *arena, const ptx_module_t *module,
                        const ptx_function_t *kernel, uint64_t stack_bytes);

#endif

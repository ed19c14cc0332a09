/* cpu_code.h - compiled kernels: what they are, how to load them and how to run a CTA. No LLVM here.
 *
 * The JIT (jit.h) turns one kernel, for one class of block shapes, into a blob: a header, a table of
 * module variable names, and position-independent machine code that refers to nothing outside
 * itself. A blob can be kept on disk; loading one is a check, one mapping and a copy. Everything that
 * code needs from outside comes through cpu_launch_t.
 *
 * Units are bytes and threads. A cpu_code_t never changes after it is loaded: any number of threads
 * may run it. A cpu_launch_t belongs to the one thread that runs CTAs with it: fill a template per
 * launch, copy it per thread, and give each copy its own scratch memory. */
#ifndef CPU_CODE_H
#define CPU_CODE_H

#include "common/core/gb_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CPU_CODE_MAGIC 0x4b4c4247u /* "GBLK" */
/* Changes with the blob's layout, with cpu_launch_t and with cpu_helpers_t. */
#define CPU_CODE_VERSION 17u

#define CPU_BARRIERS 32u   /* barriers of a CTA: PTX has 16, and there is one for barrier.cluster */
#define CPU_MAX_STRIPS 16u /* of a group */
#define CPU_MAX_GROUPS 1024u /* groups of a CTA: at worst one thread each */

/* Block shapes are compiled in classes. EXACT knows all three lengths and gives the best code.
 * LINEAR serves every block with y = z = 1, ANY serves everything; both read the lengths at run
 * time. In LINEAR and ANY the lengths in cpu_shape_t are 0. */
typedef enum { CPU_SHAPE_EXACT = 0, CPU_SHAPE_LINEAR, CPU_SHAPE_ANY } cpu_shape_kind_t;

typedef struct {
    uint32_t kind; /* cpu_shape_kind_t */
    uint32_t block[3];
} cpu_shape_t;

/* The class to compile for a block when `variants` other shapes of the kernel are compiled already:
 * EXACT for the first few, then a general one. */
cpu_shape_t cpu_shape_choose(const uint32_t block[3], unsigned variants);

/* True if code for `shape` can run blocks of these lengths. */
bool cpu_shape_serves(const cpu_shape_t *shape, const uint32_t block[3]);

/* First bytes of a blob, host byte order. What a cache must have in its key, beside the module's
 * bytes and the kernel's name: CPU_CODE_VERSION, the shape, the target (cpu_target_name), the forced
 * width and whether checks are on. cpu_code_load checks the first three again. */
typedef struct {
    uint32_t magic;
    uint32_t version;
    uint64_t checksum;    /* of all that follows this field, to the end of the blob */
    uint64_t target_hash; /* cpu_target_hash */
    uint64_t blob_bytes;
    uint32_t image_offset; /* machine code and its constants */
    uint32_t image_bytes;
    uint32_t entry_offset;  /* in the image */
    uint32_t symbol_offset; /* symbol_count names, each with its NUL */
    uint32_t symbol_bytes;
    uint32_t symbol_count;
    cpu_shape_t shape;
    uint32_t layout;         /* cpu_layout_t */
    uint32_t width;          /* W: lanes of a strip */
    uint32_t strips;         /* G: strips of a group, which run in lockstep */
    uint32_t state_count;    /* 1: no barriers and no loops that wait for others */
    uint32_t context_bytes;  /* of a group; 0 if state_count is 1 */
    uint32_t shared_bytes;   /* static shared memory */
    uint32_t dynamic_offset; /* where dynamic shared memory begins */
    uint32_t uses_dynamic;
    uint32_t param_bytes;
    uint32_t local_bytes; /* of a thread */
    uint32_t checked;     /* 1: addresses are checked by the code */
    uint32_t spins;       /* 1: threads may wait for threads of earlier blocks */
    uint32_t
        stack_bytes;    /* of local_bytes: what recursion may use; 0: the kernel does not recurse */
    uint32_t exchanges; /* 1: one thread wide, and lanes of a warp meet as exchange.h says */
    uint32_t steps;     /* 1: its groups can run in step */
} cpu_code_header_t;

/* How a CTA's threads become strips of W lanes and groups of G strips.
 * ROWS: a strip lies in one row (fixed y and z), a group holds the same columns of G rows.
 * COLUMNS: a strip lies in one row, a group holds neighbouring strips of it.
 * WARPS: a strip is W = 32 threads in linear order: a warp. */
typedef enum { CPU_LAYOUT_ROWS = 0, CPU_LAYOUT_COLUMNS, CPU_LAYOUT_WARPS } cpu_layout_t;

typedef struct cpu_code cpu_code_t;

/* Checks a blob and maps its code. GB_ERR_FORMAT: damaged; GB_ERR_VERSION: other version or
 * another kind of host than this one (compile again). The blob is not needed afterwards. */
gb_status_t cpu_code_load(const void *blob, size_t bytes, cpu_code_t **code);
void cpu_code_free(cpu_code_t *code);
const cpu_code_header_t *cpu_code_header(const cpu_code_t *code);

/* Name of the module variable whose address the code reads from cpu_launch_t.globals[index]. */
const char *cpu_code_symbol(const cpu_code_t *code, unsigned index);

/* The target that code is compiled for here: "x86-64-v4" (AVX-512) or "x86-64-v3" (AVX2), the
 * former if the host has it. `wanted` (GABLE_CPU_TARGET) may be NULL; GB_ERR_UNSUPPORTED if the host
 * cannot run it or it is none of the two. */
gb_status_t cpu_target_name(const char *wanted, const char **name);
uint64_t cpu_target_hash(const char *name);

/* ---- running ---- */

typedef struct cpu_launch cpu_launch_t;

/* An address range that kernels may touch through global, const and generic addresses. */
typedef struct {
    uint64_t base;
    uint64_t bytes;
} cpu_range_t;

/* CUDA's numbers, so that the device can pass them on. */
enum {
    CPU_FAULT_NONE = 0,
    CPU_FAULT_ADDRESS = 700,    /* illegal address */
    CPU_FAULT_ASSERT = 710,     /* device-side assertion */
    CPU_FAULT_STACK = 714,      /* recursion beyond the stack */
    CPU_FAULT_MISALIGNED = 716, /* misaligned address */
    CPU_FAULT_PC = 718,         /* a call through what is no function's address */
    CPU_FAULT_TRAP = 719        /* trap, or a CTA whose barriers can never be completed */
};

typedef struct {
    int32_t code;     /* CPU_FAULT_* */
    uint32_t bytes;   /* of the access */
    uint64_t address; /* generic; of shared and local accesses: within their space */
    uint32_t space;   /* ptx_space_t */
    uint32_t write;   /* 1: a store or an atomic operation */
    uint32_t ctaid[3];
    uint32_t tid[3];
} cpu_fault_t;

/* What generated code calls. cpu_helpers() is the table of this library. */
typedef struct cpu_helpers cpu_helpers_t;
const cpu_helpers_t *cpu_helpers(void);

/* What kernels may ask of the device that runs them. All are called by the thread that runs the CTA,
 * several at a time. */
typedef struct {
    /* Text of one printf, complete. */
    void (*print)(void *user, const char *text, size_t bytes);
    /* A failed assertion's message, one line. */
    void (*complain)(void *user, const char *line);
    /* 0: the heap is full. Memory that kernels may touch, aligned to 16. */
    uint64_t (*allocate)(void *user, uint64_t bytes);
    /* What is no allocation is left alone. */
    void (*release)(void *user, uint64_t address);
} cpu_services_t;

/* Fields that generated code reads are at fixed offsets (CPU_CODE_VERSION). All addresses are host
 * addresses; a generic address is a host address. */
struct cpu_launch {
    /* per launch */
    const cpu_helpers_t *helpers;    /* cpu_helpers() */
    const uint8_t *params;           /* the kernel's parameter block, laid out as PTX says */
    const uint64_t *globals;         /* addresses of the variables that cpu_code_symbol names */
    const volatile uint32_t *cancel; /* never NULL; not 0: end soon. Polled on every back-edge */
    uint64_t window_base;            /* fast check: the range that most accesses fall in */
    uint64_t window_bytes;           /* 0: none */
    const cpu_range_t *ranges; /* all valid ranges, sorted, not overlapping (window included) */
    uint64_t range_count;
    uint64_t param_bytes;
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t dynamic_shared_bytes;
    uint32_t sm_count;
    uint64_t grid_id;
    /* per thread: scratch, see cpu_code_scratch */
    uint8_t *shared;       /* 64-byte aligned; static part, then dynamic */
    uint64_t shared_bytes; /* of both parts */
    uint8_t *local;        /* 64-byte aligned; threads of the block * local_bytes */
    uint64_t local_bytes;  /* of all threads */
    uint8_t *context;      /* 64-byte aligned; groups * context_bytes */
    uint32_t sm_id;        /* %smid: number of the running thread */
    /* per CTA */
    uint32_t ctaid[3];
    /* owned by cpu_code_run_cta and the helpers */
    uint32_t bar_arrived[CPU_BARRIERS];  /* by bar.arrive, not yet released */
    uint32_t bar_red_popc[CPU_BARRIERS]; /* threads whose predicate was true, of those that came */
    uint32_t bar_red_all[CPU_BARRIERS];  /* threads that came with bar.red */
    uint32_t bar_out_popc[CPU_BARRIERS]; /* the same, of the barrier just released */
    uint32_t bar_out_all[CPU_BARRIERS];
    const cpu_code_t *code;
    cpu_fault_t fault; /* valid after CPU_RUN_FAULT */
    void *user;        /* the device's own */
    uint32_t
        moved; /* since it was started or resumed, the CTA got past a barrier, or threads ended */
    uint64_t grid_workspace; /* of a cooperative launch: what %envreg1 and 2 name; else 0 */
    /* per launch */
    const cpu_services_t *services; /* NULL: nothing is printed, and the heap is empty */
    void *services_user;
    /* between cpu_code_run_cta and code whose groups run in step (gen_step.c) */
    uint32_t step_groups; /* to the code: so many do; 0: only the group that it is called for */
    uint32_t step_rounds; /* to the code: barriers until it comes back in any case */
    /* both ways: the group that runs, or has stopped; from the code step_groups if all have ended; */
    uint32_t step_group;
    int32_t step_before; /* states of those behind it, */
    int32_t step_after;  /* and of those before it */
};

typedef struct {
    size_t shared_bytes;  /* static + dynamic */
    size_t local_bytes;   /* all threads of a CTA */
    size_t context_bytes; /* all groups of a CTA */
} cpu_scratch_t;

/* Scratch memory that each running thread needs, 64-byte aligned, contents irrelevant. */
cpu_scratch_t cpu_code_scratch(const cpu_code_t *code, const uint32_t block[3],
                               uint32_t dynamic_shared_bytes);

typedef enum { CPU_RUN_OK = 0, CPU_RUN_FAULT, CPU_RUN_CANCELLED, CPU_RUN_YIELDED } cpu_run_t;

/* Starts the CTA launch->ctaid and runs it on the calling thread until it ends, or until it only
 * waits for what others must do (CPU_RUN_YIELDED): other CTAs, or the host. It is then all in
 * `launch` and its scratch memory, and cpu_code_resume_cta goes on with it, on any thread, with the
 * same meaning of results. Block lengths must be served by the code's shape. Both may be left by
 * siglongjmp from a handler of a page fault: nothing is held. */
cpu_run_t cpu_code_start_cta(const cpu_code_t *code, cpu_launch_t *launch);
cpu_run_t cpu_code_resume_cta(const cpu_code_t *code, cpu_launch_t *launch);

/* Runs the CTA to its end; never CPU_RUN_YIELDED. One that waits for CTAs that this thread would
 * have to run goes on until it is cancelled. */
cpu_run_t cpu_code_run_cta(const cpu_code_t *code, cpu_launch_t *launch);

#endif

/* The compiler: one kernel from PTX to a blob. */
#include "gpu-proxy/cpu/jit/code.h"
#include "gpu-proxy/cpu/jit/compile.h"
#include "gpu-proxy/cpu/jit/gen.h"
#include "gpu-proxy/cpu/jit/object.h"
#include "gpu-proxy/cpu/lower/lower.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char ENTRY[] = "kernel";
/* PTX is optimised already: promote slots to values, and drop what that makes redundant. */
static const char PASSES[] =
    "function(sroa,early-cse<memssa>,simplifycfg,instsimplify,early-cse<memssa>)";

typedef struct {
    cpu_arena_t arena;
    cpu_analysis_t analysis;
    cpu_gen_t gen;
    LLVMTargetMachineRef machine;
    LLVMMemoryBufferRef object;
    cpu_image_t image;
    uint64_t stack_bytes; /* that the code needs as it was asked for, or 0 */
} job_t;

void gen_fail(cpu_gen_t *gen, const char *why)
{
    if (!gen->failed) {
        gen->failed = true;
        cpu_jit_log(gen->log, "line %u: cannot compile: %s\n", gen->i != NULL ? gen->i->line : 0,
                    why);
    }
}

static void initialise(void)
{
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser(); /* of gen_round.c's assembly */
    /* A sum whose only use lies behind the check of another access would be moved there, with all the
     * sums behind it: then every value that they need is kept in memory meanwhile. */
    static const char *const options[] = {"gable-jit", "-disable-machine-sink",
                                          "-disable-x86-domain-reassignment"};
    LLVMParseCommandLineOptions(sizeof options / sizeof options[0], options, NULL);
}

static gb_status_t make_machine(job_t *job, const char *target)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialise);
    LLVMTargetRef t;
    char *error = NULL;
    if (LLVMGetTargetFromTriple("x86_64-unknown-linux-gnu", &t, &error)) {
        LLVMDisposeMessage(error);
        return gb_fail(GB_ERR_INTERNAL, "the compiler does not know this processor");
    }
    job->machine =
        LLVMCreateTargetMachine(t, "x86_64-unknown-linux-gnu", target, "", LLVMCodeGenLevelDefault,
                                LLVMRelocPIC, LLVMCodeModelSmall);
    return job->machine != NULL ? GB_OK : gb_fail(GB_ERR_INTERNAL, "no code generator");
}

static void attribute(cpu_gen_t *gen, const char *name, const char *value)
{
    LLVMAttributeRef a = LLVMCreateStringAttribute(gen->context, name, (unsigned)strlen(name),
                                                   value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(gen->fn, LLVMAttributeFunctionIndex, a);
}

static void flag(cpu_gen_t *gen, const char *name, unsigned where)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(gen->fn, where, LLVMCreateEnumAttribute(gen->context, kind, 0));
}

static void begin_module(job_t *job, const char *target)
{
    cpu_gen_t *gen = &job->gen;
    LLVMContextRef c = gen->context = LLVMContextCreate();
    gen->module = LLVMModuleCreateWithNameInContext(job->analysis.f->name, c);
    gen->b = LLVMCreateBuilderInContext(c);
    LLVMSetTarget(gen->module, "x86_64-unknown-linux-gnu");
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(job->machine);
    LLVMSetModuleDataLayout(gen->module, layout);
    LLVMDisposeTargetData(layout);
    gen->i1 = LLVMInt1TypeInContext(c);
    gen->i8 = LLVMInt8TypeInContext(c);
    gen->i16 = LLVMInt16TypeInContext(c);
    gen->i32 = LLVMInt32TypeInContext(c);
    gen->i64 = LLVMInt64TypeInContext(c);
    gen->half = LLVMHalfTypeInContext(c);
    gen->f32 = LLVMFloatTypeInContext(c);
    gen->f64 = LLVMDoubleTypeInContext(c);
    gen->ptr = LLVMPointerTypeInContext(c, 0);
    type_t params[4] = {gen->ptr, gen->ptr, gen->i32, gen->i32};
    gen->fn = LLVMAddFunction(gen->module, ENTRY, LLVMFunctionType(gen->i32, params, 4, 0));
    attribute(gen, "target-cpu", target);
    if (gen->avx512) {
        attribute(gen, "prefer-vector-width", "512");
        attribute(gen, "min-legal-vector-width", "512");
    }
    attribute(gen, "no-builtins", "");
    flag(gen, "nounwind", LLVMAttributeFunctionIndex);
    flag(gen, "noalias", 2); /* nothing else points into the context */
}

static gb_status_t optimise(job_t *job)
{
    cpu_gen_t *gen = &job->gen;
    char *error = NULL;
    if (getenv("GABLE_JIT_DUMP") != NULL) {
        LLVMDumpModule(gen->module);
    }
    if (LLVMVerifyModule(gen->module, LLVMReturnStatusAction, &error)) {
        cpu_jit_log(gen->log, "generated code is wrong: %s\n", error);
        gb_status_t st = gb_fail(GB_ERR_INTERNAL, "generated code is wrong: %.300s", error);
        LLVMDisposeMessage(error);
        return st;
    }
    LLVMDisposeMessage(error);
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    LLVMErrorRef e = LLVMRunPasses(gen->module, PASSES, job->machine, o);
    LLVMDisposePassBuilderOptions(o);
    if (e != NULL) {
        char *message = LLVMGetErrorMessage(e);
        gb_status_t st = gb_fail(GB_ERR_INTERNAL, "the optimiser fails: %s", message);
        LLVMDisposeErrorMessage(message);
        return st;
    }
    if (gen->avx512) {
        gen_part_merges(gen);
    }
    return GB_OK;
}

static gb_status_t emit(job_t *job)
{
    char *error = NULL;
    const char *listing = getenv("GABLE_JIT_ASM");
    if (listing != NULL && LLVMTargetMachineEmitToFile(job->machine, job->gen.module, listing,
                                                       LLVMAssemblyFile, &error)) {
        LLVMDisposeMessage(error);
    }
    if (LLVMTargetMachineEmitToMemoryBuffer(job->machine, job->gen.module, LLVMObjectFile, &error,
                                            &job->object)) {
        gb_status_t st = gb_fail(GB_ERR_INTERNAL, "no code: %s", error);
        LLVMDisposeMessage(error);
        return st;
    }
    return cpu_object_link(LLVMGetBufferStart(job->object), LLVMGetBufferSize(job->object), ENTRY,
                           &job->image);
}

static size_t symbol_bytes(const cpu_gen_t *gen)
{
    size_t n = 0;
    for (unsigned k = 0; k < gen->symbol_count; k++) {
        n += strlen(gen->symbols[k]) + 1;
    }
    return n;
}

static uint64_t dynamic_offset(const ptx_function_t *f)
{
    uint64_t align = f->dynamic_align != 0 ? f->dynamic_align : 1;
    return (f->shared_size + align - 1) / align * align;
}

static gb_status_t write_blob(const job_t *job, const cpu_jit_options_t *o, void **blob,
                              size_t *bytes)
{
    const cpu_gen_t *gen = &job->gen;
    const ptx_function_t *f = gen->f;
    size_t names = symbol_bytes(gen), total = sizeof(cpu_code_header_t) + names;
    size_t image = (total + 63) / 64 * 64;
    total = image + job->image.size;
    uint8_t *p = calloc(1, total);
    if (p == NULL) {
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    }
    cpu_code_header_t h = {
        .magic = CPU_CODE_MAGIC,
        .version = CPU_CODE_VERSION,
        .target_hash = cpu_target_hash(o->target),
        .blob_bytes = total,
        .image_offset = (uint32_t)image,
        .image_bytes = (uint32_t)job->image.size,
        .entry_offset = job->image.entry,
        .symbol_offset = sizeof h,
        .symbol_bytes = (uint32_t)names,
        .symbol_count = gen->symbol_count,
        .shape = o->shape,
        .layout = job->analysis.config.layout,
        .width = gen->W,
        .strips = gen->G,
        .state_count = gen_state_count(gen),
        .context_bytes = gen_context_bytes(gen),
        .exchanges = gen->a->exchanges,
        .shared_bytes = (uint32_t)f->shared_size,
        .dynamic_offset = (uint32_t)dynamic_offset(f),
        .uses_dynamic = f->uses_dynamic_shared,
        .param_bytes = (uint32_t)f->param_size,
        .local_bytes = (uint32_t)((f->local_size + 15) & ~(uint64_t)15),
        .checked = !o->unchecked,
        .spins = gen_spins(gen),
        .steps = gen_steps(gen),
        .stack_bytes = (uint32_t)job->stack_bytes,
    };
    uint8_t *at = p + sizeof h;
    for (unsigned k = 0; k < gen->symbol_count; k++) {
        size_t n = strlen(gen->symbols[k]) + 1;
        memcpy(at, gen->symbols[k], n);
        at += n;
    }
    memcpy(p + image, job->image.bytes, job->image.size);
    memcpy(p, &h, sizeof h);
    size_t from = offsetof(cpu_code_header_t, target_hash);
    h.checksum = cpu_code_checksum(p + from, total - from);
    memcpy(p, &h, sizeof h);
    *blob = p;
    *bytes = total;
    return GB_OK;
}

static gb_status_t lower(job_t *job, const cpu_jit_options_t *o)
{
    cpu_analysis_t *a = &job->analysis;
    cpu_lowered_t l = cpu_lower(&job->arena, a->module, a->f, o->stack_bytes);
    if (l.trouble != NULL) {
        cpu_jit_log(job->gen.log, "line %u: %s: %s\n", l.line, a->f->name, l.trouble);
        return gb_fail(GB_ERR_UNSUPPORTED, "%s: %s", a->f->name, l.trouble);
    }
    a->f = l.f;
    job->stack_bytes = l.grows ? o->stack_bytes : 0;
    if (cpu_function_gaps(a->module, a->f, job->gen.log) != 0) {
        return gb_fail(GB_ERR_UNSUPPORTED, "%s has instructions that are not covered", a->f->name);
    }
    return GB_OK;
}

static gb_status_t analyse(job_t *job, const cpu_jit_options_t *o)
{
    cpu_analysis_t *a = &job->analysis;
    const ptx_function_t *kernel = a->f;
    gb_status_t st = cpu_lower_needed(kernel) ? lower(job, o) : GB_OK;
    if (st != GB_OK) {
        return st;
    }
    a->scalar = o->width == 1;
    cpu_analyse_flow(a);
    if (a->trouble != NULL && a->f == kernel) { /* a loop with several entries */
        a->trouble = NULL;
        st = lower(job, o);
        if (st != GB_OK) {
            return st;
        }
        a->scalar = o->width == 1;
        cpu_analyse_flow(a);
    }
    if (a->trouble != NULL) {
        cpu_jit_log(job->gen.log, "line %u: %s: %s\n", a->f->line, a->f->name, a->trouble);
        return gb_fail(GB_ERR_UNSUPPORTED, "%s: %s", a->f->name, a->trouble);
    }
    cpu_analyse_given(a);
    cpu_analyse_live(a);
    return cpu_config_choose(a, o, job->gen.avx512);
}

static gb_status_t generate(job_t *job, const cpu_jit_options_t *o)
{
    cpu_gen_t *gen = &job->gen;
    gen->a = &job->analysis;
    gen->f = job->analysis.f;
    gen->arena = &job->arena;
    gen->options = o;
    gen->W = job->analysis.config.width;
    gen->G = job->analysis.config.strips;
    gen->symbols =
        cpu_arena_alloc(&job->arena, job->analysis.module->var_count + 1, sizeof(char *));
    begin_module(job, o->target);
    if (!gen_function(gen)) {
        return gb_fail(GB_ERR_UNSUPPORTED, "%s cannot be compiled", gen->f->name);
    }
    return GB_OK;
}

static void discard(job_t *job)
{
    free(job->image.bytes);
    if (job->object != NULL) {
        LLVMDisposeMemoryBuffer(job->object);
    }
    if (job->gen.b != NULL) {
        LLVMDisposeBuilder(job->gen.b);
        LLVMDisposeModule(job->gen.module);
        LLVMContextDispose(job->gen.context);
    }
    if (job->machine != NULL) {
        LLVMDisposeTargetMachine(job->machine);
    }
    cpu_arena_free(&job->arena);
}

static gb_status_t run_job(job_t *job, const cpu_jit_options_t *o, void **blob, size_t *bytes)
{
    jmp_buf no_memory;
    job->arena.failed = &no_memory;
    if (setjmp(no_memory) != 0) {
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    }
    gb_status_t st = make_machine(job, o->target);
    if (st == GB_OK) {
        st = analyse(job, o);
    }
    if (st == GB_OK) {
        st = generate(job, o);
    }
    if (st == GB_OK) {
        st = optimise(job);
    }
    if (st == GB_OK) {
        st = emit(job);
    }
    if (st == GB_OK) {
        st = write_blob(job, o, blob, bytes);
    }
    return st;
}

__attribute__((visibility("default"))) gb_status_t cpu_jit_compile(const ptx_module_t *module,
                                                                   uint32_t function,
                                                                   const cpu_jit_options_t *options,
                                                                   cpu_jit_log_t *log, void **blob,
                                                                   size_t *bytes)
{
    if (function >= module->function_count || !module->functions[function].is_kernel ||
        !module->functions[function].defined) {
        return gb_fail(GB_ERR_INVALID, "no such kernel");
    }
    const ptx_function_t *f = &module->functions[function];
    if (cpu_function_gaps(module, f, log) != 0) {
        return gb_fail(GB_ERR_UNSUPPORTED, "%s has instructions that are not covered", f->name);
    }
    job_t *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    }
    job->analysis = (cpu_analysis_t){.arena = &job->arena, .module = module, .f = f};
    job->gen.log = log;
    job->gen.avx512 = strcmp(options->target, "x86-64-v4") == 0;
    gb_status_t st = run_job(job, options, blob, bytes);
    discard(job);
    free(job);
    return st;
}

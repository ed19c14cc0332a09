/* What the dot words of cp and mbarrier mean, and which of their forms are covered. */
#include "gpu-proxy/cpu/jit/packet.h"

#include <string.h>

/* The length of the dot word that begins at p. */
static size_t word_length(const char *p)
{
    return strcspn(p, ".");
}

bool cpu_has_word(const ptx_instr_t *i, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = strchr(i->mnemonic, '.'); p != NULL; p = strchr(p, '.')) {
        p++;
        if (word_length(p) == n && memcmp(p, word, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool begins(const ptx_instr_t *i, const char *name)
{
    size_t n = strlen(name);
    return strncmp(i->mnemonic, name, n) == 0 && (i->mnemonic[n] == 0 || i->mnemonic[n] == '.');
}

/* The n-th space named (from 0); GENERIC if there are fewer. */
static uint32_t space_named(const ptx_instr_t *i, unsigned n)
{
    for (const char *p = strchr(i->mnemonic, '.'); p != NULL; p = strchr(p, '.')) {
        size_t length = word_length(++p);
        bool global = length == 6 && memcmp(p, "global", 6) == 0;
        bool shared = (length == 6 && memcmp(p, "shared", 6) == 0) ||
                      (length > 8 && memcmp(p, "shared::", 8) == 0);
        if ((global || shared) && n-- == 0) {
            return global ? PTX_SPACE_GLOBAL : PTX_SPACE_SHARED;
        }
    }
    return PTX_SPACE_GENERIC;
}

static bool is_register(const ptx_function_t *f, const ptx_operand_t *o, ptx_type_t type)
{
    return o->kind == PTX_OPERAND_REG && f->regs[o->index].type == type;
}

/* Operands without the cache policy at the end. */
static unsigned operands_of(const ptx_instr_t *i)
{
    return i->src_count - (cpu_has_word(i, "L2::cache_hint") ? 1u : 0u);
}

static bool parse_copy(const ptx_function_t *f, const ptx_instr_t *i, cpu_async_t *out)
{
    unsigned n = operands_of(i);
    const ptx_operand_t *size = ptx_src(f, i, 2), *more = n > 3 ? ptx_src(f, i, 3) : NULL;
    bool cg = cpu_has_word(i, "cg");
    if (n < 3 || n > 4 || size->kind != PTX_OPERAND_IMM ||
        !(size->value == 16 || (!cg && (size->value == 4 || size->value == 8)))) {
        return false;
    }
    *out =
        (cpu_async_t){CPU_ASYNC_COPY, PTX_SPACE_SHARED, PTX_SPACE_GLOBAL, (uint32_t)size->value, 0,
                      PTX_ATOM_NONE,  PTX_TYPE_NONE};
    if (more != NULL) {
        out->flags = is_register(f, more, PTX_PRED) ? CPU_ASYNC_HAS_IGNORE : CPU_ASYNC_HAS_SIZE;
    }
    return true;
}

static bool parse_bulk(const ptx_instr_t *i, cpu_async_t *out)
{
    unsigned n = operands_of(i);
    bool barrier = cpu_has_word(i, "mbarrier::complete_tx::bytes");
    if (cpu_has_word(i, "multicast::cluster") || cpu_has_word(i, "cp_mask") ||
        cpu_has_word(i, "tensor") || n != (barrier ? 4 : 3)) {
        return false;
    }
    *out = (cpu_async_t){.op = CPU_ASYNC_BULK,
                         .to = space_named(i, 0),
                         .from = space_named(i, 1),
                         .flags = barrier ? CPU_ASYNC_HAS_BARRIER : 0};
    return out->from != PTX_SPACE_GENERIC && out->to != PTX_SPACE_GENERIC &&
           (out->from == PTX_SPACE_SHARED || out->to == PTX_SPACE_SHARED);
}

/* The operations of cp.reduce: in shared memory on integers, in global memory also on floats. */
static bool parse_reduce(const ptx_instr_t *i, cpu_async_t *out)
{
    static const struct {
        const char *word;
        uint32_t mode;
    } modes[] = {{"add", PTX_ATOM_ADD}, {"min", PTX_ATOM_MIN}, {"max", PTX_ATOM_MAX},
                 {"and", PTX_ATOM_AND}, {"or", PTX_ATOM_OR},   {"xor", PTX_ATOM_XOR},
                 {"inc", PTX_ATOM_INC}, {"dec", PTX_ATOM_DEC}};
    if (!parse_bulk(i, out)) {
        return false;
    }
    out->op = CPU_ASYNC_REDUCE;
    out->type = i->type;
    for (size_t k = 0; k < sizeof modes / sizeof modes[0]; k++) {
        if (cpu_has_word(i, modes[k].word)) {
            out->mode = modes[k].mode;
        }
    }
    ptx_instr_t red = *i;
    red.op = PTX_OP_RED;
    red.mode = (uint8_t)out->mode;
    red.space = PTX_SPACE_GLOBAL;
    bool small = i->type == PTX_F16 || i->type == PTX_BF16;
    bool floating = ptx_type_is_float((ptx_type_t)i->type);
    return (out->to == PTX_SPACE_GLOBAL || !floating) &&
           (cpu_atomic_covered(&red) ||
            (small && (out->mode == PTX_ATOM_MIN || out->mode == PTX_ATOM_MAX)));
}

static bool parse_cp(const ptx_function_t *f, const ptx_instr_t *i, cpu_async_t *out)
{
    *out = (cpu_async_t){.op = CPU_ASYNC_NOTHING};
    if (begins(i, "cp.async.commit_group") || begins(i, "cp.async.wait_group") ||
        begins(i, "cp.async.wait_all") || begins(i, "cp.async.bulk.commit_group") ||
        begins(i, "cp.async.bulk.wait_group") || begins(i, "cp.async.bulk.prefetch.L2")) {
        return true;
    }
    if (begins(i, "cp.async.mbarrier.arrive")) {
        /* without .noinc the count goes up by one first: nothing changes */
        bool counts = cpu_has_word(i, "noinc");
        *out = (cpu_async_t){.op = counts ? CPU_MBARRIER_ARRIVE : CPU_ASYNC_NOTHING,
                             .to = space_named(i, 0)};
        return i->src_count == 1;
    }
    if (begins(i, "cp.async.ca") || begins(i, "cp.async.cg")) {
        return parse_copy(f, i, out);
    }
    if (begins(i, "cp.reduce.async.bulk")) {
        return parse_reduce(i, out);
    }
    return begins(i, "cp.async.bulk") && parse_bulk(i, out);
}

static bool parse_mbarrier(const ptx_instr_t *i, cpu_async_t *out)
{
    static const struct {
        const char *name;
        uint32_t op, flags;
    } forms[] = {
        {"mbarrier.init", CPU_MBARRIER_INIT, CPU_ASYNC_HAS_SIZE},
        {"mbarrier.inval", CPU_MBARRIER_INVAL, 0},
        {"mbarrier.arrive", CPU_MBARRIER_ARRIVE, 0},
        {"mbarrier.arrive_drop", CPU_MBARRIER_ARRIVE, CPU_ASYNC_DROP},
        {"mbarrier.expect_tx", CPU_MBARRIER_EXPECT, CPU_ASYNC_HAS_SIZE},
        {"mbarrier.complete_tx", CPU_MBARRIER_COMPLETE, CPU_ASYNC_HAS_SIZE},
        {"mbarrier.test_wait", CPU_MBARRIER_TEST, 0},
        {"mbarrier.try_wait", CPU_MBARRIER_TEST, 0},
        {"mbarrier.pending_count", CPU_MBARRIER_PENDING, 0},
    };
    for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
        if (!begins(i, forms[k].name)) {
            continue;
        }
        *out = (cpu_async_t){.op = forms[k].op, .to = i->space, .flags = forms[k].flags};
        if (out->op == CPU_MBARRIER_ARRIVE) {
            out->flags |= i->src_count > 1 ? CPU_ASYNC_HAS_SIZE : 0;
            out->flags |= cpu_has_word(i, "expect_tx") ? CPU_ASYNC_EXPECT : 0;
        } else if (out->op == CPU_MBARRIER_TEST && cpu_has_word(i, "parity")) {
            out->flags |= CPU_ASYNC_PARITY;
        }
        return i->type == PTX_B64 &&
               (i->space == PTX_SPACE_GENERIC || i->space == PTX_SPACE_SHARED);
    }
    return false;
}

bool cpu_async_parse(const ptx_function_t *f, const ptx_instr_t *i, cpu_async_t *out)
{
    return i->op == PTX_OP_MBARRIER ? parse_mbarrier(i, out) : parse_cp(f, i, out);
}

/* ptx_parser.h - what the files of the parser share; nobody else includes it.
 *
 * Every ptx_p_* function that returns bool gives false after an error, which it has logged. */
#ifndef PTX_PARSER_H
#define PTX_PARSER_H

#include "gpu-proxy/cpu/ptx/ptx_lex.h"
#include "gpu-proxy/cpu/ptx/ptx_opcode.h"
#include "gpu-proxy/cpu/ptx/ptx_parse.h"
#include "gpu-proxy/cpu/ptx/ptx_store.h"

/* The module as allocated: what users see comes first. */
typedef struct {
    ptx_module_t module;
    ptx_arena_t arena;
    ptx_map_t function_names, var_names;
} ptx_module_store_t;

typedef enum {
    PTX_SYM_VAR,
    PTX_SYM_FUNC,
    PTX_SYM_REG,   /* index = register or PTX_NONE before its first use */
    PTX_SYM_RANGE, /* %r<count>; index = number of the range, unique in the function */
    PTX_SYM_LABEL, /* index = instruction */
    PTX_SYM_TABLE,
    PTX_SYM_PROTO
} ptx_sym_kind_t;

typedef struct {
    const char *name; /* in the text, not terminated */
    uint32_t length;
    uint8_t kind;  /* ptx_sym_kind_t */
    uint8_t type;  /* registers */
    uint8_t width; /* registers: components, 1 if it is no vector */
    uint32_t index;
    uint32_t count;    /* RANGE */
    uint32_t depth;    /* scope */
    uint32_t shadowed; /* the outer symbol of the same name, or PTX_NONE */
    const char *kept;  /* the name in the arena, once it is needed */
} ptx_sym_t;

/* Names with nested scopes. */
typedef struct {
    ptx_map_t map;  /* name to index in syms */
    ptx_vec_t syms; /* ptx_sym_t */
} ptx_names_t;

/* A label that was used before its scope is complete. */
typedef struct {
    const char *name;
    uint32_t length;
    uint32_t line;
    bool in_table; /* of `table_entries`, else of `operands` */
    uint32_t index;
} ptx_pending_t;

/* A function's body while it is read. */
typedef struct {
    uint32_t function;
    ptx_vec_t regs, instrs, operands, tables, table_entries, protos, callees, pendings;
    ptx_vec_t shared;  /* uint32_t: .shared variables referred to */
    ptx_nmap_t ranged; /* (range << 32 | number) to register */
    uint32_t range_count;
    uint32_t last_label; /* the instruction that the last label stands before, or PTX_NONE */
    uint64_t local_size, args_size;
    uint32_t local_align;
    bool calls_indirect, has_barrier;
    uint32_t carry; /* the register that stands for the condition code, + 1; 0: not used yet */
} ptx_body_t;

typedef struct {
    uint32_t names, labels, pendings; /* counts when the scope began */
} ptx_level_t;

typedef struct {
    ptx_lex_t lex;
    ptx_log_t *log;
    gb_status_t status; /* of the first error */
    char first_error[256];
    unsigned errors;

    ptx_module_store_t *store;
    ptx_arena_t *arena;                /* the store's */
    ptx_vec_t vars, relocs, functions; /* ptx_var_t, ptx_reloc_t, ptx_function_t */
    ptx_vec_t shared_uses;             /* ptx_shared_use_t, one per function */
    ptx_vec_t var_marks;               /* uint32_t per variable: last function + 1 that uses it */
    ptx_vec_t function_marks;          /* the same for callees */
    ptx_vec_t taken;                   /* uint32_t: functions whose address is taken */
    uint64_t init_bytes;
    uint32_t reserved; /* variable + 1 that stands for reserved shared memory; 0: nobody asked */

    ptx_vec_t regparams; /* ptx_regparam_t of the function being read */
    ptx_names_t names, labels;
    ptx_level_t scopes[PTX_MAX_SCOPES];
    uint32_t depth;

    ptx_map_t mnemonic_names; /* text to index in mnemonics */
    ptx_vec_t mnemonics;      /* ptx_mnemonic_t */
    ptx_body_t body;
} ptx_parser_t;

typedef struct {
    const uint32_t *vars;
    uint32_t count;
} ptx_shared_use_t;

static inline ptx_var_t *ptx_p_var(const ptx_parser_t *p, uint32_t i)
{
    return (ptx_var_t *)p->vars.data + i;
}

static inline ptx_function_t *ptx_p_function(const ptx_parser_t *p, uint32_t i)
{
    return (ptx_function_t *)p->functions.data + i;
}

/* --- ptx_parse.c: errors and small steps ------------------------------------------------------ */
/* Logs "ptx: line N: ..." and returns false. */
bool ptx_p_fail(ptx_parser_t *p, gb_status_t status, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool ptx_p_no_memory(ptx_parser_t *p);
/* "expected X before 'token'" at the current token. */
bool ptx_p_unexpected(ptx_parser_t *p, const char *wanted);
/* Goes behind the punctuation, or fails. */
bool ptx_p_expect(ptx_parser_t *p, int punct);
bool ptx_p_is_dot(const ptx_parser_t *p, const char *word);
/* Copies the current identifier's text to the arena. */
const char *ptx_p_keep(ptx_parser_t *p, const char *text, uint32_t length);
/* An unsigned constant of at most `max`. */
bool ptx_p_number(ptx_parser_t *p, uint64_t max, uint64_t *out);
/* Skips from the current open bracket to behind the matching one. */
bool ptx_p_skip_brackets(ptx_parser_t *p, int open, int close);
/* Skips .loc, .file, .section, .pragma; false (without error) if the token is none of them. */
bool ptx_p_skip_debug(ptx_parser_t *p);

/* --- ptx_scope.c ------------------------------------------------------------------------------ */
bool ptx_p_scope_open(ptx_parser_t *p);
/* Ends the innermost scope: its labels are resolved, its names forgotten. */
bool ptx_p_scope_close(ptx_parser_t *p);
/* Declares the name in the innermost scope; it must be new there. */
ptx_sym_t *ptx_p_declare(ptx_parser_t *p, ptx_names_t *names, const ptx_tok_t *name,
                         ptx_sym_kind_t kind, uint32_t index);
ptx_sym_t *ptx_p_find(const ptx_names_t *names, const char *name, uint32_t length);
/* The register of that name, made on its first use; PTX_NONE if there is none. A vector's `width`
 * components have numbers that follow each other. *ok turns false when memory is out. */
uint32_t ptx_p_register(ptx_parser_t *p, const char *name, uint32_t length, unsigned *width,
                        bool *ok);

/* --- ptx_const.c ------------------------------------------------------------------------------ */
typedef enum { PTX_CONST_INT, PTX_CONST_F32, PTX_CONST_F64 } ptx_const_kind_t;

typedef struct {
    ptx_const_kind_t kind;
    bool is_unsigned;
    uint64_t bits;
} ptx_const_t;

/* A constant expression. `tight`: only what binds like a unary or * / % (an offset's summand). */
bool ptx_p_const(ptx_parser_t *p, bool tight, ptx_const_t *out);
/* The constant as an immediate of `type` (NONE: bits as they are), see ptx_operand_t. */
bool ptx_p_convert(ptx_parser_t *p, const ptx_const_t *value, ptx_type_t type, uint64_t *out);
/* Zero or more "+ constant" and "- constant"; adds them up. */
bool ptx_p_offset(ptx_parser_t *p, int64_t *out);

/* --- ptx_var.c -------------------------------------------------------------------------------- */
/* After the linkage: ".global .align 4 .b8 a[4] = {...}, b;" at the space's token. */
bool ptx_p_variables(ptx_parser_t *p, ptx_linkage_t linkage, ptx_space_t space, uint32_t owner);
/* One declaration inside ( ), at the token behind .param. */
bool ptx_p_param(ptx_parser_t *p, uint32_t owner, ptx_var_t *out, ptx_tok_t *name);
/* Appends the variable, with its mark. */
ptx_var_t *ptx_p_add_var(ptx_parser_t *p, const ptx_var_t *var, uint32_t *index);
/* The variable that stands for reserved shared memory. */
bool ptx_p_reserved_shared(ptx_parser_t *p, uint32_t *index);
/* The space that a word names (".global"); false if none. */
bool ptx_p_space(const ptx_tok_t *tok, ptx_space_t *out);
/* Appends `size` bytes at `align` to a frame, false when it exceeds `limit`. */
bool ptx_p_layout(uint64_t *frame, uint32_t *frame_align, uint64_t size, uint32_t align,
                  uint64_t limit, uint64_t *offset);

/* --- ptx_init.c ------------------------------------------------------------------------------- */
enum { PTX_MAX_DIMS = 8 };

/* The value behind '=', for a variable of these dimensions (outermost first; the last one is a
 * vector's when it has one). An open outermost dimension (0) gets its size from the values. */
bool ptx_p_initialiser(ptx_parser_t *p, ptx_var_t *var, uint64_t *dims, unsigned dim_count);

/* --- ptx_operand.c ---------------------------------------------------------------------------- */
enum { PTX_MAX_REG_VECTOR = 8 };

/* An instruction while its operands are read. */
typedef struct {
    ptx_instr_t in;
    char shape; /* of the operand being read */
    bool is_dst;
    unsigned count;
    ptx_operand_t operands[PTX_MAX_OPERANDS];
} ptx_reading_t;

/* "operand 2 of 'add.u32' `what`" */
bool ptx_p_bad_operand(ptx_parser_t *p, const ptx_reading_t *r, const char *what);
/* All operands, by the shape of ptx_mnemonic_t (but for calls). */
bool ptx_p_operands(ptx_parser_t *p, ptx_reading_t *r, const char *shape);
/* Anything but a vector, a part of a register or an address. */
bool ptx_p_simple(ptx_parser_t *p, ptx_type_t type, ptx_operand_t *out);
/* "{a, b, c, d}", or "(a, b)" of a call, at the bracket. Elements are stored together. */
bool ptx_p_vector(ptx_parser_t *p, ptx_type_t type, int close, unsigned limit, ptx_operand_t *out);
/* A label as an instruction's last operand. */
bool ptx_p_label_use(ptx_parser_t *p, ptx_operand_t *out);
bool ptx_p_push(ptx_parser_t *p, ptx_reading_t *r, const ptx_operand_t *operand);
bool ptx_p_is_pred(const ptx_parser_t *p, uint32_t reg);

/* --- ptx_regparam.c --------------------------------------------------------------------------- */
/* A parameter or result in registers: `width` variables from first_var on. */
typedef struct {
    ptx_tok_t name;
    ptx_type_t type;
    unsigned width;
    uint32_t first_var;
    uint32_t reg; /* the first register, in the body */
    bool is_result;
} ptx_regparam_t;

bool ptx_p_regparam_add(ptx_parser_t *p, const ptx_regparam_t *param);
/* At the start of a body: declares the registers and loads the parameters. */
bool ptx_p_regparams_enter(ptx_parser_t *p);
/* Before a return of that guard (NULL: before the end of the body): stores the results. */
bool ptx_p_regparams_leave(ptx_parser_t *p, const ptx_instr_t *ret);

/* --- ptx_function.c, ptx_body.c, ptx_instr.c, ptx_flow.c ----------------------------------------*/
/* At .entry or .func. */
bool ptx_p_function_decl(ptx_parser_t *p, ptx_linkage_t linkage);
/* ".alias a, b;" at its first name. */
bool ptx_p_alias(ptx_parser_t *p);
/* At '{'. */
bool ptx_p_body(ptx_parser_t *p, uint32_t function);
/* The parameters of a prototype behind its label: at .callprototype. */
bool ptx_p_call_prototype(ptx_parser_t *p, uint32_t *index);
/* ".v2 .f32" of a register. */
bool ptx_p_register_type(ptx_parser_t *p, ptx_type_t *type, unsigned *width);
/* One instruction, guard included. */
bool ptx_p_instruction(ptx_parser_t *p);
/* Appends an instruction that is not in the text. */
bool ptx_p_emit(ptx_parser_t *p, const ptx_instr_t *in, const ptx_operand_t *operands);
/* The fields of a mnemonic, decoded once per module; NULL after an error. */
const ptx_mnemonic_t *ptx_p_mnemonic(ptx_parser_t *p, const char *text, size_t length,
                                     uint32_t line);
/* Cuts the body into blocks and moves it to the module. */
bool ptx_p_finish_body(ptx_parser_t *p);
/* The shared memory of every kernel. */
bool ptx_p_layout_shared(ptx_parser_t *p);
/* Notes that the body refers to the function. */
bool ptx_p_note_callee(ptx_parser_t *p, uint32_t function, bool called);

#endif

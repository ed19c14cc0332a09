/* ptx_ir.h - the typed form of a PTX module: what the code generator and the loader work on.
 *
 * A module is made by ptx_parse() and never changes afterwards: any number of threads may read it.
 * Everything lives in the module's arena and goes with ptx_module_free(). Things refer to each
 * other by index: registers and blocks count per function, variables and functions per module.
 * The parser has resolved names, checked operand counts and computed layouts, but it does not
 * decide what runs: whoever generates code reports the opcodes that it does not cover. */
#ifndef PTX_IR_H
#define PTX_IR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTX_NONE UINT32_MAX /* "no such index" */

typedef enum {
    PTX_TYPE_NONE = 0,
    PTX_PRED,
    PTX_B8,
    PTX_B16,
    PTX_B32,
    PTX_B64,
    PTX_B128,
    PTX_U8,
    PTX_U16,
    PTX_U32,
    PTX_U64,
    PTX_S8,
    PTX_S16,
    PTX_S32,
    PTX_S64,
    PTX_F16,
    PTX_F16X2,
    PTX_BF16,
    PTX_BF16X2,
    PTX_TF32,
    PTX_F32,
    PTX_F64,
    PTX_U16X2,
    PTX_S16X2,
    PTX_F32X2,
    PTX_E4M3X2,
    PTX_E5M2X2,
    PTX_E2M3X2,
    PTX_E3M2X2,
    PTX_E2M1X2,
    PTX_TEXREF,
    PTX_SAMPLERREF,
    PTX_SURFREF,
    PTX_TYPE_COUNT
} ptx_type_t;

typedef enum {
    PTX_SPACE_GENERIC = 0,
    PTX_SPACE_GLOBAL,
    PTX_SPACE_CONST,
    PTX_SPACE_SHARED,
    PTX_SPACE_LOCAL,
    PTX_SPACE_PARAM, /* a kernel's or a function's parameters, and the arguments of calls */
    PTX_SPACE_TEX,
    PTX_SPACE_COUNT
} ptx_space_t;

/* Every opcode that the parser knows. An instruction's modifiers are in its other fields; where two
 * opcodes of PTX differ only by the dot words that follow, there is one enumerator. */
typedef enum {
    PTX_OP_INVALID = 0,
    /* integer arithmetic; mode = ptx_mul_mode_t for mul, mad, mul24, mad24 */
    PTX_OP_ADD, /* integer and floating point alike: look at the type */
    PTX_OP_SUB,
    PTX_OP_MUL,
    PTX_OP_MAD,
    PTX_OP_MUL24,
    PTX_OP_MAD24,
    PTX_OP_SAD,
    PTX_OP_DIV,
    PTX_OP_REM,
    PTX_OP_ABS,
    PTX_OP_NEG,
    PTX_OP_MIN,
    PTX_OP_MAX,
    PTX_OP_ADDC, /* with PTX_F_CC when the carry is written too */
    PTX_OP_SUBC,
    PTX_OP_MADC,
    PTX_OP_POPC,
    PTX_OP_CLZ,
    PTX_OP_BFIND, /* PTX_F_SHIFTAMT */
    PTX_OP_FNS,
    PTX_OP_BREV,
    PTX_OP_BFE,
    PTX_OP_BFI,
    PTX_OP_SZEXT,
    PTX_OP_BMSK,
    PTX_OP_DP4A,
    PTX_OP_DP2A,
    /* logic and shifts */
    PTX_OP_AND,
    PTX_OP_OR,
    PTX_OP_XOR,
    PTX_OP_NOT,
    PTX_OP_CNOT,
    PTX_OP_LOP3,
    PTX_OP_SHL,
    PTX_OP_SHR,
    PTX_OP_SHF,  /* mode = ptx_shf_mode_t */
    PTX_OP_PRMT, /* mode = ptx_prmt_mode_t */
    /* floating point */
    PTX_OP_FMA,
    PTX_OP_RCP,
    PTX_OP_SQRT,
    PTX_OP_RSQRT,
    PTX_OP_SIN,
    PTX_OP_COS,
    PTX_OP_LG2,
    PTX_OP_EX2,
    PTX_OP_TANH,
    PTX_OP_COPYSIGN,
    PTX_OP_TESTP, /* mode = ptx_testp_mode_t */
    /* comparison and selection */
    PTX_OP_SETP,
    PTX_OP_SET, /* type = result, type2 = operands */
    PTX_OP_SELP,
    PTX_OP_SLCT, /* type = values, type2 = selector */
    /* movement */
    PTX_OP_MOV,  /* also of addresses, special registers, and vectors: packing and unpacking */
    PTX_OP_CVT,  /* type = result, type2 = source */
    PTX_OP_PACK, /* cvt.pack: the types are in the mnemonic */
    PTX_OP_CVTA, /* space; PTX_F_TO: from generic to the space */
    PTX_OP_ISSPACEP,
    PTX_OP_LD,
    PTX_OP_LDU,
    PTX_OP_ST,
    PTX_OP_PREFETCH,
    PTX_OP_PREFETCHU,
    PTX_OP_CREATEPOLICY,
    PTX_OP_DISCARD,
    PTX_OP_APPLYPRIORITY,
    PTX_OP_MAPA,
    PTX_OP_GETCTARANK,
    PTX_OP_ISTYPEP,
    PTX_OP_ALLOCA,
    PTX_OP_STACKSAVE,
    PTX_OP_STACKRESTORE,
    /* control */
    PTX_OP_BRA,
    PTX_OP_BRX, /* brx.idx: its targets are the block's successors, in order of the index */
    PTX_OP_CALL,
    PTX_OP_RET,
    PTX_OP_EXIT,
    PTX_OP_TRAP,
    PTX_OP_BRKPT,
    PTX_OP_PMEVENT,
    PTX_OP_NANOSLEEP,
    PTX_OP_SETMAXNREG,
    PTX_OP_GRIDDEPCONTROL,
    PTX_OP_ELECT,
    /* synchronisation and warps */
    PTX_OP_BAR,         /* bar.sync/arrive/red and barrier(.cta); mode = ptx_bar_mode_t */
    PTX_OP_BAR_WARP,    /* bar.warp.sync */
    PTX_OP_BAR_CLUSTER, /* barrier.cluster.arrive; wait is a BAR on PTX_BARRIER_CLUSTER */
    PTX_OP_MEMBAR,      /* membar and fence: sem, scope */
    PTX_OP_ATOM,        /* mode = ptx_atom_mode_t */
    PTX_OP_RED,         /* the same without a destination */
    PTX_OP_SHFL,        /* mode = ptx_shfl_mode_t; PTX_F_SYNC */
    PTX_OP_VOTE,        /* mode = ptx_vote_mode_t; PTX_F_SYNC */
    PTX_OP_MATCH,       /* mode = ptx_vote_mode_t: ANY or ALL */
    PTX_OP_REDUX,       /* mode = ptx_atom_mode_t */
    PTX_OP_ACTIVEMASK,
    /* textures and surfaces; vec = components, mode = ptx_tex_geometry_t */
    PTX_OP_TEX,
    PTX_OP_TLD4,
    PTX_OP_TXQ,
    PTX_OP_SULD,
    PTX_OP_SUST,
    PTX_OP_SURED,
    PTX_OP_SUQ,
    /* matrices and asynchronous copies: the dot words are in the mnemonic */
    PTX_OP_WMMA,
    PTX_OP_MMA,
    PTX_OP_LDMATRIX,
    PTX_OP_STMATRIX,
    PTX_OP_MOVMATRIX,
    PTX_OP_CP,
    PTX_OP_MBARRIER,
    /* video */
    PTX_OP_VIDEO, /* vadd, vsub, vabsdiff, vmin, vmax, vshl, vshr, vmad, vset and their 2/4 forms */
    /* never in a text: what lowering makes of calls of the runtime; mode = ptx_runtime_t, one 64-bit
     * destination, 64-bit sources */
    PTX_OP_RUNTIME,
    PTX_OP_COUNT
} ptx_op_t;

/* Functions that no module defines: the device's runtime has them. */
typedef enum {
    PTX_RT_NONE = 0,
    PTX_RT_VPRINTF,    /* format, arguments: generic addresses; gives the number of arguments */
    PTX_RT_ASSERTFAIL, /* message, file, line, function, character size */
    PTX_RT_MALLOC,
    PTX_RT_FREE
} ptx_runtime_t;

/* Mode of trap: of those that lowering makes, what is wrong. */
typedef enum { PTX_TRAP_PLAIN = 0, PTX_TRAP_PC, PTX_TRAP_STACK } ptx_trap_mode_t;

typedef enum { PTX_MUL_NONE = 0, PTX_MUL_LO, PTX_MUL_HI, PTX_MUL_WIDE } ptx_mul_mode_t;
typedef enum {
    PTX_SHF_NONE = 0,
    PTX_SHF_L_CLAMP,
    PTX_SHF_L_WRAP,
    PTX_SHF_R_CLAMP,
    PTX_SHF_R_WRAP
} ptx_shf_mode_t;
typedef enum {
    PTX_PRMT_INDEX = 0,
    PTX_PRMT_F4E,
    PTX_PRMT_B4E,
    PTX_PRMT_RC8,
    PTX_PRMT_ECL,
    PTX_PRMT_ECR,
    PTX_PRMT_RC16
} ptx_prmt_mode_t;
typedef enum {
    PTX_TESTP_NONE = 0,
    PTX_TESTP_FINITE,
    PTX_TESTP_INFINITE,
    PTX_TESTP_NUMBER,
    PTX_TESTP_NOTANUMBER,
    PTX_TESTP_NORMAL,
    PTX_TESTP_SUBNORMAL
} ptx_testp_mode_t;
/* Clusters have one CTA here: a thread that waits for its cluster waits for its CTA, at a barrier of its
 * own. */
enum { PTX_BARRIER_CLUSTER = 16 };
typedef enum { PTX_BAR_SYNC = 0, PTX_BAR_ARRIVE, PTX_BAR_RED, PTX_BAR_WAIT } ptx_bar_mode_t;
typedef enum {
    PTX_ATOM_NONE = 0,
    PTX_ATOM_ADD,
    PTX_ATOM_MIN,
    PTX_ATOM_MAX,
    PTX_ATOM_AND,
    PTX_ATOM_OR,
    PTX_ATOM_XOR,
    PTX_ATOM_EXCH,
    PTX_ATOM_CAS,
    PTX_ATOM_INC,
    PTX_ATOM_DEC,
    PTX_ATOM_POPC /* bar.red.popc */
} ptx_atom_mode_t;
typedef enum {
    PTX_SHFL_NONE = 0,
    PTX_SHFL_UP,
    PTX_SHFL_DOWN,
    PTX_SHFL_BFLY,
    PTX_SHFL_IDX
} ptx_shfl_mode_t;
typedef enum {
    PTX_VOTE_NONE = 0,
    PTX_VOTE_ALL,
    PTX_VOTE_ANY,
    PTX_VOTE_UNI,
    PTX_VOTE_BALLOT
} ptx_vote_mode_t;
typedef enum {
    PTX_TEX_NONE = 0,
    PTX_TEX_1D,
    PTX_TEX_2D,
    PTX_TEX_3D,
    PTX_TEX_A1D,
    PTX_TEX_A2D,
    PTX_TEX_CUBE,
    PTX_TEX_ACUBE,
    PTX_TEX_2DMS,
    PTX_TEX_A2DMS
} ptx_tex_geometry_t;

typedef enum {
    PTX_ROUND_NONE = 0,
    PTX_ROUND_RN, /* floating-point result */
    PTX_ROUND_RZ,
    PTX_ROUND_RM,
    PTX_ROUND_RP,
    PTX_ROUND_RNA,
    PTX_ROUND_RNI, /* to an integral value */
    PTX_ROUND_RZI,
    PTX_ROUND_RMI,
    PTX_ROUND_RPI
} ptx_round_t;

/* lo, ls, hi and hs compare unsigned whatever the type says. */
typedef enum {
    PTX_CMP_NONE = 0,
    PTX_CMP_EQ,
    PTX_CMP_NE,
    PTX_CMP_LT,
    PTX_CMP_LE,
    PTX_CMP_GT,
    PTX_CMP_GE,
    PTX_CMP_LO,
    PTX_CMP_LS,
    PTX_CMP_HI,
    PTX_CMP_HS,
    PTX_CMP_EQU,
    PTX_CMP_NEU,
    PTX_CMP_LTU,
    PTX_CMP_LEU,
    PTX_CMP_GTU,
    PTX_CMP_GEU,
    PTX_CMP_NUM,
    PTX_CMP_NAN
} ptx_cmp_t;

/* Combines the comparison with a predicate (setp, set: the source after the two compared). */
typedef enum { PTX_BOOL_NONE = 0, PTX_BOOL_AND, PTX_BOOL_OR, PTX_BOOL_XOR } ptx_bool_t;

typedef enum {
    PTX_SEM_NONE = 0, /* weak */
    PTX_SEM_VOLATILE,
    PTX_SEM_RELAXED,
    PTX_SEM_ACQUIRE,
    PTX_SEM_RELEASE,
    PTX_SEM_ACQ_REL,
    PTX_SEM_SC,
    PTX_SEM_MMIO
} ptx_sem_t;

/* membar.cta/gl/sys give CTA/GPU/SYS. */
typedef enum {
    PTX_SCOPE_NONE = 0,
    PTX_SCOPE_CTA,
    PTX_SCOPE_CLUSTER,
    PTX_SCOPE_GPU,
    PTX_SCOPE_SYS
} ptx_scope_t;

typedef enum {
    PTX_CACHE_NONE = 0,
    PTX_CACHE_CA,
    PTX_CACHE_CG,
    PTX_CACHE_CS,
    PTX_CACHE_LU,
    PTX_CACHE_CV,
    PTX_CACHE_WB,
    PTX_CACHE_WT
} ptx_cache_t;

/* Bits of ptx_instr_t.flags. */
enum {
    PTX_F_FTZ = 1u << 0,
    PTX_F_SAT = 1u << 1,
    PTX_F_APPROX = 1u << 2,
    PTX_F_FULL = 1u << 3,
    PTX_F_CC = 1u << 4,   /* writes the condition code */
    PTX_F_UNI = 1u << 5,  /* bra.uni, call.uni, ret.uni: a promise, not an order */
    PTX_F_SYNC = 1u << 6, /* shfl.sync, vote.sync, match.sync: the last source is the member mask */
    PTX_F_ALIGNED = 1u << 7,
    PTX_F_NC = 1u << 8, /* ld.global.nc */
    PTX_F_TO = 1u << 9, /* cvta.to */
    PTX_F_SHIFTAMT = 1u << 10,
    PTX_F_NAN = 1u << 11, /* min/max.NaN */
    PTX_F_XORSIGN = 1u << 12,
    PTX_F_ABS = 1u << 13, /* min/max.xorsign.abs, redux.abs */
    PTX_F_RELU = 1u << 14,
    PTX_F_CLAMP = 1u << 15, /* szext, bmsk; else wrap */
    PTX_F_NOFTZ = 1u << 16,
    PTX_F_OOB = 1u << 17,
    PTX_F_SATFINITE = 1u << 18
};

typedef enum {
    PTX_SREG_NONE = 0,
    PTX_SREG_TID_X,
    PTX_SREG_TID_Y,
    PTX_SREG_TID_Z,
    PTX_SREG_NTID_X,
    PTX_SREG_NTID_Y,
    PTX_SREG_NTID_Z,
    PTX_SREG_CTAID_X,
    PTX_SREG_CTAID_Y,
    PTX_SREG_CTAID_Z,
    PTX_SREG_NCTAID_X,
    PTX_SREG_NCTAID_Y,
    PTX_SREG_NCTAID_Z,
    PTX_SREG_LANEID,
    PTX_SREG_WARPID,
    PTX_SREG_NWARPID,
    PTX_SREG_SMID,
    PTX_SREG_NSMID,
    PTX_SREG_GRIDID,
    PTX_SREG_LANEMASK_EQ,
    PTX_SREG_LANEMASK_LE,
    PTX_SREG_LANEMASK_LT,
    PTX_SREG_LANEMASK_GE,
    PTX_SREG_LANEMASK_GT,
    PTX_SREG_CLOCK,
    PTX_SREG_CLOCK_HI,
    PTX_SREG_CLOCK64,
    PTX_SREG_GLOBALTIMER,
    PTX_SREG_GLOBALTIMER_LO,
    PTX_SREG_GLOBALTIMER_HI,
    PTX_SREG_TOTAL_SMEM_SIZE,
    PTX_SREG_DYNAMIC_SMEM_SIZE,
    PTX_SREG_AGGR_SMEM_SIZE,
    PTX_SREG_ENVREG, /* operand's value = number */
    PTX_SREG_PM,     /* operand's value = number */
    PTX_SREG_PM64,   /* operand's value = number */
    PTX_SREG_IS_EXPLICIT_CLUSTER,
    PTX_SREG_CLUSTERID_X,
    PTX_SREG_CLUSTERID_Y,
    PTX_SREG_CLUSTERID_Z,
    PTX_SREG_NCLUSTERID_X,
    PTX_SREG_NCLUSTERID_Y,
    PTX_SREG_NCLUSTERID_Z,
    PTX_SREG_CLUSTER_CTAID_X,
    PTX_SREG_CLUSTER_CTAID_Y,
    PTX_SREG_CLUSTER_CTAID_Z,
    PTX_SREG_CLUSTER_NCTAID_X,
    PTX_SREG_CLUSTER_NCTAID_Y,
    PTX_SREG_CLUSTER_NCTAID_Z,
    PTX_SREG_CLUSTER_CTARANK,
    PTX_SREG_CLUSTER_NCTARANK,
    PTX_SREG_CURRENT_GRAPH_EXEC,
    PTX_SREG_RESERVED_SMEM, /* %reserved_smem_*; in code it is a variable: PTX_RESERVED_SHARED */
    PTX_SREG_COUNT
} ptx_sreg_t;

typedef enum {
    PTX_OPERAND_NONE = 0, /* an absent one, e.g. a call without a result */
    PTX_OPERAND_SINK,     /* _ : the value is dropped (destination) or unspecified */
    PTX_OPERAND_REG,      /* index = register; negated: !p */
    PTX_OPERAND_IMM,      /* value, see below */
    PTX_OPERAND_SREG,     /* index = ptx_sreg_t */
    PTX_OPERAND_VAR,     /* index = variable, value = offset: the address of it, within its space */
    PTX_OPERAND_FUNC,    /* index = function: its address, or the callee */
    PTX_OPERAND_ADDRESS, /* [base + value]; base says what index is: REG, VAR, or IMM (none) */
    PTX_OPERAND_VECTOR,  /* index = first of `count` operands in ptx_function_t.operands */
    PTX_OPERAND_BLOCK,   /* index = basic block */
    PTX_OPERAND_TABLE,   /* index = branch or call table */
    PTX_OPERAND_PROTO    /* index = call prototype */
} ptx_operand_kind_t;

/* An immediate's `value`: in an instruction that reads the operand as f32 (f64, f16, bf16) the bit
 * pattern of that type, zero-extended; else the integer, as written, in 64-bit two's complement:
 * use the low bits that the type asks for. */
typedef struct {
    uint8_t kind;    /* ptx_operand_kind_t */
    uint8_t base;    /* ADDRESS: ptx_operand_kind_t of what index means; REG: see below */
    uint8_t count;   /* VECTOR: elements; REG: see below */
    uint8_t negated; /* REG of a predicate written with !, of a vmad with - */
    uint32_t index;
    uint64_t value; /* immediate, or signed offset; REG: see below */
} ptx_operand_t;

/* Parts of a register (video instructions only): `base` is 'b' or 'h', else 0. ".b3" and ".h1" have
 * count 1 and value 3 or 1; the selectors and masks of the 2 and 4 forms have one hexadecimal digit
 * for each of count elements, as written: ".b7531" is 0x7531. */

static inline int64_t ptx_operand_offset(const ptx_operand_t *o)
{
    return (int64_t)o->value;
}

/* Operands: `dst_count` destinations first, then the sources in PTX's order. All are in
 * ptx_function_t.operands from `operand_first` on; see ptx_dst() and ptx_src().
 *   setp, set, shfl, match, elect   p|q gives two destinations
 *   .cc            the carry is a second destination; addc, subc, madc: and a last source, a
 *                  predicate register of the function's that has no name in the text
 *   ld, atom       dst, address, further sources
 *   st, red        address, value...       (no destination)
 *   call           1 destination: VECTOR of VAR or REG (NONE without result), one, or as many as
 *                  a function of old PTX has that returns in registers;
 *                  sources: callee (FUNC, REG), VECTOR of VAR, REG and IMM (NONE without), as
 *                  many as it has parameters, and for an indirect call its TABLE or PROTO
 *   bra            source: BLOCK;  brx: index register, TABLE
 *   bar            sources as written: barrier, thread count, (red:) predicate
 *   tex            dst VECTOR; sources: texture, sampler (NONE), coordinates, further ones
 * Destination vectors may contain SINK. */
typedef struct {
    uint16_t op;    /* ptx_op_t */
    uint8_t type;   /* ptx_type_t: of the operation, and of the destination */
    uint8_t type2;  /* ptx_type_t: cvt, set, slct, dp4a, tex...: of the sources; else NONE */
    uint8_t mode;   /* depends on op, see ptx_op_t */
    uint8_t round;  /* ptx_round_t */
    uint8_t cmp;    /* ptx_cmp_t */
    uint8_t boolop; /* ptx_bool_t */
    uint8_t space;  /* ptx_space_t */
    uint8_t vec;    /* 1, 2, 4 or 8: elements of ld, st, tex, ... */
    uint8_t cache;  /* ptx_cache_t: a hint */
    uint8_t sem;    /* ptx_sem_t */
    uint8_t scope;  /* ptx_scope_t */
    uint8_t reduce; /* ptx_atom_mode_t of bar.red: AND, OR, POPC */
    uint8_t dst_count;
    uint8_t src_count;
    uint32_t flags;        /* PTX_F_* */
    uint32_t guard;        /* predicate register @p, or PTX_NONE */
    uint8_t guard_negated; /* @!p */
    uint32_t line;         /* in the PTX text, from 1 */
    uint32_t operand_first;
    const char *mnemonic; /* as written, with all dot words */
} ptx_instr_t;

typedef struct {
    const char *name; /* of a range: without the number, see ptx_reg_name */
    uint32_t number;  /* PTX_NONE if not of a range */
    uint8_t type;     /* ptx_type_t as declared */
} ptx_reg_t;

/* Instructions run straight through a block; only its last one branches, returns or is a CTA
 * barrier (bar/barrier: the block is cut behind it). With a guarded branch succ[0] is the target,
 * succ[1] the next block. A brx has its targets in succ_table. Blocks are in the order of the text;
 * block 0 is the entry. A function that runs off its end gets an explicit, unguarded ret. */
typedef struct {
    uint32_t first; /* instruction */
    uint32_t count; /* at least 1 */
    uint32_t succ_count;
    uint32_t succ[2]; /* for succ_count <= 2 and no table */
    uint32_t
        succ_table;    /* brx: index of the table; its distinct targets, then succ[0] if guarded */
    const char *label; /* or NULL */
} ptx_block_t;

/* .branchtargets (blocks) or .calltargets (functions). */
typedef struct {
    bool of_functions;
    uint32_t count;
    const uint32_t *entries;
} ptx_table_t;

/* The initial value (ptx_var_t.init) of a .texref or .samplerref; what it does not say is UNSET. */
enum { PTX_OPAQUE_UNSET = 255 };
typedef enum {
    PTX_ADDRESS_WRAP = 0,
    PTX_ADDRESS_MIRROR,
    PTX_ADDRESS_CLAMP_OGL,
    PTX_ADDRESS_CLAMP_TO_EDGE,
    PTX_ADDRESS_CLAMP_TO_BORDER
} ptx_address_mode_t;
typedef struct {
    uint8_t address[3];   /* ptx_address_mode_t */
    uint8_t filter;       /* 0 nearest, 1 linear */
    uint8_t unnormalised; /* force_unnormalized_coords */
    uint8_t normalised;   /* normalized_coords */
    uint8_t reserved[2];
} ptx_opaque_t;

/* A relocation in an initialised variable: the 8 (or 4) bytes at `offset` hold the address of a
 * variable or function + addend. */
typedef struct {
    uint64_t offset;
    int64_t addend;
    uint32_t var;      /* or PTX_NONE */
    uint32_t function; /* or PTX_NONE */
    uint8_t size;      /* bytes: 4 or 8; 1 with mask() */
    uint8_t shift;     /* mask(): the byte is (address >> shift) & 255; else 0 */
    bool generic;      /* generic(sym): the address in the generic space, else within its space */
} ptx_reloc_t;

typedef enum {
    PTX_LINK_LOCAL = 0, /* this module only */
    PTX_LINK_VISIBLE,
    PTX_LINK_EXTERN, /* defined elsewhere */
    PTX_LINK_WEAK,
    PTX_LINK_COMMON
} ptx_linkage_t;

/* A variable of any space; kernel and function parameters and the .param arguments of calls too. */
typedef struct {
    const char *name;
    uint8_t space;   /* ptx_space_t */
    uint8_t type;    /* ptx_type_t of an element */
    uint8_t linkage; /* ptx_linkage_t */
    bool managed;    /* .attribute(.managed) */
    bool dynamic;    /* .extern .shared x[]: starts behind the static shared memory */
    bool pointer;    /* parameter: declared .ptr; space of what it points at in `pointee` */
    uint8_t pointee;
    uint32_t align;  /* bytes, a power of two */
    uint64_t size;   /* bytes; 0 if open-ended */
    uint64_t offset; /* parameter: in the parameter block; local: in the function's frame; .param of
                        a call: in its argument frame; shared: use ptx_shared_offset */
    uint32_t owner;  /* function, or PTX_NONE at module scope */
    const uint8_t *init;  /* `size` bytes, or NULL: zeros */
    uint32_t reloc_first; /* in ptx_module_t.relocs */
    uint32_t reloc_count;
    uint32_t line;
} ptx_var_t;

/* Bytes of shared memory that a kernel gets on top of its own if it reads %reserved_smem_offset_*. */
enum { PTX_RESERVED_SHARED = 1024 };
#define PTX_RESERVED_NAME "%reserved_smem"

typedef struct {
    uint32_t var;
    uint64_t offset; /* in the CTA's shared memory */
} ptx_shared_slot_t;

/* The shape of an indirect callee. */
typedef struct {
    const char *name;
    uint32_t result_count; /* 0 or 1 */
    uint32_t param_count;
    const ptx_var_t *params; /* results first */
    bool noreturn;
} ptx_proto_t;

typedef struct {
    const char *name;
    bool is_kernel;
    bool defined; /* has a body */
    bool noreturn;
    uint8_t linkage; /* ptx_linkage_t */
    uint32_t line;

    /* Parameters: variables [param_first, +param_count); results likewise (functions only; space
     * PARAM; the parser turns .reg parameters into these). */
    uint32_t param_first, param_count;
    uint32_t result_first, result_count;
    uint64_t param_size; /* bytes of the kernel's parameter block */

    uint32_t max_ntid[3];    /* .maxntid, 0 = not given */
    uint32_t req_ntid[3];    /* .reqntid, 0 = not given */
    uint32_t min_cta_per_sm; /* .minnctapersm, 0 = not given */
    uint32_t max_nreg;       /* .maxnreg, 0 = not given */
    uint32_t req_cluster[3]; /* .reqnctapercluster, 0 = not given */

    /* Kernels: every static .shared variable that the kernel or what it calls refers to. */
    uint64_t shared_size; /* bytes of static shared memory, reserved ones included */
    uint64_t
        shared_reserved;   /* of these: the kernel's static shared memory, for users, is the rest */
    uint32_t shared_align; /* of the static part, at least 16 */
    bool uses_dynamic_shared;
    uint32_t dynamic_align; /* of what follows; dynamic begins at shared_size rounded up to it */
    uint32_t shared_count;
    const ptx_shared_slot_t *shared; /* sorted by var */

    uint64_t local_size; /* bytes of .local variables: the thread's frame in this function */
    uint32_t local_align;
    uint64_t args_size; /* bytes of .param variables declared in the body (arguments of calls) */

    uint32_t reg_count;
    const ptx_reg_t *regs; /* only those that occur in instructions */
    uint32_t instr_count;
    const ptx_instr_t *instrs;
    uint32_t operand_count;
    const ptx_operand_t *operands;
    uint32_t block_count;
    const ptx_block_t *blocks;
    uint32_t table_count;
    const ptx_table_t *tables;
    uint32_t proto_count;
    const ptx_proto_t *protos;
    uint32_t callee_count;
    const uint32_t *callees; /* functions called or whose address is taken, each once */
    bool calls_indirect;
    bool has_barrier; /* a CTA barrier in its own body */
    uint32_t aliased; /* .alias: index + 1 of the function whose body this is; else 0 */
} ptx_function_t;

typedef struct ptx_module {
    uint32_t isa_major, isa_minor; /* .version */
    const char *target;            /* "sm_75", "sm_90a" */
    uint32_t sm;                   /* 75, 90 */
    uint32_t address_size;         /* 32 or 64; only 64 parses */
    bool debug;
    uint32_t identity; /* of the text, so that function addresses of two modules differ */

    uint32_t var_count;
    const ptx_var_t *vars; /* of every scope */
    uint32_t reloc_count;
    const ptx_reloc_t *relocs;
    uint32_t function_count;
    const ptx_function_t *functions;
} ptx_module_t;

static inline const ptx_operand_t *ptx_dst(const ptx_function_t *f, const ptx_instr_t *i,
                                           unsigned n)
{
    return &f->operands[i->operand_first + n];
}

static inline const ptx_operand_t *ptx_src(const ptx_function_t *f, const ptx_instr_t *i,
                                           unsigned n)
{
    return &f->operands[i->operand_first + i->dst_count + n];
}

/* Element n of a VECTOR operand. */
static inline const ptx_operand_t *ptx_element(const ptx_function_t *f, const ptx_operand_t *vector,
                                               unsigned n)
{
    return &f->operands[vector->index + n];
}

/* Bytes of one value of a type: predicates 1, opaque references 8. */
unsigned ptx_type_size(ptx_type_t type);
bool ptx_type_is_float(ptx_type_t type);  /* f16 to f64, bf16, tf32 and packed ones */
bool ptx_type_is_signed(ptx_type_t type); /* s8 to s64, s16x2 */

/* "f32", "mad", "shared", "%tid.x", for messages. Never NULL. */
const char *ptx_type_name(ptx_type_t type);
const char *ptx_op_name(ptx_op_t op);
const char *ptx_space_name(ptx_space_t space);
const char *ptx_sreg_name(ptx_sreg_t sreg);

/* Writes the register's name as in the text. */
void ptx_reg_name(const ptx_function_t *f, uint32_t reg, char *out, size_t size);

/* Function or variable of module scope by name; PTX_NONE if there is none. O(1). */
uint32_t ptx_module_function(const ptx_module_t *m, const char *name);
uint32_t ptx_module_var(const ptx_module_t *m, const char *name);

/* What stands for the address of a function: a number that says which module and which function. Never
 * 0, never the address of anything. */
static inline uint64_t ptx_function_code(const ptx_module_t *m, uint32_t index)
{
    uint32_t aliased = m->functions[index].aliased;
    return (uint64_t)m->identity << 24 | ((aliased != 0 ? aliased : index + 1) & 0xffffffu);
}

/* The runtime's function of that name; PTX_RT_NONE if it has none. */
ptx_runtime_t ptx_runtime_by_name(const char *name);

/* Offset of a static .shared variable in the kernel's shared memory; the dynamic one gives where
 * the dynamic part begins. UINT64_MAX if the kernel does not use it. */
uint64_t ptx_shared_offset(const ptx_module_t *m, const ptx_function_t *kernel, uint32_t var);

#endif

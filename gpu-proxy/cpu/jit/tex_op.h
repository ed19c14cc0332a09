/* tex_op.h - what a texture or surface instruction asks for, read off its mnemonic once. No LLVM. */
#ifndef CPU_TEX_OP_H
#define CPU_TEX_OP_H

#include "gpu-proxy/cpu/jit/texture.h"
#include "gpu-proxy/cpu/ptx/ptx_ir.h"

typedef enum { CPU_SURF_TRAP = 0, CPU_SURF_CLAMP, CPU_SURF_ZERO } cpu_surf_bound_t;

/* txq and suq. */
typedef enum {
    CPU_QUERY_NONE = 0,
    CPU_QUERY_WIDTH,
    CPU_QUERY_HEIGHT,
    CPU_QUERY_DEPTH,
    CPU_QUERY_DATA_TYPE,
    CPU_QUERY_ORDER,
    CPU_QUERY_NORMALISED,
    CPU_QUERY_LAYERS,
    CPU_QUERY_LEVELS,
    CPU_QUERY_SAMPLES,
    CPU_QUERY_LAYOUT,
    CPU_QUERY_FILTER,
    CPU_QUERY_ADDRESS_0,
    CPU_QUERY_ADDRESS_1,
    CPU_QUERY_ADDRESS_2,
    CPU_QUERY_UNNORMALISED
} cpu_query_t;

typedef struct {
    uint16_t op;         /* ptx_op_t: TEX, TLD4, TXQ, SULD, SUST, SURED, SUQ */
    uint8_t geometry;    /* ptx_tex_geometry_t */
    uint8_t how;         /* cpu_tex_how_t */
    uint8_t component;   /* of tld4 */
    bool integer;        /* coordinates are .s32 */
    bool of_level;       /* txq.level */
    bool formatted;      /* sust.p, sured.p */
    uint8_t bound;       /* cpu_surf_bound_t */
    uint8_t atom;        /* sured: ptx_atom_mode_t */
    uint8_t query;       /* cpu_query_t */
    uint8_t coordinates; /* how many, without the layer */
    bool layered;
} cpu_tex_op_t;

/* False if a word of the mnemonic is not known. */
bool cpu_tex_op(const ptx_instr_t *i, cpu_tex_op_t *op);

/* ---- what generated code hands to the helpers ---- */

/* The function's buffer as texture helpers see it: per lane, and words per argument. */
enum {
    CPU_TEX_ARG_GRADIENT = 0, /* dx.x dx.y dx.z dy.x dy.y dy.z; the level stands in the first */
    CPU_TEX_ARG_OFFSET = 6,
    CPU_TEX_ARG_AT = 9, /* x, y, z */
    CPU_TEX_ARG_LAYER = 12,
    CPU_TEX_ARGS = 16,
};

typedef struct cpu_tex_args {
    uint64_t handles[32], samplers[32];
    uint8_t unused[512];
    uint32_t args[CPU_TEX_ARGS][32]; /* results and a surface's data: from 0 on */
} cpu_tex_args_t;

/* The constant of an instruction. */
typedef struct cpu_tex_what {
    cpu_tex_op_t op;
    uint8_t one_handle; /* handles[0] serves all lanes */
    uint8_t sampler;    /* there is one of its own */
    uint8_t offset;     /* tex, tld4: with an offset */
    uint8_t wide;       /* the code is for AVX-512 */
    uint8_t type;       /* ptx_type_t of the data */
    uint8_t count;      /* surfaces: elements */
} cpu_tex_what_t;

#endif

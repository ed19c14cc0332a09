#include "gpu-proxy/cpu/ptx/ptx_opcode.h"

#include <stdio.h>
#include <string.h>

/* What a dot word can mean. The same word can stand in several rows: the first row of a class that
 * the opcode allows decides (".and" is a boolean of setp and an operation of atom). */
enum {
    C_ROUND = 1u << 0,
    C_CMP = 1u << 1,
    C_BOOL = 1u << 2,
    C_SPACE = 1u << 3,
    C_VEC = 1u << 4,
    C_CACHE = 1u << 5,
    C_SEM = 1u << 6,
    C_SCOPE = 1u << 7,
    C_MUL = 1u << 8,
    C_SHF = 1u << 9,
    C_PRMT = 1u << 10,
    C_TESTP = 1u << 11,
    C_BAR = 1u << 12,
    C_ATOM = 1u << 13,
    C_SHFL = 1u << 14,
    C_VOTE = 1u << 15,
    C_TEX = 1u << 16,
    C_REDUCE = 1u << 17,
    C_FLAG = 1u << 18,
    C_HINT = 1u << 19,  /* changes nothing that is seen */
    C_LOOSE = 1u << 20, /* opcode: other words are kept in the mnemonic only */
    C_MEM = C_SPACE | C_VEC | C_CACHE | C_SEM | C_SCOPE | C_HINT,
};

static const struct {
    const char *word;
    uint32_t class;
    uint32_t value;
} words[] = {
    {"rn", C_ROUND, PTX_ROUND_RN},
    {"rz", C_ROUND, PTX_ROUND_RZ},
    {"rm", C_ROUND, PTX_ROUND_RM},
    {"rp", C_ROUND, PTX_ROUND_RP},
    {"rna", C_ROUND, PTX_ROUND_RNA},
    {"rni", C_ROUND, PTX_ROUND_RNI},
    {"rzi", C_ROUND, PTX_ROUND_RZI},
    {"rmi", C_ROUND, PTX_ROUND_RMI},
    {"rpi", C_ROUND, PTX_ROUND_RPI},
    {"eq", C_CMP, PTX_CMP_EQ},
    {"ne", C_CMP, PTX_CMP_NE},
    {"lt", C_CMP, PTX_CMP_LT},
    {"le", C_CMP, PTX_CMP_LE},
    {"gt", C_CMP, PTX_CMP_GT},
    {"ge", C_CMP, PTX_CMP_GE},
    {"lo", C_CMP, PTX_CMP_LO},
    {"ls", C_CMP, PTX_CMP_LS},
    {"hi", C_CMP, PTX_CMP_HI},
    {"hs", C_CMP, PTX_CMP_HS},
    {"equ", C_CMP, PTX_CMP_EQU},
    {"neu", C_CMP, PTX_CMP_NEU},
    {"ltu", C_CMP, PTX_CMP_LTU},
    {"leu", C_CMP, PTX_CMP_LEU},
    {"gtu", C_CMP, PTX_CMP_GTU},
    {"geu", C_CMP, PTX_CMP_GEU},
    {"num", C_CMP, PTX_CMP_NUM},
    {"nan", C_CMP, PTX_CMP_NAN},
    {"and", C_BOOL, PTX_BOOL_AND},
    {"or", C_BOOL, PTX_BOOL_OR},
    {"xor", C_BOOL, PTX_BOOL_XOR},
    {"global", C_SPACE, PTX_SPACE_GLOBAL},
    {"const", C_SPACE, PTX_SPACE_CONST},
    {"shared", C_SPACE, PTX_SPACE_SHARED},
    {"shared::cta", C_SPACE, PTX_SPACE_SHARED},
    {"shared::cluster", C_SPACE, PTX_SPACE_SHARED}, /* clusters have one CTA */
    {"local", C_SPACE, PTX_SPACE_LOCAL},
    {"param", C_SPACE, PTX_SPACE_PARAM},
    {"param::entry", C_SPACE, PTX_SPACE_PARAM},
    {"param::func", C_SPACE, PTX_SPACE_PARAM},
    {"v2", C_VEC, 2},
    {"v4", C_VEC, 4},
    {"v8", C_VEC, 8},
    {"ca", C_CACHE, PTX_CACHE_CA},
    {"cg", C_CACHE, PTX_CACHE_CG},
    {"cs", C_CACHE, PTX_CACHE_CS},
    {"lu", C_CACHE, PTX_CACHE_LU},
    {"cv", C_CACHE, PTX_CACHE_CV},
    {"wb", C_CACHE, PTX_CACHE_WB},
    {"wt", C_CACHE, PTX_CACHE_WT},
    {"weak", C_SEM, PTX_SEM_NONE},
    {"volatile", C_SEM, PTX_SEM_VOLATILE},
    {"relaxed", C_SEM, PTX_SEM_RELAXED},
    {"acquire", C_SEM, PTX_SEM_ACQUIRE},
    {"release", C_SEM, PTX_SEM_RELEASE},
    {"acq_rel", C_SEM, PTX_SEM_ACQ_REL},
    {"sc", C_SEM, PTX_SEM_SC},
    {"mmio", C_SEM, PTX_SEM_MMIO},
    {"cta", C_SCOPE, PTX_SCOPE_CTA},
    {"cluster", C_SCOPE, PTX_SCOPE_CLUSTER},
    {"gpu", C_SCOPE, PTX_SCOPE_GPU},
    {"gl", C_SCOPE, PTX_SCOPE_GPU},
    {"sys", C_SCOPE, PTX_SCOPE_SYS},
    {"lo", C_MUL, PTX_MUL_LO},
    {"hi", C_MUL, PTX_MUL_HI},
    {"wide", C_MUL, PTX_MUL_WIDE},
    {"f4e", C_PRMT, PTX_PRMT_F4E},
    {"b4e", C_PRMT, PTX_PRMT_B4E},
    {"rc8", C_PRMT, PTX_PRMT_RC8},
    {"ecl", C_PRMT, PTX_PRMT_ECL},
    {"ecr", C_PRMT, PTX_PRMT_ECR},
    {"rc16", C_PRMT, PTX_PRMT_RC16},
    {"finite", C_TESTP, PTX_TESTP_FINITE},
    {"infinite", C_TESTP, PTX_TESTP_INFINITE},
    {"number", C_TESTP, PTX_TESTP_NUMBER},
    {"notanumber", C_TESTP, PTX_TESTP_NOTANUMBER},
    {"normal", C_TESTP, PTX_TESTP_NORMAL},
    {"subnormal", C_TESTP, PTX_TESTP_SUBNORMAL},
    {"sync", C_BAR, PTX_BAR_SYNC},
    {"arrive", C_BAR, PTX_BAR_ARRIVE},
    {"red", C_BAR, PTX_BAR_RED},
    {"wait", C_BAR, PTX_BAR_WAIT},
    {"add", C_ATOM, PTX_ATOM_ADD},
    {"min", C_ATOM, PTX_ATOM_MIN},
    {"max", C_ATOM, PTX_ATOM_MAX},
    {"and", C_ATOM, PTX_ATOM_AND},
    {"or", C_ATOM, PTX_ATOM_OR},
    {"xor", C_ATOM, PTX_ATOM_XOR},
    {"exch", C_ATOM, PTX_ATOM_EXCH},
    {"cas", C_ATOM, PTX_ATOM_CAS},
    {"inc", C_ATOM, PTX_ATOM_INC},
    {"dec", C_ATOM, PTX_ATOM_DEC},
    {"up", C_SHFL, PTX_SHFL_UP},
    {"down", C_SHFL, PTX_SHFL_DOWN},
    {"bfly", C_SHFL, PTX_SHFL_BFLY},
    {"idx", C_SHFL, PTX_SHFL_IDX},
    {"all", C_VOTE, PTX_VOTE_ALL},
    {"any", C_VOTE, PTX_VOTE_ANY},
    {"uni", C_VOTE, PTX_VOTE_UNI},
    {"ballot", C_VOTE, PTX_VOTE_BALLOT},
    {"1d", C_TEX, PTX_TEX_1D},
    {"2d", C_TEX, PTX_TEX_2D},
    {"3d", C_TEX, PTX_TEX_3D},
    {"a1d", C_TEX, PTX_TEX_A1D},
    {"a2d", C_TEX, PTX_TEX_A2D},
    {"cube", C_TEX, PTX_TEX_CUBE},
    {"acube", C_TEX, PTX_TEX_ACUBE},
    {"2dms", C_TEX, PTX_TEX_2DMS},
    {"a2dms", C_TEX, PTX_TEX_A2DMS},
    {"popc", C_REDUCE, PTX_ATOM_POPC},
    {"and", C_REDUCE, PTX_ATOM_AND},
    {"or", C_REDUCE, PTX_ATOM_OR},
    {"ftz", C_FLAG, PTX_F_FTZ},
    {"sat", C_FLAG, PTX_F_SAT},
    {"approx", C_FLAG, PTX_F_APPROX},
    {"full", C_FLAG, PTX_F_FULL},
    {"cc", C_FLAG, PTX_F_CC},
    {"uni", C_FLAG, PTX_F_UNI},
    {"sync", C_FLAG, PTX_F_SYNC},
    {"aligned", C_FLAG, PTX_F_ALIGNED},
    {"nc", C_FLAG, PTX_F_NC},
    {"to", C_FLAG, PTX_F_TO},
    {"shiftamt", C_FLAG, PTX_F_SHIFTAMT},
    {"NaN", C_FLAG, PTX_F_NAN},
    {"xorsign", C_FLAG, PTX_F_XORSIGN},
    {"abs", C_FLAG, PTX_F_ABS},
    {"relu", C_FLAG, PTX_F_RELU},
    {"clamp", C_FLAG, PTX_F_CLAMP},
    {"noftz", C_FLAG, PTX_F_NOFTZ},
    {"oob", C_FLAG, PTX_F_OOB},
    {"satfinite", C_FLAG, PTX_F_SATFINITE},
    {"wrap", C_HINT, 0},
    {"unified", C_HINT, 0},
};

enum {
    FTZ = PTX_F_FTZ,
    SAT = PTX_F_SAT,
    SYNC = PTX_F_SYNC,
    ALIGNED = PTX_F_ALIGNED,
    FARITH = PTX_F_FTZ | PTX_F_SAT | PTX_F_APPROX | PTX_F_FULL,
    MINMAX = PTX_F_FTZ | PTX_F_NAN | PTX_F_XORSIGN | PTX_F_ABS | PTX_F_RELU,
};

/* Longer names stand before their prefixes. */
static const struct {
    const char *name;
    uint16_t op;
    uint8_t types_min, types_max;
    uint32_t classes;
    uint32_t flags;
    const char *shape;
} opcodes[] = {
    {"add", PTX_OP_ADD, 1, 2, C_ROUND, FTZ | SAT | PTX_F_CC, "t=tt"},
    {"sub", PTX_OP_SUB, 1, 2, C_ROUND, FTZ | SAT | PTX_F_CC, "t=tt"},
    {"mul", PTX_OP_MUL, 1, 1, C_ROUND | C_MUL, FTZ | SAT, "m=tt"},
    {"mad", PTX_OP_MAD, 1, 1, C_ROUND | C_MUL, FTZ | SAT | PTX_F_CC, "m=ttm"},
    {"mul24", PTX_OP_MUL24, 1, 1, C_MUL, 0, "t=tt"},
    {"mad24", PTX_OP_MAD24, 1, 1, C_MUL, SAT, "t=ttt"},
    {"sad", PTX_OP_SAD, 1, 1, 0, 0, "t=ttt"},
    {"div", PTX_OP_DIV, 1, 1, C_ROUND, FARITH, "t=tt"},
    {"rem", PTX_OP_REM, 1, 1, 0, 0, "t=tt"},
    {"abs", PTX_OP_ABS, 1, 1, 0, FTZ, "t=t"},
    {"neg", PTX_OP_NEG, 1, 1, 0, FTZ, "t=t"},
    {"min", PTX_OP_MIN, 1, 1, 0, MINMAX, "t=tt?t"},
    {"max", PTX_OP_MAX, 1, 1, 0, MINMAX, "t=tt?t"},
    {"addc", PTX_OP_ADDC, 1, 1, 0, PTX_F_CC, "t=tt"},
    {"subc", PTX_OP_SUBC, 1, 1, 0, PTX_F_CC, "t=tt"},
    {"madc", PTX_OP_MADC, 1, 1, C_MUL, PTX_F_CC, "t=ttt"},
    {"popc", PTX_OP_POPC, 1, 1, 0, 0, "u=t"},
    {"clz", PTX_OP_CLZ, 1, 1, 0, 0, "u=t"},
    {"bfind", PTX_OP_BFIND, 1, 1, 0, PTX_F_SHIFTAMT, "u=t"},
    {"fns", PTX_OP_FNS, 1, 1, 0, 0, "u=uuu"},
    {"brev", PTX_OP_BREV, 1, 1, 0, 0, "t=t"},
    {"bfe", PTX_OP_BFE, 1, 1, 0, 0, "t=tuu"},
    {"bfi", PTX_OP_BFI, 1, 1, 0, 0, "t=ttuu"},
    {"szext", PTX_OP_SZEXT, 1, 1, C_HINT, PTX_F_CLAMP, "t=tu"},
    {"bmsk", PTX_OP_BMSK, 1, 1, C_HINT, PTX_F_CLAMP, "t=uu"},
    {"dp4a", PTX_OP_DP4A, 2, 2, 0, 0, "u=uuu"},
    {"dp2a", PTX_OP_DP2A, 2, 2, C_MUL, 0, "u=uuu"},
    {"and", PTX_OP_AND, 1, 1, 0, 0, "t=tt"},
    {"or", PTX_OP_OR, 1, 1, 0, 0, "t=tt"},
    {"xor", PTX_OP_XOR, 1, 1, 0, 0, "t=tt"},
    {"not", PTX_OP_NOT, 1, 1, 0, 0, "t=t"},
    {"cnot", PTX_OP_CNOT, 1, 1, 0, 0, "t=t"},
    {"lop3", PTX_OP_LOP3, 1, 1, C_BOOL, 0, "tP=tttu?q"},
    {"shl", PTX_OP_SHL, 1, 1, 0, 0, "t=tu"},
    {"shr", PTX_OP_SHR, 1, 1, 0, 0, "t=tu"},
    {"shf", PTX_OP_SHF, 1, 1, C_SHF, 0, "t=ttu"},
    {"prmt", PTX_OP_PRMT, 1, 1, C_PRMT, 0, "t=ttt"},
    {"fma", PTX_OP_FMA, 1, 2, C_ROUND, FTZ | SAT | PTX_F_RELU | PTX_F_OOB, "t=ttt"},
    {"rcp", PTX_OP_RCP, 1, 1, C_ROUND, FTZ | PTX_F_APPROX, "t=t"},
    {"sqrt", PTX_OP_SQRT, 1, 1, C_ROUND, FTZ | PTX_F_APPROX, "t=t"},
    {"rsqrt", PTX_OP_RSQRT, 1, 1, 0, FTZ | PTX_F_APPROX, "t=t"},
    {"sin", PTX_OP_SIN, 1, 1, 0, FTZ | PTX_F_APPROX, "t=t"},
    {"cos", PTX_OP_COS, 1, 1, 0, FTZ | PTX_F_APPROX, "t=t"},
    {"lg2", PTX_OP_LG2, 1, 1, 0, FTZ | PTX_F_APPROX, "t=t"},
    {"ex2", PTX_OP_EX2, 1, 1, 0, FTZ | PTX_F_APPROX, "t=t"},
    {"tanh", PTX_OP_TANH, 1, 1, 0, PTX_F_APPROX, "t=t"},
    {"copysign", PTX_OP_COPYSIGN, 1, 1, 0, 0, "t=tt"},
    {"testp", PTX_OP_TESTP, 1, 1, C_TESTP, 0, "p=t"},
    {"setp", PTX_OP_SETP, 1, 1, C_CMP | C_BOOL, FTZ, "pP=tt?q"},
    {"set", PTX_OP_SET, 2, 2, C_CMP | C_BOOL, FTZ, "t=TT?q"},
    {"selp", PTX_OP_SELP, 1, 1, 0, 0, "t=ttq"},
    {"slct", PTX_OP_SLCT, 2, 2, 0, FTZ, "t=ttT"},
    {"mov", PTX_OP_MOV, 1, 1, C_VEC, 0, "M=M"},
    {"cvt.pack", PTX_OP_PACK, 1, 3, C_LOOSE, SAT, "u=uu?u"},
    {"cvt", PTX_OP_CVT, 2, 2, C_ROUND, FTZ | SAT | PTX_F_RELU | PTX_F_SATFINITE, "r=R?R"},
    {"cvta", PTX_OP_CVTA, 1, 1, C_SPACE, PTX_F_TO, "t=t"},
    {"isspacep", PTX_OP_ISSPACEP, 0, 0, C_SPACE, 0, "p=*"},
    {"ld", PTX_OP_LD, 1, 1, C_MEM, PTX_F_NC, "v=a?*"},
    {"ldu", PTX_OP_LDU, 1, 1, C_MEM, 0, "v=a"},
    {"st", PTX_OP_ST, 1, 1, C_MEM, 0, "=av?*"},
    {"prefetch", PTX_OP_PREFETCH, 0, 0, C_SPACE | C_LOOSE, 0, "=a?*"},
    {"prefetchu", PTX_OP_PREFETCHU, 0, 0, C_LOOSE, 0, "=a"},
    {"createpolicy", PTX_OP_CREATEPOLICY, 0, 1, C_LOOSE, 0, "*=?****"},
    {"discard", PTX_OP_DISCARD, 0, 0, C_SPACE | C_LOOSE, 0, "=a?u"},
    {"applypriority", PTX_OP_APPLYPRIORITY, 0, 0, C_SPACE | C_LOOSE, 0, "=a?u"},
    {"mapa", PTX_OP_MAPA, 1, 1, C_LOOSE, 0, "t=*u"},
    {"getctarank", PTX_OP_GETCTARANK, 1, 1, C_LOOSE, 0, "u=*"},
    {"istypep", PTX_OP_ISTYPEP, 1, 1, 0, 0, "p=*"},
    {"alloca", PTX_OP_ALLOCA, 1, 1, 0, 0, "t=t?u"},
    {"stacksave", PTX_OP_STACKSAVE, 1, 1, 0, 0, "t="},
    {"stackrestore", PTX_OP_STACKRESTORE, 1, 1, 0, 0, "=t"},
    {"bra", PTX_OP_BRA, 0, 0, 0, PTX_F_UNI, "=l"},
    {"brx.idx", PTX_OP_BRX, 0, 0, 0, PTX_F_UNI, "=ub"},
    {"call", PTX_OP_CALL, 0, 0, 0, PTX_F_UNI, "c"},
    {"ret", PTX_OP_RET, 0, 0, 0, PTX_F_UNI, "="},
    {"exit", PTX_OP_EXIT, 0, 0, 0, 0, "="},
    {"trap", PTX_OP_TRAP, 0, 0, 0, 0, "="},
    {"brkpt", PTX_OP_BRKPT, 0, 0, 0, 0, "="},
    {"pmevent", PTX_OP_PMEVENT, 0, 0, C_LOOSE, 0, "=u"},
    {"nanosleep", PTX_OP_NANOSLEEP, 1, 1, 0, 0, "=u"},
    {"setmaxnreg", PTX_OP_SETMAXNREG, 1, 1, C_LOOSE, 0, "=u"},
    {"griddepcontrol", PTX_OP_GRIDDEPCONTROL, 0, 0, C_LOOSE, 0, "="},
    {"elect", PTX_OP_ELECT, 0, 0, 0, SYNC, "uP=u"},
    {"bar.warp", PTX_OP_BAR_WARP, 0, 0, 0, SYNC, "=u"},
    {"bar.cta", PTX_OP_BAR, 0, 1, C_BAR | C_REDUCE, ALIGNED, "=u?u"},
    {"bar", PTX_OP_BAR, 0, 1, C_BAR | C_REDUCE, ALIGNED, "=u?u"},
    {"barrier.cluster", PTX_OP_BAR_CLUSTER, 0, 0, C_BAR | C_SEM, ALIGNED, "="},
    {"barrier.cta", PTX_OP_BAR, 0, 1, C_BAR | C_REDUCE, ALIGNED, "=u?u"},
    {"barrier", PTX_OP_BAR, 0, 1, C_BAR | C_REDUCE, ALIGNED, "=u?u"},
    {"membar.proxy", PTX_OP_MEMBAR, 0, 0, C_LOOSE, 0, "="},
    {"membar", PTX_OP_MEMBAR, 0, 0, C_SCOPE, 0, "="},
    {"fence.proxy", PTX_OP_MEMBAR, 0, 0, C_SEM | C_SCOPE | C_LOOSE, 0, "=?***"},
    {"fence.mbarrier_init", PTX_OP_MEMBAR, 0, 0, C_SEM | C_SCOPE, 0, "="},
    {"fence", PTX_OP_MEMBAR, 0, 0, C_SEM | C_SCOPE, 0, "="},
    {"atom", PTX_OP_ATOM, 1, 1, C_MEM | C_ATOM, PTX_F_NOFTZ, "v=av?v*"},
    {"red", PTX_OP_RED, 1, 1, C_MEM | C_ATOM, PTX_F_NOFTZ, "=av?*"},
    {"shfl", PTX_OP_SHFL, 1, 1, C_SHFL, SYNC, "tP=tuu?u"},
    {"vote", PTX_OP_VOTE, 1, 1, C_VOTE, SYNC, "t=q?u"},
    {"match", PTX_OP_MATCH, 1, 1, C_VOTE, SYNC, "uP=tu"},
    {"redux", PTX_OP_REDUX, 1, 1, C_ATOM, SYNC | PTX_F_ABS | PTX_F_NAN, "t=tu"},
    {"activemask", PTX_OP_ACTIVEMASK, 1, 1, 0, 0, "t="},
    {"tex", PTX_OP_TEX, 2, 2, C_TEX | C_VEC | C_LOOSE, 0, "VP=x?***"},
    {"tld4", PTX_OP_TLD4, 2, 2, C_TEX | C_VEC | C_LOOSE, 0, "VP=x?**"},
    {"txq", PTX_OP_TXQ, 1, 1, C_LOOSE, 0, "t=x?*"},
    {"suld", PTX_OP_SULD, 1, 1, C_TEX | C_VEC | C_LOOSE, 0, "V=x"},
    {"sust", PTX_OP_SUST, 1, 1, C_TEX | C_VEC | C_LOOSE, 0, "=x*"},
    {"sured", PTX_OP_SURED, 1, 1, C_TEX | C_ATOM | C_LOOSE, 0, "=x*"},
    {"suq", PTX_OP_SUQ, 1, 1, C_LOOSE, 0, "t=x"},
    {"wmma.load", PTX_OP_WMMA, 0, 1, C_SPACE | C_LOOSE, ALIGNED, "V=a?u"},
    {"wmma.store", PTX_OP_WMMA, 0, 1, C_SPACE | C_LOOSE, ALIGNED, "=aV?u"},
    {"wmma.mma", PTX_OP_WMMA, 1, 4, C_LOOSE, ALIGNED, "V=VVV"},
    {"mma", PTX_OP_MMA, 1, 4, C_LOOSE, ALIGNED, "V=VVV?*****"},
    {"ldmatrix", PTX_OP_LDMATRIX, 1, 1, C_SPACE | C_LOOSE, ALIGNED, "V=a"},
    {"stmatrix", PTX_OP_STMATRIX, 1, 1, C_SPACE | C_LOOSE, ALIGNED, "=aV"},
    {"movmatrix", PTX_OP_MOVMATRIX, 1, 1, C_LOOSE, ALIGNED, "u=u"},
    {"cp", PTX_OP_CP, 0, 1, C_LOOSE, 0, "=?********"},
    {"mbarrier.init", PTX_OP_MBARRIER, 1, 1, C_SPACE | C_LOOSE, 0, "=au"},
    {"mbarrier.inval", PTX_OP_MBARRIER, 1, 1, C_SPACE | C_LOOSE, 0, "=a"},
    {"mbarrier.expect_tx", PTX_OP_MBARRIER, 1, 1, C_SPACE | C_LOOSE, 0, "=au"},
    {"mbarrier.complete_tx", PTX_OP_MBARRIER, 1, 1, C_SPACE | C_LOOSE, 0, "=au"},
    {"mbarrier.test_wait", PTX_OP_MBARRIER, 1, 1, C_SPACE | C_LOOSE, 0, "p=a*?*"},
    {"mbarrier.try_wait", PTX_OP_MBARRIER, 1, 1, C_SPACE | C_LOOSE, 0, "p=a*?*"},
    {"mbarrier.pending_count", PTX_OP_MBARRIER, 1, 1, C_LOOSE, 0, "u=*"},
    {"mbarrier", PTX_OP_MBARRIER, 1, 1, C_SPACE | C_LOOSE, 0, "*=a?*"},
    {"vadd", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=**?**"},
    {"vsub", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=**?**"},
    {"vabsdiff4", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=***"},
    {"vabsdiff2", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=***"},
    {"vabsdiff", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=**?**"},
    {"vmin", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=**?**"},
    {"vmax", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=**?**"},
    {"vshl", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=**?**"},
    {"vshr", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=**?**"},
    {"vmad", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=***"},
    {"vset", PTX_OP_VIDEO, 2, 2, C_LOOSE, SAT, "*=**?**"},
    {"vset2", PTX_OP_VIDEO, 2, 2, C_LOOSE, SAT, "*=***"},
    {"vset4", PTX_OP_VIDEO, 2, 2, C_LOOSE, SAT, "*=***"},
    {"vadd2", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=***"},
    {"vadd4", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=***"},
    {"vsub2", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=***"},
    {"vsub4", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=***"},
    {"vavrg2", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=***"},
    {"vavrg4", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=***"},
    {"vmin2", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=***"},
    {"vmin4", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=***"},
    {"vmax2", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=***"},
    {"vmax4", PTX_OP_VIDEO, 3, 3, C_LOOSE, SAT, "*=***"},
};

enum {
    WORD_COUNT = sizeof words / sizeof words[0],
    OPCODE_COUNT = sizeof opcodes / sizeof opcodes[0]
};

const char *ptx_op_name(ptx_op_t op)
{
    const char *name = "invalid";
    for (size_t i = 0; i < OPCODE_COUNT; i++) {
        if (opcodes[i].op != op)
            continue;
        if (!strchr(opcodes[i].name, '.'))
            return op == PTX_OP_VIDEO ? "video" : opcodes[i].name;
        name = opcodes[i].name; /* "bar.warp": has no row without a dot */
    }
    return name;
}

static size_t find_opcode(const char *mnemonic)
{
    for (size_t i = 0; i < OPCODE_COUNT; i++) {
        size_t n = strlen(opcodes[i].name);
        if (strncmp(mnemonic, opcodes[i].name, n) == 0 && (mnemonic[n] == 0 || mnemonic[n] == '.'))
            return i;
    }
    return OPCODE_COUNT;
}

static void apply_shf(ptx_instr_t *in, bool right, bool direction, bool wrap)
{
    /* l and r set bit 1, clamp and wrap bit 0 of mode - 1 */
    unsigned m = in->mode ? in->mode - 1u : 0;
    if (direction)
        m = (m & 1) | (right ? 2 : 0);
    else
        m = (m & 2) | (wrap ? 1 : 0);
    in->mode = (uint8_t)(m + 1);
}

static bool shf_word(ptx_instr_t *in, const char *word)
{
    if (strcmp(word, "l") == 0 || strcmp(word, "r") == 0)
        apply_shf(in, word[0] == 'r', true, false);
    else if (strcmp(word, "clamp") == 0 || strcmp(word, "wrap") == 0)
        apply_shf(in, false, false, word[0] == 'w');
    else
        return false;
    return true;
}

static void apply(ptx_instr_t *in, uint32_t class, uint32_t value)
{
    switch (class) {
    case C_ROUND:
        in->round = (uint8_t)value;
        break;
    case C_CMP:
        in->cmp = (uint8_t)value;
        break;
    case C_BOOL:
        in->boolop = (uint8_t)value;
        break;
    case C_SPACE:
        in->space = (uint8_t)value;
        break;
    case C_VEC:
        in->vec = (uint8_t)value;
        break;
    case C_CACHE:
        in->cache = (uint8_t)value;
        break;
    case C_SEM:
        in->sem = (uint8_t)value;
        break;
    case C_SCOPE:
        in->scope = (uint8_t)value;
        break;
    case C_REDUCE:
        in->reduce = (uint8_t)value;
        break;
    case C_FLAG:
        in->flags |= value;
        break;
    case C_HINT:
        break;
    default:
        in->mode = (uint8_t)value;
        break; /* the classes that share `mode` */
    }
}

static bool apply_word(ptx_instr_t *in, size_t opcode, const char *word)
{
    uint32_t classes = opcodes[opcode].classes;
    if (classes & C_SHF && shf_word(in, word))
        return true;
    for (size_t i = 0; i < WORD_COUNT; i++) {
        bool fits = words[i].class == C_FLAG ? (opcodes[opcode].flags & words[i].value) != 0
                                             : (classes & words[i].class) != 0;
        if (fits && strcmp(words[i].word, word) == 0) {
            apply(in, words[i].class, words[i].value);
            return true;
        }
    }
    /* Eviction and prefetch hints: L1::no_allocate, L2::128B, L2::cache_hint. */
    if (classes & C_HINT && word[0] == 'L' && strstr(word, "::"))
        return true;
    return (classes & C_LOOSE) != 0;
}

/* Can it take f16 or bf16 and give f32? */
static bool mixes(unsigned op)
{
    return op == PTX_OP_ADD || op == PTX_OP_SUB || op == PTX_OP_FMA;
}

static bool types_fit(const ptx_instr_t *in)
{
    bool is_float = ptx_type_is_float(in->type);
    if (mixes(in->op) && in->type2 != PTX_TYPE_NONE)
        return in->type == PTX_F32 && (in->type2 == PTX_F16 || in->type2 == PTX_BF16);
    switch (in->op) {
    case PTX_OP_MUL:
    case PTX_OP_MAD:
        return is_float ? in->mode == PTX_MUL_NONE : in->mode != PTX_MUL_NONE;
    case PTX_OP_MADC:
    case PTX_OP_MUL24:
    case PTX_OP_MAD24:
    case PTX_OP_DP2A:
        return in->mode == PTX_MUL_LO || in->mode == PTX_MUL_HI;
    case PTX_OP_SETP:
    case PTX_OP_SET:
        return in->cmp != PTX_CMP_NONE;
    case PTX_OP_SHF:
    case PTX_OP_TESTP:
    case PTX_OP_ATOM:
    case PTX_OP_RED:
    case PTX_OP_SHFL:
    case PTX_OP_VOTE:
    case PTX_OP_REDUX:
        return in->mode != 0;
    case PTX_OP_MATCH:
        return in->mode == PTX_VOTE_ANY || in->mode == PTX_VOTE_ALL;
    case PTX_OP_BAR:
        return in->mode == PTX_BAR_RED ? in->reduce == PTX_ATOM_POPC
                                             ? in->type == PTX_U32
                                             : in->reduce && in->type == PTX_PRED
                                       : in->mode != PTX_BAR_WAIT && in->type == PTX_TYPE_NONE;
    default:
        return true;
    }
}

ptx_decode_t ptx_decode(const char *mnemonic, ptx_mnemonic_t *out, char *word, size_t word_size)
{
    size_t opcode = find_opcode(mnemonic);
    if (opcode == OPCODE_COUNT)
        return PTX_UNKNOWN_OPCODE;
    ptx_instr_t in = {.op = opcodes[opcode].op, .vec = 1, .guard = PTX_NONE};
    unsigned types = 0;
    const char *p = mnemonic + strlen(opcodes[opcode].name);
    while (*p == '.') {
        size_t n = strcspn(++p, ".");
        snprintf(word, word_size, "%.*s", (int)n, p);
        ptx_type_t type = ptx_type_by_name(p, n);
        p += n;
        if (type != PTX_TYPE_NONE) {
            if (types == 0)
                in.type = (uint8_t)type;
            else if (types == 1)
                in.type2 = (uint8_t)type;
            types++;
        } else if (n >= word_size || !apply_word(&in, opcode, word)) {
            return PTX_UNKNOWN_MODIFIER;
        }
    }
    if (types < opcodes[opcode].types_min || types > opcodes[opcode].types_max || !types_fit(&in))
        return PTX_BAD_TYPES;
    out->instr = in;
    out->shape = opcodes[opcode].shape;
    if (in.type2 != PTX_TYPE_NONE && mixes(in.op)) /* the last operand and the result are f32 */
        out->shape = in.op == PTX_OP_FMA ? "t=TTt" : "t=Tt";
    if (in.op == PTX_OP_BAR && in.mode == PTX_BAR_RED)
        out->shape = "t=u*?q";
    if (in.op == PTX_OP_ATOM && in.mode != PTX_ATOM_CAS)
        out->shape = "v=av?*"; /* the last is a cache policy */
    return PTX_DECODED;
}

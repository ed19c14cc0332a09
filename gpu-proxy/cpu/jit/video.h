/* video.h - what the mnemonic of a video instruction says. No LLVM. */
#ifndef CPU_VIDEO_H
#define CPU_VIDEO_H

#include "gpu-proxy/cpu/ptx/ptx_ir.h"

typedef enum {
    VIDEO_ADD = 0,
    VIDEO_SUB,
    VIDEO_ABSDIFF,
    VIDEO_MIN,
    VIDEO_MAX,
    VIDEO_SHL,
    VIDEO_SHR,
    VIDEO_MAD,
    VIDEO_SET,
    VIDEO_AVRG
} video_op_t;

typedef struct {
    video_op_t op;
    unsigned parts; /* 1: scalar; 2 and 4: so many elements side by side */
    bool signed_d, signed_a, signed_b;
    bool sat, wrap, clamp, plus_one;
    unsigned scale; /* vmad: bits to shift right by */
    char second;    /* 0, or the secondary operation: '+' add, '<' min, '>' max */
    char cmp[4];    /* vset: "lt" and so on, else "" */
} video_t;

/* False if it is no video instruction that PTX knows. */
bool cpu_video_decode(const char *mnemonic, video_t *out);

/* Does the instruction run (operands and all)? */
bool cpu_covers_video(const ptx_function_t *f, const ptx_instr_t *i);

#endif

/* pt_row.h - one instruction against a plain C reference, over edge values.
 *
 * A row is a mnemonic, the registers it takes and a function that computes what it must give. For
 * each row kernels are made that run it on every combination of edge values: in all lanes with
 * different values, in all lanes with the same value, with one source the same in all lanes and the
 * others not, and with an immediate as last source. */
#ifndef PT_ROW_H
#define PT_ROW_H

#include <stdbool.h>
#include <stdint.h>

/* What a reference has to know, read off the mnemonic: not by the parser under test. */
typedef struct {
    const char *mnemonic;
    char type[8], type2[8]; /* "s32"; of the last two types: "cvt.rn.f32.s64" has f32 and s64 */
    unsigned bits, bits2;   /* of the types; the first one's twice if there is only one */
    bool is_signed, is_signed2, is_float, is_float2;
    int round;     /* FE_TONEAREST and so on */
    bool integral; /* rni, rzi, rmi, rpi */
    bool ftz, sat;
} pt_op_t;

/* Sources are zero-extended bits; so is the result, of which the destination's bits count. */
typedef uint64_t (*pt_ref_t)(const pt_op_t *op, const uint64_t *in);

typedef enum {
    PT_EXACT, /* same bits, any NaN for a NaN */
    PT_ULP,   /* within `tolerance` units in the last place of the reference */
    PT_RATIO, /* within `tolerance` times the reference */
    PT_ABS    /* within `tolerance` */
} pt_compare_t;

typedef struct {
    char mnemonic[64];
    char shape[8];   /* "w=ww": h w d 16, 32, 64 bits; f g floating; p predicate; 1 to 4 sources */
    char sources[8]; /* how values are chosen: like shape, 's' shift counts, 'n' small floats, H and
                        B f16 and bf16, X and Y pairs of them, F pairs of f32, M bits at random */
    char result;     /* how results compare: H B X Y F as above; 0: like shape */
    pt_ref_t ref;
    pt_compare_t compare;
    double tolerance;
    bool (*is_open)(const uint64_t *in); /* cases that PTX leaves open; they must not fault */
    const char *body; /* PTX text in place of the one instruction, or NULL: from %w1, %w2... to %w0
                         (letters of `shape`); w2 to w5, d5 to d9, p5 to p8 of others are free */
    char fixed[24];   /* operand text to append after the sources, e.g. "0xE8"; "" without */
} pt_row_t;

enum { PT_IMMEDIATES = 2, PT_VALUES = 128 };

/* Adds a row to the table of this process; printf-like mnemonic. */
pt_row_t *pt_add(const char *shape, pt_ref_t ref, const char *mnemonic, ...)
    __attribute__((format(printf, 3, 4)));

/* Runs all rows added since the last call and fails the test with what differs. */
void pt_run_rows(void);

/* Values of a type, sign- or zero-extended by its bits. */
int64_t pt_signed(uint64_t value, unsigned bits);
uint64_t pt_low(uint64_t value, unsigned bits);
float pt_f32(uint64_t bits);
double pt_f64(uint64_t bits);
uint64_t pt_bits32(float value);
uint64_t pt_bits64(double value);
/* f16 (kind H) or bf16 (B). */
double pt_half(uint64_t bits, char kind);

/* A format of `mantissa` bits and `exponent` bits, IEEE-like with infinities. */
typedef struct {
    unsigned mantissa, exponent;
} pt_format_t;
extern const pt_format_t pt_f16, pt_bf16;

enum { PT_AWAY = 0x7777 }; /* a rounding: to nearest, away from zero on a tie */

/* v + sticky (only its sign counts: less than any digit of v) rounded (FE_*, PT_AWAY), as bits. */
uint64_t pt_round(long double v, int sticky, pt_format_t format, int round);

/* ---- pt_op.c, for pt_row.c ---- */

pt_op_t pt_read_mnemonic(const char *mnemonic);

/* ---- pt_values.c, for pt_row.c ---- */

/* Values of a kind; their number. */
unsigned pt_values(char kind, uint64_t *out);
/* All combinations, or a part of them by turns where there are many; 4 values per case. */
unsigned pt_cases(const pt_row_t *row, uint64_t **in);
/* The immediates that the last source is replaced with: some of its own values. */
unsigned pt_immediates(const pt_row_t *row, uint64_t out[PT_IMMEDIATES]);

#endif

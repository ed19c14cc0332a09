/* ptx_lex.h - PTX text to tokens, one at a time. */
#ifndef PTX_LEX_H
#define PTX_LEX_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    PTX_TOK_END = 0,
    PTX_TOK_IDENT,  /* name, %name, $name */
    PTX_TOK_DOT,    /* .word; the text is without the dot */
    PTX_TOK_INT,    /* bits */
    PTX_TOK_F32,    /* 0f...: bits of a float */
    PTX_TOK_F64,    /* 0d... and decimals: bits of a double */
    PTX_TOK_STRING, /* text without the quotes */
    PTX_TOK_PUNCT,  /* code: the character, or one of the two-character ones below */
    PTX_TOK_BAD     /* a malformed number, string or character */
} ptx_tok_kind_t;

enum {
    PTX_PUNCT_SHL = 256,
    PTX_PUNCT_SHR,
    PTX_PUNCT_LE,
    PTX_PUNCT_GE,
    PTX_PUNCT_EQ,
    PTX_PUNCT_NE,
    PTX_PUNCT_AND,
    PTX_PUNCT_OR
};

typedef struct {
    ptx_tok_kind_t kind;
    const char *text;
    uint32_t length;
    int code;
    bool is_unsigned; /* INT with suffix U, or too large for s64 */
    uint64_t bits;
    uint32_t line;
} ptx_tok_t;

typedef struct {
    const char *cursor; /* NUL-terminated text */
    uint32_t line;
    locale_t c_locale; /* for decimals: not the program's own */
    ptx_tok_t tok;     /* the current token */
} ptx_lex_t;

/* Starts on `text`, which must end in a NUL and outlive the lexer; reads the first token. */
void ptx_lex_start(ptx_lex_t *lex, const char *text, locale_t c_locale);
void ptx_lex_next(ptx_lex_t *lex);
/* The first character behind the current token. */
char ptx_lex_peek(const ptx_lex_t *lex);
/* Skips to the first token of a line after the current token's. */
void ptx_lex_next_line(ptx_lex_t *lex);
/* The current token begins an instruction: collects it with its dot words ("ld.global.v4.f32",
 * spaces before dots dropped) and goes behind it. 0 if it does not fit, else the length. */
size_t ptx_lex_mnemonic(ptx_lex_t *lex, char *out, size_t size);

static inline bool ptx_lex_is(const ptx_lex_t *lex, int punct)
{
    return lex->tok.kind == PTX_TOK_PUNCT && lex->tok.code == punct;
}

#endif

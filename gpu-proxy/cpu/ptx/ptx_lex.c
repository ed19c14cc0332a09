#include "gpu-proxy/cpu/ptx/ptx_lex.h"

#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_word(char c)
{
    return is_alpha(c) || is_digit(c) || c == '_' || c == '$';
}

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static const char *skip_comment(ptx_lex_t *lex, const char *p)
{
    if (p[1] == '/') {
        const char *end = strchr(p, '\n');
        return end ? end : p + strlen(p);
    }
    for (p += 2; *p; p++) {
        if (*p == '\n')
            lex->line++;
        if (p[0] == '*' && p[1] == '/')
            return p + 2;
    }
    return p;
}

static void skip_blanks(ptx_lex_t *lex)
{
    const char *p = lex->cursor;
    for (;;) {
        if (*p == '\n') {
            lex->line++;
            p++;
        } else if (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\f' || *p == '\v') {
            p++;
        } else if (*p == '/' && (p[1] == '/' || p[1] == '*')) {
            p = skip_comment(lex, p);
        } else {
            break;
        }
    }
    lex->cursor = p;
}

/* 0f and 0d with exactly `digits` hexadecimal digits. */
static void read_float_bits(ptx_lex_t *lex, int digits, ptx_tok_kind_t kind)
{
    const char *p = lex->cursor + 2;
    uint64_t bits = 0;
    for (int i = 0; i < digits; i++, p++) {
        int v = hex_value(*p);
        if (v < 0)
            return;
        bits = bits << 4 | (unsigned)v;
    }
    lex->cursor = p;
    lex->tok.bits = bits;
    lex->tok.kind = is_word(*p) ? PTX_TOK_BAD : kind;
}

static void read_integer(ptx_lex_t *lex, const char *p, unsigned radix)
{
    uint64_t value = 0;
    int digits = 0;
    for (;; p++, digits++) {
        int v = hex_value(*p);
        if (v < 0 || (unsigned)v >= radix)
            break;
        if (value > (UINT64_MAX - (unsigned)v) / radix)
            return; /* does not fit: BAD */
        value = value * radix + (unsigned)v;
    }
    if (digits == 0)
        return;
    bool suffix = *p == 'U' || *p == 'u';
    p += suffix;
    if (is_word(*p))
        return;
    lex->cursor = p;
    lex->tok.kind = PTX_TOK_INT;
    lex->tok.bits = value;
    lex->tok.is_unsigned = suffix || value > INT64_MAX;
}

static void read_decimal(ptx_lex_t *lex, const char *end)
{
    char copy[128];
    size_t length = (size_t)(end - lex->cursor);
    if (length >= sizeof copy || is_word(*end))
        return;
    memcpy(copy, lex->cursor, length);
    copy[length] = 0;
    double value = strtod_l(copy, NULL, lex->c_locale);
    memcpy(&lex->tok.bits, &value, sizeof value);
    lex->tok.kind = PTX_TOK_F64;
    lex->cursor = end;
}

static void read_number(ptx_lex_t *lex)
{
    const char *p = lex->cursor;
    lex->tok.kind = PTX_TOK_BAD;
    if (p[0] == '0') {
        if (p[1] == 'x' || p[1] == 'X')
            read_integer(lex, p + 2, 16);
        else if (p[1] == 'f' || p[1] == 'F')
            read_float_bits(lex, 8, PTX_TOK_F32);
        else if (p[1] == 'd' || p[1] == 'D')
            read_float_bits(lex, 16, PTX_TOK_F64);
        else if (p[1] == 'b' || p[1] == 'B')
            read_integer(lex, p + 2, 2);
        else if (is_digit(p[1]))
            read_integer(lex, p + 1, 8);
        if (lex->tok.kind != PTX_TOK_BAD || is_alpha(p[1]))
            return;
    }
    while (is_digit(*p))
        p++;
    bool real = *p == '.';
    if (real) {
        for (p++; is_digit(*p); p++) {
        }
    }
    if (*p == 'e' || *p == 'E') {
        const char *q = p + 1;
        if (*q == '+' || *q == '-')
            q++;
        if (is_digit(*q)) {
            for (real = true, p = q; is_digit(*p); p++) {
            }
        }
    }
    if (real)
        read_decimal(lex, p);
    else if (lex->cursor[0] != '0' || !is_digit(lex->cursor[1]))
        read_integer(lex, lex->cursor, 10);
}

static void read_string(ptx_lex_t *lex)
{
    const char *p = lex->cursor + 1;
    while (*p && *p != '"' && *p != '\n')
        p += (*p == '\\' && p[1] && p[1] != '\n') ? 2 : 1;
    lex->tok.kind = *p == '"' ? PTX_TOK_STRING : PTX_TOK_BAD;
    lex->tok.text = lex->cursor + 1;
    lex->tok.length = (uint32_t)(p - lex->tok.text);
    lex->cursor = *p == '"' ? p + 1 : p;
}

static void read_punct(ptx_lex_t *lex)
{
    static const struct {
        char text[3];
        int code;
    } pairs[] = {
        {"<<", PTX_PUNCT_SHL}, {">>", PTX_PUNCT_SHR}, {"<=", PTX_PUNCT_LE},  {">=", PTX_PUNCT_GE},
        {"==", PTX_PUNCT_EQ},  {"!=", PTX_PUNCT_NE},  {"&&", PTX_PUNCT_AND}, {"||", PTX_PUNCT_OR},
    };
    const char *p = lex->cursor;
    lex->tok.kind = PTX_TOK_PUNCT;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (p[0] == pairs[i].text[0] && p[1] == pairs[i].text[1]) {
            lex->tok.code = pairs[i].code;
            lex->cursor = p + 2;
            return;
        }
    }
    lex->tok.code = (unsigned char)*p;
    lex->cursor = p + 1;
}

void ptx_lex_next(ptx_lex_t *lex)
{
    skip_blanks(lex);
    const char *p = lex->cursor;
    lex->tok = (ptx_tok_t){.kind = PTX_TOK_END, .text = p, .line = lex->line};
    if (*p == 0)
        return;
    if (is_alpha(*p) || *p == '_' || *p == '$' || *p == '%') {
        /* A lone % is the operator, not a name. */
        const char *q = p + 1;
        while (is_word(*q))
            q++;
        if (*p != '%' || q > p + 1) {
            lex->tok.kind = PTX_TOK_IDENT;
            lex->tok.length = (uint32_t)(q - p);
            lex->cursor = q;
            return;
        }
        read_punct(lex);
    } else if (*p == '.' && is_word(p[1])) {
        const char *q = p + 1;
        while (is_word(*q))
            q++;
        lex->tok.kind = PTX_TOK_DOT;
        lex->tok.text = p + 1;
        lex->tok.length = (uint32_t)(q - p - 1);
        lex->cursor = q;
        return;
    } else if (is_digit(*p)) {
        read_number(lex);
        if (lex->tok.kind == PTX_TOK_BAD) {
            while (is_word(*lex->cursor))
                lex->cursor++;
        }
    } else if (*p == '"') {
        read_string(lex);
        return;
    } else {
        read_punct(lex);
    }
    lex->tok.length = (uint32_t)(lex->cursor - p);
}

void ptx_lex_start(ptx_lex_t *lex, const char *text, locale_t c_locale)
{
    *lex = (ptx_lex_t){.cursor = text, .line = 1, .c_locale = c_locale};
    ptx_lex_next(lex);
}

char ptx_lex_peek(const ptx_lex_t *lex)
{
    return *lex->cursor;
}

void ptx_lex_next_line(ptx_lex_t *lex)
{
    uint32_t line = lex->tok.line;
    do {
        ptx_lex_next(lex);
    } while (lex->tok.kind != PTX_TOK_END && lex->tok.line == line);
}

size_t ptx_lex_mnemonic(ptx_lex_t *lex, char *out, size_t size)
{
    const char *p = lex->tok.text;
    size_t used = 0;
    bool fits = true;
    for (;;) {
        while (is_word(*p) || *p == '.' || (p[0] == ':' && p[1] == ':')) {
            unsigned step = *p == ':' ? 2 : 1;
            if (used + step >= size)
                fits = false;
            else
                for (unsigned i = 0; i < step; i++)
                    out[used++] = p[i];
            p += step;
        }
        lex->cursor = p;
        skip_blanks(lex);
        if (*lex->cursor != '.' || !is_word(lex->cursor[1]))
            break;
        p = lex->cursor;
    }
    out[used] = 0;
    ptx_lex_next(lex);
    return fits ? used : 0;
}

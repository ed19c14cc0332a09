#include <float.h>
#include <math.h>
#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_parser.h"

static double as_double(const ptx_const_t *v)
{
    double d;
    float f;
    switch (v->kind) {
    case PTX_CONST_F64:
        memcpy(&d, &v->bits, sizeof d);
        return d;
    case PTX_CONST_F32:
        memcpy(&f, &v->bits, sizeof f);
        return (double)f;
    default:
        return v->is_unsigned ? (double)v->bits : (double)(int64_t)v->bits;
    }
}

static ptx_const_t of_double(double d)
{
    ptx_const_t v = {.kind = PTX_CONST_F64};
    memcpy(&v.bits, &d, sizeof d);
    return v;
}

static ptx_const_t of_int(uint64_t bits, bool is_unsigned)
{
    return (ptx_const_t){.kind = PTX_CONST_INT, .bits = bits, .is_unsigned = is_unsigned};
}

static bool expression(ptx_parser_t *p, int floor, unsigned depth, ptx_const_t *out);

/* "(.s64)" and "(.u64)" cast, "( ... )" groups. At the token behind the parenthesis. */
static bool parenthesis(ptx_parser_t *p, unsigned depth, ptx_const_t *out);

static bool unary(ptx_parser_t *p, unsigned depth, ptx_const_t *out)
{
    if (depth >= PTX_MAX_SCOPES)
        return ptx_p_fail(p, GB_ERR_LIMIT, p->lex.tok.line, "expression nested too deeply");
    const ptx_tok_t tok = p->lex.tok;
    switch (tok.kind) {
    case PTX_TOK_INT:
        *out = of_int(tok.bits, tok.is_unsigned);
        break;
    case PTX_TOK_F32:
        *out = (ptx_const_t){.kind = PTX_CONST_F32, .bits = tok.bits};
        break;
    case PTX_TOK_F64:
        *out = (ptx_const_t){.kind = PTX_CONST_F64, .bits = tok.bits};
        break;
    case PTX_TOK_IDENT:
        if (tok.length != 7 || memcmp(tok.text, "WARP_SZ", 7) != 0)
            return ptx_p_unexpected(p, "a constant");
        *out = of_int(32, false);
        break;
    case PTX_TOK_PUNCT:
        if (tok.code > 127 || !strchr("+-!~(", tok.code))
            return ptx_p_unexpected(p, "a constant");
        ptx_lex_next(&p->lex);
        if (tok.code == '(')
            return parenthesis(p, depth, out);
        if (!unary(p, depth + 1, out))
            return false;
        if (out->kind != PTX_CONST_INT) {
            if (tok.code == '-')
                out->bits ^= out->kind == PTX_CONST_F32 ? 1u << 31 : (uint64_t)1 << 63;
            else if (tok.code != '+')
                return ptx_p_unexpected(p, "an integer operand");
            return true;
        }
        if (tok.code == '-')
            *out = of_int(0 - out->bits, false);
        else if (tok.code == '~')
            out->bits = ~out->bits;
        else if (tok.code == '!')
            *out = of_int(out->bits == 0, false);
        return true;
    default:
        return ptx_p_unexpected(p, "a constant");
    }
    ptx_lex_next(&p->lex);
    return true;
}

static bool parenthesis(ptx_parser_t *p, unsigned depth, ptx_const_t *out)
{
    if (p->lex.tok.kind == PTX_TOK_DOT) {
        bool is_unsigned = ptx_p_is_dot(p, "u64");
        if (!is_unsigned && !ptx_p_is_dot(p, "s64"))
            return ptx_p_unexpected(p, ".s64 or .u64");
        ptx_lex_next(&p->lex);
        if (!ptx_p_expect(p, ')') || !unary(p, depth + 1, out))
            return false;
        if (out->kind != PTX_CONST_INT)
            return ptx_p_unexpected(p, "an integer to cast");
        out->is_unsigned = is_unsigned;
        return true;
    }
    return expression(p, 0, depth + 1, out) && ptx_p_expect(p, ')');
}

/* Binding strength; 0 is no binary operator. ?: is 1. */
static int strength(const ptx_tok_t *tok)
{
    if (tok->kind != PTX_TOK_PUNCT)
        return 0;
    switch (tok->code) {
    case '?':
        return 1;
    case PTX_PUNCT_OR:
        return 2;
    case PTX_PUNCT_AND:
        return 3;
    case '|':
        return 4;
    case '^':
        return 5;
    case '&':
        return 6;
    case PTX_PUNCT_EQ:
    case PTX_PUNCT_NE:
        return 7;
    case '<':
    case '>':
    case PTX_PUNCT_LE:
    case PTX_PUNCT_GE:
        return 8;
    case PTX_PUNCT_SHL:
    case PTX_PUNCT_SHR:
        return 9;
    case '+':
    case '-':
        return 10;
    case '*':
    case '/':
    case '%':
        return 11;
    default:
        return 0;
    }
}

static bool divide(ptx_parser_t *p, int code, bool is_unsigned, uint64_t a, uint64_t b,
                   uint64_t *out)
{
    if (b == 0)
        return ptx_p_fail(p, GB_ERR_FORMAT, p->lex.tok.line, "division by zero in a constant");
    if (is_unsigned)
        *out = code == '/' ? a / b : a % b;
    else if (b == UINT64_MAX) /* by -1: INT64_MIN would trap */
        *out = code == '/' ? 0 - a : 0;
    else
        *out = (uint64_t)(code == '/' ? (int64_t)a / (int64_t)b : (int64_t)a % (int64_t)b);
    return true;
}

static bool compare_less(const ptx_const_t *a, const ptx_const_t *b, bool is_unsigned)
{
    return is_unsigned ? a->bits < b->bits : (int64_t)a->bits < (int64_t)b->bits;
}

static bool integer_op(ptx_parser_t *p, int code, const ptx_const_t *a, const ptx_const_t *b,
                       ptx_const_t *out)
{
    bool u = a->is_unsigned || b->is_unsigned;
    uint64_t x = a->bits, y = b->bits, r = 0;
    bool truth = false; /* results of comparisons are signed */
    switch (code) {
    case '+':
        r = x + y;
        break;
    case '-':
        r = x - y;
        break;
    case '*':
        r = x * y;
        break;
    case '/':
    case '%':
        if (!divide(p, code, u, x, y, &r))
            return false;
        break;
    case '&':
        r = x & y;
        break;
    case '|':
        r = x | y;
        break;
    case '^':
        r = x ^ y;
        break;
    case PTX_PUNCT_SHL:
        r = y > 63 ? 0 : x << y;
        break;
    case PTX_PUNCT_SHR:
        r = a->is_unsigned ? (y > 63 ? 0 : x >> y) : (uint64_t)((int64_t)x >> (y > 63 ? 63 : y));
        break;
    default:
        truth = true;
        r = code == PTX_PUNCT_OR    ? x || y
            : code == PTX_PUNCT_AND ? x && y
            : code == PTX_PUNCT_EQ  ? x == y
            : code == PTX_PUNCT_NE  ? x != y
            : code == '<'           ? compare_less(a, b, u)
            : code == '>'           ? compare_less(b, a, u)
            : code == PTX_PUNCT_LE  ? !compare_less(b, a, u)
                                    : !compare_less(a, b, u);
        break;
    }
    *out = of_int(r, u && !truth);
    return true;
}

static bool float_op(ptx_parser_t *p, int code, double x, double y, ptx_const_t *out)
{
    switch (code) {
    case '+':
        *out = of_double(x + y);
        return true;
    case '-':
        *out = of_double(x - y);
        return true;
    case '*':
        *out = of_double(x * y);
        return true;
    case '/':
        *out = of_double(x / y);
        return true;
    case '<':
        *out = of_int(x < y, false);
        return true;
    case '>':
        *out = of_int(x > y, false);
        return true;
    case PTX_PUNCT_LE:
        *out = of_int(x <= y, false);
        return true;
    case PTX_PUNCT_GE:
        *out = of_int(x >= y, false);
        return true;
    case PTX_PUNCT_EQ:
        *out = of_int(x == y, false);
        return true;
    case PTX_PUNCT_NE:
        *out = of_int(x != y, false);
        return true;
    default:
        return ptx_p_unexpected(p, "an integer operand");
    }
}

static bool choose(ptx_parser_t *p, unsigned depth, ptx_const_t *value)
{
    ptx_const_t yes, no;
    if (!expression(p, 0, depth + 1, &yes) || !ptx_p_expect(p, ':') ||
        !expression(p, 0, depth + 1, &no))
        return false;
    *value = as_double(value) != 0 ? yes : no;
    return true;
}

/* Reads an operand and all operators that bind tighter than `floor`. */
static bool expression(ptx_parser_t *p, int floor, unsigned depth, ptx_const_t *out)
{
    ptx_const_t left;
    if (!unary(p, depth, &left))
        return false;
    for (;;) {
        int own = strength(&p->lex.tok), code = p->lex.tok.code;
        if (own == 0 || own <= floor)
            break;
        ptx_lex_next(&p->lex);
        if (code == '?') {
            if (!choose(p, depth, &left))
                return false;
            continue;
        }
        ptx_const_t right, result;
        if (!expression(p, own, depth + 1, &right))
            return false;
        bool integers = left.kind == PTX_CONST_INT && right.kind == PTX_CONST_INT;
        if (integers ? !integer_op(p, code, &left, &right, &result)
                     : !float_op(p, code, as_double(&left), as_double(&right), &result))
            return false;
        left = result;
    }
    *out = left;
    return true;
}

bool ptx_p_const(ptx_parser_t *p, bool tight, ptx_const_t *out)
{
    return expression(p, tight ? 10 : 0, 0, out);
}

bool ptx_p_offset(ptx_parser_t *p, int64_t *out)
{
    uint64_t sum = (uint64_t)*out;
    while (ptx_lex_is(&p->lex, '+') || ptx_lex_is(&p->lex, '-')) {
        bool minus = p->lex.tok.code == '-';
        ptx_const_t value;
        ptx_lex_next(&p->lex);
        if (!ptx_p_const(p, true, &value))
            return false;
        if (value.kind != PTX_CONST_INT)
            return ptx_p_unexpected(p, "an integer offset");
        sum = minus ? sum - value.bits : sum + value.bits;
    }
    *out = (int64_t)sum;
    return true;
}

/* Rounds to nearest even into a format of 16 bits with `mantissa` fraction bits. */
static uint64_t to_half(double d, int mantissa)
{
    int bias = (1 << (14 - mantissa)) - 1;
    uint64_t sign = signbit(d) ? 0x8000 : 0, infinity = (uint64_t)(2 * bias + 1) << mantissa;
    d = fabs(d);
    if (isnan(d))
        return sign | infinity | 1u << (mantissa - 1);
    if (isinf(d))
        return sign | infinity;
    int e;
    frexp(d, &e); /* d = m * 2^e with m in [0.5, 1) */
    int exponent = d == 0 || e - 1 < 1 - bias ? 1 - bias : e - 1;
    double scaled = nearbyint(ldexp(d, mantissa - exponent));
    uint64_t units = (uint64_t)scaled; /* a carry moves into the exponent, as it should */
    uint64_t bits = ((uint64_t)(exponent + bias - 1) << mantissa) + units;
    return sign | (bits > infinity ? infinity : bits);
}

static uint64_t to_f32(const ptx_const_t *v)
{
    if (v->kind == PTX_CONST_F32)
        return v->bits;
    float f = (float)as_double(v);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static uint64_t to_f64(const ptx_const_t *v)
{
    double d = as_double(v);
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

bool ptx_p_convert(ptx_parser_t *p, const ptx_const_t *v, ptx_type_t type, uint64_t *out)
{
    bool is_int = v->kind == PTX_CONST_INT;
    switch (type) {
    case PTX_F32:
    case PTX_F64:
        if (is_int)
            return ptx_p_fail(p, GB_ERR_FORMAT, p->lex.tok.line,
                              "an integer where a floating-point constant is wanted");
        *out = type == PTX_F32 ? to_f32(v) : to_f64(v);
        return true;
    case PTX_F16:
        *out = is_int ? v->bits : to_half(as_double(v), 10);
        return true;
    case PTX_BF16:
        *out = is_int ? v->bits : to_half(as_double(v), 7);
        return true;
    case PTX_B32:
        *out = is_int ? v->bits : to_f32(v);
        return true;
    case PTX_B64:
        *out = is_int ? v->bits : to_f64(v);
        return true;
    case PTX_TYPE_NONE:
        *out = v->bits;
        return true;
    default:
        if (!is_int)
            return ptx_p_fail(p, GB_ERR_FORMAT, p->lex.tok.line,
                              "a floating-point constant where an integer is wanted");
        *out = type == PTX_PRED ? v->bits != 0 : v->bits;
        return true;
    }
}

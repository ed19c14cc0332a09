/* Small floating-point formats, by the definition of rounding. */
#include "tests/ptx/pt_row.h"

#include <fenv.h>
#include <math.h>

const pt_format_t pt_f16 = {10, 5}, pt_bf16 = {7, 8};

double pt_half(uint64_t bits, char kind)
{
    pt_format_t f = kind == 'B' ? pt_bf16 : pt_f16;
    int bias = (1 << (f.exponent - 1)) - 1,
        e = (int)(bits >> f.mantissa & ((1u << f.exponent) - 1));
    uint64_t m = bits & ((1u << f.mantissa) - 1);
    double v;
    if (e == 2 * bias + 1)
        v = m ? (double)NAN : (double)INFINITY;
    else if (e == 0)
        v = ldexp((double)m, 1 - bias - (int)f.mantissa);
    else
        v = ldexp((double)(m | 1u << f.mantissa), e - bias - (int)f.mantissa);
    return bits >> (f.mantissa + f.exponent) & 1 ? -v : v;
}

/* Does what is cut off make the integer part one larger? `order`: of the rest against one half. */
static bool goes_up(uint64_t whole, bool inexact, int order, bool negative, int round)
{
    switch (round) {
    case FE_TOWARDZERO:
        return false;
    case FE_DOWNWARD:
        return inexact && negative;
    case FE_UPWARD:
        return inexact && !negative;
    case PT_AWAY:
        return order >= 0;
    default:
        return order > 0 || (order == 0 && (whole & 1));
    }
}

uint64_t pt_round(long double v, int sticky, pt_format_t f, int round)
{
    bool negative = signbit(v) != 0;
    uint64_t sign = (uint64_t)negative << (f.mantissa + f.exponent);
    int bias = (1 << (f.exponent - 1)) - 1, e;
    uint64_t infinity = (uint64_t)(2 * bias + 1) << f.mantissa;
    if (isnan(v))
        return ((uint64_t)1 << (f.mantissa + f.exponent)) - 1;
    if (isinf(v))
        return sign | infinity;
    if (v == 0)
        return sign;
    long double a = negative ? -v : v;
    int beyond = negative ? -sticky : sticky; /* of the magnitude */
    frexpl(a, &e);
    e = e - 1 < 1 - bias ? 1 - bias : e - 1;
    long double scaled = ldexpl(a, (int)f.mantissa - e), whole = floorl(scaled);
    if (whole == scaled && beyond < 0) { /* just below: the digits before */
        if (whole == (long double)((uint64_t)1 << f.mantissa) && e > 1 - bias) {
            e--;
            scaled *= 2;
        }
        whole = scaled - 1;
    }
    long double rest = scaled - whole;
    int order = rest > 0.5L ? 1 : rest < 0.5L ? -1 : 0;
    order = rest == 1 ? 1 : order ? order : beyond;
    uint64_t n = (uint64_t)whole;
    n += goes_up(n, rest != 0 || beyond != 0, order, negative, round);
    /* the carry into the exponent does the right thing by itself */
    uint64_t bits =
        n < (uint64_t)1 << f.mantissa ? n : n + ((uint64_t)(e + bias - 1) << f.mantissa);
    if (bits >= infinity) {
        bool stays = round == FE_TOWARDZERO || (round == FE_DOWNWARD && !negative) ||
                     (round == FE_UPWARD && negative);
        bits = stays ? infinity - 1 : infinity;
    }
    return sign | bits;
}

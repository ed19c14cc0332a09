#include "tests/ptx/pt_row.h"

#include <stdlib.h>
#include <string.h>

#include "tests/ptx/pt_device.h"

int64_t pt_signed(uint64_t value, unsigned bits)
{
    return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

uint64_t pt_low(uint64_t value, unsigned bits)
{
    return bits >= 64 ? value : value & (((uint64_t)1 << bits) - 1);
}

float pt_f32(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, 4);
    return value;
}

double pt_f64(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

uint64_t pt_bits32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

uint64_t pt_bits64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}

/* ---- values ---- */

static const uint64_t integers[] = {0,
                                    1,
                                    2,
                                    3,
                                    7,
                                    31,
                                    32,
                                    0x7f,
                                    0x80,
                                    0xff,
                                    0x7fff,
                                    0x8000,
                                    0xffff,
                                    0x10001,
                                    0x7fffffff,
                                    0x80000000,
                                    0x80000001,
                                    0xdeadbeef,
                                    0xfffffffe,
                                    0xffffffff,
                                    0x123456789abcdef0,
                                    0x7fffffffffffffff,
                                    0x8000000000000000,
                                    0xfffffffffffffff9,
                                    0xffffffffffffffff};
static const uint64_t shifts[] = {0, 1, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 0xffffffff};
static const double floats[] = {
    0.0,      -0.0,      1.0,      -1.0,         1.5,           -2.5,         3.0,
    0.1,      -1.0 / 3,  0.5,      -0.5,         127.5,         255.5,        -32768.5,
    65535.75, 8388609.5, 16777217, 2147483648.0, -2147483904.0, 4294967296.0, 9.3e18,
    -9.3e18,  1.9e19,    1e30,     -1e-30,       3.14159265};
static const double small_floats[] = {0.0,      -0.0, 1.0, -1.0, 0.5,  -2.5, 3.0,  0.1,
                                      -1.0 / 3, 1e-3, 3.1, -3.0, 1.75, 2.0,  7.25, -20.0};

static unsigned fill(uint64_t *out, const uint64_t *from, unsigned n, unsigned bits)
{
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++) {
        uint64_t value = pt_low(from[i], bits);
        bool known = false;
        for (unsigned k = 0; k < count; k++)
            known |= out[k] == value;
        if (!known)
            out[count++] = value;
    }
    return count;
}

static unsigned fill_floats(uint64_t *out, const double *from, unsigned n, bool wide, bool special)
{
    static const uint64_t special32[] = {1,          0x80000001, 0x7fffff,   0x800000,  0x80800000,
                                         0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000};
    static const uint64_t special64[] = {1,
                                         0x8000000000000001,
                                         0xfffffffffffff,
                                         0x10000000000000,
                                         0x7fefffffffffffff,
                                         0x7ff0000000000000,
                                         0xfff0000000000000,
                                         0x7ff8000000000000,
                                         0x3810000000000000};
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++)
        out[count++] = wide ? pt_bits64(from[i]) : pt_bits32((float)from[i]);
    for (unsigned i = 0; special && i < 9; i++)
        out[count++] = wide ? special64[i] : special32[i];
    return count;
}

/* Halves: signed zeros, ones, ties and what is next to them, the ends of the ranges, NaN. */
static const uint16_t small16[] = {0x0000, 0x8000, 0x3c00, 0xbc00, 0x3800, 0x3555, 0x4248,
                                   0xc100, 0x0001, 0x8001, 0x03ff, 0x0400, 0x8400, 0x7bff,
                                   0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x6400, 0x6401, 0x3c01,
                                   0xbbff, 0x1001, 0x4bff, 0x3e00};
static const uint16_t brain16[] = {0x0000, 0x8000, 0x3f80, 0xbf80, 0x3f00, 0x3eab, 0x4049,
                                   0xc020, 0x0001, 0x8001, 0x007f, 0x0080, 0x8080, 0x7f7f,
                                   0xff7f, 0x7f80, 0xff80, 0x7fc0, 0x4380, 0x4381, 0x3f81,
                                   0xbf7f, 0x3701, 0x5f7f, 0x3fc0};

#define COUNT(array) (unsigned)(sizeof(array) / sizeof((array)[0]))

static unsigned fill_small(uint64_t *out, bool brain)
{
    for (unsigned i = 0; i < COUNT(small16); i++)
        out[i] = brain ? brain16[i] : small16[i];
    return COUNT(small16);
}

/* Every value in the lower half, another one above it. */
static unsigned fill_pairs(uint64_t *out, bool brain)
{
    unsigned n = COUNT(small16);
    for (unsigned i = 0; i < n; i++) {
        const uint16_t *from = brain ? brain16 : small16;
        out[i] = from[i] | (uint64_t)from[(i * 8 + 3) % n] << 16;
    }
    return n;
}

unsigned pt_values(char kind, uint64_t *out)
{
    uint64_t singles[PT_VALUES];
    uint32_t state = 20;
    unsigned n;
    switch (kind) {
    case 'h':
        return fill(out, integers, COUNT(integers), 16);
    case 'w':
        return fill(out, integers, COUNT(integers), 32);
    case 'd':
        return fill(out, integers, COUNT(integers), 64);
    case 's':
        return fill(out, shifts, COUNT(shifts), 32);
    case 'f':
        return fill_floats(out, floats, COUNT(floats), false, true);
    case 'g':
        return fill_floats(out, floats, COUNT(floats), true, true);
    case 'n':
        return fill_floats(out, small_floats, COUNT(small_floats), false, false);
    case 'H':
    case 'B':
        return fill_small(out, kind == 'B');
    case 'X':
    case 'Y':
        return fill_pairs(out, kind == 'Y');
    case 'F': /* each f32 in the lower half, another one above it */
        n = fill_floats(singles, floats, COUNT(floats), false, true);
        for (unsigned i = 0; i < n; i++)
            out[i] = singles[i] | singles[(i * 11 + 4) % n] << 32;
        return n;
    case 'T': /* every code of 8 bits in the lower half, twice */
        for (n = 0; n < 128; n++)
            out[n] = 2 * n | (2 * n + 1) << 8;
        return n;
    case 'M':
        for (n = 0; n < 32; n++)
            out[n] = (uint64_t)pt_random(&state) << 32 | pt_random(&state);
        return n;
    case 'p':
        out[0] = 0;
        out[1] = 1;
        return 2;
    default:
        fail_msg("no values of kind %c", kind);
        return 0;
    }
}

/* All combinations, or a third of them by turns where there are many; `in` has 4 per case. */
unsigned pt_cases(const pt_row_t *row, uint64_t **in)
{
    uint64_t values[4][PT_VALUES];
    unsigned counts[4] = {1, 1, 1, 1}, sources = (unsigned)strlen(row->sources), total = 1;
    for (unsigned s = 0; s < sources; s++) {
        counts[s] = pt_values(row->sources[s], values[s]);
        total *= counts[s];
    }
    unsigned step = total > 50000 ? 13 : total > 20000 ? 7 : 1, n = 0;
    uint64_t *cases = calloc((size_t)total / step + 1, 4 * sizeof *cases);
    assert_non_null(cases);
    for (unsigned i = 0; i < total; i += step, n++) {
        unsigned rest = i;
        for (unsigned s = 0; s < sources; s++) {
            char kind = row->shape[2 + s];
            cases[4 * n + s] =
                pt_low(values[s][rest % counts[s]], kind == 'h'                  ? 16
                                                    : kind == 'd' || kind == 'g' ? 64
                                                                                 : 32);
            rest /= counts[s];
        }
    }
    *in = cases;
    return n;
}

/* The immediates that the last source is replaced with: some of its own values. */
unsigned pt_immediates(const pt_row_t *row, uint64_t out[PT_IMMEDIATES])
{
    size_t sources = strlen(row->sources);
    char kind = row->sources[sources - 1];
    uint64_t values[PT_VALUES];
    if (row->body || sources < 2 || !strchr("hwdsfgn", kind))
        return 0;
    unsigned n = pt_values(kind, values);
    for (unsigned i = 0; i < PT_IMMEDIATES; i++)
        out[i] = values[(i * 7 + 3) % n];
    return PT_IMMEDIATES;
}

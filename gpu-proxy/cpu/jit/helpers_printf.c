/* printf of kernels. The format is read here, each conversion is done by the C library. */
#include "gpu-proxy/cpu/jit/helpers_runtime.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_ARGUMENTS = 32,  /* what comes behind them is printed as it stands */
    MOST_DIGITS = 100000, /* of a width or precision: no more is believed */
    SPEC_BYTES = 32
};

typedef struct {
    cpu_text_t *text;
    const cpu_caller_t *caller;
    uint64_t at; /* the next argument */
    int32_t taken;
    bool faulted;
} args_t;

typedef struct {
    char flags[8];
    unsigned flag_count;
    bool has_width, has_precision;
    int width, precision;
    unsigned size; /* bytes of an integer: 1, 2, 4 or 8 */
    char type;
    size_t length; /* in the format */
} spec_t;

static uint64_t take(args_t *a, unsigned bytes)
{
    uint64_t value = 0;
    a->at = (a->at + bytes - 1) & ~(uint64_t)(bytes - 1);
    const cpu_caller_t *c = a->caller;
    const void *p =
        cpu_lane_stretch(c->launch, a->at, bytes, 1, PTX_SPACE_GENERIC, false, c->strip, c->lane);
    if (p == NULL) {
        a->faulted = true;
        return 0;
    }
    memcpy(&value, p, bytes);
    a->at += bytes;
    a->taken++;
    return value;
}

static int number(const char **p)
{
    int n = 0;
    for (; **p >= '0' && **p <= '9'; (*p)++) {
        n = n < MOST_DIGITS ? n * 10 + (**p - '0') : n;
    }
    return n < MOST_DIGITS ? n : MOST_DIGITS;
}

static int star(args_t *a)
{
    int n = (int32_t)(uint32_t)take(a, 4);
    return n > MOST_DIGITS ? MOST_DIGITS : n < -MOST_DIGITS ? -MOST_DIGITS : n;
}

static void read_width(args_t *a, const char **p, spec_t *s)
{
    if (**p == '*') {
        (*p)++;
        s->has_width = true;
        s->width = star(a);
    } else if (**p >= '0' && **p <= '9') {
        s->has_width = true;
        s->width = number(p);
    }
    if (**p != '.') {
        return;
    }
    (*p)++;
    s->has_precision = true;
    if (**p == '*') {
        (*p)++;
        s->precision = star(a);
    } else {
        s->precision = number(p);
    }
}

/* The conversion at p, which is behind its %. False: it is none, and stands for itself. */
static bool read_spec(args_t *a, const char *p, spec_t *s)
{
    const char *begin = p;
    *s = (spec_t){.size = 4};
    for (; *p != 0 && strchr("#0+- ", *p) != NULL; p++) {
        if (memchr(s->flags, *p, s->flag_count) == NULL) {
            s->flags[s->flag_count++] = *p;
        }
    }
    read_width(a, &p, s);
    for (; *p == 'h' || *p == 'l' || *p == 'z' || *p == 'j' || *p == 't' || *p == 'L'; p++) {
        s->size = *p == 'h' ? (s->size == 2 ? 1 : 2) : 8;
    }
    s->type = *p;
    s->length = (size_t)(p - begin) + (*p != 0);
    return *p != 0 && strchr("cdiouxXpeEfFgGaAs", *p) != NULL;
}

/* The conversion for the C library: `modifier` and type as it wants them. */
static void write_spec(const spec_t *s, const char *modifier, char *out)
{
    int n = snprintf(out, SPEC_BYTES, "%%%.*s", (int)s->flag_count, s->flags);
    if (s->has_width) {
        n += snprintf(out + n, SPEC_BYTES - (size_t)n, "%d", s->width);
    }
    if (s->has_precision && s->precision >= 0) {
        n += snprintf(out + n, SPEC_BYTES - (size_t)n, ".%d", s->precision);
    }
    snprintf(out + n, SPEC_BYTES - (size_t)n, "%s%c", modifier, s->type);
}

static void pad(cpu_text_t *text, int count)
{
    for (int n = 0; n < count; n++) {
        cpu_text_add(text, " ", 1);
    }
}

static void add_string(args_t *a, const spec_t *s)
{
    cpu_text_t string;
    cpu_text_init(&string);
    uint64_t address = take(a, 8);
    if (!a->faulted && !cpu_text_add_string(&string, a->caller, address)) {
        a->faulted = true;
    }
    bool left = memchr(s->flags, '-', s->flag_count) != NULL || s->width < 0;
    int width = s->width < 0 ? -s->width : s->width;
    size_t shown = s->has_precision && s->precision >= 0 && (size_t)s->precision < string.used
                       ? (size_t)s->precision
                       : string.used;
    int spaces = shown < (size_t)width ? width - (int)shown : 0;
    pad(a->text, left ? 0 : spaces);
    cpu_text_add(a->text, string.data, shown);
    pad(a->text, left ? spaces : 0);
    cpu_text_free(&string);
}

/* Formats with the value that the type wants, into room for `room` bytes. */
static int format_value(char *out, size_t room, const spec_t *s, uint64_t value)
{
    char spec[SPEC_BYTES];
    double real;
    switch (s->type) {
    case 'd':
    case 'i':
        write_spec(s, s->size == 8 ? "ll" : s->size == 2 ? "h" : s->size == 1 ? "hh" : "", spec);
        return s->size == 8 ? snprintf(out, room, spec, (long long)value)
                            : snprintf(out, room, spec, (int)(uint32_t)value);
    case 'o':
    case 'u':
    case 'x':
    case 'X':
        write_spec(s, s->size == 8 ? "ll" : s->size == 2 ? "h" : s->size == 1 ? "hh" : "", spec);
        return s->size == 8 ? snprintf(out, room, spec, (unsigned long long)value)
                            : snprintf(out, room, spec, (unsigned)value);
    case 'c':
        write_spec(s, "", spec);
        return snprintf(out, room, spec, (int)(unsigned char)value);
    case 'p':
        write_spec(s, "", spec);
        return snprintf(out, room, spec, (void *)(uintptr_t)value);
    default:
        write_spec(s, "", spec);
        memcpy(&real, &value, sizeof real);
        return snprintf(out, room, spec, real);
    }
}

static void add_value(args_t *a, const spec_t *s)
{
    bool wide = strchr("peEfFgGaA", s->type) != NULL || (s->size == 8 && s->type != 'c');
    uint64_t value = take(a, wide ? 8 : 4);
    char small[512];
    int n = a->faulted ? -1 : format_value(small, sizeof small, s, value);
    if (n >= 0 && (size_t)n < sizeof small) {
        cpu_text_add(a->text, small, (size_t)n);
    } else if (n >= 0) { /* wide: straight to where it belongs */
        size_t used = a->text->used;
        for (int k = 0; k <= n; k++) {
            cpu_text_add(a->text, "", 1);
        }
        if (!a->text->failed) {
            format_value(a->text->data + used, (size_t)n + 1, s, value);
            a->text->used--;
        }
    }
}

static void format_all(args_t *a, const char *p)
{
    while (*p != 0 && !a->faulted) {
        size_t plain = strcspn(p, "%");
        cpu_text_add(a->text, p, plain);
        p += plain;
        if (*p == 0) {
            break;
        }
        if (p[1] == '%') {
            cpu_text_add(a->text, "%", 1);
            p += 2;
            continue;
        }
        spec_t s;
        if (a->taken >= MOST_ARGUMENTS || !read_spec(a, p + 1, &s)) {
            cpu_text_add(a->text, p, 1);
            p++;
            continue;
        }
        if (s.type == 's') {
            add_string(a, &s);
        } else {
            add_value(a, &s);
        }
        p += 1 + s.length;
    }
}

bool cpu_format(cpu_text_t *text, const cpu_caller_t *caller, uint64_t format, uint64_t arguments,
                int32_t *result)
{
    if (format == 0) {
        *result = -1;
        return true;
    }
    cpu_text_t own;
    args_t a = {.text = text, .caller = caller, .at = arguments};
    cpu_text_init(&own);
    bool ok = cpu_text_add_string(&own, caller, format);
    cpu_text_add(&own, "", 1);
    if (ok && own.failed) {
        text->failed = true;
    } else if (ok) {
        format_all(&a, own.data);
    }
    cpu_text_free(&own);
    *result = a.taken;
    return ok && !a.faulted;
}

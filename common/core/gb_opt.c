#include "common/core/gb_opt.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gb_status_t gb_parse_int(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 0);
    if (end == text || errno)
        return gb_fail(GB_ERR_INVALID, "'%s' is not a whole number", text);
    int shift = 0;
    if (*end) {
        static const char units[] = "KMGT";
        const char *unit = strchr(units, toupper((unsigned char)*end));
        if (!unit || end[1])
            return gb_fail(GB_ERR_INVALID, "'%s' is not a whole number (K, M, G, T may follow)",
                           text);
        shift = 10 * (int)(unit - units + 1);
    }
    if (__builtin_mul_overflow(v, 1LL << shift, &v))
        return gb_fail(GB_ERR_INVALID, "'%s' is too large", text);
    *out = v;
    return GB_OK;
}

static gb_status_t store(const gb_opt_t *o, void *fields, const char *text)
{
    void *field = (char *)fields + o->offset;
    char *end;
    double d;
    switch (o->type) {
    case GB_OPT_FLAG:
        if (strcmp(text, "true") && strcmp(text, "false") && strcmp(text, "1") && strcmp(text, "0"))
            return gb_fail(GB_ERR_INVALID, "--%s is a switch: true or false", o->name);
        *(bool *)field = !strcmp(text, "true") || !strcmp(text, "1");
        return GB_OK;
    case GB_OPT_INT:
        if (gb_parse_int(text, field))
            return gb_fail(GB_ERR_INVALID, "--%s: '%s' is not a whole number", o->name, text);
        return GB_OK;
    case GB_OPT_DOUBLE:
        d = strtod(text, &end);
        if (end == text || *end)
            return gb_fail(GB_ERR_INVALID, "--%s: '%s' is not a number", o->name, text);
        *(double *)field = d;
        return GB_OK;
    case GB_OPT_STRING:
        *(const char **)field = text;
        return GB_OK;
    }
    return GB_ERR_INTERNAL;
}

static const gb_opt_t *find(const gb_opt_table_t *t, const char *name, size_t len)
{
    for (const gb_opt_t *o = t->options; o->name; o++)
        if (strlen(o->name) == len && !strncmp(o->name, name, len))
            return o;
    return NULL;
}

static gb_status_t apply_defaults(const gb_opt_table_t *t, void *fields)
{
    for (const gb_opt_t *o = t->options; o->name; o++) {
        if (!o->value)
            continue;
        gb_status_t st = store(o, fields, o->value);
        if (st)
            return st;
    }
    return GB_OK;
}

static gb_status_t apply_env(const gb_opt_table_t *t, void *fields)
{
    for (const gb_opt_t *o = t->options; o->name; o++) {
        const char *v = o->env ? getenv(o->env) : NULL;
        if (!v)
            continue;
        if (store(o, fields, v))
            return gb_fail(GB_ERR_INVALID, "%s=%s: not a value for --%s", o->env, v, o->name);
    }
    return GB_OK;
}

/* Fields may point at values of a configuration file for the life of the program. */
typedef struct kept {
    struct kept *next;
    char text[];
} kept_t;

static kept_t *g_kept;

static const char *keep(const char *text)
{
    size_t size = strlen(text) + 1;
    kept_t *k = malloc(sizeof *k + size);
    if (!k)
        return NULL;
    memcpy(k->text, text, size);
    k->next = g_kept;
    g_kept = k;
    return k->text;
}

static char *trim(char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    size_t n = strlen(s);
    while (n && isspace((unsigned char)s[n - 1]))
        s[--n] = 0;
    return s;
}

static gb_status_t apply_line(const gb_opt_table_t *t, void *fields, const char *path, int number,
                              char *line)
{
    char *hash = strchr(line, '#');
    if (hash)
        *hash = 0;
    char *key = trim(line);
    if (!*key)
        return GB_OK;
    char *eq = strchr(key, '=');
    if (!eq)
        return gb_fail(GB_ERR_INVALID, "%s:%d: expected 'key = value'", path, number);
    *eq = 0;
    key = trim(key);
    char *value = trim(eq + 1);
    const gb_opt_t *o = find(t, key, strlen(key));
    if (!o)
        return gb_fail(GB_ERR_INVALID, "%s:%d: unknown key '%s': see --help", path, number, key);
    const char *kept = o->type == GB_OPT_STRING ? keep(value) : value;
    if (!kept)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    if (store(o, fields, kept))
        return gb_fail(GB_ERR_INVALID, "%s:%d: '%s' is not a value for %s", path, number, kept,
                       key);
    return GB_OK;
}

static gb_status_t apply_file(const gb_opt_table_t *t, void *fields, const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return gb_fail_errno(GB_ERR_INVALID, errno, "cannot read the configuration %s", path);
    char line[1024];
    gb_status_t st = GB_OK;
    for (int number = 1; !st && fgets(line, sizeof line, f); number++)
        st = apply_line(t, fields, path, number, line);
    fclose(f);
    return st;
}

/* One option at argv[*i]; moves *i past its operand. */
static gb_status_t apply_arg(const gb_opt_table_t *t, void *fields, int argc, char **argv, int *i)
{
    const char *name = argv[*i] + 2;
    const char *eq = strchr(name, '=');
    size_t len = eq ? (size_t)(eq - name) : strlen(name);
    const gb_opt_t *o = find(t, name, len);
    if (!o && !eq && !strncmp(name, "no-", 3)) {
        o = find(t, name + 3, len - 3);
        if (o && o->type == GB_OPT_FLAG)
            return store(o, fields, "false");
        o = NULL;
    }
    if (!o)
        return gb_fail(GB_ERR_INVALID, "unknown option '%s': see %s --help", argv[*i], t->program);
    if (o->type == GB_OPT_FLAG)
        return store(o, fields, eq ? eq + 1 : "true");
    if (eq)
        return store(o, fields, eq + 1);
    if (*i + 1 >= argc)
        return gb_fail(GB_ERR_INVALID, "--%s wants %s: see %s --help", o->name,
                       o->operand ? o->operand : "a value", t->program);
    return store(o, fields, argv[++*i]);
}

static const char *config_path(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
        if (!strncmp(argv[i], "--config=", 9))
            return argv[i] + 9;
        if (!strcmp(argv[i], "--config") && i + 1 < argc)
            return argv[i + 1];
    }
    return NULL;
}

gb_status_t gb_opt_parse(const gb_opt_table_t *t, int argc, char **argv, int stop_at_operand,
                         void *fields, int *first)
{
    gb_status_t st = apply_defaults(t, fields);
    const char *file = find(t, "config", 6) ? config_path(argc, argv) : NULL;
    if (!st && file)
        st = apply_file(t, fields, file);
    if (!st)
        st = apply_env(t, fields);
    int operands = 1;
    bool only_operands = false;
    for (int i = 1; !st && i < argc; i++) {
        if (!only_operands && !strcmp(argv[i], "--")) {
            only_operands = true;
            continue;
        }
        if (only_operands || strncmp(argv[i], "--", 2)) {
            if (!only_operands && argv[i][0] == '-' && argv[i][1] && strcmp(argv[i], "-h"))
                return gb_fail(GB_ERR_INVALID, "unknown option '%s': see %s --help", argv[i],
                               t->program);
            if (!strcmp(argv[i], "-h") && !only_operands) {
                gb_opt_help(t);
                return GB_ERR_CANCELLED;
            }
            if (stop_at_operand) {
                *first = i;
                return GB_OK;
            }
            argv[operands++] = argv[i];
            continue;
        }
        if (!strcmp(argv[i], "--help")) {
            gb_opt_help(t);
            return GB_ERR_CANCELLED;
        }
        if (!strcmp(argv[i], "--version")) {
            printf("%s (gable) %s\n", t->program, GABLE_VERSION);
            return GB_ERR_CANCELLED;
        }
        st = apply_arg(t, fields, argc, argv, &i);
    }
    if (st)
        return st;
    /* Operands were moved to the end of argv's used part: [argc - n, argc). */
    int n = operands - 1;
    for (int i = n; i >= 1; i--)
        argv[argc - n + i - 1] = argv[i];
    *first = stop_at_operand ? argc : argc - n;
    return GB_OK;
}

enum { HELP_LEFT = 31, HELP_WIDTH = 100 };

/* One option's help in the right column, wrapped between words. */
static void print_wrapped(const char *text)
{
    int column = HELP_LEFT;
    while (*text) {
        int size = (int)strcspn(text, " \n");
        if (column > HELP_LEFT && column + 1 + size > HELP_WIDTH) {
            printf("\n%*s", HELP_LEFT, "");
            column = HELP_LEFT;
        }
        column += printf("%s%.*s", column > HELP_LEFT ? " " : "", size, text);
        text += size;
        text += *text != 0;
    }
    putchar('\n');
}

static void print_option(const gb_opt_t *o)
{
    char text[1024];
    bool shown = o->value && *o->value && o->type != GB_OPT_FLAG;
    int left = printf("  --%s%s%s", o->name, o->operand ? " " : "", o->operand ? o->operand : "");
    if (left >= HELP_LEFT) {
        putchar('\n');
        left = 0;
    }
    printf("%*s", HELP_LEFT - left, "");
    snprintf(text, sizeof text, "%s%s%s%s%s%s%s", o->help, shown ? " [" : "", shown ? o->value : "",
             shown ? "]" : "", o->env ? " ($" : "", o->env ? o->env : "", o->env ? ")" : "");
    print_wrapped(text);
}

void gb_opt_help(const gb_opt_table_t *t)
{
    printf("Usage: %s\n\n%s\n\nOptions:\n", t->usage, t->about);
    for (const gb_opt_t *o = t->options; o->name; o++)
        print_option(o);
    printf("  %-28s this text\n  %-28s name and version\n", "--help", "--version");
}

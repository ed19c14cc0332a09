/* Writes the page docs/coverage-ptx.md: every form of every instruction goes through the parser and
 * through what the device says of its coverage. Arguments: the folder of the tests, and a file of
 * what instruction tests check, "test mnemonic..." a line (PT_ROWS of tests/ptx/pt_row.c). */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/jit/jit.h"
#include "gpu-proxy/cpu/ptx/ptx_parse.h"
#include "tests/ptx/coverage/forms.h"

enum { LONGEST = 256, SHOWN = 6 };

/* The tests of one program or one source file. */
typedef struct {
    char name[64];
    char *text;    /* a source's text, or NULL */
    unsigned hits; /* forms of the present row */
} proof_t;

typedef struct {
    proof_t proofs[64];
    unsigned proof_count;
    char *checked; /* " test mnemonic mnemonic\n"... */
} evidence_t;

/* What becomes of one row of the table. */
typedef struct {
    unsigned forms, covered, proven;
    char missing[SHOWN][LONGEST];
} tally_t;

static void die(const char *what)
{
    fprintf(stderr, "ptx_coverage: %s\n", what);
    exit(2);
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        die(path);
    size_t size = 0, used = 0;
    char *text = NULL;
    do {
        size = size ? size * 2 : 1 << 16;
        text = realloc(text, size);
        if (!text)
            die("out of memory");
        used += fread(text + used, 1, size - used - 1, file);
    } while (used == size - 1);
    text[used] = 0;
    fclose(file);
    return text;
}

/* ---- operands ---- */

static bool type_register(const char *word, size_t length, bool wide, char *prefix)
{
    static const struct {
        const char *types;
        char narrow, wide;
    } table[] = {{" u8 s8 b8 u16 s16 b16 f16 bf16 ", 'h', 'w'},
                 {" u32 s32 b32 f16x2 bf16x2 u16x2 s16x2 tf32 ", 'w', 'd'},
                 {" u64 s64 b64 f32x2 ", 'd', 'd'},
                 {" f32 ", 'f', 'f'},
                 {" f64 ", 'g', 'g'},
                 {" pred ", 'p', 'p'}};
    char key[LONGEST];
    snprintf(key, sizeof key, " %.*s ", (int)length, word);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strstr(table[i].types, key)) {
            *prefix = wide ? table[i].wide : table[i].narrow;
            return true;
        }
    }
    return false;
}

/* Register letters of the mnemonic's first two types. */
static void find_types(const char *mnemonic, char out[2], char *wide)
{
    unsigned n = 0;
    for (const char *p = strchr(mnemonic, '.'); p && n < 2; p = strchr(p, '.')) {
        size_t length = strcspn(++p, ".");
        char letter;
        if (type_register(p, length, false, &letter)) {
            if (n == 0)
                type_register(p, length, true, wide);
            out[n++] = letter;
        }
    }
    if (n == 1)
        out[1] = out[0];
}

static void write_operands(const char *mnemonic, const char *operands, char *out, size_t size)
{
    char types[2] = {'w', 'w'}, wide = 'd';
    size_t used = 0;
    unsigned number = 1;
    find_types(mnemonic, types, &wide);
    out[0] = 0;
    for (const char *p = operands; *p; number++) {
        size_t length = strcspn(p, " ");
        char letter = length != 1 ? 0
                      : *p == '1' ? types[0]
                      : *p == '2' ? types[1]
                      : *p == 'W' ? wide
                                  : 0;
        if (letter && !(strncmp(mnemonic, "bar", 3) == 0 || strncmp(mnemonic, "cp.", 3) == 0 ||
                        strncmp(mnemonic, "pm", 2) == 0))
            used += (size_t)snprintf(out + used, size - used, "%s%%%c%u", number > 1 ? ", " : "",
                                     letter, number);
        else
            used += (size_t)snprintf(out + used, size - used, "%s%.*s", number > 1 ? ", " : "",
                                     (int)length, p);
        p += length;
        p += *p == ' ';
    }
}

/* ---- one form ---- */

static bool is_covered(const char *mnemonic, const char *operands)
{
    char text[2048], list[LONGEST];
    write_operands(mnemonic, operands, list, sizeof list);
    int n = snprintf(text, sizeof text,
                     ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n"
                     ".reg .pred %%p<8>; .reg .b16 %%h<12>; .reg .b32 %%w<12>; .reg .b64 %%d<12>;\n"
                     ".reg .f32 %%f<12>; .reg .f64 %%g<12>; .reg .b128 %%q<4>;\n"
                     "%s %s;\nDone: ret;\n}\n",
                     mnemonic, list);
    ptx_module_t *module = NULL;
    if (ptx_parse(text, (size_t)n, NULL, &module) != GB_OK)
        return false;
    bool covered = cpu_jit_covers(module, NULL) == GB_OK;
    ptx_module_free(module);
    return covered;
}

/* Is the mnemonic a word of a line of what tests check? Counts the test. */
static bool count_checks(evidence_t *e, const char *mnemonic)
{
    bool found = false;
    size_t length = strlen(mnemonic);
    for (unsigned i = 0; i < e->proof_count; i++) {
        proof_t *p = &e->proofs[i];
        if (p->text)
            continue;
        size_t name = strlen(p->name);
        for (const char *at = e->checked; (at = strstr(at, mnemonic)) != NULL; at++) {
            const char *line = at;
            while (line > e->checked && line[-1] != '\n')
                line--;
            if (at > e->checked && at[-1] == ' ' && strchr(" \n", at[length]) &&
                strncmp(line, p->name, name) == 0 && line[name] == ' ') {
                p->hits++;
                found = true;
                break;
            }
        }
    }
    return found;
}

static void try_form(evidence_t *e, tally_t *t, const char *mnemonic, const char *operands)
{
    t->forms++;
    if (is_covered(mnemonic, operands)) {
        t->covered++;
        t->proven += count_checks(e, mnemonic);
    } else if (t->forms - t->covered <= SHOWN) {
        snprintf(t->missing[t->forms - t->covered - 1], LONGEST, "%s", mnemonic);
    }
}

/* Every alternative of the pattern's first group, and so on. */
static void expand(evidence_t *e, tally_t *t, const char *done, const char *rest,
                   const char *operands)
{
    char next[LONGEST];
    const char *open = strchr(rest, '(');
    if (!open) {
        snprintf(next, sizeof next, "%s%s", done, rest);
        try_form(e, t, next, operands);
        return;
    }
    const char *close = strchr(open, ')');
    for (const char *p = open + 1; p <= close; p++) {
        size_t length = strcspn(p, "|)");
        snprintf(next, sizeof next, "%s%.*s%.*s", done, (int)(open - rest), rest, (int)length, p);
        expand(e, t, next, close + 1, operands);
        p += length;
    }
}

/* ---- the page ---- */

/* Sources that write the opcode out, where no table of rows does. */
static void find_sources(evidence_t *e, const char *pattern)
{
    char opcode[LONGEST];
    const char *from = pattern[0] == '(' ? pattern + 1 : pattern;
    size_t length = strcspn(from, "(|).");
    snprintf(opcode, sizeof opcode, "%.*s", (int)length, from);
    if (from[length] == '.' && strncmp(from, "bar", 3) == 0)
        snprintf(opcode, sizeof opcode, "%.*s",
                 (int)(length + 1 + strcspn(from + length + 1, "(.")), from);
    for (unsigned i = 0; i < e->proof_count; i++) {
        proof_t *p = &e->proofs[i];
        for (const char *at = p->text; at && (at = strstr(at, opcode)) != NULL; at++) {
            bool begins = at == p->text || strchr(" \"\t;n", at[-1]);
            char after = at[strlen(opcode)];
            if (begins && (after == '.' || after == ';' || (after == ' ' && at[-1] != ' '))) {
                p->hits = 1;
                break;
            }
        }
    }
}

static void write_pattern(const char *pattern)
{
    putchar('`');
    for (const char *p = pattern; *p; p++)
        putchar(*p == '(' ? '{' : *p == ')' ? '}' : *p == '|' ? ',' : *p);
    putchar('`');
}

static void write_row(evidence_t *e, const form_t *form)
{
    tally_t t = {0};
    bool any = false;
    for (unsigned i = 0; i < e->proof_count; i++)
        e->proofs[i].hits = 0;
    expand(e, &t, "", form->pattern, form->operands);
    if (t.covered && !t.proven)
        find_sources(e, form->pattern);
    printf("| ");
    write_pattern(form->pattern);
    printf(" | %s | %u of %u | ",
           t.covered == t.forms ? "covered"
           : t.covered          ? "partly"
                                : "refused",
           t.covered, t.forms);
    for (unsigned i = 0; i < e->proof_count; i++) {
        proof_t *p = &e->proofs[i];
        if (p->hits && !p->text)
            printf("%s%s: %u", any ? ", " : "", p->name, p->hits);
        else if (p->hits)
            printf("%s%s", any ? ", " : "", p->name);
        any |= p->hits != 0;
    }
    printf(" | ");
    unsigned missing = t.forms - t.covered;
    for (unsigned i = 0; t.covered && i < missing && i < SHOWN; i++)
        printf("%s`%s`", i ? ", " : "", t.missing[i]);
    if (t.covered && missing > SHOWN)
        printf(" and %u more", missing - SHOWN);
    printf(" |\n");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const proof_t *)a)->name, ((const proof_t *)b)->name);
}

/* Names of test programs, from the lines; and the sources of the tests. */
static void gather(evidence_t *e, const char *folder, const char *rows)
{
    e->checked = read_file(rows);
    for (const char *line = e->checked; *line; line += strcspn(line, "\n") + 1) {
        int length = (int)strcspn(line, " ");
        bool known = false;
        for (unsigned i = 0; i < e->proof_count; i++)
            known |= strlen(e->proofs[i].name) == (size_t)length &&
                     strncmp(e->proofs[i].name, line, (size_t)length) == 0;
        if (!known && e->proof_count < 64)
            snprintf(e->proofs[e->proof_count++].name, 64, "%.*s", length, line);
    }
    DIR *dir = opendir(folder);
    if (!dir)
        die(folder);
    for (struct dirent *d; (d = readdir(dir)) != NULL;) {
        char path[1024];
        size_t length = strlen(d->d_name);
        if (strncmp(d->d_name, "test_ptx_", 9) != 0 || strcmp(d->d_name + length - 2, ".c") != 0 ||
            e->proof_count >= 64)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        proof_t *p = &e->proofs[e->proof_count++];
        snprintf(p->name, sizeof p->name, "%.*s", (int)(length - 2), d->d_name);
        p->text = read_file(path);
    }
    closedir(dir);
    qsort(e->proofs, e->proof_count, sizeof e->proofs[0], by_name);
}

int main(int argc, char **argv)
{
    static evidence_t e;
    if (argc != 3)
        die("usage: ptx_coverage TESTS ROWS");
    gather(&e, argv[1], argv[2]);
    printf(
        "# What PTX the software device runs\n\n"
        "Made by `tests/ptx/coverage`: every form below went through the parser and through the\n"
        "check that decides when a module is loaded. Do not edit it: build the target\n"
        "`ptx_coverage_page`.\n\n"
        "Braces list alternatives. \"Tests\" names the programs of tests/ptx; a number says how "
        "many\n"
        "of the forms one of its tables of instructions checks bit by bit against a reference in "
        "C,\n"
        "in vectors of every width, with lanes apart, and as scalar code; without a number the "
        "program\n"
        "contains kernels that use the instruction. What is not covered is refused when the module "
        "is\n"
        "loaded, with the line in the JIT's error log.\n");
    for (unsigned i = 0; i < coverage_form_count; i++) {
        const form_t *form = &coverage_forms[i];
        if (form->pattern)
            write_row(&e, form);
        else
            printf(
                "\n## %s\n\n| Instruction | | Forms | Tests | Missing |\n|---|---|---|---|---|\n",
                form->operands);
    }
    return 0;
}

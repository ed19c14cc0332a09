/* cli_table.c - every cell is kept twice: as text for people and as JSON. */
#include "cli/cli_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/core/gb_log.h"

typedef struct {
    char *text;
    int right; /* numbers stand at the right */
    json_t *json;
} cell_t;

struct cli_table {
    const cli_column_t *columns;
    size_t width; /* columns */
    cell_t *cells;
    size_t count, capacity;
};

static void *need(void *memory)
{
    if (memory)
        return memory;
    gb_complain("out of memory: try again");
    exit(1);
}

cli_table_t *cli_table_create(const cli_column_t *columns)
{
    cli_table_t *table = need(calloc(1, sizeof *table));
    table->columns = columns;
    while (columns[table->width].key)
        table->width++;
    return table;
}

void cli_table_free(cli_table_t *table)
{
    for (size_t i = 0; i < table->count; i++) {
        free(table->cells[i].text);
        json_decref(table->cells[i].json);
    }
    free(table->cells);
    free(table);
}

static void add(cli_table_t *table, const char *text, int right, json_t *json)
{
    if (table->count == table->capacity) {
        table->capacity = table->capacity ? table->capacity * 2 : 64;
        table->cells = need(realloc(table->cells, table->capacity * sizeof *table->cells));
    }
    cell_t *cell = &table->cells[table->count++];
    cell->text = need(strdup(text));
    cell->right = right;
    cell->json = need(json);
}

void cli_table_text(cli_table_t *table, const char *value)
{
    /* A name that is not UTF-8 must not make the whole list unprintable. */
    json_t *json = json_string(value);
    add(table, *value ? value : "-", 0, json ? json : json_string("?"));
}

void cli_table_int(cli_table_t *table, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    add(table, text, 1, json_integer((json_int_t)value));
}

void cli_table_id(cli_table_t *table, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)value);
    add(table, text, 0, json_string(text));
}

void cli_table_bytes(cli_table_t *table, uint64_t value)
{
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    char text[32];
    double number = (double)value;
    int unit = 0;
    while (number >= 1024 && unit < 4) {
        number /= 1024;
        unit++;
    }
    snprintf(text, sizeof text, number < 10 && unit ? "%.1f %s" : "%.0f %s", number, UNITS[unit]);
    add(table, text, 1, json_integer((json_int_t)value));
}

void cli_table_duration(cli_table_t *table, uint64_t value)
{
    char text[64];
    unsigned long long s = value / 1000;
    if (s < 60)
        snprintf(text, sizeof text, "%llus", s);
    else if (s < 3600)
        snprintf(text, sizeof text, "%llum%02llus", s / 60, s % 60);
    else if (s < 86400)
        snprintf(text, sizeof text, "%lluh%02llum", s / 3600, s / 60 % 60);
    else
        snprintf(text, sizeof text, "%llud%02lluh", s / 86400, s / 3600 % 24);
    add(table, text, 1, json_integer((json_int_t)value));
}

void cli_table_real(cli_table_t *table, double value, int digits)
{
    char text[64];
    if (!isfinite(value)) {
        add(table, "-", 1, json_null());
        return;
    }
    snprintf(text, sizeof text, "%.*f", digits, value);
    add(table, text, 1, json_real(value));
}

/* ---- printing ---- */

static size_t column_width(const cli_table_t *table, size_t column)
{
    size_t width = strlen(table->columns[column].title);
    for (size_t i = column; i < table->count; i += table->width) {
        size_t n = strlen(table->cells[i].text);
        width = n > width ? n : width;
    }
    return width;
}

static size_t last_shown(const cli_table_t *table)
{
    size_t last = 0;
    for (size_t c = 0; c < table->width; c++)
        if (table->columns[c].title)
            last = c;
    return last;
}

static void print_cell(const char *text, int right, size_t width, int last, FILE *out)
{
    if (last && !right)
        fprintf(out, "%s\n", text);
    else
        fprintf(out, "%*s%s", right ? (int)width : -(int)width, text, last ? "\n" : "  ");
}

void cli_table_print(const cli_table_t *table, const char *empty, FILE *out)
{
    if (!table->count) {
        fprintf(out, "%s\n", empty);
        return;
    }
    size_t last = last_shown(table);
    for (size_t c = 0; c <= last; c++)
        if (table->columns[c].title)
            print_cell(table->columns[c].title, table->cells[c].right, column_width(table, c),
                       c == last, out);
    for (size_t i = 0; i < table->count; i++) {
        size_t c = i % table->width;
        if (table->columns[c].title)
            print_cell(table->cells[i].text, table->cells[i].right, column_width(table, c),
                       c == last, out);
    }
}

static json_t *row_object(const cli_table_t *table, size_t first)
{
    json_t *object = need(json_object());
    for (size_t c = 0; c < table->width && first + c < table->count; c++)
        json_object_set(object, table->columns[c].key, table->cells[first + c].json);
    return object;
}

static void dump(json_t *json, FILE *out)
{
    json_dumpf(json, out, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
    fputc('\n', out);
    json_decref(json);
}

void cli_table_print_json(const cli_table_t *table, FILE *out)
{
    json_t *list = need(json_array());
    for (size_t i = 0; i < table->count; i += table->width)
        json_array_append_new(list, row_object(table, i));
    dump(list, out);
}

void cli_table_print_record(const cli_table_t *table, FILE *out)
{
    for (size_t c = 0; c < table->width && c < table->count; c++)
        if (table->columns[c].title)
            fprintf(out, "%-14s %s\n", table->columns[c].title, table->cells[c].text);
}

void cli_table_print_record_json(const cli_table_t *table, FILE *out)
{
    dump(row_object(table, 0), out);
}

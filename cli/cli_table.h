/* cli_table.h - a list, printed as columns for people or as JSON for scripts. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdint.h>
#include <stdio.h>

typedef struct cli_table cli_table_t;

typedef struct {
    const char *title; /* for people; NULL: only in JSON */
    const char *key;   /* in JSON */
} cli_column_t;

/* `columns` ends with {NULL, NULL} and is kept. Out of memory ends the program. */
cli_table_t *cli_table_create(const cli_column_t *columns);
void cli_table_free(cli_table_t *table);

/* Cells, one after the other, left to right. */
void cli_table_text(cli_table_t *table, const char *value);
void cli_table_int(cli_table_t *table, uint64_t value);
void cli_table_id(cli_table_t *table, uint64_t value);       /* 16 hexadecimal digits, a string */
void cli_table_bytes(cli_table_t *table, uint64_t value);    /* "1.5 GiB"; JSON: bytes */
void cli_table_duration(cli_table_t *table, uint64_t value); /* milliseconds; "3m12s" */
void cli_table_real(cli_table_t *table, double value, int digits); /* NaN: "-", null */

/* Columns with a header, or `empty` if there are no rows. */
void cli_table_print(const cli_table_t *table, const char *empty, FILE *out);

/* An array of objects. */
void cli_table_print_json(const cli_table_t *table, FILE *out);

/* The first row alone: "key: value" lines, or one object. */
void cli_table_print_record(const cli_table_t *table, FILE *out);
void cli_table_print_record_json(const cli_table_t *table, FILE *out);

#endif

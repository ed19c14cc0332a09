/* gb_opt.h - command-line options and configuration from one self-documenting table.
 *
 * A program lists its options once; the table gives parsing, defaults, environment variables, a
 * configuration file (`key = value` lines, # comments) and the --help text. Order of precedence:
 * command line, environment, configuration file (--config FILE), default. */
#ifndef GB_OPT_H
#define GB_OPT_H

#include <stddef.h>
#include <stdint.h>

#include "common/core/gb_status.h"

typedef enum {
    GB_OPT_FLAG,   /* bool; --name or --no-name */
    GB_OPT_INT,    /* int64_t, with optional K M G T (powers of 1024) */
    GB_OPT_DOUBLE, /* double */
    GB_OPT_STRING, /* const char *; points into argv, the environment or the table's arena */
} gb_opt_type_t;

typedef struct {
    const char *name; /* without the dashes; NULL ends the table */
    gb_opt_type_t type;
    size_t offset;       /* of the field in the program's option struct */
    const char *value;   /* default, as text; NULL leaves the field as the caller set it */
    const char *env;     /* environment variable, or NULL */
    const char *operand; /* name of the operand in --help, e.g. "HOST:PORT" */
    const char *help;    /* a sentence; --help wraps it */
} gb_opt_t;

typedef struct {
    const char *program; /* "ps-server" */
    const char *usage;   /* "ps-server [options]" */
    const char *about;   /* a paragraph for --help */
    const gb_opt_t *options;
} gb_opt_table_t;

/* Parses argv into *fields (the struct that the offsets refer to). On return *first is the index
 * of the first operand; "--" ends the options, and with `stop_at_operand` the first operand does.
 * --help and --version print to stdout and give GB_ERR_CANCELLED: exit with 0.
 * GB_ERR_INVALID: unknown option or bad value, explained by gb_why(): exit with 2. */
gb_status_t gb_opt_parse(const gb_opt_table_t *table, int argc, char **argv, int stop_at_operand,
                         void *fields, int *first);

/* Prints the --help text to stdout. */
void gb_opt_help(const gb_opt_table_t *table);

/* Parses a whole number with optional K, M, G, T. Overflow and rubbish give GB_ERR_INVALID. */
gb_status_t gb_parse_int(const char *text, int64_t *out);

#endif

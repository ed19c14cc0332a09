/* cli.h - what the commands of gable share. A command is a function that gets its own argv (argv[0] is
 * the command's name) and returns the exit code. */
#ifndef GABLE_CLI_H
#define GABLE_CLI_H

#include <stdbool.h>

#include "common/core/gb_opt.h"
#include "common/rpc/gb_cluster.h"

/* Options of every command that talks to the server. */
typedef struct {
    const char *server, *tls_dir;
    int64_t timeout_ms;
    bool json;
} cli_connection_t;

/* Parses; 0: go on, else the command is over with *exit_code. */
int cli_parse(const gb_opt_table_t *table, int argc, char **argv, int stop_at_operand, void *fields,
              int *first, int *exit_code);

gb_status_t cli_connect(const cli_connection_t *connection, gb_cluster_t **out);

/* Prints gb_why() and gives the exit code for a status: 2 for bad input, else 1. */
int cli_failed(gb_status_t status);

/* 16 hexadecimal digits, with or without 0x. */
gb_status_t cli_parse_id(const char *text, uint64_t *out);

int cli_status(int argc, char **argv);
int cli_devices(int argc, char **argv);
int cli_sessions(int argc, char **argv);
int cli_params(int argc, char **argv);
int cli_jobs(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_ca(int argc, char **argv);

#endif

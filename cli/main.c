/* gable: the command line. */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "common/core/gb_log.h"

static const struct {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} COMMANDS[] = {
    {"status", "is the server there, and what does the cluster have", cli_status},
    {"devices", "GPUs of all proxies", cli_devices},
    {"sessions", "who uses them; kill ID ends one", cli_sessions},
    {"params", "tensors on the parameter server", cli_params},
    {"jobs", "training jobs", cli_jobs},
    {"run", "run any CUDA program on leased GPUs", cli_run},
    {"ca", "make the cluster's certificates", cli_ca},
};

static void print_help(FILE *out)
{
    fprintf(out, "Usage: gable COMMAND [options]\n\nCommands:\n");
    for (size_t i = 0; i < sizeof COMMANDS / sizeof COMMANDS[0]; i++)
        fprintf(out, "  %-10s %s\n", COMMANDS[i].name, COMMANDS[i].help);
    fprintf(out, "\n`gable COMMAND --help` tells the rest. The server is named by --server or "
                 "GABLE_SERVER.\n");
}

int cli_parse(const gb_opt_table_t *table, int argc, char **argv, int stop_at_operand, void *fields,
              int *first, int *exit_code)
{
    gb_status_t status = gb_opt_parse(table, argc, argv, stop_at_operand, fields, first);
    if (status == GB_OK)
        return 0;
    *exit_code = status == GB_ERR_CANCELLED ? 0 : cli_failed(status);
    return 1;
}

gb_status_t cli_connect(const cli_connection_t *connection, gb_cluster_t **out)
{
    if (connection->timeout_ms < 1 || connection->timeout_ms > 3600000)
        return gb_fail(GB_ERR_INVALID, "--timeout: give 1 to 3600000 milliseconds");
    gb_cluster_config_t config = {.server = connection->server,
                                  .tls_dir = connection->tls_dir,
                                  .timeout_ms = (int)connection->timeout_ms};
    return gb_cluster_connect(&config, out);
}

int cli_failed(gb_status_t status)
{
    gb_complain("%s", gb_why());
    return status == GB_ERR_INVALID || status == GB_ERR_FORMAT ? 2 : 1;
}

gb_status_t cli_parse_id(const char *text, uint64_t *out)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 16);
    if (!isxdigit((unsigned char)*text) || *end || strlen(text) > 18)
        return gb_fail(GB_ERR_INVALID, "'%s' is not an id: copy it from `gable sessions`", text);
    *out = value;
    return GB_OK;
}

int main(int argc, char **argv)
{
    gb_log_init("gable", GB_LOG_WARN);
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("gable %s\n", GABLE_VERSION);
        return 0;
    }
    for (size_t i = 0; i < sizeof COMMANDS / sizeof COMMANDS[0]; i++)
        if (!strcmp(argv[1], COMMANDS[i].name))
            return COMMANDS[i].run(argc - 1, argv + 1);
    gb_complain("there is no command '%s': see gable --help", argv[1]);
    return 2;
}

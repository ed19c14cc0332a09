/* cli_ca.c - gable ca init, gable ca issue. */
#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/ca.h"
#include "cli/cli.h"
#include "common/core/gb_log.h"
#include "common/rpc/gb_rpc_tls.h"

typedef struct {
    const char *dir, *name, *role, *hosts, *out;
    int64_t days;
} options_t;

#define FIELD(field) offsetof(options_t, field)

static const gb_opt_t INIT_OPTIONS[] = {
    {"dir", GB_OPT_STRING, FIELD(dir), "gable-ca", NULL, "DIR", "where the CA is kept"},
    {"name", GB_OPT_STRING, FIELD(name), "Gable CA", NULL, "NAME", "its name"},
    {"days", GB_OPT_INT, FIELD(days), "3650", NULL, "N", "how long it is valid"},
    {NULL},
};

static const gb_opt_t ISSUE_OPTIONS[] = {
    {"dir", GB_OPT_STRING, FIELD(dir), "gable-ca", NULL, "DIR", "where the CA is kept"},
    {"role", GB_OPT_STRING, FIELD(role), "", NULL, "ROLE", "server, proxy, worker or admin"},
    {"host", GB_OPT_STRING, FIELD(hosts), "", NULL, "NAME,...",
     "names and addresses of the machine, for other gRPC tools"},
    {"out", GB_OPT_STRING, FIELD(out), "", NULL, "DIR",
     "the new folder for --tls-dir; default: NAME"},
    {"days", GB_OPT_INT, FIELD(days), "365", NULL, "N", "how long it is valid"},
    {NULL},
};

static gb_status_t check_days(int64_t days)
{
    if (days >= 1 && days <= 36500)
        return GB_OK;
    return gb_fail(GB_ERR_INVALID, "--days: give a number from 1 to 36500");
}

static int init(int argc, char **argv)
{
    static const gb_opt_table_t TABLE = {
        "gable ca init", "gable ca init [options]",
        "Makes the cluster's certificate authority. Keep ca.key secret: whoever has it can be\n"
        "anybody in the cluster.",
        INIT_OPTIONS};
    options_t o;
    int first, code;
    if (cli_parse(&TABLE, argc, argv, 0, &o, &first, &code))
        return code;
    gb_status_t status = check_days(o.days);
    if (status == GB_OK && first < argc)
        status = gb_fail(GB_ERR_INVALID, "unexpected argument '%s'", argv[first]);
    if (status == GB_OK && (!*o.name || strlen(o.name) > 60))
        status = gb_fail(GB_ERR_INVALID, "--name: give 1 to 60 characters");
    if (status == GB_OK)
        status = ca_create(o.dir, o.name, o.days * 86400);
    if (status != GB_OK)
        return cli_failed(status);
    printf("%s: CA made, valid for %lld days; next: gable ca issue NAME --role server --dir %s\n",
           o.dir, (long long)o.days, o.dir);
    return 0;
}

static gb_status_t check_name(const char *name)
{
    size_t size = strlen(name);
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("._-@", name[i]))
            size = 0;
    if (size && size < 60 && name[0] != '.' && name[0] != '-')
        return GB_OK;
    return gb_fail(GB_ERR_INVALID, "'%.80s' is no name: use letters, digits, . _ - @", name);
}

static int issue(int argc, char **argv)
{
    static const gb_opt_table_t TABLE = {
        "gable ca issue", "gable ca issue NAME --role ROLE [options]",
        "Issues a certificate for one machine or person: a folder to copy there and to name with\n"
        "--tls-dir.",
        ISSUE_OPTIONS};
    options_t o;
    int first, code;
    if (cli_parse(&TABLE, argc, argv, 0, &o, &first, &code))
        return code;
    gb_status_t status = check_days(o.days);
    if (status == GB_OK && argc - first != 1)
        status = gb_fail(GB_ERR_INVALID, "write gable ca issue NAME --role ROLE");
    if (status == GB_OK)
        status = check_name(argv[first]);
    if (status == GB_OK && !gb_role_parse(o.role))
        status =
            gb_fail(GB_ERR_INVALID, "--role '%s': choose server, proxy, worker or admin", o.role);
    if (status != GB_OK)
        return cli_failed(status);
    ca_request_t request = {.ca_dir = o.dir,
                            .out = *o.out ? o.out : argv[first],
                            .name = argv[first],
                            .role = gb_role_parse(o.role),
                            .hosts = o.hosts,
                            .lifetime_s = o.days * 86400};
    status = ca_issue(&request);
    if (status != GB_OK)
        return cli_failed(status);
    printf("%s: certificate of role %s for %s, valid for %lld days\n", request.out, o.role,
           request.name, (long long)o.days);
    return 0;
}

int cli_ca(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "init"))
        return init(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "issue"))
        return issue(argc - 1, argv + 1);
    if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        printf("Usage: gable ca init [options]\n       gable ca issue NAME --role ROLE "
               "[options]\n\nEach has its own --help.\n");
        return 0;
    }
    gb_complain("write gable ca init or gable ca issue NAME --role ROLE: see gable ca --help");
    return 2;
}

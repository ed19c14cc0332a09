/* cli_lists.c - status, devices, sessions, params, jobs. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_table.h"

typedef struct {
    cli_connection_t connection;
} options_t;

static const gb_opt_t OPTIONS[] = {
    {"server", GB_OPT_STRING, offsetof(options_t, connection.server), "127.0.0.1:7070",
     "GABLE_SERVER", "HOST:PORT", "control port of ps-server"},
    {"tls-dir", GB_OPT_STRING, offsetof(options_t, connection.tls_dir), "", "GABLE_TLS_DIR", "DIR",
     "certificates made by `gable ca issue`"},
    {"timeout", GB_OPT_INT, offsetof(options_t, connection.timeout_ms), "5000", NULL, "MS",
     "longest wait for an answer"},
    {"json", GB_OPT_FLAG, offsetof(options_t, connection.json), "false", NULL, NULL,
     "print JSON instead of a table"},
    {NULL},
};

static void show(cli_table_t *table, const options_t *o, const char *empty)
{
    if (o->connection.json)
        cli_table_print_json(table, stdout);
    else
        cli_table_print(table, empty, stdout);
    cli_table_free(table);
}

/* Parses and connects; 0: go on. */
static int begin(const gb_opt_table_t *table, int argc, char **argv, int max_operands, options_t *o,
                 int *first, gb_cluster_t **cluster, int *exit_code)
{
    if (cli_parse(table, argc, argv, 0, o, first, exit_code))
        return 1;
    gb_status_t status = GB_OK;
    if (argc - *first > max_operands)
        status = gb_fail(GB_ERR_INVALID, "unexpected argument '%s': see gable %s --help",
                         argv[*first + max_operands], argv[0]);
    if (status == GB_OK)
        status = cli_connect(&o->connection, cluster);
    if (status == GB_OK)
        return 0;
    *exit_code = cli_failed(status);
    return 1;
}

static int end(gb_cluster_t *cluster, gb_status_t status)
{
    int code = status == GB_OK ? 0 : cli_failed(status);
    gb_cluster_close(cluster);
    return code;
}

/* ---- status ---- */

int cli_status(int argc, char **argv)
{
    static const gb_opt_table_t TABLE = {"gable status", "gable status [options]",
                                         "Shows whether the server is there and what the cluster "
                                         "has.",
                                         OPTIONS};
    static const cli_column_t COLUMNS[] = {
        {"server", "server"},
        {"version", "version"},
        {"data", "data"},
        {"up", "uptime_ms"},
        {"generation", "generation"},
        {"proxies", "proxies"},
        {"devices", "devices"},
        {"devices free", "devices_free"},
        {"leases", "leases"},
        {"sessions", "sessions"},
        {"jobs running", "jobs_running"},
        {"certificates", "certificates"},
        {NULL, NULL},
    };
    options_t o;
    int first, code;
    gb_cluster_t *cluster;
    if (begin(&TABLE, argc, argv, 0, &o, &first, &cluster, &code))
        return code;
    gb_cluster_status_t info;
    gb_status_t status = gb_cluster_status(cluster, &info);
    if (status == GB_OK) {
        cli_table_t *table = cli_table_create(COLUMNS);
        cli_table_text(table, o.connection.server);
        cli_table_text(table, info.version);
        cli_table_text(table, info.data_endpoint);
        cli_table_duration(table, info.uptime_ms);
        cli_table_int(table, info.generation);
        cli_table_int(table, info.proxies);
        cli_table_int(table, info.devices);
        cli_table_int(table, info.devices_free);
        cli_table_int(table, info.leases);
        cli_table_int(table, info.sessions);
        cli_table_int(table, info.jobs_running);
        cli_table_text(table, info.tls ? "yes" : "no");
        if (o.connection.json)
            cli_table_print_record_json(table, stdout);
        else
            cli_table_print_record(table, stdout);
        cli_table_free(table);
    }
    return end(cluster, status);
}

/* ---- devices ---- */

static void device_row(cli_table_t *table, const gb_cluster_device_t *device)
{
    char capability[16];
    snprintf(capability, sizeof capability, "%u.%u", device->capability / 10,
             device->capability % 10);
    cli_table_text(table, device->id);
    cli_table_text(table, device->name);
    cli_table_text(table, device->driver);
    cli_table_text(table, capability);
    cli_table_int(table, device->multiprocessors);
    cli_table_int(table, device->clock_khz);
    cli_table_bytes(table, device->memory_total);
    cli_table_bytes(table, device->memory_used);
    cli_table_int(table, device->leases);
    cli_table_int(table, device->leases_max);
    cli_table_int(table, device->sessions);
    cli_table_text(table, device->endpoint);
}

int cli_devices(int argc, char **argv)
{
    static const gb_opt_table_t TABLE = {"gable devices", "gable devices [options]",
                                         "Lists the GPUs of all proxies.", OPTIONS};
    static const cli_column_t COLUMNS[] = {
        {"DEVICE", "id"},
        {"NAME", "name"},
        {"DRIVER", "driver"},
        {"CC", "capability"},
        {"SMS", "multiprocessors"},
        {NULL, "clock_khz"},
        {"MEMORY", "memory_bytes"},
        {"USED", "memory_used_bytes"},
        {"LEASES", "leases"},
        {"MAX", "leases_max"},
        {"SESSIONS", "sessions"},
        {"ENDPOINT", "endpoint"},
        {NULL, NULL},
    };
    options_t o;
    int first, code;
    gb_cluster_t *cluster;
    if (begin(&TABLE, argc, argv, 0, &o, &first, &cluster, &code))
        return code;
    gb_cluster_device_t *list;
    uint32_t count;
    gb_status_t status = gb_cluster_devices(cluster, &list, &count);
    if (status == GB_OK) {
        cli_table_t *table = cli_table_create(COLUMNS);
        for (uint32_t i = 0; i < count; i++)
            device_row(table, &list[i]);
        show(table, &o, "no devices: start gpu-proxy with --server on a machine that has GPUs");
        gb_cluster_free(list);
    }
    return end(cluster, status);
}

/* ---- sessions ---- */

static gb_status_t list_sessions(gb_cluster_t *cluster, const options_t *o)
{
    static const cli_column_t COLUMNS[] = {
        {"SESSION", "id"},    {"PROXY", "proxy"},         {"DEVICES", "devices"},
        {"CLIENT", "client"}, {"MEMORY", "memory_bytes"}, {"AGE", "age_ms"},
        {"PID", "pid"},       {"PEER", "peer"},           {NULL, "lease"},
        {NULL, NULL},
    };
    gb_cluster_session_t *list;
    uint32_t count;
    gb_status_t status = gb_cluster_sessions(cluster, &list, &count);
    if (status != GB_OK)
        return status;
    cli_table_t *table = cli_table_create(COLUMNS);
    for (uint32_t i = 0; i < count; i++) {
        cli_table_id(table, list[i].id);
        cli_table_text(table, list[i].proxy);
        cli_table_text(table, list[i].devices);
        cli_table_text(table, list[i].client);
        cli_table_bytes(table, list[i].memory_used);
        cli_table_duration(table, list[i].age_ms);
        cli_table_int(table, list[i].pid);
        cli_table_text(table, list[i].peer);
        cli_table_id(table, list[i].lease);
    }
    show(table, o, "no sessions");
    gb_cluster_free(list);
    return GB_OK;
}

static gb_status_t kill_session(gb_cluster_t *cluster, const char *text)
{
    uint64_t id;
    gb_status_t status = cli_parse_id(text, &id);
    if (status == GB_OK)
        status = gb_cluster_session_kill(cluster, id);
    if (status == GB_OK)
        printf("session %016llx ended\n", (unsigned long long)id);
    return status;
}

int cli_sessions(int argc, char **argv)
{
    static const gb_opt_table_t TABLE = {
        "gable sessions", "gable sessions [options]\n       gable sessions kill ID [options]",
        "Lists the sessions on all proxies, or ends one (role admin).", OPTIONS};
    options_t o;
    int first, code;
    gb_cluster_t *cluster;
    if (begin(&TABLE, argc, argv, 2, &o, &first, &cluster, &code))
        return code;
    gb_status_t status;
    if (first == argc)
        status = list_sessions(cluster, &o);
    else if (argc - first == 2 && !strcmp(argv[first], "kill"))
        status = kill_session(cluster, argv[first + 1]);
    else
        status = gb_fail(GB_ERR_INVALID, "'%s': write gable sessions kill ID", argv[first]);
    return end(cluster, status);
}

/* ---- params ---- */

int cli_params(int argc, char **argv)
{
    static const gb_opt_table_t TABLE = {"gable params", "gable params [JOB] [options]",
                                         "Lists the tensors of a job, or of all, with their "
                                         "versions and norms.",
                                         OPTIONS};
    static const cli_column_t COLUMNS[] = {
        {"JOB", "job"},         {"TENSOR", "name"},       {"SHAPE", "shape"},
        {"TYPE", "type"},       {"ELEMENTS", "elements"}, {"SIZE", "bytes"},
        {"VERSION", "version"}, {"NORM", "norm"},         {NULL, NULL},
    };
    options_t o;
    int first, code;
    gb_cluster_t *cluster;
    if (begin(&TABLE, argc, argv, 1, &o, &first, &cluster, &code))
        return code;
    gb_cluster_param_t *list;
    uint32_t count;
    gb_status_t status =
        gb_cluster_params(cluster, first < argc ? argv[first] : NULL, &list, &count);
    if (status == GB_OK) {
        cli_table_t *table = cli_table_create(COLUMNS);
        for (uint32_t i = 0; i < count; i++) {
            cli_table_text(table, list[i].job);
            cli_table_text(table, list[i].name);
            cli_table_text(table, list[i].shape);
            cli_table_text(table, list[i].type);
            cli_table_int(table, list[i].elements);
            cli_table_bytes(table, list[i].bytes);
            cli_table_int(table, list[i].version);
            cli_table_real(table, list[i].norm, 6);
        }
        show(table, &o, "no parameters: no job has sent its weights yet");
        gb_cluster_free(list);
    }
    return end(cluster, status);
}

/* ---- jobs ---- */

static void job_row(cli_table_t *table, const gb_cluster_job_t *job)
{
    cli_table_int(table, job->id);
    cli_table_text(table, job->name);
    cli_table_text(table, job->model);
    cli_table_text(table, job->mode);
    cli_table_text(table, job->state);
    cli_table_int(table, job->epoch);
    cli_table_int(table, job->epochs);
    cli_table_int(table, job->members);
    cli_table_real(table, job->loss, 4);
    cli_table_real(table, job->accuracy, 4);
    cli_table_real(table, job->samples_per_second, 0);
    cli_table_duration(table, job->age_ms);
    cli_table_int(table, job->generation);
    cli_table_int(table, job->clock);
}

int cli_jobs(int argc, char **argv)
{
    static const gb_opt_table_t TABLE = {"gable jobs", "gable jobs [options]",
                                         "Lists the training jobs.", OPTIONS};
    static const cli_column_t COLUMNS[] = {
        {"ID", "id"},
        {"NAME", "name"},
        {"MODEL", "model"},
        {"MODE", "mode"},
        {"STATE", "state"},
        {"EPOCH", "epoch"},
        {"OF", "epochs"},
        {"WORKERS", "workers"},
        {"LOSS", "loss"},
        {"ACCURACY", "accuracy"},
        {"SAMPLES/S", "samples_per_second"},
        {"AGE", "age_ms"},
        {NULL, "generation"},
        {NULL, "clock"},
        {NULL, NULL},
    };
    options_t o;
    int first, code;
    gb_cluster_t *cluster;
    if (begin(&TABLE, argc, argv, 0, &o, &first, &cluster, &code))
        return code;
    gb_cluster_job_t *list;
    uint32_t count;
    gb_status_t status = gb_cluster_jobs(cluster, &list, &count);
    if (status == GB_OK) {
        cli_table_t *table = cli_table_create(COLUMNS);
        for (uint32_t i = 0; i < count; i++)
            job_row(table, &list[i]);
        show(table, &o, "no jobs");
        gb_cluster_free(list);
    }
    return end(cluster, status);
}

/* ps_store.c - SQLite tables of the registry. */
#include "server/registry/ps_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <sqlite3.h>

#include "common/core/gb_log.h"
#include "server/registry/ps_state.h"

struct ps_store {
    sqlite3 *db;
};

enum { LAYOUT = 1 }; /* of the tables; kept in the file as user_version */

static const char SCHEMA[] =
    "BEGIN; PRAGMA user_version = 1;"
    "CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value INTEGER);"
    "CREATE TABLE IF NOT EXISTS leases(id INTEGER PRIMARY KEY, master BLOB, ttl_ms INTEGER,"
    " memory INTEGER, client TEXT, job TEXT, owner TEXT);"
    "CREATE TABLE IF NOT EXISTS lease_devices(lease INTEGER, proxy TEXT, device INTEGER);"
    "CREATE TABLE IF NOT EXISTS jobs(id INTEGER PRIMARY KEY, name TEXT, model TEXT, mode TEXT,"
    " optimizer TEXT, samples INTEGER, batch INTEGER, iterations INTEGER, epochs INTEGER,"
    " workers INTEGER, state INTEGER, generation INTEGER, epoch INTEGER, begun INTEGER,"
    " next_worker INTEGER, loss REAL, accuracy REAL, exchange TEXT);"
    "CREATE TABLE IF NOT EXISTS members(job INTEGER, worker INTEGER, lease INTEGER, client TEXT,"
    " PRIMARY KEY(job, worker)); COMMIT;";

static gb_status_t fail(ps_store_t *store, const char *what)
{
    int code = sqlite3_errcode(store->db);
    gb_status_t status = code == SQLITE_NOTADB || code == SQLITE_CORRUPT ? GB_ERR_FORMAT
                         : code == SQLITE_BUSY || code == SQLITE_LOCKED  ? GB_ERR_BUSY
                                                                         : GB_ERR_IO;
    return gb_fail(status, "leases.db: %s: %s", what, sqlite3_errmsg(store->db));
}

static gb_status_t run_text(ps_store_t *store, const char *sql)
{
    return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK ? GB_OK : fail(store, sql);
}

/* A statement with its parameters bound in the order of `types`: i = uint64_t, d = double, t = text,
 * k = const gb_key_t *. NULL after a failure, which is reported. */
static sqlite3_stmt *prepare(ps_store_t *store, const char *sql, const char *types, ...)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) != SQLITE_OK) {
        fail(store, sql);
        return NULL;
    }
    va_list list;
    va_start(list, types);
    for (int i = 0; types[i]; i++) {
        if (types[i] == 'i')
            sqlite3_bind_int64(statement, i + 1, (sqlite3_int64)va_arg(list, uint64_t));
        else if (types[i] == 'd')
            sqlite3_bind_double(statement, i + 1, va_arg(list, double));
        else if (types[i] == 't')
            sqlite3_bind_text(statement, i + 1, va_arg(list, const char *), -1, SQLITE_TRANSIENT);
        else
            sqlite3_bind_blob(statement, i + 1, va_arg(list, const gb_key_t *)->bytes, GB_KEY_SIZE,
                              SQLITE_TRANSIENT);
    }
    va_end(list);
    return statement;
}

/* Runs a statement that gives no rows, and finishes it. */
static gb_status_t run(ps_store_t *store, sqlite3_stmt *statement)
{
    if (!statement)
        return GB_ERR_IO;
    gb_status_t status =
        sqlite3_step(statement) == SQLITE_DONE ? GB_OK : fail(store, sqlite3_sql(statement));
    sqlite3_finalize(statement);
    if (status != GB_OK)
        gb_log(GB_LOG_ERROR, "%s", gb_why());
    return status;
}

/* One number from the database. */
static gb_status_t read_number(ps_store_t *store, const char *sql, int64_t *out)
{
    sqlite3_stmt *statement = prepare(store, sql, "");
    if (!statement)
        return GB_ERR_IO;
    gb_status_t status = GB_OK;
    if (sqlite3_step(statement) == SQLITE_ROW)
        *out = sqlite3_column_int64(statement, 0);
    else
        status = fail(store, sql);
    sqlite3_finalize(statement);
    return status;
}

/* Makes the tables, or checks that they are those of this version. */
static gb_status_t make_tables(ps_store_t *store)
{
    int64_t tables, layout;
    gb_status_t status = read_number(store, "SELECT count(*) FROM sqlite_master", &tables);
    if (status == GB_OK)
        status = read_number(store, "PRAGMA user_version", &layout);
    if (status != GB_OK)
        return status;
    if (!tables)
        return run_text(store, SCHEMA);
    if (layout == LAYOUT)
        return GB_OK;
    return gb_fail(GB_ERR_VERSION,
                   "leases.db is of another version of ps-server (layout %lld, this "
                   "one has %d): move the state folder away and start again",
                   (long long)layout, LAYOUT);
}

static gb_status_t count_start(ps_store_t *store, uint32_t *generation)
{
    gb_status_t status = run_text(store, "INSERT INTO meta VALUES('generation', 1)"
                                         " ON CONFLICT(key) DO UPDATE SET value = value + 1;");
    if (status != GB_OK)
        return status;
    int64_t value;
    status = read_number(store, "SELECT value FROM meta WHERE key = 'generation'", &value);
    if (status == GB_OK)
        *generation = (uint32_t)value;
    return status;
}

gb_status_t ps_store_open(const char *dir, ps_store_t **out, uint32_t *generation)
{
    char path[4096];
    if (mkdir(dir, 0700) && errno != EEXIST)
        return gb_fail(GB_ERR_IO,
                       "cannot make the state folder %s (%s): choose another with --state-dir", dir,
                       strerror(errno));
    snprintf(path, sizeof path, "%s/leases.db", dir);
    ps_store_t *store = calloc(1, sizeof *store);
    if (!store)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for the store");
    gb_status_t status = GB_OK;
    mode_t mask = umask(0077); /* the file holds keys */
    int code = sqlite3_open(path, &store->db);
    umask(mask);
    if (code != SQLITE_OK)
        status = gb_fail(GB_ERR_IO, "cannot open %s: %s: choose another folder with --state-dir",
                         path, sqlite3_errmsg(store->db));
    /* The exclusive lock keeps a second server out of the same folder. */
    if (status == GB_OK)
        status = run_text(store, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL;"
                                 "PRAGMA synchronous=NORMAL;");
    if (status == GB_OK)
        status = make_tables(store);
    if (status == GB_OK)
        status = count_start(store, generation);
    if (status == GB_ERR_BUSY)
        gb_fail(status, "%s is in use: another ps-server runs on this state folder", path);
    if (status == GB_ERR_FORMAT)
        gb_fail(status, "%s is not a database: move it away and start again", path);
    if (status != GB_OK) {
        ps_store_close(store);
        return status;
    }
    *out = store;
    return GB_OK;
}

void ps_store_close(ps_store_t *store)
{
    if (!store)
        return;
    sqlite3_close(store->db);
    free(store);
}

/* ---- leases ---- */

gb_status_t ps_store_lease_put(ps_store_t *store, const ps_lease_t *lease)
{
    gb_status_t status = run_text(store, "BEGIN");
    if (status != GB_OK)
        return status;
    status = run(store, prepare(store, "INSERT OR REPLACE INTO leases VALUES(?,?,?,?,?,?,?)",
                                "ikiittt", lease->id, &lease->master, (uint64_t)lease->ttl_ms,
                                lease->memory, lease->client, lease->job, lease->owner));
    for (uint32_t i = 0; status == GB_OK && i < lease->part_count; i++) {
        const ps_part_t *part = &lease->parts[i];
        for (uint32_t d = 0; status == GB_OK && d < part->device_count; d++)
            status = run(store, prepare(store, "INSERT INTO lease_devices VALUES(?,?,?)", "iti",
                                        lease->id, part->proxy, (uint64_t)part->devices[d]));
    }
    gb_status_t end = run_text(store, status == GB_OK ? "COMMIT" : "ROLLBACK");
    return status != GB_OK ? status : end;
}

gb_status_t ps_store_lease_delete(ps_store_t *store, uint64_t id)
{
    gb_status_t status =
        run(store, prepare(store, "DELETE FROM lease_devices WHERE lease = ?", "i", id));
    if (status != GB_OK)
        return status;
    return run(store, prepare(store, "DELETE FROM leases WHERE id = ?", "i", id));
}

static void copy_text(char *out, size_t size, sqlite3_stmt *row, int column)
{
    const unsigned char *text = sqlite3_column_text(row, column);
    snprintf(out, size, "%s", text ? (const char *)text : "");
}

static void add_device(ps_lease_t *lease, const char *proxy, uint32_t device)
{
    ps_part_t *part = NULL;
    for (uint32_t i = 0; i < lease->part_count; i++)
        if (!strcmp(lease->parts[i].proxy, proxy))
            part = &lease->parts[i];
    if (!part) {
        if (lease->part_count == PS_LEASE_PARTS)
            return;
        part = &lease->parts[lease->part_count++];
        snprintf(part->proxy, sizeof part->proxy, "%.63s", proxy);
    }
    if (part->device_count < PS_PART_DEVICES)
        part->devices[part->device_count++] = device;
}

static gb_status_t load_devices(ps_store_t *store, ps_lease_t *lease)
{
    sqlite3_stmt *rows =
        prepare(store, "SELECT proxy, device FROM lease_devices WHERE lease = ? ORDER BY rowid",
                "i", lease->id);
    if (!rows)
        return GB_ERR_IO;
    char proxy[PS_NAME];
    while (sqlite3_step(rows) == SQLITE_ROW) {
        copy_text(proxy, sizeof proxy, rows, 0);
        add_device(lease, proxy, (uint32_t)sqlite3_column_int64(rows, 1));
    }
    sqlite3_finalize(rows);
    return GB_OK;
}

gb_status_t ps_store_leases(ps_store_t *store, void (*take)(void *, ps_lease_t *), void *arg)
{
    sqlite3_stmt *rows =
        prepare(store, "SELECT id, master, ttl_ms, memory, client, job, owner FROM leases", "");
    gb_status_t status = rows ? GB_OK : GB_ERR_IO;
    while (status == GB_OK && sqlite3_step(rows) == SQLITE_ROW) {
        ps_lease_t *lease = calloc(1, sizeof *lease);
        ps_part_t *parts = calloc(PS_LEASE_PARTS, sizeof *parts);
        if (!lease || !parts) {
            free(lease);
            free(parts);
            status = gb_fail(GB_ERR_NO_MEMORY, "no memory for leases");
            break;
        }
        lease->parts = parts;
        lease->id = (uint64_t)sqlite3_column_int64(rows, 0);
        if (sqlite3_column_bytes(rows, 1) == GB_KEY_SIZE)
            memcpy(lease->master.bytes, sqlite3_column_blob(rows, 1), GB_KEY_SIZE);
        lease->ttl_ms = (uint32_t)sqlite3_column_int64(rows, 2);
        lease->memory = (uint64_t)sqlite3_column_int64(rows, 3);
        copy_text(lease->client, sizeof lease->client, rows, 4);
        copy_text(lease->job, sizeof lease->job, rows, 5);
        copy_text(lease->owner, sizeof lease->owner, rows, 6);
        status = load_devices(store, lease);
        take(arg, lease);
    }
    sqlite3_finalize(rows);
    return status;
}

/* ---- jobs ---- */

gb_status_t ps_store_job_put(ps_store_t *store, const ps_job_t *job)
{
    return run(
        store,
        prepare(store, "INSERT OR REPLACE INTO jobs VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                "ittttiiiiiiiiiiddt", job->id, job->name, job->model, job->mode, job->optimizer,
                job->samples, (uint64_t)job->batch, (uint64_t)job->iterations,
                (uint64_t)job->epochs, (uint64_t)job->workers, (uint64_t)job->state,
                (uint64_t)job->generation, (uint64_t)job->epoch, (uint64_t)job->begun,
                (uint64_t)job->next_worker, job->loss, job->accuracy, job->exchange));
}

gb_status_t ps_store_member_put(ps_store_t *store, uint64_t job, const ps_member_t *member)
{
    return run(store, prepare(store, "INSERT OR REPLACE INTO members VALUES(?,?,?,?)", "iiit", job,
                              (uint64_t)member->worker, member->lease, member->client));
}

gb_status_t ps_store_member_delete(ps_store_t *store, uint64_t job, uint32_t worker)
{
    return run(store, prepare(store, "DELETE FROM members WHERE job = ? AND worker = ?", "ii", job,
                              (uint64_t)worker));
}

/* A metric that was never reported is NULL in the table (SQLite has no NaN). */
static double column_metric(sqlite3_stmt *row, int column)
{
    if (sqlite3_column_type(row, column) == SQLITE_NULL)
        return __builtin_nan("");
    return sqlite3_column_double(row, column);
}

static void fill_job(ps_job_t *job, sqlite3_stmt *row)
{
    job->id = (uint64_t)sqlite3_column_int64(row, 0);
    copy_text(job->name, sizeof job->name, row, 1);
    copy_text(job->model, sizeof job->model, row, 2);
    copy_text(job->mode, sizeof job->mode, row, 3);
    copy_text(job->optimizer, sizeof job->optimizer, row, 4);
    job->samples = (uint64_t)sqlite3_column_int64(row, 5);
    job->batch = (uint32_t)sqlite3_column_int64(row, 6);
    job->iterations = (uint32_t)sqlite3_column_int64(row, 7);
    job->epochs = (uint32_t)sqlite3_column_int64(row, 8);
    job->workers = (uint32_t)sqlite3_column_int64(row, 9);
    job->state = (ps_job_state_t)sqlite3_column_int(row, 10);
    job->generation = (uint32_t)sqlite3_column_int64(row, 11);
    job->epoch = (uint32_t)sqlite3_column_int64(row, 12);
    job->begun = sqlite3_column_int(row, 13);
    job->next_worker = (uint32_t)sqlite3_column_int64(row, 14);
    job->loss = column_metric(row, 15);
    job->accuracy = column_metric(row, 16);
    copy_text(job->exchange, sizeof job->exchange, row, 17);
}

gb_status_t ps_store_jobs(ps_store_t *store, void (*take)(void *, ps_job_t *), void *arg)
{
    sqlite3_stmt *rows = prepare(store, "SELECT * FROM jobs ORDER BY id", "");
    gb_status_t status = rows ? GB_OK : GB_ERR_IO;
    while (status == GB_OK && sqlite3_step(rows) == SQLITE_ROW) {
        ps_job_t *job = calloc(1, sizeof *job);
        if (!job) {
            status = gb_fail(GB_ERR_NO_MEMORY, "no memory for jobs");
            break;
        }
        fill_job(job, rows);
        take(arg, job);
    }
    sqlite3_finalize(rows);
    return status;
}

gb_status_t ps_store_members(ps_store_t *store, uint64_t job, void (*take)(void *, ps_member_t *),
                             void *arg)
{
    sqlite3_stmt *rows = prepare(
        store, "SELECT worker, lease, client FROM members WHERE job = ? ORDER BY worker", "i", job);
    gb_status_t status = rows ? GB_OK : GB_ERR_IO;
    while (status == GB_OK && sqlite3_step(rows) == SQLITE_ROW) {
        ps_member_t *member = calloc(1, sizeof *member);
        if (!member) {
            status = gb_fail(GB_ERR_NO_MEMORY, "no memory for members");
            break;
        }
        member->worker = (uint32_t)sqlite3_column_int64(rows, 0);
        member->lease = (uint64_t)sqlite3_column_int64(rows, 1);
        copy_text(member->client, sizeof member->client, rows, 2);
        take(arg, member);
    }
    sqlite3_finalize(rows);
    return status;
}

#include "server/params/ps_ckpt_file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/core/gb_log.h"
#include "server/params/ps_server.h"

enum { PS_NAME = GBX_MAX_NAME + 64 };

static const char velocity_prefix[] = "optimizer.velocity/";

/* ---- what stands in the file ---- */

/* A tensor of the file: a whole tensor, or one piece of it. */
typedef struct {
    char name[PS_NAME];
    uint32_t tensor, first_piece, pieces;
    int whole;
} unit_t;

typedef struct {
    unit_t *units;
    uint32_t count;
} layout_t;

static int piece_is_here(const ps_job_t *job, uint32_t chunk)
{
    return job->plan.chunks[chunk].shard == job->shard;
}

static int tensor_is_here(const ps_job_t *job, const gbx_plan_tensor_t *tensor)
{
    for (uint32_t c = tensor->first_chunk; c <= tensor->last_chunk; c++) {
        if (!piece_is_here(job, c))
            return 0;
    }
    return 1;
}

static void add_piece(layout_t *layout, const ps_job_t *job, uint32_t p)
{
    const gbx_piece_t *piece = &job->plan.pieces[p];
    const gbx_plan_tensor_t *tensor = &job->plan.tensors[piece->tensor];
    int whole = tensor_is_here(job, tensor);
    unit_t *last = layout->count ? &layout->units[layout->count - 1] : NULL;
    if (whole && piece->tensor_at > 0 && last && last->tensor == piece->tensor) {
        last->pieces++;
        return;
    }
    unit_t *unit = &layout->units[layout->count++];
    *unit = (unit_t){.tensor = piece->tensor, .first_piece = p, .pieces = 1, .whole = whole};
    if (whole)
        snprintf(unit->name, sizeof(unit->name), "%s", tensor->name);
    else
        snprintf(unit->name, sizeof(unit->name), "%s@%" PRIu64, tensor->name, piece->tensor_at);
}

static gb_status_t make_layout(const ps_job_t *job, layout_t *out)
{
    layout_t layout = {.units = calloc(job->plan.piece_count + 1, sizeof(*layout.units))};
    if (!layout.units)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    for (uint32_t c = 0; c < job->plan.chunk_count; c++) {
        const gbx_plan_chunk_t *chunk = &job->plan.chunks[c];
        for (uint32_t p = 0; p < chunk->pieces && piece_is_here(job, c); p++)
            add_piece(&layout, job, chunk->first_piece + p);
    }
    *out = layout;
    return GB_OK;
}

static void describe(const ps_job_t *job, const unit_t *unit, const char *name, gb_st_tensor_t *out)
{
    const gbx_plan_tensor_t *tensor = &job->plan.tensors[unit->tensor];
    *out = (gb_st_tensor_t){.name = name, .dtype = GB_ST_F32};
    if (unit->whole) {
        out->dims = tensor->dims;
        memcpy(out->shape, tensor->shape, sizeof(out->shape));
    } else {
        out->dims = 1;
        out->shape[0] = job->plan.pieces[unit->first_piece].values;
    }
}

/* ---- writing ---- */

static uint32_t chunk_of_piece(const gbx_plan_t *plan, uint32_t p)
{
    uint32_t low = 0, high = plan->chunk_count;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (plan->chunks[middle].first_piece <= p)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static gb_status_t write_data(gb_st_writer_t *writer, const ps_ckpt_t *ckpt, const layout_t *layout,
                              int velocity)
{
    const gbx_plan_t *plan = &ckpt->job->plan;
    gb_status_t st = GB_OK;
    for (uint32_t u = 0; u < layout->count && st == GB_OK; u++) {
        const unit_t *unit = &layout->units[u];
        for (uint32_t p = unit->first_piece; p < unit->first_piece + unit->pieces; p++) {
            uint32_t c = chunk_of_piece(plan, p);
            const ps_buf_t *buf = velocity ? ckpt->chunks[c].velocity : ckpt->chunks[c].weights;
            st = gb_st_write(writer, buf->data + plan->pieces[p].chunk_at,
                             (size_t)plan->pieces[p].values * sizeof(float));
            if (st != GB_OK)
                break;
        }
    }
    return st;
}

static gb_status_t write_file(const ps_ckpt_t *ckpt, const layout_t *layout)
{
    const ps_job_t *job = ckpt->job;
    int velocity = job->optimizer.momentum != 0;
    uint32_t count = layout->count * (velocity ? 2u : 1u);
    gb_st_tensor_t *tensors = calloc(count + 1, sizeof(*tensors));
    char(*names)[PS_NAME] = calloc(layout->count + 1, PS_NAME);
    gb_st_writer_t *writer = NULL;
    gb_status_t st = GB_ERR_NO_MEMORY;
    if (!tensors || !names) {
        gb_fail(st, "out of memory");
        goto err_free;
    }
    for (uint32_t u = 0; u < layout->count; u++) {
        describe(job, &layout->units[u], layout->units[u].name, &tensors[u]);
        if (!velocity)
            continue;
        snprintf(names[u], PS_NAME, "%s%.*s", velocity_prefix,
                 (int)(PS_NAME - sizeof(velocity_prefix)), layout->units[u].name);
        describe(job, &layout->units[u], names[u], &tensors[layout->count + u]);
    }
    char clock[24], epoch[16], generation[16], shard[32];
    snprintf(clock, sizeof(clock), "%" PRIu64, ckpt->clock);
    snprintf(epoch, sizeof(epoch), "%u", ckpt->epoch);
    snprintf(generation, sizeof(generation), "%u", atomic_load(&ckpt->job->generation));
    snprintf(shard, sizeof(shard), "%u/%u", job->shard, job->shards);
    const gb_st_meta_t meta[] = {
        {"format", "gable-checkpoint-1"}, {"job", job->name}, {"clock", clock},    {"epoch", epoch},
        {"generation", generation},       {"shard", shard},   {"optimizer", "sgd"}};
    st = gb_st_writer_open(ckpt->path, tensors, count, meta, sizeof(meta) / sizeof(meta[0]),
                           &writer);
    if (st == GB_OK)
        st = write_data(writer, ckpt, layout, 0);
    if (st == GB_OK && velocity)
        st = write_data(writer, ckpt, layout, 1);
    if (st == GB_OK)
        st = gb_st_writer_commit(writer);
    else
        gb_st_writer_abort(writer);
err_free:
    free(names);
    free(tensors);
    return st;
}

/* ---- the folder ---- */

typedef struct {
    uint64_t *clocks; /* descending */
    uint32_t count;
} listing_t;

static int descending(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x > *y ? -1 : *x < *y;
}

static void folder_of(const ps_params_t *ps, const ps_job_t *job, char *out, size_t size)
{
    snprintf(out, size, "%s/%s", ps->config.checkpoint_dir, job->name);
}

static void path_of(const ps_params_t *ps, const ps_job_t *job, uint64_t clock, char *out,
                    size_t size)
{
    snprintf(out, size, "%s/%s/clock-%012" PRIu64 ".safetensors", ps->config.checkpoint_dir,
             job->name, clock);
}

static gb_status_t list_folder(const char *folder, listing_t *out)
{
    listing_t list = {0};
    uint32_t cap = 0;
    DIR *dir = opendir(folder);
    if (!dir) {
        *out = list;
        return errno == ENOENT ? GB_OK : gb_fail_errno(GB_ERR_IO, errno, "cannot list %s", folder);
    }
    for (const struct dirent *entry; (entry = readdir(dir));) {
        uint64_t clock;
        int end = 0;
        if (sscanf(entry->d_name, "clock-%12" SCNu64 ".safetensors%n", &clock, &end) != 1 ||
            end == 0 || entry->d_name[end] != 0)
            continue;
        if (list.count == cap) {
            cap = cap ? cap * 2 : 16;
            uint64_t *grown = realloc(list.clocks, cap * sizeof(*grown));
            if (!grown) {
                free(list.clocks);
                closedir(dir);
                return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
            }
            list.clocks = grown;
        }
        list.clocks[list.count++] = clock;
    }
    closedir(dir);
    if (list.count > 1)
        qsort(list.clocks, list.count, sizeof(*list.clocks), descending);
    *out = list;
    return GB_OK;
}

static void prune(const ps_params_t *ps, const ps_job_t *job)
{
    char folder[512], path[512];
    listing_t list;
    folder_of(ps, job, folder, sizeof(folder));
    if (list_folder(folder, &list) != GB_OK)
        return;
    for (uint32_t i = ps->config.keep; i < list.count; i++) {
        path_of(ps, job, list.clocks[i], path, sizeof(path));
        unlink(path);
    }
    free(list.clocks);
}

static gb_status_t make_folder(const char *path)
{
    if (mkdir(path, 0755) == 0 || errno == EEXIST)
        return GB_OK;
    return gb_fail_errno(GB_ERR_IO, errno, "cannot make the folder %s", path);
}

gb_status_t ps_ckpt_file_write(ps_params_t *ps, ps_ckpt_t *ckpt)
{
    if (!ps->config.checkpoint_dir)
        return gb_fail(GB_ERR_UNSUPPORTED, "no folder for checkpoints is configured");
    char folder[512];
    folder_of(ps, ckpt->job, folder, sizeof(folder));
    path_of(ps, ckpt->job, ckpt->clock, ckpt->path, sizeof(ckpt->path));
    gb_status_t st = make_folder(ps->config.checkpoint_dir);
    if (st == GB_OK)
        st = make_folder(folder);
    layout_t layout = {0};
    if (st == GB_OK)
        st = make_layout(ckpt->job, &layout);
    if (st == GB_OK)
        st = write_file(ckpt, &layout);
    free(layout.units);
    if (st == GB_OK)
        prune(ps, ckpt->job);
    return st;
}

/* ---- restoring ---- */

static int parse_number(const char *text, uint64_t *out)
{
    char *end;
    if (!text || text[0] < '0' || text[0] > '9')
        return -1;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *end == 0 && errno == 0 ? 0 : -1;
}

static gb_status_t try_open(ps_job_t *job, const char *path)
{
    gb_st_reader_t *reader;
    gb_status_t st = gb_st_reader_open(path, &reader);
    if (st != GB_OK)
        return st;
    const char *format = gb_st_reader_meta(reader, "format");
    uint64_t clock, epoch;
    if (!format || strcmp(format, "gable-checkpoint-1") != 0 ||
        parse_number(gb_st_reader_meta(reader, "clock"), &clock) != 0 ||
        parse_number(gb_st_reader_meta(reader, "epoch"), &epoch) != 0) {
        gb_st_reader_close(reader);
        return gb_fail(GB_ERR_FORMAT, "%s is no checkpoint of this program", path);
    }
    job->restore = reader;
    job->restore_clock = job->checkpoint_clock = clock;
    job->epoch = (uint32_t)epoch;
    return GB_OK;
}

gb_status_t ps_ckpt_find(ps_params_t *ps, ps_job_t *job)
{
    char folder[512], path[512];
    listing_t list;
    if (!ps->config.checkpoint_dir)
        return GB_OK;
    folder_of(ps, job, folder, sizeof(folder));
    gb_status_t st = list_folder(folder, &list);
    for (uint32_t i = 0; i < list.count && !job->restore; i++) {
        path_of(ps, job, list.clocks[i], path, sizeof(path));
        st = try_open(job, path);
        if (st != GB_OK)
            gb_log(GB_LOG_WARN, "job %s: checkpoint left aside: %s", job->name, gb_why());
    }
    free(list.clocks);
    return st;
}

static gb_status_t load_piece(const ps_job_t *job, const gbx_piece_t *piece, const char *prefix,
                              float *out)
{
    char name[PS_NAME + 32];
    const gbx_plan_tensor_t *tensor = &job->plan.tensors[piece->tensor];
    uint64_t at = piece->tensor_at, values = tensor->values;
    snprintf(name, sizeof(name), "%s%s", prefix, tensor->name);
    int32_t index = gb_st_reader_find(job->restore, name);
    if (index < 0) {
        snprintf(name, sizeof(name), "%s%s@%" PRIu64, prefix, tensor->name, at);
        index = gb_st_reader_find(job->restore, name);
        at = 0;
        values = piece->values;
    }
    if (index < 0)
        return gb_fail(GB_ERR_NOT_FOUND, "the checkpoint of job %s has no tensor %s", job->name,
                       name);
    const gb_st_tensor_t *found = gb_st_reader_tensor(job->restore, (uint32_t)index);
    int overflow;
    if (found->dtype != GB_ST_F32 || gb_st_tensor_bytes(found, &overflow) != values * 4)
        return gb_fail(GB_ERR_INVALID,
                       "tensor %s in the checkpoint of job %s has another size: the model differs",
                       name, job->name);
    return gb_st_reader_read(job->restore, (uint32_t)index, at * 4, out, (size_t)piece->values * 4);
}

gb_status_t ps_ckpt_load_chunk(ps_job_t *job, ps_chunk_t *chunk)
{
    const gbx_plan_chunk_t *plan = &job->plan.chunks[chunk->id];
    gb_status_t st = GB_OK;
    pthread_mutex_lock(&job->lock);
    for (uint32_t p = plan->first_piece; p < plan->first_piece + plan->pieces; p++) {
        const gbx_piece_t *piece = &job->plan.pieces[p];
        st = load_piece(job, piece, "", chunk->weights->data + piece->chunk_at);
        if (st == GB_OK && job->optimizer.momentum != 0) {
            st = load_piece(job, piece, velocity_prefix, chunk->velocity->data + piece->chunk_at);
            /* A checkpoint without momentum is still good weights to start from. */
            if (st == GB_ERR_NOT_FOUND)
                st = GB_OK;
        }
        if (st != GB_OK)
            break;
    }
    pthread_mutex_unlock(&job->lock);
    if (st == GB_OK) {
        chunk->version = job->restore_clock;
        chunk->ready = 1;
    }
    return st;
}

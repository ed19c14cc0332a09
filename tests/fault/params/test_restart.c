/* kill -9 of a shard and its restart from the last checkpoint; what checkpoints survive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/tensor/gb_safetensors.h"
#include "tests/unit/gbx/testkit.h"

static const ps_optimizer_t momentum = {.kind = PS_SGD, .lr = 0.05f, .momentum = 0.9f};
static const uint32_t ids[] = {1, 2}, samples[] = {10, 20};

typedef struct {
    pid_t pid;
    unsigned long long clock;
} process_t;

static process_t spawn_shard(const char *folder, const char *generation, const char *restore,
                             const char *checkpoint)
{
    int out[2];
    process_t p = {0};
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    p.pid = fork();
    if (p.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out[1], 1);
        execl(GABLE_BUILD_DIR "/tests/params_shard", "params_shard", folder, generation, restore,
              checkpoint, "2", (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    FILE *f = fdopen(out[0], "r");
    assert_int_equal(fscanf(f, "clock %llu", &p.clock), 1);
    fclose(f);
    return p;
}

static int file_there(void *path)
{
    return access(path, R_OK) == 0;
}

static void test_kill_and_restart(void **state)
{
    (void)state;
    char folder[] = "/tmp/gable-kit-XXXXXX", path[128];
    kit_shard_t shard = {.lease = 0x1234};
    kit_worker_t workers[2];
    kit_reference_t ref;
    gbx_config_t config;
    gbx_shard_t where;
    gbx_state_t s;
    uint64_t clock;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 32; i++)
        shard.key[i] = (uint8_t)(i * 7 + 1);
    snprintf(shard.endpoint, sizeof(shard.endpoint), "unix:%s/shard.sock", folder);
    process_t first = spawn_shard(folder, "1", "0", "10");
    assert_int_equal(first.clock, 0);
    for (uint32_t i = 0; i < 2; i++) {
        kit_worker_open(&workers[i], &shard, &kit_mixed, ids[i], samples[i], 1);
        kit_worker_fill(&workers[i], 77);
        assert_int_equal(gbx_init(workers[i].gbx, workers[i].stream, &clock), GB_OK);
        assert_int_equal(clock, 0);
    }
    for (int i = 0; i < 2; i++)
        kit_worker_steps(&workers[i], 0, 15, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(gbx_wait(workers[i].gbx, 10000), GB_OK);
    snprintf(path, sizeof(path), "%s/job/clock-000000000010.safetensors", folder);
    assert_true(kit_wait(file_there, path, 10));
    kit_worker_steps(&workers[0], 15, 1, 0); /* waits for the other one */

    kill(first.pid, SIGKILL);
    waitpid(first.pid, NULL, 0);
    assert_int_equal(gbx_wait(workers[0].gbx, 10000), GB_ERR_LOST);
    fake_cuda_table()->cuStreamSynchronize(workers[0].stream); /* the stream is released */
    assert_int_equal(gbx_status(workers[0].gbx, &s), GB_OK);
    assert_int_equal(s.poison, GBX_LOST);

    kit_worker_config(&workers[0], &config, &where);
    assert_int_equal(gbx_reopen(workers[0].gbx, &config), GB_ERR_UNREACHABLE);
    process_t second = spawn_shard(folder, "2", "1", "20");
    assert_int_equal(second.clock, 10);
    assert_int_equal(gbx_reopen(workers[0].gbx, &config), GB_ERR_CANCELLED); /* generation 1 */
    assert_int_equal(gbx_status(workers[0].gbx, &s), GB_OK);
    assert_int_equal(s.generation, 2);
    for (uint32_t i = 0; i < 2; i++) {
        workers[i].generation = 2;
        kit_worker_config(&workers[i], &config, &where);
        assert_int_equal(gbx_reopen(workers[i].gbx, &config), GB_OK);
        assert_int_equal(gbx_init(workers[i].gbx, workers[i].stream, &clock), GB_OK);
        assert_int_equal(clock, 10); /* they were ahead, and go back */
    }
    kit_reference_init(&ref, &kit_mixed, 77);
    for (uint64_t c = 0; c < 20; c++) {
        if (c == 10) {
            fake_cuda_table()->cuStreamSynchronize(workers[0].stream);
            assert_true(kit_same(&workers[0], &ref));
        }
        kit_reference_step(&ref, &momentum, c, ids, samples, 2);
    }
    for (int i = 0; i < 2; i++)
        kit_worker_steps(&workers[i], 10, 10, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gbx_wait(workers[i].gbx, 10000), GB_OK);
        fake_cuda_table()->cuStreamSynchronize(workers[i].stream);
        assert_true(kit_same(&workers[i], &ref)); /* momentum came back as well */
    }
    kit_reference_free(&ref);
    for (int i = 0; i < 2; i++)
        kit_worker_close(&workers[i]);
    kill(second.pid, SIGKILL);
    waitpid(second.pid, NULL, 0);
    char command[96];
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static int checkpoints(void *arg)
{
    kit_shard_t *shard = arg;
    pthread_mutex_lock(&shard->lock);
    int n = shard->checkpoints;
    pthread_mutex_unlock(&shard->lock);
    return n >= 4;
}

/* Checkpoints while training runs: right bits, whole files, old ones removed, a broken newest one is
 * passed over. */
static void test_checkpoints_while_training(void **state)
{
    (void)state;
    const kit_shard_config_t config = {.threads = 2, .keep = 3};
    kit_shard_t shard;
    kit_worker_t worker;
    kit_reference_t ref;
    char path[256];
    uint64_t clock;
    kit_shard_start(&shard, &config);
    kit_job(&shard, 1, &momentum, 0);
    kit_members(&shard, 1, 0, 1);
    /* before there is a model: kept until its time */
    assert_int_equal(ps_params_checkpoint_at(shard.ps, "job", 5, 1), GB_OK);
    assert_int_equal(ps_params_checkpoint_now(shard.ps, "job", 1, 100, NULL, 0), GB_ERR_BUSY);
    kit_worker_open(&worker, &shard, &kit_mixed, 1, 10, 1);
    kit_worker_fill(&worker, 9);
    assert_int_equal(gbx_init(worker.gbx, worker.stream, &clock), GB_OK);
    for (uint64_t c = 10; c <= 20; c += 5)
        assert_int_equal(ps_params_checkpoint_at(shard.ps, "job", c, (uint32_t)c / 5), GB_OK);
    kit_worker_steps(&worker, 0, 30, 0);
    assert_int_equal(gbx_wait(worker.gbx, 10000), GB_OK);
    assert_true(kit_wait(checkpoints, &shard, 10));
    assert_int_equal(ps_params_checkpoint_at(shard.ps, "job", 29, 1), GB_ERR_INVALID); /* past */
    assert_int_equal(ps_params_checkpoint_now(shard.ps, "job", 6, 10000, path, sizeof(path)),
                     GB_OK);
    assert_non_null(strstr(path, "clock-000000000030"));

    gb_st_reader_t *reader;
    assert_int_equal(gb_st_reader_open(path, &reader), GB_OK);
    assert_string_equal(gb_st_reader_meta(reader, "clock"), "30");
    assert_string_equal(gb_st_reader_meta(reader, "epoch"), "6");
    assert_int_equal(gb_st_reader_count(reader), 18); /* weights and velocity */
    kit_reference_init(&ref, &kit_mixed, 9);
    for (uint64_t c = 0; c < 30; c++)
        kit_reference_step(&ref, &momentum, c, ids, samples, 1);
    uint64_t at = 0;
    for (uint32_t t = 0; t < kit_mixed.count; t++) {
        static float bits[9000];
        char name[64];
        size_t bytes = kit_mixed.values[t] * 4;
        snprintf(name, sizeof(name), "t%u", t);
        int32_t i = gb_st_reader_find(reader, name);
        assert_true(i >= 0);
        assert_int_equal(gb_st_reader_read(reader, (uint32_t)i, 0, bits, bytes), GB_OK);
        assert_memory_equal(bits, ref.weights + at, bytes);
        snprintf(name, sizeof(name), "optimizer.velocity/t%u", t);
        i = gb_st_reader_find(reader, name);
        assert_true(i >= 0);
        assert_int_equal(gb_st_reader_read(reader, (uint32_t)i, 0, bits, bytes), GB_OK);
        assert_memory_equal(bits, ref.velocity + at, bytes);
        at += kit_mixed.values[t];
    }
    gb_st_reader_close(reader);
    kit_reference_free(&ref);
    kit_worker_close(&worker);

    char old[256], kept[256];
    snprintf(old, sizeof(old), "%s/job/clock-000000000010.safetensors", shard.folder);
    snprintf(kept, sizeof(kept), "%s/job/clock-000000000020.safetensors", shard.folder);
    assert_int_equal(access(old, F_OK), -1);
    assert_int_equal(access(kept, F_OK), 0);
    assert_int_equal(ps_params_job_remove(shard.ps, "job"), GB_OK);
    assert_int_equal(truncate(path, 1000), 0); /* the newest one is broken */
    assert_int_equal(kit_job(&shard, 2, &momentum, 1), 20);
    kit_shard_stop(&shard, 1);
}

/* A checkpoint of another model is not poured into this one. */
static void test_checkpoint_of_another_model(void **state)
{
    (void)state;
    const kit_shard_config_t config = {.threads = 1};
    kit_shard_t shard;
    kit_worker_t worker;
    gbx_config_t gbx;
    gbx_shard_t where;
    uint64_t clock;
    kit_shard_start(&shard, &config);
    kit_job(&shard, 1, &momentum, 0);
    kit_members(&shard, 1, 0, 1);
    kit_worker_open(&worker, &shard, &kit_mixed, 1, 10, 1);
    assert_int_equal(gbx_init(worker.gbx, worker.stream, &clock), GB_OK);
    kit_worker_steps(&worker, 0, 2, 0);
    assert_int_equal(gbx_wait(worker.gbx, 10000), GB_OK);
    assert_int_equal(ps_params_checkpoint_now(shard.ps, "job", 1, 10000, NULL, 0), GB_OK);
    kit_worker_close(&worker);
    assert_int_equal(ps_params_job_remove(shard.ps, "job"), GB_OK);
    assert_int_equal(kit_job(&shard, 2, &momentum, 1), 2);

    gbx_t *exchange;
    kit_worker_t other = {.shard = &shard, .model = &kit_mixed, .id = 1, .generation = 2};
    kit_worker_config(&other, &gbx, &where);
    assert_int_equal(gbx_open(fake_cuda_table(), &gbx, &exchange), GB_OK);
    const gbx_tensor_t tensor = {.name = "t0", .dims = 1, .shape = {11}};
    assert_int_equal(gbx_declare(exchange, &tensor, 1, 0), GB_ERR_INVALID);
    assert_non_null(strstr(gb_why(), "another size"));
    gbx_close(exchange);
    kit_shard_stop(&shard, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kill_and_restart),
        cmocka_unit_test(test_checkpoints_while_training),
        cmocka_unit_test(test_checkpoint_of_another_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

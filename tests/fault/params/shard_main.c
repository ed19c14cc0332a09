/* A shard as a process of its own, to be killed: params_shard FOLDER GENERATION RESTORE CHECKPOINT_AT WORKERS
 * Prints "clock <n>" when it serves job "job" for workers 1 to WORKERS on unix:FOLDER/shard.sock. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/params/ps_params.h"

static void must(gb_status_t st)
{
    if (st == GB_OK)
        return;
    fprintf(stderr, "params_shard: %s\n", gb_why());
    exit(1);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    char listen[300];
    uint8_t key[32];
    ps_params_t *ps;
    uint64_t clock;
    uint32_t epoch, generation = (uint32_t)atoi(argv[2]);
    const uint32_t workers[] = {1, 2, 3, 4, 5, 6, 7, 8};
    snprintf(listen, sizeof(listen), "unix:%s/shard.sock", argv[1]);
    ps_params_config_t config = {.listen = listen, .checkpoint_dir = argv[1], .threads = 2};
    ps_params_job_t job = {.name = "job",
                           .generation = generation,
                           .restore = atoi(argv[3]),
                           .optimizer = {.kind = PS_SGD, .lr = 0.05f, .momentum = 0.9f}};
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)(i * 7 + 1);
    must(ps_params_start(&config, &ps));
    must(ps_params_grant(ps, 0x1234, key, 0));
    must(ps_params_job_create(ps, &job, &clock, &epoch));
    must(ps_params_set_members(ps, "job", generation, clock, workers, (uint32_t)atoi(argv[5])));
    must(ps_params_checkpoint_at(ps, "job", (uint64_t)atoi(argv[4]), 1));
    printf("clock %llu\n", (unsigned long long)clock);
    fflush(stdout);
    pause();
    return 0;
}

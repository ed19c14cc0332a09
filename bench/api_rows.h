/* api_rows.h - what the parts of bench/api share: the device under test and the rounds. */
#ifndef API_ROWS_H
#define API_ROWS_H

#include <stdint.h>

#include "common/cuda/gb_driver.h"

enum { API_MAX_ROUNDS = 200, API_MAX_THREADS = 64 };

typedef struct {
    int json;
    int rounds;
    int threads; /* of the device, and of what it is compared with */
} api_run_t;

extern const gb_cuda_table_t *api_cu;
extern CUstream api_stream;
extern CUfunction api_nothing; /* a kernel that does nothing */
extern CUfunction api_work;    /* float *out, u32 n: n dependent multiply-adds in each thread */

/* Ends the program with a message if the call failed. */
void api_need(CUresult result, const char *what);

#define NEED(call) api_need(api_cu->call, #call)

/* Opens the software device with one context, one stream and the two kernels. */
void api_open(void);

/* One line with its target. */
void api_line(const api_run_t *run, const char *metric, double value, const char *unit,
              double target, double floor, double peer);

/* api_calls.c: nanoseconds per call. */
void api_measure_calls(const api_run_t *run);

/* api_moving.c: bytes per second. */
void api_measure_moving(const api_run_t *run);

/* api_process.c: whole processes, and what such a process does. */
void api_measure_processes(const api_run_t *run);
int api_child(const char *what);

#endif

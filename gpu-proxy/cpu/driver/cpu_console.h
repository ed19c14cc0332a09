/* cpu_console.h - what kernels print: a circular buffer per context. Thread-safe.
 *
 * Text waits here until the program synchronises, launches, copies, loads or ends something, as CUDA
 * has it; then it goes to the process's stdout. When the buffer is full the oldest pieces are lost.
 * Messages of failed assertions go to stderr at once. */
#ifndef CPU_CONSOLE_H
#define CPU_CONSOLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    pthread_mutex_t lock;    /* of the following */
    pthread_mutex_t flushes; /* one at a time, so that pieces stay in order; taken first */
    char *ring;              /* pieces, each behind its length; NULL until something is printed */
    size_t capacity, head, used;
    atomic_bool pending; /* there is text */
} cpu_console_t;

void cpu_console_init(cpu_console_t *console);
void cpu_console_destroy(cpu_console_t *console);

/* Keeps one piece of text. `capacity`: of the buffer, used when it is made. */
void cpu_console_print(cpu_console_t *console, const char *text, size_t bytes, size_t capacity);

/* Writes what was printed so far to stdout. Costs one load if there is nothing. */
void cpu_console_flush(cpu_console_t *console);

/* Whether the buffer exists: then its size is settled. */
bool cpu_console_in_use(cpu_console_t *console);

#endif

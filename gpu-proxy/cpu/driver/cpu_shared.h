/* cpu_shared.h - parts of the device windows that lie in files in memory, so that other processes can
 * map them. Thread-safe.
 *
 * Device memory is private anonymous memory, which is what kernels run fastest on. Memory that is
 * exported moves into a file (memfd) at its place: its pages can only be read meanwhile, and a thread
 * that writes to one of them waits in the fault handler until the file is there. Files are found by
 * other processes through /proc/PID/fd, so nothing stays behind when a process dies. */
#ifndef CPU_SHARED_H
#define CPU_SHARED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cuda/gb_cuda.h"

/* How one process names a file of another. */
typedef struct {
    uint32_t pid, fd;
    uint64_t inode; /* tells whether it is still the same file */
    uint64_t bytes;
} cpu_file_t;

typedef struct {
    uint64_t base; /* where the file begins */
    cpu_file_t file;
    bool imported; /* the file is another process's */
} cpu_segment_t;

/* A sealed file of that size, of zeros; -1 if there is no memory. The caller closes it. */
int cpu_shared_file(const char *name, uint64_t bytes);

/* Names an open file of this process. */
bool cpu_shared_name(int fd, cpu_file_t *file);

/* Opens a file of another process. -1: it is gone, or not the same any more, or somebody else's. */
int cpu_shared_open(const cpu_file_t *file);

/* The file cannot shrink under its users, and has so many bytes. */
bool cpu_shared_sound(int fd, uint64_t bytes);

/* Puts the file, which is empty, in the place of whole pages that are accessible as `protection` says, with
 * what they hold: kernels and the program go on. False: memory is out, and nothing has changed. */
bool cpu_shared_replace(int fd, uint64_t base, uint64_t bytes, int protection);

/* Moves whole pages into a file. CUDA_ERROR_OUT_OF_MEMORY: nothing has changed. */
CUresult cpu_shared_move(uint64_t base, uint64_t bytes, cpu_segment_t *segment);

/* Maps another process's file over pages of a device window. */
CUresult cpu_shared_map(int fd, const cpu_file_t *file, uint64_t base);

/* The segment that the address lies in. */
bool cpu_shared_find(uint64_t address, cpu_segment_t *segment);

/* Nothing lies on these pages any more, whole segments or none: they are private, empty and
 * inaccessible again. False: none of them was shared, and nothing was done. */
bool cpu_shared_drop(uint64_t base, uint64_t bytes);

/* In a signal handler: may it have been a write to pages that are on their way into a file? Returns
 * true when they have arrived, and the instruction is to be tried again. */
bool cpu_shared_wait(uint64_t address);

#endif

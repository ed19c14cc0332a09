/* kernels_peer.h - the peer of bench/kernels: PoCL, OpenCL on the processor.
 *
 * Opened while running, so that neither the build nor the benchmark needs it. One thread at a time. */
#ifndef KERNELS_PEER_H
#define KERNELS_PEER_H

#include "bench/kernels_row.h"

typedef struct {
    void *kernel;
    void *memory[ROW_BUFFERS];
} peer_row_t;

/* Opens a CPU device with so many threads; 0: there is none. */
int peer_open(int threads);

/* 0: it cannot compile or run the kernel, and has said why. */
int peer_row_open(const row_t *row, void **buffers, peer_row_t *out);
int peer_row_run(const row_t *row, const peer_row_t *p, int count);
int peer_row_read(const row_t *row, const peer_row_t *p, void *result);
void peer_row_close(peer_row_t *p);

/* As device_first_launch and device_empty_launch; NAN if it fails. */
double peer_first_launch(void);
double peer_empty_launch(int count);

#endif

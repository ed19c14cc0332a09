/* cpu_driver.h - the process's one driver object: configuration and devices.
 *
 * Settings, all from the environment, read by the first cuInit:
 *   GABLE_CPU_THREADS   threads that run kernels; default: the cores this process may use
 *   GABLE_CPU_DEVICES   devices to show, 1 to 16; default 1
 *   GABLE_CPU_MEMORY    bytes per device (K, M, G); default: half of the machine's, shared
 *   GABLE_CPU_SPEED     2 makes everything take twice as long; default 1
 *   GABLE_CPU_WIDTH     lanes of a strip; 1 is the scalar oracle; default: the compiler chooses
 *   GABLE_CPU_TARGET    x86-64-v3 or x86-64-v4; default: the best that the host has
 *   GABLE_CPU_CHECKS    off leaves out address checks, to measure them; default on
 *   CUDA_VISIBLE_DEVICES  as CUDA has it: indices or UUIDs */
#ifndef CPU_DRIVER_H
#define CPU_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/cuda/gb_cuda.h"

enum { CPU_MAX_DEVICES = 16 };

typedef struct cpu_context cpu_context_t;

enum { CPU_CODE_BYTES = 256 << 20 }; /* of compiled code in memory, if nothing else is set */

typedef struct {
    int threads;
    int devices;         /* in the machine, before CUDA_VISIBLE_DEVICES */
    uint64_t memory;     /* bytes per device */
    uint64_t code_bytes; /* of compiled code in memory */
    double speed;
    unsigned width;
    const char *target;
    bool unchecked;
} cpu_config_t;

typedef struct {
    int ordinal; /* in the machine; the index in the driver's table is CUDA's ordinal */
    int index;
    char name[128];
    CUuuid uuid;
    pthread_mutex_t lock; /* of the primary context */
    cpu_context_t *primary;
    unsigned primary_retains;
    unsigned primary_flags;
} cpu_device_t;

typedef struct {
    cpu_config_t config;
    int device_count; /* visible */
    cpu_device_t devices[CPU_MAX_DEVICES];
} cpu_driver_t;

/* Makes the driver, once; later calls return what the first one did. */
CUresult cpu_driver_init(unsigned flags);

/* The driver, or NULL before a successful cpu_driver_init and in a child after fork(). */
cpu_driver_t *cpu_driver(void);

/* CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_INVALID_DEVICE or the device. */
CUresult cpu_device_get(CUdevice ordinal, cpu_device_t **device);

#endif

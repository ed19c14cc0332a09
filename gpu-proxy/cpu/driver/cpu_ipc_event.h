/* cpu_ipc_event.h - the part of an event that several processes share: how often it was recorded, and
 * how many of these records are complete.
 *
 * It lies in a file of one page, mapped by every process that has the event open. A process that dies
 * takes its records with it: they count as complete. Thread-safe. */
#ifndef CPU_IPC_EVENT_H
#define CPU_IPC_EVENT_H

#include "gpu-proxy/cpu/driver/cpu_shared.h"

typedef struct cpu_ipc_event cpu_ipc_event_t;

/* A new one; CUDA_ERROR_OUT_OF_MEMORY. */
CUresult cpu_ipc_event_make(cpu_ipc_event_t **event);

/* That of another process; CUDA_ERROR_INVALID_HANDLE. */
CUresult cpu_ipc_event_open(const cpu_file_t *file, cpu_ipc_event_t **event);

void cpu_ipc_event_close(cpu_ipc_event_t *event);

/* How other processes find it. */
const cpu_file_t *cpu_ipc_event_file(const cpu_ipc_event_t *event);

/* Numbers a new record; the last record's number, 0 before the first. */
uint64_t cpu_ipc_event_record(cpu_ipc_event_t *event);
uint64_t cpu_ipc_event_last(const cpu_ipc_event_t *event);

/* The record is complete, or will never be. Wakes who waits, in all processes. */
void cpu_ipc_event_complete(cpu_ipc_event_t *event, uint64_t record);

/* Whether all records up to this one are complete. */
bool cpu_ipc_event_passed(cpu_ipc_event_t *event, uint64_t record);

/* Returns when they are. */
void cpu_ipc_event_wait(cpu_ipc_event_t *event, uint64_t record);

#endif

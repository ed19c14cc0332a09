#include "gpu-proxy/cpu/driver/cpu_ipc_event.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/core/gb_clock.h"

enum {
    PAGE_BYTES = 4096,
    MAGIC = 0x45764247, /* "GBvE" */
    LOOK_NS = 20000000, /* whether the process that recorded is still there */
};

/* What all processes see. */
typedef struct {
    uint32_t magic;
    atomic_uint changes; /* futex: completed went up */
    atomic_uint waiters;
    _Atomic uint32_t recorder; /* process of the last record */
    _Atomic uint64_t recorded, completed;
} page_t;

struct cpu_ipc_event {
    page_t *page;
    int fd;
    cpu_file_t file;
    _Atomic uint64_t looked; /* when we last looked after the recorder */
};

static CUresult map(int fd, cpu_ipc_event_t **event)
{
    cpu_ipc_event_t *made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED || !cpu_shared_name(fd, &made->file)) {
        if (page != MAP_FAILED)
            munmap(page, PAGE_BYTES);
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->page = page;
    made->fd = fd;
    *event = made;
    return CUDA_SUCCESS;
}

CUresult cpu_ipc_event_make(cpu_ipc_event_t **event)
{
    int fd = cpu_shared_file("gable-event", PAGE_BYTES);
    CUresult result = fd < 0 ? CUDA_ERROR_OUT_OF_MEMORY : map(fd, event);
    if (!result)
        (*event)->page->magic = MAGIC;
    else if (fd >= 0)
        close(fd);
    return result;
}

CUresult cpu_ipc_event_open(const cpu_file_t *file, cpu_ipc_event_t **event)
{
    if (file->bytes != PAGE_BYTES)
        return CUDA_ERROR_INVALID_HANDLE;
    int fd = cpu_shared_open(file);
    if (fd < 0)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = map(fd, event);
    if (!result && (*event)->page->magic != MAGIC) {
        cpu_ipc_event_close(*event);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (result)
        close(fd);
    return result;
}

void cpu_ipc_event_close(cpu_ipc_event_t *event)
{
    if (!event)
        return;
    munmap(event->page, PAGE_BYTES);
    close(event->fd);
    free(event);
}

const cpu_file_t *cpu_ipc_event_file(const cpu_ipc_event_t *event)
{
    return &event->file;
}

uint64_t cpu_ipc_event_record(cpu_ipc_event_t *event)
{
    atomic_store(&event->page->recorder, (uint32_t)getpid());
    return atomic_fetch_add(&event->page->recorded, 1) + 1;
}

uint64_t cpu_ipc_event_last(const cpu_ipc_event_t *event)
{
    return atomic_load(&event->page->recorded);
}

void cpu_ipc_event_complete(cpu_ipc_event_t *event, uint64_t record)
{
    page_t *page = event->page;
    uint64_t seen = atomic_load(&page->completed);
    while (seen < record && !atomic_compare_exchange_weak(&page->completed, &seen, record))
        continue;
    if (seen >= record)
        return;
    atomic_fetch_add(&page->changes, 1);
    if (atomic_load(&page->waiters))
        syscall(SYS_futex, &page->changes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* From time to time. */
static bool recorder_is_gone(cpu_ipc_event_t *event)
{
    uint64_t now = gb_now_ns(), looked = atomic_load(&event->looked);
    if (now - looked < LOOK_NS || !atomic_compare_exchange_strong(&event->looked, &looked, now))
        return false;
    pid_t recorder = (pid_t)atomic_load(&event->page->recorder);
    return recorder > 0 && kill(recorder, 0) != 0 && errno == ESRCH;
}

bool cpu_ipc_event_passed(cpu_ipc_event_t *event, uint64_t record)
{
    if (atomic_load(&event->page->completed) >= record)
        return true;
    if (!recorder_is_gone(event))
        return false;
    cpu_ipc_event_complete(event, record);
    return true;
}

void cpu_ipc_event_wait(cpu_ipc_event_t *event, uint64_t record)
{
    page_t *page = event->page;
    struct timespec time = {0, LOOK_NS};
    atomic_fetch_add(&page->waiters, 1);
    for (;;) {
        uint32_t changes = atomic_load(&page->changes);
        if (cpu_ipc_event_passed(event, record))
            break;
        syscall(SYS_futex, &page->changes, FUTEX_WAIT, changes, &time, NULL, 0);
    }
    atomic_fetch_sub(&page->waiters, 1);
}

#include "gpu-proxy/cpu/driver/cpu_shared.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu-proxy/cpu/driver/cpu_tree.h"

typedef struct {
    cpu_node_t node; /* where the file is mapped */
    cpu_file_t file;
    int fd; /* of our own files; -1: another process's */
    bool imported;
} segment_t;

static struct {
    pthread_mutex_t lock;
    cpu_tree_t segments;
    atomic_uint count;
    /* Pages on their way into a file; a fault handler reads this. */
    _Atomic uint64_t moving, moving_end;
    atomic_uint moves; /* that are over */
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __thread uint32_t retried __attribute__((tls_model("initial-exec"))); /* moves seen */

static const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/* ---- files ---- */

int cpu_shared_file(const char *name, uint64_t bytes)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, seals)) {
        close(fd);
        return -1;
    }
    return fd;
}

bool cpu_shared_name(int fd, cpu_file_t *file)
{
    struct stat facts;
    if (fstat(fd, &facts))
        return false;
    *file = (cpu_file_t){(uint32_t)getpid(), (uint32_t)fd, facts.st_ino, (uint64_t)facts.st_size};
    return true;
}

bool cpu_shared_sound(int fd, uint64_t bytes)
{
    struct stat facts;
    int have = fcntl(fd, F_GET_SEALS);
    return have >= 0 && (have & F_SEAL_SHRINK) && fstat(fd, &facts) == 0 &&
           (uint64_t)facts.st_size == bytes;
}

int cpu_shared_open(const cpu_file_t *file)
{
    char path[64];
    struct stat facts;
    snprintf(path, sizeof(path), "/proc/%u/fd/%u", file->pid, file->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (!cpu_shared_sound(fd, file->bytes) || fstat(fd, &facts) || facts.st_ino != file->inode) {
        close(fd);
        return -1;
    }
    return fd;
}

/* ---- segments ---- */

static segment_t *new_segment(uint64_t base, uint64_t bytes, int fd)
{
    segment_t *segment = calloc(1, sizeof(*segment));
    if (segment) {
        segment->node.base = base;
        segment->node.size = bytes;
        segment->fd = fd;
    }
    return segment;
}

/* Under the lock. */
static void enter(segment_t *segment)
{
    cpu_tree_insert(&shared.segments, &segment->node);
    atomic_fetch_add(&shared.count, 1);
}

static bool is_zero(const uint8_t *bytes, uint64_t count)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0;
}

/* What is zero stays a hole. */
static bool write_all(int fd, uint64_t base, uint64_t bytes)
{
    enum { PIECE = 64 << 10 };
    for (uint64_t done = 0; done < bytes;) {
        uint64_t part = bytes - done < PIECE ? bytes - done : PIECE;
        const uint8_t *from = (const uint8_t *)(base + done);
        ssize_t wrote = is_zero(from, part) ? (ssize_t)part : pwrite(fd, from, part, (off_t)done);
        if (wrote <= 0)
            return false;
        done += (uint64_t)wrote;
    }
    return true;
}

static bool replace(int fd, uint64_t base, uint64_t bytes, int protection)
{
    return mmap((void *)base, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
}

/* Under the lock. Writers wait from the first mprotect to the end. */
static bool move_pages(int fd, uint64_t base, uint64_t bytes, int protection)
{
    atomic_store(&shared.moving_end, base + bytes);
    atomic_store(&shared.moving, base);
    bool moved = mprotect((void *)base, bytes, PROT_READ) == 0 && write_all(fd, base, bytes) &&
                 replace(fd, base, bytes, protection);
    if (!moved)
        mprotect((void *)base, bytes, protection);
    atomic_store(&shared.moving, 0);
    atomic_fetch_add(&shared.moves, 1);
    return moved;
}

bool cpu_shared_replace(int fd, uint64_t base, uint64_t bytes, int protection)
{
    pthread_mutex_lock(&shared.lock);
    bool good = move_pages(fd, base, bytes, protection);
    pthread_mutex_unlock(&shared.lock);
    return good;
}

CUresult cpu_shared_move(uint64_t base, uint64_t bytes, cpu_segment_t *out)
{
    int fd = cpu_shared_file("gable-device", bytes);
    segment_t *segment = fd < 0 ? NULL : new_segment(base, bytes, fd);
    bool good = segment && cpu_shared_name(fd, &segment->file);
    if (good) {
        pthread_mutex_lock(&shared.lock);
        good = move_pages(fd, base, bytes, PROT_READ | PROT_WRITE);
        if (good)
            enter(segment);
        pthread_mutex_unlock(&shared.lock);
    }
    if (good) {
        *out = (cpu_segment_t){base, segment->file, false};
        return CUDA_SUCCESS;
    }
    free(segment);
    if (fd >= 0)
        close(fd);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cpu_shared_map(int fd, const cpu_file_t *file, uint64_t base)
{
    segment_t *segment = new_segment(base, file->bytes, -1);
    if (!segment || !replace(fd, base, file->bytes, PROT_READ | PROT_WRITE)) {
        free(segment);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    segment->file = *file;
    segment->imported = true;
    pthread_mutex_lock(&shared.lock);
    enter(segment);
    pthread_mutex_unlock(&shared.lock);
    return CUDA_SUCCESS;
}

bool cpu_shared_find(uint64_t address, cpu_segment_t *out)
{
    if (atomic_load(&shared.count) == 0)
        return false;
    pthread_mutex_lock(&shared.lock);
    const segment_t *segment = (const segment_t *)cpu_tree_find(&shared.segments, address);
    if (segment)
        *out = (cpu_segment_t){segment->node.base, segment->file, segment->imported};
    pthread_mutex_unlock(&shared.lock);
    return segment != NULL;
}

/* ---- back to private memory ---- */

static void make_private(uint64_t base, uint64_t bytes)
{
    void *at = mmap((void *)base, bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (at == MAP_FAILED) {
        mprotect((void *)base, bytes, PROT_NONE);
        return;
    }
    madvise(at, bytes, MADV_HUGEPAGE);
    madvise(at, bytes, MADV_DONTDUMP);
}

/* Under the lock: the first segment that overlaps, or NULL. What is dropped covers whole segments. */
static segment_t *overlapping(uint64_t base, uint64_t end)
{
    cpu_node_t *node = cpu_tree_find(&shared.segments, base);
    if (!node)
        node = cpu_tree_ceiling(&shared.segments, base);
    return node && node->base < end ? (segment_t *)node : NULL;
}

bool cpu_shared_drop(uint64_t base, uint64_t bytes)
{
    segment_t *segment;
    bool found = false;
    if (atomic_load(&shared.count) == 0)
        return false;
    pthread_mutex_lock(&shared.lock);
    while ((segment = overlapping(base, base + bytes)) != NULL) {
        if (!found)
            make_private(base, bytes);
        found = true;
        cpu_tree_remove(&shared.segments, &segment->node);
        atomic_fetch_sub(&shared.count, 1);
        if (segment->fd >= 0)
            close(segment->fd);
        free(segment);
    }
    pthread_mutex_unlock(&shared.lock);
    return found;
}

bool cpu_shared_wait(uint64_t address)
{
    uint32_t moves = atomic_load(&shared.moves);
    uint64_t from = atomic_load(&shared.moving), end = atomic_load(&shared.moving_end);
    if (from && address >= from && address < end) {
        while (atomic_load(&shared.moves) == moves)
            sched_yield();
        return true;
    }
    /* The pages may have arrived between the fault and this question: one more try tells. */
    if (retried == moves)
        return false;
    retried = moves;
    return true;
}

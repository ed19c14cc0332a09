#include "gpu-proxy/cpu/driver/cpu_vmm.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu-proxy/cpu/driver/cpu_driver.h"
#include "gpu-proxy/cpu/driver/cpu_guard.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"
#include "gpu-proxy/cpu/driver/cpu_shared.h"
#include "gpu-proxy/cpu/driver/cpu_tree.h"

typedef struct {
    cpu_node_t node;
} reservation_t;

typedef struct {
    cpu_node_t node;
    cpu_physical_t *physical; /* referenced */
    CUmemAccess_flags access;
} mapping_t;

static struct {
    pthread_mutex_t lock;
    cpu_tree_t reservations;
    cpu_tree_t mappings;
} vmm = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const int reserve_flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

static bool aligned(uint64_t value)
{
    return value % CPU_VMM_GRAIN == 0;
}

/* Address space at the hint, else anywhere aligned; 0 if there is none. */
static uint64_t find_space(uint64_t bytes, uint64_t align, uint64_t hint)
{
    if (hint) {
        void *at = mmap((void *)hint, bytes, PROT_NONE, reserve_flags | MAP_FIXED_NOREPLACE, -1, 0);
        if (at == (void *)hint)
            return hint;
        if (at != MAP_FAILED)
            munmap(at, bytes);
    }
    void *wide = mmap(NULL, bytes + align, PROT_NONE, reserve_flags, -1, 0);
    if (wide == MAP_FAILED)
        return 0;
    uint64_t from = (uint64_t)wide, base = (from + align - 1) & ~(align - 1);
    if (base > from)
        munmap(wide, base - from);
    if (from + align > base)
        munmap((void *)(base + bytes), from + align - base);
    return base;
}

CUresult cpu_vmm_reserve(uint64_t bytes, uint64_t align, uint64_t hint, uint64_t *base)
{
    if (bytes == 0 || !aligned(bytes) || (align & (align - 1)) || bytes >> 47 || align >> 40)
        return CUDA_ERROR_INVALID_VALUE;
    if (align < CPU_VMM_GRAIN)
        align = CPU_VMM_GRAIN;
    if (hint & (align - 1))
        hint = 0;
    reservation_t *reservation = calloc(1, sizeof(*reservation));
    uint64_t at = reservation ? find_space(bytes, align, hint) : 0;
    if (!at || cpu_memory_open_range(at, bytes)) {
        if (at)
            munmap((void *)at, bytes);
        free(reservation);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    madvise((void *)at, bytes, MADV_DONTDUMP);
    reservation->node.base = at;
    reservation->node.size = bytes;
    pthread_mutex_lock(&vmm.lock);
    cpu_tree_insert(&vmm.reservations, &reservation->node);
    pthread_mutex_unlock(&vmm.lock);
    *base = at;
    return CUDA_SUCCESS;
}

CUresult cpu_vmm_unreserve(uint64_t base, uint64_t bytes)
{
    pthread_mutex_lock(&vmm.lock);
    cpu_node_t *node = cpu_tree_find(&vmm.reservations, base);
    bool good = node && node->base == base && node->size == bytes &&
                !cpu_tree_overlaps(&vmm.mappings, base, bytes);
    if (good)
        cpu_tree_remove(&vmm.reservations, node);
    pthread_mutex_unlock(&vmm.lock);
    if (!good)
        return CUDA_ERROR_INVALID_VALUE;
    cpu_memory_close_range(base);
    munmap((void *)base, bytes);
    free(node);
    return CUDA_SUCCESS;
}

static void destroy(cpu_object_t *object)
{
    cpu_physical_t *physical = (cpu_physical_t *)object;
    if (physical->at)
        munmap((void *)physical->at, physical->bytes);
    if (physical->fd >= 0)
        close(physical->fd);
    if (!physical->imported)
        cpu_memory_uncharge(physical->device, physical->bytes);
    free(physical);
}

/* ---- files ---- */

enum { MAGIC = 0x314d5647, TAIL_BYTES = 4096 }; /* "GVM1" */

/* Behind the memory. */
typedef struct {
    uint32_t magic;
    uint32_t reserved;
    uint64_t bytes;
    CUuuid device;
} tail_t;

static int make_file(int device, uint64_t bytes)
{
    tail_t tail = {MAGIC, 0, bytes, cpu_driver()->devices[device].uuid};
    int fd = cpu_shared_file("gable-memory", bytes + TAIL_BYTES);
    if (fd >= 0 && pwrite(fd, &tail, sizeof(tail), (off_t)bytes) != (ssize_t)sizeof(tail)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int device_called(const CUuuid *uuid)
{
    const cpu_driver_t *driver = cpu_driver();
    for (int i = 0; i < driver->device_count; i++)
        if (memcmp(&driver->devices[i].uuid, uuid, sizeof(*uuid)) == 0)
            return i;
    return -1;
}

static CUresult read_tail(int fd, tail_t *tail)
{
    off_t size = lseek(fd, 0, SEEK_END);
    if (size <= TAIL_BYTES || !cpu_shared_sound(fd, (uint64_t)size) ||
        pread(fd, tail, sizeof(*tail), size - TAIL_BYTES) != (ssize_t)sizeof(*tail) ||
        tail->magic != MAGIC || tail->bytes != (uint64_t)(size - TAIL_BYTES) ||
        !aligned(tail->bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static int protection_of(CUmemAccess_flags flags)
{
    return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
           : flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                       : PROT_NONE;
}

static bool is_exportable(const cpu_physical_t *physical)
{
    return (physical->properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) !=
           0;
}

/* Under the lock: memory that is made to be exported lies in a file from now on. */
static bool move_to_file(cpu_physical_t *physical)
{
    if (physical->fd >= 0)
        return true;
    const mapping_t *mapping =
        physical->mapped ? (mapping_t *)cpu_tree_find(&vmm.mappings, physical->mapped) : NULL;
    int protection = mapping ? protection_of(mapping->access) : PROT_NONE;
    int fd = make_file(physical->device, physical->bytes);
    if (fd < 0)
        return false;
    cpu_guard_install(true); /* threads that write to it meanwhile have to wait */
    if (physical->at && !cpu_shared_replace(fd, physical->at, physical->bytes, protection)) {
        close(fd);
        return false;
    }
    if (physical->at && !mapping) /* it was parked there */
        munmap((void *)physical->at, physical->bytes);
    physical->at = physical->mapped = 0;
    physical->fd = fd;
    return true;
}

CUresult cpu_vmm_export(cpu_physical_t *physical, int *fd)
{
    if (!is_exportable(physical))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&vmm.lock);
    int copy = move_to_file(physical) ? fcntl(physical->fd, F_DUPFD_CLOEXEC, 0) : -1;
    pthread_mutex_unlock(&vmm.lock);
    if (copy < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *fd = copy;
    return CUDA_SUCCESS;
}

/* Takes over the file descriptor, also on an error. */
static CUresult enter_physical(const CUmemAllocationProp *properties, int device, uint64_t bytes,
                               int fd, bool imported, CUmemGenericAllocationHandle *handle)
{
    cpu_physical_t *physical = calloc(1, sizeof(*physical));
    if (!physical) {
        if (fd >= 0)
            close(fd);
        if (!imported)
            cpu_memory_uncharge(device, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    cpu_object_init(&physical->object, CPU_KIND_PHYSICAL, destroy);
    physical->device = device;
    physical->bytes = bytes;
    physical->fd = fd;
    physical->imported = imported;
    physical->properties = *properties;
    CUresult result = cpu_vmm_retain(physical, handle);
    cpu_object_put(&physical->object); /* the table holds it */
    return result;
}

CUresult cpu_vmm_import(int fd, CUmemGenericAllocationHandle *handle)
{
    tail_t tail;
    CUresult result = read_tail(fd, &tail);
    if (result)
        return result;
    int device = device_called(&tail.device);
    if (device < 0)
        return CUDA_ERROR_INVALID_DEVICE;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    return enter_physical(&properties, device, tail.bytes, copy, true, handle);
}

CUresult cpu_vmm_create(const CUmemAllocationProp *properties, int device, uint64_t bytes,
                        CUmemGenericAllocationHandle *handle)
{
    if (bytes == 0 || !aligned(bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (cpu_memory_charge(device, bytes) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return enter_physical(properties, device, bytes, -1, false, handle);
}

CUresult cpu_vmm_retain(cpu_physical_t *physical, CUmemGenericAllocationHandle *handle)
{
    pthread_mutex_lock(&vmm.lock);
    bool good = physical->holds || cpu_handle_add(&physical->object);
    if (good) {
        physical->holds++;
        *handle = physical->object.handle;
    }
    pthread_mutex_unlock(&vmm.lock);
    return good ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cpu_vmm_release(CUmemGenericAllocationHandle handle)
{
    cpu_physical_t *physical;
    cpu_object_t *entered = NULL;
    CUresult result = cpu_vmm_get(handle, &physical);
    if (result)
        return result;
    pthread_mutex_lock(&vmm.lock);
    if (physical->holds && --physical->holds == 0)
        entered = cpu_handle_remove(CPU_KIND_PHYSICAL, handle); /* a mapping keeps the memory */
    pthread_mutex_unlock(&vmm.lock);
    cpu_object_put(entered);
    cpu_object_put(&physical->object);
    return CUDA_SUCCESS;
}

CUresult cpu_vmm_get(CUmemGenericAllocationHandle handle, cpu_physical_t **physical)
{
    cpu_physical_t *found = (cpu_physical_t *)cpu_handle_get(CPU_KIND_PHYSICAL, handle);
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    *physical = found;
    return CUDA_SUCCESS;
}

CUresult cpu_vmm_at(uint64_t address, cpu_physical_t **physical)
{
    pthread_mutex_lock(&vmm.lock);
    mapping_t *mapping = (mapping_t *)cpu_tree_find(&vmm.mappings, address);
    if (mapping) {
        cpu_object_ref(&mapping->physical->object);
        *physical = mapping->physical;
    }
    pthread_mutex_unlock(&vmm.lock);
    return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Brings the pages to `base`. Under the lock. */
static bool move_pages(cpu_physical_t *physical, uint64_t base)
{
    void *to = (void *)base;
    if (physical->fd >= 0)
        return mmap(to, physical->bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->fd, 0) !=
               MAP_FAILED;
    if (!physical->at)
        to = mmap(to, physical->bytes, PROT_NONE, reserve_flags | MAP_FIXED, -1, 0);
    else
        to = mremap((void *)physical->at, physical->bytes, physical->bytes,
                    MREMAP_MAYMOVE | MREMAP_FIXED, to);
    if (to == MAP_FAILED)
        return false;
    madvise(to, physical->bytes, MADV_HUGEPAGE);
    physical->at = base;
    return true;
}

/* Under the lock: makes the mapping; the pages move last. */
static CUresult map(uint64_t base, cpu_physical_t *physical, mapping_t *mapping)
{
    const cpu_node_t *space = cpu_tree_find(&vmm.reservations, base);
    uint64_t bytes = physical->bytes;
    if (!space || base - space->base > space->size - bytes || bytes > space->size ||
        cpu_tree_overlaps(&vmm.mappings, base, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (physical->mapped && !(is_exportable(physical) && move_to_file(physical)))
        return is_exportable(physical) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = cpu_memory_add(CPU_MEMORY_VIRTUAL, physical->device, NULL, base, bytes, 0);
    if (result)
        return result;
    if (!move_pages(physical, base)) {
        (void)cpu_memory_remove(CPU_MEMORY_VIRTUAL, base);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (physical->fd < 0)
        physical->mapped = base;
    cpu_object_ref(&physical->object);
    mapping->physical = physical;
    mapping->node.base = base;
    mapping->node.size = bytes;
    cpu_tree_insert(&vmm.mappings, &mapping->node);
    return CUDA_SUCCESS;
}

CUresult cpu_vmm_map(uint64_t base, uint64_t bytes, cpu_physical_t *physical)
{
    if (!aligned(base) || bytes != physical->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    mapping_t *mapping = calloc(1, sizeof(*mapping));
    if (!mapping)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&vmm.lock);
    CUresult result = map(base, physical, mapping);
    pthread_mutex_unlock(&vmm.lock);
    if (result)
        free(mapping);
    return result;
}

/* Under the lock: whether whole mappings fill the range without a gap. */
static bool filled(uint64_t base, uint64_t bytes)
{
    uint64_t at = base, end = base + bytes;
    if (bytes == 0 || end < base)
        return false;
    while (at < end) {
        const cpu_node_t *node = cpu_tree_find(&vmm.mappings, at);
        if (!node || node->base != at)
            return false;
        at += node->size;
    }
    return at == end;
}

/* Parks the pages of physical memory that has a handle still, and leaves a hole that is reserved. */
static void park(cpu_physical_t *physical, uint64_t base)
{
    uint64_t bytes = physical->bytes;
    if (physical->fd >= 0) {
        mmap((void *)base, bytes, PROT_NONE, reserve_flags | MAP_FIXED, -1, 0);
        return;
    }
    mprotect((void *)base, bytes, PROT_NONE);
    physical->mapped = 0;
    void *away = physical->holds
                     ? mremap((void *)base, bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL)
                     : MAP_FAILED;
    physical->at = away == MAP_FAILED ? 0 : (uint64_t)away;
    if (away == MAP_FAILED) /* nobody can map it again: the pages go */
        mmap((void *)base, bytes, PROT_NONE, reserve_flags | MAP_FIXED, -1, 0);
}

CUresult cpu_vmm_unmap(uint64_t base, uint64_t bytes)
{
    pthread_mutex_lock(&vmm.lock);
    bool good = filled(base, bytes);
    for (uint64_t at = base; good && at < base + bytes;) {
        mapping_t *mapping = (mapping_t *)cpu_tree_find(&vmm.mappings, at);
        cpu_tree_remove(&vmm.mappings, &mapping->node);
        (void)cpu_memory_remove(CPU_MEMORY_VIRTUAL, at);
        park(mapping->physical, at);
        at += mapping->node.size;
        cpu_object_put(&mapping->physical->object);
        free(mapping);
    }
    pthread_mutex_unlock(&vmm.lock);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cpu_vmm_access(uint64_t base, uint64_t bytes, CUmemAccess_flags flags)
{
    int protection = protection_of(flags);
    pthread_mutex_lock(&vmm.lock);
    bool good = filled(base, bytes);
    CUresult result = good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (good && mprotect((void *)base, bytes, protection))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    for (uint64_t at = base; !result && at < base + bytes;) {
        mapping_t *mapping = (mapping_t *)cpu_tree_find(&vmm.mappings, at);
        mapping->access = flags;
        at += mapping->node.size;
    }
    pthread_mutex_unlock(&vmm.lock);
    return result;
}

CUresult cpu_vmm_get_access(uint64_t address, CUmemAccess_flags *flags)
{
    pthread_mutex_lock(&vmm.lock);
    const mapping_t *mapping = (const mapping_t *)cpu_tree_find(&vmm.mappings, address);
    if (mapping)
        *flags = mapping->access;
    pthread_mutex_unlock(&vmm.lock);
    return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Registration happens in constructors, before main and whenever a library is opened, so it only notes
 * things down: no driver call is made before the program's first own call. */
#include "gpu-proxy/runtime/rt_module.h"

#include <pthread.h>
#include <stdlib.h>

#include "gpu-proxy/runtime/rt_state.h"
#include "gpu-proxy/runtime/rt_table.h"

typedef struct rt_binary rt_binary_t;

typedef struct rt_item {
    struct rt_item *next;
    rt_binary_t *binary;
    const char *name; /* in the program's read-only data */
    const void *host; /* shadow: a stub function, a variable, or a managed variable's pointer */
    _Atomic(CUkernel) kernel;
    size_t size;
    int managed;
} rt_item_t;

struct rt_binary {
    void *data; /* what the program got as its handle: the address of this field */
    rt_item_t *items;
    CUlibrary library;
    int loaded;
    int error; /* of loading */
};

static struct {
    pthread_rwlock_t lock;   /* tables and items */
    pthread_mutex_t loading; /* libraries */
    rt_table_t kernels, variables;
    rt_table_t handles; /* kernel handles that the program may hold: key and value alike */
    rt_table_t hosts;   /* kernel handle to host function */
} registry = {.lock = PTHREAD_RWLOCK_INITIALIZER, .loading = PTHREAD_MUTEX_INITIALIZER};

/* ---- registration ---- */

void **__cudaRegisterFatBinary(void *fatCubin)
{
    rt_binary_t *binary = calloc(1, sizeof(*binary));
    if (!binary)
        return NULL;
    binary->data = fatCubin;
    return &binary->data;
}

void __cudaRegisterFatBinaryEnd(void **fatCubinHandle)
{
    (void)fatCubinHandle;
}

static void add(void **handle, rt_table_t *table, rt_item_t item)
{
    rt_binary_t *binary = (rt_binary_t *)handle;
    rt_item_t *own = binary ? malloc(sizeof(*own)) : NULL;
    if (!own)
        return; /* the first use says that it is not registered */
    *own = item;
    own->binary = binary;
    pthread_rwlock_wrlock(&registry.lock);
    own->next = binary->items;
    binary->items = own;
    rt_table_put(table, item.host, own);
    pthread_rwlock_unlock(&registry.lock);
}

void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
                            const char *deviceName, int thread_limit, void *tid, void *bid,
                            dim3 *bDim, dim3 *gDim, int *wSize)
{
    (void)deviceFun, (void)thread_limit, (void)tid, (void)bid, (void)bDim, (void)gDim, (void)wSize;
    add(fatCubinHandle, &registry.kernels, (rt_item_t){.name = deviceName, .host = hostFun});
}

void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress,
                       const char *deviceName, int ext, size_t size, int constant, int global)
{
    (void)deviceAddress, (void)ext, (void)constant, (void)global;
    add(fatCubinHandle, &registry.variables,
        (rt_item_t){.name = deviceName, .host = hostVar, .size = size});
}

void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress, char *deviceAddress,
                              const char *deviceName, int ext, size_t size, int constant,
                              int global)
{
    (void)deviceAddress, (void)ext, (void)constant, (void)global;
    add(fatCubinHandle, &registry.variables,
        (rt_item_t){.name = deviceName, .host = hostVarPtrAddress, .size = size, .managed = 1});
}

void __cudaUnregisterFatBinary(void **fatCubinHandle)
{
    rt_binary_t *binary = (rt_binary_t *)fatCubinHandle;
    if (!binary)
        return;
    pthread_rwlock_wrlock(&registry.lock);
    while (binary->items) {
        rt_item_t *item = binary->items;
        binary->items = item->next;
        rt_table_remove(&registry.kernels, item->host, item);
        rt_table_remove(&registry.variables, item->host, item);
        free(item);
    }
    pthread_rwlock_unlock(&registry.lock);
    if (binary->library)
        rt_cu->cuLibraryUnload(binary->library);
    free(binary);
}

/* ---- use ---- */

/* Managed variables have one place for all devices: where they are first used. The driver is to know of
 * them before it loads kernels elsewhere. */
static void place_managed(const rt_binary_t *binary)
{
    for (rt_item_t *item = binary->items; item; item = item->next) {
        CUdeviceptr address;
        size_t bytes;
        if (item->managed &&
            !rt_cu->cuLibraryGetManaged(&address, &bytes, binary->library, item->name))
            *(void **)(uintptr_t)item->host = (void *)(uintptr_t)address;
    }
}

static int load(rt_binary_t *binary)
{
    pthread_mutex_lock(&registry.loading);
    if (!binary->loaded) {
        binary->error = (int)rt_cu->cuLibraryLoadData(&binary->library, binary->data, NULL, NULL, 0,
                                                      NULL, NULL, 0);
        binary->loaded = 1;
        if (!binary->error)
            place_managed(binary);
    }
    int error = binary->error;
    pthread_mutex_unlock(&registry.loading);
    return error;
}

static void *find(const rt_table_t *table, const void *key)
{
    if (!key)
        return NULL;
    pthread_rwlock_rdlock(&registry.lock);
    void *item = rt_table_get(table, key);
    pthread_rwlock_unlock(&registry.lock);
    return item;
}

void rt_kernel_note(CUkernel kernel)
{
    pthread_rwlock_wrlock(&registry.lock);
    rt_table_put(&registry.handles, kernel, kernel);
    pthread_rwlock_unlock(&registry.lock);
}

static int kernel_of_item(rt_item_t *item, CUkernel *kernel)
{
    CUkernel known = item->kernel;
    if (!known) {
        int error = load(item->binary);
        if (!error)
            error = (int)rt_cu->cuLibraryGetKernel(&known, item->binary->library, item->name);
        if (error)
            return error == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidDeviceFunction : error;
        rt_kernel_note(known);
        pthread_rwlock_wrlock(&registry.lock);
        rt_table_put(&registry.hosts, known, (void *)(uintptr_t)item->host);
        pthread_rwlock_unlock(&registry.lock);
        item->kernel = known;
    }
    *kernel = known;
    return 0;
}

int rt_kernel_of(const void *function, CUkernel *kernel)
{
    rt_item_t *item = find(&registry.kernels, function);
    if (item)
        return kernel_of_item(item, kernel);
    CUkernel handle = find(&registry.handles, function);
    if (!handle)
        return cudaErrorInvalidDeviceFunction;
    *kernel = handle;
    return 0;
}

void *rt_kernel_name(CUkernel kernel)
{
    void *host = find(&registry.hosts, kernel);
    return host ? host : (void *)kernel;
}

int rt_function_of(const void *function, CUfunction *out)
{
    CUkernel kernel;
    int error = rt_kernel_of(function, &kernel);
    return error ? error : (int)rt_cu->cuKernelGetFunction(out, kernel);
}

/* Where a managed variable lies, for the host's pointer to it. */
static int managed_of(rt_item_t *item, CUdeviceptr *address, size_t *bytes)
{
    int error = load(item->binary);
    if (!error)
        error = (int)rt_cu->cuLibraryGetManaged(address, bytes, item->binary->library, item->name);
    return error;
}

int rt_symbol_of(const void *symbol, CUdeviceptr *address, size_t *bytes)
{
    rt_item_t *item = find(&registry.variables, symbol);
    if (!item)
        return cudaErrorInvalidSymbol;
    if (item->managed)
        return managed_of(item, address, bytes);
    int error = load(item->binary);
    if (!error)
        error = (int)rt_cu->cuLibraryGetGlobal(address, bytes, item->binary->library, item->name);
    return error == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : error;
}

/* Called before the host first touches a managed variable: its pointer is set here. */
char __cudaInitModule(void **fatCubinHandle)
{
    rt_binary_t *binary = (rt_binary_t *)fatCubinHandle;
    if (!binary || rt_result(rt_enter()))
        return 0;
    for (rt_item_t *item = binary->items; item; item = item->next) {
        CUdeviceptr address;
        size_t bytes;
        if (item->managed && !rt_result(managed_of(item, &address, &bytes)))
            *(void **)(uintptr_t)item->host = (void *)(uintptr_t)address;
    }
    return 1;
}

cudaError_t cudaGetSymbolAddress(void **devPtr, const void *symbol)
{
    CUdeviceptr address;
    size_t bytes;
    int error = rt_enter();
    if (!error && !devPtr)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_symbol_of(symbol, &address, &bytes);
    if (!error)
        *devPtr = (void *)(uintptr_t)address;
    return rt_result(error);
}

cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
    CUdeviceptr address;
    size_t bytes;
    int error = rt_enter();
    if (!error && !size)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_symbol_of(symbol, &address, &bytes);
    if (!error)
        *size = bytes;
    return rt_result(error);
}

cudaError_t cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr)
{
    CUkernel kernel;
    int error = rt_init();
    if (!error && !kernelPtr)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_kernel_of(entryFuncAddr, &kernel);
    if (!error)
        *kernelPtr = kernel;
    return rt_result(error);
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr)
{
    return cudaGetKernel(kernelPtr, entryFuncAddr);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr)
{
    CUfunction function;
    int error = rt_enter();
    if (!error && !functionPtr)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_function_of(symbolPtr, &function);
    if (!error)
        *functionPtr = function;
    return rt_result(error);
}

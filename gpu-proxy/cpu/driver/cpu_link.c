#include "gpu-proxy/cpu/driver/cpu_link.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "gpu-proxy/cpu/driver/cpu_image.h"
#include "gpu-proxy/cpu/ptx/ptx_image.h"
#include "gpu-proxy/cpu/ptx/ptx_link.h"
#include "gpu-proxy/cpu/ptx/ptx_object.h"

enum { LOG_BYTES = 4096 };

struct cpu_linker {
    cpu_object_t object;
    pthread_mutex_t lock;
    ptx_link_t *link;
    char *image; /* of the last cpu_linker_finish() */
    cpu_options_t state;
    unsigned count;
    CUjit_option *options;
    void **values; /* the program's */
};

static void destroy(cpu_object_t *object)
{
    cpu_linker_t *linker = (cpu_linker_t *)object;
    ptx_link_free(linker->link);
    pthread_mutex_destroy(&linker->lock);
    free(linker->image);
    free(linker->options);
    free(linker);
}

CUresult cpu_linker_open(unsigned count, const CUjit_option *options, void **values,
                         CUlinkState *handle)
{
    cpu_options_t state;
    CUresult result = cpu_options_read(count, options, values, CPU_OPTIONS_LINK, &state);
    if (result)
        return result;
    cpu_linker_t *made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_object_init(&made->object, CPU_KIND_LINK, destroy);
    pthread_mutex_init(&made->lock, NULL);
    made->state = state;
    made->count = count;
    made->values = values;
    made->link = ptx_link_new();
    made->options = calloc(count + 1, sizeof(*made->options));
    if (made->options && count)
        memcpy(made->options, options, count * sizeof(*options));
    result = made->link && made->options && cpu_handle_add(&made->object)
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        *handle = (CUlinkState)made->object.handle;
    cpu_object_put(&made->object); /* the table holds it */
    return result;
}

CUresult cpu_linker_get(CUlinkState handle, cpu_linker_t **linker)
{
    cpu_object_t *found = cpu_handle_get(CPU_KIND_LINK, (uint64_t)(uintptr_t)handle);
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    *linker = (cpu_linker_t *)found;
    return CUDA_SUCCESS;
}

void cpu_linker_put(cpu_linker_t *linker)
{
    cpu_object_put(&linker->object);
}

CUresult cpu_linker_close(CUlinkState handle)
{
    cpu_object_t *found = cpu_handle_remove(CPU_KIND_LINK, (uint64_t)(uintptr_t)handle);
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    cpu_object_put(found);
    return CUDA_SUCCESS;
}

/* ---- inputs ---- */

typedef struct {
    ptx_link_t *link;
    const char *name;
    bool optional;
    ptx_log_t *log;
} adding_t;

/* One image: its best PTX. */
static gb_status_t add_image(void *arg, const char *member, const void *data, size_t size)
{
    const adding_t *a = arg;
    char name[512];
    char *text;
    size_t length;
    gb_status_t status = ptx_image_text(data, size, CPU_IMAGE_SM, 0, &text, &length);
    if (status != GB_OK)
        return status;
    if (member[0])
        snprintf(name, sizeof(name), "%s(%s)", a->name, member);
    else
        snprintf(name, sizeof(name), "%s", a->name);
    status = ptx_link_add(a->link, name, text, length, a->optional, a->log);
    free(text);
    return status;
}

static gb_status_t add(adding_t *a, CUjitInputType type, const void *data, size_t size)
{
    switch (type) {
    case CU_JIT_INPUT_OBJECT:
        return ptx_object_visit(data, size, add_image, a);
    case CU_JIT_INPUT_LIBRARY:
        a->optional = true;
        return ptx_object_visit(data, size, add_image, a);
    default:
        return add_image(a, "", data, size);
    }
}

static CUresult to_result(gb_status_t status)
{
    switch (status) {
    case GB_OK:
        return CUDA_SUCCESS;
    case GB_ERR_NO_MEMORY:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case GB_ERR_NOT_FOUND:
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    default:
        return CUDA_ERROR_INVALID_IMAGE;
    }
}

/* What went wrong, into the program's log; a log line of the parser means that PTX is wrong. */
static CUresult report(cpu_image_log_t *log, gb_status_t status, const char *lines)
{
    CUresult result = lines[0] ? CUDA_ERROR_INVALID_PTX : to_result(status);
    if (status == GB_ERR_NO_MEMORY)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const char *text = lines[0] ? lines : gb_why();
    cpu_log_error(log, text);
    if (!lines[0])
        cpu_log_error(log, "\n");
    gb_log(GB_LOG_WARN, "not linked: %.*s", (int)strcspn(text, "\n"), text);
    return result;
}

CUresult cpu_linker_add(cpu_linker_t *linker, CUjitInputType type, const void *data, size_t size,
                        const char *name)
{
    char lines[LOG_BYTES] = "";
    ptx_log_t log = {.text = lines, .size = sizeof(lines)};
    uint64_t start = gb_now_ns();
    pthread_mutex_lock(&linker->lock);
    adding_t a = {.link = linker->link, .name = name && *name ? name : "<input>", .log = &log};
    gb_status_t status = add(&a, type, data, size);
    CUresult result = status == GB_OK ? CUDA_SUCCESS : report(&linker->state.log, status, lines);
    linker->state.spent_ns += gb_now_ns() - start;
    cpu_options_write(linker->count, linker->options, linker->values, &linker->state);
    pthread_mutex_unlock(&linker->lock);
    return result;
}

/* ---- linking ---- */

/* What the device itself gives to kernels. */
static bool is_known(const char *function)
{
    return ptx_runtime_by_name(function) != PTX_RT_NONE;
}

static CUresult link_text(ptx_link_t *link, cpu_image_log_t *log, char **text, size_t *size)
{
    char lines[LOG_BYTES] = "";
    ptx_log_t ptx_log = {.text = lines, .size = sizeof(lines)};
    gb_status_t status = ptx_link_finish(link, is_known, &ptx_log, text, size);
    return status == GB_OK ? CUDA_SUCCESS : report(log, status, lines);
}

/* Parsed once more as a whole: errors belong to the linker, not to whoever loads the image. */
static CUresult check(const char *text, cpu_image_log_t *log, cpu_image_t **image)
{
    return cpu_image_open(text, log, image);
}

CUresult cpu_linker_finish(cpu_linker_t *linker, void **image, size_t *size)
{
    cpu_image_t *checked;
    char *text = NULL;
    size_t length = 0;
    char note[96];
    uint64_t start = gb_now_ns();
    pthread_mutex_lock(&linker->lock);
    CUresult result = link_text(linker->link, &linker->state.log, &text, &length);
    if (!result)
        result = check(text, &linker->state.log, &checked);
    if (!result) {
        cpu_image_put(checked);
        free(linker->image);
        linker->image = text;
        *image = text;
        if (size)
            *size = length + 1;
        snprintf(note, sizeof(note), "linked %zu modules\n", ptx_link_count(linker->link));
        if (linker->state.verbose)
            cpu_log_info(&linker->state.log, note);
    } else {
        free(text);
    }
    linker->state.spent_ns += gb_now_ns() - start;
    cpu_options_write(linker->count, linker->options, linker->values, &linker->state);
    pthread_mutex_unlock(&linker->lock);
    return result;
}

CUresult cpu_link_parts(const void *const *parts, cpu_image_log_t *log, char **text, size_t *size)
{
    char lines[LOG_BYTES] = "";
    ptx_log_t ptx_log = {.text = lines, .size = sizeof(lines)};
    ptx_link_t *link = ptx_link_new();
    gb_status_t status = link ? GB_OK : gb_fail(GB_ERR_NO_MEMORY, "link: out of memory");
    for (size_t i = 0; status == GB_OK && parts[i]; i++) {
        char name[32];
        ptx_image_t found;
        snprintf(name, sizeof(name), "part %zu", i + 1);
        adding_t a = {.link = link, .name = name, .log = &ptx_log};
        status = ptx_image_locate(parts[i], &found);
        if (status == GB_OK)
            status = add_image(&a, "", found.data, found.size);
    }
    CUresult result =
        status == GB_OK ? link_text(link, log, text, size) : report(log, status, lines);
    ptx_link_free(link);
    return result;
}

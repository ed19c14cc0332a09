/* Any bytes as an object file or library: what is shown lies within the file. */
#include <stdlib.h>

#include "gpu-proxy/cpu/ptx/ptx_image.h"
#include "gpu-proxy/cpu/ptx/ptx_object.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
    const uint8_t *data;
    size_t size;
} file_t;

static gb_status_t see(void *arg, const char *member, const void *data, size_t size)
{
    const file_t *file = arg;
    const uint8_t *at = data;
    char *text = NULL;
    size_t length = 0;
    if (!member || at < file->data || size > file->size ||
        (size_t)(at - file->data) > file->size - size)
        abort();
    (void)ptx_image_text(data, size, 80, 1, &text, &length);
    free(text);
    return GB_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    file_t file = {data, size};
    (void)ptx_object_visit(data, size, see, &file);
    return 0;
}

/* Any bytes as an image: a text that ends in a NUL, or an error. */
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = NULL;
    size_t length = 0;
    gb_status_t status = ptx_image_text(data, size, 80, 0, &text, &length);
    if (status == GB_OK ? strlen(text) != length : text != NULL)
        abort();
    free(text);
    return 0;
}

/* Two texts (a NUL between them) linked: what comes out parses, or the log says why nothing does. */
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_link.h"
#include "tests/ptx/ptx_validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void link_both(const char *first, size_t first_size, const char *second, size_t second_size)
{
    char text[512] = "", *whole = NULL;
    ptx_log_t log = {.text = text, .size = sizeof text};
    size_t length = 0;
    ptx_module_t *m = NULL;
    ptx_link_t *link = ptx_link_new();
    if (link && ptx_link_add(link, "a", first, first_size, false, &log) == GB_OK &&
        ptx_link_add(link, "b", second, second_size, true, &log) == GB_OK) {
        gb_status_t status = ptx_link_finish(link, NULL, &log, &whole, &length);
        if (status == GB_OK) {
            /* A name that means two things within one text is found only now: not the linker's fault. */
            if (strlen(whole) != length)
                abort();
            if (ptx_parse(whole, length, &log, &m) == GB_OK && ptx_validate(m) != NULL)
                abort();
        } else if (whole || !text[0]) {
            abort();
        }
    }
    ptx_module_free(m);
    ptx_link_free(link);
    free(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    copy[size] = 0;
    size_t first = strlen(copy);
    const char *second = first < size ? copy + first + 1 : copy;
    link_both(copy, first, second, strlen(second));
    free(copy);
    return 0;
}

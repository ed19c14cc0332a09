/* Parses files of PTX and images that hold PTX; exit code 1 if one of them fails. */
#include <stdio.h>
#include <stdlib.h>

#include "gpu-proxy/cpu/ptx/ptx_image.h"
#include "gpu-proxy/cpu/ptx/ptx_parse.h"
#include "tests/ptx/ptx_validate.h"

static char *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *data = calloc(1, 64 << 20);
    if (!f || !data) {
        perror(path);
        exit(1);
    }
    *size = fread(data, 1, (64 << 20) - 1, f);
    fclose(f);
    return data;
}

static int parse(const char *path)
{
    char log[4096] = "";
    char *text = NULL;
    size_t size = 0, length = 0;
    ptx_log_t sink = {.text = log, .size = sizeof log};
    ptx_module_t *m = NULL;
    char *data = read_file(path, &size);
    gb_status_t status = ptx_image_text(data, size, 120, 0, &text, &length);
    if (status == GB_OK)
        status = ptx_parse(text, length, &sink, &m);
    const char *why = status == GB_OK ? ptx_validate(m) : gb_why();
    printf("%s: %u functions, %u variables%s%s\n%s", path, m ? m->function_count : 0,
           m ? m->var_count : 0, why ? ": " : "", why ? why : "", log);
    ptx_module_free(m);
    free(text);
    free(data);
    return why != NULL;
}

int main(int argc, char **argv)
{
    int failed = argc < 2;
    for (int i = 1; i < argc; i++)
        failed |= parse(argv[i]);
    return failed;
}

/* Tells where a proxy's device memory lies in this process: in a window that the client asked for, or where
 * the driver wanted it. Ends with 1 if memory does not work. */
#include <stdio.h>

#include "common/cuda/gb_driver.h"

enum { COUNT = 8 };

int main(void)
{
    const gb_driver_t *driver;
    CUcontext context;
    CUdeviceptr p[COUNT];
    int wished = 1;
    if (gb_driver_choose("remote", &driver) || driver->table.cuInit(0) ||
        driver->table.cuDevicePrimaryCtxRetain(&context, 0) ||
        driver->table.cuCtxSetCurrent(context)) {
        fprintf(stderr, "gpu_windows: no context: see the lines above\n");
        return 1;
    }
    for (int i = 0; i < COUNT; i++) {
        if (driver->table.cuMemAlloc_v2(&p[i], 1ul << (10 + 2 * i))) {
            fprintf(stderr, "gpu_windows: an allocation failed\n");
            return 1;
        }
        /* the places of rc_memory.c */
        wished &= (p[i] >= 0x558000000000 && p[i] < 0x559000000000) ||
                  (p[i] >= 0x567000000000 && p[i] < 0x568000000000) ||
                  (p[i] >= 0x7e9000000000 && p[i] < 0x7ea000000000) ||
                  (p[i] >= 0x200000000000 && p[i] < 0x400000000000);
        printf("allocation %d at 0x%llx\n", i, (unsigned long long)p[i]);
    }
    printf("the window that the client wished for holds: %s\n", wished ? "yes" : "no");
    return 0;
}

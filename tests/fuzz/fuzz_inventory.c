/* The report of a probe session: whatever a driver prints into it, the daemon stays upright. */
#include <stdlib.h>

#include "gpu-proxy/daemon/px_inventory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static px_inventory_t v;
    if (px_inventory_parse((const char *)data, size, &v) != GB_OK)
        return 0;
    if (v.device_count < 0 || v.device_count > PX_DEVICES)
        abort();
    for (int i = 0; i < v.device_count; i++)
        if (v.devices[i].ordinal < 0 || v.devices[i].ordinal >= PX_DEVICES)
            abort();
    return 0;
}

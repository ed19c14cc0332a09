/* A proxy that is built without the control plane: it can only stand alone. */
#include "gpu-proxy/daemon/px_control.h"

gb_status_t px_control_start(const px_control_config_t *config, px_control_t **out)
{
    if (*config->server)
        return gb_fail(GB_ERR_UNSUPPORTED, "this gpu-proxy is built without the control plane: "
                                           "leave --server out");
    *out = NULL;
    return GB_OK;
}

const char *px_control_endpoint(const px_control_t *control)
{
    (void)control;
    return "-";
}

void px_control_stop(px_control_t *control)
{
    (void)control;
}

/* wk_bsp.h - mode bsp: synchronous data parallel through the parameter server.
 *
 * Every GPU is a member of the job, with a thread of its own here. A member trains its share of each
 * epoch; gradients go to the shards last layer first while the backward pass runs, and the next
 * iteration waits on the device for the new weights. Membership changes at epochs only. When the
 * server goes away the members wait for it and go on from its checkpoint. */
#ifndef WK_BSP_H
#define WK_BSP_H

#include "worker/train/wk_cluster.h"
#include "worker/train/wk_config.h"
#include "worker/train/wk_progress.h"
#include "worker/train/wk_trainer.h"

typedef struct {
    wk_result_t last; /* of the last epoch */
    uint32_t epochs;  /* trained by the job */
    uint32_t world;   /* members at the end */
} wk_bsp_result_t;

/* Joins the job with one trainer and trains it to its end. `progress` may be NULL. GB_ERR_LOST: the
 * GPU or the lease is gone; GB_ERR_UNREACHABLE: the server stayed away; GB_ERR_CANCELLED. */
gb_status_t wk_bsp_run(wk_trainer_t *trainer, const wk_cluster_t *cluster,
                       const wk_config_t *config, wk_progress_t *progress, wk_bsp_result_t *out);

#endif

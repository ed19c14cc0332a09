/* ps_ckpt_file.h - the files of checkpoints; between ps_ckpt.c and ps_ckpt_file.c. */
#ifndef PS_CKPT_FILE_H
#define PS_CKPT_FILE_H

#include "server/params/ps_ckpt.h"

/* Writes the captured chunks, sets ckpt->path and removes all but the newest files of the job. */
gb_status_t ps_ckpt_file_write(struct ps_params *ps, ps_ckpt_t *ckpt);

#endif

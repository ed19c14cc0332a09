/* rc_array.h - arrays and texture objects at the client: what their descriptors say is answered here. */
#ifndef RC_ARRAY_H
#define RC_ARRAY_H

#include "gpu-proxy/client/rc_call.h"

enum { RC_ARRAY_LAYERED = 1, RC_ARRAY_CUBE = 4 }; /* flags of descriptors */

/* Levels made so far; the rest of the handles are NULL. */
struct rc_mipmap {
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    unsigned levels;
    CUarray level[32];
    pthread_mutex_t lock;
};

/* Checks the handle and writes its number. */
CUresult rc_use_array(rc_call_t *call, CUarray array, uint64_t *wire);
CUresult rc_use_mipmap(rc_call_t *call, CUmipmappedArray mipmap, uint64_t *wire);

/* Forgets the texture and surface objects of a context that ends. */
void rc_textures_drop(const rc_object_t *context);

#endif

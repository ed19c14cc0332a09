/* cpu_texture.h - texture and surface objects: what CUDA's descriptors say, made into what kernels
 * look up (jit/texture.h). Thread-safe. */
#ifndef CPU_DRIVER_TEXTURE_H
#define CPU_DRIVER_TEXTURE_H

#include "gpu-proxy/cpu/driver/cpu_array.h"

typedef struct {
    cpu_object_t object;
    cpu_context_t *context; /* referenced */
    cpu_texture_kind_t kind;
    uint64_t number;        /* in kernels: the CUtexObject or CUsurfObject */
    cpu_object_t *resource; /* array or mipmapped array, referenced; or NULL */
    CUDA_RESOURCE_DESC resource_desc;
    CUDA_TEXTURE_DESC texture_desc;
    CUDA_RESOURCE_VIEW_DESC view_desc;
    bool has_view;
} cpu_texture_object_t;

/* What a kernel reads through these descriptors; `view` may be NULL. *resource gets a reference to
 * the array, or NULL. CUDA_ERROR_INVALID_VALUE, _INVALID_HANDLE or _NOT_SUPPORTED. */
CUresult cpu_texture_describe(const CUDA_RESOURCE_DESC *resource_desc,
                              const CUDA_TEXTURE_DESC *texture_desc,
                              const CUDA_RESOURCE_VIEW_DESC *view, cpu_texture_t *texture,
                              cpu_object_t **resource);
/* The same for a surface: an array that was made for it. */
CUresult cpu_surface_describe(const CUDA_RESOURCE_DESC *resource_desc, cpu_texture_t *surface,
                              cpu_object_t **resource);

/* A new object, entered; takes over the reference to the resource. `object` is filled in. */
CUresult cpu_texture_open(cpu_context_t *context, const cpu_texture_object_t *facts,
                          const cpu_texture_t *texture, uint64_t *number);

/* With a reference. CUDA_ERROR_INVALID_VALUE, or the state of its context. */
CUresult cpu_texture_get(cpu_texture_kind_t kind, uint64_t number, cpu_texture_object_t **object);

/* Takes the handles away; kernels that still use the object fault. */
CUresult cpu_texture_close(cpu_texture_object_t *object);

#endif

/* cpu_texref.h - texture and surface references: variables of a module that the host binds to arrays or
 * memory. What a kernel sees is made anew on every change, after the context's work has ended.
 * Thread-safe. */
#ifndef CPU_TEXREF_H
#define CPU_TEXREF_H

#include "gpu-proxy/cpu/driver/cpu_texture.h"

/* What a reference is bound to, as CUDA's descriptors say it. */
typedef struct {
    bool bound;
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC texture;
    CUarray_format format; /* of linear memory */
    int channels;
} cpu_binding_t;

typedef struct {
    cpu_object_t object;
    cpu_context_t *context; /* referenced */
    cpu_texture_kind_t kind;
    uint64_t number;      /* in kernels */
    pthread_mutex_t lock; /* of the following */
    cpu_binding_t binding;
    cpu_object_t *resource; /* referenced; or NULL */
} cpu_texref_t;

/* A reference that is bound to nothing, entered in the handle table; the caller has a reference too. */
CUresult cpu_texref_open(cpu_context_t *context, cpu_texture_kind_t kind, cpu_texref_t **ref);
void cpu_texref_close(cpu_texref_t *ref);

/* With a reference. CUDA_ERROR_INVALID_HANDLE, or the state of its context. */
CUresult cpu_texref_get(cpu_texture_kind_t kind, const void *handle, cpu_texref_t **ref);

/* The present binding. */
cpu_binding_t cpu_texref_binding(cpu_texref_t *ref);

/* Replaces it. If its parts do not fit together yet, kernels that use the reference fault; a resource
 * that does not exist is an error, and nothing changes. */
CUresult cpu_texref_bind(cpu_texref_t *ref, const cpu_binding_t *binding);

#endif

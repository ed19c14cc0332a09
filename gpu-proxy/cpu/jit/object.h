/* object.h - from an ELF object in memory to one position-independent image. */
#ifndef CPU_JIT_OBJECT_H
#define CPU_JIT_OBJECT_H

#include "common/core/gb_status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint8_t *bytes; /* free() */
    size_t size;
    uint32_t entry; /* offset of the function asked for */
} cpu_image_t;

/* Lays out the object's loaded sections one behind the other and resolves its references, all of
 * which must stay inside. GB_ERR_UNSUPPORTED names a symbol that is missing. */
gb_status_t cpu_object_link(const void *object, size_t size, const char *entry, cpu_image_t *image);

#endif

/* ptx_image.h - finds the PTX in what a program gives to cuModuleLoadData and its kin: PTX text, a
 * fat binary (entries raw, LZ4 or zstd), the wrapper that nvcc puts around one, or an ELF, which
 * has none. Thread-safe; calls share nothing. */
#ifndef PTX_IMAGE_H
#define PTX_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "common/core/gb_status.h"

typedef enum {
    PTX_IMAGE_TEXT, /* anything that is none of the others */
    PTX_IMAGE_FATBIN,
    PTX_IMAGE_ELF
} ptx_image_kind_t;

typedef struct {
    const void *data; /* within the program's memory, not copied */
    size_t size;      /* bytes, as the image itself tells; for text without the NUL */
    ptx_image_kind_t kind;
} ptx_image_t;

/* `image` is the pointer that a program passed, of which no size is known: follows a wrapper and
 * reads the size off the headers. Trusts them as CUDA does, so only for memory of one's own
 * process. GB_ERR_INVALID: NULL or a wrapper without an image; GB_ERR_FORMAT: not such an image. */
gb_status_t ptx_image_locate(const void *image, ptx_image_t *out);

/* The relocatable parts of a wrapper of a separately compiled program (-rdc=true), or NULL if `image`
 * is none, or has been linked with its PTX: pointers to fat binaries, up to a NULL. Where there are
 * parts they are to be linked (ptx_link.h), since what nvlink made of them is code for a GPU. */
const void *const *ptx_image_parts(const void *image);

/* What `size` bytes that start like this are. */
ptx_image_kind_t ptx_image_kind(const void *data, size_t size);

/* The PTX in `size` bytes (no wrapper: that one has pointers), which need not be trusted. A fat
 * binary can have several: the best (rank 0) is the one for the highest compute capability up to
 * `sm` (e.g. 80), then come lower ones, then higher ones from the lowest on, and last those for one
 * architecture or family only. *text is NUL-terminated, the caller frees it; *length is without the NUL.
 * GB_ERR_NOT_FOUND: there is no PTX of that rank, only code for a GPU; GB_ERR_FORMAT: damaged; GB_ERR_LIMIT:
 * larger than PTX_MAX_TEXT; GB_ERR_NO_MEMORY. */
gb_status_t ptx_image_text(const void *data, size_t size, uint32_t sm, unsigned rank, char **text,
                           size_t *length);

#endif

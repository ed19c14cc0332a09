#include "gpu-proxy/client/rc_image.h"

#include <elf.h>
#include <string.h>

#define WRAPPER_MAGIC 0x466243B1u
#define FATBIN_MAGIC 0xBA55ED50u
#define IMAGE_MAX ((size_t)1 << 30)

typedef struct {
    uint32_t magic;
    uint32_t version;
    const void *data;
    const void *more;
} wrapper_t;

typedef struct {
    uint32_t magic;
    uint16_t version;
    uint16_t header;
    uint64_t payload;
} fatbin_t;

static size_t larger(size_t a, uint64_t b)
{
    return b > a ? (b > IMAGE_MAX ? IMAGE_MAX + 1 : (size_t)b) : a;
}

/* The furthest byte that any of the tables names. */
static size_t elf_size(const uint8_t *image)
{
    const Elf64_Ehdr *elf = (const void *)image;
    size_t size = sizeof(*elf);
    if (elf->e_ident[EI_CLASS] != ELFCLASS64)
        return IMAGE_MAX + 1;
    size = larger(size, elf->e_shoff + (uint64_t)elf->e_shnum * elf->e_shentsize);
    size = larger(size, elf->e_phoff + (uint64_t)elf->e_phnum * elf->e_phentsize);
    if (size > IMAGE_MAX)
        return size;
    const uint8_t *at = image + elf->e_shoff;
    for (int i = 0; i < elf->e_shnum && elf->e_shentsize >= sizeof(Elf64_Shdr); i++) {
        Elf64_Shdr section;
        memcpy(&section, at + (size_t)i * elf->e_shentsize, sizeof(section));
        if (section.sh_type != SHT_NOBITS)
            size = larger(size, section.sh_offset + section.sh_size);
    }
    return size;
}

int rc_image_fits(const void *bytes, size_t size)
{
    uint32_t magic = 0;
    memcpy(&magic, bytes, size < sizeof(magic) ? size : sizeof(magic));
    if (magic == FATBIN_MAGIC) {
        const fatbin_t *fatbin = bytes;
        return size >= sizeof(*fatbin) && fatbin->payload <= size &&
               fatbin->header <= size - fatbin->payload;
    }
    if (memcmp(&magic, ELFMAG, SELFMAG) == 0) {
        const Elf64_Ehdr *elf = bytes;
        return size >= sizeof(*elf) && elf->e_shoff <= size &&
               (uint64_t)elf->e_shnum * elf->e_shentsize <= size - elf->e_shoff &&
               elf_size(bytes) <= size;
    }
    return magic != WRAPPER_MAGIC; /* its pointers are of another process */
}

const void *const *rc_image_parts(const void *image)
{
    uint32_t magic = 0;
    if (strnlen(image, sizeof(magic)) == sizeof(magic))
        memcpy(&magic, image, sizeof(magic));
    const wrapper_t *wrapper = image;
    return magic == WRAPPER_MAGIC && wrapper->version == 2 ? wrapper->more : NULL;
}

CUresult rc_image_size(const void *image, const void **bytes, size_t *size)
{
    uint32_t magic = 0;
    /* A text may be shorter than a magic number; no magic number has a zero byte. */
    if (strnlen(image, sizeof(magic)) == sizeof(magic))
        memcpy(&magic, image, sizeof(magic));
    if (magic == WRAPPER_MAGIC) {
        const wrapper_t *wrapper = image;
        if (wrapper->version != 1 || !wrapper->data)
            return CUDA_ERROR_INVALID_IMAGE;
        image = wrapper->data;
        memcpy(&magic, image, sizeof(magic));
    }
    size_t length;
    if (magic == FATBIN_MAGIC) {
        const fatbin_t *fatbin = image;
        length = larger(0, fatbin->payload + fatbin->header);
    } else if (memcmp(&magic, ELFMAG, SELFMAG) == 0) {
        length = elf_size(image);
    } else {
        length = strnlen(image, IMAGE_MAX) + 1; /* PTX text, with its zero */
    }
    if (length > IMAGE_MAX)
        return CUDA_ERROR_INVALID_IMAGE;
    *bytes = image;
    *size = length;
    return CUDA_SUCCESS;
}

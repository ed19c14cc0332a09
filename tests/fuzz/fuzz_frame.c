/* A stream of frames, and a payload read as a random sequence of fields: nothing is read outside the
 * buffer (ASan), and a decoder that says "done" has consumed exactly all of it. */
#include <stdlib.h>
#include <string.h>

#include "common/frame/gb_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_field(gb_reader_t *r, uint8_t kind)
{
    char text[16];
    uint32_t n;
    const uint8_t *p;
    switch (kind % 7) {
    case 0:
        (void)gb_read_u8(r);
        break;
    case 1:
        (void)gb_read_u16(r);
        break;
    case 2:
        (void)gb_read_u32(r);
        break;
    case 3:
        (void)gb_read_u64(r);
        break;
    case 4:
        (void)gb_read_f32(r);
        break;
    case 5:
        gb_read_text(r, text, sizeof text);
        if (strlen(text) >= sizeof text)
            abort();
        break;
    default:
        p = gb_read_blob(r, &n);
        for (uint32_t i = 0; p && i < n; i++)
            if (p[i] == 0 && kind == 255)
                return;
        break;
    }
}

static void read_payload(const uint8_t *payload, size_t size, uint32_t kinds)
{
    gb_reader_t r = gb_reader(payload, size);
    for (int i = 0; i < 8; i++, kinds = kinds * 1103515245u + 12345u)
        read_field(&r, (uint8_t)(kinds >> 16));
    if (gb_reader_done(&r, "fuzz") == GB_OK && r.at != payload + size)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    while (size >= GB_FRAME_HEADER) {
        gb_frame_t f;
        uint8_t again[GB_FRAME_HEADER];
        if (gb_frame_decode(data, 512, &f) != GB_OK || f.length > size - GB_FRAME_HEADER)
            return 0;
        gb_frame_encode(&f, again);
        if (memcmp(again, data, sizeof again))
            abort(); /* every accepted header has one form */
        read_payload(data + GB_FRAME_HEADER, f.length, f.sequence);
        data += GB_FRAME_HEADER + f.length;
        size -= GB_FRAME_HEADER + f.length;
    }
    return 0;
}

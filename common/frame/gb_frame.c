#include "common/frame/gb_frame.h"

/* The field accessors copy host integers: the platforms are little-endian. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "little-endian hosts only");
_Static_assert(sizeof(gb_frame_t) == GB_FRAME_HEADER, "the header has no padding");

enum { GB_FRAME_ALL_FLAGS = GB_FRAME_REPLY | GB_FRAME_ERROR | GB_FRAME_MORE | GB_FRAME_URGENT };

void gb_frame_encode(const gb_frame_t *frame, uint8_t out[GB_FRAME_HEADER])
{
    gb_frame_t copy = *frame;
    copy.version = GB_FRAME_VERSION;
    memcpy(out, &copy, sizeof copy);
}

gb_status_t gb_frame_decode(const uint8_t in[GB_FRAME_HEADER], uint32_t max_length, gb_frame_t *out)
{
    gb_frame_t f;
    memcpy(&f, in, sizeof f);
    if (f.version != GB_FRAME_VERSION)
        return gb_fail(GB_ERR_VERSION, "frame of version %u, this program speaks %u", f.version,
                       GB_FRAME_VERSION);
    if (f.flags & ~GB_FRAME_ALL_FLAGS)
        return gb_fail(GB_ERR_PROTOCOL, "frame with unknown flags 0x%02x", f.flags);
    if (max_length > GB_FRAME_MAX)
        max_length = GB_FRAME_MAX;
    if (f.length > max_length)
        return gb_fail(GB_ERR_PROTOCOL, "frame 0x%04x of %u bytes, at most %u are allowed",
                       f.operation, f.length, max_length);
    *out = f;
    return GB_OK;
}

void gb_read_text(gb_reader_t *r, char *out, size_t cap)
{
    uint32_t n;
    const void *p = gb_read_blob(r, &n);
    if (!p || n >= cap || memchr(p, 0, n)) {
        r->failed = 1;
        n = 0;
    }
    if (n)
        memcpy(out, p, n);
    if (cap)
        out[n] = 0;
}

gb_status_t gb_reader_done(const gb_reader_t *r, const char *what)
{
    if (r->failed)
        return gb_fail(GB_ERR_PROTOCOL, "%s is shorter than its fields", what);
    if (r->at != r->end)
        return gb_fail(GB_ERR_PROTOCOL, "%s has %zu bytes too many", what, gb_reader_left(r));
    return GB_OK;
}

gb_status_t gb_writer_done(const gb_writer_t *w, const char *what)
{
    if (w->failed)
        return gb_fail(GB_ERR_LIMIT, "%s does not fit into its buffer", what);
    return GB_OK;
}

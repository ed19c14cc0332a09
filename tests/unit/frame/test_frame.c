/* Headers and payload fields: round trips, and every way in which they can be too short or wrong. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/frame/gb_frame.h"

static void header_layout(void **state)
{
    (void)state;
    const gb_frame_t f = {.length = 0x01020304,
                          .operation = 0x0506,
                          .flags = GB_FRAME_REPLY | GB_FRAME_MORE,
                          .lane = 0x0a0b0c0d,
                          .sequence = 0x11121314};
    const uint8_t wire[GB_FRAME_HEADER] = {4,    3,    2,    1,    6,    5,    5,    1,
                                           0x0d, 0x0c, 0x0b, 0x0a, 0x14, 0x13, 0x12, 0x11};
    uint8_t out[GB_FRAME_HEADER];
    gb_frame_t back;
    gb_frame_encode(&f, out);
    assert_memory_equal(out, wire, sizeof wire);
    assert_int_equal(gb_frame_decode(out, UINT32_MAX, &back), GB_OK);
    assert_int_equal(back.length, f.length);
    assert_int_equal(back.operation, f.operation);
    assert_int_equal(back.lane, f.lane);
    assert_int_equal(back.sequence, f.sequence);
}

static void bad_headers(void **state)
{
    (void)state;
    gb_frame_t f = {.length = 100};
    gb_frame_t back = {.length = 7};
    uint8_t wire[GB_FRAME_HEADER];
    gb_frame_encode(&f, wire);
    assert_int_equal(gb_frame_decode(wire, 99, &back), GB_ERR_PROTOCOL);
    assert_int_equal(gb_frame_decode(wire, 100, &back), GB_OK);
    wire[7] = GB_FRAME_VERSION + 1;
    back.length = 7;
    assert_int_equal(gb_frame_decode(wire, 100, &back), GB_ERR_VERSION);
    wire[7] = GB_FRAME_VERSION;
    wire[6] = 0x80;
    assert_int_equal(gb_frame_decode(wire, 100, &back), GB_ERR_PROTOCOL);
    assert_int_equal(back.length, 7); /* written on success only */
    f.length = GB_FRAME_MAX + 1;
    gb_frame_encode(&f, wire);
    assert_int_equal(gb_frame_decode(wire, UINT32_MAX, &back), GB_ERR_PROTOCOL);
}

static void fields_round_trip(void **state)
{
    (void)state;
    uint8_t buffer[128];
    char text[8];
    uint32_t n;
    gb_writer_t w = gb_writer(buffer, sizeof buffer);
    gb_write_u8(&w, 1);
    gb_write_u16(&w, 0x0203);
    gb_write_u32(&w, 0x04050607);
    gb_write_u64(&w, 0x08090a0b0c0d0e0full);
    gb_write_f32(&w, 1.5f);
    gb_write_text(&w, "seven77");
    gb_write_blob(&w, "blob", 4);
    gb_write_blob(&w, NULL, 0);
    assert_int_equal(gb_writer_done(&w, "test"), GB_OK);

    gb_reader_t r = gb_reader(buffer, gb_writer_size(&w));
    assert_int_equal(gb_read_u8(&r), 1);
    assert_int_equal(gb_read_u16(&r), 0x0203);
    assert_int_equal(gb_read_u32(&r), 0x04050607);
    assert_true(gb_read_u64(&r) == 0x08090a0b0c0d0e0full);
    assert_true(gb_read_f32(&r) == 1.5f);
    gb_read_text(&r, text, sizeof text);
    assert_string_equal(text, "seven77");
    assert_memory_equal(gb_read_blob(&r, &n), "blob", 4);
    assert_int_equal(n, 4);
    assert_non_null(gb_read_blob(&r, &n));
    assert_int_equal(n, 0);
    assert_int_equal(gb_reader_done(&r, "test"), GB_OK);
}

static void short_payloads(void **state)
{
    (void)state;
    const uint8_t bytes[8] = {255, 255, 255, 255, 1, 2, 3, 4};
    uint32_t n = 99;
    gb_reader_t r = gb_reader(bytes, 3);
    assert_int_equal(gb_read_u32(&r), 0);
    assert_int_equal(gb_read_u8(&r), 0); /* sticky */
    assert_int_equal(gb_reader_done(&r, "test"), GB_ERR_PROTOCOL);

    r = gb_reader(bytes, 8); /* a blob of 4 GiB in 4 bytes */
    assert_null(gb_read_blob(&r, &n));
    assert_int_equal(n, 0);
    assert_int_equal(gb_reader_done(&r, "test"), GB_ERR_PROTOCOL);

    r = gb_reader(bytes, 8); /* left over */
    (void)gb_read_u32(&r);
    assert_int_equal(gb_reader_done(&r, "test"), GB_ERR_PROTOCOL);
}

static void texts(void **state)
{
    (void)state;
    uint8_t buffer[32];
    char text[5] = "zzzz";
    gb_writer_t w = gb_writer(buffer, sizeof buffer);
    gb_write_text(&w, "12345"); /* one too many for text[5] with its zero */
    gb_reader_t r = gb_reader(buffer, gb_writer_size(&w));
    gb_read_text(&r, text, sizeof text);
    assert_true(r.failed);
    assert_string_equal(text, "");

    w = gb_writer(buffer, sizeof buffer);
    gb_write_blob(&w, "a\0b", 3); /* a zero inside */
    r = gb_reader(buffer, gb_writer_size(&w));
    gb_read_text(&r, text, sizeof text);
    assert_true(r.failed);
}

static void full_writer(void **state)
{
    (void)state;
    uint8_t buffer[6] = {0, 0, 0, 0, 9, 9};
    gb_writer_t w = gb_writer(buffer, 4);
    gb_write_u16(&w, 1);
    gb_write_u32(&w, 2);
    gb_write_u8(&w, 3); /* would fit, but the payload is broken already */
    assert_int_equal(gb_writer_done(&w, "test"), GB_ERR_LIMIT);
    assert_int_equal(buffer[2], 0);
    assert_int_equal(buffer[4], 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_layout),
        cmocka_unit_test(bad_headers),
        cmocka_unit_test(fields_round_trip),
        cmocka_unit_test(short_payloads),
        cmocka_unit_test(texts),
        cmocka_unit_test(full_writer),
    };
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}

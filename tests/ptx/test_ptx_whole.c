/* Strong accesses of vectors are one access of memory: a block writes vectors whose elements are all
 * alike, another one reads them at the same time and must never see half of one and half of another. */
#include "tests/ptx/pt_device.h"

#include <stdio.h>

enum { THREADS = 32, ROUNDS = 20000, APART = 48, PTX_SIZE = 4096 };

typedef struct {
    const char *type, *reg, *convert; /* convert: what makes an element of the u32 round */
    unsigned count;
} vector_t;

static const vector_t VECTORS[] = {
    {"u64", "b64", "mul.wide.u32 %e, %n, 0x10001", 2},
    {"u32", "b32", "mov.u32 %e, %n", 4},
    {"f64", "f64", "cvt.rn.f64.u32 %e, %n", 2},
    {"f32", "f32", "cvt.rn.f32.u32 %e, %n", 4},
    {"u32", "b32", "mov.u32 %e, %n", 2},
    {"u16", "b16", "cvt.u16.u32 %e, %n", 4},
};

typedef struct {
    const char *store, *load;
} order_t;

static const order_t ORDERS[] = {
    {"st.volatile.global", "ld.volatile.global"},
    {"st.relaxed.gpu.global", "ld.relaxed.gpu.global"},
    {"st.release.gpu.global", "ld.acquire.gpu.global"},
};

static const char TEXT[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry k(.param .u64 at, .param .u64 bad)\n{\n"
    ".reg .b64 %%at, %%bad, %%off; .reg .b32 %%n, %%t, %%c, %%step, %%wrong; .reg .pred %%p;\n"
    ".reg .%1$s %%e, %%v<4>;\n"
    "ld.param.u64 %%at, [at]; ld.param.u64 %%bad, [bad]; mov.u32 %%step, %11$u;\n"
    "mov.u32 %%t, %%tid.x; mul.wide.u32 %%off, %%t, %%step; add.u64 %%at, %%at, %%off;\n"
    "mov.u32 %%c, %%ctaid.x; mov.u32 %%n, 0; mov.u32 %%wrong, 0;\n"
    "setp.eq.u32 %%p, %%c, 0; @%%p bra Write;\n"
    "Read: %2$s.v%3$u.%4$s %5$s, [%%at];\n"
    "%6$s"
    "add.u32 %%n, %%n, 1; setp.lt.u32 %%p, %%n, %7$d; @%%p bra Read;\n"
    "red.global.add.u32 [%%bad], %%wrong; ret;\n"
    "Write: %8$s; %9$s.v%3$u.%4$s [%%at], %10$s;\n"
    "add.u32 %%n, %%n, 1; setp.lt.u32 %%p, %%n, %7$d; @%%p bra Write;\n"
    "ret;\n}\n";

static CUmodule make(const vector_t *v, const order_t *o, unsigned step)
{
    char text[PTX_SIZE], compare[512];
    int at = 0;
    for (unsigned k = 1; k < v->count; k++) {
        at += snprintf(compare + at, sizeof compare - (size_t)at,
                       "setp.ne.%s %%p, %%v0, %%v%u; @%%p add.u32 %%wrong, %%wrong, 1;\n", v->type,
                       k);
    }
    int length =
        snprintf(text, sizeof text, TEXT, v->reg, o->load, v->count, v->type,
                 v->count == 2 ? "{%v0, %v1}" : "{%v0, %v1, %v2, %v3}", compare, ROUNDS, v->convert,
                 o->store, v->count == 2 ? "{%e, %e}" : "{%e, %e, %e, %e}", step);
    assert_in_range(length, 1, sizeof text - 1);
    return pt_load(text);
}

static void check(const vector_t *v, const order_t *o, unsigned step, unsigned threads)
{
    CUmodule module = make(v, o, step);
    CUdeviceptr at = pt_upload(NULL, (size_t)THREADS * APART), bad = pt_upload(NULL, 4);
    uint32_t wrong;
    pt_launch(pt_function(module, "k"), (pt_dim_t){2, 1, 1}, (pt_dim_t){threads, 1, 1}, 0,
              (void *[]){&at, &bad});
    pt_download(&wrong, bad, sizeof wrong);
    if (wrong != 0)
        fail_msg("%s.v%u.%s, %u threads, %u bytes apart: %u were torn", o->load, v->count, v->type,
                 threads, step, wrong);
    pt_free(at);
    pt_free(bad);
    pt_unload(module);
}

static void check_all(unsigned step, unsigned threads)
{
    for (size_t v = 0; v < sizeof VECTORS / sizeof VECTORS[0]; v++)
        check(&VECTORS[v], &ORDERS[v % (sizeof ORDERS / sizeof ORDERS[0])], step, threads);
}

static void test_one_address(void **state)
{
    (void)state;
    check_all(0, THREADS);
}

static void test_neighbours(void **state)
{
    (void)state;
    check_all(16, THREADS);
    check_all(16, THREADS - 11);
}

static void test_apart(void **state)
{
    (void)state;
    check_all(APART, THREADS);
    check_all(APART, THREADS - 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_address),
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

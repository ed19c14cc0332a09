/* remote.h - what the programs that test the remote client share: a proxy, device 0's primary context,
 * the kernels of saxpy_ptx.h. */
#ifndef TEST_REMOTE_H
#define TEST_REMOTE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/cuda/gb_driver.h"
#include "tests/e2e/remoting/proxy.h"
#include "tests/e2e/remoting/saxpy_ptx.h"

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)
#define FAILS(call, error) assert_int_equal((call), (error))

extern const gb_cuda_table_t *cuda;
extern int real; /* the driver computes; with `null`, contents of memory are not checked */
extern CUcontext context;
extern CUmodule module;
extern CUfunction saxpy;

/* Group set-up: initialises CUDA, makes the context current, loads the kernels. */
int remote_set_up(void **state);

/* i % 1000 for each i; the caller frees it. */
float *numbers(unsigned n);

/* Starts a proxy on the driver (argv[1], default `null`) and opens the remote library; `proxy` is to be
 * stopped by the caller. Ends the program if it cannot. */
void remote_open(int argc, char **argv, proxy_t *proxy);

#endif

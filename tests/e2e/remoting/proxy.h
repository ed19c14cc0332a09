/* proxy.h - starts real gpu-proxy processes for the tests of the remote client. */
#ifndef TEST_PROXY_H
#define TEST_PROXY_H

#include <sys/types.h>

typedef struct {
    pid_t pid;
    char folder[64];
    char endpoint[96]; /* "unix:PATH", or of TCP, for GABLE_PROXIES */
    char key[96];      /* for GABLE_KEY_FILE; "" = none */
    char log[96];
} proxy_t;

/* Starts `gpu-proxy --insecure --unix ...` on the driver and waits until it is ready. Ends the test
 * program with a message if that fails. */
void proxy_start(proxy_t *proxy, const char *driver);

typedef enum { PROXY_UNIX, PROXY_TCP, PROXY_TLS } proxy_link_t;

/* The same on another kind of link, with one more option and its value (NULL = none). */
void proxy_start_on(proxy_t *proxy, const char *driver, proxy_link_t link, const char *option,
                    const char *value);

/* Ends it and removes its folder. */
void proxy_stop(proxy_t *proxy);

/* Process of the n-th session (from 0) that the proxy has started, waiting until it has. */
pid_t proxy_session(const proxy_t *proxy, int n);

/* 1 as soon as the process does not exist any more, 0 after `ms` milliseconds. */
int process_gone(pid_t pid, int ms);

/* Ends the program with status 77 ("skipped") if the software device cannot run kernels here. */
void need_compiler(const char *driver);

#endif

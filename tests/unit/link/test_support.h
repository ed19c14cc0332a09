/* test_support.h - a listener with a serving thread, for tests of links. */
#ifndef TEST_SUPPORT_H
#define TEST_SUPPORT_H

#include <pthread.h>

#include "common/link/gb_link.h"
#include "common/link/gb_listener.h"

typedef enum { LINE_UNIX, LINE_TCP, LINE_TLS, LINE_SHARED, LINE_COUNT } line_t;

/* Both ends of a fresh connection of that kind, over 127.0.0.1 or a socket in a temporary folder. */
typedef struct {
    gb_link_t *client;
    gb_link_t *server;
    gb_preamble_t facts;
} ends_t;

const char *line_name(line_t line);
ends_t ends_open(line_t line);
void ends_close(ends_t *ends);

/* A listener of that kind ("unix" in a temporary folder); its endpoint through gb_listener_endpoint. */
gb_listener_t *listener_open(line_t line);

/* The key and the lease that ends_open uses, and a look-up that knows only them. */
extern const gb_key_t test_key;
enum { TEST_LEASE = 0x1234 };
gb_status_t test_lookup(void *arg, uint64_t lease, gb_key_t *key);

/* Repeatable bytes. */
void fill_bytes(uint8_t *bytes, size_t size, uint32_t seed);

uint64_t in_seconds(double seconds);

#endif

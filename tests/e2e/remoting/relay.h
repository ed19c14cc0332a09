/* relay.h - a Unix socket in front of another one that counts the bytes that pass: what a client sends
 * and gets is seen from outside. And a line that can be cut. */
#ifndef TEST_RELAY_H
#define TEST_RELAY_H

#include <stdint.h>

typedef struct relay relay_t;

/* Listens at `path` and connects every caller to `target`. Ends the program if it cannot. */
relay_t *relay_start(const char *path, const char *target);

/* Bytes that have passed so far, towards the target and back. */
uint64_t relay_up(const relay_t *relay);
uint64_t relay_down(const relay_t *relay);

/* While on, nothing passes, as when packets are dropped; nothing is lost either. */
void relay_hold(relay_t *relay, int on);

/* While on, connections are closed, those there are and those that come. */
void relay_refuse(relay_t *relay, int on);

/* The callers must be gone. */
void relay_stop(relay_t *relay);

#endif

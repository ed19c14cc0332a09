/* gb_endpoint.h - the address of a data port, as text and as a value.
 *
 *   HOST:PORT[/DEVICE]   TCP; HOST is a name, an IPv4 address or an IPv6 address in brackets
 *   unix:PATH[#DEVICE]     Unix socket
 *
 * DEVICE is the ordinal of one device behind the endpoint. Values are plain data: copy them. */
#ifndef GB_ENDPOINT_H
#define GB_ENDPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "common/core/gb_status.h"

typedef enum { GB_ENDPOINT_TCP, GB_ENDPOINT_UNIX } gb_endpoint_kind_t;

enum {
    GB_ENDPOINT_NAME = 256, /* longest host name or path, with its zero */
    GB_ENDPOINT_TEXT = 304, /* longest text of an endpoint, with its zero */
    GB_ENDPOINT_ANY_DEVICE = -1,
};

typedef struct {
    gb_endpoint_kind_t kind;
    uint16_t port;               /* TCP only; 0 = any free one, when listening */
    int device;                  /* GB_ENDPOINT_ANY_DEVICE, or the one meant */
    char name[GB_ENDPOINT_NAME]; /* host without brackets, or path; never "" */
} gb_endpoint_t;

/* Parses `text`. A host without a port gets `default_port`; with default_port 0 the port must be
 * there. GB_ERR_INVALID names the text and the form expected. */
gb_status_t gb_endpoint_parse(const char *text, uint16_t default_port, gb_endpoint_t *out);

/* Writes the text form; `out` takes GB_ENDPOINT_TEXT characters. Returns `out`. */
char *gb_endpoint_format(const gb_endpoint_t *endpoint, char *out);

/* 1 if nobody but this machine can reach it: a Unix socket, or a literal loopback address or
 * "localhost". Other names are not looked up and count as reachable. */
int gb_endpoint_is_local(const gb_endpoint_t *endpoint);

#endif

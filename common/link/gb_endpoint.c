#include "common/link/gb_endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

static gb_status_t bad(const char *text)
{
    return gb_fail(GB_ERR_INVALID, "bad endpoint '%s': write HOST:PORT[/DEVICE] or unix:PATH",
                   text);
}

/* A whole decimal number of at most `max`, nothing around it. */
static int parse_number(const char *text, long max, long *out)
{
    char *end;
    if (*text < '0' || *text > '9')
        return 0;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (errno || *end || v > max)
        return 0;
    *out = v;
    return 1;
}

static gb_status_t parse_unix(const char *text, gb_endpoint_t *e)
{
    const char *path = text + strlen("unix:");
    const char *mark = strrchr(path, '#');
    size_t n = mark ? (size_t)(mark - path) : strlen(path);
    long device;
    if (mark) {
        if (!parse_number(mark + 1, 1 << 16, &device))
            return bad(text);
        e->device = (int)device;
    }
    if (!n)
        return bad(text);
    if (n >= sizeof((struct sockaddr_un *)0)->sun_path)
        return gb_fail(GB_ERR_INVALID,
                       "the socket path of '%s' is too long: at most %zu characters", text,
                       sizeof((struct sockaddr_un *)0)->sun_path - 1);
    e->kind = GB_ENDPOINT_UNIX;
    memcpy(e->name, path, n);
    e->name[n] = 0;
    return GB_OK;
}

/* Splits "HOST" or "[V6]" off; *rest points behind it. */
static int parse_host(const char *text, gb_endpoint_t *e, const char **rest)
{
    const char *begin = text;
    const char *end;
    if (*text == '[') {
        begin = text + 1;
        end = strchr(begin, ']');
        if (!end)
            return 0;
        *rest = end + 1;
    } else {
        end = text + strcspn(text, ":/");
        *rest = end;
    }
    size_t n = (size_t)(end - begin);
    if (!n || n >= sizeof e->name)
        return 0;
    memcpy(e->name, begin, n);
    e->name[n] = 0;
    /* What is accepted must read the same once it is written again: in brackets an IPv6 address with
     * its scope, elsewhere no brackets; and a host called "unix" would look like a socket. */
    if (*text == '[')
        return strchr(e->name, ':') &&
               strspn(e->name, "0123456789abcdefghijklmnopqrstuvwxyzABCDEF:.%") == n;
    return strcspn(e->name, " \t\r\n,=[]") == n && strcmp(e->name, "unix");
}

gb_status_t gb_endpoint_parse(const char *text, uint16_t default_port, gb_endpoint_t *out)
{
    gb_endpoint_t e = {.kind = GB_ENDPOINT_TCP, .device = GB_ENDPOINT_ANY_DEVICE};
    const char *rest;
    char port_text[8] = "";
    long port = default_port;
    long device;

    if (!strncmp(text, "unix:", 5)) {
        gb_status_t st = parse_unix(text, &e);
        if (st == GB_OK)
            *out = e;
        return st;
    }
    if (!parse_host(text, &e, &rest))
        return bad(text);
    if (*rest == ':') {
        size_t n = strcspn(++rest, "/");
        if (n >= sizeof port_text)
            return bad(text);
        memcpy(port_text, rest, n);
        if (!parse_number(port_text, 65535, &port))
            return bad(text);
        rest += n;
    } else if (!default_port) {
        return bad(text);
    }
    if (*rest == '/') {
        if (!parse_number(rest + 1, 1 << 16, &device))
            return bad(text);
        e.device = (int)device;
    } else if (*rest) {
        return bad(text);
    }
    e.port = (uint16_t)port;
    *out = e;
    return GB_OK;
}

char *gb_endpoint_format(const gb_endpoint_t *e, char *out)
{
    char device[16] = "";
    if (e->device != GB_ENDPOINT_ANY_DEVICE)
        snprintf(device, sizeof device, "%c%d", e->kind == GB_ENDPOINT_UNIX ? '#' : '/', e->device);
    if (e->kind == GB_ENDPOINT_UNIX)
        snprintf(out, GB_ENDPOINT_TEXT, "unix:%s%s", e->name, device);
    else if (strchr(e->name, ':'))
        snprintf(out, GB_ENDPOINT_TEXT, "[%s]:%u%s", e->name, e->port, device);
    else
        snprintf(out, GB_ENDPOINT_TEXT, "%s:%u%s", e->name, e->port, device);
    return out;
}

int gb_endpoint_is_local(const gb_endpoint_t *e)
{
    if (e->kind == GB_ENDPOINT_UNIX || !strcmp(e->name, "localhost") || !strcmp(e->name, "::1"))
        return 1;
    /* 127.0.0.0/8, written with digits and dots only: "127.example.org" is a name */
    return !strncmp(e->name, "127.", 4) && strspn(e->name, "0123456789.") == strlen(e->name);
}

/* gb_status.h - the one status type of the tree.
 *
 * A function that can fail returns gb_status_t and writes its output arguments only on success. Where
 * the failure is first understood, gb_fail() records one line for people ("what went wrong: what to
 * do") in thread-local storage; callers pass the status on, and the program prints gb_why() once.
 * Thread-safe: the line belongs to the calling thread. */
#ifndef GB_STATUS_H
#define GB_STATUS_H

#include <stdarg.h>

typedef enum {
    GB_OK = 0,
    GB_ERR_INVALID,      /* an argument or an input that can never be right */
    GB_ERR_FORMAT,       /* bytes that do not parse */
    GB_ERR_NO_MEMORY,    /* out of memory */
    GB_ERR_LIMIT,        /* a quota or a fixed limit was hit */
    GB_ERR_IO,           /* the operating system refused */
    GB_ERR_NOT_FOUND,    /* no such thing */
    GB_ERR_EXISTS,       /* the name or the port is taken */
    GB_ERR_BUSY,         /* not now; the same call may succeed later */
    GB_ERR_AGAIN,        /* would block */
    GB_ERR_TIMEOUT,      /* the peer was silent for the whole time */
    GB_ERR_CLOSED,       /* the peer closed the connection in good order */
    GB_ERR_LOST,         /* the peer is gone without a goodbye */
    GB_ERR_UNREACHABLE,  /* nobody answers at that address */
    GB_ERR_UNAUTHORISED, /* wrong key, certificate or role */
    GB_ERR_PROTOCOL,     /* the peer broke the protocol */
    GB_ERR_VERSION,      /* the peer speaks another version */
    GB_ERR_UNSUPPORTED,  /* known, but not done here */
    GB_ERR_CANCELLED,    /* ended on request */
    GB_ERR_INTERNAL,     /* a bug in this program */
    GB_STATUS_COUNT
} gb_status_t;

/* Short name of a status, e.g. "timeout". Never NULL. */
const char *gb_status_name(gb_status_t status);

/* Records one line for people and returns `status`. The text must not end in a newline. */
gb_status_t gb_fail(gb_status_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Like gb_fail, with strerror(error) appended to the text; maps common errno values when status is
 * GB_ERR_IO (ENOMEM, ECONNREFUSED, EADDRINUSE, ...). */
gb_status_t gb_fail_errno(gb_status_t status, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The calling thread's last recorded line; "" if there is none. Valid until its next gb_fail. */
const char *gb_why(void);

#endif

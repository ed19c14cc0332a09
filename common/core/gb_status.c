#include "common/core/gb_status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char t_why[512];

static const char *const names[GB_STATUS_COUNT] = {
    [GB_OK] = "ok",
    [GB_ERR_INVALID] = "invalid",
    [GB_ERR_FORMAT] = "malformed",
    [GB_ERR_NO_MEMORY] = "out of memory",
    [GB_ERR_LIMIT] = "limit reached",
    [GB_ERR_IO] = "i/o error",
    [GB_ERR_NOT_FOUND] = "not found",
    [GB_ERR_EXISTS] = "already exists",
    [GB_ERR_BUSY] = "busy",
    [GB_ERR_AGAIN] = "would block",
    [GB_ERR_TIMEOUT] = "timeout",
    [GB_ERR_CLOSED] = "closed",
    [GB_ERR_LOST] = "peer lost",
    [GB_ERR_UNREACHABLE] = "unreachable",
    [GB_ERR_UNAUTHORISED] = "unauthorised",
    [GB_ERR_PROTOCOL] = "protocol error",
    [GB_ERR_VERSION] = "version mismatch",
    [GB_ERR_UNSUPPORTED] = "not supported",
    [GB_ERR_CANCELLED] = "cancelled",
    [GB_ERR_INTERNAL] = "internal error",
};

const char *gb_status_name(gb_status_t status)
{
    if ((unsigned)status >= GB_STATUS_COUNT)
        return "unknown status";
    return names[status];
}

gb_status_t gb_fail(gb_status_t status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(t_why, sizeof t_why, format, args);
    va_end(args);
    return status;
}

static gb_status_t from_errno(int error)
{
    switch (error) {
    case ENOMEM:
        return GB_ERR_NO_MEMORY;
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return GB_ERR_UNREACHABLE;
    case EADDRINUSE:
    case EEXIST:
        return GB_ERR_EXISTS;
    case ENOENT:
        return GB_ERR_NOT_FOUND;
    case ETIMEDOUT:
        return GB_ERR_TIMEOUT;
    case ECONNRESET:
    case EPIPE:
        return GB_ERR_LOST;
    case EAGAIN:
        return GB_ERR_AGAIN;
    default:
        return GB_ERR_IO;
    }
}

gb_status_t gb_fail_errno(gb_status_t status, int error, const char *format, ...)
{
    char text[384];
    char reason[128];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* GNU strerror_r returns the text, which may not be in the buffer. */
    const char *words = strerror_r(error, reason, sizeof reason);
    snprintf(t_why, sizeof t_why, "%s: %s", text, words);
    return status == GB_ERR_IO ? from_errno(error) : status;
}

const char *gb_why(void)
{
    return t_why;
}

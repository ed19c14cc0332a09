#include "gpu-proxy/session/px_output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20, PIECE = 64 << 10 };

/* One after the other: px_wire_output_t, its text. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *records;
static size_t used, room;
static atomic_int waiting;

static void keep(uint32_t fd, const char *bytes, uint32_t size)
{
    size_t need = used + sizeof(px_wire_output_t) + size;
    if (need > room && need <= MOST) {
        size_t want = room ? room : 4096;
        while (want < need)
            want *= 2;
        char *grown = realloc(records, want);
        records = grown ? grown : records;
        room = grown ? want : room;
    }
    if (need > room)
        return;
    memcpy(records + used, &(px_wire_output_t){size, fd}, sizeof(px_wire_output_t));
    memcpy(records + used + sizeof(px_wire_output_t), bytes, size);
    used = need;
    atomic_store(&waiting, 1);
}

static ssize_t on_write(void *cookie, const char *bytes, size_t size)
{
    pthread_mutex_lock(&lock);
    for (size_t done = 0; done < size; done += PIECE)
        keep((uint32_t)(uintptr_t)cookie, bytes + done,
             (uint32_t)(size - done < PIECE ? size - done : PIECE));
    pthread_mutex_unlock(&lock);
    return (ssize_t)size;
}

static FILE *capture(int fd)
{
    void *cookie = (void *)(uintptr_t)fd;
    return fopencookie(cookie, "w", (cookie_io_functions_t){.write = on_write});
}

gb_status_t px_output_capture(void)
{
    FILE *out = capture(1), *err = capture(2);
    if (!out || !err)
        return gb_fail_errno(GB_ERR_NO_MEMORY, errno, "fopencookie");
    setvbuf(err, NULL, _IOLBF, BUFSIZ);
    fflush(stdout);
    fflush(stderr);
    stdout = out;
    stderr = err;
    return GB_OK;
}

void px_output_flush(px_session_t *session)
{
    if (!atomic_load_explicit(&waiting, memory_order_acquire))
        return;
    pthread_mutex_lock(&lock);
    for (size_t at = 0; at < used;) {
        px_wire_output_t head;
        memcpy(&head, records + at, sizeof(head));
        struct iovec part = {records + at, sizeof(head) + head.size};
        if (px_send_notice(session, PX_OP_OUTPUT, &part, 1) != GB_OK)
            break; /* nobody is there to read it: the session ends */
        at += part.iov_len;
    }
    used = 0;
    atomic_store(&waiting, 0);
    pthread_mutex_unlock(&lock);
}

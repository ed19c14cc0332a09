#include "gpu-proxy/cpu/driver/cpu_console.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALLEST = 1024 };

void cpu_console_init(cpu_console_t *console)
{
    *console = (cpu_console_t){0};
    pthread_mutex_init(&console->lock, NULL);
    pthread_mutex_init(&console->flushes, NULL);
    atomic_init(&console->pending, false);
}

void cpu_console_destroy(cpu_console_t *console)
{
    pthread_mutex_destroy(&console->lock);
    pthread_mutex_destroy(&console->flushes);
    free(console->ring);
}

static void put(cpu_console_t *c, const void *bytes, size_t count)
{
    size_t at = (c->head + c->used) % c->capacity, first = c->capacity - at;
    first = first < count ? first : count;
    memcpy(c->ring + at, bytes, first);
    memcpy(c->ring, (const char *)bytes + first, count - first);
    c->used += count;
}

static void get(cpu_console_t *c, void *bytes, size_t count)
{
    size_t first = c->capacity - c->head;
    first = first < count ? first : count;
    memcpy(bytes, c->ring + c->head, first);
    memcpy((char *)bytes + first, c->ring, count - first);
    c->head = (c->head + count) % c->capacity;
    c->used -= count;
}

static void drop_oldest(cpu_console_t *c)
{
    uint32_t length;
    get(c, &length, sizeof(length));
    c->head = (c->head + length) % c->capacity;
    c->used -= length;
}

void cpu_console_print(cpu_console_t *console, const char *text, size_t bytes, size_t capacity)
{
    uint32_t length = (uint32_t)bytes;
    pthread_mutex_lock(&console->lock);
    if (!console->ring) {
        console->capacity = capacity > SMALLEST ? capacity : SMALLEST;
        console->ring = malloc(console->capacity);
    }
    if (console->ring && bytes + sizeof(length) <= console->capacity) {
        while (console->capacity - console->used < bytes + sizeof(length))
            drop_oldest(console);
        put(console, &length, sizeof(length));
        put(console, text, bytes);
        atomic_store(&console->pending, true);
    }
    pthread_mutex_unlock(&console->lock);
}

/* All pieces, one after the other, without their lengths; NULL if there are none. */
static char *take_all(cpu_console_t *c, size_t *bytes)
{
    char *all = NULL;
    *bytes = 0;
    pthread_mutex_lock(&c->lock);
    if (c->used)
        all = malloc(c->used);
    while (all && c->used) {
        uint32_t length;
        get(c, &length, sizeof(length));
        get(c, all + *bytes, length);
        *bytes += length;
    }
    atomic_store(&c->pending, c->used != 0);
    pthread_mutex_unlock(&c->lock);
    return all;
}

void cpu_console_flush(cpu_console_t *console)
{
    if (!atomic_load_explicit(&console->pending, memory_order_acquire))
        return;
    size_t bytes;
    pthread_mutex_lock(&console->flushes);
    char *all = take_all(console, &bytes);
    if (all) {
        fwrite(all, 1, bytes, stdout);
        fflush(stdout);
    }
    free(all);
    pthread_mutex_unlock(&console->flushes);
}

bool cpu_console_in_use(cpu_console_t *console)
{
    pthread_mutex_lock(&console->lock);
    bool in_use = console->ring != NULL;
    pthread_mutex_unlock(&console->lock);
    return in_use;
}

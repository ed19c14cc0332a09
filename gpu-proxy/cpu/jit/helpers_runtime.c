/* The runtime's functions, lane by lane. */
#include "gpu-proxy/cpu/jit/helpers_runtime.h"

#include "gpu-proxy/cpu/jit/code.h"
#include "gpu-proxy/cpu/jit/packet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cpu_text_init(cpu_text_t *text)
{
    text->data = text->small;
    text->used = 0;
    text->capacity = sizeof text->small;
    text->failed = false;
}

void cpu_text_free(cpu_text_t *text)
{
    if (text->data != text->small) {
        free(text->data);
    }
}

void cpu_text_add(cpu_text_t *text, const char *bytes, size_t count)
{
    if (count > text->capacity - text->used) {
        size_t room = (text->used + count) * 2;
        char *grown = text->data == text->small ? malloc(room) : realloc(text->data, room);
        if (grown == NULL) {
            text->failed = true;
            return;
        }
        if (text->data == text->small) {
            memcpy(grown, text->small, text->used);
        }
        text->data = grown;
        text->capacity = room;
    }
    memcpy(text->data + text->used, bytes, count);
    text->used += count;
}

bool cpu_text_add_string(cpu_text_t *text, const cpu_caller_t *c, uint64_t address)
{
    if (address == 0) {
        cpu_text_add(text, "(null)", 6);
        return true;
    }
    for (;; address++) {
        const char *p =
            cpu_lane_stretch(c->launch, address, 1, 1, PTX_SPACE_GENERIC, false, c->strip, c->lane);
        if (p == NULL) {
            return false;
        }
        char byte = *p;
        if (byte == 0) {
            return true;
        }
        cpu_text_add(text, &byte, 1);
    }
}

static bool print(const cpu_caller_t *c, uint64_t format, uint64_t arguments, uint64_t *result)
{
    const cpu_services_t *s = c->launch->services;
    cpu_text_t text;
    int32_t count = 0;
    cpu_text_init(&text);
    bool ok = cpu_format(&text, c, format, arguments, &count);
    if (ok && count >= 0) {
        if (text.failed || s == NULL) {
            count = -2;
        } else if (text.used != 0) {
            s->print(c->launch->services_user, text.data, text.used);
        }
    }
    cpu_text_free(&text);
    *result = (uint32_t)count;
    return ok;
}

static void add(cpu_text_t *text, const char *string)
{
    cpu_text_add(text, string, strlen(string));
}

/* file:line: function: block: [x,y,z], thread: [x,y,z] Assertion `message` failed. */
static bool complain(const cpu_caller_t *c, const uint64_t *args)
{
    const cpu_launch_t *l = c->launch;
    char where[160], line[32];
    uint32_t tid[3];
    cpu_text_t text;
    cpu_thread_of(&l->code->header, l->block, c->strip, c->lane, tid);
    snprintf(line, sizeof line, ":%d: ", (int32_t)(uint32_t)args[2]);
    snprintf(where, sizeof where, ": block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `",
             l->ctaid[0], l->ctaid[1], l->ctaid[2], tid[0], tid[1], tid[2]);
    cpu_text_init(&text);
    bool ok = cpu_text_add_string(&text, c, args[1]);
    add(&text, line);
    ok = ok && cpu_text_add_string(&text, c, args[3]);
    add(&text, where);
    ok = ok && cpu_text_add_string(&text, c, args[0]);
    cpu_text_add(&text, "` failed.\n", sizeof "` failed.\n");
    if (ok && !text.failed && l->services != NULL) {
        l->services->complain(l->services_user, text.data);
    }
    cpu_text_free(&text);
    return ok;
}

static bool one_lane(const cpu_caller_t *c, uint32_t which, const uint64_t *args, uint64_t *result)
{
    const cpu_services_t *s = c->launch->services;
    *result = 0;
    switch (which) {
    case PTX_RT_VPRINTF:
        return print(c, args[0], args[1], result);
    case PTX_RT_ASSERTFAIL:
        return complain(c, args);
    case PTX_RT_MALLOC:
        *result = s != NULL && args[0] != 0 ? s->allocate(c->launch->services_user, args[0]) : 0;
        return true;
    default: /* PTX_RT_FREE */
        if (s != NULL && args[0] != 0) {
            s->release(c->launch->services_user, args[0]);
        }
        return true;
    }
}

int32_t cpu_help_runtime(cpu_launch_t *launch, const void *what, uint32_t mask, uint32_t strip,
                         uint8_t *slots)
{
    uint32_t which = ((const cpu_runtime_call_t *)what)->which;
    uint64_t *results = cpu_packet_slot(slots, CPU_RUNTIME_RESULT);
    for (uint32_t m = mask; m != 0; m &= m - 1) {
        cpu_caller_t c = {launch, strip, (unsigned)__builtin_ctz(m)};
        uint64_t args[CPU_RUNTIME_RESULT];
        for (unsigned n = 0; n < CPU_RUNTIME_RESULT; n++) {
            args[n] = ((const uint64_t *)cpu_packet_slot(slots, n))[c.lane];
        }
        if (!one_lane(&c, which, args, &results[c.lane])) {
            return CPU_STATE_FAULT;
        }
    }
    return which == PTX_RT_ASSERTFAIL
               ? launch->helpers->fault(launch, CPU_FAULT_ASSERT, mask, strip)
               : 0;
}

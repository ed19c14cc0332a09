#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/client/rc_state.h"

enum { SEGMENT = 1024, SEGMENTS = 4096 };

static _Atomic(rc_object_t *) segments[SEGMENTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rc_object_t *free_list;
static uint32_t next_number = PX_WIRE_FIRST_OBJECT;

/* 'G', 5 bits of kind, 19 bits of generation: never a plausible address. */
static uint32_t tag_of(rc_kind_t kind, uint32_t generation)
{
    return 0x47000000u | (uint32_t)kind << 19 | (generation & 0x7ffffu);
}

static rc_object_t *slot(uint32_t number)
{
    rc_object_t *segment =
        number / SEGMENT < SEGMENTS
            ? atomic_load_explicit(&segments[number / SEGMENT], memory_order_acquire)
            : NULL;
    return segment ? &segment[number % SEGMENT] : NULL;
}

/* With the lock held. */
static rc_object_t *fresh_slot(void)
{
    uint32_t number = next_number;
    if (number / SEGMENT >= SEGMENTS)
        return NULL;
    if (!atomic_load(&segments[number / SEGMENT])) {
        rc_object_t *segment = calloc(SEGMENT, sizeof(*segment));
        if (!segment)
            return NULL;
        atomic_store_explicit(&segments[number / SEGMENT], segment, memory_order_release);
    }
    next_number++;
    rc_object_t *object = slot(number);
    object->number = number;
    return object;
}

rc_object_t *rc_object_new(rc_kind_t kind, rc_session_t *session, rc_object_t *context)
{
    pthread_mutex_lock(&lock);
    rc_object_t *object = free_list;
    if (object)
        free_list = object->next_free;
    else
        object = fresh_slot();
    if (object) {
        uint32_t number = object->number, generation = object->generation + 1;
        /* The tag is 0 here, so that nobody looks at the rest. */
        memset((char *)object + sizeof(object->tag), 0, sizeof(*object) - sizeof(object->tag));
        object->number = number;
        object->generation = generation;
        object->kind = kind;
        object->session = session;
        object->context = context;
        atomic_store_explicit(&object->tag, tag_of(kind, generation), memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return object;
}

rc_object_t *rc_object_get(rc_kind_t kind, const void *handle)
{
    uint64_t value = (uint64_t)(uintptr_t)handle;
    uint32_t tag = (uint32_t)(value >> 32);
    if ((tag & 0xfff80000u) != tag_of(kind, 0))
        return NULL;
    rc_object_t *object = slot((uint32_t)value);
    return object && atomic_load_explicit(&object->tag, memory_order_acquire) == tag ? object
                                                                                     : NULL;
}

void *rc_handle(const rc_object_t *object)
{
    uint64_t tag = tag_of(object->kind, object->generation);
    return (void *)(uintptr_t)(tag << 32 | object->number);
}

int rc_object_kill(rc_object_t *object)
{
    unsigned tag = tag_of(object->kind, object->generation);
    return atomic_compare_exchange_strong(&object->tag, &tag, 0);
}

void rc_object_free(rc_object_t *object)
{
    if (object->kind == RC_EVENT)
        rc_capture_forget_event(object);
    pthread_mutex_lock(&lock);
    object->next_free = free_list;
    free_list = object;
    pthread_mutex_unlock(&lock);
}

void rc_objects_drop(rc_object_t *context)
{
    pthread_mutex_lock(&lock);
    uint32_t end = next_number;
    pthread_mutex_unlock(&lock);
    for (uint32_t number = PX_WIRE_FIRST_OBJECT; number < end; number++) {
        rc_object_t *object = slot(number);
        if (!atomic_load_explicit(&object->tag, memory_order_acquire) ||
            object->context != context || !rc_object_kill(object))
            continue;
        if (object->kind == RC_MODULE)
            rc_module_free(object->module);
        if (object->kind == RC_LINK)
            rc_link_dropped(object);
        if (object->kind == RC_EXEC)
            rc_exec_dropped(object);
        if (object->kind == RC_MIPMAP)
            rc_mipmap_free(object->mipmap);
        rc_object_free(object);
    }
}

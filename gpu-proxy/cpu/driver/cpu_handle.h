/* cpu_handle.h - objects behind CUDA's opaque handles.
 *
 * A handle is a number, never an address: kind, generation and index. A stale, foreign or invented
 * handle is therefore found out, and never dereferenced. Objects are reference counted: the table
 * holds one reference, every successful look-up makes one for the caller, and work that is under
 * way holds its own. Thread-safe. */
#ifndef CPU_HANDLE_H
#define CPU_HANDLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    CPU_KIND_NONE = 0,
    CPU_KIND_CONTEXT,
    CPU_KIND_STREAM,
    CPU_KIND_EVENT,
    CPU_KIND_MODULE,
    CPU_KIND_FUNCTION,
    CPU_KIND_LIBRARY,
    CPU_KIND_KERNEL,
    CPU_KIND_PHYSICAL, /* cuMemCreate */
    CPU_KIND_LINK,
    CPU_KIND_ARRAY,
    CPU_KIND_MIPMAP,
    CPU_KIND_TEXTURE, /* texture and surface objects */
    CPU_KIND_TEXREF,  /* texture and surface references */
    CPU_KIND_GRAPH,
    CPU_KIND_NODE,
    CPU_KIND_EXEC,
    CPU_KIND_USER, /* cuUserObjectCreate */
    CPU_KIND_MEMPOOL,
} cpu_kind_t;

/* First member of every such object. */
typedef struct cpu_object {
    atomic_int refs;
    cpu_kind_t kind;
    uint64_t handle; /* 0 while it is in no table */
    void (*destroy)(struct cpu_object *object);
} cpu_object_t;

/* Memory for an object some of whose parts have cache lines of their own, cleared; NULL if memory is
 * out. */
void *cpu_object_memory(size_t bytes);

/* Starts with one reference, the caller's. */
void cpu_object_init(cpu_object_t *object, cpu_kind_t kind, void (*destroy)(cpu_object_t *));

void cpu_object_ref(cpu_object_t *object);

/* Drops a reference; the last one destroys. NULL is allowed. */
void cpu_object_put(cpu_object_t *object);

/* Drops several at once. */
void cpu_object_put_many(cpu_object_t *object, int count);

/* Enters the object; the table takes a reference of its own. Returns the handle, 0 if memory is
 * out. */
uint64_t cpu_handle_add(cpu_object_t *object);

/* The object with a reference for the caller, or NULL if there is none of this kind. */
cpu_object_t *cpu_handle_get(cpu_kind_t kind, uint64_t handle);

/* Takes the handle out of the table; the table's reference goes to the caller. NULL as above; of
 * two threads that remove the same handle only one gets the object. */
cpu_object_t *cpu_handle_remove(cpu_kind_t kind, uint64_t handle);

/* Takes every object out of the table for which `match` holds, and drops the table's reference. For
 * the end of a context. */
void cpu_handle_sweep(int (*match)(const cpu_object_t *object, const void *argument),
                      const void *argument);

#endif

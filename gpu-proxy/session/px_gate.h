/* px_gate.h - what a context has for transfers between sessions: streams of its own, events, and gates.
 *
 * A gate holds a stream until the session opens it: the stream waits for a word of device memory, which
 * an own stream writes. Waiting costs the device nothing, and no thread. Gates open in any order; a word is
 * used again by later gates with higher values, so that it need not be known when the stream has passed.
 *
 * Making one, and px_gate_close, is the dispatcher's with the context current; the rest is thread-safe. */
#ifndef PX_GATE_H
#define PX_GATE_H

#include <stdint.h>

#include "gb_cuda_table.h"

typedef struct px_gates px_gates_t;

/* One closed gate. Plain data. */
typedef struct {
    px_gates_t *gates; /* NULL: none */
    uint32_t word, value;
} px_gate_t;

CUresult px_gates_create(const gb_cuda_table_t *cuda, px_gates_t **out);
/* Nothing waits any more; with the context current. NULL is allowed. */
void px_gates_destroy(px_gates_t *gates);

/* The same without the driver: what it has there ends with the context. */
void px_gates_forget(px_gates_t *gates);

/* Stops what is issued to `stream` from here on. */
CUresult px_gate_close(px_gates_t *gates, CUstream stream, px_gate_t *out);
/* Lets the stream go on, behind what px_gates_stream has to do; with the context current. Once. In a
 * context that has faulted nothing waits: its failure is of no interest. */
void px_gate_open(px_gate_t *gate);

/* Does copies, and opens gates. Never waits for anything else. */
CUstream px_gates_stream(px_gates_t *gates);
/* Does nothing: who waits for the whole context waits for the gates in it, too. */
CUstream px_gates_hold(px_gates_t *gates);

/* Events without timing, and streams to wait in, from a store. */
CUresult px_gates_event(px_gates_t *gates, CUevent *out);
void px_gates_event_done(px_gates_t *gates, CUevent event);
CUresult px_gates_waiter(px_gates_t *gates, CUstream *out);
void px_gates_waiter_done(px_gates_t *gates, CUstream stream);

#endif

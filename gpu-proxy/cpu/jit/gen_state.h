/* gen_state.h - what the files that make the function share. */
#ifndef CPU_GEN_STATE_H
#define CPU_GEN_STATE_H

#include "gpu-proxy/cpu/jit/gen.h"

/* Groups in step (gen_step.c). */
typedef struct {
    val_t stays;   /* i1, where the function begins: groups run in step */
    block_t next;  /* the group that cpu_launch_t names begins */
    block_t ended; /* a group has ended; NULL: not generated so far */
} gen_step_t;

typedef struct gen_flow {
    bool need_fast, need_masks;
    block_t *fast, *test, *run, *after;
    block_t *part;  /* per node: behind the beginning of `run`; NULL: nobody else enters there */
    block_t rescan; /* no lane waits but in deferred loops */
    block_t done;
    bool *meets; /* per node: where all lanes may be together again */
    bool *parts; /* per node: may run with a part of the lanes */
    bool *waits; /* per node: lanes may be sent to it one by one */
    uint32_t barrier_count;
    uint32_t *barriers;     /* nodes */
    cpu_bits_t saved;       /* registers alive behind some barrier */
    cpu_bits_t saved_parts; /* behind one that a part of the lanes may reach */
    bool any_parts;         /* of the lanes may stop at a barrier or in a spin loop */
    uint32_t spin_count;
    /* In order: headers of deferred loops, where a group may give way, and nodes at which lanes of a
     * warp wait for each other. */
    uint32_t *spins;
    val_t patience;   /* slot: back-edges until it does */
    bool any_sync;    /* lanes of a warp wait for each other */
    val_t *living;    /* then, per strip: slot of the lanes that have not ended */
    val_t forced;     /* and slot: nobody else can move, do not wait */
    block_t give_way; /* with masks */
    uint32_t *at;     /* per register: offset in the context */
    uint32_t context_bytes;
    cpu_bits_t homed;              /* registers whose slot is in the context */
    uint32_t *calm;                /* per node: the loop without barriers that has inner slots */
    cpu_bits_t *touched, *written; /* per such loop: registers */
    block_t *inside;               /* per header of one: where its iterations begin */
    bool steps;                    /* groups of a CTA may run in step */
    gen_step_t step;
} gen_flow_t;

/* gen_flow.c: masks of lanes, and what both ways of running a node need */
val_t gen_state_value(cpu_gen_t *gen, int64_t state);
void gen_poll_cancel(cpu_gen_t *gen);
val_t gen_waiting(cpu_gen_t *gen, uint32_t node, unsigned g); /* slot of the waiting lanes */
val_t gen_load_mask(cpu_gen_t *gen, val_t slot);
/* Lanes wait for the node from here on. */
void gen_send(cpu_gen_t *gen, uint32_t node, unsigned g, val_t lanes);
val_t gen_any_waiting(cpu_gen_t *gen, uint32_t node);
val_t gen_all_set(cpu_gen_t *gen, val_t const *masks);  /* in every strip, as i1 */
val_t gen_none_set(cpu_gen_t *gen, val_t const *masks); /* in no strip */
/* The predicate of a branch for strip g, as a vector or (uniform) a scalar. */
val_t gen_branch_predicate(cpu_gen_t *gen, const cpu_node_t *n, unsigned g, bool vec);
void gen_node_body(cpu_gen_t *gen, const cpu_node_t *n); /* gen_order.c */

/* gen_parts.c */
void gen_find_stops(cpu_gen_t *gen); /* barriers and spin loops */
void gen_make_blocks(cpu_gen_t *gen);
/* Is the barrier reached with masks? */
bool gen_barrier_parts(const cpu_gen_t *gen, uint32_t k);

/* gen_fast.c, gen_masked.c: the code of a node */
void gen_fast_node(cpu_gen_t *gen, uint32_t b);
void gen_masked_node(cpu_gen_t *gen, uint32_t b);
/* Runs node b with all lanes, but by the code that has masks. False: there is none. */
bool gen_masked_instead(cpu_gen_t *gen, uint32_t b);
/* The first test for waiting lanes at or behind node b. */
block_t gen_chain(cpu_gen_t *gen, uint32_t b);

/* gen_bound.c: a comparison that decides for all lanes by its first and its last */
typedef struct {
    const ptx_instr_t *setp;
    unsigned growing; /* the source that differs from lane to lane, */
    int64_t stride;   /* and by how much */
} gen_bound_t;
/* Is the branch at the end of node b on such a one, and does nothing else look at it? */
bool gen_bound_find(cpu_gen_t *gen, uint32_t b, gen_bound_t *bound);
/* Is there a way for all lanes of the group to go to succ[0]; or for none of them? */
bool gen_bound_can(const gen_bound_t *bound, bool negated, bool all);
/* i1: certainly all lanes of the group go to succ[0]; certainly none does. */
void gen_bound_test(cpu_gen_t *gen, const gen_bound_t *bound, bool negated, val_t *all,
                    val_t *none);

/* gen_home.c: registers that outlast a barrier */
void gen_find_homes(cpu_gen_t *gen);
bool gen_is_homed(const cpu_gen_t *gen, uint32_t reg);
void gen_make_home(cpu_gen_t *gen, uint32_t reg); /* its slots */
void gen_clear_homes(cpu_gen_t *gen);
void gen_enter_loop(cpu_gen_t *gen, uint32_t b);                 /* at the start of fast[b] */
void gen_leave_loop(cpu_gen_t *gen, uint32_t from, uint32_t to); /* before the jump */
block_t gen_fast_block(const cpu_gen_t *gen, uint32_t from, uint32_t to);
val_t gen_home_at(cpu_gen_t *gen, uint32_t reg, unsigned g, bool index); /* gen_context.c */

/* gen_ahead.c: loops whose addresses are checked ahead */
/* At the start of fast[b]: if b begins such a loop, decides which form runs, and leaves the builder
 * where the careful one begins. NULL: there is only one form. */
struct gen_ahead *gen_ahead_begin(cpu_gen_t *gen, uint32_t b);
void gen_ahead_next(cpu_gen_t *gen); /* the edge back, in the quick form */
bool gen_ahead_covers(const cpu_gen_t *gen, const ptx_instr_t *i);
/* In the quick form: brings what the load, here of `bytes` from `strip`, will read two iterations later, or in
 * a CTA that comes soon, into the cache, where it would come too late by itself. */
void gen_ahead_fetch(cpu_gen_t *gen, const ptx_instr_t *i, val_t strip, uint64_t bytes);

/* gen_tiles.c: loops with barriers. How far behind its address (i64) the load should fetch what the next
 * iteration loads; NULL: not at all. Then for each stretch that it reads. */
val_t gen_tiles_next(cpu_gen_t *gen, const ptx_instr_t *i);
void gen_tiles_fetch(cpu_gen_t *gen, val_t at, val_t next, uint64_t bytes);

/* gen_setup.c: launch values, and which lanes have threads */
void gen_setup(cpu_gen_t *gen);
void gen_place_strips(cpu_gen_t *gen);            /* of gen->group */
bool gen_group_is_full(const cpu_gen_t *gen);     /* every lane of every group has a thread */
bool gen_group_may_be_full(const cpu_gen_t *gen); /* of some group */
val_t gen_valid_lanes(cpu_gen_t *gen, unsigned g);

/* States: 0 start; k + 1 behind barrier k, every lane; then one for all that has masks; then one for
 * each spin loop that every lane is in. */
uint32_t gen_state_parted(const cpu_gen_t *gen);
uint32_t gen_state_spinning(const cpu_gen_t *gen, uint32_t j);

/* gen_context.c: what a group keeps while it is not running */
void gen_layout_context(cpu_gen_t *gen);
val_t gen_context_at(cpu_gen_t *gen, uint64_t offset);
val_t gen_arrived_at(cpu_gen_t *gen, uint32_t k, unsigned g);  /* mask of lanes at barrier k */
val_t gen_number_at(cpu_gen_t *gen, uint32_t k);               /* its number in PTX */
val_t gen_spinning_at(cpu_gen_t *gen, uint32_t j, unsigned g); /* mask of lanes at a header */
void gen_copy_registers(cpu_gen_t *gen, const uint64_t *which, bool save);

/* gen_barrier.c: stopping at barriers and going on */
void gen_barrier_stop(cpu_gen_t *gen, uint32_t b, const cpu_node_t *n);
void gen_barrier_arrive_masked(cpu_gen_t *gen, uint32_t b, const cpu_node_t *n);
void gen_barrier_resume(cpu_gen_t *gen, uint32_t k);
void gen_barrier_save(cpu_gen_t *gen);    /* who waits where */
void gen_barrier_release(cpu_gen_t *gen); /* who may go on does, the others wait as before */

/* gen_step.c: groups in step */
bool gen_step_possible(const cpu_gen_t *gen);
void gen_step_begin(cpu_gen_t *gen);                /* where each group begins, behind gen_setup */
void gen_step_enter(cpu_gen_t *gen, block_t begin); /* at the end of what gen_setup does */
/* The group stops with all its lanes, to go on in `state` (a constant). What is generated behind that is
 * for the case that the function is left. */
void gen_step_stop(cpu_gen_t *gen, val_t state);
void gen_done(cpu_gen_t *gen); /* the group has ended */

/* gen_exchange.c: thread by thread, before and after a meeting of lanes */
void gen_exchange_stop(cpu_gen_t *gen, const ptx_instr_t *i);
void gen_exchange_take(cpu_gen_t *gen, const ptx_instr_t *i);

/* gen_sync.c: where the lanes of a warp wait for each other */
void gen_sync_start(cpu_gen_t *gen);
val_t gen_sync_living(cpu_gen_t *gen, unsigned g); /* i32: bit per lane that has not ended */
void gen_sync_end_lanes(cpu_gen_t *gen, unsigned g, val_t lanes);
void gen_sync_resume(cpu_gen_t *gen);
/* Keeps those lanes of node b waiting (gen->masks) that wait for lanes elsewhere. */
void gen_sync_wait(cpu_gen_t *gen, uint32_t b);
/* Nobody waits but at such nodes, and behind barriers: where all goes on. */
void gen_sync_rescan(cpu_gen_t *gen);

/* gen_yield.c: giving way in spin loops, and going on with masks */
void gen_yield_start(cpu_gen_t *gen);
/* Before a back-edge to node `to`, every lane active. */
void gen_yield_fast(cpu_gen_t *gen, uint32_t to);
void gen_yield_resume_fast(cpu_gen_t *gen, uint32_t j);
bool gen_yield_spins(const cpu_gen_t *gen, uint32_t node); /* is it a spin loop's header? */
val_t gen_yield_arrived(cpu_gen_t *gen); /* i1: do lanes wait behind barriers? NULL: they cannot */
void gen_yield_rescan(cpu_gen_t *gen);   /* nobody waits but in spin loops and behind barriers */
void gen_yield_done(cpu_gen_t *gen);     /* nobody waits but behind barriers */
void gen_yield_resume(cpu_gen_t *gen);   /* with masks */

#endif

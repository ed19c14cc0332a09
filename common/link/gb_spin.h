/* gb_spin.h - whether a busy poll before sleeping pays, learnt from how long the waits were.
 *
 * To be woken takes some 3 us on a core that is busy and 40 to 75 us on one that is idle, more so in a
 * virtual machine. So the longest poll must be longer than the way through a peer that sleeps: with a
 * shorter one two ends that sleep never find each other awake again.
 *
 * The budget is doubled by what comes within half of the longest poll, and halved by what comes later or
 * not at all (long work at the peer, or both ends on one core, where a poll keeps the peer from
 * answering). At zero the caller sleeps at once. Then only waits that a poll would have been long enough
 * for make it worth another try: an idle connection costs nothing. Every fall to zero doubles the number
 * of such waits until the next try, up to 4096. Times in nanoseconds. One thread at a time. */
#ifndef GB_SPIN_H
#define GB_SPIN_H

#include <stdint.h>

typedef struct {
    uint32_t max;    /* longest poll; 0 = never */
    uint32_t budget; /* of the next poll */
    uint32_t passed; /* waits without a poll that one would have been long enough for */
    uint32_t retry;  /* of those, until the next try */
} gb_spin_t;

void gb_spin_init(gb_spin_t *spin, uint32_t max);

/* How long to poll now; 0 = not at all. */
uint32_t gb_spin_budget(const gb_spin_t *spin);

/* The poll found something after that time, or nothing. */
void gb_spin_hit(gb_spin_t *spin, uint64_t after);
void gb_spin_miss(gb_spin_t *spin);

/* Something came after sleeping; `waited` from the beginning of the wait. */
void gb_spin_slept(gb_spin_t *spin, uint64_t waited);

#endif

#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/client/rc_capture.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int key_made;
static uint32_t free_ids[RC_LANES];
static uint32_t free_count, next_id;
static _Thread_local rc_lane_t *mine __attribute__((tls_model("initial-exec")));

/* The thread ends: the sessions forget its lane before the number is used again. */
static void leave(void *arg)
{
    rc_lane_t *lane = arg;
    rc_capture_forget_lane(lane);
    if (atomic_load(&rc.phase) == RC_READY)
        for (int i = 0; i < rc.session_count; i++)
            if (lane->used[i])
                rc_send(rc.sessions[i], lane, NULL, PX_OP_LANE_END, NULL, 0, NULL, 0);
    pthread_mutex_lock(&lock);
    free_ids[free_count++] = lane->id;
    pthread_mutex_unlock(&lock);
    free(lane->stack);
    free(lane);
    mine = NULL;
}

static void make_key(void)
{
    key_made = pthread_key_create(&key, leave) == 0;
}

static rc_lane_t *enter(void)
{
    pthread_once(&once, make_key);
    rc_lane_t *lane = key_made ? calloc(1, sizeof(*lane)) : NULL;
    if (!lane)
        return NULL;
    pthread_mutex_lock(&lock);
    int room = free_count > 0 || next_id < RC_LANES;
    if (room)
        lane->id = free_count > 0 ? free_ids[--free_count] : next_id++;
    pthread_mutex_unlock(&lock);
    if (!room) {
        free(lane);
        return NULL;
    }
    pthread_setspecific(key, lane);
    mine = lane;
    return lane;
}

rc_lane_t *rc_lane(void)
{
    return mine ? mine : enter();
}

CUresult rc_lane_push(rc_lane_t *lane, CUcontext context)
{
    if (lane->depth == lane->room) {
        int room = lane->room * 2 + 4;
        CUcontext *grown = realloc(lane->stack, (size_t)room * sizeof(*grown));
        if (!grown)
            return CUDA_ERROR_OUT_OF_MEMORY;
        lane->stack = grown;
        lane->room = room;
    }
    lane->stack[lane->depth++] = context;
    return CUDA_SUCCESS;
}

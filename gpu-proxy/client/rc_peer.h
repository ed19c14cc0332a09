/* rc_peer.h - copies and waits between two sessions, which go from one proxy to the other: the client tells
 * both ends and goes on. Thread-safe.
 *
 * The first copy of a pair of sessions has a link made between them: one is told to expect the other, which
 * dials it where the client does; if that fails, the other way round. Two that cannot reach each other are
 * served through the client, which is decided once and logged once. */
#ifndef RC_PEER_H
#define RC_PEER_H

#include "gpu-proxy/client/rc_box.h"

/* 1: the box goes from proxy to proxy in the order of `stream`, or *result says why it cannot. 0: it has to go
 * through the client. The two sides are at different sessions. */
int rc_peer_copy(const rc_box_t *box, CUstream stream, CUresult *result);

/* The call's stream waits for an event of another session: 1 as above; 0: the client has to wait. */
int rc_peer_wait(rc_call_t *call, uint64_t wire_stream, rc_object_t *event, CUresult *result);

/* Waits for what is under way to and from the context's memory: before the context ends. */
void rc_peer_settle(const rc_object_t *context);

/* A session says that its link to another one is lost: words are the other's number and the attempt. */
void rc_peer_lost(rc_session_t *session, const uint64_t words[2]);

#endif

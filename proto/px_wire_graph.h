/* px_wire_graph.h - graphs on the wire.
 *
 * The client builds and captures graphs by itself. What travels is an executable graph: first its nodes,
 * one frame each, child graphs dissolved, every node behind those that it depends on; then the call that
 * instantiates it. A node is known by its position. From then on a launch is one small frame. */
#ifndef PX_WIRE_GRAPH_H
#define PX_WIRE_GRAPH_H

#include <stdint.h>

enum { PX_WIRE_GRAPH_NODES = 1 << 20, PX_WIRE_VALUES = 256 };

/* A node: this, `deps` u32 positions (padded to 8 bytes), then the body. In PX_OP_GRAPH_NODE frames the
 * position is the number of nodes that came before; in cuGraphExecNodeSetParams frames it is the node
 * that changes, and deps is 0. */
typedef struct {
    uint32_t exec;
    uint32_t position;
    uint32_t type; /* CUgraphNodeType */
    uint32_t deps;
    uint32_t body; /* bytes */
    int32_t priority;
} px_wire_node_t;

/* Bodies: a kernel's is px_wire_launch_t with its parameters, an event's is its u64 number, a host
 * function's the u64 token that names it to the client, that of values in memory a number of
 * px_wire_value_t; empty nodes have none. */

enum { PX_WIRE_NO_CLIENT, PX_WIRE_TO_CLIENT, PX_WIRE_FROM_CLIENT };

/* A copy of width x height x depth bytes, rows and layers. Sides are device addresses of the first byte,
 * but for one that is the client's: its bytes lie packed in a buffer of the node, which the client fills
 * (PX_OP_GRAPH_BYTES) before the copy, or reads (PX_OP_GRAPH_FETCH) after it, when it is asked to run the
 * token. */
typedef struct {
    uint64_t dst, dst_pitch, dst_height;
    uint64_t src, src_pitch, src_height;
    uint64_t width, height, depth;
    uint64_t dst_array,
        src_array; /* numbers of arrays that are sides in place of memory; 0: none */
    uint64_t dst_at[3], src_at[3]; /* where in those: bytes, rows, layers */
    uint64_t side;
    uint64_t token;
} px_wire_graph_copy_t;

typedef struct {
    uint64_t dst, pitch, width, height; /* width in elements */
    uint32_t value, element;
} px_wire_graph_fill_t;

typedef struct {
    uint32_t operation, flags;
    uint64_t address, value;
} px_wire_value_t;

#endif

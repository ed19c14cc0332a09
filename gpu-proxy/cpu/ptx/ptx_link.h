/* ptx_link.h - several PTX modules become one, as cuLink* and programs of separately compiled parts
 * (-rdc=true) want it.
 *
 * Linkage is what the PTX manual says: a .visible definition is the only one of its name; it takes the
 * place of .weak and .common ones, of which otherwise the first .weak, or the largest .common, stays;
 * an .extern declaration must find a definition that fits. Names without linkage belong to their
 * module: where two modules have the same, one is renamed. Debug information is dropped.
 * The result is PTX text, so that it can be kept in a file and loaded like any other.
 * One owner at a time. */
#ifndef PTX_LINK_H
#define PTX_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include "common/core/gb_status.h"
#include "gpu-proxy/cpu/ptx/ptx_parse.h"

typedef struct ptx_link ptx_link_t;

enum { PTX_MAX_LINKED = 16384 }; /* modules */

/* NULL when out of memory. */
ptx_link_t *ptx_link_new(void);

/* Takes a copy of `size` bytes of PTX. `name` is for messages. `optional`: a library's member, which
 * is linked only if it defines a name that is missing. Errors as from ptx_parse(). */
gb_status_t ptx_link_add(ptx_link_t *link, const char *name, const char *text, size_t size,
                         bool optional, ptx_log_t *log);

/* Modules added, optional ones included. */
size_t ptx_link_count(const ptx_link_t *link);

/* The linked text, which the caller frees; *length is without its NUL. `known` tells the functions
 * that need no definition, since the device has them (NULL: none). GB_ERR_INVALID: a name is
 * missing, defined twice or declared in two ways, with a line in the log for each; GB_ERR_LIMIT;
 * GB_ERR_NO_MEMORY. The modules stay: more may be added and linked again. */
gb_status_t ptx_link_finish(ptx_link_t *link, bool (*known)(const char *function), ptx_log_t *log,
                            char **text, size_t *length);

void ptx_link_free(ptx_link_t *link);

#endif

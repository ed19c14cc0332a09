/* ptx_linker.h - what the two files of the linker share; nobody else includes it. */
#ifndef PTX_LINKER_H
#define PTX_LINKER_H

#include "gpu-proxy/cpu/ptx/ptx_link.h"
#include "gpu-proxy/cpu/ptx/ptx_store.h"

typedef struct {
    char *name;
    char *text;
    ptx_module_t *ptx;
    bool optional, included;
    ptx_map_t renamed; /* name to index in ptx_link_t.names */
} ptx_input_t;

/* What a name without a definition of its own refers to, in the order of preference. */
typedef enum { PTX_DEF_NONE = 0, PTX_DEF_WEAK, PTX_DEF_COMMON, PTX_DEF_STRONG } ptx_def_t;

/* A function or variable that modules share. */
typedef struct {
    const char *name;
    bool is_function;
    bool used; /* by code or initial values; found out for names without a definition */
    ptx_def_t def;
    uint32_t input; /* that has the definition; without one: that declared it first */
    uint32_t index; /* of the function or variable in it */
} ptx_shared_name_t;

struct ptx_link {
    ptx_input_t *inputs;
    size_t count, room;
    /* while linking */
    ptx_map_t shared; /* name to index in shared_names */
    ptx_vec_t shared_names;
    ptx_vec_t names; /* char *: new names of renamed symbols */
};

/* Bytes being written. */
typedef struct {
    char *text;
    size_t used, room;
    bool failed; /* out of memory */
} ptx_out_t;

/* The name among those that are shared, or NULL. */
ptx_shared_name_t *ptx_link_shared(const ptx_link_t *link, const char *name, size_t length);

/* Appends the text of a module as it goes into the whole: without header and debug information, with
 * new names, and with only the declaration of what another module defines. */
void ptx_merge_module(const ptx_link_t *link, uint32_t input, ptx_out_t *out);
void ptx_out_add(ptx_out_t *out, const char *text, size_t size);

#endif

#include "gpu-proxy/cpu/ptx/ptx_link.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_linker.h"

static gb_status_t no_memory(void)
{
    return gb_fail(GB_ERR_NO_MEMORY, "link: out of memory");
}

ptx_link_t *ptx_link_new(void)
{
    return calloc(1, sizeof(ptx_link_t));
}

size_t ptx_link_count(const ptx_link_t *link)
{
    return link->count;
}

static void forget_input(ptx_input_t *input)
{
    ptx_module_free(input->ptx);
    ptx_map_free(&input->renamed);
    free(input->text);
    free(input->name);
}

/* What linking made; the inputs stay. */
static void forget_links(ptx_link_t *link)
{
    for (uint32_t i = 0; i < link->names.count; i++)
        free(((char **)link->names.data)[i]);
    ptx_vec_free(&link->names);
    ptx_vec_free(&link->shared_names);
    ptx_map_free(&link->shared);
    for (size_t i = 0; i < link->count; i++)
        ptx_map_free(&link->inputs[i].renamed);
}

void ptx_link_free(ptx_link_t *link)
{
    if (!link)
        return;
    forget_links(link);
    for (size_t i = 0; i < link->count; i++)
        forget_input(&link->inputs[i]);
    free(link->inputs);
    free(link);
}

/* The parser's messages, with the module's name before each. */
static void pass_log(ptx_log_t *log, const char *name, char *lines)
{
    char *rest = NULL;
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        ptx_log_add(log, "%s: %s", name, line);
}

static gb_status_t parse(ptx_input_t *input, size_t size, ptx_log_t *log)
{
    char lines[2048] = "";
    ptx_log_t own = {.text = lines, .size = sizeof lines};
    gb_status_t status = ptx_parse(input->text, size, &own, &input->ptx);
    if (status != GB_OK)
        pass_log(log, input->name, lines);
    return status;
}

gb_status_t ptx_link_add(ptx_link_t *link, const char *name, const char *text, size_t size,
                         bool optional, ptx_log_t *log)
{
    if (link->count >= PTX_MAX_LINKED)
        return gb_fail(GB_ERR_LIMIT, "link: more than %d modules", PTX_MAX_LINKED);
    if (link->count == link->room) {
        size_t room = link->room ? link->room * 2 : 8;
        ptx_input_t *grown = realloc(link->inputs, room * sizeof *grown);
        if (!grown)
            return no_memory();
        link->inputs = grown;
        link->room = room;
    }
    size = strnlen(text, size);
    ptx_input_t input = {.name = strdup(name), .text = malloc(size + 1), .optional = optional};
    gb_status_t status = input.name && input.text ? GB_OK : no_memory();
    if (status == GB_OK) {
        memcpy(input.text, text, size);
        input.text[size] = 0;
        status = parse(&input, size, log);
    }
    if (status != GB_OK) {
        forget_input(&input);
        return status;
    }
    link->inputs[link->count++] = input;
    return GB_OK;
}

ptx_shared_name_t *ptx_link_shared(const ptx_link_t *link, const char *name, size_t length)
{
    uint32_t index = ptx_map_get(&link->shared, name, length);
    return index == PTX_NONE ? NULL : (ptx_shared_name_t *)link->shared_names.data + index;
}

/* ---- what a module has ---- */

static bool is_module_var(const ptx_var_t *v)
{
    return v->owner == PTX_NONE;
}

static ptx_def_t def_of(uint8_t linkage, bool defined, bool kernel)
{
    if (!defined || linkage == PTX_LINK_EXTERN)
        return PTX_DEF_NONE;
    if (linkage == PTX_LINK_WEAK)
        return PTX_DEF_WEAK;
    if (linkage == PTX_LINK_COMMON)
        return PTX_DEF_COMMON;
    return linkage == PTX_LINK_VISIBLE || kernel ? PTX_DEF_STRONG : PTX_DEF_NONE;
}

static bool is_private(uint8_t linkage, bool defined, bool kernel)
{
    return linkage == PTX_LINK_LOCAL && defined && !kernel;
}

static bool same_params(const ptx_module_t *a, uint32_t a_first, const ptx_module_t *b,
                        uint32_t b_first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (a->vars[a_first + i].size != b->vars[b_first + i].size)
            return false;
    return true;
}

/* Do two modules mean the same thing by a name? */
static bool agree(const ptx_link_t *link, const ptx_shared_name_t *known, uint32_t input,
                  uint32_t index, bool is_function)
{
    const ptx_module_t *a = link->inputs[known->input].ptx, *b = link->inputs[input].ptx;
    if (known->is_function != is_function)
        return false;
    if (is_function) {
        const ptx_function_t *f = &a->functions[known->index], *g = &b->functions[index];
        return f->is_kernel == g->is_kernel && f->param_count == g->param_count &&
               f->result_count == g->result_count &&
               same_params(a, f->param_first, b, g->param_first, f->param_count) &&
               same_params(a, f->result_first, b, g->result_first, f->result_count);
    }
    const ptx_var_t *v = &a->vars[known->index], *w = &b->vars[index];
    bool common = v->linkage == PTX_LINK_COMMON && w->linkage == PTX_LINK_COMMON;
    return v->space == w->space && (v->size == w->size || v->size == 0 || w->size == 0 || common);
}

static uint64_t size_of(const ptx_link_t *link, const ptx_shared_name_t *name)
{
    return link->inputs[name->input].ptx->vars[name->index].size;
}

typedef struct {
    ptx_link_t *link;
    ptx_log_t *log;
    unsigned errors;
    gb_status_t status; /* of what stops at once */
} resolve_t;

static void complain(resolve_t *r, const char *what, const char *name, uint32_t input,
                     uint32_t other)
{
    const ptx_input_t *in = r->link->inputs;
    if (r->errors++ >= PTX_MAX_ERRORS)
        return;
    if (other == PTX_NONE)
        ptx_log_add(r->log, "link: %s '%s', used in %s", what, name, in[input].name);
    else
        ptx_log_add(r->log, "link: %s '%s' in %s and %s", what, name, in[other].name,
                    in[input].name);
}

static bool new_shared(resolve_t *r, const ptx_shared_name_t *entry)
{
    ptx_link_t *link = r->link;
    ptx_shared_name_t *own = ptx_vec_push(&link->shared_names, sizeof *own, 1);
    if (!own || !ptx_map_set(&link->shared, entry->name, strlen(entry->name),
                             link->shared_names.count - 1)) {
        r->status = no_memory();
        return false;
    }
    *own = *entry;
    return true;
}

/* A name that the module shares with others: declared, or defined with this strength. */
static bool share(resolve_t *r, const ptx_shared_name_t *entry)
{
    ptx_shared_name_t *known = ptx_link_shared(r->link, entry->name, strlen(entry->name));
    if (!known)
        return new_shared(r, entry);
    if (!agree(r->link, known, entry->input, entry->index, entry->is_function)) {
        complain(r, "different declarations of", entry->name, entry->input, known->input);
        return true;
    }
    if (entry->def == PTX_DEF_STRONG && known->def == PTX_DEF_STRONG &&
        known->input != entry->input)
        complain(r, "multiple definition of", entry->name, entry->input, known->input);
    bool larger = entry->def == PTX_DEF_COMMON && known->def == PTX_DEF_COMMON &&
                  size_of(r->link, entry) > size_of(r->link, known);
    if (entry->def > known->def || larger)
        *known = *entry;
    return true;
}

/* The device gives a kernel its dynamic shared memory: nobody defines that. */
static bool needs_no_definition(const ptx_var_t *v)
{
    return v->dynamic || v->space == PTX_SPACE_SHARED;
}

static bool share_all(resolve_t *r, uint32_t input)
{
    const ptx_module_t *m = r->link->inputs[input].ptx;
    for (uint32_t i = 0; i < m->function_count; i++) {
        const ptx_function_t *f = &m->functions[i];
        const ptx_shared_name_t entry = {.name = f->name,
                                         .is_function = true,
                                         .def = def_of(f->linkage, f->defined, f->is_kernel),
                                         .input = input,
                                         .index = i};
        if (!is_private(f->linkage, f->defined, f->is_kernel) && !share(r, &entry))
            return false;
    }
    for (uint32_t i = 0; i < m->var_count; i++) {
        const ptx_var_t *v = &m->vars[i];
        ptx_def_t def = needs_no_definition(v) && v->linkage == PTX_LINK_EXTERN
                            ? PTX_DEF_WEAK
                            : def_of(v->linkage, true, false);
        const ptx_shared_name_t entry = {.name = v->name, .def = def, .input = input, .index = i};
        if (is_module_var(v) && !is_private(v->linkage, true, false) && !share(r, &entry))
            return false;
    }
    return true;
}

/* Does the member of a library define what is missing? */
static bool is_wanted(const ptx_link_t *link, const ptx_module_t *m)
{
    for (uint32_t i = 0; i < m->function_count; i++) {
        const ptx_function_t *f = &m->functions[i];
        const ptx_shared_name_t *s = ptx_link_shared(link, f->name, strlen(f->name));
        if (s && s->def == PTX_DEF_NONE && def_of(f->linkage, f->defined, f->is_kernel))
            return true;
    }
    for (uint32_t i = 0; i < m->var_count; i++) {
        const ptx_var_t *v = &m->vars[i];
        const ptx_shared_name_t *s =
            is_module_var(v) ? ptx_link_shared(link, v->name, strlen(v->name)) : NULL;
        if (s && s->def == PTX_DEF_NONE && def_of(v->linkage, true, false))
            return true;
    }
    return false;
}

static bool include_members(resolve_t *r)
{
    bool again = true;
    while (again) {
        again = false;
        for (uint32_t i = 0; i < r->link->count; i++) {
            ptx_input_t *input = &r->link->inputs[i];
            if (input->included || !is_wanted(r->link, input->ptx))
                continue;
            input->included = again = true;
            if (!share_all(r, i))
                return false;
        }
    }
    return true;
}

static void use(const ptx_link_t *link, const char *name)
{
    ptx_shared_name_t *s = ptx_link_shared(link, name, strlen(name));
    if (s)
        s->used = true;
}

static void use_var(const ptx_link_t *link, const ptx_module_t *m, uint32_t var)
{
    if (m->vars[var].linkage == PTX_LINK_EXTERN)
        use(link, m->vars[var].name);
}

/* Notes what the module refers to: a name that is only declared needs no definition. */
static void note_uses(const ptx_link_t *link, const ptx_module_t *m)
{
    for (uint32_t i = 0; i < m->reloc_count; i++) {
        if (m->relocs[i].var != PTX_NONE)
            use_var(link, m, m->relocs[i].var);
        else
            use(link, m->functions[m->relocs[i].function].name);
    }
    for (uint32_t i = 0; i < m->function_count; i++) {
        const ptx_function_t *f = &m->functions[i];
        for (uint32_t c = 0; c < f->callee_count; c++)
            use(link, m->functions[f->callees[c]].name);
        for (uint32_t k = 0; k < f->operand_count; k++) {
            const ptx_operand_t *o = &f->operands[k];
            if (o->kind == PTX_OPERAND_VAR ||
                (o->kind == PTX_OPERAND_ADDRESS && o->base == PTX_OPERAND_VAR))
                use_var(link, m, o->index);
        }
    }
}

static bool resolve(resolve_t *r, bool (*known)(const char *function))
{
    for (uint32_t i = 0; i < r->link->count; i++) {
        r->link->inputs[i].included = !r->link->inputs[i].optional;
        if (r->link->inputs[i].included && !share_all(r, i))
            return false;
    }
    if (!include_members(r))
        return false;
    for (uint32_t i = 0; i < r->link->count; i++)
        if (r->link->inputs[i].included)
            note_uses(r->link, r->link->inputs[i].ptx);
    for (uint32_t i = 0; i < r->link->shared_names.count; i++) {
        const ptx_shared_name_t *s = (const ptx_shared_name_t *)r->link->shared_names.data + i;
        if (s->def == PTX_DEF_NONE && s->used && !(s->is_function && known && known(s->name)))
            complain(r, s->is_function ? "undefined function" : "undefined variable", s->name,
                     s->input, PTX_NONE);
    }
    return r->errors == 0;
}

/* ---- names of one module only ---- */

/* A private name that another module has already gets a new one. */
static bool rename_private(resolve_t *r, uint32_t input, ptx_map_t *taken, const char *name)
{
    ptx_link_t *link = r->link;
    size_t length = strlen(name), room = length + 32;
    if (ptx_map_get(taken, name, length) == PTX_NONE)
        return ptx_map_set(taken, name, length, 0);
    char *fresh = malloc(room);
    char **own = ptx_vec_push(&link->names, sizeof *own, 1);
    if (!fresh || !own) {
        free(fresh);
        return false;
    }
    *own = fresh;
    for (uint32_t n = input;; n++) {
        snprintf(fresh, room, "%s$%u", name, n);
        if (ptx_map_get(taken, fresh, strlen(fresh)) == PTX_NONE)
            break;
    }
    return ptx_map_set(taken, fresh, strlen(fresh), 0) &&
           ptx_map_set(&link->inputs[input].renamed, name, length, link->names.count - 1);
}

static bool rename_module(resolve_t *r, uint32_t input, ptx_map_t *taken)
{
    const ptx_module_t *m = r->link->inputs[input].ptx;
    for (uint32_t i = 0; i < m->function_count; i++) {
        const ptx_function_t *f = &m->functions[i];
        if (is_private(f->linkage, f->defined, f->is_kernel) &&
            !rename_private(r, input, taken, f->name))
            return false;
    }
    for (uint32_t i = 0; i < m->var_count; i++) {
        const ptx_var_t *v = &m->vars[i];
        if (is_module_var(v) && is_private(v->linkage, true, false) &&
            !rename_private(r, input, taken, v->name))
            return false;
    }
    return true;
}

static gb_status_t rename_all(resolve_t *r)
{
    ptx_map_t taken = {0};
    bool ok = true;
    for (uint32_t i = 0; ok && i < r->link->shared_names.count; i++) {
        const char *name = ((const ptx_shared_name_t *)r->link->shared_names.data)[i].name;
        ok = ptx_map_set(&taken, name, strlen(name), 0);
    }
    for (uint32_t i = 0; ok && i < r->link->count; i++)
        ok = !r->link->inputs[i].included || rename_module(r, i, &taken);
    ptx_map_free(&taken);
    return ok ? GB_OK : no_memory();
}

/* ---- the whole ---- */

static void write_header(const ptx_link_t *link, ptx_out_t *out)
{
    char head[160];
    unsigned modules = 0, version = 0;
    const ptx_module_t *newest = NULL;
    for (size_t i = 0; i < link->count; i++) {
        const ptx_module_t *m = link->inputs[i].ptx;
        if (!link->inputs[i].included)
            continue;
        modules++;
        if (m->isa_major * 100 + m->isa_minor > version)
            version = m->isa_major * 100 + m->isa_minor;
        if (!newest || m->sm > newest->sm)
            newest = m;
    }
    snprintf(head, sizeof head,
             "// linked from %u modules\n.version %u.%u\n.target %.40s\n.address_size 64\n\n",
             modules, version / 100, version % 100, newest ? newest->target : "sm_50");
    ptx_out_add(out, head, strlen(head));
}

static gb_status_t write_all(const ptx_link_t *link, char **text, size_t *length)
{
    ptx_out_t out = {0};
    write_header(link, &out);
    for (uint32_t i = 0; i < link->count; i++)
        if (link->inputs[i].included)
            ptx_merge_module(link, i, &out);
    if (out.failed || out.used > PTX_MAX_TEXT) {
        free(out.text);
        return out.failed ? no_memory() : gb_fail(GB_ERR_LIMIT, "link: more than 256 MiB of PTX");
    }
    *text = out.text;
    *length = out.used;
    return GB_OK;
}

gb_status_t ptx_link_finish(ptx_link_t *link, bool (*known)(const char *function), ptx_log_t *log,
                            char **text, size_t *length)
{
    resolve_t r = {.link = link, .log = log, .status = GB_OK};
    gb_status_t status = GB_OK;
    if (link->count == 0) {
        ptx_log_add(log, "link: there is nothing to link");
        return gb_fail(GB_ERR_INVALID, "link: there is nothing to link");
    }
    if (!resolve(&r, known))
        status =
            r.status != GB_OK ? r.status : gb_fail(GB_ERR_INVALID, "link: %u errors", r.errors);
    if (status == GB_OK)
        status = rename_all(&r);
    if (status == GB_OK)
        status = write_all(link, text, length);
    forget_links(link);
    return status;
}

/* ps_optimizer.c - the optimizer's text: "sgd lr=0.1 momentum=0.9 ...". */
#include "server/registry/ps_state.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static gb_status_t parse_number(const char *word, const char *value, double *out)
{
    char *end;
    errno = 0;
    double number = strtod(value, &end);
    if (!*value || *end || errno || !isfinite(number) || number < 0)
        return gb_fail(GB_ERR_INVALID, "optimizer: '%s' is not a number from 0 on", word);
    *out = number;
    return GB_OK;
}

static gb_status_t parse_word(char *word, ps_optimizer_t *out)
{
    char *equals = strchr(word, '=');
    if (!equals)
        return gb_fail(GB_ERR_INVALID, "optimizer: '%s' is not NAME=NUMBER", word);
    double number = 0;
    gb_status_t status = parse_number(word, equals + 1, &number);
    if (status != GB_OK)
        return status;
    *equals = 0;
    if (!strcmp(word, "lr"))
        out->lr = (float)number;
    else if (!strcmp(word, "momentum"))
        out->momentum = (float)number;
    else if (!strcmp(word, "weight_decay"))
        out->weight_decay = (float)number;
    else if (!strcmp(word, "nesterov"))
        out->nesterov = number != 0;
    else if (!strcmp(word, "lr_step"))
        out->lr_step = (uint64_t)number;
    else if (!strcmp(word, "lr_gamma"))
        out->lr_gamma = (float)number;
    else
        return gb_fail(GB_ERR_INVALID,
                       "optimizer: no '%s': there are lr, momentum, weight_decay, nesterov, "
                       "lr_step, lr_gamma",
                       word);
    return GB_OK;
}

gb_status_t ps_optimizer_parse(const char *text, ps_optimizer_t *out)
{
    char copy[256], *rest = NULL;
    if (strlen(text) >= sizeof copy)
        return gb_fail(GB_ERR_INVALID, "optimizer: the text is too long");
    strcpy(copy, text);
    ps_optimizer_t optimizer = {.kind = PS_SGD, .schedule = PS_LR_CONSTANT, .lr_gamma = 1};
    char *word = strtok_r(copy, " ", &rest);
    if (!word || strcmp(word, "sgd"))
        return gb_fail(GB_ERR_INVALID, "optimizer: '%s' is not known: use sgd", word ? word : "");
    while ((word = strtok_r(NULL, " ", &rest))) {
        gb_status_t status = parse_word(word, &optimizer);
        if (status != GB_OK)
            return status;
    }
    if (optimizer.lr <= 0)
        return gb_fail(GB_ERR_INVALID, "optimizer: lr=NUMBER is missing");
    if (optimizer.lr_step)
        optimizer.schedule = PS_LR_STEP;
    *out = optimizer;
    return GB_OK;
}

#include "tests/unit/cuda/facts.h"

#include <stddef.h>

#include "gpu-proxy/runtime/rt_types.h"

#define FACT(what, value) {what, value},
const fact_t facts_ours[] = {
#include "rt_facts.inc"
};
const unsigned facts_ours_count = sizeof(facts_ours) / sizeof(facts_ours[0]);

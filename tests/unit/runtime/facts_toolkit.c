#include "tests/unit/cuda/facts.h"

#include <stddef.h>

#include <cuda_runtime_api.h>

#define FACT(what, value) {what, value},
const fact_t facts_toolkit[] = {
#include "rt_facts.inc"
};
const unsigned facts_toolkit_count = sizeof(facts_toolkit) / sizeof(facts_toolkit[0]);

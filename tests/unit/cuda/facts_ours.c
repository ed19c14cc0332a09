#include "tests/unit/cuda/facts.h"

#include <stddef.h>

#include "common/cuda/gb_cuda.h"

#define FACT(what, value) {what, value},
const fact_t facts_ours[] = {
#include "cuda_facts.inc"
};
const unsigned facts_ours_count = sizeof(facts_ours) / sizeof(facts_ours[0]);

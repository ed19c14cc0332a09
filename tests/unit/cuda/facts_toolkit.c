#include "tests/unit/cuda/facts.h"

#include <stddef.h>

#include <cuda.h>
#include <cudaProfiler.h>

#define FACT(what, value) {what, value},
const fact_t facts_toolkit[] = {
#include "cuda_facts.inc"
};
const unsigned facts_toolkit_count = sizeof(facts_toolkit) / sizeof(facts_toolkit[0]);

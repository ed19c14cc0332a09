#include "tests/unit/cuda/facts.h"

#include <stddef.h>

#define __CUDA_API_VERSION_INTERNAL /* the forms of older versions too */
#include <cuda.h>
#include <cudaProfiler.h>

#define FACT(what, value) {what, value},
const fact_t facts_toolkit[] = {
#include "cuda_facts.inc"
};
const unsigned facts_toolkit_count = sizeof(facts_toolkit) / sizeof(facts_toolkit[0]);

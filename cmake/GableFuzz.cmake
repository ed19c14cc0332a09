# gable_add_fuzz(NAME n TARGET file.c SOURCES a.c... CORPUS folder [MADE g.c...] [LIBS -lx...] [SECONDS s]
#                [MAX n] [FLAGS -f...] [PLAIN])
# A libFuzzer program with ASan and UBSan, compiled by clang-19 from the sources it covers, and a bounded
# run of it as a test (label fuzz). New inputs stay in the build folder. MADE: generated sources. PLAIN:
# without ASan.
find_program(GABLE_CLANG clang-19)

function(gable_add_fuzz)
  cmake_parse_arguments(F "PLAIN" "NAME;TARGET;CORPUS;SECONDS;MAX" "SOURCES;MADE;FLAGS;LIBS" ${ARGN})
  # the sanitizer builds would only repeat what this build does with sanitizers of its own
  if(NOT GABLE_CLANG OR GABLE_SANITIZE)
    return()
  endif()
  if(NOT F_SECONDS)
    set(F_SECONDS 5)
  endif()
  if(NOT F_MAX)
    set(F_MAX 4096)
  endif()
  list(TRANSFORM F_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
  list(TRANSFORM F_MADE PREPEND ${GB_GEN}/)
  list(APPEND sources ${F_MADE})
  set(sanitizers fuzzer,address,undefined)
  if(F_PLAIN)
    set(sanitizers fuzzer,undefined)
  endif()
  set(target ${CMAKE_CURRENT_SOURCE_DIR}/${F_TARGET})
  set(program ${CMAKE_BINARY_DIR}/tests/${F_NAME})
  set(found ${CMAKE_BINARY_DIR}/tests/${F_NAME}.found)
  add_custom_command(OUTPUT ${program}
    COMMAND ${GABLE_CLANG} -std=c11 -D_GNU_SOURCE -g -O1
            -fsanitize=${sanitizers} -fno-sanitize-recover=undefined ${F_FLAGS}
            -I${CMAKE_SOURCE_DIR} -I${CMAKE_BINARY_DIR}/gen ${target} ${sources} -o ${program}
            ${F_LIBS} -lpthread
    DEPENDS ${target} ${sources} VERBATIM)
  add_custom_target(${F_NAME} ALL DEPENDS ${program})
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/${F_CORPUS})
  # Each run starts from the committed inputs alone, so that it does not depend on the runs before.
  set(options "-seed=1 -max_total_time=${F_SECONDS} -max_len=${F_MAX} -timeout=5 -verbosity=0")
  add_test(NAME ${F_NAME} COMMAND sh -c
    "rm -rf '${found}' && mkdir -p '${found}' && exec '${program}' ${options} \
     -artifact_prefix='${found}.' '${found}' '${corpus}'")
  math(EXPR limit "${F_SECONDS} + 55")
  set_tests_properties(${F_NAME} PROPERTIES LABELS fuzz TIMEOUT ${limit})
endfunction()

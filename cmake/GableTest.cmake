# gable_add_test(NAME n SOURCES a.c... [LIBS l...] LABEL unit|ptx|e2e|fault|fuzz|gpu
#                [TIMEOUT s] [ARGS a...] [ENV V=x...])
# One test program, one process, one timeout. cmocka is linked in.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

function(gable_add_test)
  cmake_parse_arguments(T "" "NAME;LABEL;TIMEOUT" "SOURCES;LIBS;ARGS;ENV" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 30)
  endif()
  if(GABLE_SANITIZE)
    math(EXPR T_TIMEOUT "${T_TIMEOUT} * 4")
  endif()
  add_executable(${T_NAME} ${T_SOURCES})
  set_target_properties(${T_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${T_NAME} PRIVATE ${T_LIBS} PkgConfig::CMOCKA Threads::Threads)
  target_compile_definitions(${T_NAME} PRIVATE
    GABLE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" GABLE_BUILD_DIR="${CMAKE_BINARY_DIR}")
  add_test(NAME ${T_NAME} COMMAND ${T_NAME} ${T_ARGS})
  set_tests_properties(${T_NAME} PROPERTIES LABELS "${T_LABEL}" TIMEOUT ${T_TIMEOUT}
                       ENVIRONMENT "${T_ENV}")
endfunction()

# gable_add_script_test(NAME n SCRIPT path LABEL l [TIMEOUT s] [ARGS a...] [ENV V=x...])
# A test that starts real processes; the script gets the build folder as GABLE_BUILD_DIR.
function(gable_add_script_test)
  cmake_parse_arguments(T "" "NAME;SCRIPT;LABEL;TIMEOUT" "ARGS;ENV" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 60)
  endif()
  if(GABLE_SANITIZE)
    math(EXPR T_TIMEOUT "${T_TIMEOUT} * 4")
  endif()
  add_test(NAME ${T_NAME} COMMAND ${T_SCRIPT} ${T_ARGS})
  set_tests_properties(${T_NAME} PROPERTIES LABELS "${T_LABEL}" TIMEOUT ${T_TIMEOUT}
    ENVIRONMENT "GABLE_BUILD_DIR=${CMAKE_BINARY_DIR};GABLE_SOURCE_DIR=${CMAKE_SOURCE_DIR};GABLE_SANITIZE=${GABLE_SANITIZE};${T_ENV}")
endfunction()

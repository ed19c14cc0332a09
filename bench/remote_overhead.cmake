add_executable(remote_overhead remote_overhead.c bench_process.c)
target_link_libraries(remote_overhead PRIVATE wk_train Threads::Threads m)
target_compile_definitions(remote_overhead PRIVATE GABLE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
set_target_properties(remote_overhead PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)

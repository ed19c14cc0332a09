add_executable(remote_calls remote_calls.c bench_process.c)
target_link_libraries(remote_calls PRIVATE gb_cuda gb_core m)
add_dependencies(remote_calls px_client gpu-proxy gpu-session)
set_target_properties(remote_calls PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)

add_executable(param_exchange param_exchange.c)
target_link_libraries(param_exchange PRIVATE gbx ps_params gb_cuda gb_core Threads::Threads m)
add_dependencies(param_exchange cpu_cuda)
set_target_properties(param_exchange PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)

pkg_check_modules(OPENSSL REQUIRED IMPORTED_TARGET libssl libcrypto)
add_executable(remoting remoting.c remoting_rows.c remoting_more.c remoting_site.c remoting_raw.c
                        bench_process.c)
target_link_libraries(remoting PRIVATE wk_train gb_cuda gb_core PkgConfig::OPENSSL Threads::Threads m)
target_compile_definitions(remoting PRIVATE GABLE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
add_dependencies(remoting px_client gpu-proxy gpu-session cpu_cuda)
set_target_properties(remoting PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)

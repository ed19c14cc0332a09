add_executable(mnist_epoch mnist_epoch.c bench_peak.c)
target_link_libraries(mnist_epoch PRIVATE wk_train Threads::Threads m)
target_compile_definitions(mnist_epoch PRIVATE GABLE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
set_target_properties(mnist_epoch PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)

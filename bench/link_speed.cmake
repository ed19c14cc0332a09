add_executable(link_speed link_speed.c)
target_link_libraries(link_speed PRIVATE gb_link m)
set_target_properties(link_speed PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)

# Flags that every target of the tree is built with.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

add_compile_definitions(_GNU_SOURCE GABLE_VERSION="${PROJECT_VERSION}")
add_compile_options(-Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wvla
                    -Wno-missing-field-initializers -fno-strict-aliasing -fno-common)
include_directories(${CMAKE_SOURCE_DIR})

if(GABLE_SANITIZE)
  add_compile_options(-fsanitize=${GABLE_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${GABLE_SANITIZE})
  add_compile_definitions(GABLE_SANITIZED=1)
endif()

# Device code: CUDA C compiled to PTX by clang, without a CUDA toolkit.
find_program(GABLE_DEVICE_CLANG NAMES clang-19 clang-20 clang-18 clang
             DOC "clang that compiles CUDA C to PTX")
if(NOT GABLE_DEVICE_CLANG)
  message(FATAL_ERROR "clang-19 is missing: run deploy/setup.sh, or apt-get install clang-19")
endif()
set(GABLE_DEVICE_ARCH sm_70 CACHE STRING "compute architecture that device code is compiled for")

# gable_add_ptx(<target> <out.ptx> <in.cu> [options...])
# Compiles <in.cu> (relative to the source folder) to <out.ptx> (relative to the binary folder) as
# part of the build; options go to the compiler. The file's full path is the target's property
# GABLE_PTX. Include common/cuda/gb_device.cuh first.
function(gable_add_ptx target out in)
  get_filename_component(out_path ${out} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_BINARY_DIR})
  get_filename_component(in_path ${in} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_SOURCE_DIR})
  add_custom_command(
    OUTPUT ${out_path}
    COMMAND ${GABLE_DEVICE_CLANG} -x cuda --cuda-path=/nonexistent -nocudainc -nocudalib
            --cuda-device-only --cuda-gpu-arch=${GABLE_DEVICE_ARCH} --cuda-feature=+ptx70
            -fdeclspec -std=c++17 -O3 -Wall -Wextra -Werror -Wno-unused-function
            -I${CMAKE_SOURCE_DIR} ${ARGN} -MD -MF ${out_path}.d -MT ${out_path}
            -S ${in_path} -o ${out_path}
    DEPENDS ${in_path}
    DEPFILE ${out_path}.d
    COMMENT "Device code ${in}"
    VERBATIM)
  add_custom_target(${target} ALL DEPENDS ${out_path})
  set_target_properties(${target} PROPERTIES GABLE_PTX ${out_path})
endfunction()

# gable_embed(<target> <symbol> <file> [ptx target])
# Puts the bytes of <file> (relative to the binary folder) into <target> as
#   extern const char <symbol>[], <symbol>_end[];
# with one zero byte after the last. [ptx target] is the gable_add_ptx() target that makes the file.
function(gable_embed target symbol file)
  get_filename_component(path ${file} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_BINARY_DIR})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${symbol}_embedded.c)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [[
/* Generated: the bytes of @file@. */
extern const char @symbol@[], @symbol@_end[];
__asm__(".section .rodata.@symbol@,\"a\",@progbits\n"
        ".balign 16\n"
        ".globl @symbol@\n.hidden @symbol@\n.type @symbol@,@object\n"
        ".globl @symbol@_end\n.hidden @symbol@_end\n"
        "@symbol@:\n"
        ".incbin \"@path@\"\n"
        "@symbol@_end:\n"
        ".byte 0\n"
        ".size @symbol@,.-@symbol@\n"
        ".text\n");
]])
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${path})
  target_sources(${target} PRIVATE ${source})
  if(ARGC GREATER 3)
    add_dependencies(${target} ${ARGV3})
  endif()
endfunction()

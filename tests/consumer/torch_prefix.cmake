# A package that was built with ENERGON_TORCH_PREFIX gives its users the same libtorch, or says what to do. No library is built: the
# targets and libtorch are empty files.
#   cmake -D CONFIG_DIR=… -D WORK_DIR=… -D COMPILER=… -P torch_prefix.cmake
file(REMOVE_RECURSE ${WORK_DIR})
set(package ${WORK_DIR}/lib/cmake/energon)
foreach(file energonTargets.cmake energonTorchTargets.cmake)
  file(WRITE ${package}/${file} "")
endforeach()
foreach(library torch_cpu c10)
  file(WRITE ${WORK_DIR}/torch/lib/lib${library}.so "")
endforeach()
file(MAKE_DIRECTORY ${WORK_DIR}/torch/include/torch/csrc/api/include)
file(COPY ${CONFIG_DIR}/energon_torch.cmake DESTINATION ${package})
file(WRITE ${WORK_DIR}/maker/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(maker NONE)
include(CMakePackageConfigHelpers)
set(ENERGON_TORCH_PREFIX ${WORK_DIR}/torch)
configure_package_config_file(${CONFIG_DIR}/energonConfig.cmake.in ${package}/energonConfig.cmake INSTALL_DESTINATION ${package}
  INSTALL_PREFIX ${WORK_DIR})
")
file(WRITE ${WORK_DIR}/user/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(user CXX)
find_package(energon REQUIRED COMPONENTS torch)
get_target_property(location torch IMPORTED_LOCATION)
message(STATUS \"torch is \${location}\")
")

# Configures a project; `output` is what CMake said, with all white space made one space.
function(configure name)
  execute_process(COMMAND ${CMAKE_COMMAND} -G Ninja -S ${WORK_DIR}/${name} -B ${WORK_DIR}/${name}/build --fresh
      -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_PREFIX_PATH=${WORK_DIR} ${ARGN}
    RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
  string(REGEX REPLACE "[ \n]+" " " out "${out}")
  set(output "${result}: ${out}" PARENT_SCOPE)
endfunction()

function(expect text)
  string(FIND "${output}" "${text}" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "expected '${text}' in: ${output}")
  endif()
endfunction()

configure(maker)
expect("0: ")
configure(user)
expect("torch is ${WORK_DIR}/torch/lib/libtorch_cpu.so")
file(RENAME ${WORK_DIR}/torch ${WORK_DIR}/moved)
configure(user)
expect("1: ")
expect("set -D ENERGON_TORCH_PREFIX=<folder of the torch package>")
configure(user -D ENERGON_TORCH_PREFIX=${WORK_DIR}/moved)
expect("torch is ${WORK_DIR}/moved/lib/libtorch_cpu.so")

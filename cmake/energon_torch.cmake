# The target `torch` for energon::torch: libtorch of version 1.13 or 2.
#
# ENERGON_TORCH_PREFIX is for the torch package of a Python environment:
#   cmake -D ENERGON_TORCH_PREFIX="$(python3 -c 'import torch; print(torch.__path__[0])')" …
# Its own CMake configuration asks for the CUDA toolkit if the package was built with CUDA, as the one from PyPI is. Only its CPU part
# is needed here: libtorch_cpu and libc10. If empty, looks for an installed libtorch (Debian's libtorch-dev, or a CMAKE_PREFIX_PATH). This
# file is installed with the package, whose energonConfig.cmake sets energon_torch_prefix to the value at build time.
set(ENERGON_TORCH_PREFIX "${energon_torch_prefix}" CACHE PATH "Folder of a Python torch package; empty means find_package(Torch)")

if(NOT ENERGON_TORCH AND DEFINED ENERGON_TORCH)
  # Not requested.
elseif(ENERGON_TORCH_PREFIX)
  foreach(library torch_cpu c10)
    if(NOT EXISTS ${ENERGON_TORCH_PREFIX}/lib/lib${library}.so)
      message(FATAL_ERROR "ENERGON_TORCH_PREFIX is ${ENERGON_TORCH_PREFIX}, which has no lib/lib${library}.so; set "
        "-D ENERGON_TORCH_PREFIX=<folder of the torch package>")
    endif()
  endforeach()
  if(TARGET torch)
    message(FATAL_ERROR "a target torch already exists, but energon::torch needs that of ENERGON_TORCH_PREFIX "
      "(${ENERGON_TORCH_PREFIX}): remove find_package(Torch)")
  endif()
  add_library(torch SHARED IMPORTED)
  set_target_properties(torch PROPERTIES
    IMPORTED_LOCATION ${ENERGON_TORCH_PREFIX}/lib/libtorch_cpu.so
    INTERFACE_INCLUDE_DIRECTORIES "${ENERGON_TORCH_PREFIX}/include;${ENERGON_TORCH_PREFIX}/include/torch/csrc/api/include"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${ENERGON_TORCH_PREFIX}/include;${ENERGON_TORCH_PREFIX}/include/torch/csrc/api/include"
    # The package contains headers of its own fmt, but not its library.
    INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO;FMT_HEADER_ONLY=1"
    INTERFACE_LINK_LIBRARIES ${ENERGON_TORCH_PREFIX}/lib/libc10.so
    # libtorch_cpu finds its own CUDA dependencies through its run path.
    INTERFACE_LINK_OPTIONS "LINKER:--allow-shlib-undefined;LINKER:--no-as-needed")
  set(Torch_FOUND TRUE)
elseif(ENERGON_TORCH STREQUAL "AUTO")
  # A libtorch built with CUDA stops the configuration if the toolkit is missing, so it is probed in a separate project first.
  if(NOT DEFINED ENERGON_TORCH_USABLE)
    set(probe ${CMAKE_BINARY_DIR}/torch_probe)
    file(WRITE ${probe}/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)\nproject(probe CXX)\nfind_package(Torch REQUIRED)\n")
    execute_process(
      COMMAND ${CMAKE_COMMAND} -S ${probe} -B ${probe}/build -G ${CMAKE_GENERATOR} -D CMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
        "-DCMAKE_PREFIX_PATH=${CMAKE_PREFIX_PATH}" "-DTorch_DIR=${Torch_DIR}"
      RESULT_VARIABLE result OUTPUT_FILE ${probe}/log.txt ERROR_FILE ${probe}/log.txt)
    if(result EQUAL 0)
      set(ENERGON_TORCH_USABLE TRUE CACHE INTERNAL "Whether find_package(Torch) succeeds")
    else()
      set(ENERGON_TORCH_USABLE FALSE CACHE INTERNAL "Whether find_package(Torch) succeeds")
    endif()
  endif()
  if(ENERGON_TORCH_USABLE)
    find_package(Torch QUIET)
  endif()
elseif(ENERGON_TORCH)
  find_package(Torch REQUIRED)
endif()

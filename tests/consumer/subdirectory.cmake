# A project that has the sources in a folder of its own: it configures without tests, program and -Werror, and its code compiles.
#   cmake -D SOURCE_DIR=… -D WORK_DIR=… -D COMPILER=… -P subdirectory.cmake
file(REMOVE_RECURSE ${WORK_DIR})
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/consumer -B ${WORK_DIR} -G Ninja -D CONSUMER=subdirectory
    -D ENERGON_SOURCE_DIR=${SOURCE_DIR} -D CMAKE_CXX_COMPILER=${COMPILER} -D ENERGON_TORCH=OFF
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "it does not configure:\n${output}")
endif()
if(output MATCHES "CMake (Deprecation )?Warning")
  message(FATAL_ERROR "the configuration warns:\n${output}")
endif()
foreach(line "warnings as errors  no" "program energon     no" "energon::protocols  no" "tests               no" "energon::torch      no \\(ENERGON_TORCH=OFF\\)")
  if(NOT output MATCHES "${line}")
    message(FATAL_ERROR "expected '${line}' in:\n${output}")
  endif()
endforeach()
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK_DIR} --target consumer
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the project does not compile:\n${output}")
endif()

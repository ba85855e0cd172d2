# Installs the build tree, builds the consumer against the install tree and runs it on two samples.
#   cmake -D BUILD_DIR=… -D SOURCE_DIR=… -D WORK_DIR=… -D COMPILER=… -D FLAGS=… -P run.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN} failed (${result}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR}/data)
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)
run(${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR}/build -G Ninja -D CMAKE_PREFIX_PATH=${WORK_DIR}/prefix
  -D CMAKE_CXX_COMPILER=${COMPILER} "-DCMAKE_CXX_FLAGS=${FLAGS}")
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
file(WRITE ${WORK_DIR}/data/a.txt "first")
file(WRITE ${WORK_DIR}/data/b.txt "second")
execute_process(COMMAND ${CMAKE_COMMAND} -E tar cf shard.tar --format=paxr a.txt b.txt
  WORKING_DIRECTORY ${WORK_DIR}/data)
run(${WORK_DIR}/build/consumer ${WORK_DIR}/data)
if(NOT output STREQUAL "2 samples\n")
  message(FATAL_ERROR "expected 2 samples, got: ${output}")
endif()

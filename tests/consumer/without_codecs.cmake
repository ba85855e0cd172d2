# energon::media builds without any codec, and says what it lacks when one is needed.
#   cmake -D SOURCE_DIR=… -D WORK_DIR=… -D COMPILER=… -P without_codecs.cmake
file(REMOVE_RECURSE ${WORK_DIR})
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGV}: ${result}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()
run(${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/consumer -B ${WORK_DIR} -G Ninja -D CONSUMER=without_codecs -D ENERGON_SOURCE_DIR=${SOURCE_DIR}
  -D CMAKE_CXX_COMPILER=${COMPILER} -D ENERGON_TORCH=OFF -D ENERGON_WITHOUT=ALL -D ENERGON_BUILD_CLI=OFF -D CMAKE_UNITY_BUILD=ON)
set(line "media without       FFMPEG, JPEG, LIBPNG, SENTENCEPIECE, TIFF, WEBP, GIF")
if(NOT output MATCHES "${line}")
  message(FATAL_ERROR "expected '${line}' in:\n${output}")
endif()
run(${CMAKE_COMMAND} --build ${WORK_DIR} --target consumer -- -j 2)
run(${WORK_DIR}/consumer)

# energon_flags contains the compile flags of all our targets; consumers only inherit C++20.
add_library(energon_flags INTERFACE)
target_compile_features(energon_flags INTERFACE cxx_std_20)
target_compile_definitions(energon_flags INTERFACE _FILE_OFFSET_BITS=64)
if(ENERGON_DEVELOPER_MODE)
  target_compile_options(energon_flags INTERFACE -Wall -Wextra -Wpedantic -Werror)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(energon_flags INTERFACE -Wthread-safety)  # checks the annotations of io/concurrency.h
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # False warnings of g++ 12 about inlined std::string, std::function and std::optional in optimized code.
    set(false_flow_warnings -Wno-array-bounds -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow)
    target_compile_options(energon_flags INTERFACE "$<$<NOT:$<CONFIG:Debug>>:${false_flow_warnings}>")
  endif()
  if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(energon_flags INTERFACE -Wno-subobject-linkage)  # unity builds include sources
  endif()
endif()
# Libraries and property tests of a Debug build, with all assertions: they take most of the suite's time. -g1 contains functions and lines, but not
# variables, which would be copied into each of a hundred programs: 9 GB, and a sixth of the compile time.
set(optimized_debug "")
if(ENERGON_OPTIMIZED_DEBUG)
  target_compile_options(energon_flags INTERFACE "$<$<CONFIG:Debug>:-g1>")
  set(optimized_debug "$<$<CONFIG:Debug>:-O2;${false_flow_warnings}>")
endif()
if(ENERGON_SANITIZE)
  # -O1 -g1: half of the compile time of -O2 -g, and reports still name functions and lines. Test code compiles five times as fast at -O0
  # and without UBSan, whose checks are meant for the code under test. UNOPTIMIZED libraries and programs compile in half of the time at -O0.
  string(REPLACE "," "$<COMMA>" sanitizers "${ENERGON_SANITIZE}")
  string(REPLACE "$<COMMA>undefined" "" test_sanitizers "${sanitizers}")
  if(ENERGON_FUZZ)
    string(APPEND sanitizers "$<COMMA>fuzzer-no-link")  # libFuzzer's counters, which test programs ignore
  endif()
  target_compile_options(energon_flags INTERFACE -fno-omit-frame-pointer -fno-sanitize-recover=all -g1
    "$<IF:$<BOOL:$<TARGET_PROPERTY:ENERGON_TEST_CODE>>,-fsanitize=${test_sanitizers};-O0,-fsanitize=${sanitizers};$<IF:$<BOOL:$<TARGET_PROPERTY:ENERGON_UNOPTIMIZED>>,-O0,-O1>>")
  target_link_options(energon_flags INTERFACE -fsanitize=${ENERGON_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumented code of std::regex (in Catch2) gives g++ 12 false alarms; Boost's headers mention fences, which TSan
    # does not model and we do not use.
    target_compile_options(energon_flags INTERFACE -Wno-maybe-uninitialized -Wno-tsan)
  endif()
endif()
define_property(TARGET PROPERTY ENERGON_UNOPTIMIZED BRIEF_DOCS "Whether a target takes little time in tests, so that sanitizer builds compile it with -O0")
define_property(TARGET PROPERTY ENERGON_TEST_CODE BRIEF_DOCS "Whether a target is part of the tests rather than of the tested code")

if(ENERGON_COVERAGE)
  # Our processes end with _exit(), which does not write the counters; the wrapper writes them first.
  add_library(energon_coverage_exit STATIC ${PROJECT_SOURCE_DIR}/cmake/coverage_exit.cpp)
  target_compile_options(energon_flags INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(energon_flags INTERFACE --coverage -Wl,--wrap=_exit)
  target_link_libraries(energon_flags INTERFACE energon_coverage_exit)
endif()

if(ENERGON_DEVELOPER_MODE)
  find_program(CCACHE_PROGRAM ccache)
endif()
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
endif()

# energon_files(HEADERS … INTERNAL … SOURCES …): the files of this folder, for the target of a parent folder that lists it in FOLDERS.
function(energon_files)
  cmake_parse_arguments(ARG "" "" "HEADERS;INTERNAL;SOURCES" ${ARGN})
  foreach(kind HEADERS INTERNAL SOURCES)
    list(TRANSFORM ARG_${kind} PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    set_property(GLOBAL APPEND PROPERTY ENERGON_${kind}:${CMAKE_CURRENT_SOURCE_DIR} ${ARG_${kind}})
  endforeach()
endfunction()

# Adds each of ARG_FOLDERS, and the files that it lists to ARG_HEADERS, ARG_INTERNAL and ARG_SOURCES.
macro(energon_add_folders)
  foreach(folder IN LISTS ARG_FOLDERS)
    add_subdirectory(${folder})
    foreach(kind HEADERS INTERNAL SOURCES)
      get_property(files GLOBAL PROPERTY ENERGON_${kind}:${CMAKE_CURRENT_SOURCE_DIR}/${folder})
      list(APPEND ARG_${kind} ${files})
    endforeach()
  endforeach()
endmacro()

# With CMAKE_UNITY_BUILD the sources of a folder are compiled as one: a third of the time of a first build. Tests, whose folders are
# larger, in groups of eight.
set(energon_unity_group_size 1000)
function(energon_unity_by_folder target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS ARGN)
    get_filename_component(source ${source} ABSOLUTE)
    get_filename_component(folder ${source} DIRECTORY)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
    string(MAKE_C_IDENTIFIER "folder_${folder}" folder)
    math(EXPR group "0${${folder}_sources} / ${energon_unity_group_size}")
    math(EXPR ${folder}_sources "0${${folder}_sources} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
  endforeach()
endfunction()

# energon_headers_compile_alone(TARGET HEADER…): headers that are not installed.
function(energon_headers_compile_alone target)
  add_library(${target}_internal INTERFACE)
  target_sources(${target}_internal INTERFACE FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARGN})
  set_target_properties(${target}_internal PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
endfunction()

# energon_library(NAME core [UNOPTIMIZED] FOLDERS … HEADERS … INTERNAL … SOURCES … DEPENDS … USES …): target energon_core, alias energon::core, of the
# files of this folder and of FOLDERS. HEADERS are installed, INTERNAL ones are not. DEPENDS are part of the interface, USES are not. Every
# header is compiled alone by all_verify_interface_header_sets.
function(energon_library)
  cmake_parse_arguments(ARG "UNOPTIMIZED" "NAME" "FOLDERS;HEADERS;INTERNAL;SOURCES;DEPENDS;USES" ${ARGN})
  energon_add_folders()
  set(target energon_${ARG_NAME})
  add_library(${target} STATIC ${ARG_SOURCES})
  add_library(energon::${ARG_NAME} ALIAS ${target})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARG_HEADERS})
  set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON CXX_EXTENSIONS OFF
    EXPORT_NAME ${ARG_NAME} POSITION_INDEPENDENT_CODE ON ENERGON_UNOPTIMIZED ${ARG_UNOPTIMIZED})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE "${optimized_debug}")
  energon_unity_by_folder(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_USES} $<BUILD_INTERFACE:energon_flags>)
  if(ARG_INTERNAL)
    energon_headers_compile_alone(${target} ${ARG_INTERNAL})
    target_link_libraries(${target}_internal INTERFACE ${target} ${ARG_USES})
  endif()
  set_property(GLOBAL APPEND PROPERTY ENERGON_LIBRARIES ${target})
endfunction()

# energon_program(NAME energon FOLDERS … INTERNAL … SOURCES … USES …)
function(energon_program)
  cmake_parse_arguments(ARG "" "NAME" "FOLDERS;INTERNAL;SOURCES;USES" ${ARGN})
  energon_add_folders()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  set_target_properties(${ARG_NAME} PROPERTIES CXX_EXTENSIONS OFF ENERGON_UNOPTIMIZED ON)
  energon_unity_by_folder(${ARG_NAME} ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_USES} energon_flags)
  if(ARG_INTERNAL)
    energon_headers_compile_alone(${ARG_NAME} ${ARG_INTERNAL})
    target_link_libraries(${ARG_NAME}_internal INTERFACE ${ARG_USES} energon_flags)
  endif()
endfunction()

# energon_test(NAME io [FORKS] FOLDERS … SOURCES … USES …): one Catch2 program, every case a ctest. FORKS: some cases are tagged [fork]; they get the
# label fork, which the tsan preset excludes (TSan does not follow a fork). SOAK: some cases are tagged [.][soak]; they get the label soak, which all
# presets exclude. TORCH: compiles with the flags of libtorch, without the precompiled header of the other tests. A case that cannot run here exits
# with 77 (tests/support/skip.h), and ctest shows "Skipped".
function(energon_test)
  cmake_parse_arguments(ARG "FORKS;SOAK;TORCH" "NAME" "FOLDERS;SOURCES;USES" ${ARGN})
  energon_add_folders()
  set(target ${ARG_NAME}_tests)
  if(NOT ARG_FORKS)
    foreach(source IN LISTS ARG_SOURCES)
      file(STRINGS ${source} tagged REGEX "\\[fork\\]")
      if(tagged)
        message(FATAL_ERROR "${source} has cases tagged [fork], which would not run: add FORKS")
      endif()
    endforeach()
  endif()
  add_executable(${target} ${ARG_SOURCES})
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF ENERGON_TEST_CODE ON)
  target_link_libraries(${target} PRIVATE ${ARG_USES} energon_test_support energon_flags)
  if(NOT ARG_TORCH)
    target_precompile_headers(${target} REUSE_FROM energon_dataset_support)
  endif()
  energon_unity_by_folder(${target} ${ARG_SOURCES})
  set(property_tests ${ARG_SOURCES})
  list(FILTER property_tests INCLUDE REGEX "_property_test\\.cpp$")
  if(property_tests AND optimized_debug)
    # A precompiled header has a single optimization level.
    set_source_files_properties(${property_tests} PROPERTIES COMPILE_OPTIONS "${optimized_debug}" SKIP_PRECOMPILE_HEADERS ON)
  endif()
  catch_discover_tests(${target} TEST_PREFIX "${ARG_NAME}: " TEST_SPEC "~[fork]~[soak]"
    PROPERTIES TIMEOUT 1200 SKIP_RETURN_CODE 77)
  if(ARG_FORKS)
    catch_discover_tests(${target} TEST_PREFIX "${ARG_NAME} fork: " TEST_SPEC "[fork]"
      PROPERTIES TIMEOUT 1200 SKIP_RETURN_CODE 77 LABELS fork)
  endif()
  if(ARG_SOAK)
    catch_discover_tests(${target} TEST_PREFIX "${ARG_NAME} soak: " TEST_SPEC "[soak]"
      PROPERTIES TIMEOUT 36000 SKIP_RETURN_CODE 77 LABELS soak)
  endif()
endfunction()

# energon_skipped_test(NAME REASON): a placeholder for tests whose tool is missing.
function(energon_skipped_test name reason)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED: ${reason}")
  set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION SKIPPED)
endfunction()

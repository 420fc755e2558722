# One static library a folder of src/, with the unit tests (*_test.cpp) that lie beside the code.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(STRATA_WARNINGS_AS_ERRORS "Treat warnings as errors" ON)
option(STRATA_BATCHES "Compile the files of a target in batches: the whole build is faster, that of one changed file slower"
  OFF)
set(STRATA_BATCH_LINES 3000 CACHE STRING "The most lines of a batch")
set(STRATA_SANITIZER "" CACHE STRING "Sanitizers to build with: address,undefined or thread")

find_program(CCACHE ccache)
if(CCACHE)
  # Without the first three, ccache takes no file that uses a precompiled header, and each checkout compiles everything
  # anew. Without the last, it reads the precompiled header for each file: half a second for MLIR's.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_INODECACHE=1 ${CCACHE})
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_library(strata_flags INTERFACE)
target_include_directories(strata_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_compile_options(strata_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
  -Wno-missing-field-initializers)
if(STRATA_WARNINGS_AS_ERRORS)
  target_compile_options(strata_flags INTERFACE -Werror)
endif()
if(STRATA_SANITIZER)
  # AddressSanitizer sees what comes of the four that are left out, which take a third of the time to compile.
  target_compile_options(strata_flags INTERFACE -fsanitize=${STRATA_SANITIZER} -fno-sanitize-recover=all
    -fno-omit-frame-pointer -fno-sanitize=null,vptr,alignment,object-size)
  target_link_options(strata_flags INTERFACE -fsanitize=${STRATA_SANITIZER})
endif()

# What nearly every file includes is precompiled once for all libraries and programs, and once more for the tests: to
# precompile it for each library took a seventh of the time to build the command line.
set(STRATA_COMMON_HEADERS <fmt/format.h> <fmt/ranges.h> <string> <vector> <memory> <algorithm> <unordered_map> <map>
  <array> <span> <functional> <optional> <variant> <tl/expected.hpp>)
set(STRATA_NOTHING ${CMAKE_BINARY_DIR}/generated/nothing.cpp)
file(CONFIGURE OUTPUT ${STRATA_NOTHING} CONTENT "")
add_library(strata_precompiled OBJECT EXCLUDE_FROM_ALL ${STRATA_NOTHING})
target_link_libraries(strata_precompiled PRIVATE strata_flags fmt::fmt tl::expected)
target_precompile_headers(strata_precompiled PRIVATE ${STRATA_COMMON_HEADERS})
if(STRATA_EMITTERS)
  add_library(strata_precompiled_tests OBJECT EXCLUDE_FROM_ALL ${STRATA_NOTHING})
  target_link_libraries(strata_precompiled_tests PRIVATE strata_flags fmt::fmt tl::expected GTest::gtest GTest::gmock
    rapidcheck)
  target_precompile_headers(strata_precompiled_tests PRIVATE ${STRATA_COMMON_HEADERS} <gmock/gmock.h> <gtest/gtest.h>
    <rapidcheck.h>)
endif()

# strata_use_precompiled(PROGRAM FROM): the precompiled headers of FROM for a program. They are position-independent as
# libraries are, so the program's files have to be.
function(strata_use_precompiled PROGRAM FROM)
  target_compile_options(${PROGRAM} PRIVATE -fPIC)
  target_precompile_headers(${PROGRAM} REUSE_FROM ${FROM})
endfunction()

# strata_batch(TARGET): compiles the files of a target in batches where that is asked for; see batch_sources.py.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/batch_sources.py)
function(strata_batch TARGET)
  if(NOT STRATA_BATCHES)
    return()
  endif()
  get_target_property(SOURCES ${TARGET} SOURCES)
  execute_process(COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/cmake/batch_sources.py ${STRATA_BATCH_LINES}
    ${SOURCES} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE BATCHES OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" BATCHES "${BATCHES}")
  set(NUMBER 0)
  foreach(BATCH ${BATCHES})
    separate_arguments(BATCH)
    list(LENGTH BATCH COUNT)
    if(COUNT GREATER 1)
      set_source_files_properties(${BATCH} PROPERTIES UNITY_GROUP ${NUMBER})
      math(EXPR NUMBER "${NUMBER} + 1")
    endif()
  endforeach()
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # A class with members of types that only its file knows is taken for one of a header.
  target_compile_options(${TARGET} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# strata_cold(TARGET): with batches a release compiles the target with -O1, in about two thirds of the time of -O2. For code
# that waits for something else: compilers, devices, files. What searches, proves, interprets or evaluates stays with -O2.
function(strata_cold TARGET)
  if(NOT STRATA_BATCHES)
    return()
  endif()
  target_compile_options(${TARGET} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# strata_rooms(NAME FOLDER ROOMS folder... LINK target... PRECOMPILE header...): library NAME of rooms of src/FOLDER that
# include none of its other rooms, for the sake of headers that these have in common. It is cold (see strata_cold).
function(strata_rooms NAME FOLDER)
  cmake_parse_arguments(ARG "" "" "ROOMS;LINK;PRECOMPILE" ${ARGN})
  list(TRANSFORM ARG_ROOMS REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/src/${FOLDER}/\\1/*.cpp" OUTPUT_VARIABLE PATTERNS)
  file(GLOB SOURCES CONFIGURE_DEPENDS ${PATTERNS})
  list(FILTER SOURCES EXCLUDE REGEX "_test\\.cpp$")
  add_library(${NAME} STATIC ${SOURCES})
  strata_batch(${NAME})
  target_link_libraries(${NAME} PUBLIC strata_flags ${ARG_LINK})
  target_precompile_headers(${NAME} PRIVATE ${STRATA_COMMON_HEADERS} ${ARG_PRECOMPILE})
  strata_cold(${NAME})
endfunction()

# strata_library(FOLDER [COLD] [ROOMS folder...] [TEST_ROOMS folder...] [LINK target...] [TEST_LINK target...]
# [TEST_NEEDS target...] [PRECOMPILE header...] [SANITIZED test...] [UNSANITIZED test...] [SLOW test...]
# [TOGETHER suite...]): library strata_FOLDER of src/FOLDER/*.cpp (slashes become underscores) and of its folders ROOMS,
# and, where there are tests there or in TEST_ROOMS, the program strata_FOLDER_test (see strata_test), before which
# TEST_NEEDS are built. With PRECOMPILE it has precompiled headers of its own, which are these and those that all
# libraries have. With COLD see strata_cold. Builds without emitters have no tests.
function(strata_library FOLDER)
  cmake_parse_arguments(ARG "COLD" "" "ROOMS;TEST_ROOMS;LINK;TEST_LINK;TEST_NEEDS;PRECOMPILE;SANITIZED;UNSANITIZED;SLOW;TOGETHER" ${ARGN})
  string(REPLACE "/" "_" NAME strata_${FOLDER})
  set(PATTERNS ${CMAKE_SOURCE_DIR}/src/${FOLDER}/*.cpp)
  foreach(ROOM ${ARG_ROOMS})
    list(APPEND PATTERNS ${CMAKE_SOURCE_DIR}/src/${FOLDER}/${ROOM}/*.cpp)
  endforeach()
  file(GLOB SOURCES CONFIGURE_DEPENDS ${PATTERNS})
  set(TESTS ${SOURCES})
  list(FILTER SOURCES EXCLUDE REGEX "_test\\.cpp$")
  list(FILTER TESTS INCLUDE REGEX "_test\\.cpp$")
  foreach(ROOM ${ARG_TEST_ROOMS})
    file(GLOB ROOM_TESTS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${FOLDER}/${ROOM}/*_test.cpp)
    list(APPEND TESTS ${ROOM_TESTS})
  endforeach()
  if(SOURCES)
    add_library(${NAME} STATIC ${SOURCES})
    strata_batch(${NAME})
    target_link_libraries(${NAME} PUBLIC strata_flags ${ARG_LINK})
    if(ARG_COLD)
      strata_cold(${NAME})
    endif()
    if(ARG_PRECOMPILE)
      target_precompile_headers(${NAME} PRIVATE ${STRATA_COMMON_HEADERS} ${ARG_PRECOMPILE})
    else()
      target_precompile_headers(${NAME} REUSE_FROM strata_precompiled)
    endif()
  else()
    add_library(${NAME} INTERFACE)
    target_link_libraries(${NAME} INTERFACE strata_flags ${ARG_LINK})
  endif()
  if(TESTS AND STRATA_EMITTERS)
    strata_test(${NAME}_test SOURCES ${TESTS} LINK ${NAME} ${ARG_TEST_LINK} SANITIZED ${ARG_SANITIZED}
      UNSANITIZED ${ARG_UNSANITIZED} SLOW ${ARG_SLOW} TOGETHER ${ARG_TOGETHER})
    if(ARG_TEST_NEEDS)
      add_dependencies(${NAME}_test ${ARG_TEST_NEEDS})
    endif()
  endif()
endfunction()

# How tests compile generated programs for the host. What these begin with is precompiled for both, and its functions
# are compiled: that takes longer than most of the programs.
set(STRATA_HOST_PLAIN -O1)
# AddressSanitizer sees what comes of those that are left out.
set(STRATA_HOST_SANITIZED -O0 -g1 -fsanitize=address,undefined -fno-sanitize=null,vptr,object-size
  -fno-sanitize-recover=all)
foreach(OPTIONS STRATA_HOST_PLAIN STRATA_HOST_SANITIZED)
  list(TRANSFORM ${OPTIONS} REPLACE "(.+)" "\"\\1\"" OUTPUT_VARIABLE ${OPTIONS}_STRINGS)
  list(JOIN ${OPTIONS}_STRINGS ", " ${OPTIONS}_STRINGS)
endforeach()
# strata_precompile_generated_headers(HEADER FOLDER FILE...): HEADER and FOLDER/FILE..., which it includes.
function(strata_precompile_generated_headers HEADER FOLDER)
  set(COPY ${CMAKE_BINARY_DIR}/generated/tests/generated_headers.h)
  set(LIBRARY ${CMAKE_BINARY_DIR}/generated/tests/host_library)
  set(COMPILE c++ -std=c++20 -I ${CMAKE_SOURCE_DIR}/src)
  list(TRANSFORM ARGN PREPEND ${FOLDER}/ OUTPUT_VARIABLE FILES)
  list(TRANSFORM FILES REPLACE "(.+)" "-include;\\1" OUTPUT_VARIABLE ALL)
  add_custom_command(OUTPUT ${COPY}.gch/plain ${COPY}.gch/sanitized ${LIBRARY}_plain.o ${LIBRARY}_sanitized.o
    COMMAND ${CMAKE_COMMAND} -E copy ${HEADER} ${COPY}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${COPY}.gch
    COMMAND ${COMPILE} ${STRATA_HOST_PLAIN} -x c++-header ${COPY} -o ${COPY}.gch/plain
    COMMAND ${COMPILE} ${STRATA_HOST_SANITIZED} -x c++-header ${COPY} -o ${COPY}.gch/sanitized
    COMMAND ${COMPILE} ${STRATA_HOST_PLAIN} -DSTRATA_HOST_INLINE= ${ALL} -x c++ -c /dev/null -o ${LIBRARY}_plain.o
    COMMAND ${COMPILE} ${STRATA_HOST_SANITIZED} -DSTRATA_HOST_INLINE= ${ALL} -x c++ -c /dev/null
      -o ${LIBRARY}_sanitized.o
    DEPENDS ${HEADER} ${FILES} VERBATIM COMMENT "Compiling what generated programs begin with")
  add_custom_target(strata_generated_headers DEPENDS ${COPY}.gch/plain ${LIBRARY}_plain.o)
endfunction()

# Where tests find their files. A header, not definitions: ccache shares all objects that do not include it.
configure_file(${CMAKE_CURRENT_LIST_DIR}/test_paths.h.in ${CMAKE_BINARY_DIR}/generated/tests/test_paths.h @ONLY)

# What `make test` builds with sanitizers: the programs of tests labelled `sanitized`.
add_custom_target(sanitized_tests)

# strata_test(NAME SOURCES file... LINK target... [SANITIZED test... [UNSANITIZED test...]] [SLOW test...]
# [TOGETHER suite...]): a GoogleTest program known to ctest. Each test runs alone, but those of a suite TOGETHER, for the
# sake of what it sets up, are one. Tests, by name as --gtest_filter takes them, are labelled `slow`, or else `sanitized`
# unless they are UNSANITIZED; see docs/testing.md.
function(strata_test NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;SANITIZED;UNSANITIZED;SLOW;TOGETHER" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  strata_batch(${NAME})
  strata_cold(${NAME})
  target_link_libraries(${NAME} PRIVATE ${ARG_LINK} GTest::gtest GTest::gmock GTest::gtest_main rapidcheck)
  target_include_directories(${NAME} PRIVATE ${CMAKE_BINARY_DIR}/generated/tests)
  strata_use_precompiled(${NAME} strata_precompiled_tests)
  # GCC 12 takes what + of a literal and a string writes for more than there is room for, where <string> is
  # precompiled.
  target_compile_options(${NAME} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds -Wno-restrict -Wno-stringop-overflow>)
  include(GoogleTest)
  # Only a hang takes as long, on a machine that does much else besides.
  set(DISCOVERY DISCOVERY_TIMEOUT 600)
  list(JOIN ARG_SANITIZED ":" SANITIZED)
  list(JOIN ARG_UNSANITIZED ":" UNSANITIZED)
  list(JOIN ARG_SLOW ":" SLOW)
  if(ARG_SANITIZED)
    add_dependencies(sanitized_tests ${NAME})
    gtest_discover_tests(${NAME} ${DISCOVERY} TEST_FILTER "${SANITIZED}-${UNSANITIZED}:${SLOW}"
      TEST_LIST ${NAME}_SANITIZED PROPERTIES LABELS sanitized)
  endif()
  if(ARG_SLOW)
    gtest_discover_tests(${NAME} ${DISCOVERY} TEST_FILTER "${SLOW}" TEST_LIST ${NAME}_SLOW PROPERTIES LABELS slow)
  endif()
  if(ARG_UNSANITIZED)
    gtest_discover_tests(${NAME} ${DISCOVERY} TEST_FILTER "${UNSANITIZED}-${SLOW}" TEST_LIST ${NAME}_UNSANITIZED)
  endif()
  foreach(SUITE ${ARG_TOGETHER})
    add_test(NAME ${SUITE} COMMAND ${NAME} --gtest_filter=${SUITE}.*)
    set_tests_properties(${SUITE} PROPERTIES FAIL_REGULAR_EXPRESSION "Running 0 tests")
  endforeach()
  list(TRANSFORM ARG_TOGETHER REPLACE "(.+)" ":\\1.*" OUTPUT_VARIABLE TOGETHER)
  list(JOIN TOGETHER "" TOGETHER)
  if(NOT SANITIZED STREQUAL "*")
    gtest_discover_tests(${NAME} ${DISCOVERY} TEST_FILTER "-${SANITIZED}:${UNSANITIZED}:${SLOW}${TOGETHER}")
  endif()
endfunction()

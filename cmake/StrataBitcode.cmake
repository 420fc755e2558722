# C that becomes part of generated code: compiled to LLVM bitcode by Clang 19 and embedded as bytes.

find_program(STRATA_CLANG NAMES clang-19 REQUIRED)
find_program(STRATA_LLVM_LINK NAMES llvm-link-19 REQUIRED)

# strata_embed_bitcode(TARGET NAMESPACE FUNCTION OPTIONS file...): adds to TARGET a source that defines the function
# std::span<const std::byte> NAMESPACE::FUNCTION(), which returns one bitcode module of the C files, compiled with the
# options of the list OPTIONS. Nothing but what the files define may be called there, so the code is freestanding. Its
# functions name no CPU: they are compiled for that of the module they are linked into, and may be inlined there.
function(strata_embed_bitcode TARGET NAMESPACE FUNCTION OPTIONS)
  set(FOLDER ${CMAKE_BINARY_DIR}/generated/${FUNCTION})
  file(MAKE_DIRECTORY ${FOLDER})
  set(MODULES)
  foreach(SOURCE ${ARGN})
    get_filename_component(NAME ${SOURCE} NAME_WE)
    set(MODULE ${FOLDER}/${NAME}.ll)
    add_custom_command(OUTPUT ${MODULE}
      COMMAND ${STRATA_CLANG} ${OPTIONS} -std=c11 -O2 -S -emit-llvm -ffreestanding -nostdlibinc -fno-math-errno
        -ffp-contract=off -Wall -Wextra -Werror -I ${CMAKE_SOURCE_DIR}/src -MD -MF ${MODULE}.d
        ${SOURCE} -o ${MODULE}
      DEPENDS ${SOURCE} DEPFILE ${MODULE}.d COMMENT "Compiling ${NAME}.c for ${FUNCTION}" VERBATIM)
    list(APPEND MODULES ${MODULE})
  endforeach()
  set(LINKED ${FOLDER}/linked.bc)
  set(EMBEDDED ${FOLDER}/embedded.cpp)
  add_custom_command(OUTPUT ${EMBEDDED}
    COMMAND ${STRATA_LLVM_LINK} ${MODULES} -S -o ${FOLDER}/linked.ll
    COMMAND ${CMAKE_COMMAND} -DFILE=${FOLDER}/linked.ll -P ${CMAKE_SOURCE_DIR}/cmake/StripTarget.cmake
    COMMAND ${STRATA_LLVM_LINK} ${FOLDER}/linked.ll -o ${LINKED}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${LINKED} -DOUTPUT=${EMBEDDED} -DNAMESPACE=${NAMESPACE} -DFUNCTION=${FUNCTION}
      -P ${CMAKE_SOURCE_DIR}/cmake/EmbedBytes.cmake
    DEPENDS ${MODULES} ${CMAKE_SOURCE_DIR}/cmake/EmbedBytes.cmake ${CMAKE_SOURCE_DIR}/cmake/StripTarget.cmake
    COMMENT "Embedding ${FUNCTION}" VERBATIM)
  target_sources(${TARGET} PRIVATE ${EMBEDDED})
endfunction()

# LLVM and MLIR 19, and what is generated with them. LLVM is the shared library, MLIR the static ones that Debian has.

option(STRATA_STATIC_LLVM "Link LLVM's static libraries: for what has to run where LLVM is not installed" OFF)

find_package(MLIR 19.1 QUIET CONFIG HINTS /usr/lib/llvm-19/lib/cmake/mlir)
if(NOT MLIR_FOUND)
  message(FATAL_ERROR "LLVM and MLIR 19 are not installed.\n"
    "On Debian 12 run scripts/install.sh, which installs them with everything else that a build needs. "
    "Elsewhere take the wheel.")
endif()
list(APPEND CMAKE_MODULE_PATH ${LLVM_CMAKE_DIR} ${MLIR_CMAKE_DIR})

if(STRATA_STATIC_LLVM)
  # MLIR's libraries ask for the imported target LLVM: it becomes the static ones that are needed.
  llvm_map_components_to_libnames(COMPONENTS X86CodeGen X86Desc X86Info X86AsmParser NVPTXCodeGen NVPTXDesc
    NVPTXInfo orcjit jitlink runtimedyld executionengine passes linker irreader
    asmparser bitreader bitwriter target support core analysis mc)
  list(REMOVE_ITEM COMPONENTS LLVM)
  if(NOT TARGET zstd::libzstd_shared)
    # Of what LLVM compresses with, the library is enough: libzstd-dev need not be there.
    find_library(ZSTD_LIBRARY NAMES zstd libzstd.so.1 REQUIRED)
    add_library(zstd::libzstd_shared SHARED IMPORTED)
    set_target_properties(zstd::libzstd_shared PROPERTIES IMPORTED_LOCATION ${ZSTD_LIBRARY})
  endif()
  set_target_properties(LLVM PROPERTIES IMPORTED_LOCATION_RELWITHDEBINFO ${LLVM_LIBRARY_DIR}/libLLVMSupport.a
    IMPORTED_SONAME_RELWITHDEBINFO "" INTERFACE_LINK_LIBRARIES "${COMPONENTS}")
endif()

# What code that includes headers of LLVM or MLIR links; their headers are not held to our warnings. LLVM_DEFINITIONS is
# left out: in C++20 all of it is defined anyway or has no meaning, and GCC takes no precompiled header with it.
add_library(strata_llvm INTERFACE)
target_include_directories(strata_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_link_libraries(strata_llvm INTERFACE LLVM)

add_library(strata_mlir INTERFACE)
target_include_directories(strata_mlir SYSTEM INTERFACE /usr/lib/llvm-19/include ${MLIR_INCLUDE_DIRS})
target_link_libraries(strata_mlir INTERFACE strata_llvm
  MLIRIR MLIRParser MLIRPass MLIRTransforms MLIRInferTypeOpInterface MLIRSideEffectInterfaces
  MLIRArithDialect MLIRComplexDialect MLIRFuncDialect MLIRMathDialect MLIRSCFDialect MLIRTensorDialect
  MLIRVectorDialect MLIRLLVMDialect MLIRNVVMDialect MLIRControlFlowDialect MLIRDLTIDialect
  MLIRArithToLLVM MLIRComplexToLLVM MLIRComplexToStandard MLIRControlFlowToLLVM MLIRFuncToLLVM MLIRMathToLLVM
  MLIRSCFToControlFlow MLIRVectorToLLVM MLIRReconcileUnrealizedCasts
  MLIRBuiltinToLLVMIRTranslation MLIRLLVMToLLVMIRTranslation MLIRNVVMToLLVMIRTranslation MLIRTargetLLVMIRExport)

find_program(STRATA_MLIR_TBLGEN NAMES mlir-tblgen-19 mlir-tblgen REQUIRED)

# strata_tablegen_dialect(TARGET FILE.td PREFIX): what mlir-tblgen makes of a dialect, as headers PREFIX_dialect.h.inc,
# PREFIX_operations.cpp.inc and so on, for which TARGET and what links it wait.
function(strata_tablegen_dialect TARGET FILE PREFIX)
  set(OUTPUTS)
  foreach(PAIR dialect:dialect operations:op attributes:attrdef enums:enum)
    string(REPLACE ":" ";" PAIR ${PAIR})
    list(GET PAIR 0 NAME)
    list(GET PAIR 1 GENERATOR)
    foreach(KIND decls:h defs:cpp)
      string(REPLACE ":" ";" KIND ${KIND})
      list(GET KIND 0 PART)
      list(GET KIND 1 EXTENSION)
      set(OUTPUT ${CMAKE_BINARY_DIR}/generated/${PREFIX}_${NAME}.${EXTENSION}.inc)
      get_filename_component(FOLDER ${OUTPUT} DIRECTORY)
      file(MAKE_DIRECTORY ${FOLDER})
      add_custom_command(OUTPUT ${OUTPUT}
        COMMAND ${STRATA_MLIR_TBLGEN} -gen-${GENERATOR}-${PART} -I /usr/lib/llvm-19/include
          -d ${OUTPUT}.d ${CMAKE_SOURCE_DIR}/${FILE} -o ${OUTPUT}
        DEPENDS ${CMAKE_SOURCE_DIR}/${FILE} DEPFILE ${OUTPUT}.d VERBATIM)
      list(APPEND OUTPUTS ${OUTPUT})
    endforeach()
  endforeach()
  add_custom_target(${TARGET}_tablegen DEPENDS ${OUTPUTS})
  add_dependencies(${TARGET} ${TARGET}_tablegen)
  target_include_directories(${TARGET} SYSTEM PUBLIC ${CMAKE_BINARY_DIR}/generated)
endfunction()

# strata_tablegen_operation(TARGET FILE.td OPERATION PREFIX): PREFIX.h.inc and PREFIX.cpp.inc of one operation of FILE,
# which includes its dialect's.
function(strata_tablegen_operation TARGET FILE OPERATION PREFIX)
  set(OUTPUTS)
  foreach(KIND decls:h defs:cpp)
    string(REPLACE ":" ";" KIND ${KIND})
    list(GET KIND 0 PART)
    list(GET KIND 1 EXTENSION)
    set(OUTPUT ${CMAKE_BINARY_DIR}/generated/${PREFIX}.${EXTENSION}.inc)
    add_custom_command(OUTPUT ${OUTPUT}
      COMMAND ${STRATA_MLIR_TBLGEN} -gen-op-${PART} -op-include-regex=${OPERATION} -I /usr/lib/llvm-19/include
        -I ${CMAKE_SOURCE_DIR}/src -d ${OUTPUT}.d ${CMAKE_SOURCE_DIR}/${FILE} -o ${OUTPUT}
      DEPENDS ${CMAKE_SOURCE_DIR}/${FILE} DEPFILE ${OUTPUT}.d VERBATIM)
    list(APPEND OUTPUTS ${OUTPUT})
  endforeach()
  add_custom_target(${TARGET}_${OPERATION} DEPENDS ${OUTPUTS})
  add_dependencies(${TARGET} ${TARGET}_${OPERATION})
endfunction()

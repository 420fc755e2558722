# LLVM and MLIR 19, and what is generated with them. LLVM is the shared library, MLIR the static ones that Debian has.

find_package(MLIR 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH ${LLVM_CMAKE_DIR} ${MLIR_CMAKE_DIR})

# What code that includes headers of LLVM or MLIR links; their headers are not held to our warnings.
add_library(strata_llvm INTERFACE)
target_include_directories(strata_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_compile_definitions(strata_llvm INTERFACE ${LLVM_DEFINITIONS})
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

# strata_tablegen(TARGET FILE.td OUT GENERATOR... ): runs mlir-tblgen with GENERATOR (-gen-op-decls …) into
# generated/OUT, and lets TARGET wait for it and include it as "OUT".
function(strata_tablegen TARGET FILE OUT)
  set(OUTPUT ${CMAKE_BINARY_DIR}/generated/${OUT})
  get_filename_component(FOLDER ${OUTPUT} DIRECTORY)
  file(MAKE_DIRECTORY ${FOLDER})
  add_custom_command(OUTPUT ${OUTPUT}
    COMMAND ${STRATA_MLIR_TBLGEN} ${ARGN} -I /usr/lib/llvm-19/include -I ${CMAKE_SOURCE_DIR}/src
      --write-if-changed -d ${OUTPUT}.d ${FILE} -o ${OUTPUT}
    COMMAND ${CMAKE_COMMAND} -E touch ${OUTPUT}
    DEPENDS ${FILE} DEPFILE ${OUTPUT}.d COMMENT "Generating ${OUT}" VERBATIM)
  target_sources(${TARGET} PRIVATE ${OUTPUT})
  target_include_directories(${TARGET} SYSTEM PUBLIC ${CMAKE_BINARY_DIR}/generated)
endfunction()
find_program(STRATA_MLIR_TBLGEN NAMES mlir-tblgen-19 mlir-tblgen REQUIRED)

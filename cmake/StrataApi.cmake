# The C++ interface of include/strata as a shared library that shows nothing of LLVM, Z3 or fmt, and what
# `cmake --install` installs: the library, its headers, the command line and the package for find_package(strata).

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

file(GLOB SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/api/*.cpp)
file(GLOB HEADERS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/include/strata/*.h)
# The target `strata` is the command line.
add_library(strata_api SHARED ${SOURCES})
strata_batch(strata_api)
target_link_libraries(strata_api PRIVATE strata_compiler nlohmann_json::nlohmann_json)
target_compile_definitions(strata_api PRIVATE STRATA_BUILDS_API)
target_compile_options(strata_api PRIVATE -fvisibility=hidden)
target_link_options(strata_api PRIVATE -Wl,--exclude-libs,ALL)
target_include_directories(strata_api INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(strata_api INTERFACE cxx_std_20)
set_target_properties(strata_api PROPERTIES OUTPUT_NAME strata EXPORT_NAME strata
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
add_library(strata::strata ALIAS strata_api)

set(PACKAGE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/strata)
install(TARGETS strata_api EXPORT strata COMPONENT cpp)
install(EXPORT strata NAMESPACE strata:: FILE strataConfig.cmake DESTINATION ${PACKAGE_FOLDER} COMPONENT cpp)
# 0.2 may change what 0.1 has.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/strataConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/strataConfigVersion.cmake DESTINATION ${PACKAGE_FOLDER} COMPONENT cpp)
install(FILES ${HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/strata COMPONENT cpp)

# strata_embed_text(OUT NAMESPACE_FUNCTION file ...): a C++ source that defines, in namespace strata, one function a pair
# FUNCTION FILE that returns the file's text, so that the binary needs no data files.
function(strata_embed_text OUT)
  set(TEXT "#include <string_view>\nnamespace strata {\n")
  set(REST ${ARGN})
  while(REST)
    list(POP_FRONT REST FUNCTION FILE)
    file(READ ${FILE} CONTENT)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${FILE})
    string(APPEND TEXT "std::string_view ${FUNCTION}();\n"
      "std::string_view ${FUNCTION}() {\n  return R\"strata-text(${CONTENT})strata-text\";\n}\n")
  endwhile()
  string(APPEND TEXT "}  // namespace strata\n")
  file(CONFIGURE OUTPUT ${OUT} CONTENT "${TEXT}" @ONLY)
endfunction()

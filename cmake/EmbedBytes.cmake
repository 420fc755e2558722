# cmake -DINPUT=file -DOUTPUT=file.cpp -DNAMESPACE=... -DFUNCTION=... -P EmbedBytes.cmake: writes a C++ source that
# defines std::span<const std::byte> NAMESPACE::FUNCTION(), which returns the bytes of INPUT.
file(READ ${INPUT} BYTES HEX)
string(REGEX REPLACE "(................................)" "\\1\n" BYTES "${BYTES}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," BYTES "${BYTES}")
file(WRITE ${OUTPUT} "#include <cstddef>\n#include <span>\nnamespace ${NAMESPACE} {\n"
  "std::span<const std::byte> ${FUNCTION}();\nstd::span<const std::byte> ${FUNCTION}() {\n"
  "  alignas(8) static constexpr unsigned char kBytes[] = {\n${BYTES}};\n"
  "  return std::as_bytes(std::span(kBytes));\n}\n}\n")

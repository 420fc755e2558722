#include "runtime/library_work.h"

namespace strata {

std::string_view library_of(const LibraryWork& work) {
  return std::holds_alternative<MatrixProduct>(work) ? "cuBLASLt" : "cuDNN";
}

std::string describe(const LibraryWork& work) {
  return std::visit([](const auto& one) { return describe(one); }, work);
}

size_t arguments_of(const LibraryWork& work) {
  return std::visit([](const auto& one) { return one.arguments(); }, work);
}

}  // namespace strata

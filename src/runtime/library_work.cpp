#include "runtime/library_work.h"

#include <array>

namespace strata {

std::string_view library_of(const LibraryWork& work) {
  constexpr std::array<std::string_view, 3> names{"cuBLASLt", "cuDNN", "cuFFT"};  // in the order of the types
  return names[work.index()];
}

std::string describe(const LibraryWork& work) {
  return std::visit([](const auto& one) { return describe(one); }, work);
}

size_t arguments_of(const LibraryWork& work) {
  return std::visit([](const auto& one) { return one.arguments(); }, work);
}

}  // namespace strata

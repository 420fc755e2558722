#include "runtime/library_work.h"

#include <array>

namespace strata {

std::string_view library_of(const LibraryWork& work) {
  // In the order of the types.
  constexpr std::array<std::string_view, 6> names{"cuBLASLt", "cuDNN", "cuFFT", "cuSOLVER", "cuBLAS", "cuSOLVER"};
  return names[work.index()];
}

std::string describe(const LibraryWork& work) {
  return std::visit([](const auto& one) { return describe(one); }, work);
}

size_t arguments_of(const LibraryWork& work) {
  return std::visit([](const auto& one) { return one.arguments(); }, work);
}

size_t results_of(const LibraryWork& work) {
  if (const auto* factor = std::get_if<MatrixFactor>(&work)) return factor->results();
  if (const auto* spectrum = std::get_if<MatrixSpectrum>(&work)) return spectrum->results();
  return 1;
}

std::optional<size_t> overwritten_argument(const LibraryWork& work) {
  if (std::holds_alternative<MatrixFactor>(work) || std::holds_alternative<MatrixSpectrum>(work)) return 0;
  if (std::holds_alternative<MatrixSolve>(work)) return 1;
  return std::nullopt;
}

bool waits_on_host(const LibraryWork& work) {
  const auto* spectrum = std::get_if<MatrixSpectrum>(&work);
  return spectrum != nullptr && spectrum->waits_on_host();
}

}  // namespace strata

#include "compiler/core/array_function.h"

#include <cstddef>

namespace strata::compiler {

Result<void> ArrayFunction::call(std::span<const uintptr_t> inputs, std::span<const uintptr_t> results,
                                 CudaStream stream) {
  if (on_gpu()) {
    const std::vector<CudaPointer> from(inputs.begin(), inputs.end());
    const std::vector<CudaPointer> to(results.begin(), results.end());
    return gpu_->call(from, to, stream);
  }
  alignas(kHostAlignment) std::byte nothing[kHostAlignment] = {};  // where arrays without elements lie
  const auto checked = [&](std::span<const uintptr_t> given, const std::vector<hlo::Shape>& shapes,
                           const char* what) -> Result<std::vector<std::byte*>> {
    if (given.size() != shapes.size()) return invalid("there are {} {}s, not {}", shapes.size(), what, given.size());
    std::vector<std::byte*> places;
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i] % kHostAlignment != 0 || (given[i] == 0 && shapes[i].element_count() > 0))
        return invalid("{} {} does not begin at a multiple of {} bytes", what, i, kHostAlignment);
      places.push_back(given[i] == 0 ? nothing : reinterpret_cast<std::byte*>(given[i]));
    }
    return places;
  };
  STRATA_TRY(const std::vector<std::byte*> from, checked(inputs, inputs_, "input"));
  STRATA_TRY(const std::vector<std::byte*> to, checked(results, results_, "result"));
  return call_on_cpu(from, to);
}

}  // namespace strata::compiler

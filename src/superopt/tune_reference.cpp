#include "superopt/tune_reference.h"

#include <algorithm>
#include <cmath>

#include "interpret/interpret.h"
#include "interpret/npy.h"
#include "interpret/typical_inputs.h"
#include "interpret/work.h"
#include "support/write_file.h"

namespace strata {
namespace {

/// By number: names of tensors need not be names of files.
Result<std::string> write(const std::filesystem::path& path, const Tensor<double>& tensor, DType type) {
  STRATA_CHECK(write_file(path.string(), npy_bytes(tensor, type), Sync::None));
  return path.string();
}

}  // namespace

Result<TuneReference> make_reference(const Graph& program, uint64_t seed, double largest_interpreted,
                                     const std::filesystem::path& folder, const std::stop_token& stop) {
  TuneReference reference;
  const auto inputs = typical_inputs(program, seed);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorInfo& given = program.tensor(program.arguments()[i]);
    STRATA_TRY(reference.inputs[given.name],
               write(folder / fmt::format("input{}.npy", i), inputs[i], given.type.dtype));
  }
  if (execution_work(program) > largest_interpreted) return reference;
  Float64Arithmetic exact;
  STRATA_TRY(const auto outputs, execute(program, exact, inputs, stop));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = program.tensor(program.outputs()[i]).name;
    const auto& values = outputs[i].data;
    if (!std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); })) {
      return unsupported("'{}' is not finite on random inputs, so that nothing can be compared with it", name);
    }
    STRATA_TRY(reference.expected[name], write(folder / fmt::format("expected{}.npy", i), outputs[i], DType::F64));
  }
  return reference;
}

}  // namespace strata

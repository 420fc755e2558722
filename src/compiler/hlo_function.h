// An HLO module as a function of arrays in memory: on the machine's GPU, or on its processor by LLVM's just-in-time
// compiler.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "compiler/core/array_function.h"
#include "emitters/buffers.h"
#include "emitters/program.h"
#include "hlo/input_output_alias.h"

namespace strata::compiler {

struct HloOptions {
  /// Seconds to superoptimize products with what is around them, for all (emitters/lax/search.h); 0: not at all.
  double search_seconds = 0;
  ResultCache* cache = nullptr;  ///< of results, cubins and measurements; none where null. Not owned.
  std::string file = "<hlo>";    ///< what errors call the text
  /// On a GPU, whether calls give away the parameters that the text's input_output_alias names: they are written over,
  /// and the results lie there. Else, and on the processor, such attributes mean nothing.
  bool gives_parameters = false;
  std::function<void(const std::string& line)> progress = {};  ///< as LaxOptions::progress
  std::stop_token stop = {};                                   ///< as LaxOptions::stop
};

class HloFunction : public ArrayFunction {
 public:
  /// Compiles the text for the GPU, or for this machine's processor where `device` is null; the device must outlive the
  /// function. Its inputs and results are the arrays of the entry's parameters and of its root, those of tuples in
  /// order. Errors: of the text, with its place; Unsupported where something has no meaning; Environment where memory
  /// or a library without a substitute is missing.
  static Result<std::unique_ptr<HloFunction>> compile(std::string_view text, const GpuDevice* device,
                                                      const HloOptions& options = {});

 private:
  HloFunction() = default;
  void list_arrays(const hlo::Computation& entry);
  Result<void> load_on_gpu(const GpuDevice& device, const hlo::ModuleText& text, const HloOptions& options);
  Result<void> load_on_cpu(const hlo::Module& module, const HloOptions& options);
  Result<void> call_on_cpu(std::span<std::byte* const> inputs, std::span<std::byte* const> results) const override;
  Result<std::vector<int>> input_buffers(const emitters::EmittedProgram& program) const;
  /// Arrays lie as the program has them, which is row-major where nobody has chosen the text's layouts (program.h).
  void take_layouts(const emitters::EmittedProgram& program, const std::vector<int>& inputs);

  std::vector<std::pair<int, int>> input_places_;  ///< the parameter, and its leaf where it is a tuple (else −1)
  // On the processor:
  std::optional<emitters::EmittedProgram> program_;
  std::vector<int> input_buffers_;           ///< of program_
  std::vector<emitters::Buffer> constants_;  ///< by buffer of program_
};

}  // namespace strata::compiler

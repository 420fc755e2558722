// `strata run` for a folder with a table of sizes (docs/sizes.md).
#pragma once

#include <map>
#include <string>

#include "ir/sized_program.h"
#include "ops/tensor.h"

namespace strata::cli {

struct SizesRunOptions {
  std::map<std::string, std::string> inputs;  ///< input's name to file; others are random
  DimSizes dims;                              ///< sizes that the user names
  uint64_t seed = 1;
  std::string output;  ///< folder for the results; none if empty
  bool interpret = false;
  std::string device = "cpu";
  bool profile = false;
};

/// The arrays of --input by the names of the inputs that they are for. Error where the program has no such input.
Result<std::map<std::string, Tensor<double>>> read_arrays(const Graph& graph,
                                                          const std::map<std::string, std::string>& files);
/// The sizes that these arrays and the user say; others are as declared.
Result<DimSizes> sizes_of_run(const SizedProgram& program, const std::map<std::string, Tensor<double>>& arrays,
                              const DimSizes& given);
/// A line that says what a tensor holds.
void summarise(const std::string& name, const TensorType& type, const Tensor<double>& tensor);

/// Whether the folder has a table.
bool has_size_table(const std::string& folder);
/// Chooses the entry by the inputs' shapes, pads the inputs, runs its µGraph by the interpreter or its kernels on the
/// GPU, and cuts the results.
Result<int> run_sizes(const std::string& folder, const SizesRunOptions& options);

}  // namespace strata::cli

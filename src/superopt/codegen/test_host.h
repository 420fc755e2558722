// What tests of generated code share: inputs, and outputs on the host beside the interpreter's.
#pragma once

#include <gtest/gtest.h>

#include "interpret/interpret.h"
#include "ir/text.h"
#include "superopt/codegen/host_run.h"
#include "support/random.h"
#include "test_paths.h"

namespace strata {

/// STRATA_HOST_PLAIN and STRATA_HOST_SANITIZED of cmake/StrataTargets.cmake, for which headers are precompiled and the
/// library's functions are compiled.
inline HostCompiler host_compiler(std::vector<std::string> options, const std::string& kind) {
  const std::string folder = STRATA_BINARY_DIR "/generated/tests/";
  options.insert(options.end(), {"-include", folder + "generated_headers.h", folder + "host_library_" + kind + ".o"});
  return {.options = std::move(options)};
}
inline const HostCompiler kPlainHost = host_compiler({STRATA_HOST_PLAIN}, "plain");
inline const HostCompiler kSanitizedHost = host_compiler({STRATA_HOST_SANITIZED}, "sanitized");

/// Uniform entries that are exact in the inputs' types.
inline std::vector<Tensor<double>> uniform_inputs(const Graph& graph, double low, double high, uint64_t seed) {
  Random random(seed);
  std::vector<Tensor<double>> inputs;
  for (TensorId id : graph.arguments()) {
    Tensor<double> tensor(graph.type(id).shape);
    for (double& value : tensor.data) value = round_to(random.uniform(low, high), graph.type(id).dtype);
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

struct HostOutputs {
  std::vector<Tensor<double>> found;     ///< what the generated code makes on the host
  std::vector<Tensor<double>> expected;  ///< what the graph means, in float64
};

/// Runs both; where one fails, so does the test, and nothing is returned.
inline HostOutputs host_outputs(const Graph& graph, const GeneratedProgram& program,
                                const std::vector<Tensor<double>>& inputs, const HostCompiler& compiler) {
  Float64Arithmetic exact;
  auto expected = execute(graph, exact, inputs);
  if (!expected) {
    ADD_FAILURE() << expected.error().to_string() << "\n" << print(graph);
    return {};
  }
  auto found = run_on_host(program, inputs, compiler);
  if (!found) {
    ADD_FAILURE() << found.error().to_string() << "\n" << print(graph);
    return {};
  }
  return {std::move(*found), std::move(*expected)};
}

}  // namespace strata

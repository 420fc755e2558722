// What tests of the emitters' part in generating programs have in common.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/fusion_kernels.h"
#include "ir/text.h"
#include "superopt/codegen/generate.h"
#include "superopt/codegen/passes.h"

namespace strata::compiler {

/// Null, and a failure, where the text is no graph.
inline GraphPtr parsed(std::string_view text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *graph : nullptr;
}

inline const Target& hopper() { return **find_target("sm_90a"); }

inline Passes with_emitters() {
  Passes passes;
  passes.emitter = std::make_shared<FusionKernels>();
  return passes;
}

inline std::vector<std::string> launches(const GeneratedProgram& program) {
  std::vector<std::string> names;
  for (const KernelLaunch& launch : program.launches) names.push_back(launch.kernel);
  return names;
}

}  // namespace strata::compiler

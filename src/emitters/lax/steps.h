// What the superoptimizer made of a part of a module, as a step of a program.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hlo/literal.h"
#include "ir/graph.h"
#include "runtime/launch_manifest.h"
#include "support/error.h"

namespace strata::emitters {

struct LaxStep {
  GraphPtr graph;           ///< the µGraph; it has one output
  std::vector<int> inputs;  ///< by input of the graph, which array that the step reads lies there
  LaunchManifest manifest;  ///< buffers have the names of the graph's tensors
  std::string cubin;
  std::string reason;  ///< what it is, what it costs and what it replaces, how it was proved
};

/// Elements of device memory that lie between the step's launches, as arrays of bytes: by buffer of the manifest, in
/// order. Counters are not among them: they keep their values from run to run.
std::vector<hlo::Shape> intermediates(const LaunchManifest& manifest);

/// The graph's output by the reference executor, in f32 (f64 for f64) with what lies in device memory rounded to its
/// type; as an array of `shape`. Inputs are read row-major, whatever their shapes.
Result<hlo::Literal> run_on_host(const Graph& graph, const std::vector<int>& inputs,
                                 std::span<const hlo::Literal> arguments, const hlo::Shape& shape);

}  // namespace strata::emitters

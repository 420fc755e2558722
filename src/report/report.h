// What the user keeps of a superoptimisation: report.json for programs, report.html for people, and drawings of
// µGraphs.
#pragma once

#include <string>

#include "superopt/superoptimize.h"

namespace strata {

/// Keys: program, target, search.{…}, input.{…}, best.{kernels,bytes,block_ops,grid,forloop,…},
/// verification.{delta,tests,error_bound,argument}, candidates[…]; docs/command-line.md lists them. Times are in
/// seconds.
std::string report_json(const Superoptimized& result, const SuperoptimizeOptions& options);

/// A self-contained page: input and best µGraph drawn, statistics, proof, candidates, generated CUDA.
std::string report_html(const Superoptimized& result, const SuperoptimizeOptions& options);

/// A kernel graph as a stand-alone SVG: nested kernel, block and thread boxes.
std::string draw_svg(const Graph& graph);
/// The same in a page of its own, with the graph's text.
std::string draw_html(const Graph& graph);

/// What a part makes: "Q, K, V".
std::string part_name(const Graph& part);
/// One line: how a part was searched and proved, or why it is left as it is.
std::string describe_part(const Superoptimized& result, size_t part);

/// Operators of all block graphs, those in thread graphs counted one by one, iterators and savers not.
int count_block_operators(const Graph& graph);

}  // namespace strata

// What the user keeps of a superoptimisation: report.json for programs, report.html for people, and drawings of
// µGraphs.
#pragma once

#include <string>

#include "superopt/superoptimize.h"
#include "superopt/tune.h"

namespace strata {

/// Keys: program, target, search.{…}, input.{…}, best.{kernels,bytes,block_ops,grid,forloop,…},
/// verification.{delta,tests,error_bound,argument}, candidates[…]; docs/command-line.md lists them. Times are in
/// seconds, but those of names that end in "_us".
std::string report_json(const Superoptimized& result, const SuperoptimizeOptions& options, const Profile& profile = {});

/// What `optimize --shard --json` prints, whose work is in its checkpoint: program, target, seed,
/// shard.{index,count,checkpoint}, search.{…} as in report_json.
std::string shard_json(const Superoptimized& result, const SuperoptimizeOptions& options);

/// A self-contained page: input and best µGraph drawn, statistics, proof, measurements, candidates, generated CUDA.
std::string report_html(const Superoptimized& result, const SuperoptimizeOptions& options, const Profile& profile = {});

/// The candidate of a row as reports number them, from 1; "input" for the program as given.
std::string candidate_name(const TunedRow& row);
/// One line: on what was measured, against what, and how many rows came to what.
std::string describe_tuning(const Tuning& tuning);
/// Whether a row was chosen, and why not; for people.
std::string describe_row(const Tuning& tuning, const TunedRow& row);
/// One line: how well the model knew; empty where too little was measured.
std::string describe_ranking(const Tuning& tuning);

/// A kernel graph as a stand-alone SVG: nested kernel, block and thread boxes.
std::string draw_svg(const Graph& graph);
/// The same in a page of its own, with the graph's text.
std::string draw_html(const Graph& graph);

/// One line: choices of layouts that were compared for the kernels with tiles in registers, and the time it took; empty
/// where there are no such kernels.
std::string describe_layouts(const GeneratedProgram& program);

/// What a part makes: "Q, K, V".
std::string part_name(const Graph& part);
/// One line: how a part was searched and proved, or why it is left as it is.
std::string describe_part(const Superoptimized& result, size_t part);

/// Operators of all block graphs, those in thread graphs counted one by one, iterators and savers not.
int count_block_operators(const Graph& graph);

}  // namespace strata

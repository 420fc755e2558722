// A module's program as data: what report.json of `strata emit --output` and `strata run --report` holds.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "emitters/program.h"
#include "machine/target.h"

namespace strata::emitters {

/// Times of a run on a GPU.
struct MeasuredSteps {
  std::string device;
  std::map<std::string, double> steps;  ///< µs, by name
  double all = 0;                       ///< µs
};

/// Keys: kind ("module"), name, target, gpu, memory_bandwidth, search_seconds, bytes, floor_us, steps_floor_us,
/// estimated_us, steps[…], notes[…], measured.{device, all_us}; docs/command-line.md lists them. A floor is bytes over
/// the memory's bandwidth: of the module's parameters and results, or of what a step reads and writes.
std::string program_report_json(const EmittedProgram& program, const Target& target, double search_seconds,
                                const std::optional<MeasuredSteps>& measured = std::nullopt);

}  // namespace strata::emitters

// What a fusion costs as one kernel.
#include <algorithm>
#include <cmath>
#include <set>

#include "emitters/fusion/pass.h"
#include "emitters/kinds/plan.h"
#include "indexing/operand_maps.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

// An H200, measured (docs/benchmarks.md) but for arithmetic: 132 multiprocessors of 128 lanes at 1.7 GHz.
constexpr double kMemoryBytesPerMicrosecond = 4.39e6;
constexpr double kCacheBytesPerMicrosecond = 10e6;
constexpr double kOperationsPerMicrosecond = 28e6;
constexpr double kLaunchMicroseconds = 2;

double bytes_of(const hlo::Shape& shape) {
  double bytes = 0;
  for (const hlo::Shape& element : shape.elements) bytes += bytes_of(element);
  if (shape.is_array()) bytes = static_cast<double>(shape.element_count()) * hlo::byte_width(shape.type);
  return bytes;
}

double operations(const Instruction& it) {
  switch (it.opcode) {
    case Opcode::Add:
    case Opcode::Subtract:
    case Opcode::Multiply:
    case Opcode::Compare:
    case Opcode::Select:
    case Opcode::Convert:
      return 1;
    case Opcode::Broadcast:
    case Opcode::Reshape:
    case Opcode::Bitcast:
    case Opcode::Slice:
    case Opcode::GetTupleElement:
    case Opcode::Tuple:
    case Opcode::Constant:
      return 0.5;
    case Opcode::Parameter:
      return 1;
    case Opcode::Divide:
    case Opcode::Exp:
    case Opcode::Log:
    case Opcode::Sqrt:
    case Opcode::Rsqrt:
    case Opcode::Tanh:
    case Opcode::Logistic:
    case Opcode::Erf:
      return hlo::bit_width(it.shape.is_array() ? it.shape.type : hlo::ElementType::F32) > 32 ? 60 : 12;
    case Opcode::Sine:
    case Opcode::Cosine:
    case Opcode::Power:
    case Opcode::Tan:
      return 40;
    default:
      return 3;
  }
}

double elements_of(const hlo::Shape& shape) {
  const hlo::Shape& first = shape.is_tuple() && !shape.elements.empty() ? shape.elements[0] : shape;
  return first.is_array() ? static_cast<double>(first.element_count()) : 1;
}

bool is_identity(const indexing::IndexingMap& map) {
  if (!map.ranges.empty() || map.results.size() != map.dims.size()) return false;
  for (size_t i = 0; i < map.results.size(); ++i) {
    if (!(map.results[i] == indexing::Expr::dim(static_cast<int>(i))) && map.dims[i].size() > 1) return false;
  }
  return true;
}

}  // namespace

double estimated_microseconds(const hlo::Module& module, const Device& device) {
  const hlo::Computation& computation = module.entry_computation();
  // Only of reductions it matters whether an emitter computes them once: others are read as often as they are written.
  const bool reduces = std::any_of(computation.instructions.begin(), computation.instructions.end(),
                                   [](const Instruction& it) { return it.opcode == Opcode::Reduce; });
  std::set<InstructionId> heroes;
  if (reduces) {
    const Result<Plan> plan = choose_plan({module, module.entry, device}, "reduction");
    if (plan) heroes.insert(plan->decision.heroes.begin(), plan->decision.heroes.end());
  }
  // How often an instruction is evaluated: once for all users at its own index, and for each of the others.
  std::vector<double> shared(computation.instructions.size(), 0), apart(computation.instructions.size(), 0);
  const Instruction& root = computation.root_instruction();
  shared[static_cast<size_t>(computation.root)] = elements_of(root.shape);
  if (root.opcode == Opcode::Tuple) {
    for (const InstructionId id : root.operands) shared[static_cast<size_t>(id)] = elements_of(computation[id].shape);
  }
  double total_operations = 0;
  double cache_bytes = 0;
  double memory_bytes = bytes_of(root.shape);
  for (InstructionId id = computation.root; id >= 0; --id) {
    const Instruction& it = computation[id];
    double evaluated = shared[static_cast<size_t>(id)] + apart[static_cast<size_t>(id)];
    if (heroes.contains(id)) evaluated = elements_of(it.shape);
    if (evaluated == 0 || it.opcode == Opcode::Tuple) continue;
    total_operations += evaluated * operations(it);
    if (it.opcode == Opcode::Parameter) {
      // Of an array that is read in part only that part moves.
      memory_bytes += std::min(bytes_of(it.shape), evaluated * 32);
      cache_bytes += evaluated * (it.shape.is_array() ? hlo::byte_width(it.shape.type) : 4);
      continue;
    }
    const auto reads = indexing::operand_reads(module, module.entry, id);
    if (!reads) continue;
    for (const indexing::Read& read : *reads) {
      InstructionId operand = it.operands[static_cast<size_t>(read.operand)];
      if (computation[operand].opcode == Opcode::Tuple) {
        operand = computation[operand].operands[static_cast<size_t>(read.tuple_element)];
      }
      if (read.unknown) apart[static_cast<size_t>(operand)] += evaluated * elements_of(computation[operand].shape);
      for (const indexing::IndexingMap& map : read.maps) {
        if (is_identity(map)) {
          shared[static_cast<size_t>(operand)] = std::max(shared[static_cast<size_t>(operand)], evaluated);
          continue;
        }
        double each = 1;
        for (const indexing::Interval& range : map.ranges) each *= static_cast<double>(range.size());
        // Of what a condition guards, only what satisfies it is evaluated: no more than there is, as often as the whole
        // instruction is.
        const double times = std::max(evaluated / std::max(elements_of(it.shape), 1.0), 1.0);
        const double most = map.constraints.empty() || it.opcode == Opcode::Scatter
                                ? evaluated * each
                                : std::min(evaluated * each, times * elements_of(computation[operand].shape));
        apart[static_cast<size_t>(operand)] +=
            it.opcode == Opcode::Scatter ? elements_of(computation[operand].shape) : most;
      }
    }
  }
  return kLaunchMicroseconds +
         std::max({memory_bytes / kMemoryBytesPerMicrosecond, cache_bytes / kCacheBytesPerMicrosecond,
                   total_operations / kOperationsPerMicrosecond});
}

}  // namespace strata::emitters

#include "megakernel/tasks/task_code.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "superopt/codegen/emit.h"
#include "superopt/codegen/tiles/tiles.h"

namespace strata::megakernel {
namespace {

// Named barriers: one of the whole compute team, which the runtime meets at too, and one of a part of it.
constexpr int64_t kTeamBarrier = 1;
constexpr int64_t kPartBarrier = 2;
constexpr int64_t kTeamThreads = 256;
constexpr int64_t kPackingThreads = 256;
constexpr const char* kCoordinates = "d.record.coordinates[0], d.record.coordinates[1], d.record.coordinates[2]";

}  // namespace

Result<TaskCode> task_code(const Graph& graph, const Operation& op, const BlockSchedule& schedule,
                           const std::string& name, const Target& target) {
  auto emitted = emit_tiles(op, name, operand_strides(graph, op), schedule, target);
  if (!emitted) return unsupported("{}: {}", name, emitted.error().message);
  const BlockCode& code = *emitted;
  if (!code.packing || !code.ring) return unsupported("{}: tasks bring constants packed, and it packs none", name);
  if (code.ring->team_registers > 0) return unsupported("{}: tasks cannot pass registers on", name);
  if (code.barriers > 1) return unsupported("{}: the groups of warps of a task have no barriers of their own", name);
  if (code.cluster * code.sharers > 1) return unsupported("{}: a task is one block, not a cluster's", name);
  TaskCode made;
  made.name = name;
  made.text = fmt::format("// {}\n{}", code.description, code.text);
  made.math = "strata_device::Approximate";
  made.threads = code.team();
  made.iterations = op.body->launch().loop;
  made.stage_bytes = code.ring->slot_bytes;
  made.page_bytes = ceil_div(code.ring->page_bytes, 1024) * 1024;
  made.partial_bytes = code.scratch_bytes;
  made.registers = code.registers;
  made.packing = *code.packing;
  return made;
}

Result<TaskCode> fitting_task_code(const Graph& graph, const Operation& op, BlockSchedule schedule,
                                   const std::string& name, const Target& target, int64_t scratch_bytes) {
  const int64_t groups = schedule.loop_warps;
  const int64_t iterations = ceil_div(op.body->launch().loop, groups);  // of a group
  Result<TaskCode> last;
  for (int64_t turns = 1; turns <= groups; turns *= 2) {
    if (groups % turns != 0) break;
    schedule.leaving = turns == 1 ? 0 : groups / turns;
    int64_t tried = 0;
    for (int64_t pieces = 1; pieces <= iterations; ++pieces) {
      const int64_t piece = ceil_div(iterations, pieces);
      if (piece == tried) continue;
      tried = piece;
      schedule.piece = pieces == 1 ? 0 : piece;
      auto code = task_code(graph, op, schedule, name, target);
      if (code && code->scratch_bytes() <= scratch_bytes) return code;
      if (code) {
        last = with_remedy(unsupported("{}: {} bytes of scratch memory, more than {}, with one iteration's activations "
                                       "of each warp",
                                       name, code->scratch_bytes(), scratch_bytes),
                           "choose a smaller batch");
      } else if (turns == 1) {  // else sums that cannot be left in turns may be the reason
        last = std::move(code);
      }
    }
  }
  return last;
}

std::string load_call(const TaskCode& code, const TaskCall& call) {
  return fmt::format("      {}_load({}, {}, {}, {}, {}, page);\n", code.name, fmt::join(call.tensors, ", "),
                     call.packed, kCoordinates, call.iterations, call.ring);
}

std::string compute_call(const TaskCode& code, const TaskCall& call) {
  return fmt::format(
      "      if (side.platform().rank() < {0}) {{\n"
      "        {1}<{2}, {3}>({4}, {5},\n            {6}, {7}, page, side.scratch() + {8});\n"
      "      }} else {{\n        {7}.advance({6}, {9});\n      }}\n",
      code.threads, code.name, team_text(code.threads, code.threads == kTeamThreads ? kTeamBarrier : kPartBarrier),
      code.math, fmt::join(call.tensors, ", "), kCoordinates, call.iterations, call.ring, code.page_bytes,
      code.stage_bytes);
}

std::string task_switch(const std::vector<TaskBody>& bodies) {
  const auto cases = [&](bool loads) {
    std::string text;
    for (size_t n = 0; n < bodies.size(); ++n) {
      const std::string& statements = loads ? bodies[n].load : bodies[n].compute;
      if (statements.empty()) continue;
      text += fmt::format("    case {}: {{  // {}\n{}      break;\n    }}\n", n, bodies[n].comment, statements);
    }
    return text;
  };
  return fmt::format(
      "namespace strata_device {{\n\n"
      "template <class Descriptor, class Ring>\n"
      "STRATA_DEVICE void load_of_task(const Descriptor& d, Ring& ring) {{\n"
      "  [[maybe_unused]] Page page{{}};\n"
      "  StageRun run;\n"
      "  switch (d.record.function) {{\n{}    default: break;\n  }}\n"
      "  load_run(ring, run);\n}}\n\n"
      "template <class Descriptor, class Side>\n"
      "STRATA_DEVICE void compute_of_task(const Descriptor& d, Side& side) {{\n"
      "  [[maybe_unused]] TaskRing<Side> ring{{side}};\n"
      "  [[maybe_unused]] Page page{{side.scratch(), nullptr, nullptr, 0}};\n"
      "  switch (d.record.function) {{\n{}    default: break;\n  }}\n}}\n\n}}  // namespace strata_device\n\n"
      "namespace strata::megakernel {{\n\n"
      "template <class Load>\n"
      "STRATA_DEVICE void load_task(const Descriptor& task, Load& side) {{\n"
      "  strata_device::load_of_task(task, side);\n}}\n"
      "template <class Compute>\n"
      "STRATA_DEVICE void compute_task(const Descriptor& task, Compute& side) {{\n"
      "  strata_device::compute_of_task(task, side);\n}}\n\n}}  // namespace strata::megakernel\n",
      cases(true), cases(false));
}

std::string pack_kernel(const TaskCode& code, const Operation& op) {
  std::vector<std::string> types, names, values;
  const auto add = [&](TensorId id, const char* qualifier) {
    types.push_back(fmt::format("{}{}*", qualifier, storage_type(op.body->type(id).dtype)));
    names.push_back(fmt::format("t{}", names.size()));
  };
  for (TensorId id : op.body->inputs()) add(id, "const ");
  for (TensorId id : op.body->outputs()) add(id, "");
  std::string parameters;
  for (size_t n = 0; n < names.size(); ++n) parameters += fmt::format("{} {}, ", types[n], names[n]);
  return fmt::format(
      "STRATA_KERNEL void __launch_bounds__({0}) {1}_pack_kernel({2}unsigned char* packed) {{\n"
      "  {1}_pack<strata_device::BlockTeam<{0}>, strata_device::Exact>({3}, packed, blockIdx.x, blockIdx.y, "
      "blockIdx.z, nullptr);\n}}\n\n",
      kPackingThreads, code.name, parameters, fmt::join(names, ", "));
}

}  // namespace strata::megakernel

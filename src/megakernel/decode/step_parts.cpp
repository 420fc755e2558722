#include "megakernel/decode/step_parts.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace strata::megakernel {
namespace {

constexpr int64_t kOther = 6'144;  // bytes of a block's shared memory, for barriers and the list of tasks

}  // namespace

void divide_shared_memory(const OperatorGraph& operators, const Target& target, Machine& machine) {
  machine.scratch_bytes = 0;
  for (const Operator& op : operators.operators)
    machine.scratch_bytes = std::max(machine.scratch_bytes, ceil_div(op.cost.scratch_bytes, 1024) * 1024);
  machine.ring_bytes = (target.shared_memory - kOther - machine.scratch_bytes) / 1024 * 1024;
  machine.window_bytes = std::min(machine.window_bytes, machine.ring_bytes / 2);
}

Result<void> compile_step_code(DecodeTarget& target, const DecodeImage& image, const Plan& plan, StepForm form,
                               bool profile) {
  std::vector<std::string> names;
  for (const TaskFunction& function : plan.functions) names.push_back(function.name);
  std::set<std::string> kernels(image.caller_kernels.begin(), image.caller_kernels.end());
  for (const PackJob& job : image.packing) kernels.insert(job.kernel);
  return target.compile(image.text(names), static_cast<int>(names.size()),
                        std::vector<std::string>(kernels.begin(), kernels.end()), form, profile);
}

bool have_one_packing(const DecodeImage& a, const DecodeImage& b) {
  std::map<std::string, const Operator*> operators;
  for (const Operator& op : a.operators.operators) operators[op.name] = &op;
  for (const Operator& op : b.operators.operators) {
    const auto code = b.codes.find(op.function);
    if (code == b.codes.end()) continue;
    const auto other = a.codes.find(op.function);
    const auto at = operators.find(op.name);
    if (other == a.codes.end() || at == operators.end()) return false;
    const TaskCode &x = code->second, &y = other->second;
    const auto is_same = [](const Packing::Tile& s, const Packing::Tile& t) {
      return s.operand == t.operand && s.type == t.type && s.offset == t.offset;
    };
    // A cache is packed by sequence, so its batch is not the caches'.
    const bool batches = op.function == "attention";
    if (x.iterations != y.iterations || x.stage_bytes != y.stage_bytes ||
        (!batches && (x.packing.bytes != y.packing.bytes || op.grid != at->second->grid)) ||
        (batches && !std::equal(op.grid.begin(), op.grid.begin() + 2, at->second->grid.begin())) ||
        !std::equal(x.packing.tiles.begin(), x.packing.tiles.end(), y.packing.tiles.begin(), y.packing.tiles.end(),
                    is_same))
      return false;
  }
  return true;
}

Result<std::pair<Loads, double>> fastest_loads(std::span<const int64_t> windows, std::span<const int64_t> aheads,
                                               const std::function<Result<double>(const Loads&)>& measure) {
  std::pair<Loads, double> fastest{{}, HUGE_VAL};
  for (const int64_t window : windows) {
    for (const int64_t ahead : aheads) {
      const Loads loads{window, ahead};
      STRATA_TRY(const double seconds, measure(loads));
      if (seconds < fastest.second) fastest = {loads, seconds};
    }
  }
  return fastest;
}

Result<std::vector<OperatorRecord>> operator_records(const DecodeImage& image, const Plan& plan,
                                                     std::span<const uint64_t> addresses) {
  std::map<std::string, const std::vector<int>*> arguments;
  for (size_t n = 0; n < image.operators.operators.size(); ++n)
    arguments[image.operators.operators[n].name] = &image.arguments[n];
  std::vector<OperatorRecord> records;
  for (const std::string& name : plan.operators) {
    OperatorRecord& record = records.emplace_back(OperatorRecord{});
    const auto at = arguments.find(name);
    if (at == arguments.end()) continue;
    if (at->second->size() > std::size(record.arguments))
      return unsupported("operator '{}' has {} arguments, more than {}", name, at->second->size(),
                         std::size(record.arguments));
    for (size_t n = 0; n < at->second->size(); ++n)
      record.arguments[n] = reinterpret_cast<void*>(addresses[static_cast<size_t>((*at->second)[n])]);
  }
  return records;
}

}  // namespace strata::megakernel

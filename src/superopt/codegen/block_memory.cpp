#include "superopt/codegen/block_memory.h"

#include <algorithm>

#include "ir/validate.h"
#include "support/memory_plan.h"

namespace strata {
namespace {

constexpr int64_t kAlignment = 128;
/// A limit of the plan's search: some milliseconds.
constexpr int64_t kNodes = 20'000;

struct Depths {
  std::vector<int> of;  ///< each operation
  int loop = 0;         ///< depths of the loop: a value that survives an iteration lives at all of them
};

Depths depths_of(const Graph& body) {
  const std::vector<LoopStage> stages = loop_stages(body);
  Depths depths{std::vector<int>(body.operations().size(), 0)};
  int offset = 0;
  for (LoopStage stage : {LoopStage::Body, LoopStage::After}) {
    int end = offset;
    for (size_t i = 0; i < depths.of.size(); ++i) {
      if (stages[i] != stage) continue;
      int& depth = depths.of[i];
      depth = offset;
      for (TensorId id : body.operations()[i].operands) {
        const int producer = body.tensor(id).producer;
        if (producer < 0 || stages[static_cast<size_t>(producer)] != stage) continue;
        depth = std::max(depth, depths.of[static_cast<size_t>(producer)] + 1);
      }
      end = std::max(end, depth + 1);
    }
    if (stage == LoopStage::Body) depths.loop = end;
    offset = end;
  }
  return depths;
}

bool survives_iterations(const Operation& op) {
  return is_accumulator(op.kind) ||
         (op.kind == OpKind::InIter && op.attributes.integer_or("fmap", kReplicate) == kReplicate);
}

}  // namespace

BlockMemory plan_block_memory(const Graph& body, bool share) {
  BlockMemory memory;
  Depths depths = depths_of(body);
  memory.depths = std::move(depths.of);
  const int loop_end = depths.loop - 1;
  const bool loops = body.launch().loop > 1;
  const int last_depth = memory.depths.empty() ? 0 : *std::max_element(memory.depths.begin(), memory.depths.end());
  std::vector<int> last_use(body.tensors().size(), 0);
  for (size_t i = 0; i < body.operations().size(); ++i) {
    const Operation& op = body.operations()[i];
    for (const auto* ids : {&op.operands, &op.results}) {
      for (TensorId id : *ids)
        last_use[static_cast<size_t>(id)] = std::max(last_use[static_cast<size_t>(id)], memory.depths[i]);
    }
  }
  std::vector<LiveTensor> live;
  std::vector<int64_t*> places;
  const auto add = [&](int64_t bytes, int first, int last, int64_t& place) {
    live.push_back({bytes, share ? first : 0, share ? last : last_depth, kAlignment});
    places.push_back(&place);
  };
  memory.tensors.assign(body.tensors().size(), -1);
  memory.states.resize(body.operations().size());
  for (size_t i = 0; i < body.operations().size(); ++i) {
    const Operation& op = body.operations()[i];
    const bool all_iterations = loops && survives_iterations(op);
    for (TensorId id : op.results) {
      const int64_t bytes = shared_memory_bytes(body, id);
      if (bytes == 0) continue;
      const int last = last_use[static_cast<size_t>(id)];
      if (all_iterations) {
        add(bytes, 0, std::max(loop_end, last), memory.tensors[static_cast<size_t>(id)]);
      } else {
        add(bytes, memory.depths[i], last, memory.tensors[static_cast<size_t>(id)]);
      }
    }
    if (const int64_t bytes = accumulator_state_bytes(body, op); bytes > 0) {
      memory.states[i].assign(3, 0);
      for (int64_t& place : memory.states[i]) add(bytes, 0, std::max(loop_end, memory.depths[i]), place);
    }
  }
  const MemoryPlan plan = plan_memory(live, kNodes);
  for (size_t i = 0; i < places.size(); ++i) *places[i] = plan.offsets[i];
  memory.bytes = plan.peak;
  memory.lower_bound = plan.lower_bound;
  memory.optimal = plan.optimal;
  return memory;
}

}  // namespace strata

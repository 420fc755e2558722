// Plans that the compiler makes of random operator graphs, on the host target: each task sees what a serial run of the
// operators in program order sees, in every epoch, bit for bit. So compiler and runtime mean the same by a plan.
#include <gtest/gtest.h>

#include <set>

#include "indexing/enumerate.h"
#include "megakernel/runtime/host_target.h"
#include "megakernel/runtime/test_random_plan.h"
#include "megakernel/tgraph/check.h"
#include "megakernel/tgraph/compile.h"
#include "megakernel/tgraph/test_graphs.h"
#include "megakernel/tgraph/test_mutations.h"
#include "support/test_rounds.h"

namespace strata::megakernel::testing {
namespace {

constexpr uint32_t kEpochs = 3;

/// Elements of a tensor, as places in its memory.
struct Touched {
  int tensor = 0;
  std::vector<std::vector<int64_t>> of_block;
};

Touched touched(const Access& access, const OperatorGraph& graph, const std::vector<int64_t>& grid) {
  const auto& shape = graph.tensors[static_cast<size_t>(access.tensor)].shape;
  std::vector<std::set<int64_t>> places(static_cast<size_t>(*indexing::element_count(grid)));
  for_each_point(access.region.map, [&](const indexing::Point& point) {
    const int64_t block = number_of({point.dims.begin(), point.dims.end()}, grid);
    places[static_cast<size_t>(block)].insert(number_of(*evaluate(access.region.map, point), shape));
    return true;
  });
  Touched made{access.tensor, {}};
  for (const auto& of_block : places) made.of_block.emplace_back(of_block.begin(), of_block.end());
  return made;
}

/// What the tasks of a graph do: a task's results are a function of all that it reads, of its place and of the epoch.
class Model {
 public:
  explicit Model(const OperatorGraph& graph) : graph_(graph) {
    for (const Operator& op : graph.operators) {
      Tasks tasks;
      for (const Access& read : op.reads) tasks.reads.push_back(touched(read, graph, op.grid));
      for (const Access& write : op.writes) tasks.writes.push_back(touched(write, graph, op.grid));
      tasks_.push_back(std::move(tasks));
    }
  }

  struct Tasks {
    std::vector<Touched> reads, writes;
  };
  const Tasks& tasks(int op) const { return tasks_[static_cast<size_t>(op)]; }
  const OperatorGraph& graph() const { return graph_; }

  static uint64_t combined(int op, int64_t block, uint32_t epoch, const std::vector<uint32_t>& read) {
    const uint64_t start = mix(static_cast<uint64_t>(op) << 40 | static_cast<uint64_t>(block) << 20 | epoch);
    return mix_words(start, read.data(), static_cast<int>(read.size()));
  }
  static uint32_t result(uint64_t combined, size_t write, size_t n) {
    return static_cast<uint32_t>(mix(combined + 31 * write + n));
  }

 private:
  const OperatorGraph& graph_;
  std::vector<Tasks> tasks_;
};

/// Plain memory: tensors of one buffer share it.
class Memory {
 public:
  explicit Memory(const OperatorGraph& graph) {
    std::map<int, size_t> buffers;
    for (const StepTensor& tensor : graph.tensors) {
      const auto count = static_cast<size_t>(*indexing::element_count(tensor.shape));
      const bool shared = tensor.buffer >= 0;
      const auto found = shared ? buffers.find(tensor.buffer) : buffers.end();
      const size_t place = found != buffers.end() ? found->second : memory_.size();
      if (place == memory_.size()) memory_.emplace_back();
      if (shared) buffers[tensor.buffer] = place;
      if (memory_[place].size() < count) memory_[place].resize(count, 7);
      place_.push_back(place);
    }
  }
  std::vector<uint32_t>& of(int tensor) { return memory_[place_[static_cast<size_t>(tensor)]]; }

 private:
  std::vector<std::vector<uint32_t>> memory_;
  std::vector<size_t> place_;
};

/// What each task saw, by operator, block and epoch.
using Seen = std::map<std::tuple<int, int64_t, uint32_t>, uint64_t>;

Seen run_serially(const Model& model) {
  Memory memory(model.graph());
  Seen seen;
  for (uint32_t epoch = 1; epoch <= kEpochs; ++epoch) {
    for (size_t o = 0; o < model.graph().operators.size(); ++o) {
      const int op = static_cast<int>(o);
      const int64_t blocks = *indexing::element_count(model.graph().operators[o].grid);
      for (int64_t block = 0; block < blocks; ++block) {
        std::vector<uint32_t> read;
        for (const Touched& from : model.tasks(op).reads)
          for (const int64_t at : from.of_block[static_cast<size_t>(block)])
            read.push_back(memory.of(from.tensor)[static_cast<size_t>(at)]);
        const uint64_t combined = Model::combined(op, block, epoch, read);
        seen[{op, block, epoch}] = combined;
        const auto& writes = model.tasks(op).writes;
        for (size_t w = 0; w < writes.size(); ++w) {
          const auto& places = writes[w].of_block[static_cast<size_t>(block)];
          for (size_t n = 0; n < places.size(); ++n)
            memory.of(writes[w].tensor)[static_cast<size_t>(places[n])] = Model::result(combined, w, n);
        }
      }
    }
  }
  return seen;
}

/// The tensors that go from task to task in tagged words: all that an operator writes whose tasks signal such events.
std::set<int> tagged_tensors(const Plan& plan, const OperatorGraph& graph) {
  std::set<int> tensors;
  for (const Task& task : plan.tasks) {
    if (task.signal < 0 || task.op < 0) continue;
    if (plan.events[static_cast<size_t>(task.signal)].hand_off != HandOff::Tagged) continue;
    for (const Access& write : graph.operators[static_cast<size_t>(task.op)].writes) tensors.insert(write.tensor);
  }
  return tensors;
}

/// A graph's functions for a plan of it. What tasks of one worker hand each other lies in memory as all else does.
class Run {
 public:
  Run(const Model& model, const Plan& plan)
      : model_(model), plan_(plan), memory_(model.graph()), tagged_(tagged_tensors(plan, model.graph())) {
    for (const StepTensor& tensor : model.graph().tensors)
      words_.push_back(std::make_unique<HostTaggedWord[]>(static_cast<size_t>(*indexing::element_count(tensor.shape))));
    read_.resize(plan.tasks.size());
    for (size_t t = 0; t < plan.tasks.size(); ++t) {
      size_t count = 0;
      if (plan.tasks[t].op >= 0)
        for (const Touched& from : model.tasks(plan.tasks[t].op).reads)
          count +=
              from.of_block[static_cast<size_t>(block_of(plan.tasks[t].op, plan.tasks[t].coordinates.data()))].size();
      read_[t].resize(count);
    }
    for (std::vector<uint64_t>& of_task : seen_) of_task.resize(plan.tasks.size());
  }

  std::vector<HostFunction> functions() {
    HostFunction function;
    function.load = [this](const Descriptor& task, HostLoad& side) {
      const TaskFunction& one = function_of(task.record);
      for (int64_t n = 0; n < one.stages; ++n) side.push(constants_.data(), static_cast<unsigned>(one.stage_bytes));
    };
    function.compute = [this](const Descriptor& task, HostCompute& side) { compute(task.record, side); };
    return std::vector<HostFunction>(plan_.functions.size(), function);
  }

  uint64_t seen(size_t task, uint32_t epoch) const { return seen_[epoch][task]; }

 private:
  const TaskFunction& function_of(const TaskRecord& task) const {
    return plan_.functions[static_cast<size_t>(task.function)];
  }
  size_t block_of(int op, const long long* coordinates) const {
    const auto& grid = model_.graph().operators[static_cast<size_t>(op)].grid;
    return static_cast<size_t>(number_of({coordinates, coordinates + grid.size()}, grid));
  }
  size_t block_of(int op, const int64_t* coordinates) const {
    const auto& grid = model_.graph().operators[static_cast<size_t>(op)].grid;
    return static_cast<size_t>(number_of({coordinates, coordinates + grid.size()}, grid));
  }

  /// Warps take turns; the first lane of each has what it read.
  void read(const TaskRecord& task, HostCompute& side) {
    HostPlatform& platform = side.platform();
    std::vector<uint32_t>& read = read_[static_cast<size_t>(task.task)];
    size_t n = 0;
    for (const Touched& from : model_.tasks(task.op).reads) {
      for (const int64_t at : from.of_block[block_of(task.op, task.coordinates)]) {
        uint32_t& value = read[n++];
        if (static_cast<int>(n % static_cast<size_t>(platform.warps())) != platform.warp()) continue;
        if (tagged_.contains(from.tensor)) {
          side.read(&words_[static_cast<size_t>(from.tensor)][static_cast<size_t>(at)], 1,
                    [&](int, const Tagged& word) { value = word.data[0]; });
        } else if (platform.leads_warp()) {
          value = memory_.of(from.tensor)[static_cast<size_t>(at)];
        }
      }
    }
  }

  void compute(const TaskRecord& task, HostCompute& side) {
    HostPlatform& platform = side.platform();
    read(task, side);
    const TaskFunction& function = function_of(task);
    const auto bytes = static_cast<unsigned>(function.stage_bytes);
    for (int n = 0; n < function.stages; ++n) {
      side.stage(n, bytes);
      side.release(n, platform.warps());
    }
    side.advance(static_cast<int>(function.stages), bytes);
    platform.meet();
    if (side.left()) return;
    const auto t = static_cast<size_t>(task.task);
    const uint64_t combined =
        Model::combined(task.op, static_cast<int64_t>(block_of(task.op, task.coordinates)), side.epoch(), read_[t]);
    if (platform.leads()) seen_[side.epoch()][t] = combined;
    const auto& writes = model_.tasks(task.op).writes;
    for (size_t w = 0; w < writes.size(); ++w) {
      const auto& places = writes[w].of_block[block_of(task.op, task.coordinates)];
      for (size_t n = static_cast<size_t>(platform.rank()); n < places.size();
           n += static_cast<size_t>(platform.size())) {
        const uint32_t value = Model::result(combined, w, n);
        const auto at = static_cast<size_t>(places[n]);
        if (tagged_.contains(writes[w].tensor)) {
          side.write(words_[static_cast<size_t>(writes[w].tensor)][at], value, 0);
        } else {
          memory_.of(writes[w].tensor)[at] = value;
        }
      }
    }
  }

  const Model& model_;
  const Plan& plan_;
  std::vector<uint32_t> constants_ = std::vector<uint32_t>(kTestStageBytes / 4, 7);
  Memory memory_;
  std::set<int> tagged_;
  std::vector<std::unique_ptr<HostTaggedWord[]>> words_;
  std::vector<std::vector<uint32_t>> read_;  ///< by task
  std::vector<uint64_t> seen_[kEpochs + 1];
};

/// Counts of what the plans had, so that the test is seen to look at it.
struct Had {
  int tagged = 0, counters = 0, of_worker = 0, just_in_time = 0;
};

void run_and_compare(uint64_t seed, Had& had) {
  Random random(seed);
  const OperatorGraph graph = random_operator_graph(random);
  ASSERT_TRUE(validate(graph)) << validate(graph).error().to_string();
  Machine machine;
  machine.workers = 1 + static_cast<int>(random.below(4));
  machine.schedulers = 1 + static_cast<int>(random.below(2));
  machine.ring_bytes = kTestStageBytes * (1 + static_cast<int64_t>(random.below(4)));
  CompileOptions options;
  options.choose_hand_offs = random.below(4) != 0;
  const auto compiled = compile(graph, machine, options);
  ASSERT_TRUE(compiled) << compiled.error().to_string();
  const Plan& plan = compiled->plan;
  for (const Event& event : plan.events)
    ++(event.hand_off == HandOff::Tagged   ? had.tagged
       : event.hand_off == HandOff::Worker ? had.of_worker
                                           : had.counters);
  for (const Task& task : plan.tasks) had.just_in_time += task.mode == LaunchMode::JustInTime;

  const Model model(graph);
  const Seen expected = run_serially(model);
  Run run(model, plan);
  HostOptions host;
  host.shape.ring_bytes = machine.ring_bytes;
  host.shape.scratch_bytes = machine.scratch_bytes;
  host.shape.warps = 1 << random.below(2);
  host.lanes = 1 + static_cast<int>(random.below(2));
  host.delays = random.below(4) != 0;
  host.late_stores = random.below(4) != 0;
  host.seed = random();
  host.limit = std::chrono::seconds(60);
  host.start_limit = std::chrono::seconds(50);
  auto kernel = HostKernel::make(plan, run.functions(), host);
  ASSERT_TRUE(kernel) << kernel.error().to_string() << "\n" << print_plan(plan);
  const auto launched = (*kernel)->launch(kEpochs);
  ASSERT_TRUE(launched) << launched.error().to_string();
  const auto done = (*kernel)->wait();
  ASSERT_TRUE(done) << done.error().to_string();
  ASSERT_EQ(*done, kEpochs);
  for (uint32_t epoch = 1; epoch <= kEpochs; ++epoch) {
    for (size_t t = 0; t < plan.tasks.size(); ++t) {
      const Task& task = plan.tasks[t];
      if (task.op < 0) continue;
      const auto& grid = graph.operators[static_cast<size_t>(task.op)].grid;
      const int64_t block = number_of({task.coordinates.begin(), task.coordinates.begin() + grid.size()}, grid);
      ASSERT_EQ(run.seen(t, epoch), expected.at({task.op, block, epoch}))
          << graph.operators[static_cast<size_t>(task.op)].name << ", block " << block << ", epoch " << epoch;
    }
  }
}

TEST(CompiledPlans, RunAsTheirOperatorsDoInProgramOrder) {
  Had had;
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(rounds(120)); ++seed) {
    SCOPED_TRACE(seed);
    run_and_compare(seed, had);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(had.tagged, rounds(20));
  EXPECT_GE(had.counters, rounds(20));
  EXPECT_GE(had.of_worker, rounds(20));
  EXPECT_GE(had.just_in_time, rounds(20));
}

/// What the compiler's check accepts, the runtime does.
TEST(CompiledPlans, TheRuntimeAcceptsWhatTheCheckAccepts) {
  Random random(17);
  int accepted = 0;
  int refused = 0;
  while (accepted < rounds(600)) {
    RandomGraphOptions graph;
    graph.operators = 5;
    const OperatorGraph operators = random_operator_graph(random, graph);
    Machine machine;
    machine.workers = 1 + static_cast<int>(random.below(4));
    machine.schedulers = 1;
    const auto compiled = compile(operators, machine, {});
    ASSERT_TRUE(compiled) << compiled.error().to_string();
    if (compiled->plan.tasks.size() > 150) continue;
    WorkerShape shape;
    shape.ring_bytes = machine.ring_bytes;
    shape.scratch_bytes = machine.scratch_bytes;
    for (int mutant = 0; mutant < 60; ++mutant) {
      Plan plan = compiled->plan;
      const std::string what = Mutation(plan, random).apply(random.below(Mutation::kKinds));
      if (!check(plan, operators, machine)) {
        ++refused;
        continue;
      }
      ++accepted;
      const auto image = make_image(plan, shape);
      ASSERT_TRUE(image) << what << ": " << image.error().to_string() << "\n" << print_plan(plan);
    }
  }
  EXPECT_GT(refused, rounds(600));
}

}  // namespace
}  // namespace strata::megakernel::testing

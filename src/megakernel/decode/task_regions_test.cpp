// What the compiler of plans believes of tasks (decode_image.cpp, regions of operators), against what their device code
// does on the host: each task alone, as the only one of a step. Too small a region would be a race that no test of
// whole steps need show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "indexing/enumerate.h"
#include "megakernel/decode/decode_image.h"
#include "megakernel/decode/fiber_decode.h"
#include "megakernel/decode/step_parts.h"
#include "megakernel/models/bf16.h"
#include "megakernel/models/test_models.h"
#include "megakernel/runtime/cuda/words.h"
#include "megakernel/tasks/device/strata_sequence.h"
#include "megakernel/tgraph/compile.h"
#include "superopt/codegen/test_host.h"
#include "support/random.h"

namespace strata::megakernel {
namespace {

using Kind = DecodeBuffer::Kind;
using strata_device::SequenceOptions;

constexpr int64_t kWordBytes = sizeof(CudaTaggedWord);
constexpr size_t kTag = offsetof(Tagged, tag);

struct Decode {
  const char* name;
  ModelFamily family;
  int64_t batch;  ///< rows, of a step of prompts too
  int64_t capacity;
  int workers;
  int64_t splits;         ///< of attention, which follow from these but in steps of prompts
  bool untagged = false;  ///< activations that products read
  int64_t vocabulary = 256;
  int64_t each = 1;  ///< positions of a sequence (PromptRows)

  friend std::ostream& operator<<(std::ostream& out, const Decode& one) { return out << one.name; }
};

ModelConfig config_of(const Decode& decode) {
  ModelConfig config = tiny_config(decode.family);
  config.hidden_size = 128;
  config.num_hidden_layers = 1;
  config.num_key_value_heads = decode.family == ModelFamily::Qwen3 ? 2 : 1;
  config.head_dim = decode.family == ModelFamily::Qwen3 ? 64 : 32;
  config.intermediate_size = 128;
  config.vocab_size = decode.vocabulary;
  return config;
}

/// All of the step's memory, by buffer.
using State = std::vector<std::string>;

/// Bytes of it.
class Mask {
 public:
  explicit Mask(const State& state) {
    for (const std::string& bytes : state) masks_.emplace_back(bytes.size(), false);
  }
  void add(size_t buffer, int64_t from, int64_t bytes) {
    auto& mask = masks_[buffer];
    ASSERT_LE(static_cast<size_t>(from + bytes), mask.size());
    std::fill_n(mask.begin() + from, bytes, true);
  }
  bool has(size_t buffer, size_t byte) const { return masks_[buffer][byte]; }

 private:
  std::vector<std::vector<bool>> masks_;
};

class TaskRegions : public testing::TestWithParam<Decode> {
 protected:
  void SetUp() override {
    const Decode& decode = GetParam();
    config_ = config_of(decode);
    const Target& target = **find_target("sm_90a");
    auto opened = FiberDecodeTarget::open(kPlainHost, target);
    ASSERT_TRUE(opened) << opened.error().to_string();
    target_ = std::move(*opened);
    Machine machine;
    machine.workers = decode.workers;
    if (decode.untagged) machine.tagged_bytes = 64;
    capacity_ = cache_positions(config_, decode.batch / decode.each, decode.capacity, {.workers = machine.workers});
    const PromptRows rows{decode.each, decode.each > 1 ? decode.splits : 0};
    auto image = decode_image(config_, {decode.batch, capacity_, DType::BF16}, machine, target, rows);
    ASSERT_TRUE(image) << image.error().to_string();
    image_ = std::move(*image);
    for (const Operator& op : image_.operators.operators) {
      if (op.function == "attention") {
        ASSERT_EQ(op.grid[0], decode.splits);
      }
    }
    divide_shared_memory(image_.operators, target, machine);
    shape_ = cuda_shape();
    shape_.ring_bytes = machine.ring_bytes;
    shape_.window_bytes = machine.window_bytes;
    shape_.scratch_bytes = machine.scratch_bytes;
    const auto compiled = compile(image_.operators, machine);
    ASSERT_TRUE(compiled) << compiled.error().to_string();
    functions_ = compiled->plan.functions;
    const auto code = compile_step_code(*target_, image_, compiled->plan, StepForm::Megakernel, false);
    ASSERT_TRUE(code) << code.error().to_string();
    for (const DecodeBuffer& buffer : image_.buffers) {
      auto memory = target_->allocate(buffer.bytes);
      ASSERT_TRUE(memory) << memory.error().to_string();
      memory_.push_back(std::move(*memory));
    }
  }

  /// Before the first task: caches and constants of any finite numbers, and words that nobody has written.
  State first_state() {
    State state;
    for (const DecodeBuffer& buffer : image_.buffers) {
      std::string& bytes = state.emplace_back(static_cast<size_t>(buffer.bytes), '\0');
      const auto put = [&](size_t n, const auto& value) {
        std::memcpy(bytes.data() + n * sizeof value, &value, sizeof value);
      };
      const auto rows = static_cast<size_t>(GetParam().batch);
      switch (buffer.kind) {
        case Kind::Words:
        case Kind::Memory:
        case Kind::Stop:
        case Kind::Counts:
          break;
        case Kind::Tokens:
          for (size_t n = 0; n < rows; ++n) put(n, static_cast<int>(random_.below(256)));
          break;
        case Kind::Sequences:  // one that takes the largest, where there are two, and one that draws
          for (size_t n = 0; n < rows; ++n) {
            SequenceOptions options;
            if (n + 1 == rows) options = {.inverse_temperature = 0.5F, .top_k = 40, .share = 15'000'000};
            put(n, options);
          }
          break;
        default:
          for (size_t n = 0; n < bytes.size() / 2; ++n)
            put(n, float_to_bf16(static_cast<float>(random_.uniform(-0.5, 0.5))));
      }
    }
    return state;
  }

  /// The state after a task that has the step to itself. Error (Environment) where it waits for what nobody writes.
  Result<State> after(const Operator& op, const std::array<int64_t, 3>& coordinates, const State& before,
                      const std::string& order) {
    const auto function = std::find_if(functions_.begin(), functions_.end(),
                                       [&](const TaskFunction& one) { return one.name == op.function; });
    Plan plan;
    plan.name = op.name;
    plan.workers = 1;
    plan.functions = functions_;
    plan.operators = {op.name};
    Task& task = plan.tasks.emplace_back();
    task.function = static_cast<int>(function - functions_.begin());
    task.op = 0;
    task.coordinates = coordinates;
    plan.queues = {{0}};
    std::vector<uint64_t> addresses;
    for (size_t n = 0; n < memory_.size(); ++n) {
      STRATA_CHECK(memory_[n]->upload(before[n]));
      addresses.push_back(memory_[n]->address());
    }
    KernelOptions options;
    options.shape = shape_;
    options.limit = std::chrono::milliseconds(200);
    options.tokens_per_step = static_cast<int>(GetParam().batch);
    // In the last tile of the cache, so that all tiles are read.
    const int64_t each = GetParam().each;
    for (int64_t row = 0; row < GetParam().batch; ++row)
      options.lengths.push_back(static_cast<int>(capacity_ - 8 + row % each));
    STRATA_TRY(options.operators, operator_records(image_, plan, addresses));
    target_->set_order(order);
    STRATA_TRY(const std::unique_ptr<StepKernel> kernel, target_->step_kernel(plan, options, StepForm::Megakernel));
    STRATA_CHECK(kernel->launch(1));
    STRATA_CHECK(kernel->wait());
    State state;
    for (const auto& memory : memory_) {
      STRATA_TRY(std::string bytes, memory->download());
      state.push_back(std::move(bytes));
    }
    return state;
  }

  static constexpr size_t kNowhere = ~size_t{0};
  size_t buffer_of(Kind kind, const std::string& name = "") const {
    for (size_t n = 0; n < image_.buffers.size(); ++n)
      if (image_.buffers[n].kind == kind && (name.empty() || image_.buffers[n].name == name)) return n;
    return kNowhere;
  }

  /// Adds the memory of an element of a tensor.
  void add_element(Mask& mask, const StepTensor& tensor, const std::vector<int64_t>& index) const {
    const auto add = [&](size_t buffer, int64_t unit, int64_t bytes) {
      if (buffer != kNowhere) mask.add(buffer, unit * bytes, bytes);
    };
    const auto row_major = [&](size_t dims) {
      int64_t at = 0;
      for (size_t d = 0; d < dims; ++d) at = at * tensor.shape[d] + index[d];
      return at;
    };
    const size_t rank = tensor.shape.size();
    if (tensor.name == "next") {  // which the host reads, and the next step
      add(buffer_of(Kind::Tokens), index[0], sizeof(int));
      add(buffer_of(Kind::Sequences), index[0], sizeof(SequenceOptions));
    } else if (tensor.name.starts_with("cache.")) {  // [splits, heads, rows, tiles]
      const int64_t at =
          ((index[2] / GetParam().each * tensor.shape[1] + index[1]) * tensor.shape[0] + index[0]) * tensor.shape[3];
      add(buffer_of(Kind::Cache, "attention" + tensor.name.substr(5) + ".packed"), at + index[3], tensor.element_bytes);
    } else if (const size_t memory = buffer_of(Kind::Memory, tensor.name); memory != kNowhere) {
      add(memory, row_major(rank), tensor.element_bytes);
    } else if (const size_t words = buffer_of(Kind::Words, tensor.name); words != kNowhere) {
      const int64_t row = tensor.shape.back(), per_word = row == 1 ? 1 : 8 / tensor.element_bytes;
      add(words, row_major(rank - 1) * ceil_div(row, per_word) + index.back() / per_word, kWordBytes);
    } else {
      ADD_FAILURE() << "no memory of " << tensor.name;
    }
  }

  /// What a task may touch by these accesses, of what tasks write.
  Mask touched(const std::vector<Access>& accesses, const std::array<int64_t, 3>& coordinates,
               const State& state) const {
    Mask mask(state);
    for (const Access& access : accesses) {
      const StepTensor& tensor = image_.operators.tensors[static_cast<size_t>(access.tensor)];
      if (tensor.kind == TensorClass::Constant || tensor.name == "embeddings") continue;
      if (tensor.name == "counts") {
        // Parts add to any of a row's; a share of them stands for that (decode_image.cpp).
        const size_t counts = buffer_of(Kind::Counts);
        const int64_t row = image_.buffers[counts].bytes / GetParam().batch;
        std::set<int64_t> rows;
        each_index(access, coordinates, [&](const std::vector<int64_t>& index) { rows.insert(index[0]); });
        for (const int64_t b : rows) mask.add(counts, b * row, row);
        continue;
      }
      each_index(access, coordinates, [&](const std::vector<int64_t>& index) { add_element(mask, tensor, index); });
    }
    return mask;
  }
  template <class Visit>
  static void each_index(const Access& access, const std::array<int64_t, 3>& coordinates, const Visit& visit) {
    indexing::IndexingMap map = access.region.map;
    for (int d = 0; d < access.region.coordinates; ++d)
      map.dims[static_cast<size_t>(d)] = {coordinates[static_cast<size_t>(d)], coordinates[static_cast<size_t>(d)]};
    indexing::for_each_point(map, [&](const indexing::Point& point) {
      visit(*indexing::evaluate(map, point));
      return true;
    });
  }

  /// An operator with what it touches and the plan does not know, since what it knows orders it (decode_image.cpp):
  /// `sample` reads logits, which those behind Best have read, and clears counts, which nobody reads after it.
  Operator with_ordered_accesses(const Operator& op) const {
    Operator all = op;
    if (op.function != "sample") return all;
    for (const auto& [name, writes] : {std::pair{"Logits", false}, std::pair{"counts", true}}) {
      const auto& tensors = image_.operators.tensors;
      const auto at = std::find_if(tensors.begin(), tensors.end(), [&](const auto& one) { return one.name == name; });
      Access access;
      access.tensor = static_cast<int>(at - tensors.begin());
      access.region.writes = writes;
      access.region.coordinates = 1;
      indexing::IndexingMap& map = access.region.map;
      map.dims = indexing::positions(op.grid);
      map.results = {indexing::Expr::dim(0)};
      for (size_t d = 1; d < at->shape.size(); ++d) {
        map.ranges.push_back(indexing::below(at->shape[d]));
        map.results.push_back(indexing::Expr::range(static_cast<int>(d) - 1));
      }
      (writes ? all.writes : all.reads).push_back(access);
    }
    return all;
  }

  static std::vector<std::array<int64_t, 3>> tasks_of(const Operator& op) {
    std::vector<std::array<int64_t, 3>> tasks;
    for_each_block(op.grid, [&](const GridPoint& point) { tasks.push_back(point.block); });
    return tasks;
  }

  /// Whether a buffer holds what tasks of a step hand on: not constants, nor what the host and the step before wrote.
  bool is_handed_on(size_t buffer) const {
    const Kind kind = image_.buffers[buffer].kind;
    return kind == Kind::Words || kind == Kind::Memory || kind == Kind::Cache || kind == Kind::Counts;
  }

  /// Of each task of an operator the state that it makes of `before`, alone.
  Result<std::vector<State>> each_alone(const Operator& op, const State& before) {
    std::vector<State> alone;
    for (const auto& task : tasks_of(op)) {
      STRATA_TRY(State found, after(op, task, before, "forward"));
      alone.push_back(std::move(found));
    }
    return alone;
  }
  /// The state after all of them.
  State together(const Operator& op, const State& before, const std::vector<State>& alone) const {
    State all = before;
    for (const State& one : alone) {
      for (size_t b = 0; b < before.size(); ++b) {
        if (adds_to(op, b)) add_counts(all[b], one[b], before[b]);
        if (adds_to(op, b) || one[b] == before[b]) continue;
        for (size_t n = 0; n < before[b].size(); ++n)
          if (one[b][n] != before[b][n]) all[b][n] = one[b][n];
      }
    }
    return all;
  }

  /// What is wrong with the regions of an operator; of each task one thing, or, `any`, the first thing of all.
  std::vector<std::string> faults(const Operator& op, const State& before, const std::vector<State>& alone,
                                  bool any = false) {
    const std::vector<std::array<int64_t, 3>> tasks = tasks_of(op);
    std::vector<std::string> wrong;
    const auto say = [&](size_t task, const std::string& text) {
      wrong.push_back(fmt::format("{} ({}): {}", op.name, fmt::join(tasks[task], ", "), text));
    };
    std::vector<std::vector<int>> writers;  // by byte: 1 + the task
    for (const std::string& bytes : before) writers.emplace_back(bytes.size(), 0);
    for (size_t t = 0; t < tasks.size(); ++t) {
      if (const std::string fault = fault_of_writes(op, tasks[t], before, alone[t], writers, static_cast<int>(t) + 1);
          !fault.empty())
        say(t, fault);
      if (any && !wrong.empty()) return wrong;
    }
    for (size_t t = 0; t < tasks.size(); ++t) {
      if (const std::string fault = fault_of_reads(op, tasks[t], before, alone[t], writers, static_cast<int>(t) + 1);
          !fault.empty())
        say(t, fault);
      if (any && !wrong.empty()) return wrong;
    }
    return wrong;
  }

  /// What a task wrote outside its regions or over what another one wrote; marks what it wrote.
  std::string fault_of_writes(const Operator& op, const std::array<int64_t, 3>& task, const State& before,
                              const State& found, std::vector<std::vector<int>>& writers, int number) const {
    const Mask writes = touched(op.writes, task, before);
    for (size_t b = 0; b < before.size(); ++b) {
      if (found[b] == before[b]) continue;
      for (size_t n = 0; n < before[b].size(); ++n) {
        if (found[b][n] == before[b][n]) continue;
        if (!writes.has(b, n)) return fmt::format("writes byte {} of {}", n, image_.buffers[b].name);
        if (writers[b][n] != 0 && !adds_to(op, b))
          return fmt::format("writes byte {} of {}, as task {} does", n, image_.buffers[b].name, writers[b][n] - 1);
        writers[b][n] = number;
      }
    }
    return {};
  }

  /// Whether tasks add to what lies in a buffer, by atomic operations, whatever others add at the same time.
  bool adds_to(const Operator& op, size_t buffer) const {
    return image_.buffers[buffer].kind == Kind::Counts && op.function == "best_of_part";
  }
  static void add_counts(std::string& to, const std::string& after, const std::string& before) {
    for (size_t n = 0; n < to.size(); n += sizeof(unsigned)) {
      unsigned sum = 0, now = 0, then = 0;
      std::memcpy(&sum, to.data() + n, sizeof sum);
      std::memcpy(&now, after.data() + n, sizeof now);
      std::memcpy(&then, before.data() + n, sizeof then);
      sum += now - then;
      std::memcpy(to.data() + n, &sum, sizeof sum);
    }
  }

  /// Runs the task with other bytes in all that it must not read: it writes what it wrote, all of its region, and
  /// nothing else. What another task of the operator writes it must not read either.
  std::string fault_of_reads(const Operator& op, const std::array<int64_t, 3>& task, const State& before,
                             const State& expected, const std::vector<std::vector<int>>& writers, int number) {
    const Mask reads = touched(op.reads, task, before), writes = touched(op.writes, task, before);
    const auto is_others = [&](size_t b, size_t n) {
      return writers[b][n] != 0 && writers[b][n] != number && !adds_to(op, b);
    };
    State changed = before;
    for (size_t b = 0; b < changed.size(); ++b) {
      if (!is_handed_on(b)) continue;
      for (size_t n = 0; n < changed[b].size(); ++n) {
        if (!is_others(b, n) && (reads.has(b, n) || (adds_to(op, b) && writes.has(b, n)))) continue;
        const bool tag = image_.buffers[b].kind == Kind::Words && n % kWordBytes >= kTag;
        changed[b][n] = tag ? '\0' : static_cast<char>(~changed[b][n]);
      }
    }
    const Result<State> found = after(op, task, changed, fmt::format("{}", number));
    if (!found) return "reads what is not in its regions: " + found.error().message;
    for (size_t b = 0; b < changed.size(); ++b) {
      if (!is_handed_on(b) && (*found)[b] == changed[b] && expected[b] == changed[b]) continue;
      for (size_t n = 0; n < changed[b].size(); ++n) {
        const bool own = writes.has(b, n) && !is_others(b, n);
        if ((*found)[b][n] == (own ? expected : changed)[b][n]) continue;
        if (!own) return fmt::format("writes byte {} of {} where other bytes are", n, image_.buffers[b].name);
        return fmt::format("byte {} of {} depends on what is not in its regions, or is not written", n,
                           image_.buffers[b].name);
      }
    }
    return {};
  }

  ModelConfig config_;
  int64_t capacity_ = 0;
  std::unique_ptr<FiberDecodeTarget> target_;
  DecodeImage image_;
  std::vector<TaskFunction> functions_;
  WorkerShape shape_;
  std::vector<std::unique_ptr<DecodeMemory>> memory_;
  Random random_{1};
};

/// Operators in turn, from what those before them left. And regions that are smaller than what tasks touch show: each
/// without one of its accesses, and with half of it, where that is more than words.
TEST_P(TaskRegions, HoldWhatTasksTouch) {
  State state = first_state();
  std::set<std::string> seen;
  for (const Operator& declared : image_.operators.operators) {
    SCOPED_TRACE(declared.name);
    const Operator op = with_ordered_accesses(declared);
    seen.insert(op.function);
    const auto alone = each_alone(op, state);
    ASSERT_TRUE(alone) << alone.error().to_string();
    EXPECT_THAT(faults(op, state, *alone), testing::IsEmpty());
    for (std::vector<Access> Operator::*const accesses : {&Operator::reads, &Operator::writes}) {
      for (size_t n = 0; n < (op.*accesses).size(); ++n) {
        const StepTensor& tensor = image_.operators.tensors[static_cast<size_t>((op.*accesses)[n].tensor)];
        SCOPED_TRACE((accesses == &Operator::reads ? "reading " : "writing ") + tensor.name);
        if (tensor.kind == TensorClass::Constant || tensor.name == "embeddings") continue;
        if (op.function == "end_of_rows" && tensor.name == "next") continue;  // it has a name alone
        Operator without = op;
        (without.*accesses).erase((without.*accesses).begin() + static_cast<int64_t>(n));
        EXPECT_FALSE(faults(without, state, *alone, true).empty()) << "without it";
        Operator smaller = op;
        auto& ranges = (smaller.*accesses)[n].region.map.ranges;
        const auto widest = std::max_element(ranges.begin(), ranges.end(),
                                             [](const auto& a, const auto& b) { return a.size() < b.size(); });
        if (tensor.name == "counts" || widest == ranges.end() || widest->size() < 8) continue;
        widest->hi = widest->lo + widest->size() / 2 - 1;
        EXPECT_FALSE(faults(smaller, state, *alone, true).empty()) << "half of it";
      }
    }
    state = together(op, state, *alone);
  }
  for (const char* function : {"embed", "norm_qkv", "attention", "output_projection", "gated_up", "down"})
    EXPECT_TRUE(seen.contains(function)) << function;
  EXPECT_EQ(seen.contains("combine"), GetParam().splits > 1);
  for (const char* function : {"head", "best_of_part", "sample"})
    EXPECT_EQ(seen.contains(function), GetParam().each == 1) << function;
}

INSTANTIATE_TEST_SUITE_P(TinyModels, TaskRegions,
                         testing::Values(Decode{"qwen3_batch1", ModelFamily::Qwen3, 1, 128, 4, 2},
                                         Decode{"llama_batch2", ModelFamily::Llama, 2, 128, 4, 2, false, 259},
                                         Decode{"llama_batch2_untagged", ModelFamily::Llama, 2, 64, 2, 1, true},
                                         Decode{"qwen3_prompts", ModelFamily::Qwen3, 8, 128, 4, 2, false, 256, 4}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace strata::megakernel

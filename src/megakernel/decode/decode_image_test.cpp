// Images of decode steps of small models: their plans, their memory, and their device code.
#include "megakernel/decode/decode_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "megakernel/decode/step_parts.h"
#include "megakernel/decode/step_plan.h"
#include "megakernel/models/test_models.h"
#include "megakernel/runtime/core/program.h"
#include "megakernel/runtime/cuda/source.h"
#include "megakernel/tgraph/compile.h"
#include "support/test_rounds.h"

namespace strata::megakernel {
namespace {

ModelConfig small_config(ModelFamily family) {
  ModelConfig config = tiny_config(family);
  config.hidden_size = 256;
  config.num_attention_heads = 8;
  config.head_dim = family == ModelFamily::Qwen3 ? 64 : 32;
  config.intermediate_size = 512;
  config.vocab_size = 512;
  return config;
}

Result<DecodeImage> image_of(const ModelConfig& config, int64_t batch = 1, const Target& target = default_target()) {
  return decode_image(config, {batch, 512, DType::BF16}, Machine{}, target);
}

class DecodeImages : public testing::TestWithParam<ModelFamily> {};

TEST_P(DecodeImages, HaveAPlanWhoseTasksHandOverInTaggedWords) {
  const ModelConfig config = small_config(GetParam());
  for (const int64_t batch : {1, 2}) {
    const auto image = image_of(config, batch);
    ASSERT_TRUE(image) << image.error().to_string();
    const auto compiled = compile(image->operators, Machine{});
    ASSERT_TRUE(compiled) << compiled.error().to_string();
    const Plan& plan = compiled->plan;
    // What is read of a row of the cache in the next step is released by a counter, before the step ends.
    const Task& last = plan.tasks.back();
    ASSERT_GE(last.op, 0);
    EXPECT_EQ(plan.operators[static_cast<size_t>(last.op)], batch == 1 ? "sample" : "end");
    std::set<std::string> waiting;
    for (const Task& task : plan.tasks) {
      for (const int event : task.waits) {
        if (plan.events[static_cast<size_t>(event)].hand_off == HandOff::Counter)
          waiting.insert(task.op < 0 ? "empty" : plan.operators[static_cast<size_t>(task.op)]);
      }
    }
    EXPECT_THAT(waiting, testing::Contains("sample"));  // which acquires the histogram that it loads plainly
    for (const char* hot : {"norm_qkv.1", "attention.0", "output_projection.0", "gated_up.1", "down.0", "head"})
      EXPECT_THAT(waiting, testing::Not(testing::Contains(hot)));
  }
}

TEST_P(DecodeImages, NameMemoryForAllThatTasksTouch) {
  const ModelConfig config = small_config(GetParam());
  const auto image = image_of(config);
  ASSERT_TRUE(image) << image.error().to_string();
  ASSERT_EQ(image->arguments.size(), image->operators.operators.size());
  std::set<int> used;
  for (const std::vector<int>& arguments : image->arguments) {
    EXPECT_LE(arguments.size(), static_cast<size_t>(kMostArguments));
    used.insert(arguments.begin(), arguments.end());
  }
  EXPECT_EQ(used.size(), image->buffers.size());
  // Every weight is packed, or read as it is.
  std::set<std::string> weights;
  int64_t packed = 0;
  for (const PackJob& job : image->packing) {
    for (const WeightSpec& weight : job.weights) weights.insert(weight.name);
    packed += image->buffers[static_cast<size_t>(job.buffer)].bytes;
  }
  for (const DecodeBuffer& buffer : image->buffers) weights.insert(buffer.weight);
  int64_t matrices = 0;
  for (const WeightSpec& spec : weight_specs(config)) {
    EXPECT_TRUE(weights.contains(spec.name)) << spec.name;
    if (spec.shape.size() == 2 && spec.name != "model.embed_tokens.weight") matrices += spec.elements() * 2;
  }
  EXPECT_EQ(image->floor_bytes, matrices);
  EXPECT_GE(packed, matrices);
}

TEST_P(DecodeImages, CompileForAllTargets) {
  struct Case {
    const Target* target;
    int64_t batch;
  };
  std::vector<Case> cases;
  // OfPromptsCompilesForItsTarget and OfFilledUpSizesCompilesForItsTarget compile for the default one.
  for (const Target& target : targets())
    if (rounds(2) == 2 || &target != &default_target()) cases.push_back({&target, 1});
  // Results of eight sequences lie the other way in registers.
  if (GetParam() == ModelFamily::Llama) cases.push_back({&default_target(), 8});
  for (const auto& [target, batch] : cases) {
    SCOPED_TRACE(fmt::format("{}, batch {}", target->name, batch));
    const auto image = image_of(small_config(GetParam()), batch, *target);
    ASSERT_TRUE(image) << image.error().to_string();
    std::vector<std::string> names;
    for (const auto& [name, body] : image->bodies) names.push_back(name);
    constexpr int kSpilled = 2048;  // bytes
    const auto code = compile_cuda_code(image->text(names), *target, false, kSpilled);
    ASSERT_TRUE(code) << code.error().to_string();
    EXPECT_LE(code->use.registers, 168);  // of 320 threads
    if (batch > 1) continue;
    // The same as a graph of kernels, two blocks of 288 threads to a multiprocessor.
    const auto graph =
        compile_cuda_code(image->text(names), *target, false, kSpilled, nullptr, static_cast<int>(names.size()));
    ASSERT_TRUE(graph) << graph.error().to_string();
    EXPECT_LE(graph->use.registers, 112);
    EXPECT_EQ(graph->use.spilled_bytes, 0);
  }
}

/// What is filled up (decode_sizes.h): the embeddings are as in the file, and parts of the vocabulary cover all words.
TEST(DecodeImage, OfFilledUpSizesCompilesForItsTarget) {
  ModelConfig config = small_config(ModelFamily::Llama);
  config.vocab_size = 509;
  config.intermediate_size = 100;
  const auto image = image_of(config);
  ASSERT_TRUE(image) << image.error().to_string();
  const int64_t row = config.hidden_size;
  int embeddings = 0, heads = 0, ups = 0, downs = 0;
  for (const DecodeBuffer& buffer : image->buffers) {
    if (buffer.weight != "model.embed_tokens.weight") continue;
    ++embeddings;
    EXPECT_EQ(buffer.bytes, 509 * row * 2);
  }
  for (const PackJob& job : image->packing) {
    for (const WeightSpec& weight : job.weights) {
      const auto expect = [&](std::string_view name, const Shape& shape, int& found) {
        if (!weight.name.ends_with(name)) return;
        ++found;
        EXPECT_EQ(weight.shape, shape);
      };
      expect("lm_head.weight", Shape{512, row}, heads);
      expect("up_proj.weight", Shape{128, row}, ups);
      expect("down_proj.weight", Shape{row, 128}, downs);
    }
  }
  EXPECT_GT(embeddings, 0);
  // What a step must read is the model's own.
  const int64_t layer = 2 * row * (config.query_columns() + config.key_columns()) + 3 * row * 100;
  EXPECT_EQ(image->floor_bytes, 2 * (config.num_hidden_layers * layer + 509 * row));
  EXPECT_GT(heads, 0);
  EXPECT_GT(ups, 0);
  EXPECT_GT(downs, 0);
  std::vector<std::string> names;
  for (const auto& [name, body] : image->bodies) names.push_back(name);
  const auto code = compile_cuda_code(image->text(names), default_target(), false, 2048);
  ASSERT_TRUE(code) << code.error().to_string();
  EXPECT_LE(code->use.registers, 168);
  const auto graph =
      compile_cuda_code(image->text(names), default_target(), false, 2048, nullptr, static_cast<int>(names.size()));
  ASSERT_TRUE(graph) << graph.error().to_string();
  EXPECT_LE(graph->use.registers, 112);
  EXPECT_EQ(graph->use.spilled_bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(Families, DecodeImages, testing::Values(ModelFamily::Qwen3, ModelFamily::Llama),
                         [](const auto& test) { return test.param == ModelFamily::Qwen3 ? "qwen3" : "llama"; });

/// What a session does with shared memory: scratch for the largest function, the rest for the ring.
TEST(DecodeImage, OfKnownModelsFitsSharedMemoryWithBatches) {
  constexpr int64_t kRing = 131'072;         // two windows, and stages that eight warps have
  constexpr int64_t kRingOfAmpere = 81'920;  // five stages of 16 KB at least, less than one for each warp
  for (const std::string& name : preset_names()) {
    ModelConfig config = *preset_config(name);
    config.num_hidden_layers = 1;
    for (const int64_t batch : {1, 2, 4, 8, 16}) {
      SCOPED_TRACE(fmt::format("{}, batch {}", name, batch));
      const auto image = decode_image(config, {batch, 1024, DType::BF16}, Machine{}, targets().back());
      ASSERT_TRUE(image) << image.error().to_string();
      Machine machine;
      machine.scratch_bytes = 0;
      for (const Operator& op : image->operators.operators) {
        EXPECT_LE(op.cost.scratch_bytes, DecodeTasks{}.scratch_bytes) << op.name;
        EXPECT_LE(op.cost.stage_bytes, machine.window_bytes) << op.name;
        machine.scratch_bytes = std::max(machine.scratch_bytes, op.cost.scratch_bytes);
      }
      const int64_t others = 6144;  // of a worker's shared memory: barriers and lists
      machine.ring_bytes = targets().back().shared_memory - others - machine.scratch_bytes;
      EXPECT_GE(machine.ring_bytes, kRing);
      divide_shared_memory(image->operators, targets().front(), machine);
      EXPECT_GE(machine.ring_bytes, kRingOfAmpere);
      EXPECT_LE(2 * machine.window_bytes, machine.ring_bytes);
      // Tasks of the largest batch bring activations in pieces, those of one sequence do not.
      const bool in_pieces = image->codes.at("down").text.find("bring_piece") != std::string::npos;
      EXPECT_TRUE(batch == 16 ? in_pieces : batch > 1 || !in_pieces);
      if (batch != 16) continue;
      machine.ring_bytes = machine.ring_bytes / 1024 * 1024;
      const auto compiled = compile(image->operators, machine, {.policy = Policy::RoundRobin});
      EXPECT_TRUE(compiled) << compiled.error().to_string();
    }
  }
}

/// As few as a host has, or a user names: tasks are then as narrow as stages and scratch memory need.
TEST(DecodeImage, OfKnownModelsIsMadeForFewWorkers) {
  for (const std::string& name : preset_names()) {
    ModelConfig config = *preset_config(name);
    config.num_hidden_layers = 1;
    for (const int64_t batch : {1, 16}) {
      for (const int workers : {1, 4, 24}) {
        SCOPED_TRACE(fmt::format("{}, batch {}, {} workers", name, batch, workers));
        Machine machine;
        machine.workers = workers;
        const auto image = decode_image(config, {batch, 512, DType::BF16}, machine, targets().back());
        ASSERT_TRUE(image) << image.error().to_string();
        for (const Operator& op : image->operators.operators)
          EXPECT_LE(op.cost.scratch_bytes, DecodeTasks{}.scratch_bytes) << op.name;
      }
    }
  }
}

/// With eight rows, whose iterations are as long as one sequence's: but where one has 512 terms, as Llama-3.2-1B's
/// down.
TEST(DecodeImage, OfPromptsHasThePackingOfTheStep) {
  for (const std::string& name : preset_names()) {
    ModelConfig config = *preset_config(name);
    config.num_hidden_layers = 1;
    for (const int64_t batch : {1, 4}) {
      SCOPED_TRACE(fmt::format("{}, batch {}", name, batch));
      const auto step = decode_image(config, {batch, 1024}, Machine{}, targets().back());
      ASSERT_TRUE(step) << step.error().to_string();
      int64_t splits = 0;
      for (const Operator& op : step->operators.operators)
        if (op.function == "attention") splits = op.grid[0];
      const auto image = decode_image(config, {8, 1024}, Machine{}, targets().back(), {8 / batch, splits});
      ASSERT_TRUE(image) << image.error().to_string();
      EXPECT_EQ(have_one_packing(*step, *image), batch > 1 || name != "llama-3.2-1b");
      EXPECT_EQ(image->operators.operators.back().function, "end_of_rows");
      if (batch > 1) continue;
      Machine machine;
      divide_shared_memory(image->operators, default_target(), machine);
      const auto compiled = compile(image->operators, machine);
      ASSERT_TRUE(compiled) << compiled.error().to_string();
    }
  }
}

/// Of a step of prompts as a mega-kernel, and as a graph whose kernels record their tasks.
TEST(DecodeImage, OfPromptsCompilesForItsTarget) {
  const auto image = decode_image(small_config(ModelFamily::Qwen3), {8, 512}, Machine{}, targets().back(), {8, 4});
  ASSERT_TRUE(image) << image.error().to_string();
  Machine machine;
  divide_shared_memory(image->operators, default_target(), machine);
  const auto compiled = compile(image->operators, machine);
  ASSERT_TRUE(compiled) << compiled.error().to_string();
  std::vector<std::string> names;
  for (const TaskFunction& function : compiled->plan.functions) names.push_back(function.name);
  constexpr int kSpilled = 2048;  // bytes, as where steps make tokens
  const auto code = compile_cuda_code(image->text(names), targets().back(), false, kSpilled);
  ASSERT_TRUE(code) << code.error().to_string();
  EXPECT_LE(code->use.registers, 168);
  const auto graph =
      compile_cuda_code(image->text(names), targets().back(), true, kSpilled, nullptr, static_cast<int>(names.size()));
  ASSERT_TRUE(graph) << graph.error().to_string();
  EXPECT_LE(graph->use.registers, 112);
}

TEST(StepPlan, IsMadeByTheRatesOfTheTarget) {
  const ModelConfig config = small_config(ModelFamily::Llama);
  const DecodeOptions options{.batch = 1, .capacity = 512};
  Target slow = default_target();
  slow.rates.stream_bandwidth /= 2;
  slow.rates.counter_event *= 3;
  const auto built_in = plan_step(config, options, default_target()), measured = plan_step(config, options, slow);
  ASSERT_TRUE(built_in && measured);
  EXPECT_EQ(measured->machine.rates, slow.rates);
  EXPECT_DOUBLE_EQ(measured->compiled.estimate.floor, 2 * built_in->compiled.estimate.floor);
  EXPECT_GT(measured->compiled.estimate.seconds, built_in->compiled.estimate.seconds);
}

TEST(StepPlan, HasTheWorkersOfTheTarget) {
  const ModelConfig config = small_config(ModelFamily::Llama);
  const auto workers = [&](const Target& target, const DecodeOptions& options) {
    const auto step = plan_step(config, options, target);
    EXPECT_TRUE(step) << step.error().to_string();
    return step ? step->machine.workers : 0;
  };
  Target larger = default_target();
  larger.multiprocessors = 148;
  EXPECT_EQ(workers(default_target(), {.capacity = 512}), Machine{}.workers);
  EXPECT_EQ(workers(larger, {.capacity = 512}), 144);
  EXPECT_EQ(workers(larger, {.capacity = 512, .machine = {.workers = 20}}), 20);
  EXPECT_EQ(workers(larger, {.capacity = 512, .machine = {.workers = 200}}), 148);
  DecodeOptions just_in_time{.capacity = 512, .machine = {.workers = 200}};
  just_in_time.without.ahead_of_time = {"all"};
  EXPECT_EQ(workers(larger, just_in_time), 144);
}

TEST(StepPlan, DividesSharedMemoryOfTheTarget) {
  const ModelConfig config = small_config(ModelFamily::Llama);
  Target smaller = default_target();
  smaller.shared_memory -= 16 << 10;
  const auto all = plan_step(config, {.capacity = 512}, default_target()),
             less = plan_step(config, {.capacity = 512}, smaller);
  ASSERT_TRUE(all && less);
  EXPECT_EQ(less->machine.scratch_bytes, all->machine.scratch_bytes);
  EXPECT_EQ(less->machine.ring_bytes, all->machine.ring_bytes - (16 << 10));
  EXPECT_LE(all->machine.ring_bytes + all->machine.scratch_bytes, default_target().shared_memory);
}

TEST(DecodeImage, CutsProductsByTheRatesOfTheMachine) {
  const auto stages = [](const Machine& machine) {
    const auto image = decode_image(*preset_config("llama-3.2-1b"), {1, 512}, machine, default_target());
    EXPECT_TRUE(image) << image.error().to_string();
    int64_t sum = 0;
    for (const Operator& op : image->operators.operators) sum += op.cost.stages;
    return sum;
  };
  Machine quick;  // an iteration takes no time but that of its bytes, so the last one is as short as it can be
  quick.rates.stage_push = quick.rates.least_stage = quick.rates.warp_iteration = 0;
  EXPECT_GT(stages(quick), 2 * stages({}));
}

TEST(DecodeImage, SaysWhatItDoesNotTake) {
  ModelConfig config = small_config(ModelFamily::Llama);
  config.head_dim = 16;
  const auto narrow = image_of(config);
  ASSERT_FALSE(narrow);
  EXPECT_THAT(narrow.error().to_string(), testing::HasSubstr("head_dim is 16; tasks take 32, 64 or 128"));
  config = small_config(ModelFamily::Llama);
  for (const int64_t hidden : {16, 20, 200}) {
    config.hidden_size = hidden;
    const auto odd = image_of(config);
    ASSERT_FALSE(odd);
    EXPECT_THAT(odd.error().to_string(),
                testing::HasSubstr("tasks take multiples of 16 from 32 on\n  use --device host"));
  }
  const auto many = decode_image(small_config(ModelFamily::Llama), {33, 512, DType::BF16}, Machine{}, targets().back());
  ASSERT_FALSE(many);
  EXPECT_THAT(many.error().to_string(), testing::HasSubstr("33 sequences; a step takes 32"));
  const auto floats = decode_image(small_config(ModelFamily::Llama), {1, 512, DType::F32}, Machine{}, targets().back());
  ASSERT_FALSE(floats);
  EXPECT_THAT(floats.error().to_string(), testing::HasSubstr("bf16"));
}

}  // namespace
}  // namespace strata::megakernel

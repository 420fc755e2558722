#include "megakernel/models/decode_operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "ir/text.h"
#include "megakernel/models/test_operators.h"
#include "superopt/verify/shrink.h"
#include "superopt/verify/verify.h"

namespace strata::megakernel {
namespace {

VerifyResult verified(const ModelConfig& config, const DecoderShape& shape, DecoderPart part, const DecodeTasks& tasks,
                      bool shrunk) {
  const DecodeOperators operators = value_of(decode_operators(config, shape, part, tasks));
  const DecoderProgram program = value_of(decoder_part(config, shape, part));
  std::pair pair{with_positive(*program.graph, "Mask"), with_positive(*operators.graph, "Mask")};
  if (shrunk) pair = value_of(shrink(*pair.first, *pair.second));
  return value_of(verify(*pair.first, *pair.second));
}

/// Attention divides by Σ exp · mask, which the verifier cannot see to be other than 0 where masks are any numbers. It
/// is positive where they are, and what is equal for all positive masks is equal for all masks for which it is defined:
/// both programs are quotients of linear functions of the mask.
TEST(DecodeOperators, ComputeWhatThePartsDo) {
  for (const auto& [family, batch] : {std::pair{ModelFamily::Qwen3, 1}, std::pair{ModelFamily::Llama, 3}}) {
    for (const int64_t workers : {2, 4, 8}) {
      for (const DecoderPart part : kOperatorParts) {
        const auto result = verified(tiny_config(family), {batch, 64}, part, {workers, 8, 4096}, false);
        EXPECT_EQ(result.verdict, Verdict::Equivalent) << name_of(part) << " " << workers << result.reason;
        EXPECT_LE(result.error_bound, 1e-12);
      }
    }
  }
}

/// At small shapes, which the verifier of searches uses too (shrink.h). Attention with one key-value head: more
/// have more exponentials than the bound allows.
TEST(DecodeOperators, ComputeWhatThePartsOfKnownModelsDo) {
  for (const std::string& name : preset_names()) {
    for (const int64_t batch : {1, 16}) {
      for (const DecoderPart part : kOperatorParts) {
        ModelConfig config = *preset_config(name);
        DecoderShape shape{batch, 1024};
        if (part == DecoderPart::Attention) {
          config.num_attention_heads = config.group();
          config.num_key_value_heads = 1;
          shape = {batch == 1 ? 1 : 2, 64};
        }
        const auto result = verified(config, shape, part, {}, true);
        EXPECT_EQ(result.verdict, Verdict::Equivalent) << name << " " << name_of(part) << " " << result.reason;
        EXPECT_LE(result.error_bound, 1e-12);
      }
    }
  }
}

/// Sums that are not rescaled, a mask that is left out, a wrong mean, a residual added in each iteration, a missing
/// SiLU.
TEST(DecodeOperators, WithMistakesAreRefuted) {
  const auto refuted = [](DecoderPart part, const std::string& from, const std::string& to) {
    const ModelConfig config = tiny_config(ModelFamily::Qwen3);
    const DecodeOperators operators = value_of(decode_operators(config, {2, 64}, part, {8, 8, 4096}));
    std::string text = print(*operators.graph);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << text;
    text.replace(at, from.size(), to);
    const GraphPtr wrong = value_of(parse_graph(text));
    const DecoderProgram program = value_of(decoder_part(config, {2, 64}, part));
    const auto result = value_of(verify(*with_positive(*program.graph, "Mask"), *with_positive(*wrong, "Mask")));
    EXPECT_EQ(result.verdict, Verdict::Different) << text;
  };
  refuted(DecoderPart::Attention, "accum_rescale(mixed, largest)", "accum(mixed, kind=sum)");
  refuted(DecoderPart::Attention, "mul(powers, seen)", "mul(powers, powers)");
  refuted(DecoderPart::NormQkv, "factor=1/64", "factor=1/32");
  refuted(DecoderPart::Down, "accum(residual, kind=max)", "accum(residual, kind=sum)");
  refuted(DecoderPart::GatedUp, "mul(active, up)", "mul(gate, up)");
}

std::vector<Tensor<double>> interpreted(const Graph& graph, const std::vector<Tensor<double>>& inputs) {
  Float64Arithmetic exact;
  return value_of(execute(graph, exact, inputs));
}

/// The largest difference, relative to the largest entry that is expected.
double difference(const Tensor<double>& found, const Tensor<double>& expected) {
  EXPECT_EQ(found.shape, expected.shape);
  double largest = 0, most = 0;
  for (size_t i = 0; i < expected.data.size(); ++i) {
    largest = std::max(largest, std::abs(expected.data[i]));
    EXPECT_TRUE(std::isfinite(found.data.at(i)));
    most = std::max(most, std::abs(found.data.at(i) - expected.data[i]));
  }
  return most / largest;
}

TEST(DecodeOperators, AreInterpretedAsThePartsAre) {
  for (const ModelFamily family : {ModelFamily::Qwen3, ModelFamily::Llama}) {
    for (const int64_t batch : {1, 2, 3, 16}) {
      for (const DecoderPart part : kOperatorParts) {
        const ModelConfig config = tiny_config(family);
        const DecoderShape shape{batch, 160};
        const DecoderProgram program = value_of(decoder_part(config, shape, part));
        const DecodeOperators operators = value_of(decode_operators(config, shape, part, {8, 8, 4096}));
        const auto inputs = inputs_of(*program.graph, static_cast<uint64_t>(batch));
        const auto expected = interpreted(*program.graph, inputs);
        const auto found = interpreted(*operators.graph, inputs);
        ASSERT_EQ(found.size(), expected.size());
        for (size_t n = 0; n < found.size(); ++n) EXPECT_LT(difference(found[n], expected[n]), 1e-12);
        // The operators one by one, by the names of their tensors.
        std::map<std::string, Tensor<double>> made;
        for (size_t i = 0; i < inputs.size(); ++i) {
          made[program.graph->tensor(program.graph->inputs()[i]).name] = inputs[i];
        }
        for (const DecodeOperator& op : operators.operators) {
          std::vector<Tensor<double>> given;
          for (const TensorId id : op.graph->inputs()) given.push_back(made.at(op.graph->tensor(id).name));
          const auto results = interpreted(*op.graph, given);
          for (size_t n = 0; n < results.size(); ++n) {
            made[op.graph->tensor(op.graph->outputs()[n]).name] = results[n];
          }
        }
        for (size_t n = 0; n < expected.size(); ++n) {
          const std::string& name = program.graph->tensor(program.graph->outputs()[n]).name;
          EXPECT_LT(difference(made.at(name), expected[n]), 1e-12) << name;
        }
      }
    }
  }
}

/// Rows of caches may lie in any order, alike in keys, values and mask.
TEST(DecodeOperators, AttendToKeysInAnyOrder) {
  const ModelConfig config = tiny_config(ModelFamily::Qwen3);
  constexpr int64_t kCapacity = 96, kBatch = 2;
  const DecodeOperators operators =
      value_of(decode_operators(config, {kBatch, kCapacity}, DecoderPart::Attention, {8, 8, 4096}));
  auto inputs = inputs_of(*operators.graph, 5);
  const auto before = interpreted(*operators.graph, inputs);
  std::vector<size_t> order(kCapacity);
  std::iota(order.begin(), order.end(), 0);
  Random random(7);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  for (const size_t n : {1, 2, 3}) {  // KCache, VCache, Mask
    const Tensor<double> old = inputs[n];
    const size_t row = n == 3 ? 1 : static_cast<size_t>(config.head_dim);
    const size_t all = old.data.size() / row / kCapacity;
    for (size_t b = 0; b < all; ++b) {
      for (size_t c = 0; c < kCapacity; ++c) {
        for (size_t d = 0; d < row; ++d)
          inputs[n].data[(b * kCapacity + c) * row + d] = old.data[(b * kCapacity + order[c]) * row + d];
      }
    }
  }
  const auto after = interpreted(*operators.graph, inputs);
  EXPECT_LT(difference(after[0], before[0]), 1e-12);
}

/// What each of 128 workers streams: rounds of columns, and stages of at most 16 KB of which all warps have as many.
TEST(DecodeOperators, AreEqualSharesOfKnownModels) {
  struct Form {
    const char* model;
    DecoderPart part;
    int64_t tasks, stages, stage_bytes;
  };
  const Form forms[] = {
      {"qwen3-8b", DecoderPart::NormQkv, 128, 32, 12288},
      {"qwen3-8b", DecoderPart::OutputProjection, 128, 16, 16384},
      {"qwen3-8b", DecoderPart::GatedUp, 128, 128, 12288},
      {"qwen3-8b", DecoderPart::Down, 128, 48, 16384},
      {"qwen3-8b", DecoderPart::Attention, 128, 4, 8192},
      {"qwen3-8b", DecoderPart::Head, 2374, 32, 16384},
      {"qwen3-0.6b", DecoderPart::NormQkv, 128, 8, 8192},
      {"qwen3-0.6b", DecoderPart::OutputProjection, 128, 8, 4096},
      {"qwen3-0.6b", DecoderPart::GatedUp, 128, 8, 12288},
      {"qwen3-0.6b", DecoderPart::Down, 128, 8, 6144},
      {"llama-3.2-1b", DecoderPart::NormQkv, 128, 8, 12288},
      {"llama-3.2-1b", DecoderPart::Head, 1002, 32, 16384},
      {"llama-3-8b", DecoderPart::GatedUp, 128, 128, 14336},
  };
  for (const Form& form : forms) {
    const auto made = value_of(decode_operators(*preset_config(form.model), {1, 1024}, form.part));
    const DecodeOperator& op = made.operators.front();
    SCOPED_TRACE(fmt::format("{} {}", form.model, op.name));
    EXPECT_EQ(op.tasks(), form.tasks);
    EXPECT_EQ(op.stages(), form.stages);
    EXPECT_EQ(op.stage_bytes(), form.stage_bytes);
    EXPECT_EQ(op.stages() % op.schedule.loop_warps, 0);
  }
}

/// Whatever the length of a cache, all tasks of attention and all their warps have a share of it.
TEST(DecodeOperators, ShareAttentionOfAnyLength) {
  Random random(11);
  for (int tries = 0; tries < 60; ++tries) {
    const std::vector<std::string> names = preset_names();
    const ModelConfig config = *preset_config(names[random.below(names.size())]);
    const int64_t batch = std::array<int64_t, 5>{1, 2, 3, 5, 16}[random.below(5)];
    const DecodeTasks tasks{.workers = std::array<int64_t, 4>{16, 66, 128, 132}[random.below(4)]};
    const auto asked = static_cast<int64_t>(1 + random.below(9000));
    const int64_t positions = cache_positions(config, batch, asked, tasks);
    const int64_t of_head = std::max<int64_t>(tasks.workers / (batch * config.num_key_value_heads), 1);
    SCOPED_TRACE(fmt::format("{} heads, batch {}, {} workers, {} positions for {}", config.num_key_value_heads, batch,
                             tasks.workers, positions, asked));
    ASSERT_GE(positions, std::max<int64_t>(asked, 32));
    const int64_t keys = keys_of_iteration(config, batch, positions, tasks);
    EXPECT_LT(positions, std::max<int64_t>(asked, 32) + keys * of_head + keys);
    const auto made = value_of(decode_operators(config, {batch, positions}, DecoderPart::Attention, tasks));
    const DecodeOperator& op = made.operators.front();
    // No warp has more iterations than if all of them were dealt to all warps at once, each task's last round aside.
    const int64_t tiles = positions / keys, warps = of_head * tasks.warps;
    const int64_t rounds = (op.stages() + op.schedule.loop_warps - 1) / op.schedule.loop_warps;
    EXPECT_LE(rounds, (tiles + warps - 1) / warps + 1);
  }
}

/// Tiles of narrow heads have more keys where there are enough of them, and divide the cache.
TEST(DecodeOperators, GiveTilesOfNarrowHeadsMoreKeys) {
  ModelConfig config = *preset_config("llama-3.2-1b");  // 8 key-value heads of 64
  EXPECT_EQ(keys_of_iteration(config, 1, 1024), 16) << "16 tasks of 8 warps have one tile of 16 each at most";
  EXPECT_EQ(keys_of_iteration(config, 1, 4096), 32);
  EXPECT_EQ(keys_of_iteration(config, 16, 512), 32);
  EXPECT_EQ(keys_of_iteration(config, 16, 528), 16) << "no multiple of 32";
  EXPECT_EQ(cache_positions(config, 16, 528), 544);
  config.head_dim = 32;
  EXPECT_EQ(keys_of_iteration(config, 16, 512), 64);
  config.head_dim = 128;
  EXPECT_EQ(keys_of_iteration(config, 16, 4096), 16);
}

/// Also few workers take any model: a task is as narrow as its stages need, and a worker has several.
TEST(DecodeOperators, AreCutForAnyNumberOfWorkers) {
  for (const std::string& name : preset_names()) {
    const auto config = preset_config(name);
    ASSERT_TRUE(config);
    for (const DecoderPart part : {DecoderPart::NormQkv, DecoderPart::Attention, DecoderPart::OutputProjection,
                                   DecoderPart::GatedUp, DecoderPart::Down, DecoderPart::Head}) {
      for (const int64_t workers : {1, 2, 3, 4, 7, 31}) {
        for (const int64_t batch : {1, 32}) {
          const auto made = decode_operators(*config, {batch, 512}, part, {.workers = workers});
          EXPECT_TRUE(made) << name << ", " << workers << " workers: " << made.error().to_string();
        }
      }
    }
  }
}

TEST(DecodeOperators, SayWhatTheyDoNotTake) {
  const ModelConfig config = tiny_config(ModelFamily::Qwen3);
  const auto error = [&](const DecoderShape& shape, DecoderPart part, const DecodeTasks& tasks) {
    const auto made = decode_operators(config, shape, part, tasks);
    EXPECT_FALSE(made);
    return made ? "" : made.error().to_string();
  };
  using testing::HasSubstr;
  EXPECT_THAT(error({1, 64}, DecoderPart::RotaryQk, {}), HasSubstr("moves elements"));
  EXPECT_THAT(error({1, 40}, DecoderPart::Attention, {}), HasSubstr("take a multiple of 16, from 32 on"));
  EXPECT_THAT(error({1, 16}, DecoderPart::Attention, {}), HasSubstr("take a multiple of 16, from 32 on"));
  EXPECT_THAT(error({1, 64}, DecoderPart::Down, {.workers = 1, .stage_bytes = 16}), HasSubstr("at most 16 bytes"));
  EXPECT_THAT(error({0, 64}, DecoderPart::Down, {}), HasSubstr("a batch of 0"));
  EXPECT_THAT(error({1, 64}, DecoderPart::Down, {.workers = 0}), HasSubstr("0 workers"));
}

}  // namespace
}  // namespace strata::megakernel

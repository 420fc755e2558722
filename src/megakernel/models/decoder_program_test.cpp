#include "megakernel/models/decoder_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "interpret/interpret.h"
#include "ir/text.h"
#include "ir/validate.h"
#include "ir/views.h"
#include "machine/target.h"
#include "megakernel/models/test_models.h"
#include "megakernel/models/weights.h"
#include "superopt/verify/lax.h"
#include "superopt/verify/verify.h"
#include "support/random.h"

namespace strata::megakernel {
namespace {

std::vector<DecoderPart> all_parts() {
  std::vector<DecoderPart> parts(kLayerParts.begin(), kLayerParts.end());
  parts.push_back(DecoderPart::Head);
  return parts;
}

DecoderProgram program_of(Result<DecoderProgram> program) {
  if (!program) {
    ADD_FAILURE() << program.error().to_string();
    std::abort();
  }
  return std::move(*program);
}

std::vector<std::string> input_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const TensorId id : graph.inputs()) names.push_back(graph.tensor(id).name);
  return names;
}

TEST(InverseSquareRoot, IsTheNearestFloatForSizesOfHeads) {
  for (int64_t n = 1; n <= 512; ++n) {
    const Rational r = inverse_square_root(n);
    const double exact = 1 / std::sqrt(static_cast<double>(n));
    EXPECT_EQ(static_cast<float>(r.num) / static_cast<float>(r.den), static_cast<float>(exact)) << n;
    EXPECT_NEAR(r.to_double() / exact, 1, 1e-11) << n;
    EXPECT_LT(r.den, int64_t{1} << 24);
  }
  EXPECT_EQ(inverse_square_root(64), (Rational{1, 8}));
  EXPECT_EQ(inverse_square_root(256), (Rational{1, 16}));
}

TEST(DecoderParts, AreLegalInTheLaxFragmentAndComeBackFromText) {
  const auto target = find_target("sm_90a");
  ASSERT_TRUE(target);
  for (const std::string& name : preset_names()) {
    const ModelConfig config = *preset_config(name);
    for (const int64_t batch : {1, 3, 16}) {
      const DecoderShape shape{batch, 576};
      for (const DecoderPart part : all_parts()) {
        const DecoderProgram program = program_of(decoder_part(config, shape, part));
        const auto legal = validate(*program.graph, **target);
        EXPECT_TRUE(legal) << legal.error().to_string();
        EXPECT_EQ(lax_violation(*program.graph), std::nullopt) << print(*program.graph);
        const auto parsed = parse_graph(print(*program.graph));
        ASSERT_TRUE(parsed) << parsed.error().to_string();
        EXPECT_TRUE(same_structure(**parsed, *program.graph));
        EXPECT_EQ(program.inputs.size(), program.graph->inputs().size());
      }
      const DecoderProgram layer = program_of(decoder_layer(config, shape));
      EXPECT_TRUE(validate(*layer.graph, **target));
      EXPECT_NE(lax_violation(*layer.graph), std::nullopt);
    }
  }
}

/// Weights are used as they lie in the file, and keys and values are neither repeated nor copied.
TEST(DecoderParts, MoveNothingThatProductsCanRead) {
  for (const std::string& name : preset_names()) {
    for (const DecoderPart part : all_parts()) {
      const DecoderProgram program = program_of(decoder_part(*preset_config(name), {2, 576}, part));
      const Graph& graph = *program.graph;
      std::vector<bool> strided;
      for (const Operation& op : graph.operations()) strided.push_back(op.kind == OpKind::Matmul);
      const std::vector<bool> views = view_operations(graph, strided);
      for (size_t i = 0; i < views.size(); ++i) {
        const OpKind kind = graph.operations()[i].kind;
        EXPECT_NE(kind, OpKind::Repeat);
        const bool moves = kind == OpKind::Transpose || kind == OpKind::Reshape;
        EXPECT_EQ(views[i], moves) << print(graph);
      }
    }
  }
}

/// What one part makes and another takes has one name and one type; every weight of a layer is some part's, once.
TEST(DecoderParts, FitTogether) {
  for (const ModelFamily family : {ModelFamily::Qwen3, ModelFamily::Llama}) {
    const ModelConfig config = tiny_config(family);
    std::map<std::string, TensorType> made{{"X", {DType::BF16, {3, 64}}}};
    std::multimap<std::string, Shape> weights;
    std::set<std::string> read_later;
    for (const DecoderPart part : all_parts()) {
      const DecoderProgram program = program_of(decoder_part(config, {3, 20}, part));
      EXPECT_EQ(program.graph->name(), name_of(part));
      for (size_t i = 0; i < program.inputs.size(); ++i) {
        const TensorInfo& input = program.graph->tensor(program.graph->inputs()[i]);
        const DecoderInput& what = program.inputs[i];
        EXPECT_EQ(what.weight.empty(), what.role != InputRole::Weight);
        if (what.role == InputRole::Activation) {
          ASSERT_TRUE(made.contains(input.name)) << input.name;
          EXPECT_EQ(made.at(input.name), input.type);
          read_later.insert(input.name);
        }
        if (what.role == InputRole::Weight) {
          const bool head = part == DecoderPart::Head;
          weights.emplace(head ? what.weight : layer_weight(0, what.weight), input.type.shape);
        }
      }
      for (const TensorId id : program.graph->outputs())
        made.emplace(program.graph->tensor(id).name, program.graph->type(id));
    }
    // Krot and V go to the cache, Y to the next layer, the logits to whoever samples.
    for (const auto& [name, type] : made) {
      const bool leaves = name == "Krot" || name == "V" || name == "Y" || name == "Logits";
      EXPECT_EQ(read_later.contains(name), !leaves) << name;
    }
    ModelConfig one = config;
    one.num_hidden_layers = 1;
    for (const WeightSpec& spec : weight_specs(one)) {
      if (spec.name == "model.embed_tokens.weight") continue;
      ASSERT_EQ(weights.count(spec.name), 1u) << spec.name;
      EXPECT_EQ(weights.find(spec.name)->second, spec.shape) << spec.name;
      weights.erase(spec.name);
    }
    EXPECT_TRUE(weights.empty());
  }
}

TEST(DecoderParts, HaveTheDocumentedInterface) {
  const ModelConfig qwen = tiny_config(ModelFamily::Qwen3);
  const auto inputs = [&](DecoderPart part) {
    return input_names(*program_of(decoder_part(qwen, {1, 8}, part)).graph);
  };
  EXPECT_THAT(inputs(DecoderPart::NormQkv), testing::ElementsAre("X", "InputNorm", "Wq", "Wk", "Wv"));
  EXPECT_THAT(inputs(DecoderPart::RotaryQk), testing::ElementsAre("Cos", "Sin", "Q", "QNormGain", "K", "KNormGain"));
  EXPECT_THAT(inputs(DecoderPart::Attention), testing::ElementsAre("Qrot", "KCache", "VCache", "Mask"));
  EXPECT_THAT(inputs(DecoderPart::OutputProjection), testing::ElementsAre("X", "Mixed", "Wo"));
  EXPECT_THAT(inputs(DecoderPart::GatedUp), testing::ElementsAre("Hidden", "PostNorm", "Wgate", "Wup"));
  EXPECT_THAT(inputs(DecoderPart::Down), testing::ElementsAre("Hidden", "Gated", "Wdown"));
  EXPECT_THAT(inputs(DecoderPart::Head), testing::ElementsAre("X", "FinalNorm", "Whead"));
  const DecoderProgram layer = program_of(decoder_layer(qwen, {1, 8}));
  EXPECT_THAT(input_names(*layer.graph),
              testing::ElementsAre("X", "InputNorm", "Wq", "Wk", "Wv", "Cos", "Sin", "QNormGain", "KNormGain", "PastK",
                                   "Here", "PastV", "Mask", "Wo", "PostNorm", "Wgate", "Wup", "Wdown"));
  std::vector<std::string> outputs;
  for (const TensorId id : layer.graph->outputs()) outputs.push_back(layer.graph->tensor(id).name);
  EXPECT_THAT(outputs, testing::ElementsAre("Y", "Krot", "V"));
}

TEST(DecoderParts, RefuseSizesThatAreNone) {
  const ModelConfig config = tiny_config(ModelFamily::Llama);
  for (const DecoderShape& shape :
       {DecoderShape{0, 8}, DecoderShape{8, 0}, DecoderShape{1, int64_t{1} << 40}, DecoderShape{int64_t{1} << 40, 1}}) {
    const auto part = decoder_part(config, shape, DecoderPart::Attention);
    ASSERT_FALSE(part);
    EXPECT_THAT(part.error().remedy, testing::HasSubstr("take 1 to"));
    EXPECT_FALSE(decoder_layer(config, shape));
  }
  ModelConfig large = config;
  large.hidden_size = large.intermediate_size = int64_t{1} << 20;
  EXPECT_TRUE(decoder_part(large, {1, 8}, DecoderPart::Down));
  large.num_attention_heads = large.head_dim = int64_t{1} << 20;
  EXPECT_EQ(decoder_part(large, {1, 8}, DecoderPart::NormQkv).error().code, ErrorCode::Unsupported);
}

Tensor<double> drawn(const Shape& shape, Random& random) {
  Tensor<double> tensor(shape);
  for (double& value : tensor.data) value = random.uniform(-1, 1);
  return tensor;
}

/// Softmax over the positions that the mask shows, for each query head, by loops.
TEST(DecoderParts, AttentionIsTheSoftmaxOverWhatTheMaskShows) {
  Random random(1);
  for (int test = 0; test < 20; ++test) {
    ModelConfig config = tiny_config(ModelFamily::Llama);
    config.num_key_value_heads = 1 + static_cast<int64_t>(random.below(3));
    config.num_attention_heads = config.num_key_value_heads * (1 + static_cast<int64_t>(random.below(4)));
    config.head_dim = 2 * (1 + static_cast<int64_t>(random.below(8)));
    const int64_t batch = 1 + static_cast<int64_t>(random.below(3));
    const int64_t capacity = 1 + static_cast<int64_t>(random.below(9));
    const int64_t heads = config.num_attention_heads, groups = config.num_key_value_heads, d = config.head_dim;
    const DecoderProgram program = program_of(decoder_part(config, {batch, capacity}, DecoderPart::Attention));
    Tensor<double> mask({batch, capacity});
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t c = 0; c < capacity; ++c) mask[b * capacity + c] = static_cast<double>(random.below(2));
      mask[b * capacity + static_cast<int64_t>(random.below(static_cast<uint64_t>(capacity)))] = 1;
    }
    const std::vector<Tensor<double>> inputs{drawn({batch, heads, d}, random),
                                             drawn({batch * groups, capacity, d}, random),
                                             drawn({batch * groups, capacity, d}, random), mask};
    Float64Arithmetic arithmetic;
    const auto outputs = execute(*program.graph, arithmetic, inputs);
    ASSERT_TRUE(outputs) << outputs.error().to_string();
    EXPECT_EQ(outputs->front().shape, (Shape{batch, groups, heads / groups, d}));
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t row = b * groups + h / (heads / groups);
        std::vector<double> mixed(static_cast<size_t>(d));
        double total = 0;
        for (int64_t c = 0; c < capacity; ++c) {
          if (mask[b * capacity + c] == 0) continue;
          double score = 0;
          for (int64_t i = 0; i < d; ++i)
            score += inputs[0][(b * heads + h) * d + i] * inputs[1][(row * capacity + c) * d + i];
          const double weight = std::exp(score / std::sqrt(static_cast<double>(d)));
          total += weight;
          for (int64_t i = 0; i < d; ++i)
            mixed[static_cast<size_t>(i)] += weight * inputs[2][(row * capacity + c) * d + i];
        }
        for (int64_t i = 0; i < d; ++i)
          EXPECT_NEAR((*outputs)[0][(b * heads + h) * d + i], mixed[static_cast<size_t>(i)] / total, 1e-12);
      }
    }
  }
}

/// It is the part over the reals, and goes on where the part's exponentials overflow or all vanish.
TEST(DecoderParts, AttentionBelowItsLargestScoreIsTheSame) {
  Random random(2);
  const ModelConfig config = tiny_config(ModelFamily::Llama);
  constexpr int64_t kBatch = 2, kCapacity = 7;
  const DecoderProgram plain = program_of(decoder_part(config, {kBatch, kCapacity}, DecoderPart::Attention));
  const DecoderProgram below = program_of(attention_below_largest(config, {kBatch, kCapacity}));
  EXPECT_EQ(input_names(*below.graph), input_names(*plain.graph));
  EXPECT_EQ(below.inputs, plain.inputs);
  Tensor<double> mask({kBatch, kCapacity});
  std::fill(mask.data.begin(), mask.data.end(), 1);
  const Shape rows{kBatch * config.num_key_value_heads, kCapacity, config.head_dim};
  std::vector<Tensor<double>> inputs{drawn({kBatch, config.num_attention_heads, config.head_dim}, random),
                                     drawn(rows, random), drawn(rows, random), mask};
  Float64Arithmetic arithmetic;
  const auto run = [&](const DecoderProgram& program) {
    auto outputs = execute(*program.graph, arithmetic, inputs);
    EXPECT_TRUE(outputs);
    return outputs->front().data;
  };
  const std::vector<double> expected = run(plain), found = run(below);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12);
  // Scores of some thousands on both sides: of each row all weight is on the largest.
  for (double& value : inputs[0].data) value *= 1e4;
  const auto is_finite = [](double x) { return std::isfinite(x); };
  const std::vector<double> overflown = run(plain), large = run(below);
  EXPECT_FALSE(std::all_of(overflown.begin(), overflown.end(), is_finite));
  EXPECT_TRUE(std::all_of(large.begin(), large.end(), is_finite));
}

/// Attention as one kernel: a block for each sequence and key-value head, which goes through the cache in a loop. The
/// name of the tensor that is summed up is left open.
constexpr const char* kAttentionInBlocks = R"(graph attention {{
  input Qrot: bf16[3, 4, 16]
  input KCache: bf16[6, 8, 16]
  input VCache: bf16[6, 8, 16]
  input Mask: bf16[3, 8]
  Qrows = reshape(Qrot, shape=[3, 2, 2, 16])
  Keys = reshape(KCache, shape=[3, 2, 8, 16])
  KeysT = transpose(Keys, perm=[0, 1, 3, 2])
  Values = reshape(VCache, shape=[3, 2, 8, 16])
  Seen = reshape(Mask, shape=[3, 1, 1, 8])
  Mixed = block(Qrows, KeysT, Values, Seen, grid=[3, 2], loop=4) {{
    q = in_iter(Qrows, imap=[0, 1])
    k = in_iter(KeysT, imap=[0, 1], fmap=3)
    v = in_iter(Values, imap=[0, 1], fmap=2)
    m = in_iter(Seen, imap=[0, _], fmap=3)
    s = matmul(q, k)
    c = scale(s, factor=1/4)
    e = exp(c)
    w = mul(e, m)
    p = matmul(w, v)
    n = accum(p, kind=sum)
    t = sum({}, dim=3)
    d = accum(t, kind=sum)
    o = div(n, d)
    Mixed = out_saver(o, omap=[0, 1])
  }}
  output Mixed
}})";

TEST(DecoderParts, AreProvedAgainstBlockGraphs) {
  const DecoderProgram program =
      program_of(decoder_part(tiny_config(ModelFamily::Qwen3), {3, 8}, DecoderPart::Attention));
  const auto verdict = [&](const char* summed) {
    const auto candidate = parse_graph(fmt::format(fmt::runtime(kAttentionInBlocks), summed));
    EXPECT_TRUE(candidate) << candidate.error().to_string();
    const auto result = verify(*program.graph, **candidate);
    EXPECT_TRUE(result) << result.error().to_string();
    return result->verdict;
  };
  EXPECT_EQ(verdict("w"), Verdict::Equivalent);
  EXPECT_EQ(verdict("e"), Verdict::Different);  // the mask forgotten in the sum
}

/// The layer in one graph, which appends to the cache by Here, has the parts' results to the bit.
TEST(DecoderLayer, IsItsPartsInARow) {
  Random random(2);
  for (const ModelFamily family : {ModelFamily::Qwen3, ModelFamily::Llama}) {
    const ModelConfig config = tiny_config(family);
    constexpr int64_t kBatch = 2, kCapacity = 6;
    const int64_t groups = config.num_key_value_heads, d = config.head_dim;
    const DecoderShape shape{kBatch, kCapacity};
    const DecoderProgram layer = program_of(decoder_layer(config, shape));
    std::map<std::string, Tensor<float>> values;
    for (const TensorId id : layer.graph->inputs()) {
      const TensorInfo& input = layer.graph->tensor(id);
      Tensor<float>& value = values[input.name] = Tensor<float>(input.type.shape);
      const float scale = 1 / std::sqrt(static_cast<float>(input.type.shape.back()));
      for (float& x : value.data) x = scale * static_cast<float>(random.uniform(-1, 1));
    }
    const std::array<int64_t, kBatch> positions{3, 0};
    for (int64_t b = 0; b < kBatch; ++b) {
      for (int64_t c = 0; c < kCapacity; ++c) {
        values["Here"][b * kCapacity + c] = c == positions[static_cast<size_t>(b)] ? 1 : 0;
        values["Mask"][b * kCapacity + c] = c <= positions[static_cast<size_t>(b)] ? 1 : 0;
      }
      for (int64_t row = b * groups; row < (b + 1) * groups; ++row) {
        for (const char* past : {"PastK", "PastV"})
          std::fill_n(values[past].data.begin() + (row * kCapacity + positions[static_cast<size_t>(b)]) * d, d, 0.0F);
      }
    }
    Float32Arithmetic arithmetic;
    const auto run = [&](const DecoderProgram& program) {
      std::vector<Tensor<float>> inputs;
      for (const std::string& name : input_names(*program.graph)) inputs.push_back(values.at(name));
      auto outputs = execute(*program.graph, arithmetic, inputs);
      EXPECT_TRUE(outputs);
      return std::move(*outputs);
    };
    const std::vector<Tensor<float>> whole = run(layer);
    for (const DecoderPart part : kLayerParts) {
      if (part == DecoderPart::Attention) {
        const std::pair<const char*, const char*> caches[] = {{"PastK", "Krot"}, {"PastV", "V"}};
        for (const auto& [past, now] : caches) {
          Tensor<float> cache = values.at(past);
          for (int64_t row = 0; row < kBatch * groups; ++row) {
            const int64_t at = row * kCapacity + positions[static_cast<size_t>(row / groups)];
            std::copy_n(values.at(now).data.begin() + row * d, d, cache.data.begin() + at * d);
          }
          values[past[4] == 'K' ? "KCache" : "VCache"] = cache;
        }
      }
      const DecoderProgram program = program_of(decoder_part(config, shape, part));
      const std::vector<Tensor<float>> outputs = run(program);
      for (size_t i = 0; i < outputs.size(); ++i)
        values[program.graph->tensor(program.graph->outputs()[i]).name] = outputs[i];
    }
    EXPECT_EQ(whole[0].data, values.at("Y").data);
    EXPECT_EQ(whole[1].data, values.at("Krot").data);
    EXPECT_EQ(whole[2].data, values.at("V").data);
  }
}

}  // namespace
}  // namespace strata::megakernel

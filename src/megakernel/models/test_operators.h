// What tests of operators of tasks share: the parts that have some, and inputs.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "interpret/interpret.h"
#include "ir/text.h"
#include "megakernel/models/decode_operators.h"
#include "megakernel/models/test_models.h"
#include "support/random.h"

namespace strata::megakernel {

inline constexpr std::array kOperatorParts{DecoderPart::NormQkv, DecoderPart::Attention, DecoderPart::OutputProjection,
                                           DecoderPart::GatedUp, DecoderPart::Down,      DecoderPart::Head};

template <class T>
T value_of(Result<T> made) {
  if (!made) {
    ADD_FAILURE() << made.error().to_string();
    std::abort();
  }
  return std::move(*made);
}

/// The same program with positive entries, 1 + r², of an input. The program itself where there is none of that name.
inline GraphPtr with_positive(const Graph& graph, const std::string& name) {
  std::string text = print(graph);
  const std::string input = fmt::format("  input {}: ", name);
  const size_t at = text.find(input);
  if (at == std::string::npos) return value_of(parse_graph(text));
  text.replace(at, input.size(), fmt::format("  input {}Root: ", name));
  const size_t after_inputs = text.find('\n', text.rfind("\n  input") + 1) + 1;
  text.insert(after_inputs,
              fmt::format("  {0}Square = sqr({0}Root)\n  {0} = add_constant({0}Square, value=1)\n", name));
  return value_of(parse_graph(text));
}

/// Inputs of a program: a mask of 1 at the first positions of each sequence, as many as differ by sequence, and 0
/// elsewhere; others uniform, and exact in their types.
inline std::vector<Tensor<double>> inputs_of(const Graph& graph, uint64_t seed) {
  Random random(seed);
  std::vector<Tensor<double>> inputs;
  for (const TensorId id : graph.inputs()) {
    inputs.emplace_back(graph.type(id).shape);
    for (double& value : inputs.back().data) value = round_to(random.uniform(-1, 1), graph.type(id).dtype);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorInfo& input = graph.tensor(graph.inputs()[i]);
    if (input.name != "Mask") continue;
    const int64_t capacity = input.type.shape[1];
    for (int64_t b = 0; b < input.type.shape[0]; ++b) {
      const auto length = 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(capacity)));
      for (int64_t c = 0; c < capacity; ++c) inputs[i].data[static_cast<size_t>(b * capacity + c)] = c < length ? 1 : 0;
    }
  }
  return inputs;
}

}  // namespace strata::megakernel

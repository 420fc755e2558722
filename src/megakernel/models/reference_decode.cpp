#include "megakernel/models/reference_decode.h"

#include <cmath>

#include "interpret/interpret.h"
#include "megakernel/models/bf16.h"
#include "megakernel/models/rope.h"
#include "megakernel/models/sampling.h"
#include "support/host_memory.h"

namespace strata::megakernel {

template <std::floating_point T>
Result<typename ReferenceDecoder<T>::Run> ReferenceDecoder<T>::prepare(const DecoderProgram& program,
                                                                       const ModelWeights& weights,
                                                                       const std::string& prefix) const {
  Run run{&program, {}};
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const TensorType& type = program.graph->type(program.graph->inputs()[i]);
    Tensor<T>& input = run.inputs.emplace_back(type.shape);
    if (program.inputs[i].role != InputRole::Weight) continue;
    const std::string name = prefix + program.inputs[i].weight;
    STRATA_TRY(const WeightView weight, weights.at(name));
    if (weight.shape != type.shape) {
      return with_remedy(invalid("the weight '{}' is {}, the configuration makes it {}", name, to_string(weight.shape),
                                 to_string(type.shape)),
                         "give the configuration that the weights were opened with");
    }
    for (size_t n = 0; n < weight.values.size(); ++n) input.data[n] = static_cast<T>(bf16_to_float(weight.values[n]));
  }
  return run;
}

template <std::floating_point T>
Result<void> ReferenceDecoder<T>::check(const ModelConfig& config, const ReferenceOptions& options) {
  STRATA_CHECK(decoder_part(config, {options.batch, options.capacity, DType::BF16}, DecoderPart::Attention));
  double values = 2.0 * static_cast<double>(config.num_hidden_layers * options.batch) *
                  static_cast<double>(config.key_columns()) * static_cast<double>(options.capacity);
  for (const WeightSpec& spec : weight_specs(config)) values += static_cast<double>(spec.elements());
  return check_host_memory(values * sizeof(T), "the reference decoder",
                           "take a smaller model, fewer sequences or a smaller cache, or decode on a GPU");
}

template <std::floating_point T>
Result<ReferenceDecoder<T>> ReferenceDecoder<T>::create(const ModelConfig& config, const ModelWeights& weights,
                                                        const ReferenceOptions& options) {
  STRATA_CHECK(check(config, options));
  ReferenceDecoder decoder(config, options);
  const DecoderShape shape{options.batch, options.capacity, DType::BF16};
  for (const DecoderPart part : kLayerParts) {
    STRATA_TRY(DecoderProgram program, part == DecoderPart::Attention ? attention_below_largest(config, shape)
                                                                      : decoder_part(config, shape, part));
    decoder.programs_.push_back(std::make_unique<DecoderProgram>(std::move(program)));
  }
  STRATA_TRY(DecoderProgram head, decoder_part(config, shape, DecoderPart::Head));
  decoder.programs_.push_back(std::make_unique<DecoderProgram>(std::move(head)));

  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    std::vector<Run>& runs = decoder.layers_.emplace_back();
    for (size_t n = 0; n < kLayerParts.size(); ++n) {
      STRATA_TRY(runs.emplace_back(), decoder.prepare(*decoder.programs_[n], weights, layer_weight(layer, "")));
    }
  }
  STRATA_TRY(decoder.head_.emplace_back(), decoder.prepare(*decoder.programs_.back(), weights, ""));
  STRATA_TRY(const WeightView embeddings, weights.at("model.embed_tokens.weight"));
  if (embeddings.shape != Shape{config.vocab_size, config.hidden_size})
    return with_remedy(invalid("the embeddings are {}", to_string(embeddings.shape)),
                       "give the configuration that the weights were opened with");
  decoder.embeddings_ = embeddings.values;
  decoder.frequencies_ = rope_frequencies(config);
  decoder.lengths_.assign(static_cast<size_t>(options.batch), 0);
  return decoder;
}

template <std::floating_point T>
void ReferenceDecoder<T>::set_positions() {
  const auto batch = options_.batch;
  Tensor<T> cos({batch, 1, config_.head_dim}), sin(cos.shape), mask({batch, options_.capacity});
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t position = lengths_[static_cast<size_t>(b)];
    const RopeRow row = rope_row(frequencies_, position);
    std::copy(row.cos.begin(), row.cos.end(), cos.data.begin() + b * config_.head_dim);
    std::copy(row.sin.begin(), row.sin.end(), sin.data.begin() + b * config_.head_dim);
    for (int64_t c = 0; c <= position; ++c) mask[b * options_.capacity + c] = 1;
  }
  activations_["Cos"] = std::move(cos);
  activations_["Sin"] = std::move(sin);
  activations_["Mask"] = std::move(mask);
}

template <std::floating_point T>
void ReferenceDecoder<T>::append(Tensor<T>& cache, const Tensor<T>& rows) const {
  const int64_t heads = config_.num_key_value_heads;
  const int64_t d = config_.head_dim;
  for (int64_t b = 0; b < options_.batch; ++b) {
    for (int64_t h = b * heads; h < (b + 1) * heads; ++h) {
      // Hidden positions repeat the row, as in the tasks: no score is larger than one that counts.
      for (int64_t c = lengths_[static_cast<size_t>(b)]; c < options_.capacity; ++c)
        std::copy_n(rows.data.begin() + h * d, d, cache.data.begin() + (h * options_.capacity + c) * d);
    }
  }
}

template <std::floating_point T>
Result<void> ReferenceDecoder<T>::execute_part(Run& run) {
  const Graph& graph = *run.program->graph;
  for (size_t i = 0; i < run.inputs.size(); ++i) {
    const InputRole role = run.program->inputs[i].role;
    if (role == InputRole::Activation || role == InputRole::Position)
      run.inputs[i] = activations_.at(graph.tensor(graph.inputs()[i]).name);
  }
  RealArithmetic<T> arithmetic;
  arithmetic.round_storage = options_.round_storage;
  STRATA_TRY(auto outputs, execute(graph, arithmetic, run.inputs));
  for (size_t i = 0; i < outputs.size(); ++i)
    activations_[graph.tensor(graph.outputs()[i]).name] = std::move(outputs[i]);
  return {};
}

template <std::floating_point T>
Result<Tensor<T>> ReferenceDecoder<T>::step(std::span<const int64_t> tokens) {
  if (static_cast<int64_t>(tokens.size()) != options_.batch) {
    return with_remedy(invalid("{} tokens for {} sequences", tokens.size(), options_.batch),
                       "give one token a sequence");
  }
  for (size_t b = 0; b < tokens.size(); ++b) {
    if (tokens[b] < 0 || tokens[b] >= config_.vocab_size) {
      return with_remedy(invalid("the token {} of sequence {}", tokens[b], b),
                         fmt::format("tokens are 0 to {}", config_.vocab_size - 1));
    }
    if (lengths_[b] >= std::min(options_.capacity, config_.max_position_embeddings)) {
      return with_remedy(invalid("sequence {} has {} tokens already", b, lengths_[b]),
                         fmt::format("take a larger cache, or a model of more than {} positions; restart begins anew",
                                     config_.max_position_embeddings));
    }
  }
  set_positions();
  Tensor<T> x({options_.batch, config_.hidden_size});
  for (size_t b = 0; b < tokens.size(); ++b) {
    for (int64_t n = 0; n < config_.hidden_size; ++n)
      x[static_cast<int64_t>(b) * config_.hidden_size + n] =
          static_cast<T>(bf16_to_float(embeddings_[static_cast<size_t>(tokens[b] * config_.hidden_size + n)]));
  }
  activations_["X"] = std::move(x);
  for (std::vector<Run>& layer : layers_) {
    for (size_t n = 0; n < kLayerParts.size(); ++n) {
      if (kLayerParts[n] == DecoderPart::Attention) {
        const Graph& graph = *layer[n].program->graph;
        for (size_t i = 0; i < layer[n].inputs.size(); ++i) {
          const std::string& name = graph.tensor(graph.inputs()[i]).name;
          if (name == "KCache") append(layer[n].inputs[i], activations_.at("Krot"));
          if (name == "VCache") append(layer[n].inputs[i], activations_.at("V"));
        }
      }
      STRATA_CHECK(execute_part(layer[n]));
    }
    activations_["X"] = activations_.at("Y");
  }
  STRATA_CHECK(execute_part(head_.front()));
  for (int64_t& length : lengths_) ++length;
  Tensor<T> logits = activations_.at("Logits");
  const auto wrong =
      std::find_if(logits.data.begin(), logits.data.end(), [](T value) { return !std::isfinite(value); });
  if (wrong != logits.data.end()) {
    const int64_t sequence = (wrong - logits.data.begin()) / config_.vocab_size;
    return not_finite_logits(lengths_[static_cast<size_t>(sequence)] - 1, sequence);
  }
  return logits;
}

template <std::floating_point T>
template <class Visit>
void ReferenceDecoder<T>::each_row(const std::string& name, size_t layer, int64_t position,
                                   const CallerRowsView& callers, const Visit& visit) {
  const auto part = std::ranges::find(kLayerParts, DecoderPart::Attention) - kLayerParts.begin();
  Run& run = layers_[layer][static_cast<size_t>(part)];
  const Graph& graph = *run.program->graph;
  size_t input = 0;
  while (graph.tensor(graph.inputs()[input]).name != name) ++input;
  const int64_t d = config_.head_dim;
  for (int64_t h = 0; h < options_.batch * config_.num_key_value_heads; ++h)
    visit(run.inputs[input].data.data() + (h * options_.capacity + position) * d,
          callers.elements + (h * callers.positions + position) * d);
}

template <std::floating_point T>
void ReferenceDecoder<T>::take_rows(size_t layer, int64_t count, const CallerRowsView& keys,
                                    const CallerRowsView& values) {
  const auto take = [&](T* own, const uint16_t* callers) {
    std::transform(callers, callers + config_.head_dim, own,
                   [](uint16_t bits) { return static_cast<T>(bf16_to_float(bits)); });
  };
  for (int64_t position = 0; position < count; ++position) {
    each_row("KCache", layer, position, keys, take);
    each_row("VCache", layer, position, values, take);
  }
}

template <std::floating_point T>
void ReferenceDecoder<T>::give_row(size_t layer, int64_t position, const CallerRowsView& keys,
                                   const CallerRowsView& values) {
  const auto give = [&](const T* own, uint16_t* callers) {
    std::transform(own, own + config_.head_dim, callers,
                   [](T value) { return float_to_bf16(static_cast<float>(value)); });
  };
  each_row("KCache", layer, position, keys, give);
  each_row("VCache", layer, position, values, give);
}

template <std::floating_point T>
Result<void> ReferenceDecoder<T>::restart(int64_t sequence) {
  if (sequence < 0 || sequence >= options_.batch) {
    return with_remedy(invalid("there is no sequence {}", sequence),
                       fmt::format("sequences are 0 to {}", options_.batch - 1));
  }
  lengths_[static_cast<size_t>(sequence)] = 0;
  return {};
}

template class ReferenceDecoder<float>;
template class ReferenceDecoder<double>;

}  // namespace strata::megakernel

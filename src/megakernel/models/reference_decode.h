// A decoder on the CPU, for models of test size: the part graphs of decoder_program.h, run by the interpreter;
// attention below its largest score, so that scores may be as large as in the mega-kernel. What that computes is
// compared with it. Slow and obvious.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "megakernel/models/decoder_program.h"
#include "megakernel/models/weights.h"
#include "ops/tensor.h"

namespace strata::megakernel {

struct ReferenceOptions {
  int64_t batch = 1;
  int64_t capacity = 64;  ///< positions of the cache
  /// Rounds whatever the part graphs store in device memory to bfloat16, each statement's result.
  bool round_storage = false;
};

/// Keys, or values, of a layer in memory of a caller: bfloat16 [batch, num_key_value_heads, positions, head_dim].
struct CallerRowsView {
  uint16_t* elements = nullptr;
  int64_t positions = 0;
};

/// A decoder and the state of a batch of sequences, in float or double. Weights are converted once, so it takes
/// sizeof(T) bytes a weight.
template <std::floating_point T>
class ReferenceDecoder {
 public:
  /// What create refuses without looking at weights: errors as of decoder_part, and (Environment) where the machine's
  /// memory does not do.
  static Result<void> check(const ModelConfig& config, const ReferenceOptions& options);
  /// The weights, which belong to a model of this configuration, must outlive the decoder. Error as of decoder_part and
  /// ModelWeights::at, and (Environment) where the machine's memory does not do.
  static Result<ReferenceDecoder> create(const ModelConfig& config, const ModelWeights& weights,
                                         const ReferenceOptions& options = {});

  /// Appends one token to each sequence and returns the logits of the next, [batch, vocab]. Error (InvalidInput) where
  /// there are not `batch` tokens, one is not below vocab_size, or a sequence is longer than the cache or
  /// max_position_embeddings; (Unsupported) where logits are not finite. After an
  /// error of the first kind the state is as before.
  Result<Tensor<T>> step(std::span<const int64_t> tokens);

  /// Forgets one sequence; its next token is the first of another. Error (InvalidInput) where there is none.
  Result<void> restart(int64_t sequence);

  /// The first `count` positions of a layer's cache become those of a caller.
  void take_rows(size_t layer, int64_t count, const CallerRowsView& keys, const CallerRowsView& values);
  /// A position of a layer's cache goes to a caller, rounded.
  void give_row(size_t layer, int64_t position, const CallerRowsView& keys, const CallerRowsView& values);
  /// The next token of every sequence has this position.
  void continue_at(int64_t position) { lengths_.assign(lengths_.size(), position); }

  /// How many tokens each sequence has.
  const std::vector<int64_t>& lengths() const { return lengths_; }

 private:
  /// A part with its inputs: weights and caches stay, the rest is set for each step.
  struct Run {
    const DecoderProgram* program;
    std::vector<Tensor<T>> inputs;
  };

  ReferenceDecoder(const ModelConfig& config, const ReferenceOptions& options) : config_(config), options_(options) {}
  Result<Run> prepare(const DecoderProgram& program, const ModelWeights& weights, const std::string& prefix) const;
  /// Runs a part on activations_ and adds its outputs to them.
  Result<void> execute_part(Run& run);
  void set_positions();
  /// This step's row of Krot or V to a layer's cache, and to all positions after it.
  void append(Tensor<T>& cache, const Tensor<T>& rows) const;
  /// Calls visit(row of the cache, row of the caller's) for each head of that position.
  template <class Visit>
  void each_row(const std::string& name, size_t layer, int64_t position, const CallerRowsView& callers,
                const Visit& visit);

  ModelConfig config_;
  ReferenceOptions options_;
  std::vector<std::unique_ptr<DecoderProgram>> programs_;  ///< of kLayerParts, then of the head
  std::vector<std::vector<Run>> layers_;
  std::vector<Run> head_;  ///< one
  std::span<const uint16_t> embeddings_;
  std::vector<float> frequencies_;
  std::vector<int64_t> lengths_;
  std::map<std::string, Tensor<T>> activations_;  ///< by name: also Cos, Sin and Mask
};

}  // namespace strata::megakernel

// Tokens of a model on whichever device, one generation after the other: a GPU, the host by the device code that a GPU
// would run, or the interpreter. Owns what a session needs for as long as it lives.
#pragma once

#include <algorithm>
#include <array>
#include <memory>

#include "megakernel/decode/decode_session.h"

namespace strata {
class GpuDevice;
class ResultCache;
}  // namespace strata

namespace strata::megakernel {

/// Bytes on their way to a multiprocessor. Which is faster depends on the model (docs/benchmarks-decoding.md, Windows).
inline constexpr std::array<int64_t, 2> kDecodeWindows{49'152, 65'536};

/// Positions of a prompt that a step takes, of prompts that pay for a step of their own, which is planned and compiled
/// first.
inline constexpr int64_t kDecodePromptRows = 16;
inline constexpr int64_t kDecodeLongPrompt = 512;

class Decoder {
 public:
  using Tokens = std::vector<std::vector<int>>;  ///< by sequence

  /// `machine` is as CudaDecodeTarget has it. The device and the cache of compiled code, which may be null, must
  /// outlive the decoder. Errors: those of DecodeSession::make.
  static Result<std::unique_ptr<Decoder>> on_gpu(const GpuDevice& device, const Target& machine,
                                                 const ModelConfig& config, const ModelWeights& weights,
                                                 const DecodeOptions& options, ResultCache* cache);
  /// By the device code, compiled for the host. Errors: those of FiberDecodeTarget::open and DecodeSession::make.
  static Result<std::unique_ptr<Decoder>> by_host_kernel(const ModelConfig& config, const ModelWeights& weights,
                                                         const DecodeOptions& options);
  /// By the interpreter, in float32, for small models. Only batch and capacity count. The weights must outlive the
  /// decoder. Errors: those of ReferenceDecoder::create.
  static Result<std::unique_ptr<Decoder>> interpreted(const ModelConfig& config, const ModelWeights& weights,
                                                      const DecodeOptions& options);

  virtual ~Decoder() = default;

  /// Errors (InvalidInput): those of check_generate; more positions than the caches or the model have.
  Result<void> check(const Tokens& prompts, const GenerateOptions& options) const;
  /// Forgets the sequences and decodes others, as DecodeSession::generate does. One call at a time. Errors: those of
  /// check; the device's.
  Result<Tokens> generate(const Tokens& prompts, const GenerateOptions& options,
                          const DecodeSession::OnToken& on_token);
  /// One step, with keys, values and logits of a caller. A generation after it begins anew, and the first step after a
  /// generation must take its caches. One call at a time. Errors: those of check_caller_step; the device's.
  virtual Result<void> step(const CallerStep& step) = 0;
  /// A line about how steps run.
  virtual std::string description() const = 0;
  /// Of the session; all 0 of the interpreter.
  virtual StartTimes start_times() const { return {}; }

  const ModelConfig& config() const { return config_; }
  int64_t batch() const { return batch_; }
  /// Positions of a sequence, at most: of the cache and of the model.
  int64_t capacity() const { return std::min(capacity_, config_.max_position_embeddings); }

 protected:
  Decoder(const ModelConfig& config, const DecodeOptions& options)
      : config_(config), batch_(options.batch), capacity_(options.capacity) {}
  virtual Result<Tokens> decode(const Tokens& prompts, const GenerateOptions& options,
                                const DecodeSession::OnToken& on_token) = 0;

  ModelConfig config_;
  int64_t batch_;
  int64_t capacity_;
};

}  // namespace strata::megakernel

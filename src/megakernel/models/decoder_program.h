// A decode step (one new token for each sequence of a batch) as kernel graphs: a decoder layer in six parts, and the
// head. A task-graph compiler takes the parts one by one; the embedding of the token, the rotary angles, the mask and
// the place in the cache are arrays that the caller fills, since no operator of the graphs depends on positions.
//
// With B sequences, C positions of cache, H query heads, G key-value heads of d columns, hidden size E, F columns of
// the MLP and V words:
//
//   part               inputs                                                       outputs
//   NormQkv            X[B, E], InputNorm[E], Wq[H·d, E], Wk[G·d, E], Wv[G·d, E]    Q[B, H·d], K[B, G·d], V[B, G·d]
//   RotaryQk           Q, K, Cos[B, 1, d], Sin[B, 1, d]; Qwen3: QNormGain[d], KNormGain[d]  Qrot[B, H, d], Krot[B, G,
//   d] Attention          Qrot, KCache[B·G, C, d], VCache[B·G, C, d], Mask[B, C]       Mixed[B, G, H/G, d]
//   OutputProjection   X, Mixed, Wo[E, H·d]                                         Hidden[B, E]
//   GatedUp            Hidden, PostNorm[E], Wgate[F, E], Wup[F, E]                  Gated[B, F]
//   Down               Hidden, Gated, Wdown[E, F]                                   Y[B, E]
//   Head               X, FinalNorm[E], Whead[V, E]                                 Logits[B, V]
//
// Cos and Sin are rope.h's numbers, rounded to the type of the graph as transformers does; Mask is 1 at the positions
// that a sequence has, this step's included, and 0 at the others, where the caches hold finite numbers.
//
// Matrices are [out, in] as Hugging Face stores them: the graphs transpose them, which is a view. So are the shapes by
// head; the query heads of a key-value head are rows of one matrix, and keys and values are not repeated.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "megakernel/models/config.h"

namespace strata::megakernel {

enum class DecoderPart : uint8_t { NormQkv, RotaryQk, Attention, OutputProjection, GatedUp, Down, Head };

/// The parts of a layer, in their order. Head comes once, after all layers.
inline constexpr std::array kLayerParts{DecoderPart::NormQkv,          DecoderPart::RotaryQk, DecoderPart::Attention,
                                        DecoderPart::OutputProjection, DecoderPart::GatedUp,  DecoderPart::Down};
/// "norm_qkv", …: the name of the part's graph.
std::string_view name_of(DecoderPart part);

/// What an input of a part is.
enum class InputRole : uint8_t {
  Activation,  ///< what another part of this step makes, or the embedding of the token
  Weight,
  Cache,     ///< keys or values: rows of earlier steps and, where the mask is 1, the one of this step
  Position,  ///< Cos, Sin and Mask (and Here): what the caller fills from the positions
};

struct DecoderInput {
  InputRole role = InputRole::Activation;
  std::string weight;  ///< of Weight: its Hugging Face name, in a layer without "model.layers.N."
  bool operator==(const DecoderInput&) const = default;
};

/// A graph and, for each of its inputs, what it is. Inputs and outputs that are one tensor have one name in all parts.
struct DecoderProgram {
  GraphPtr graph;
  std::vector<DecoderInput> inputs;
};

/// Sizes of a step that the model leaves open.
struct DecoderShape {
  int64_t batch = 1;
  int64_t capacity = 1;  ///< positions of the cache
  DType dtype = DType::BF16;
};

/// One part. RMSNorm (Zhang, Sennrich, 2019), grouped-query attention (Ainslie et al., 2023), rotary embedding (rope.h)
/// and SwiGLU (Shazeer, 2020) as in transformers' Qwen3 and Llama models.
///
/// Attention is Σ w_j · v_j / Σ w_j with w_j = exp(q · k_j / √d) · mask_j. No maximum is subtracted: over the reals it
/// cancels, and without it the part has one exponential on each path, as the Lax fragment demands. Whoever generates
/// code subtracts one. 1/√d is the nearest convergent below 2^24, so that it is the nearest float32.
///
/// Error (InvalidInput) where batch or capacity is below 1, (Unsupported) where tensors are larger than the graphs
/// take.
Result<DecoderProgram> decoder_part(const ModelConfig& config, const DecoderShape& shape, DecoderPart part);

/// Attention with the largest score of each row subtracted before the exponential, so that none overflows and not all
/// vanish: the same over the reals, with the same inputs and output. For whoever executes the graph as it is; proofs
/// are of the part. The largest is that of all C positions: keys where the mask is 0 must not have larger scores than
/// those where it is 1, as where they repeat one of these. Errors as of decoder_part.
Result<DecoderProgram> attention_below_largest(const ModelConfig& config, const DecoderShape& shape);

/// A whole layer, which appends to the cache as well: inputs are those of its parts that no part makes, with PastK and
/// PastV[B·G, C, d], in which this step's rows are 0, and Here[B, C], which is 1 at this step's position and 0
/// elsewhere, instead of KCache and VCache. Outputs: Y, and Krot and V for the cache. The same operations as the parts,
/// in the same order. Not in the Lax fragment: SiLU follows the softmax.
Result<DecoderProgram> decoder_layer(const ModelConfig& config, const DecoderShape& shape);

/// 1/√n as the last convergent of its continued fraction whose terms are below 2^24; exact where n is a square.
Rational inverse_square_root(int64_t n);

}  // namespace strata::megakernel

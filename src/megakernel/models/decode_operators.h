// The parts of a decode step as operators of tasks: kernel graphs whose one operator is a block graph (µGraph), with a
// grid of tasks for the workers of a mega-kernel, and the schedule with which its code is generated. Together the
// operators of a part compute what the part's graph does (decoder_program.h); the verifier proves it.
//
// With B sequences, H query heads, G key-value heads of d columns, hidden size E and F columns of the MLP:
//
//   operator           grid         what a task makes                           the loop cuts
//   norm_qkv           [T]          columns of Q, of K and of V, 1/T of each    E
//   attention          [S, G, B]    partial results of 1/S of the positions     positions, 16 an iteration
//   combine            [T, G, B]    d/T columns of a key-value head's queries   the S partial results
//   output_projection  [T]          columns of Hidden                           H·d
//   gated_up           [T]          columns of Gated                            E
//   down               [T]          columns of Y                                F
//   head               [T]          columns of Logits                           E
//
// Where S is 1, attention makes Mixed itself and there is no combine. Weights, keys and values are packed: a stage is
// what one iteration reads of them, one warp takes it, and the warps of a task take iterations in turn. In which order
// the positions of a cache lie is the runtime's business: attention is the same where keys, values and mask are
// permuted alike.
#pragma once

#include <string>
#include <vector>

#include "machine/rates.h"
#include "megakernel/models/decoder_program.h"
#include "superopt/codegen/block_code.h"

namespace strata::megakernel {

/// What operators of tasks are made for.
struct DecodeTasks {
  int64_t workers = 128;
  int64_t warps = 8;  ///< of a task; each takes iterations in turn
  /// Of the packed tiles of one iteration, at most (product_cut.h).
  int64_t stage_bytes = 16384;
  /// Of a worker's scratch memory, at most. An iteration's activations of all warps take up to three quarters of it.
  int64_t scratch_bytes = 65536;
  int64_t splits = 0;  ///< of attention; 0: as many as the workers take
  int64_t keys = 0;    ///< of an iteration of attention; 0: keys_of_iteration()'s
  Rates rates{};       ///< of the target, which products are cut by
};

/// One block graph. A tensor has one name in all operators and parts. What attention hands to combine is in f32, the
/// rows of a split beside each other: PartMax[B, G, S·H/G, 1], the largest score; PartSum of the same shape, the sum of
/// exp(score − largest) · mask; and PartMixed[B, G, S·H/G, d], the sum of values weighted so. The largest score is one
/// of all positions, hidden ones too, whose keys must be finite; rows of 0 have the score 0.
struct DecodeOperator {
  std::string name;
  GraphPtr graph;  ///< views of its inputs, then the block graph, whose results are its outputs
  BlockSchedule schedule;
  std::vector<DecoderInput> inputs;  ///< of graph->inputs(); partial results are activations

  /// The block graph's operation, the last of the graph.
  const Operation& operation() const { return graph->operations().back(); }
  /// Blocks of the grid.
  int64_t tasks() const;
  /// Iterations of a task, which are its stages, and bytes of the packed tiles of each, without the padding of
  /// an emitter; 0 bytes where nothing is packed.
  int64_t stages() const { return operation().body->launch().loop; }
  int64_t stage_bytes() const;
};

/// A part's operators, in their order, and the graph of all of them: equal to decoder_part's.
struct DecodeOperators {
  std::vector<DecodeOperator> operators;
  GraphPtr graph;
};

/// Attention is one operator or two (FlashDecoding), other parts are one. RMSNorm is fused as in Mirage (OSDI'25): Σ x²
/// is added up beside the products, and the division by the root follows the loop, as SiLU and residuals do. The gain
/// multiplies x, as it varies along what is summed over.
///
/// Error (Unsupported) for RotaryQk, which moves elements; where attention's capacity is no multiple of an
/// iteration's keys, or less than two iterations; and where what a product sums over cannot be cut into iterations.
/// (InvalidInput) without workers or warps, and as decoder_part.
Result<DecodeOperators> decode_operators(const ModelConfig& config, const DecoderShape& shape, DecoderPart part,
                                         const DecodeTasks& tasks = {});

/// Keys of the smallest tile of a cache: the depth of a tensor core's product.
inline constexpr int64_t kLeastKeys = 16;

/// Keys of an iteration of attention over so many positions: kLeastKeys, doubled while the loader takes longer for a
/// tile of a cache than the memory does and each warp of each task still has a tile of a full cache. They divide the
/// capacity where kLeastKeys does.
int64_t keys_of_iteration(const ModelConfig& config, int64_t batch, int64_t capacity, const DecodeTasks& tasks = {});

/// Positions that a cache is given so that it holds `positions` at least: as many iterations of attention more as it
/// takes until each of a key-value head's tasks has equally many. Any number of them is right; but tasks are a divisor
/// of the iterations, and 257 have no other than 1.
int64_t cache_positions(const ModelConfig& config, int64_t batch, int64_t positions, const DecodeTasks& tasks = {});

}  // namespace strata::megakernel

// A model's decode step as what a mega-kernel is made of: the operators of a step with their regions, for the compiler
// of plans; the device text of their tasks; and the memory that these read and write. docs/decoding.md has the
// design.
//
// A step of prompts (PromptRows) has no head: the last layer is followed by the end.
//
//   embed → per layer: norm_qkv → attention (→ combine) → output_projection → gated_up → down; → head → best_of_part
//   → sample (→ end), which writes the next tokens and ends the step
//
// All but embed, combine, best_of_part, sample and end are generated from block graphs that are proved equal to the
// model's parts (models/decode_operators.h). Attention's task also normalises and rotates the heads that it reads, and
// writes this step's rows of the cache (tasks/device/strata_attention.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "machine/target.h"
#include "megakernel/models/decode_operators.h"
#include "megakernel/models/weights.h"
#include "megakernel/tasks/task_code.h"
#include "megakernel/tgraph/machine.h"
#include "megakernel/tgraph/operator_graph.h"

namespace strata::megakernel {

/// Memory that tasks read or write.
struct DecodeBuffer {
  enum class Kind : uint8_t {
    Words,    ///< tagged words; 0 at the beginning
    Memory,   ///< activations without tags; 0 at the beginning
    Weight,   ///< as it lies in the file
    Packed,   ///< weights, by a PackJob
    Cache,    ///< keys and values of a layer, packed; 0 at the beginning
    Cosines,  ///< [capacity, head_dim] (rope.h), rounded to bfloat16
    Sines,
    Tokens,     ///< int[batch]: the last token of each sequence
    Sequences,  ///< SequenceOptions[batch] (tasks/device/strata_sequence.h); 0 at the beginning
    Stop,       ///< StopTokens; 0 at the beginning
    Counts,     ///< unsigned[batch, 2^16]: how often each logit occurs; 0 between steps
  };
  std::string name;
  Kind kind = Kind::Words;
  int64_t bytes = 0;
  std::string weight;  ///< of Weight: its name (models/weights.h)
};

/// A launch that packs constants before the first step: of kernel NAME_pack_kernel, whose parameters are the weights,
/// null where there is no name, and the buffer. They have the shapes that tasks compute with (decode_sizes.h).
struct PackJob {
  std::string kernel;
  std::vector<int64_t> grid;
  std::vector<WeightSpec> weights;
  int buffer = 0;
};

struct DecodeImage {
  ModelConfig sizes;  ///< the model's, as tasks compute with them (decode_sizes.h)
  OperatorGraph operators;
  std::vector<DecodeBuffer> buffers;
  std::vector<std::vector<int>> arguments;  ///< by operator: buffers
  std::vector<PackJob> packing;
  std::map<std::string, TaskBody> bodies;   ///< by block function
  std::map<std::string, TaskCode> codes;    ///< of these, those that were generated
  std::string functions;                    ///< device text of the block functions and of the packing kernels
  std::vector<std::string> caller_kernels;  ///< in that text: caller_step.h; none of a step of prompts
  /// Of all buffers.
  int64_t bytes() const;
  int64_t floor_bytes = 0;  ///< weights that every step reads, without the cache
  int64_t splits = 1;       ///< of attention over a cache
  int64_t keys = 0;         ///< of a tile of a cache

  /// The device text of an image whose functions have these names, in the order of their numbers: block functions and
  /// task_switch. It follows the runtime's core.
  std::string text(const std::vector<std::string>& names) const;
};

/// A step that takes several positions of each sequence's prompt. Row r of its batch is position r mod `each` of
/// sequence r / each; all positions of a sequence lie in one tile of its cache. It ends with the last layer, since no
/// token follows from it.
struct PromptRows {
  int64_t each = 1;  ///< positions of a sequence: a divisor of 16; 1: it is no such step
  /// Of attention, as in the steps that make tokens, with which it shares caches (DecodeTasks).
  int64_t splits = 0;
  int64_t keys = 0;
};

/// Errors: those of decode_operators, of task_code and of check_task_sizes.
Result<DecodeImage> decode_image(const ModelConfig& config, const DecoderShape& shape, const Machine& machine,
                                 const Target& target, const PromptRows& rows = {});

}  // namespace strata::megakernel

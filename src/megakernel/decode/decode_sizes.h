// Which sizes of a model tasks take, and how others are filled up. Tasks write whole words of four columns and multiply
// in iterations of sixteen terms. A vocabulary or a middle of the feed-forward network that is no multiple gets columns
// of zeros: the head's are no logits to what chooses tokens (tasks/device/strata_sampling.h), and the middle's are
// silu(0) · 0 = 0, which meet terms of zeros in the product after it. So no result changes.
#pragma once

#include <cstdint>
#include <vector>

#include "megakernel/models/weights.h"

namespace strata::megakernel {

/// The model with the sizes that tasks compute with: the same where they take its own.
ModelConfig task_sizes(const ModelConfig& config);

/// Error (Unsupported), with the remedy, for what stays: head_dim and hidden_size, and a batch with more sequences than
/// a step takes.
Result<void> check_task_sizes(const ModelConfig& config, int64_t batch);

/// A matrix [rows, columns] with zeros behind its rows and columns, `rows` and `columns` at least as many.
std::vector<uint16_t> filled_up(const WeightView& matrix, int64_t rows, int64_t columns);

}  // namespace strata::megakernel

// Which sizes of a model tasks take, and how others are filled up. Tasks write whole words of four columns and multiply
// in iterations of sixteen terms. A vocabulary or a middle of the feed-forward network that is no multiple gets columns
// of zeros: the head's are no logits to what chooses tokens (tasks/device/strata_sampling.h), and the middle's are
// silu(0) · 0 = 0, which meet terms of zeros in the product after it. So no result changes. Other sizes are filled up
// where that makes them faster: 11,008 columns are 86 tasks of 128 columns or 344 of 32, which 128 workers do not share
// equally, and 11,264 are one task of 88 for each.
#pragma once

#include <cstdint>
#include <vector>

#include "machine/rates.h"
#include "megakernel/models/weights.h"

namespace strata::megakernel {

/// The model with the sizes that tasks of so many workers, on a machine of such rates, compute with. Its own sizes stay
/// where tasks take them and no larger ones make its products faster (models/product_cut.h).
ModelConfig task_sizes(const ModelConfig& config, int64_t workers, const Rates& rates = {});

/// Error (Unsupported), with the remedy, for what stays: head_dim and hidden_size, and a batch with more sequences than
/// a step takes.
Result<void> check_task_sizes(const ModelConfig& config, int64_t batch);

/// A matrix with zeros after its rows and columns, in the shape of `weight`. Error (InvalidInput) where that has not
/// two dimensions or fewer rows or columns.
Result<std::vector<uint16_t>> filled_up(const WeightView& matrix, const WeightSpec& weight);

}  // namespace strata::megakernel

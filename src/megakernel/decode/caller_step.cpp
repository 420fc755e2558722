#include "megakernel/decode/caller_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "megakernel/decode/decode_session.h"
#include "megakernel/tasks/device/strata_caller.h"

namespace strata::megakernel {
namespace {

constexpr int64_t kThreads = 256;     // of DecodeTarget::pack
constexpr int64_t kLogitsOfWord = 4;  // of 16 bits, in a tagged word

/// Bytes of a record, and of those that follow it, as they lie in the device's memory.
template <class Record>
void append_bytes(std::string& to, const Record& record) {
  to.append(reinterpret_cast<const char*>(&record), sizeof record);
}

}  // namespace

Result<void> check_caller_step(const ModelConfig& config, int64_t batch, int64_t capacity, const CallerStep& step) {
  if (static_cast<int64_t>(step.tokens.size()) != batch)
    return with_remedy(invalid("{} tokens for {} sequences", step.tokens.size(), batch), "give one token a sequence");
  if (static_cast<int64_t>(step.caches.size()) != config.num_hidden_layers)
    return with_remedy(invalid("{} caches for {} layers", step.caches.size(), config.num_hidden_layers),
                       "give one for each layer");
  for (const int token : step.tokens) {
    if (token < 0 || token >= config.vocab_size)
      return with_remedy(invalid("token {} is not in the vocabulary of {}", token, config.vocab_size),
                         "use the ids of the model's own tokenizer");
  }
  const int64_t most = std::min({capacity, step.positions, config.max_position_embeddings});
  if (step.position < 0 || step.position >= most)
    return with_remedy(invalid("position {}: the cache has {} positions", step.position, most),
                       "make a longer cache, or decode fewer tokens");
  return {};
}

std::string caller_kernels(const AttentionTask& task, int64_t vocabulary) {
  const std::vector<int64_t>& grid = task.op.operation().body->launch().grid;
  const Packing::Tile& key = task.code.packing.tiles[0];
  const Packing::Tile& value = task.code.packing.tiles[1];
  const int64_t keys = task.capacity / grid[0] / task.code.iterations;
  return fmt::format(
      "STRATA_KERNEL void __launch_bounds__({0}) {1}(const strata_device::CallerRows* rows,\n"
      "    const strata_device::CallerLayer* layers) {{\n"
      "  strata_device::exchange_rows<strata_device::BlockTeam<{0}>, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}>(\n"
      "      *rows, layers[blockIdx.z], blockIdx.x, blockIdx.y);\n}}\n\n"
      "STRATA_KERNEL void __launch_bounds__({0}) {10}(const strata_device::CallerRows* rows,\n"
      "    const unsigned char* words) {{\n"
      "  strata_device::give_logits<strata_device::BlockTeam<{0}>>(*rows, words, {11}, blockIdx.x, "
      "blockIdx.y);\n}}\n\n",
      kThreads, kCallerRowsKernel, key.type, value.type, value.offset, keys, grid[0], task.code.iterations,
      task.code.stage_bytes, task.config.head_dim, kCallerLogitsKernel, vocabulary / kLogitsOfWord);
}

Result<void> DecodeSession::step(const CallerStep& step) {
  STRATA_CHECK(check_caller_step(config_, options_.batch, options_.capacity, step));
  STRATA_CHECK(check_free());
  strata_device::CallerRows rows;
  rows.positions = step.positions;
  rows.count = step.position;
  rows.into_tiles = 1;
  rows.vocabulary = static_cast<int>(config_.vocab_size);
  rows.logits = reinterpret_cast<unsigned short*>(step.logits);
  if (step.takes_caches && step.position > 0) STRATA_CHECK(exchange_rows(step, rows));
  if (position_ != step.position) set_position(step.position);
  if (has_requests_) STRATA_CHECK(put_sequences({}, std::vector<bool>(step.tokens.size())));
  has_requests_ = false;
  STRATA_CHECK(put_tokens(step.tokens));
  STRATA_CHECK(steps(1));
  rows.first = step.position;
  rows.count = 1;
  rows.into_tiles = 0;
  STRATA_CHECK(exchange_rows(step, rows));
  const std::vector<int64_t> grid{ceil_div(config_.vocab_size, kCallerLogitsOfBlock), options_.batch, 1};
  const uint64_t arguments[] = {caller_->address(), logits_words().address()};
  return target_->pack(kCallerLogitsKernel, grid, arguments);
}

/// Copies rows of all layers, and leaves `rows` in the device's memory.
Result<void> DecodeSession::exchange_rows(const CallerStep& step, const strata_device::CallerRows& rows) {
  std::string bytes;
  append_bytes(bytes, rows);
  size_t layer = 0;
  for (size_t n = 0; n < buffers_.size(); ++n) {
    if (image_.buffers[n].kind != DecodeBuffer::Kind::Cache) continue;
    const CallerCache& cache = step.caches[layer++];
    append_bytes(bytes, strata_device::CallerLayer{reinterpret_cast<unsigned char*>(buffers_[n]->address()),
                                                   reinterpret_cast<unsigned short*>(cache.keys),
                                                   reinterpret_cast<unsigned short*>(cache.values)});
  }
  if (caller_ == nullptr) {
    STRATA_TRY(caller_, target_->allocate(static_cast<int64_t>(bytes.size())));
  }
  STRATA_CHECK(caller_->upload(bytes));
  const std::vector<int64_t> grid{ceil_div(rows.count, kCallerRowsOfBlock),
                                  options_.batch * config_.num_key_value_heads, config_.num_hidden_layers};
  const uint64_t arguments[] = {caller_->address(), caller_->address() + sizeof rows};
  return target_->pack(kCallerRowsKernel, grid, arguments, rows.into_tiles != 0);
}

}  // namespace strata::megakernel

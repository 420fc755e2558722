#include "megakernel/models/decode_operators.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "ir/text.h"
#include "megakernel/models/product_cut.h"

namespace strata::megakernel {
namespace {

constexpr int64_t kProductDepth = 16;  // of a tensor core instruction
/// Of a cache: the loader, one thread, takes about 0.25 µs for a stage. So long an SM's share of the memory's rate
/// takes for 8 KB: with tiles of 4 KB (Llama-3.2-1B) caches came at half that rate (docs/benchmarks-decoding.md).
constexpr int64_t kLeastTileBytes = 8192;
constexpr int64_t kTileRows = 8;  // tiles in shared memory have one row or multiples of so many
constexpr int64_t kElementBytes = 2;
constexpr int64_t kWordColumns = 4;  // of a tagged word: tasks write whole words of a row

/// An input of an operator, or what one hands to the next.
struct Argument {
  std::string name;
  TensorType type;
  DecoderInput what{};
};

/// An operator before it is a graph: statements in the text format. Formal names in the block are those of `operands`.
struct OperatorText {
  std::string name;
  std::vector<Argument> inputs;
  std::string views;  ///< statements before the block, a line each
  std::vector<std::string> operands;
  std::vector<std::string> packed;  ///< of these, whose tiles are packed
  std::vector<int64_t> grid;
  int64_t loop = 1;
  std::string body;  ///< statements of the block
  std::vector<Argument> results;

  std::string statements() const {
    std::vector<std::string> names;
    for (const Argument& result : results) names.push_back(result.name);
    return fmt::format("{}  {} = block({}, grid=[{}], loop={}) {{\n{}  }}\n", views, fmt::join(names, ", "),
                       fmt::join(operands, ", "), fmt::join(grid, ", "), loop, body);
  }
};

std::string graph_text(std::string_view name, const std::vector<Argument>& inputs, const std::string& statements,
                       const std::vector<Argument>& outputs) {
  std::string text = fmt::format("graph {} {{\n", name);
  for (const Argument& input : inputs) text += fmt::format("  input {}: {}\n", input.name, to_string(input.type));
  std::vector<std::string> names;
  for (const Argument& output : outputs) names.push_back(output.name);
  return text + statements + fmt::format("  output {}\n}}\n", fmt::join(names, ", "));
}

/// Lines of the text format, indented: "a; b" is two.
std::string lines(std::string_view statements, std::string_view indent) {
  std::string text;
  while (!statements.empty()) {
    const size_t end = std::min(statements.find(';'), statements.size());
    const size_t start = std::min(statements.find_first_not_of(' '), end);
    text += fmt::format("{}{}\n", indent, statements.substr(start, end - start));
    statements.remove_prefix(std::min(end + 1, statements.size()));
  }
  return text;
}

/// Into how many splits, at most `most`, tiles are dealt: so that a warp has the fewest one after the other, and of
/// these the greatest number.
int64_t splits_of_tiles(int64_t tiles, int64_t most, int64_t warps) {
  int64_t best = 1, fewest = tiles;
  for (int64_t splits = 1; splits <= most; ++splits) {
    if (tiles % splits != 0) continue;
    const int64_t of_split = tiles / splits;
    const int64_t of_warp = (of_split + warps_of_loop(of_split, warps) - 1) / warps_of_loop(of_split, warps);
    if (of_warp > fewest) continue;
    best = splits;
    fewest = of_warp;
  }
  return best;
}

/// Tasks of attention that a key-value head of a sequence has at most, so that all workers have one.
int64_t tasks_of_head(const ModelConfig& config, int64_t batch, int64_t workers) {
  return std::max<int64_t>(workers / (batch * config.num_key_value_heads), 1);
}

/// keys_of_iteration, whether they divide the positions or not.
int64_t wanted_keys(const ModelConfig& config, int64_t batch, int64_t positions, const DecodeTasks& tasks) {
  const int64_t tiles = tasks_of_head(config, batch, tasks.workers) * tasks.warps;
  const int64_t key_bytes = 2 * config.head_dim * kElementBytes;  // and its value's
  int64_t keys = kLeastKeys;
  while (keys * key_bytes < kLeastTileBytes && positions / (2 * keys) >= std::max<int64_t>(tiles, 2)) keys *= 2;
  return keys;
}

/// A matrix of a product, [columns, terms] as it lies in memory, and the name of its weight.
struct Matrix {
  std::string name;
  int64_t columns;
  const char* weight;
};

/// Writes block graphs whose structure the search finds (tests/megakernel/decode_search_test.cpp), at the sizes of a
/// step.
class OperatorWriter {
 public:
  OperatorWriter(const ModelConfig& config, const DecoderShape& shape, const DecodeTasks& tasks)
      : c_(config), b_(shape.batch), capacity_(shape.capacity), dtype_(shape.dtype), tasks_(tasks) {}

  Result<std::vector<OperatorText>> write(DecoderPart part) const {
    switch (part) {
      case DecoderPart::NormQkv:
        return one(normed("norm_qkv", "X", {"InputNorm", "input_layernorm.weight"},
                          {{"Wq", c_.query_columns(), "self_attn.q_proj.weight"},
                           {"Wk", c_.key_columns(), "self_attn.k_proj.weight"},
                           {"Wv", c_.key_columns(), "self_attn.v_proj.weight"}},
                          "q = mul(sum_Wq, inverse); k = mul(sum_Wk, inverse); v = mul(sum_Wv, inverse)",
                          {{"q", "Q"}, {"k", "K"}, {"v", "V"}}));
      case DecoderPart::RotaryQk:
        return unsupported("rotary_qk moves elements, so it is no operator of tasks");
      case DecoderPart::Attention:
        return attention();
      case DecoderPart::OutputProjection:
        return one(added("output_projection", "X",
                         {"Mixed", {dtype_, {b_, c_.num_key_value_heads, c_.group(), c_.head_dim}}},
                         {"Wo", c_.hidden_size, "self_attn.o_proj.weight"}, "Hidden"));
      case DecoderPart::GatedUp:
        return one(normed("gated_up", "Hidden", {"PostNorm", "post_attention_layernorm.weight"},
                          {{"Wgate", c_.intermediate_size, "mlp.gate_proj.weight"},
                           {"Wup", c_.intermediate_size, "mlp.up_proj.weight"}},
                          "gate = mul(sum_Wgate, inverse); up = mul(sum_Wup, inverse);"
                          "active = silu(gate); gated = mul(active, up)",
                          {{"gated", "Gated"}}));
      case DecoderPart::Down:
        return one(added("down", "Hidden", {"Gated", {dtype_, {b_, c_.intermediate_size}}},
                         {"Wdown", c_.hidden_size, "mlp.down_proj.weight"}, "Y"));
      case DecoderPart::Head:
        return one(normed("head", "X", {"FinalNorm", "model.norm.weight"}, {{"Whead", c_.vocab_size, "lm_head.weight"}},
                          "logits = mul(sum_Whead, inverse)", {{"logits", "Logits"}}));
    }
    return unsupported("no part of a decoder");
  }

 private:
  struct Gain {
    const char* name;
    const char* weight;
  };
  /// A tile after the loop, and the tensor in which tasks lay it side by side.
  struct Saved {
    const char* tile;
    const char* result;
  };

  static Result<std::vector<OperatorText>> one(Result<OperatorText> text) {
    STRATA_CHECK(text);
    return std::vector<OperatorText>{std::move(*text)};
  }

  /// Products of activations[B, terms] in tasks of columns; `term` is the tile that is multiplied. The accumulator of
  /// matrix W is sum_W.
  Result<OperatorText> products(const char* name, const std::string& activations, int64_t terms, const char* term,
                                std::string before, const std::vector<Matrix>& matrices) const {
    OperatorText text;
    text.name = name;
    text.operands = {activations};
    std::vector<int64_t> sizes;
    for (const Matrix& matrix : matrices) sizes.push_back(matrix.columns);
    const ProductLimits limits{.workers = tasks_.workers,
                               .warps = tasks_.warps,
                               .stage_bytes = tasks_.stage_bytes,
                               .columns = most_columns(),
                               .terms = most_terms(),
                               .rates = tasks_.rates};
    const ProductCut cut = cut_product(sizes, terms, limits);
    if (cut.tasks == 0) {
      return with_remedy(unsupported("{}: {} terms of {} columns cannot be cut into iterations of at most {} bytes and "
                                     "{} terms",
                                     name, terms, fmt::join(sizes, " + "), limits.stage_bytes, limits.terms),
                         "no number of workers changes that: use --device host, or a model of other sizes");
    }
    text.grid = {cut.tasks};
    text.loop = terms / cut.terms;
    text.body = std::move(before);
    for (const Matrix& matrix : matrices) {
      const std::string view = matrix.name + "T";
      text.views += lines(fmt::format("{} = transpose({}, perm=[1, 0])", view, matrix.name), "  ");
      text.operands.push_back(view);
      text.packed.push_back(view);
      text.body += lines(fmt::format("tile_{0} = in_iter({1}, imap=[1], fmap=0);"
                                     "product_{0} = matmul({2}, tile_{0}); sum_{0} = accum(product_{0}, kind=sum)",
                                     matrix.name, view, term),
                         "    ");
    }
    return text;
  }

  int64_t rows() const { return b_ == 1 ? 1 : (b_ + kTileRows - 1) / kTileRows * kTileRows; }
  /// Terms of an iteration whose activations, of all warps, take three quarters of the scratch memory.
  int64_t most_terms() const { return tasks_.scratch_bytes * 3 / 4 / (tasks_.warps * rows() * kElementBytes); }
  /// Columns of a task with which an iteration of a warp fits a stage, and sums of a warp the last quarter of the
  /// scratch memory.
  int64_t most_columns() const {
    constexpr int64_t kSumBytes = 4;
    return std::min(tasks_.stage_bytes / (kElementBytes * kProductDepth),
                    tasks_.scratch_bytes / 4 / (rows() * kSumBytes));
  }

  Argument weight_of(const Matrix& matrix, int64_t terms) const {
    return {matrix.name, {dtype_, {matrix.columns, terms}}, {InputRole::Weight, matrix.weight}};
  }
  void save(OperatorText& text, const char* tile, const Argument& result) const {
    text.body += lines(fmt::format("{} = out_saver({}, omap=[1])", result.name, tile), "    ");
    text.results.push_back(result);
  }

  /// (x ∘ gain) · W / √(mean(x²) + ε) for each matrix. `after` makes what is saved of the sums and of `inverse`, the
  /// root's. What is saved i-th has as many columns as the i-th matrix.
  Result<OperatorText> normed(const char* name, const char* x, const Gain& gain, const std::vector<Matrix>& matrices,
                              const char* after, const std::vector<Saved>& saved) const {
    const int64_t terms = c_.hidden_size;
    STRATA_TRY(const Rational epsilon, parse_rational(fmt::format("{}", c_.rms_norm_eps)));
    const std::string before =
        lines(fmt::format("gain = in_iter({}, imap=[_], fmap=0); x = in_iter({}, imap=[_], fmap=1);"
                          "scaled = mul(x, gain); squares = sqr(x); square = sum(squares, dim=1);"
                          "sum_square = accum(square, kind=sum)",
                          gain.name, x),
              "    ");
    STRATA_TRY(OperatorText text, products(name, x, terms, "scaled", before, matrices));
    text.operands.insert(text.operands.begin() + 1, gain.name);
    text.inputs = {{x, {dtype_, {b_, terms}}, {InputRole::Activation, {}}},
                   {gain.name, {dtype_, {terms}}, {InputRole::Weight, gain.weight}}};
    for (const Matrix& matrix : matrices) text.inputs.push_back(weight_of(matrix, terms));
    text.body += lines(fmt::format("mean = scale(sum_square, factor=1/{});"
                                   "above = add_constant(mean, value={}); inverse = rsqrt(above); {}",
                                   terms, epsilon.to_string(), after),
                       "    ");
    for (size_t i = 0; i < saved.size(); ++i)
      save(text, saved[i].tile, {saved[i].result, {dtype_, {b_, matrices[i].columns}}});
    return text;
  }

  /// residual + x · W. The residual's tile is the same in every iteration; it passes the loop as its maximum, since
  /// every path passes one accumulator (ir/validate.h).
  Result<OperatorText> added(const char* name, const char* residual, const Argument& x, const Matrix& matrix,
                             const char* result) const {
    const Shape& shape = x.type.shape;
    const int64_t terms = std::accumulate(shape.begin() + 1, shape.end(), int64_t{1}, std::multiplies<>());
    const bool flat = shape.size() == 2;
    const std::string rows = flat ? x.name : x.name + "Columns";
    const std::string before = lines(fmt::format("residual = in_iter({}, imap=[1]); x = in_iter({}, imap=[_], fmap=1);"
                                                 "same = accum(residual, kind=max)",
                                                 residual, rows),
                                     "    ");
    STRATA_TRY(OperatorText text, products(name, rows, terms, "x", before, {matrix}));
    if (!flat) text.views += lines(fmt::format("{} = reshape({}, shape=[{}, {}])", rows, x.name, b_, terms), "  ");
    text.operands.insert(text.operands.begin(), residual);
    const TensorType hidden{dtype_, {b_, matrix.columns}};
    text.inputs = {{residual, hidden, {InputRole::Activation, {}}}, x, weight_of(matrix, terms)};
    text.body += lines(fmt::format("added = add(same, sum_{})", matrix.name), "    ");
    save(text, "added", {result, hidden});
    return text;
  }

  /// Online softmax over tiles of keys, and one task more for each split of them (FlashDecoding).
  Result<std::vector<OperatorText>> attention() const {
    const int64_t heads = c_.num_key_value_heads, group = c_.group(), d = c_.head_dim;
    const int64_t keys = tasks_.keys > 0 ? tasks_.keys : keys_of_iteration(c_, b_, capacity_, tasks_);
    const int64_t tiles = capacity_ / keys;
    if (capacity_ % keys != 0 || tiles < 2) {
      return with_remedy(unsupported("attention over {} positions", capacity_),
                         fmt::format("take a multiple of {}, from {} on", keys, 2 * keys));
    }
    const int64_t of_head = tasks_of_head(c_, b_, tasks_.workers);
    const int64_t splits =
        tasks_.splits > 0 ? tasks_.splits : splits_of_tiles(tiles, std::min(of_head, tiles / 2), tasks_.warps);
    if (tiles % splits != 0)
      return with_remedy(invalid("{} splits of {} tiles of attention", splits, tiles), "name a divisor");
    OperatorText partial;
    partial.name = "attention";
    partial.inputs = {{"Qrot", {dtype_, {b_, c_.num_attention_heads, d}}, {InputRole::Activation, {}}},
                      {"KCache", {dtype_, {b_ * heads, capacity_, d}}, {InputRole::Cache, {}}},
                      {"VCache", {dtype_, {b_ * heads, capacity_, d}}, {InputRole::Cache, {}}},
                      {"Mask", {dtype_, {b_, capacity_}}, {InputRole::Position, {}}}};
    partial.views =
        lines(fmt::format(
                  "Queries = reshape(Qrot, shape=[{0}, {1}, {2}, {3}]);"
                  "Keys = reshape(KCache, shape=[{0}, {1}, {4}, {3}]); KeysT = transpose(Keys, perm=[0, 1, 3, 2]);"
                  "Values = reshape(VCache, shape=[{0}, {1}, {4}, {3}]); Seen = reshape(Mask, shape=[{0}, 1, 1, {4}])",
                  b_, heads, group, d, capacity_),
              "  ");
    partial.operands = {"Queries", "KeysT", "Values", "Seen"};
    partial.packed = {"KeysT", "Values"};
    partial.grid = {splits, heads, b_};
    partial.loop = tiles / splits;
    partial.body =
        lines(fmt::format("seen = in_iter(Seen, imap=[3, _, 0], fmap=3); q = in_iter(Queries, imap=[_, 1, 0]);"
                          "k = in_iter(KeysT, imap=[3, 1, 0], fmap=3); v = in_iter(Values, imap=[2, 1, 0], fmap=2);"
                          "products = matmul(q, k); scores = scale(products, factor={});"
                          "largest = reduce_max(scores, dim=3); below = sub(scores, largest); powers = exp(below);"
                          "weights = mul(powers, seen); weight = sum(weights, dim=3); mixed = matmul(weights, v);"
                          "sum = accum_rescale(weight, largest); all = accum_rescale(mixed, largest)",
                          inverse_square_root(d).to_string()),
              "    ");
    const Argument result{"Mixed", {dtype_, {b_, heads, group, d}}};
    if (splits == 1) {
      partial.body += lines("mean = div(all, sum); Mixed = out_saver(mean, omap=[2, 1, 0])", "    ");
      partial.results = {result};
      return std::vector<OperatorText>{std::move(partial)};
    }
    partial.body += lines(
        "max = accum(largest, kind=max); PartMax = out_saver(max, omap=[2, 1, 0], dtype=f32);"
        "PartSum = out_saver(sum, omap=[2, 1, 0], dtype=f32); PartMixed = out_saver(all, omap=[2, 1, 0], dtype=f32)",
        "    ");
    const TensorType rows{DType::F32, {b_, heads, splits * group, 1}};
    partial.results = {
        {"PartMax", rows}, {"PartSum", rows}, {"PartMixed", {DType::F32, {b_, heads, splits * group, d}}}};
    OperatorText combine;
    combine.name = "combine";
    combine.inputs = partial.results;
    combine.operands = {"PartMax", "PartSum", "PartMixed"};
    const int64_t words = d % kWordColumns == 0 ? d / kWordColumns : 1;  // of a row
    combine.grid = {greatest_divisor(words, of_head), heads, b_};
    combine.loop = splits;
    combine.body = lines(fmt::format("largest = in_iter(PartMax, imap=[_, 1, 0], fmap=2);"
                                     "weight = in_iter(PartSum, imap=[_, 1, 0], fmap=2);"
                                     "mixed = in_iter(PartMixed, imap=[3, 1, 0], fmap=2);"
                                     "sum = accum_rescale(weight, largest); all = accum_rescale(mixed, largest);"
                                     "mean = div(all, sum); Mixed = out_saver(mean, omap=[3, 1, 0], dtype={})",
                                     name_of(dtype_)),
                         "    ");
    combine.results = {result};
    return std::vector<OperatorText>{std::move(partial), std::move(combine)};
  }

  const ModelConfig& c_;
  int64_t b_;
  int64_t capacity_;
  DType dtype_;
  DecodeTasks tasks_;
};

Result<DecodeOperator> operator_of(const OperatorText& text, int64_t warps) {
  DecodeOperator made;
  made.name = text.name;
  STRATA_TRY(made.graph, parse_graph(graph_text(text.name, text.inputs, text.statements(), text.results), text.name));
  for (const Argument& input : text.inputs) made.inputs.push_back(input.what);
  if (text.packed.empty()) return made;  // read where it lies, by all threads
  made.schedule.loop_warps = warps_of_loop(text.loop, warps);
  for (const std::string& name : text.packed) {
    const auto at = std::find(text.operands.begin(), text.operands.end(), name);
    made.schedule.packed |= int64_t{1} << (at - text.operands.begin());
  }
  return made;
}

}  // namespace

int64_t DecodeOperator::tasks() const {
  const std::vector<int64_t>& grid = operation().body->launch().grid;
  return std::accumulate(grid.begin(), grid.end(), int64_t{1}, std::multiplies<>());
}

int64_t DecodeOperator::stage_bytes() const {
  const Graph& body = *operation().body;
  int64_t bytes = 0;
  for (const Operation& op : body.operations()) {
    if (op.kind != OpKind::InIter) continue;
    const auto number = std::find(body.inputs().begin(), body.inputs().end(), op.operands[0]) - body.inputs().begin();
    if ((schedule.packed >> number & 1) != 0) bytes += body.type(op.results[0]).bytes();
  }
  return bytes;
}

int64_t keys_of_iteration(const ModelConfig& config, int64_t batch, int64_t capacity, const DecodeTasks& tasks) {
  int64_t keys = wanted_keys(config, batch, capacity, tasks);
  while (keys > kLeastKeys && capacity % keys != 0) keys /= 2;
  return keys;
}

int64_t cache_positions(const ModelConfig& config, int64_t batch, int64_t positions, const DecodeTasks& tasks) {
  const int64_t keys = wanted_keys(config, batch, positions, tasks);
  const int64_t tiles = std::max<int64_t>((positions + keys - 1) / keys, 2);
  const int64_t splits = std::min(tasks_of_head(config, batch, tasks.workers), tiles / 2);
  return (tiles + splits - 1) / splits * splits * keys;
}

Result<DecodeOperators> decode_operators(const ModelConfig& config, const DecoderShape& shape, DecoderPart part,
                                         const DecodeTasks& tasks) {
  STRATA_CHECK(decoder_part(config, shape, part));  // which checks the shape
  if (tasks.workers < 1 || tasks.warps < 1)
    return invalid("tasks for {} workers of {} warps: both are 1 at least", tasks.workers, tasks.warps);
  STRATA_TRY(const std::vector<OperatorText> texts, OperatorWriter(config, shape, tasks).write(part));
  DecodeOperators made;
  std::string statements;
  for (const OperatorText& text : texts) {
    STRATA_TRY(DecodeOperator op, operator_of(text, tasks.warps));
    made.operators.push_back(std::move(op));
    statements += text.statements();
  }
  STRATA_TRY(made.graph,
             parse_graph(graph_text(name_of(part), texts.front().inputs, statements, texts.back().results)));
  return made;
}

}  // namespace strata::megakernel

#include "megakernel/models/decoder_program.h"

#include <cmath>

namespace strata::megakernel {
namespace {

/// Writes a program statement by statement. The first error stays, and what follows it is nothing; done() says it.
class ProgramWriter {
 public:
  ProgramWriter(const ModelConfig& config, const DecoderShape& shape, std::string_view name)
      : config_(config), shape_(shape), builder_(Level::Kernel, std::string(name)) {}

  /// Of a name that was an input or a result before: that tensor.
  TensorId input(const char* name, const Shape& shape, DecoderInput input) {
    if (error_) return kNone;
    if (const auto made = builder_.peek().find_tensor(name)) return *made;
    inputs_.push_back(std::move(input));
    return keep(builder_.input(name, {shape_.dtype, shape}));
  }
  TensorId activation(const char* name, const Shape& shape) { return input(name, shape, {InputRole::Activation, {}}); }
  TensorId position(const char* name, const Shape& shape) { return input(name, shape, {InputRole::Position, {}}); }
  TensorId cache(const char* name, const Shape& shape) { return input(name, shape, {InputRole::Cache, {}}); }
  TensorId weight(const char* name, const Shape& shape, const char* of) {
    return input(name, shape, {InputRole::Weight, of});
  }

  TensorId add(OpKind kind, std::vector<TensorId> operands, std::string name) {
    return add(kind, std::move(operands), {}, std::move(name));
  }
  TensorId add(OpKind kind, std::vector<TensorId> operands, const char* key, AttributeValue value, std::string name) {
    Attributes attributes;
    attributes.set(key, std::move(value));
    return add(kind, std::move(operands), std::move(attributes), std::move(name));
  }
  TensorId add(OpKind kind, std::vector<TensorId> operands, Attributes attributes, std::string name) {
    if (error_) return kNone;
    return keep(builder_.add(kind, std::move(operands), std::move(attributes), std::move(name)));
  }

  TensorId reshape(TensorId x, const Shape& to, std::string name) {
    return add(OpKind::Reshape, {x}, "shape", to, std::move(name));
  }
  TensorId transpose(TensorId x, std::vector<int64_t> perm, std::string name) {
    return add(OpKind::Transpose, {x}, "perm", std::move(perm), std::move(name));
  }
  /// x · Wᵀ of a weight [out, in].
  TensorId project(TensorId x, const char* weight_name, const Shape& out_in, const char* of, std::string name) {
    const TensorId w = weight(weight_name, out_in, of);
    const TensorId in_out = transpose(w, {1, 0}, fmt::format("{}T", weight_name));
    return add(OpKind::Matmul, {x, in_out}, std::move(name));
  }
  /// x / √(mean(x²) + eps) · gain along the last dimension; names begin with `prefix`.
  TensorId rms_norm(TensorId x, TensorId gain, const std::string& prefix) {
    if (error_) return kNone;
    const Shape shape = builder_.type(x).shape;
    const auto eps = parse_rational(fmt::format("{}", config_.rms_norm_eps));
    if (!eps) return fail(eps.error().within("rms_norm_eps"));
    const TensorId squares = add(OpKind::Sqr, {x}, prefix + "Sqr");
    const auto dim = static_cast<int64_t>(shape.size()) - 1;
    const TensorId sum = add(OpKind::Sum, {squares}, "dim", dim, prefix + "Sum");
    const TensorId mean = add(OpKind::Scale, {sum}, "factor", Rational{1, shape.back()}, prefix + "Mean");
    const TensorId above = add(OpKind::AddConstant, {mean}, "value", *eps, prefix + "Eps");
    const TensorId inverse = add(OpKind::Rsqrt, {above}, prefix + "Inv");
    const TensorId unit = add(OpKind::Mul, {x, inverse}, prefix + "Unit");
    return add(OpKind::Mul, {unit, gain}, prefix + "Norm");
  }
  /// x · cos + rotate_half(x) · sin of x[B, heads, d].
  TensorId rotary(TensorId x, TensorId cos, TensorId sin, const std::string& prefix) {
    const int64_t half = config_.head_dim / 2;
    const auto slice = [&](int64_t start, const char* name) {
      Attributes attributes;
      attributes.set("dim", int64_t{2});
      attributes.set("start", start);
      attributes.set("size", half);
      return add(OpKind::Slice, {x}, std::move(attributes), prefix + name);
    };
    const TensorId low = slice(0, "Low");
    const TensorId high = slice(half, "High");
    const TensorId minus = add(OpKind::Scale, {high}, "factor", Rational{-1, 1}, prefix + "Minus");
    const TensorId rotated = add(OpKind::Concat, {minus, low}, "dim", int64_t{2}, prefix + "Half");
    const TensorId with_cos = add(OpKind::Mul, {x, cos}, prefix + "Cos");
    const TensorId with_sin = add(OpKind::Mul, {rotated, sin}, prefix + "Sin");
    return add(OpKind::Add, {with_cos, with_sin}, prefix + "rot");
  }

  void output(TensorId id) {
    if (error_) return;
    if (auto made = builder_.output(id); !made) fail(std::move(made).error());
  }
  Result<DecoderProgram> done() {
    if (error_) return tl::unexpected(*error_);
    STRATA_TRY(GraphPtr graph, builder_.finish());
    return DecoderProgram{std::move(graph), std::move(inputs_)};
  }

 private:
  static constexpr TensorId kNone = -1;

  TensorId keep(Result<TensorId> made) { return made ? *made : fail(std::move(made).error()); }
  TensorId fail(Error error) {
    error_ = std::move(error);
    return kNone;
  }

  const ModelConfig& config_;
  const DecoderShape& shape_;
  GraphBuilder builder_;
  std::vector<DecoderInput> inputs_;
  std::optional<Error> error_;
};

/// The statements of the parts. Inputs that a part before has made are its results.
class LayerWriter {
 public:
  LayerWriter(const ModelConfig& config, const DecoderShape& shape, std::string_view name)
      : c_(config), b_(shape.batch), capacity_(shape.capacity), w_(config, shape, name) {}

  /// Its outputs are those of the graph.
  void write(DecoderPart part) {
    for (const TensorId id : statements(part)) w_.output(id);
  }
  void write_layer() {
    statements(DecoderPart::NormQkv);
    const std::vector<TensorId> rotated = statements(DecoderPart::RotaryQk);
    const TensorId v = w_.activation("V", {b_, c_.key_columns()});
    append("KCache", "PastK", rotated[1], "K");
    append("VCache", "PastV", v, "V");
    for (const DecoderPart part : {DecoderPart::Attention, DecoderPart::OutputProjection, DecoderPart::GatedUp})
      statements(part);
    write(DecoderPart::Down);
    w_.output(rotated[1]);
    w_.output(v);
  }
  void write_attention_below_its_largest() {
    for (const TensorId id : attention(true)) w_.output(id);
  }
  Result<DecoderProgram> done() { return w_.done(); }

 private:
  std::vector<TensorId> statements(DecoderPart part) {
    switch (part) {
      case DecoderPart::NormQkv:
        return norm_qkv();
      case DecoderPart::RotaryQk:
        return rotary_qk();
      case DecoderPart::Attention:
        return attention();
      case DecoderPart::OutputProjection:
        return output_projection();
      case DecoderPart::GatedUp:
        return gated_up();
      case DecoderPart::Down:
        return down();
      case DecoderPart::Head:
        return head();
    }
    return {};
  }

  std::vector<TensorId> norm_qkv() {
    const int64_t hidden = c_.hidden_size;
    const TensorId x = w_.activation("X", {b_, hidden});
    const TensorId gain = w_.weight("InputNorm", {hidden}, "input_layernorm.weight");
    const TensorId normed = w_.rms_norm(x, gain, "X");
    return {w_.project(normed, "Wq", {c_.query_columns(), hidden}, "self_attn.q_proj.weight", "Q"),
            w_.project(normed, "Wk", {c_.key_columns(), hidden}, "self_attn.k_proj.weight", "K"),
            w_.project(normed, "Wv", {c_.key_columns(), hidden}, "self_attn.v_proj.weight", "V")};
  }

  std::vector<TensorId> rotary_qk() {
    const int64_t d = c_.head_dim;
    const TensorId cos = w_.position("Cos", {b_, 1, d});
    const TensorId sin = w_.position("Sin", {b_, 1, d});
    const auto rotated = [&](const char* name, int64_t heads, const char* norm, const char* weight) {
      const TensorId columns = w_.activation(name, {b_, heads * d});
      TensorId x = w_.reshape(columns, {b_, heads, d}, fmt::format("{}Heads", name));
      if (c_.family == ModelFamily::Qwen3) x = w_.rms_norm(x, w_.weight(norm, {d}, weight), name);
      return w_.rotary(x, cos, sin, name);
    };
    const TensorId q = rotated("Q", c_.num_attention_heads, "QNormGain", "self_attn.q_norm.weight");
    const TensorId k = rotated("K", c_.num_key_value_heads, "KNormGain", "self_attn.k_norm.weight");
    return {q, k};
  }

  /// The cache with this step's rows: past + here · new, where past is 0 at the place of the new row.
  void append(const char* cache, const char* past_name, TensorId now, const std::string& prefix) {
    const int64_t heads = c_.num_key_value_heads;
    const int64_t d = c_.head_dim;
    const TensorId past = w_.cache(past_name, {b_ * heads, capacity_, d});
    const TensorId here = w_.position("Here", {b_, capacity_});
    const TensorId row = w_.reshape(now, {b_, heads, 1, d}, prefix + "Row");
    const TensorId place = w_.reshape(here, {b_, 1, capacity_, 1}, prefix + "Place");
    const TensorId placed = w_.add(OpKind::Mul, {row, place}, prefix + "Placed");
    const TensorId rows = w_.reshape(placed, {b_ * heads, capacity_, d}, prefix + "Rows");
    w_.add(OpKind::Add, {past, rows}, cache);
  }

  std::vector<TensorId> attention(bool below_largest = false) {
    const int64_t heads = c_.num_key_value_heads;
    const int64_t d = c_.head_dim;
    const TensorId q = w_.activation("Qrot", {b_, c_.num_attention_heads, d});
    const TensorId keys = w_.cache("KCache", {b_ * heads, capacity_, d});
    const TensorId values = w_.cache("VCache", {b_ * heads, capacity_, d});
    const TensorId mask = w_.position("Mask", {b_, capacity_});
    const TensorId rows = w_.reshape(q, {b_, heads, c_.group(), d}, "Qrows");
    const TensorId k = w_.reshape(keys, {b_, heads, capacity_, d}, "Keys");
    const TensorId kt = w_.transpose(k, {0, 1, 3, 2}, "KeysT");
    const TensorId scores = w_.add(OpKind::Matmul, {rows, kt}, "Scores");
    const TensorId scaled = w_.add(OpKind::Scale, {scores}, "factor", inverse_square_root(d), "Scaled");
    TensorId exponents = scaled;
    if (below_largest) {
      const TensorId largest = w_.add(OpKind::ReduceMax, {scaled}, "dim", int64_t{3}, "Largest");
      exponents = w_.add(OpKind::Sub, {scaled, largest}, "Below");
    }
    const TensorId exponentials = w_.add(OpKind::Exp, {exponents}, "Exp");
    const TensorId seen = w_.reshape(mask, {b_, 1, 1, capacity_}, "Seen");
    const TensorId masked = w_.add(OpKind::Mul, {exponentials, seen}, "Masked");
    const TensorId total = w_.add(OpKind::Sum, {masked}, "dim", int64_t{3}, "Total");
    const TensorId weights = w_.add(OpKind::Div, {masked, total}, "Weights");
    const TensorId v = w_.reshape(values, {b_, heads, capacity_, d}, "Values");
    return {w_.add(OpKind::Matmul, {weights, v}, "Mixed")};
  }

  std::vector<TensorId> output_projection() {
    const TensorId x = w_.activation("X", {b_, c_.hidden_size});
    const TensorId mixed = w_.activation("Mixed", {b_, c_.num_key_value_heads, c_.group(), c_.head_dim});
    const TensorId columns = w_.reshape(mixed, {b_, c_.query_columns()}, "MixedColumns");
    const Shape out_in{c_.hidden_size, c_.query_columns()};
    const TensorId projected = w_.project(columns, "Wo", out_in, "self_attn.o_proj.weight", "Projected");
    return {w_.add(OpKind::Add, {x, projected}, "Hidden")};
  }

  std::vector<TensorId> gated_up() {
    const TensorId hidden = w_.activation("Hidden", {b_, c_.hidden_size});
    const TensorId gain = w_.weight("PostNorm", {c_.hidden_size}, "post_attention_layernorm.weight");
    const TensorId normed = w_.rms_norm(hidden, gain, "Hidden");
    const Shape out_in{c_.intermediate_size, c_.hidden_size};
    const TensorId gate = w_.project(normed, "Wgate", out_in, "mlp.gate_proj.weight", "Gate");
    const TensorId up = w_.project(normed, "Wup", out_in, "mlp.up_proj.weight", "Up");
    const TensorId active = w_.add(OpKind::SiLU, {gate}, "Active");
    return {w_.add(OpKind::Mul, {active, up}, "Gated")};
  }

  std::vector<TensorId> down() {
    const TensorId hidden = w_.activation("Hidden", {b_, c_.hidden_size});
    const TensorId gated = w_.activation("Gated", {b_, c_.intermediate_size});
    const Shape out_in{c_.hidden_size, c_.intermediate_size};
    const TensorId projected = w_.project(gated, "Wdown", out_in, "mlp.down_proj.weight", "DownProjected");
    return {w_.add(OpKind::Add, {hidden, projected}, "Y")};
  }

  std::vector<TensorId> head() {
    const TensorId x = w_.activation("X", {b_, c_.hidden_size});
    const TensorId gain = w_.weight("FinalNorm", {c_.hidden_size}, "model.norm.weight");
    const TensorId normed = w_.rms_norm(x, gain, "X");
    return {w_.project(normed, "Whead", {c_.vocab_size, c_.hidden_size}, "lm_head.weight", "Logits")};
  }

  const ModelConfig& c_;
  int64_t b_;
  int64_t capacity_;
  ProgramWriter w_;
};

Result<void> check_shape(const DecoderShape& shape) {
  // Products of two of these and two sizes of a configuration fit 63 bits.
  constexpr int64_t kMostRows = int64_t{1} << 11;
  constexpr int64_t kMostPositions = int64_t{1} << 22;
  if (shape.batch < 1 || shape.batch > kMostRows)
    return with_remedy(invalid("a batch of {} sequences", shape.batch), fmt::format("take 1 to {}", kMostRows));
  if (shape.capacity < 1 || shape.capacity > kMostPositions)
    return with_remedy(invalid("a cache of {} positions", shape.capacity), fmt::format("take 1 to {}", kMostPositions));
  return {};
}

}  // namespace

std::string_view name_of(DecoderPart part) {
  constexpr std::array<std::string_view, 7> kNames{"norm_qkv", "rotary_qk", "attention", "output_projection",
                                                   "gated_up", "down",      "head"};
  return kNames[static_cast<size_t>(part)];
}

Rational inverse_square_root(int64_t n) {
  constexpr int64_t kMostTerm = int64_t{1} << 24;
  auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (root * root > n) --root;
  while ((root + 1) * (root + 1) <= n) ++root;
  if (root * root == n) return {1, root};
  // Convergents p/q of √n, whose terms are (root + m) / d (Lagrange); their inverses are those of 1/√n.
  int64_t p = root, q = 1, last_p = 1, last_q = 0, m = 0, d = 1, term = root;
  for (;;) {
    m = d * term - m;
    d = (n - m * m) / d;
    term = (root + m) / d;
    const int64_t next = term * p + last_p;
    if (next >= kMostTerm) return {q, p};
    last_p = std::exchange(p, next);
    last_q = std::exchange(q, term * q + last_q);
  }
}

Result<DecoderProgram> decoder_part(const ModelConfig& config, const DecoderShape& shape, DecoderPart part) {
  STRATA_CHECK(check_shape(shape));
  LayerWriter writer(config, shape, name_of(part));
  writer.write(part);
  return writer.done();
}

Result<DecoderProgram> attention_below_largest(const ModelConfig& config, const DecoderShape& shape) {
  STRATA_CHECK(check_shape(shape));
  LayerWriter writer(config, shape, name_of(DecoderPart::Attention));
  writer.write_attention_below_its_largest();
  return writer.done();
}

Result<DecoderProgram> decoder_layer(const ModelConfig& config, const DecoderShape& shape) {
  STRATA_CHECK(check_shape(shape));
  LayerWriter writer(config, shape, "decoder_layer");
  writer.write_layer();
  return writer.done();
}

}  // namespace strata::megakernel

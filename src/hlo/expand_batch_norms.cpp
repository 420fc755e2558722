#include "hlo/expand_batch_norms.h"

#include <algorithm>

#include "hlo/replace_instructions.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

bool is_batch_norm(const Instruction& instruction) { return family(instruction.opcode) == Family::Normalisation; }

/// The computation of one instruction, written as text.
class Expansion {
 public:
  Expansion(const Computation& computation, const Instruction& instruction)
      : instruction_(instruction), operand_(computation.operand_shape(instruction, 0)) {
    const int64_t feature = instruction.as<BatchNormAttributes>().feature_index;
    features_ = operand_.dim(feature);
    for (int64_t d = 0; d < operand_.rank(); ++d) {
      if (d == feature) continue;
      terms_ *= operand_.dim(d);
      summed_.push_back(d);
    }
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const Shape& shape = computation.operand_shape(instruction, i);
      if (shape.type == ElementType::F64) type_ = ElementType::F64;
      body_ += fmt::format("  p{} = {} parameter({})\n", i, to_string(shape), i);
    }
    whole_ = to_string(array_shape(type_, operand_.dims, operand_.minor_to_major));
    vector_ = fmt::format("{}[{}]", name(type_), features_);
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const bool is_whole = i == 0 || (instruction.opcode == Opcode::BatchNormGrad && i == 4);
      add(fmt::format("x{}", i), is_whole ? whole_ : vector_, fmt::format("convert(p{})", i));
    }
    body_ += fmt::format("  zero = {}[] constant(0)\n", name(type_));
    spread("terms", vector_, fmt::format("{}", terms_));
    spread("epsilon", vector_, fmt::format("{}", instruction.as<BatchNormAttributes>().epsilon));
  }

  std::string text() {
    switch (instruction_.opcode) {
      case Opcode::BatchNormTraining:
        training();
        break;
      case Opcode::BatchNormInference:
        normalise("x3", "x4");
        add("ROOT r", to_string(instruction_.shape), "convert(y)");
        break;
      default:
        gradient();
    }
    return fmt::format(
        "HloModule m\nplus {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n  ROOT r = {0}[] add(a, b)\n}}\n"
        "ENTRY {1} {{\n{2}}}\n",
        name(type_), name(instruction_.opcode), body_);
  }

 private:
  void add(std::string_view name, std::string_view shape, std::string_view call) {
    body_ += fmt::format("  {} = {} {}\n", name, shape, call);
  }
  void spread(std::string_view name, std::string_view shape, std::string_view value) {
    body_ += fmt::format("  {0}.1 = {1}[] constant({2})\n  {0} = {3} broadcast({0}.1), dimensions={{}}\n", name,
                         hlo::name(type_), value, shape);
  }
  /// One number a feature, for all elements.
  void widen(std::string_view name, std::string_view vector) {
    add(name, whole_, fmt::format("broadcast({}), dimensions={{{}}}", vector, feature_index()));
  }
  void sum(std::string_view name, std::string_view whole) {
    add(name, vector_,
        fmt::format("reduce({}, zero), dimensions={{{}}}, to_apply=plus", whole, fmt::join(summed_, ",")));
  }
  int64_t feature_index() const { return instruction_.as<BatchNormAttributes>().feature_index; }

  /// centred = x - mean, factor = 1 / √(variance + epsilon), a number a feature.
  void centre(std::string_view mean) {
    widen("means", mean);
    add("centred", whole_, "subtract(x0, means)");
  }
  void scale_by(std::string_view variance) {
    add("shifted", vector_, fmt::format("add({}, epsilon)", variance));
    add("factor", vector_, "rsqrt(shifted)");
    widen("factors", "factor");
    add("normalised", whole_, "multiply(centred, factors)");
  }

  /// y of the formula, of the mean and the variance.
  void normalise(std::string_view mean, std::string_view variance) {
    if (mean != "mean") centre(mean);
    scale_by(variance);
    widen("scales", "x1");
    widen("offsets", "x2");
    add("scaled", whole_, "multiply(normalised, scales)");
    add("y", whole_, "add(scaled, offsets)");
  }

  void tuple(std::string_view first, std::string_view second, std::string_view third) {
    const std::vector<Shape>& shapes = instruction_.shape.elements.list();
    add("r0", to_string(shapes[0]), fmt::format("convert({})", first));
    add("r1", to_string(shapes[1]), fmt::format("convert({})", second));
    add("r2", to_string(shapes[2]), fmt::format("convert({})", third));
    add("ROOT r", to_string(instruction_.shape), "tuple(r0, r1, r2)");
  }

  void training() {
    sum("sum", "x0");
    add("mean", vector_, "divide(sum, terms)");
    centre("mean");
    add("squares", whole_, "multiply(centred, centred)");
    sum("square", "squares");
    add("variance", vector_, "divide(square, terms)");
    normalise("mean", "variance");
    tuple("y", "mean", "variance");
  }

  /// x4 is ∇y. ∇offset = Σ∇y, ∇scale = Σ∇y·z and ∇x = scale · factor · (∇y - ∇offset/terms - z · ∇scale/terms), where z
  /// is the operand normalised.
  void gradient() {
    centre("x2");
    scale_by("x3");
    add("products", whole_, "multiply(x4, normalised)");
    sum("grad_scale", "products");
    sum("grad_offset", "x4");
    add("mean_offset", vector_, "divide(grad_offset, terms)");
    add("mean_scale", vector_, "divide(grad_scale, terms)");
    widen("mean_offsets", "mean_offset");
    widen("mean_scales", "mean_scale");
    add("along", whole_, "multiply(normalised, mean_scales)");
    add("rest", whole_, "subtract(x4, mean_offsets)");
    add("rest2", whole_, "subtract(rest, along)");
    add("outer", vector_, "multiply(x1, factor)");
    widen("outers", "outer");
    add("grad", whole_, "multiply(rest2, outers)");
    tuple("grad", "grad_scale", "grad_offset");
  }

  const Instruction& instruction_;
  const Shape& operand_;
  ElementType type_ = ElementType::F32;
  int64_t features_ = 0;
  int64_t terms_ = 1;
  std::vector<int64_t> summed_;
  std::string whole_, vector_, body_;
};

}  // namespace

bool has_batch_norms(const Module& module) {
  return std::any_of(module.computations.begin(), module.computations.end(), [](const Computation& computation) {
    return std::any_of(computation.instructions.begin(), computation.instructions.end(), is_batch_norm);
  });
}

Result<Module> expand_batch_norms(const Module& module) {
  return replace_instructions(module,
                              [](const Computation& computation, const Instruction& it) -> std::optional<Replacement> {
                                if (!is_batch_norm(it)) return std::nullopt;
                                return Replacement{Expansion(computation, it).text(), it.operands};
                              });
}

}  // namespace strata::hlo

#include "hlo/expand_window_scatters.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "hlo/replace_instructions.h"
#include "hlo/scatter_places.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

using Integers = std::vector<int64_t>;

bool is_window_scatter(const Computation& computation, const Instruction& it) {
  if (it.opcode != Opcode::Scatter || it.operands.size() != 3 || !it.shape.is_array()) return false;
  const auto& how = it.as<ScatterAttributes>();
  const Shape& indices = computation.operand_shape(it, 1);
  const int64_t components = how.index_vector_dim < indices.rank() ? indices.dim(how.index_vector_dim) : 1;
  if (it.shape.element_count() == 0 || !how.input_batching_dims.empty() || indices.element_count() != components ||
      components == 0 || computation.operand_shape(it, 2).element_count() == 0)
    return false;
  return std::all_of(it.operands.begin(), it.operands.end(),
                     [&](InstructionId id) { return computation[id].shape.has_default_layout(); }) &&
         it.shape.has_default_layout();
}

/// The elements of an array of integers that is made of constants.
std::optional<Integers> known_elements(const Computation& computation, InstructionId id) {
  const Instruction& it = computation[id];
  switch (it.opcode) {
    case Opcode::Constant: {
      const Literal& value = it.as<ConstantAttributes>().value;
      Integers elements;
      for (int64_t i = 0; i < value.shape().element_count(); ++i) elements.push_back(value.get_integer(i));
      return elements;
    }
    case Opcode::Broadcast: {
      if (computation.operand_shape(it, 0).element_count() != 1) return std::nullopt;
      const auto one = known_elements(computation, it.operands[0]);
      return one ? std::optional(Integers(static_cast<size_t>(it.shape.element_count()), one->front())) : std::nullopt;
    }
    case Opcode::Reshape:
      return known_elements(computation, it.operands[0]);
    case Opcode::Concatenate: {
      if (it.shape.rank() != 1) return std::nullopt;
      Integers all;
      for (const InstructionId operand : it.operands) {
        const auto some = known_elements(computation, operand);
        if (!some) return std::nullopt;
        all.insert(all.end(), some->begin(), some->end());
      }
      return all;
    }
    default:
      return std::nullopt;
  }
}

std::string list(const Integers& of) { return fmt::format("{}", fmt::join(of, ",")); }

/// The text of a replacement.
class Writer {
 public:
  Writer(const Module& module, const Computation& computation, const Instruction& it)
      : computation_(computation),
        it_(it),
        how_(it.as<ScatterAttributes>()),
        dims_(it.shape.dims),
        extents_(scatter_extents(how_, dims_.size(), computation.operand_shape(it, 2).dims)),
        type_(name(it.shape.type)),
        combination_(scatter_combination(module[it.called[0]])) {}

  Replacement write() {
    const Shape &indices = computation_.operand_shape(it_, 1), &updates = computation_.operand_shape(it_, 2);
    body_ =
        fmt::format("  x = {} parameter(0)\n  i = {} parameter(1)\n  u = {} parameter(2)\n  w = {}[{}] reshape(u)\n",
                    to_string(it_.shape), to_string(indices), to_string(updates), type_, list(extents_));
    const bool fits = std::equal(extents_.begin(), extents_.end(), dims_.begin(), std::less_equal());
    const auto known = known_elements(computation_, it_.operands[1]);
    if (!fits)
      body_ += fmt::format("  ROOT r = {} copy(x)\n", to_string(it_.shape));
    else if (known)
      at(*known);
    else
      anywhere();
    return {fmt::format("HloModule m\nscatter {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n  ROOT r = {0}[] "
                        "copy(a)\n}}\nENTRY window-scatter {{\n{1}}}\n",
                        type_, body_),
            it_.operands,
            {{"scatter", it_.called[0]}}};
  }

 private:
  /// The component of the index that moves a dimension, or -1.
  int64_t component(size_t d) const {
    const Integers& moved = how_.scatter_dims_to_operand_dims;
    const auto found = std::find(moved.begin(), moved.end(), static_cast<int64_t>(d));
    return found == moved.end() ? -1 : found - moved.begin();
  }

  /// At a place that is known.
  void at(const Integers& index) {
    Integers starts(dims_.size(), 0), limits, high;
    int64_t window = 1, all = 1;
    for (size_t d = 0; d < dims_.size(); ++d) {
      if (component(d) >= 0) starts[d] = index[static_cast<size_t>(component(d))];
      if (starts[d] < 0 || starts[d] > dims_[d] - extents_[d]) {
        body_ += fmt::format("  ROOT r = {} copy(x)\n", to_string(it_.shape));
        return;
      }
      limits.push_back(starts[d] + extents_[d]);
      high.push_back(dims_[d] - limits[d]);
      window *= extents_[d];
      all *= dims_[d];
    }
    std::vector<std::string> parts, pads;
    for (size_t d = 0; d < dims_.size(); ++d) {
      parts.push_back(fmt::format("[{}:{}]", starts[d], limits[d]));
      pads.push_back(fmt::format("{}_{}", starts[d], high[d]));
    }
    const std::string whole = list(dims_), part = list(extents_);
    if (window * 2 >= all) {
      body_ += fmt::format(
          "  none = {0}[] constant({3})\n  b = {0}[{1}] pad(w, none), padding={2}\n  a = {0}[{1}] copy(x)\n  both = "
          "{0}[{1}] {4}\n  yes = pred[] constant(true)\n  no = pred[] constant(false)\n  ones = pred[{5}] "
          "broadcast(yes), dimensions={{}}\n  hit = pred[{1}] pad(ones, no), padding={2}\n  ROOT r = {0}[{1}] "
          "select(hit, both, x)\n",
          type_, whole, fmt::join(pads, "x"), zero(), combination_, part);
      return;
    }
    body_ += fmt::format("  a = {0}[{1}] slice(x), slice={{{2}}}\n  b = {0}[{1}] copy(w)\n  both = {0}[{1}] {3}\n",
                         type_, part, fmt::join(parts, ", "), combination_);
    std::vector<std::string> places;
    for (size_t d = 0; d < dims_.size(); ++d) {
      body_ += fmt::format("  s{} = s32[] constant({})\n", d, starts[d]);
      places.push_back(fmt::format("s{}", d));
    }
    body_ +=
        fmt::format("  ROOT r = {}[{}] dynamic-update-slice(x, both, {})\n", type_, whole, fmt::join(places, ", "));
  }

  std::string zero() const {
    return kind(it_.shape.type) == TypeKind::Pred      ? "false"
           : kind(it_.shape.type) == TypeKind::Complex ? "(0, 0)"
                                                       : "0";
  }

  /// At a place that is computed, if the window is wholly inside.
  void anywhere() {
    const Shape& indices = computation_.operand_shape(it_, 1);
    const bool narrow = bit_width(indices.type) < 32 || indices.type == ElementType::S32;
    const char* number = narrow ? "s32" : "s64";
    const std::string part = list(extents_);
    body_ += fmt::format(
        "  j = {}[{}] reshape(i)\n  k = {}[{}] convert(j)\n  zero = {} constant(0)\n  in = pred[] "
        "constant(true)\n",
        name(indices.type), indices.element_count(), number, indices.element_count(), fmt::format("{}[]", number));
    std::vector<std::string> places;
    std::string inside = "in";
    for (size_t d = 0; d < dims_.size(); ++d) {
      const int64_t from = component(d);
      places.push_back(from < 0 ? "zero" : fmt::format("s{}", d));
      if (from < 0) continue;
      const int64_t most = std::min<int64_t>(
          dims_[d] - extents_[d], narrow ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int64_t>::max());
      body_ += fmt::format(
          "  c{0} = {1}[1] slice(k), slice={{[{2}:{3}]}}\n  s{0} = {1}[] reshape(c{0})\n  m{0} = {1}[] constant({4})\n "
          " "
          "l{0} = pred[] compare(s{0}, zero), direction=GE\n  h{0} = pred[] compare(s{0}, m{0}), direction=LE\n  b{0} "
          "= "
          "pred[] and(l{0}, h{0})\n  in{0} = pred[] and({5}, b{0})\n",
          d, number, from, from + 1, most, inside);
      inside = fmt::format("in{}", d);
    }
    body_ += fmt::format(
        "  a = {0}[{1}] dynamic-slice(x, {2}), dynamic_slice_sizes={{{1}}}\n  b = {0}[{1}] copy(w)\n  both = {0}[{1}] "
        "{3}\n  all = pred[{1}] broadcast({4}), dimensions={{}}\n  new = {0}[{1}] select(all, both, a)\n  ROOT r = "
        "{0}[{5}] dynamic-update-slice(x, new, {2})\n",
        type_, part, fmt::join(places, ", "), combination_, inside, list(dims_));
  }

  const Computation& computation_;
  const Instruction& it_;
  const ScatterAttributes& how_;
  const Integers dims_, extents_;  ///< of the operand and of the window
  const std::string type_, combination_;
  std::string body_;
};

}  // namespace

bool has_window_scatters(const Module& module) {
  return std::any_of(module.computations.begin(), module.computations.end(), [](const Computation& computation) {
    return std::any_of(computation.instructions.begin(), computation.instructions.end(),
                       [&](const Instruction& it) { return is_window_scatter(computation, it); });
  });
}

Result<Module> expand_window_scatters(const Module& module) {
  return replace_instructions(module,
                              [&](const Computation& computation, const Instruction& it) -> std::optional<Replacement> {
                                if (!is_window_scatter(computation, it)) return std::nullopt;
                                return Writer(module, computation, it).write();
                              });
}

}  // namespace strata::hlo

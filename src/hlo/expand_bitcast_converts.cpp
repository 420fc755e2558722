#include "hlo/expand_bitcast_converts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "hlo/replace_instructions.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

int bits_of(ElementType type) { return type == ElementType::Pred ? 8 : bit_width(type); }

bool is_uneven(const Computation& computation, const Instruction& it) {
  if (it.opcode != Opcode::BitcastConvert || it.shape.type == ElementType::Pred) return false;
  return bits_of(computation.operand_shape(it, 0).type) != bits_of(it.shape.type);
}

/// The computation of one instruction, written as text.
class Expansion {
 public:
  Expansion(const Shape& from, const Shape& to)
      : from_(from), to_(to), narrow_(bits_of(from.type)), wide_(bits_of(to.type)) {
    add("x", to_string(from), "parameter(0)");
  }

  std::string text() {
    if (narrow_ > wide_) {
      std::swap(narrow_, wide_);
      split();
    } else {
      join();
    }
    return fmt::format("HloModule m\nENTRY bits {{\n{}}}\n", body_);
  }

 private:
  void add(std::string_view name, std::string_view shape, std::string_view call) {
    body_ += fmt::format("  {} = {} {}\n", name, shape, call);
  }
  /// Of unsigned integers, in the default layout.
  static std::string array(int bits, const std::vector<int64_t>& dims) {
    return fmt::format("u{}[{}]", bits, fmt::join(dims, ","));
  }
  /// The operand's bits as integers of `bits`.
  void add_bits(int bits) {
    const std::string_view call = from_.type == ElementType::Pred ? "convert(x)" : "bitcast-convert(x)";
    add("bits", array(bits, from_.dims), call);
  }
  void number(std::string_view name, int value, const std::vector<int64_t>& dims) {
    add(fmt::format("{}.number", name), array(wide_, {}), fmt::format("constant({})", value));
    add(name, array(wide_, dims), fmt::format("broadcast({}.number), dimensions={{}}", name));
  }

  void split() {
    add_bits(wide_);
    std::vector<int64_t> places(from_.dims.size());
    std::iota(places.begin(), places.end(), 0);
    const std::string parts = array(wide_, to_.dims);
    add("whole", parts, fmt::format("broadcast(bits), dimensions={{{}}}", fmt::join(places, ",")));
    add("part", parts, fmt::format("iota(), iota_dimension={}", from_.dims.size()));
    number("width", narrow_, to_.dims);
    add("place", parts, "multiply(part, width)");
    add("shifted", parts, "shift-right-logical(whole, place)");
    add("code", array(narrow_, to_.dims), "convert(shifted)");
    add("ROOT r", to_string(to_), "bitcast-convert(code)");
  }

  void join() {
    add_bits(narrow_);
    add("parts", array(wide_, from_.dims), "convert(bits)");
    std::vector<int64_t> one = from_.dims;
    one.back() = 1;
    const std::string whole = array(wide_, to_.dims);
    for (int part = 0; part < wide_ / narrow_; ++part) {
      std::vector<std::string> ranges;
      for (size_t d = 0; d + 1 < one.size(); ++d) ranges.push_back(fmt::format("[0:{}]", one[d]));
      ranges.push_back(fmt::format("[{}:{}]", part, part + 1));
      add(fmt::format("part.{}", part), array(wide_, one),
          fmt::format("slice(parts), slice={{{}}}", fmt::join(ranges, ",")));
      add(fmt::format("low.{}", part), whole, fmt::format("reshape(part.{})", part));
      if (part == 0) continue;
      number(fmt::format("place.{}", part), part * narrow_, to_.dims);
      add(fmt::format("high.{}", part), whole, fmt::format("shift-left(low.{0}, place.{0})", part));
      add(fmt::format("sum.{}", part), whole,
          fmt::format("or({}.{}, high.{})", part == 1 ? "low" : "sum", part - 1, part));
    }
    add("ROOT r", to_string(to_), fmt::format("bitcast-convert(sum.{})", wide_ / narrow_ - 1));
  }

  const Shape& from_;
  const Shape& to_;
  int narrow_, wide_;
  std::string body_;
};

}  // namespace

bool has_uneven_bitcast_converts(const Module& module) {
  return std::any_of(module.computations.begin(), module.computations.end(), [](const Computation& computation) {
    return std::any_of(computation.instructions.begin(), computation.instructions.end(),
                       [&](const Instruction& it) { return is_uneven(computation, it); });
  });
}

Result<Module> expand_bitcast_converts(const Module& module) {
  return replace_instructions(
      module, [](const Computation& computation, const Instruction& it) -> std::optional<Replacement> {
        if (!is_uneven(computation, it)) return std::nullopt;
        return Replacement{Expansion(computation.operand_shape(it, 0), it.shape).text(), it.operands};
      });
}

}  // namespace strata::hlo

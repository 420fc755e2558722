#include "hlo/expand_select_and_scatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "hlo/replace_instructions.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

/// Windows that an element looks at one by one. Of more there would be too much code.
constexpr int64_t kMostLooks = 32;

/// The operator of a computation that is one sum or product of its parameters.
std::optional<Opcode> sum_or_product(const Computation& computation) {
  const Instruction& root = computation.root_instruction();
  if (root.opcode != Opcode::Add && root.opcode != Opcode::Multiply) return std::nullopt;
  const std::vector<InstructionId>& parameters = computation.parameters;
  return std::is_permutation(root.operands.begin(), root.operands.end(), parameters.begin(), parameters.end())
             ? std::optional(root.opcode)
             : std::nullopt;
}

/// The computation of one instruction, written as text.
class Expansion {
 public:
  Expansion(const Module& module, const Computation& computation, const Instruction& it)
      : it_(it),
        operand_(computation.operand_shape(it, 0)),
        source_(computation.operand_shape(it, 1)),
        window_(it.as<WindowAttributes>().window),
        sum_(sum_or_product(module[it.called[1]])) {
    const bool narrow = is_float(operand_.type) && bit_width(operand_.type) < 32;
    wide_ = name(sum_ && narrow ? ElementType::F32 : operand_.type);
    for (size_t d = 0; d < window_.size(); ++d) {
      const auto [size, stride] = std::pair(window_[d].size, window_[d].stride);
      covering_.push_back((size + stride - 1) / stride);
      looks_ = std::min(looks_ * covering_.back(), kMostLooks + 1);
    }
  }

  Replacement replacement() {
    body_ = fmt::format("  x = {} parameter(0)\n  s = {} parameter(1)\n  z = {}[] parameter(2)\n", to_string(operand_),
                        to_string(source_), type());
    add("z.wide", array(wide_, {}), "convert(z)");
    if (operand_.element_count() == 0 || source_.element_count() == 0) {
      add("ROOT r", to_string(it_.shape), "broadcast(z), dimensions={}");
    } else if (looks_ <= kMostLooks) {
      gather();
    } else {
      scatter();
    }
    const std::string text = fmt::format(
        "HloModule m\nselect {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n  ROOT r = pred[] compare(a, b), "
        "direction=EQ\n}}\nscatter {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n  ROOT r = {0}[] copy(a)\n"
        "}}\n{1}ENTRY select-and-scatter {{\n{2}}}\n",
        type(), computations_, body_);
    return {text, it_.operands, {{"select", it_.called[0]}, {"scatter", it_.called[1]}}};
  }

 private:
  void add(std::string_view name, std::string_view shape, std::string_view call) {
    body_ += fmt::format("  {} = {} {}\n", name, shape, call);
  }
  std::string_view type() const { return name(operand_.type); }
  /// An array in the layout of the operand, where it has as many dimensions.
  std::string array(std::string_view type, const std::vector<int64_t>& dims) const {
    if (dims.size() != operand_.dims.size()) return fmt::format("{}[{}]", type, fmt::join(dims, ","));
    return fmt::format("{}[{}]{{{}}}", type, fmt::join(dims, ","), fmt::join(operand_.minor_to_major, ","));
  }

  /// The places of the operand's elements: the last bits of its indices beside each other, `bits` of each dimension.
  void places(const std::vector<int>& bits, std::string_view number) {
    // Along dimensions that have bits: a small array, however many others there are.
    std::vector<int64_t> dims, kept;
    for (size_t d = 0; d < bits.size(); ++d) {
      if (bits[d] == 0) continue;
      kept.push_back(static_cast<int64_t>(d));
      dims.push_back(operand_.dims[d]);
    }
    const std::string shape = fmt::format("{}[{}]", number, fmt::join(dims, ","));
    const auto spread = [&](const std::string& name, int64_t value) {
      add(name + ".scalar", fmt::format("{}[]", number), fmt::format("constant({})", value));
      add(name, shape, fmt::format("broadcast({}.scalar), dimensions={{}}", name));
    };
    spread("sum.of.0", 0);
    for (size_t i = 0; i < kept.size(); ++i) {
      const int of = bits[static_cast<size_t>(kept[i])];
      spread(fmt::format("base.{}", i), int64_t{1} << of);
      spread(fmt::format("mask.{}", i), (int64_t{1} << of) - 1);
      add(fmt::format("index.{}", i), shape, fmt::format("iota(), iota_dimension={}", i));
      add(fmt::format("last.{}", i), shape, fmt::format("and(index.{0}, mask.{0})", i));
      add(fmt::format("scaled.{}", i), shape, fmt::format("multiply(sum.of.{0}, base.{0})", i));
      add(fmt::format("sum.of.{}", i + 1), shape, fmt::format("add(scaled.{0}, last.{0})", i));
    }
    // Twice: each kernel that reads them spreads them itself, and nothing as large as the operand is stored.
    for (const std::string_view places : {"places", "places.again"}) {
      add(places, array(number, operand_.dims),
          fmt::format("broadcast(sum.of.{}), dimensions={{{}}}", kept.size(), fmt::join(kept, ",")));
    }
  }

  /// `selected`: the place that each window selects, `none` if it has no elements.
  void select(std::string_view number, std::string_view none) {
    computations_ += fmt::format(
        "pick {{\n  a = {0}[] parameter(0)\n  i = {1}[] parameter(1)\n  b = {0}[] parameter(2)\n  j = {1}[] "
        "parameter(3)\n  none = {1}[] constant({2})\n  keeps = pred[] call(a, b), to_apply=select\n  some = pred[] "
        "compare(i, none), direction=NE\n  first = pred[] and(keeps, some)\n  v = {0}[] select(first, a, b)\n  k = "
        "{1}[] select(first, i, j)\n  ROOT r = ({0}[], {1}[]) tuple(v, k)\n}}\n",
        type(), number, none);
    std::vector<std::string> sizes, strides, pads;
    for (const WindowDimension& w : window_) {
      sizes.push_back(std::to_string(w.size));
      strides.push_back(std::to_string(w.stride));
      pads.push_back(fmt::format("{}_{}", w.pad_low, w.pad_high));
    }
    add("none", fmt::format("{}[]", number), fmt::format("constant({})", none));
    const std::string window = window_.empty() ? ""
                                               : fmt::format("size={} stride={} pad={}", fmt::join(sizes, "x"),
                                                             fmt::join(strides, "x"), fmt::join(pads, "x"));
    add("pairs", fmt::format("({}, {})", array(type(), source_.dims), array(number, source_.dims)),
        fmt::format("reduce-window(x, places, z, none), window={{{}}}, to_apply=pick", window));
    add("selected", array(number, source_.dims), "get-tuple-element(pairs), index=1");
  }

  /// Each element of a window-shaped array as often as windows are apart: at the places from one window to the next.
  void repeat(std::string_view name, std::string_view of, std::string_view type) {
    std::vector<int64_t> dims, kept, all;
    for (size_t d = 0; d < window_.size(); ++d) {
      kept.push_back(static_cast<int64_t>(dims.size()));
      dims.push_back(source_.dims[d]);
      if (window_[d].stride > 1) dims.push_back(window_[d].stride);
      all.push_back(source_.dims[d] * window_[d].stride);
    }
    add(fmt::format("{}.apart", name), fmt::format("{}[{}]", type, fmt::join(dims, ",")),
        fmt::format("broadcast({}), dimensions={{{}}}", of, fmt::join(kept, ",")));
    add(name, array(type, all), fmt::format("reshape({}.apart)", name));
  }

  /// Puts repeated windows over each element: the one that begins `before` windows earlier than the last one that may
  /// cover it.
  std::string moved(std::string_view windows, std::string_view outside, const std::vector<int64_t>& before) const {
    if (window_.empty()) return fmt::format("copy({})", windows);
    std::vector<std::string> pads;
    for (size_t d = 0; d < window_.size(); ++d) {
      const int64_t low = before[d] * window_[d].stride - window_[d].pad_low;
      const int64_t high = operand_.dims[d] - source_.dims[d] * window_[d].stride - low;
      pads.push_back(fmt::format("{}_{}", low, high));
    }
    return fmt::format("pad({}, {}), padding={}", windows, outside, fmt::join(pads, "x"));
  }

  void gather() {
    std::vector<int> bits;
    int all = 0;
    for (size_t d = 0; d < window_.size(); ++d) {
      const int64_t apart = covering_[d] * window_[d].stride;
      bits.push_back(static_cast<int>(std::bit_width(static_cast<uint64_t>(apart - 1))));
      all += bits.back();
    }
    // A number more than there are places: of a window that has none.
    const auto [number, none] = all < 8    ? std::pair("u8", "255")
                                : all < 16 ? std::pair("u16", "65535")
                                : all < 32 ? std::pair("u32", "4294967295")
                                           : std::pair("u64", "18446744073709551615");
    places(bits, number);
    select(number, none);
    repeat("selected.wide", "selected", number);
    repeat("s.wide", "s", type());
    const std::string whole = array(wide_, operand_.dims);
    add("sum.0", whole, "broadcast(z.wide), dimensions={}");
    // The windows in their order: the earliest first.
    std::vector<int64_t> before;
    for (const int64_t covering : covering_) before.push_back(covering - 1);
    for (int64_t k = 0;; ++k) {
      add(fmt::format("selected.{}", k), array(number, operand_.dims), moved("selected.wide", "none", before));
      add(fmt::format("hit.{}", k), array("pred", operand_.dims),
          fmt::format("compare(selected.{}, places.again), direction=EQ", k));
      add(fmt::format("narrow.{}", k), array(type(), operand_.dims), moved("s.wide", "z", before));
      add(fmt::format("source.{}", k), whole, fmt::format("convert(narrow.{})", k));
      const std::string operands = fmt::format("(sum.{0}, source.{0})", k);
      add(fmt::format("next.{}", k), whole,
          sum_ ? fmt::format("{}{}", name(*sum_), operands) : fmt::format("map{}, to_apply=scatter", operands));
      add(fmt::format("sum.{}", k + 1), whole, fmt::format("select(hit.{0}, next.{0}, sum.{0})", k));
      size_t d = before.size();
      while (d > 0 && before[d - 1] == 0) --d;
      if (d == 0) {
        add("ROOT r", to_string(it_.shape), fmt::format("convert(sum.{})", k + 1));
        return;
      }
      --before[d - 1];
      for (; d < before.size(); ++d) before[d] = covering_[d] - 1;
    }
  }

  void scatter() {
    const std::string_view number = operand_.element_count() < (int64_t{1} << 31) ? "s32" : "s64";
    const int64_t windows = source_.element_count(), elements = operand_.element_count();
    add("all.places", fmt::format("{}[{}]", number, elements), "iota(), iota_dimension=0");
    add("places", array(number, operand_.dims), "reshape(all.places)");
    select(number, "-1");
    std::string called = "scatter";
    if (sum_) {
      called = "combine";
      computations_ += fmt::format(
          "combine {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n  ROOT r = {0}[] {1}(a, b)\n}}\n", wide_,
          name(*sum_));
    }
    add("to", fmt::format("{}[{},1]", number, windows), "reshape(selected)");
    add("from.narrow", fmt::format("{}[{}]", type(), windows), "reshape(s)");
    add("from", fmt::format("{}[{}]", wide_, windows), "convert(from.narrow)");
    const std::string flat = fmt::format("{}[{}]", wide_, elements);
    add("initial", flat, "broadcast(z.wide), dimensions={}");
    add("flat", flat,
        fmt::format("scatter(initial, to, from), update_window_dims={{}}, inserted_window_dims={{0}}, "
                    "scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={}",
                    called));
    add("whole", array(wide_, operand_.dims), "reshape(flat)");
    add("ROOT r", to_string(it_.shape), "convert(whole)");
  }

  const Instruction& it_;
  const Shape& operand_;
  const Shape& source_;
  const std::vector<WindowDimension>& window_;
  const std::optional<Opcode> sum_;  ///< what the sources are combined by, if that is one of these
  std::string_view wide_;            ///< the type in which they are
  std::vector<int64_t> covering_;    ///< windows that cover an element along each dimension, at most
  int64_t looks_ = 1;                ///< their product, or more than kMostLooks
  std::string body_, computations_;
};

}  // namespace

bool has_select_and_scatter(const Module& module) {
  return std::any_of(module.computations.begin(), module.computations.end(), [](const Computation& computation) {
    return std::any_of(computation.instructions.begin(), computation.instructions.end(),
                       [](const Instruction& it) { return it.opcode == Opcode::SelectAndScatter; });
  });
}

Result<Module> expand_select_and_scatter(const Module& module) {
  return replace_instructions(module,
                              [&](const Computation& computation, const Instruction& it) -> std::optional<Replacement> {
                                if (it.opcode != Opcode::SelectAndScatter) return std::nullopt;
                                return Expansion(module, computation, it).replacement();
                              });
}

}  // namespace strata::hlo

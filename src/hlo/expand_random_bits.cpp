#include "hlo/expand_random_bits.h"

#include <algorithm>
#include <array>

#include "hlo/random_order.h"
#include "hlo/replace_instructions.h"
#include "hlo/text_builder.h"

namespace strata::hlo {
namespace {

using Value = TextBuilder::Value;
using Dims = TextBuilder::Dims;

/// What both generators have in common.
class Expansion {
 public:
  explicit Expansion(const Instruction& it)
      : bits_(it.shape.elements[1]), count_(bits_.element_count()), wide_(bit_width(bits_.type) == 64) {
    state_ = text_.parameter(0, it.shape.elements[0]);
    key_ = word(0);
    counter_ = word(1);
  }

  std::string philox() {
    const bool apart = state_.dims()[0] > 2;
    const int64_t words = wide_ ? 2 * count_ : count_;
    const int64_t blocks = (words + 3) / 4;
    // A counter of 128 bits.
    const Value outer = apart ? word(2) : key_;
    const Value inner = text_.binary("add", counter_, text_.iota(ElementType::U64, {blocks}, 0));
    const auto carried = [&](const Value& sum) {
      const Value next = text_.binary("add", outer, text_.constant(ElementType::U64, 1));
      return text_.select(text_.compare(sum, counter_, "LT"), next, outer);
    };
    const Value high = carried(inner);
    std::array<Value, 4> x{low_half(inner), high_half(inner), low_half(high), high_half(high)};
    std::array<Value, 2> key{low_half(key_), high_half(key_)};
    const auto number = [&](uint32_t value) { return text_.constant(ElementType::U32, value); };
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const Value first = number(kPhiloxMultipliers[0]), second = number(kPhiloxMultipliers[1]);
      x = {mixed(text_.binary("mulhi", x[2], second), x[1], key[0]), text_.binary("multiply", x[2], second),
           mixed(text_.binary("mulhi", x[0], first), x[3], key[1]), text_.binary("multiply", x[0], first)};
      for (size_t i = 0; i < 2; ++i) key[i] = text_.binary("add", key[i], number(kPhiloxWeyl[i]));
    }
    std::vector<Value> parts{x.begin(), x.end()};
    if (wide_) parts = {joined(x[0], x[1]), joined(x[2], x[3])};
    for (Value& part : parts) part = text_.reshape(part, {blocks, 1});
    const auto all = blocks * static_cast<int64_t>(parts.size());
    const Value row = text_.reshape(text_.concatenate(parts, 1), {all});
    const Value next = text_.binary("add", counter_, text_.constant(ElementType::U64, blocks));
    return finished(text_.slice(row, 0, 0, count_), apart ? std::vector{next, carried(next)} : std::vector{next});
  }

  std::string threefry() {
    const ThreefryOrder order = threefry_order(bits_);
    const int64_t blocks = order.blocks();
    const Value counter = text_.binary("add", counter_, text_.iota(ElementType::U64, {blocks}, 0));
    const Value first = low_half(key_), second = high_half(key_);
    const Value parity = text_.constant(ElementType::U32, kThreefryParity);
    const std::array<Value, 3> key{first, second, mixed(first, second, parity)};
    std::array<Value, 2> x{text_.binary("add", low_half(counter), key[0]),
                           text_.binary("add", high_half(counter), key[1])};
    for (size_t group = 0; group < kThreefryGroups; ++group) {
      for (const int64_t by : kThreefryRotations[group % 2]) {
        x[0] = text_.binary("add", x[0], x[1]);
        const Value left = text_.binary("shift-left", x[1], text_.constant(ElementType::U32, by));
        const Value right = text_.binary("shift-right-logical", x[1], text_.constant(ElementType::U32, 32 - by));
        x[1] = text_.binary("xor", text_.binary("or", left, right), x[0]);
      }
      const Value number = text_.constant(ElementType::U32, static_cast<int64_t>(group) + 1);
      x[0] = text_.binary("add", x[0], key[(group + 1) % 3]);
      x[1] = text_.binary("add", x[1], text_.binary("add", key[(group + 2) % 3], number));
    }
    const Value next = text_.binary("add", counter_, text_.constant(ElementType::U64, blocks));
    if (wide_) return finished(joined(x[0], x[1]), {next});
    const Dims part{order.outer, order.pairs, 1, order.inner};
    const Value both = text_.concatenate({text_.reshape(x[0], part), text_.reshape(x[1], part)}, 2);
    const Value rows = text_.reshape(both, {order.outer, 2 * order.pairs, order.inner});
    return finished(text_.slice(rows, 1, 0, order.split), {next});
  }

 private:
  Value word(int64_t i) { return text_.reshape(text_.slice(state_, 0, i, i + 1), {}); }
  Value low_half(const Value& of) { return text_.convert(of, ElementType::U32); }
  Value high_half(const Value& of) {
    return low_half(text_.binary("shift-right-logical", of, text_.constant(ElementType::U64, 32)));
  }
  Value joined(const Value& low, const Value& high) {
    const Value shifted =
        text_.binary("shift-left", text_.convert(high, ElementType::U64), text_.constant(ElementType::U64, 32));
    return text_.binary("or", text_.convert(low, ElementType::U64), shifted);
  }
  Value mixed(const Value& a, const Value& b, const Value& c) {
    return text_.binary("xor", text_.binary("xor", a, b), c);
  }

  /// Narrow elements are the lowest bits of a word each.
  std::string finished(const Value& bits, const std::vector<Value>& counter) {
    std::vector<Value> words{text_.reshape(key_, {1})};
    for (const Value& each : counter) words.push_back(text_.reshape(each, {1}));
    const Value shaped = text_.convert(text_.reshape(bits, bits_.dims), bits_.type);
    const Value root = text_.tuple({text_.concatenate(words, 0), shaped});
    return text_.module(root);
  }

  TextBuilder text_;
  const Shape bits_;
  const int64_t count_;
  const bool wide_;
  Value state_, key_, counter_;
};

bool is_expanded(const Instruction& it) {
  return it.opcode == Opcode::RngBitGenerator && it.shape.elements[1].element_count() > 0;
}

}  // namespace

bool has_random_bits(const Module& module) {
  return std::ranges::any_of(module.computations, [](const Computation& computation) {
    return std::ranges::any_of(computation.instructions, is_expanded);
  });
}

Result<Module> expand_random_bits(const Module& module) {
  return replace_instructions(module, [](const Computation&, const Instruction& it) -> std::optional<Replacement> {
    if (!is_expanded(it)) return std::nullopt;
    const bool threefry = it.as<RandomAttributes>().algorithm == RandomAttributes::Algorithm::ThreeFry;
    Expansion made(it);
    return Replacement{threefry ? made.threefry() : made.philox(), it.operands};
  });
}

}  // namespace strata::hlo

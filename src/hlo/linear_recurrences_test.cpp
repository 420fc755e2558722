// Gradients of scans, as JAX prints those of lax.associative_scan: which are found, and that they compute the same.
#include "hlo/linear_recurrences.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "hlo/compare.h"
#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/scan_window.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

enum class Kind { Recurrence, Sums, Products, LogSums };

/// A scan of [2, n, 3] along the second dimension, and its gradient.
class GradientText {
 public:
  GradientText(Kind kind, int64_t length, std::string type = "f32", bool reverse = false)
      : kind_(kind), length_(length), type_(type), reverse_(reverse) {}

  std::string write() {
    text_ = "HloModule m\nENTRY e {\n";
    std::string a, b;
    int number = 0;
    if (has_a()) a = line(length_, fmt::format("parameter({})", number++));
    if (has_b()) b = line(length_, fmt::format("parameter({})", number++));
    std::string g = line(length_, fmt::format("parameter({})", number));
    text_ += fmt::format("  zero = {0}[] constant(0)\n  endless = {0}[] constant(inf)\n", type_);
    const std::string h = turned(forward(turned(a), turned(b), length_));
    const auto [da, db] = backward(0, turned(g));
    std::vector<std::string> results{h};
    if (has_a()) results.push_back(turned(da));
    if (has_b()) results.push_back(turned(db));
    text_ += fmt::format("  ROOT r = ({}) tuple({})\n}}\n",
                         fmt::join(std::vector<std::string>(results.size(), shape(length_)), ", "),
                         fmt::join(results, ", "));
    return text_;
  }

 private:
  struct Level {
    int64_t length = 0;
    std::string a, b, below;  ///< elements, and the results of the level below
    std::string combined;     ///< pairs of elements
    std::string later;        ///< results at even places, but the first
  };
  struct Gradient {
    std::string a, b;
  };

  bool has_a() const { return kind_ != Kind::Sums && kind_ != Kind::LogSums; }
  bool has_b() const { return kind_ != Kind::Products; }
  std::string shape(int64_t n) const { return fmt::format("{}[2,{},3]", type_, n); }

  std::string line(int64_t n, const std::string& rest) {
    std::string name = fmt::format("v{}", ++number_);
    text_ += fmt::format("  {} = {} {}\n", name, shape(n), rest);
    return name;
  }
  std::string slice(const std::string& of, int64_t start, int64_t limit, int64_t stride) {
    return line((limit - start + stride - 1) / stride,
                fmt::format("slice({}), slice={{[0:2], [{}:{}:{}], [0:3]}}", of, start, limit, stride));
  }
  std::string pad(const std::string& of, int64_t n, int64_t low, int64_t high, int64_t interior) {
    return line(n, fmt::format("pad({}, zero), padding=0_0_0x{}_{}_{}x0_0_0", of, low, high, interior));
  }
  std::string multiply(int64_t n, const std::string& x, const std::string& y) {
    return line(n, fmt::format("multiply({}, {})", x, y));
  }
  std::string add(int64_t n, const std::string& x, const std::string& y) {
    if (x.empty()) return y;
    return y.empty() ? x : line(n, fmt::format("add({}, {})", x, y));
  }

  std::string turned(const std::string& of) {
    return of.empty() || !reverse_ ? of : line(length_, fmt::format("reverse({}), dimensions={{1}}", of));
  }
  std::string truth(int64_t n, const std::string& x, const std::string& y, const std::string& direction) {
    const std::string name = fmt::format("t{}", ++number_);
    text_ += fmt::format("  {} = pred[2,{},3] compare({}, {}), direction={}\n", name, n, x, y, direction);
    return name;
  }
  std::string everywhere(int64_t n, const std::string& scalar) {
    return line(n, fmt::format("broadcast({}), dimensions={{}}", scalar));
  }
  /// As jax.numpy.logaddexp and its derivative are lowered.
  std::string log_add(int64_t n, const std::string& x, const std::string& y) {
    const std::string difference = line(n, fmt::format("subtract({}, {})", x, y));
    const std::string undefined = truth(n, difference, difference, "NE");
    const std::string sum = line(n, fmt::format("add({}, {})", x, y));
    const std::string most = line(n, fmt::format("maximum({}, {})", x, y));
    const std::string apart = line(n, fmt::format("abs({})", difference));
    const std::string power = line(n, fmt::format("exponential({})", line(n, fmt::format("negate({})", apart))));
    const std::string above =
        line(n, fmt::format("add({}, {})", most, line(n, fmt::format("log-plus-one({})", power))));
    return line(n, fmt::format("select({}, {}, {})", undefined, sum, above));
  }
  std::string ratio(int64_t n, const std::string& x, const std::string& sum) {
    const auto finite = [&](const std::string& of) {
      const std::string is_infinite = truth(n, of, everywhere(n, "endless"), "EQ");
      return line(n, fmt::format("select({}, {}, {})", is_infinite, everywhere(n, "zero"), of));
    };
    const std::string first = finite(x), second = finite(sum);
    return line(n, fmt::format("exponential({})", line(n, fmt::format("subtract({}, {})", first, second))));
  }

  std::string forward(const std::string& a, const std::string& b, int64_t n) {
    levels_.push_back({n, a, b, ""});
    const size_t level = levels_.size() - 1;
    const std::string& own = has_b() ? b : a;
    if (n < 2) return own;
    const int64_t half = n / 2, more = (n - 1) / 2;
    std::string next_a, next_b;
    if (has_a()) next_a = multiply(half, slice(a, 0, n - 1, 2), slice(a, 1, n, 2));
    if (has_b()) {
      std::string first = slice(b, 0, n - 1, 2);
      if (has_a()) first = multiply(half, slice(a, 1, n, 2), first);
      next_b = added(half, first, slice(b, 1, n, 2));
    }
    levels_[level].combined = next_b;
    const std::string below = forward(next_a, next_b, half);
    levels_[level].below = below;
    std::string even = slice(own, 0, 1, 1);
    if (more > 0) {
      std::string later = n % 2 == 0 ? slice(below, 0, more, 1) : below;
      if (has_a()) later = multiply(more, slice(a, 2, n, 2), later);
      if (has_b()) later = added(more, later, slice(b, 2, n, 2));
      levels_[level].later = later;
      even = line(more + 1, fmt::format("concatenate({}, {}), dimensions={{1}}", even, later));
    }
    return add(n, pad(even, n, 0, n % 2 == 0 ? 1 : 0, 1), pad(below, n, 1, n % 2 == 0 ? 0 : 1, 1));
  }

  std::string added(int64_t n, const std::string& x, const std::string& y) {
    return kind_ == Kind::LogSums ? log_add(n, x, y) : add(n, x, y);
  }

  Gradient backward(size_t number, const std::string& g) {
    const Level level = levels_[number];
    const int64_t n = level.length, half = n / 2, more = (n - 1) / 2;
    if (n < 2) return has_b() ? Gradient{"", g} : Gradient{g, ""};
    const std::string even = slice(g, 0, n, 2);
    std::string of_below = slice(g, 1, n, 2), of_a, of_b;
    (has_b() ? of_b : of_a) = pad(slice(even, 0, 1, 1), n, 0, n - 1, 0);
    if (more > 0) {
      std::string rest = slice(even, 1, more + 1, 1);
      const int64_t high = n - 1 - 2 * more;
      std::string back = rest;
      if (kind_ == Kind::LogSums) {
        const std::string before = half == more ? level.below : slice(level.below, 0, more, 1);
        back = multiply(more, rest, ratio(more, before, level.later));
        rest = multiply(more, rest, ratio(more, slice(level.b, 2, n, 2), level.later));
      }
      if (has_b()) of_b = add(n, of_b, pad(rest, n, 2, high, 1));
      if (has_a()) {
        const std::string before = half == more ? level.below : slice(level.below, 0, more, 1);
        of_a = add(n, of_a, pad(multiply(more, rest, before), n, 2, high, 1));
        back = multiply(more, slice(level.a, 2, n, 2), rest);
      }
      of_below = add(half, of_below, half == more ? back : pad(back, half, 0, half - more, 0));
    }
    const Gradient below = backward(number + 1, of_below);
    const int64_t after = n - 2 * half;
    std::string first_a, second_a, first_b = below.b, second_b = below.b;
    if (kind_ == Kind::LogSums) {
      first_b = multiply(half, below.b, ratio(half, slice(level.b, 0, n - 1, 2), level.combined));
      second_b = multiply(half, below.b, ratio(half, slice(level.b, 1, n, 2), level.combined));
    }
    if (has_a()) {
      const std::string first = slice(level.a, 0, n - 1, 2), second = slice(level.a, 1, n, 2);
      if (has_b()) {
        second_a = multiply(half, below.b, slice(level.b, 0, n - 1, 2));
        first_b = multiply(half, below.b, second);
      }
      if (!below.a.empty()) {
        second_a = add(half, second_a, multiply(half, below.a, first));
        first_a = multiply(half, below.a, second);
      }
    }
    if (has_b()) {
      of_b = add(n, of_b, pad(second_b, n, 1, after, 1));
      of_b = add(n, of_b, pad(first_b, n, 0, after + 1, 1));
    }
    if (!second_a.empty()) of_a = add(n, of_a, pad(second_a, n, 1, after, 1));
    if (!first_a.empty()) of_a = add(n, of_a, pad(first_a, n, 0, after + 1, 1));
    return {of_a, of_b};
  }

  Kind kind_;
  int64_t length_;
  std::string type_, text_;
  bool reverse_;
  int number_ = 0;
  std::vector<Level> levels_;
};

int64_t windows(const Module& module) {
  const Computation& entry = module.entry_computation();
  return std::count_if(entry.instructions.begin(), entry.instructions.end(),
                       [&](const Instruction& it) { return scan_window(entry, it).has_value(); });
}

/// The rewritten module, which computes the same as the text.
Module rewritten(const std::string& text) {
  const auto module = parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string() << text;
  if (!module) return {};
  Module folded = fold_linear_recurrences(**module);
  const auto verified = verify(folded);
  EXPECT_TRUE(verified) << verified.error().to_string() << print(folded);
  const auto again = parse_module(print(folded));
  EXPECT_TRUE(again) << again.error().to_string();
  const auto arguments = typical_arguments((*module)->entry_computation(), 5);
  const auto expected = evaluate(**module, arguments), actual = evaluate(folded, arguments);
  EXPECT_TRUE(expected && actual) << print(folded);
  for (size_t i = 0; expected && actual && i < expected->elements().size(); ++i)
    EXPECT_EQ(difference(actual->elements()[i], expected->elements()[i], 64).value_or(""), "") << i << "\n" << text;
  return folded;
}

TEST(HloLinearRecurrences, OfGradientsAreScans) {
  for (const int64_t n : {16, 17, 18, 19, 23, 31, 32, 33, 47, 64, 70}) {
    SCOPED_TRACE(n);
    const Module module = rewritten(GradientText(Kind::Recurrence, n, n % 3 == 0 ? "f64" : "f32").write());
    EXPECT_EQ(windows(module), 2);
    // Flags, shifted a and h, the product: nothing of the halves is left.
    for (const Instruction& it : module.entry_computation().instructions) {
      EXPECT_TRUE(it.shape.is_tuple() || it.shape.dims.empty() || it.shape.dim(1) == n) << print(module);
    }
  }
}

TEST(HloLinearRecurrences, OfSumsAndProductsAreScans) {
  for (const int64_t n : {16, 21, 24, 32, 33}) {
    SCOPED_TRACE(n);
    // The sum itself is left to fold_associative_scans.
    EXPECT_EQ(windows(rewritten(GradientText(Kind::Sums, n).write())), 1);
    EXPECT_EQ(windows(rewritten(GradientText(Kind::Products, n, "f64").write())), 2);
  }
}

TEST(HloLinearRecurrences, OfLogarithmsOfSumsAreScans) {
  for (const int64_t n : {16, 17, 18, 19, 23, 32, 33, 47, 70}) {
    for (const bool reverse : {false, true}) {
      SCOPED_TRACE(n);
      const Module module = rewritten(GradientText(Kind::LogSums, n, n % 2 == 0 ? "f64" : "f32", reverse).write());
      EXPECT_EQ(windows(module), 2);
      for (const Instruction& it : module.entry_computation().instructions) {
        EXPECT_TRUE(it.shape.is_tuple() || it.shape.dims.empty() || it.shape.dim(1) == n) << print(module);
        // Scans run from the end instead.
        EXPECT_NE(it.opcode, Opcode::Reverse);
      }
    }
  }
}

TEST(HloLinearRecurrences, FromTheEndNothingIsReversed) {
  const Module module = rewritten(GradientText(Kind::Recurrence, 21, "f32", /*reverse=*/true).write());
  EXPECT_EQ(windows(module), 2);
  for (const Instruction& it : module.entry_computation().instructions) EXPECT_NE(it.opcode, Opcode::Reverse);
}

/// What is written has no number for e^(y₀ − y₀) where both are −∞; a scan has 1.
TEST(HloLinearRecurrences, GradientsOfLogarithmsAreFiniteBesideInfinities) {
  const auto module = parse_module(GradientText(Kind::LogSums, 19).write());
  ASSERT_TRUE(module);
  const Module folded = fold_linear_recurrences(**module);
  auto arguments = typical_arguments((*module)->entry_computation(), 5);
  for (const int64_t place : {0, 3, 21, 24, 60})
    arguments[0].set<double>(place, -std::numeric_limits<double>::infinity());
  const auto expected = evaluate(**module, arguments), actual = evaluate(folded, arguments);
  ASSERT_TRUE(expected && actual);
  for (size_t i = 0; i < 2; ++i) {
    int64_t finite = 0;
    for (int64_t k = 0; k < 2 * 19 * 3; ++k) {
      const double wanted = expected->elements()[i].get<double>(k), found = actual->elements()[i].get<double>(k);
      if (std::isnan(wanted)) continue;
      ++finite;
      const bool same = std::isinf(wanted) ? found == wanted : std::abs(found - wanted) < 1e-5;
      EXPECT_TRUE(same) << i << " " << k << ": " << found << ", not " << wanted;
    }
    EXPECT_GT(finite, 90);
  }
}

TEST(HloLinearRecurrences, ShortOnesStay) {
  for (const int64_t n : {2, 3, 8, 15}) EXPECT_EQ(windows(rewritten(GradientText(Kind::Recurrence, n).write())), 0);
}

TEST(HloLinearRecurrences, ChangedGradientsKeepTheirValues) {
  Random random(11);
  int64_t refused = 0;
  for (int round = 0; round < 60; ++round) {
    std::string text = GradientText(Kind::Recurrence, 16 + static_cast<int64_t>(random.below(8))).write();
    // One product becomes a sum, or one sum a product.
    const bool sum = random.below(2) == 0;
    const std::string from = sum ? " add(" : " multiply(", to = sum ? " multiply(" : " add(";
    std::vector<size_t> places;
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1)) places.push_back(at);
    text.replace(places[random.below(places.size())], from.size(), to);
    refused += windows(rewritten(text)) < 2 ? 1 : 0;
  }
  EXPECT_GT(refused, 40);
}

TEST(HloLinearRecurrences, ChangedLogarithmsKeepTheirValues) {
  Random random(12);
  int64_t refused = 0;
  const std::vector<std::pair<std::string, std::string>> changes{
      {"maximum(", "minimum("},          {"negate(", "abs("},  {"direction=NE", "direction=EQ"}, {"subtract(", "add("},
      {"exponential(", "log-plus-one("}, {"multiply(", "add("}};
  for (int round = 0; round < 60; ++round) {
    std::string text = GradientText(Kind::LogSums, 16 + static_cast<int64_t>(random.below(8))).write();
    const auto& [from, to] = changes[random.below(changes.size())];
    std::vector<size_t> places;
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1)) places.push_back(at);
    text.replace(places[random.below(places.size())], from.size(), to);
    const auto module = parse_module(text);
    ASSERT_TRUE(module);
    // Of some of these operators results are no numbers, and say nothing of values.
    refused += windows(fold_linear_recurrences(**module)) < 2 ? 1 : 0;
  }
  EXPECT_GT(refused, 55);
}

TEST(HloLinearRecurrences, OtherPadsStay) {
  EXPECT_EQ(windows(rewritten(R"(HloModule m
ENTRY e {
  x = f32[16] parameter(0)
  y = f32[16] parameter(1)
  zero = f32[] constant(0)
  low = f32[31] pad(x, zero), padding=0_0_1
  high = f32[31] pad(y, zero), padding=0_0_1
  ROOT r = f32[31] add(low, high)
})")),
            0);
}

}  // namespace
}  // namespace strata::hlo

// What tests of lax parts share: how parts differ from their module, and random modules.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "emitters/lax/parts.h"
#include "emitters/lax/steps.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/inline_calls.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"
#include "ir/text.h"
#include "support/random.h"

namespace strata::emitters {

/// How the module with calls of the parts differs from the module; empty where it does not.
inline std::string difference_of_calls(const hlo::Module& module, const std::vector<LaxPart>& parts, double slack) {
  const hlo::Module called = with_lax_calls(module, parts);
  if (const auto right = hlo::verify(called); !right) return right.error().to_string();
  const auto arguments = hlo::typical_arguments(module.entry_computation(), 3);
  const auto expected = hlo::evaluate(module, arguments);
  const auto actual = hlo::evaluate(called, arguments);
  if (!expected || !actual) return "the interpreter fails";
  return hlo::difference(*actual, *expected, slack).value_or("");
}

/// How each part's program differs from the interpreter on the part's module, and the module with calls from the
/// module; empty where nothing does.
inline std::string difference(const hlo::Module& module, const std::vector<LaxPart>& parts, double slack) {
  for (const LaxPart& part : parts) {
    const hlo::Computation& entry = part.permuted.entry_computation();
    const auto arguments = hlo::typical_arguments(entry, 7);
    const auto expected = hlo::evaluate(part.permuted, arguments);
    if (!expected) return expected.error().to_string();
    const auto actual = run_on_host(*part.program.graph, part.program.inputs, arguments, expected->shape());
    if (!actual) return actual.error().to_string();
    if (const auto found = hlo::difference(*actual, *expected, slack))
      return *found + "\n" + print(*part.program.graph);
  }
  return difference_of_calls(module, parts, 1);
}

inline hlo::Module flat(const std::string& text) {
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string() << "\n" << text;
  return module ? hlo::inline_calls(**module) : hlo::Module{};
}

/// Random texts: products, elementwise operators, reductions, broadcasts and views over a few dimensions.
class RandomText {
 public:
  RandomText(uint64_t seed, std::string type, std::vector<int64_t> sizes = {1, 2, 3, 4, 6})
      : random_(seed), type_(std::move(type)), mixed_(type_.ends_with("16")), sizes_(std::move(sizes)) {}

  std::string text() {
    for (int i = 0; i < 3; ++i) add_parameter();
    add_dot(0);
    const auto count = 4 + random_.below(10);
    for (uint64_t i = 0; i < count; ++i) add();
    body_.back() = "ROOT " + body_.back();
    std::string text =
        "HloModule m\n\nadd {\n  a = T[] parameter(0)\n  b = T[] parameter(1)\n  ROOT c = T[] add(a, b)\n}\n\n"
        "max {\n  a = T[] parameter(0)\n  b = T[] parameter(1)\n  ROOT c = T[] maximum(a, b)\n}\n\nENTRY e {\n";
    for (const std::string& line : body_) text += "  " + line + "\n";
    text += "}\n";
    std::string computations = text.substr(0, text.find("ENTRY"));
    if (mixed_) {
      // A copy of each for f32.
      computations = computations.substr(computations.find("add {"));
      std::string copy = computations;
      for (const char* name : {"add {", "max {"}) copy.replace(copy.find(name), 3, std::string(name, 3) + "_f32");
      for (size_t at = 0; (at = copy.find("T[", at)) != std::string::npos;) copy.replace(at, 1, "f32");
      text.insert(text.find("add {"), copy);
    }
    for (size_t at = 0; (at = text.find("T[", at)) != std::string::npos;) text.replace(at, 1, type_);
    return text;
  }

 private:
  struct Value {
    std::string name;
    std::vector<int64_t> dims;
  };

  static std::string list(const std::vector<int64_t>& of) { return fmt::format("{}", fmt::join(of, ",")); }

  Value push(const std::vector<int64_t>& dims, const std::string& what) {
    Value made{fmt::format("v{}", body_.size()), dims};
    body_.push_back(fmt::format("{} = {}[{}] {}", made.name, wide_ ? "f32" : "T", list(dims), what));
    values_.push_back(made);
    return made;
  }

  Value add_parameter(std::vector<int64_t> dims = {}) {
    if (dims.empty()) {
      dims.assign(2 + random_.below(2), 1);
      for (int64_t& d : dims) d = sizes_[random_.below(sizes_.size())];
    }
    return push(dims, fmt::format("parameter({})", parameters_++));
  }

  const Value& any() { return values_[random_.below(values_.size())]; }
  Value recent() { return values_[values_.size() - 1 - random_.below(std::min<size_t>(3, values_.size()))]; }

  /// With a parameter that fits, or two equal operands.
  void add_dot(size_t) {
    const Value x = recent();
    if (x.dims.empty()) return;
    const auto term = static_cast<int64_t>(random_.below(x.dims.size()));
    const bool batched = x.dims.size() > 1 && random_.below(2) == 0;
    const int64_t batch = batched ? (term == 0 ? 1 : 0) : -1;
    const int64_t columns = 2 + static_cast<int64_t>(random_.below(4));
    const bool flipped = random_.below(2) == 0, first = random_.below(2) == 0;
    std::vector<int64_t> w = flipped ? std::vector<int64_t>{columns, x.dims[static_cast<size_t>(term)]}
                                     : std::vector<int64_t>{x.dims[static_cast<size_t>(term)], columns};
    if (batched) w.insert(w.begin(), x.dims[static_cast<size_t>(batch)]);
    const Value y = add_parameter(w);
    const int64_t term_of_y = (batched ? 1 : 0) + (flipped ? 1 : 0);
    std::vector<int64_t> rows;
    for (int64_t d = 0; d < std::ssize(x.dims); ++d)
      if (d != term && d != batch) rows.push_back(x.dims[static_cast<size_t>(d)]);
    std::vector<int64_t> dims;
    if (batched) dims.push_back(x.dims[static_cast<size_t>(batch)]);
    if (!first) dims.push_back(columns);
    dims.insert(dims.end(), rows.begin(), rows.end());
    if (first) dims.push_back(columns);
    const auto numbers = [&](const char* of_x, const char* of_y) {
      return std::pair(first ? of_x : of_y, first ? of_y : of_x);
    };
    const auto [left, right] = numbers(x.name.c_str(), y.name.c_str());
    std::string text = fmt::format("dot({}, {}), lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}}", left, right,
                                   first ? term : term_of_y, first ? term_of_y : term);
    if (batched)
      text += fmt::format(", lhs_batch_dims={{{}}}, rhs_batch_dims={{{}}}", first ? batch : 0, first ? 0 : batch);
    push(dims, text);
  }

  Value constant(double value, const std::vector<int64_t>& dims) {
    const Value scalar = push({}, fmt::format("constant({})", value));
    return push(dims, fmt::format("broadcast({}), dimensions={{}}", scalar.name));
  }

  /// A value of these dimensions from one with some of them.
  Value widened(const Value& of, const std::vector<int64_t>& kept, const std::vector<int64_t>& dims) {
    return push(dims, fmt::format("broadcast({}), dimensions={{{}}}", of.name, list(kept)));
  }

  /// Where the type has 16 bits, in f32 as models do.
  void add_reduction(bool softmax) {
    const Value x = recent();
    if (x.dims.empty()) return;
    if (!mixed_) return add_reduction(x, softmax);
    const size_t before = values_.size();
    wide_ = true;
    add_reduction(push(x.dims, fmt::format("convert({})", x.name)), softmax);
    wide_ = false;
    const Value result = values_.back();
    values_.resize(before);  // what is of f32 is read here alone
    push(result.dims, fmt::format("convert({})", result.name));
  }

  void add_reduction(const Value& x, bool softmax) {
    const auto reduced = static_cast<int64_t>(random_.below(x.dims.size()));
    std::vector<int64_t> dims, kept;
    for (int64_t d = 0; d < std::ssize(x.dims); ++d) {
      if (d == reduced) continue;
      dims.push_back(x.dims[static_cast<size_t>(d)]);
      kept.push_back(d);
    }
    const auto reduce = [&](const Value& of, const char* start, const char* by) {
      const Value zero = push({}, fmt::format("constant({})", start));
      return push(dims, fmt::format("reduce({}, {}), dimensions={{{}}}, to_apply={}{}", of.name, zero.name, reduced, by,
                                    wide_ ? "_f32" : ""));
    };
    const Value most = reduce(x, "-inf", "max");
    const Value below = push(x.dims, fmt::format("subtract({}, {})", x.name, widened(most, kept, x.dims).name));
    if (!softmax) return;
    const Value power = push(x.dims, fmt::format("exponential({})", below.name));
    const Value sum = reduce(power, "0", "add");
    push(x.dims, fmt::format("divide({}, {})", power.name, widened(sum, kept, x.dims).name));
  }

  void add() {
    const Value x = recent();
    switch (random_.below(10)) {
      case 0:
        return add_dot(0);
      case 1:
        return add_reduction(true);
      case 2:
        return add_reduction(false);
      case 3: {
        const Value factor = constant(std::data({0.5, -2.0, 3.0})[random_.below(3)], x.dims);
        push(x.dims, fmt::format("{}({}, {})", std::data({"multiply", "divide", "add", "subtract"})[random_.below(4)],
                                 x.name, factor.name));
        return;
      }
      case 4: {
        const Value y = add_parameter(x.dims.empty() ? std::vector<int64_t>{1} : x.dims);
        if (!x.dims.empty()) push(x.dims, fmt::format("add({}, {})", x.name, y.name));
        return;
      }
      case 5: {
        if (x.dims.size() < 2) return;
        const auto d = static_cast<int64_t>(random_.below(x.dims.size()));
        const Value y = add_parameter({x.dims[static_cast<size_t>(d)]});
        push(x.dims, fmt::format("multiply({}, {})", x.name, widened(y, {d}, x.dims).name));
        return;
      }
      case 6: {
        std::vector<int64_t> order(x.dims.size());
        std::iota(order.begin(), order.end(), 0);
        for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
        std::vector<int64_t> dims;
        for (const int64_t d : order) dims.push_back(x.dims[static_cast<size_t>(d)]);
        push(dims, fmt::format("transpose({}), dimensions={{{}}}", x.name, list(order)));
        return;
      }
      case 7: {
        std::vector<int64_t> dims = x.dims;
        if (dims.size() > 1 && random_.below(2) == 0) {
          dims[1] *= dims[0];
          dims.erase(dims.begin());
        } else {
          dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(random_.below(dims.size() + 1)), 1);
        }
        push(dims, fmt::format("reshape({})", x.name));
        return;
      }
      case 8: {
        const Value one = constant(1, x.dims);
        const Value minus = push(x.dims, fmt::format("negate({})", x.name));
        const Value power = push(x.dims, fmt::format("exponential({})", minus.name));
        const Value below = push(x.dims, fmt::format("add({}, {})", power.name, one.name));
        const Value over = push(x.dims, fmt::format("divide({}, {})", one.name, below.name));
        push(x.dims, fmt::format("multiply({}, {})", x.name, over.name));
        return;
      }
      default:
        push(x.dims, fmt::format("multiply({}, {})", x.name, x.name));
    }
  }

  Random random_;
  std::string type_;
  bool mixed_;  ///< reductions of a 16-bit type are in f32
  std::vector<int64_t> sizes_;
  bool wide_ = false;  ///< what is pushed is f32
  std::vector<Value> values_;
  std::vector<std::string> body_;
  int parameters_ = 0;
};

}  // namespace strata::emitters

// Texts of scans as jax.lax.associative_scan is lowered, for tests.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace strata::hlo {

struct TestScan {
  std::vector<std::string> types;  ///< of the arrays
  std::vector<int64_t> dims;
  size_t axis = 0;
  bool reverse = false;
  std::vector<size_t> results;  ///< the arrays whose scans are returned; all if empty
  /// Operators of a line each: "{0}" is the shape without its type, "{a0}" … "{b0}" … the operands, as "r0 = f32{0}
  /// add({a0}, {b0})"; r0 … are the results. Other names are of one letter and a number too. Constants are scalars k0 …
  std::vector<std::string> combine;
  /// Arrays without the last dimension, whose shape is "{1}".
  std::vector<size_t> narrow = {};
  std::vector<std::string> constants = {};  ///< "k0 = f32[] constant(2)"
};

class TestScanText {
 public:
  explicit TestScanText(const TestScan& scan) : scan_(scan) {}

  std::string write() {
    text_ = "HloModule m\nENTRY e {\n";
    Names inputs;
    for (size_t i = 0; i < scan_.types.size(); ++i) {
      text_ += fmt::format("  p{} = {} parameter({})\n", i, shape(i, length()), i);
      inputs.push_back(fmt::format("p{}", i));
    }
    for (const char* type : {"f32", "s32", "pred", "bf16", "f16", "f64", "c64"}) {
      const std::string zero = std::string(type) == "pred" ? "false" : std::string(type) == "c64" ? "(0, 0)" : "0";
      text_ += fmt::format("  zero_{0} = {0}[] constant({1})\n", type, zero);
    }
    for (const std::string& one : scan_.constants) text_ += "  " + one + "\n";
    for (size_t i = 0; scan_.reverse && i < inputs.size(); ++i) inputs[i] = turned(i, inputs[i]);
    Names scanned = scan(inputs, length());
    for (size_t i = 0; scan_.reverse && i < inputs.size(); ++i) scanned[i] = turned(i, scanned[i]);
    Names results;
    std::vector<std::string> shapes;
    for (size_t i = 0; i < scanned.size(); ++i) {
      if (!scan_.results.empty() && std::find(scan_.results.begin(), scan_.results.end(), i) == scan_.results.end())
        continue;
      results.push_back(scanned[i]);
      shapes.push_back(shape(i, length()));
    }
    text_ += fmt::format("  ROOT root = ({}) tuple({})\n}}\n", fmt::join(shapes, ", "), fmt::join(results, ", "));
    return text_;
  }

 private:
  using Names = std::vector<std::string>;

  int64_t length() const { return scan_.dims[scan_.axis]; }

  bool is_narrow(size_t array) const {
    return std::find(scan_.narrow.begin(), scan_.narrow.end(), array) != scan_.narrow.end();
  }

  std::string dims(int64_t n, bool narrow = false) const {
    std::vector<int64_t> of = scan_.dims;
    of[scan_.axis] = n;
    if (narrow) of.pop_back();
    return fmt::format("[{}]", fmt::join(of, ","));
  }
  std::string shape(size_t array, int64_t n) const { return scan_.types[array] + dims(n, is_narrow(array)); }

  std::string add(const std::string& shape, const std::string& rest) {
    std::string name = fmt::format("v{}", ++number_);
    text_ += fmt::format("  {} = {} {}\n", name, shape, rest);
    return name;
  }

  std::string turned(size_t array, const std::string& of) {
    return add(shape(array, length()), fmt::format("reverse({}), dimensions={{{}}}", of, scan_.axis));
  }

  std::string slice(size_t array, const std::string& of, int64_t start, int64_t limit, int64_t stride) {
    std::vector<std::string> parts;
    for (size_t d = 0; d < scan_.dims.size() - (is_narrow(array) ? 1 : 0); ++d) {
      parts.push_back(d == scan_.axis ? fmt::format("[{}:{}:{}]", start, limit, stride)
                                      : fmt::format("[0:{}]", scan_.dims[d]));
    }
    return add(shape(array, (limit - start + stride - 1) / stride),
               fmt::format("slice({}), slice={{{}}}", of, fmt::join(parts, ", ")));
  }

  Names slices(const Names& of, int64_t start, int64_t limit, int64_t stride) {
    Names parts;
    for (size_t i = 0; i < of.size(); ++i) parts.push_back(slice(i, of[i], start, limit, stride));
    return parts;
  }

  static void replace(std::string& text, const std::string& what, const std::string& with) {
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
      text.replace(at, what.size(), with);
  }

  Names combined(const Names& a, const Names& b, int64_t n) {
    const std::string prefix = fmt::format("l{}_", ++number_);
    std::vector<std::string> own;
    for (const std::string& line : scan_.combine) own.push_back(line.substr(0, line.find(' ')));
    for (const std::string& line : scan_.combine) {
      std::string text = line;
      for (const std::string& name : own) {
        replace(text, name + " ", prefix + name + " ");
        replace(text, name + ",", prefix + name + ",");
        replace(text, name + ")", prefix + name + ")");
      }
      replace(text, "{0}", dims(n));
      replace(text, "{1}", dims(n, /*narrow=*/true));
      for (size_t i = 0; i < a.size(); ++i) {
        replace(text, fmt::format("{{a{}}}", i), a[i]);
        replace(text, fmt::format("{{b{}}}", i), b[i]);
      }
      text_ += "  " + text + "\n";
    }
    Names results;
    for (size_t i = 0; i < a.size(); ++i) results.push_back(fmt::format("{}r{}", prefix, i));
    return results;
  }

  Names scan(const Names& elements, int64_t n) {
    if (n < 2) return elements;
    const int64_t half = n / 2;
    const Names odds = scan(combined(slices(elements, 0, n - 1, 2), slices(elements, 1, n, 2), half), half);
    Names evens;
    if (n > 2) {
      const Names before = n % 2 == 0 ? slices(odds, 0, half - 1, 1) : odds;
      evens = combined(before, slices(elements, 2, n, 2), (n - 1) / 2);
    }
    Names results;
    for (size_t i = 0; i < elements.size(); ++i) {
      std::string even = slice(i, elements[i], 0, 1, 1);
      if (n > 2) {
        even =
            add(shape(i, n - half), fmt::format("concatenate({}, {}), dimensions={{{}}}", even, evens[i], scan_.axis));
      }
      const std::string low = padded(i, even, n, 0, n % 2 == 0 ? 1 : 0);
      const std::string high = padded(i, odds[i], n, 1, n % 2 == 0 ? 0 : 1);
      results.push_back(
          add(shape(i, n), fmt::format("{}({}, {})", scan_.types[i] == "pred" ? "or" : "add", low, high)));
    }
    return results;
  }

  std::string padded(size_t array, const std::string& of, int64_t n, int low, int high) {
    std::vector<std::string> parts;
    for (size_t d = 0; d < scan_.dims.size() - (is_narrow(array) ? 1 : 0); ++d)
      parts.push_back(d == scan_.axis ? fmt::format("{}_{}_1", low, high) : "0_0_0");
    return add(shape(array, n),
               fmt::format("pad({}, zero_{}), padding={}", of, scan_.types[array], fmt::join(parts, "x")));
  }

  const TestScan& scan_;
  std::string text_;
  int number_ = 0;
};

inline std::string text_of(const TestScan& scan) { return TestScanText(scan).write(); }

/// h = a · h before + b, of (a, b).
inline TestScan recurrence(std::vector<int64_t> dims, size_t axis, bool reverse = false,
                           std::vector<size_t> results = {1}, const std::string& type = "f32") {
  return {{type, type},
          std::move(dims),
          axis,
          reverse,
          std::move(results),
          {"r0 = " + type + "{0} multiply({a0}, {b0})", "t0 = " + type + "{0} multiply({a1}, {b0})",
           "r1 = " + type + "{0} add(t0, {b1})"}};
}

}  // namespace strata::hlo

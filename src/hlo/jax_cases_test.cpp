// The cases of tests/hlo: what JAX printed, and what it computed.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

namespace fs = std::filesystem;

/// Rounding in another order: a few units in the last place of each type, of the largest value in the array.
double tolerance(ElementType type) {
  switch (type) {
    case ElementType::F64:
    case ElementType::C128:
      return 1e-12;
    case ElementType::F32:
    case ElementType::C64:
      return 2e-6;
    case ElementType::F16:
      return 1e-3;
    case ElementType::BF16:
      return 8e-3;
    default:
      return 0;
  }
}

bool close(double a, double b, double bound) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= bound;
}

/// The index of the first element that differs, or -1.
int64_t first_difference(const Literal& actual, const Literal& expected) {
  return visit_accumulator_type(expected.type(), [&](auto zero) -> int64_t {
    using T = decltype(zero);
    const std::vector<T> a = load_all<T>(actual);
    const std::vector<T> b = load_all<T>(expected);
    if constexpr (std::is_integral_v<T>) {
      const auto differ = std::mismatch(a.begin(), a.end(), b.begin()).first;
      return differ == a.end() ? -1 : differ - a.begin();
    } else {
      const auto magnitude = [](T value) { return std::isfinite(std::abs(value)) ? std::abs(value) : 0.0; };
      double largest = 0;
      for (T value : b) largest = std::max(largest, magnitude(value));
      for (size_t i = 0; i < a.size(); ++i) {
        // Large values must not hide small ones: most of the bound goes with the element.
        const double bound = tolerance(expected.type()) * (std::min(largest, 4.0) + 4 * magnitude(b[i]));
        const bool same =
            close(std::real(a[i]), std::real(b[i]), bound) && close(std::imag(a[i]), std::imag(b[i]), bound);
        if (!same) return static_cast<int64_t>(i);
      }
    }
    return -1;
  });
}

void append_arrays(const Literal& literal, std::vector<Literal>& arrays) {
  if (literal.shape().is_array()) arrays.push_back(literal);
  for (const Literal& element : literal.elements()) append_arrays(element, arrays);
}

struct Values {
  std::vector<Literal> in, out;
};

Values read_values(const fs::path& path) {
  Values values;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const bool is_input = line.starts_with("in ");
    EXPECT_TRUE(is_input || line.starts_with("out ")) << path;
    auto value = parse_value(line.substr(line.find(' ')), path.string());
    EXPECT_TRUE(value) << value.error().to_string();
    if (value) (is_input ? values.in : values.out).push_back(*value);
  }
  return values;
}

class JaxCase : public testing::TestWithParam<std::string> {};

TEST_P(JaxCase, HasTheValueThatJaxComputes) {
  const fs::path base = fs::path(STRATA_SOURCE_DIR) / "tests/hlo" / GetParam();
  const auto module = load_module(base.string() + ".hlo");
  ASSERT_TRUE(module) << module.error().to_string();
  const Values values = read_values(base.string() + ".values");
  ASSERT_EQ(values.in.size(), (*module)->entry_computation().parameters.size());
  for (size_t i = 0; i < values.in.size(); ++i) {
    const Computation& entry = (*module)->entry_computation();
    ASSERT_TRUE(same_shape(values.in[i].shape(), entry[entry.parameters[i]].shape)) << i;
  }
  const auto result = evaluate(**module, values.in);
  ASSERT_TRUE(result) << result.error().to_string();
  std::vector<Literal> arrays;
  append_arrays(*result, arrays);
  ASSERT_EQ(arrays.size(), values.out.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    ASSERT_TRUE(same_shape(arrays[i].shape(), values.out[i].shape())) << i << ": " << to_string(arrays[i].shape());
    const int64_t at = first_difference(arrays[i], values.out[i]);
    EXPECT_EQ(at, -1) << "result " << i << " " << to_string(arrays[i].shape()) << "\n"
                      << print(arrays[i]) << "\nexpected\n"
                      << print(values.out[i]);
  }
}

TEST_P(JaxCase, RoundTrips) {
  const auto module = load_module((fs::path(STRATA_SOURCE_DIR) / "tests/hlo" / GetParam()).string() + ".hlo");
  ASSERT_TRUE(module) << module.error().to_string();
  const std::string text = print(**module);
  const auto again = parse_module(text);
  ASSERT_TRUE(again) << again.error().to_string() << text;
  EXPECT_EQ(print(**again), text);
}

std::vector<std::string> case_names() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(STRATA_SOURCE_DIR "/tests/hlo")) {
    if (entry.path().extension() == ".hlo") names.insert(entry.path().stem().string());
  }
  return {names.begin(), names.end()};
}

INSTANTIATE_TEST_SUITE_P(Cases, JaxCase, testing::ValuesIn(case_names()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace strata::hlo

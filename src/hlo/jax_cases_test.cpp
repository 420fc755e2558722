// The cases of tests/hlo: what JAX printed, and what it computed.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/terms.h"
#include "hlo/text.h"
#include "test_paths.h"

namespace strata::hlo {
namespace {

namespace fs = std::filesystem;

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
  const std::vector<bool> transformed = transformed_results(**module);
  for (size_t i = 0; i < arrays.size(); ++i) {
    ASSERT_TRUE(same_shape(arrays[i].shape(), values.out[i].shape())) << i << ": " << to_string(arrays[i].shape());
    const Unit unit = i < transformed.size() && transformed[i] ? Unit::Array : Unit::Element;
    const std::optional<std::string> differs = difference(arrays[i], values.out[i], 1, unit);
    EXPECT_FALSE(differs) << "result " << i << ": " << *differs;
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

// HLO texts that tests of scatters share, and the comparison with the interpreter.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters::scatter_testing {

inline hlo::ModulePtr parsed(const std::string& text) {
  auto module = hlo::parse_module("HloModule m\n" + text);
  EXPECT_TRUE(module) << module.error().to_string() << text;
  return module ? *module : nullptr;
}

/// How a program's results on the CPU differ from the interpreter's; empty if they do not.
inline std::string wrong_results(const hlo::Module& module, const EmittedProgram& program, uint64_t seed) {
  const std::vector<hlo::Literal> arguments = hlo::typical_arguments(module.entry_computation(), seed);
  const auto expected = hlo::evaluate(module, arguments);
  if (!expected) return expected.error().to_string();
  const auto actual = run_on_cpu(program, arguments);
  if (!actual) return actual.error().to_string();
  return hlo::difference(*actual, *expected, 4).value_or("");
}

/// A computation `f` of two scalars.
inline std::string function(const std::string& type, const std::string& op) {
  return fmt::format("f {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n  ROOT c = {0}[] {1}(a, b)\n}}\n", type,
                     op);
}

/// The same, giving its second operand.
inline std::string second(const std::string& type) {
  return fmt::format("f {{\n  a = {0}[] parameter(0)\n  ROOT b = {0}[] parameter(1)\n}}\n", type);
}

inline constexpr const char* kRowsOfMatrix =
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1";
inline constexpr const char* kElements =
    "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1";

/// `s32[5,8,3]` with batching dimension 2, into which windows of the shape go, of which there are 7 · 3.
inline std::string with_batching(const std::string& window, const std::string& window_dims) {
  return function("s32", "add") +
         fmt::format(
             "ENTRY e {{\n  x = s32[5,8,3] parameter(0)\n  i = s32[7,3,1] parameter(1)\n  u = s32[7,3,{}] "
             "parameter(2)\n  ROOT r = s32[5,8,3] scatter(x, i, u), update_window_dims={{{}}}, "
             "inserted_window_dims={{1}}, scatter_dims_to_operand_dims={{1}}, input_batching_dims={{2}}, "
             "scatter_indices_batching_dims={{1}}, index_vector_dim=2, to_apply=f\n}}\n",
             window, window_dims);
}

/// Windows of `width` elements into rows of a matrix.
struct RowsText {
  std::string type, called;     ///< `called` defines f
  int64_t updates = 0;          ///< how many windows
  std::string indices;          ///< instructions that compute `i`, of shape [updates]
  std::string attributes = {};  ///< ", indices_are_sorted=true"
  std::string dims = "9,8";     ///< of the matrix
  int64_t width = 8;
};

inline std::string rows(const RowsText& text) {
  return text.called +
         fmt::format(
             "ENTRY e {{\n  x = {0}[{1}] parameter(0)\n{2}  u = {0}[{3},{4}] parameter(1)\n  ROOT r = {0}[{1}] "
             "scatter(x, i, u), {5}{6}, to_apply=f\n}}\n",
             text.type, text.dims, text.indices, text.updates, text.width, kRowsOfMatrix, text.attributes);
}

/// Indices from a parameter: from -4 to 15, some of them often.
inline std::string any_indices(int64_t updates, const std::string& type = "s32") {
  return fmt::format("  i = {}[{}] parameter(2)\n", type, updates);
}

/// Window k goes to row k / divisor - 1.
inline std::string sorted_indices(int64_t updates, int64_t divisor) {
  return fmt::format(
      "  n = s32[{0}] iota(), iota_dimension=0\n  d = s32[] constant({1})\n  ds = s32[{0}] broadcast(d), "
      "dimensions={{}}\n  q = s32[{0}] divide(n, ds)\n  o = s32[] constant(-1)\n  os = s32[{0}] broadcast(o), "
      "dimensions={{}}\n  i = s32[{0}] add(q, os)\n",
      updates, divisor);
}

/// Odd windows go to row 2, others to rows from -1 on: long lists beside short ones.
inline std::string skewed_indices(int64_t updates) {
  return fmt::format(
      "  n = s32[{0}] iota(), iota_dimension=0\n  one = s32[] constant(1)\n  ones = s32[{0}] broadcast(one), "
      "dimensions={{}}\n  odd = s32[{0}] and(n, ones)\n  seven = s32[] constant(7)\n  sevens = s32[{0}] "
      "broadcast(seven), dimensions={{}}\n  m = s32[{0}] remainder(n, sevens)\n  low = s32[{0}] subtract(m, ones)\n  "
      "two = s32[] constant(2)\n  twos = s32[{0}] broadcast(two), dimensions={{}}\n  p = pred[{0}] compare(odd, ones), "
      "direction=EQ\n  i = s32[{0}] select(p, twos, low)\n",
      updates);
}

}  // namespace strata::emitters::scatter_testing

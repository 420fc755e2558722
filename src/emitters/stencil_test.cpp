// Neighbours on a torus and along a graph's edges: whole modules on the CPU, against the interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "support/random.h"

namespace strata::emitters {
namespace {

/// The kernels, which are compared with the interpreter.
std::vector<EmittedFusion> kernels_of(const std::string& text, uint64_t seed) {
  const auto module = hlo::parse_module(text);
  if (!module) {
    ADD_FAILURE() << text << module.error().to_string();
    return {};
  }
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), seed);
  const auto expected = hlo::evaluate(**module, arguments);
  const auto program = emit_program(**module);
  if (!expected || !program) {
    ADD_FAILURE() << text << (expected ? program.error() : expected.error()).to_string();
    return {};
  }
  std::vector<EmittedFusion> kernels;
  for (const ProgramStep& step : program->steps) {
    EXPECT_TRUE(step.fusion) << text << step.why_interpreted;
    if (step.fusion) kernels.push_back(*step.fusion);
  }
  const auto actual = run_on_cpu(*program, arguments);
  if (!actual) {
    ADD_FAILURE() << text << actual.error().to_string();
    return {};
  }
  EXPECT_EQ(hlo::difference(*actual, *expected, 4).value_or(""), "") << text;
  return kernels;
}

/// jnp.roll of an array.
std::string roll(const std::string& type, std::vector<int64_t> dims, size_t dim, int64_t by, const std::string& of,
                 const std::string& name) {
  const auto slice = [&](const std::string& part, int64_t start, int64_t limit) {
    std::vector<std::string> bounds;
    std::vector<int64_t> sizes = dims;
    sizes[dim] = limit - start;
    for (size_t d = 0; d < dims.size(); ++d)
      bounds.push_back(d == dim ? fmt::format("[{}:{}]", start, limit) : fmt::format("[0:{}]", dims[d]));
    return fmt::format("  {}.{} = {}[{}] slice({}), slice={{{}}}\n", name, part, type, fmt::join(sizes, ","), of,
                       fmt::join(bounds, ", "));
  };
  const int64_t length = dims[dim];
  return slice("end", length - by, length) + slice("start", 0, length - by) +
         fmt::format("  {0} = {1}[{2}] concatenate({0}.end, {0}.start), dimensions={{{3}}}\n", name, type,
                     fmt::join(dims, ","), dim);
}

TEST(Stencils, OnATorusAreOneKernel) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
    const char* const types[] = {"s8", "u8", "f32", "s32"};
    const std::string type = types[below(4)];
    std::vector<int64_t> dims(static_cast<size_t>(1 + below(3)));
    for (int64_t& dim : dims) dim = 2 + below(19);
    const std::string shape = fmt::format("{}[{}]", type, fmt::join(dims, ","));
    std::string text = fmt::format("HloModule m\nENTRY e {{\n  p = {} parameter(0)\n", shape), sum = "p";
    // Taps of the array and of what has been added up, which are rolls of rolls.
    const int64_t taps = 1 + below(4);
    for (int64_t k = 0; k < taps; ++k) {
      const auto dim = static_cast<size_t>(below(std::ssize(dims)));
      const std::string name = fmt::format("t{}", k);
      text += roll(type, dims, dim, 1 + below(dims[dim] - 1), below(2) == 0 ? "p" : sum, name);
      text += fmt::format("  {}s{} = {} add({}, {})\n", k + 1 == taps ? "ROOT " : "", k, shape, sum, name);
      sum = fmt::format("s{}", k);
    }
    EXPECT_EQ(kernels_of(text + "}\n", seed).size(), 1) << text;
  }
}

/// Rows above and below are read by vectors, and no byte waits behind a branch for others.
TEST(Stencils, NeighboursAreReadWithoutBranches) {
  const std::vector<int64_t> dims{2048, 2048};
  std::string text = "HloModule m\nENTRY e {\n  p = s8[2048,2048] parameter(0)\n";
  text += roll("s8", dims, 0, 1, "p", "up") + roll("s8", dims, 0, 2047, "p", "down");
  text += "  s = s8[2048,2048] add(up, down)\n  ROOT r = s8[2048,2048] add(s, p)\n}\n";
  const auto kernels = kernels_of(text, 1);
  ASSERT_EQ(kernels.size(), 1);
  const std::string ptx = *kernels[0].text(Form::Ptx);
  EXPECT_NE(ptx.find("ld.global.v4"), std::string::npos) << ptx;
  EXPECT_EQ(ptx.find("ld.global.u8"), std::string::npos) << ptx;
  EXPECT_EQ(ptx.find("bra"), std::string::npos) << ptx;
}

TEST(Stencils, BothEndsOfEdgesAreOneScatter) {
  const std::string scatter =
      "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
      "to_apply=least\n";
  const auto kernels = kernels_of(
      "HloModule m\nleast {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  ROOT r = s32[] minimum(a, b)\n}\n"
      "ENTRY e {\n  x = s32[1000] parameter(0)\n  i = s32[3000,1] parameter(1)\n  j = s32[3000,1] parameter(2)\n"
      "  u = s32[3000] parameter(3)\n  v = s32[3000] negate(u)\n  s = s32[1000] scatter(x, i, v), " +
          scatter + "  ROOT t = s32[1000] scatter(s, j, v), " + scatter + "}\n",
      3);
  ASSERT_EQ(kernels.size(), 1);
  EXPECT_EQ(kernels[0].decision().emitter, "scatter");
}

}  // namespace
}  // namespace strata::emitters

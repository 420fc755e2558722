#include "hlo/indexing/serial_terms.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string_view>

#include "hlo/text.h"

namespace strata::indexing {
namespace {

hlo::ModulePtr module_of(std::string_view body) {
  const std::string text =
      "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n" +
      ("ENTRY e {\n  zero = f32[] constant(0)\n" + std::string(body)) + "}\n";
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string() << text;
  return module ? *module : nullptr;
}

SerialTerms of_root(const hlo::Module& module, const std::vector<hlo::InstructionId>& once = {}) {
  const std::vector<SerialTerms> terms = serial_terms(module.entry_computation(), once);
  EXPECT_EQ(std::ssize(terms), module.entry_computation().root + 1);
  return terms.back();
}

hlo::InstructionId id_of(const hlo::Module& module, std::string_view name) {
  const hlo::Computation& entry = module.entry_computation();
  hlo::InstructionId id = 0;
  while (entry[id].name != name) ++id;
  return id;
}

TEST(SerialTerms, OfSumsInsideEachOther) {
  const hlo::ModulePtr module = module_of(R"(
  x = f32[7,61,61,131] parameter(0)
  y = f32[7,61,61,131] negate(x)
  s = f32[7,61,131] reduce(y, zero), dimensions={2}, to_apply=sum
  t = f32[7,61,131] tanh(s)
  u = f32[7,131] reduce(t, zero), dimensions={1}, to_apply=sum
  ROOT r = f32[131] reduce(u, zero), dimensions={0}, to_apply=sum
)");
  EXPECT_EQ(of_root(*module).all, 61 * 61 * 7);
  EXPECT_EQ(of_root(*module).combined, 61 * 61 * 7);
  const hlo::InstructionId t = id_of(*module, "t"), u = id_of(*module, "u");
  EXPECT_EQ(longest_serial_terms(module->entry_computation(), std::vector{t, u, module->entry_computation().root}).all,
            61 * 7);
  // Threads read what is computed together.
  EXPECT_EQ(of_root(*module, {id_of(*module, "s")}).combined, 61 * 7);
  EXPECT_EQ(of_root(*module, {id_of(*module, "u")}).combined, 7);
  EXPECT_EQ(
      serial_terms(module->entry_computation(), {id_of(*module, "u")})[static_cast<size_t>(id_of(*module, "t"))].all,
      61);
}

/// One after the other, they are no chain; an initial value is there once.
TEST(SerialTerms, OfSumsBesideEachOther) {
  const hlo::ModulePtr module = module_of(R"(
  x = f32[40,30] parameter(0)
  first = f32[] reduce(x, zero), dimensions={0,1}, to_apply=sum
  s = f32[40] reduce(x, first), dimensions={1}, to_apply=sum
  t = f32[40] reduce(x, zero), dimensions={1}, to_apply=sum
  ROOT r = f32[40] add(s, t)
)");
  EXPECT_EQ(of_root(*module, {id_of(*module, "first")}).all, 30);
  EXPECT_EQ(of_root(*module).all, 40 * 30);
}

/// No emitter has threads that share a window, but a reduction around it or inside it they can share.
TEST(SerialTerms, OfWindows) {
  const hlo::ModulePtr alone = module_of(R"(
  x = f32[100,100] parameter(0)
  y = f32[92,92] reduce-window(x, zero), window={size=9x9}, to_apply=sum
  ROOT r = f32[90,90] reduce-window(y, zero), window={size=3x3}, to_apply=sum
)");
  EXPECT_EQ(of_root(*alone).all, 81 * 9);
  EXPECT_EQ(of_root(*alone).combined, 0);
  const hlo::ModulePtr around = module_of(R"(
  x = f32[100,20] parameter(0)
  y = f32[92,20] reduce-window(x, zero), window={size=9x1}, to_apply=sum
  ROOT r = f32[92] reduce(y, zero), dimensions={1}, to_apply=sum
)");
  EXPECT_EQ(of_root(*around).combined, 9 * 20);
  const hlo::ModulePtr inside = module_of(R"(
  x = f32[100,20] parameter(0)
  y = f32[100] reduce(x, zero), dimensions={1}, to_apply=sum
  ROOT r = f32[92] reduce-window(y, zero), window={size=9}, to_apply=sum
)");
  EXPECT_EQ(of_root(*inside).combined, 9 * 20);
}

/// What is the same for all terms is no part of the chain, however it gets there; what differs is.
TEST(SerialTerms, OfSumsThatDoNotDifferBetweenTerms) {
  const auto of_spread = [](std::string_view along) {
    const hlo::ModulePtr module = module_of(fmt::format(R"(
  x = f32[40,30,8] parameter(0)
  s = f32[40,30] reduce(x, zero), dimensions={{2}}, to_apply=sum
  t = f32[30,40] transpose(s), dimensions={{1,0}}
  u = f32[30,40] tanh(t)
  b = f32[30,40,8] broadcast(u), dimensions={{0,1}}
  xt = f32[30,40,8] transpose(x), dimensions={{1,0,2}}
  d = f32[30,40,8] divide(xt, b)
  ROOT r = {} reduce(d, zero), dimensions={{{}}}, to_apply=sum
)",
                                                        along == "2"   ? "f32[30,40]"
                                                        : along == "1" ? "f32[30,8]"
                                                                       : "f32[40,8]",
                                                        along));
    return of_root(*module).combined;
  };
  EXPECT_EQ(of_spread("2"), 8);
  EXPECT_EQ(of_spread("1"), 8 * 40);
  EXPECT_EQ(of_spread("0"), 8 * 30);
}

TEST(SerialTerms, OfVeryManyAreNoSmallNumber) {
  std::string body = "  x0 = f32[2048,2048] parameter(0)\n";
  for (int i = 0; i < 8; ++i) {
    body += fmt::format(
        "  s{0} = f32[2048] reduce(x{0}, zero), dimensions={{1}}, to_apply=sum\n  x{1} = f32[2048,2048] "
        "broadcast(s{0}), "
        "dimensions={{1}}\n",
        i, i + 1);
  }
  EXPECT_GT(of_root(*module_of(body + "  ROOT r = f32[2048,2048] negate(x8)\n")).combined, int64_t{1} << 30);
}

}  // namespace
}  // namespace strata::indexing

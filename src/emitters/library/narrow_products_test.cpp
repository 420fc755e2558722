// Products of operands of 8 bits and fewer: random ones, by a library that computes on the host, against the
// interpreter.
#include "emitters/library/narrow_products.h"

#include <array>
#include <map>

#include "emitters/library/test_library_calls.h"

namespace strata::emitters {
namespace {

/// One dot of types that libraries take in one form only, of any dimension numbers and sizes.
std::string random_narrow_dot(Random& random) {
  const auto any = [&](const std::vector<const char*>& of) { return of[random.below(of.size())]; };
  const bool integers = random.below(2) == 0;
  const std::vector<const char*> types = integers
                                             ? std::vector{"s8", "s8", "s4", "u4", "u8", "s2"}
                                             : std::vector{"f8e4m3fn", "f8e4m3fn", "f8e5m2", "f8e3m4", "bf16", "s8"};
  const std::string lhs = any(types), rhs = any(types);
  // As they are, or converted to one type before.
  const bool as_they_are = lhs == rhs && lhs != "bf16" && random.below(2) == 0;
  const std::string in =
      as_they_are ? lhs : any(integers ? std::vector{"s32", "s16"} : std::vector{"f32", "bf16", "bf16"});
  const std::string out = integers ? any({"s32", "s8", "s64"}) : any({"f32", "f32", "bf16", "f16"});
  const auto size = [&](std::vector<int64_t> of) { return of[random.below(of.size())]; };
  const int64_t batch = size({1, 1, 3}), rows = size({2, 5, 40}), columns = size({3, 16, 32}),
                terms = size({7, 16, 48});
  // Batch, rows and terms in a random order, through a transpose behind the conversion.
  std::string text = "HloModule m\n\nENTRY e {\n", attributes;
  const auto operand = [&](const std::string& name, int number, const std::string& type, int64_t free) {
    const std::vector<int64_t> roles = shuffled({0, 1, 2}, random), order = shuffled({0, 1, 2}, random);
    std::vector<int64_t> of(3), before(3);
    for (size_t i = 0; i < 3; ++i) of[static_cast<size_t>(roles[i])] = std::array{batch, free, terms}[i];
    for (size_t i = 0; i < 3; ++i) before[static_cast<size_t>(order[i])] = of[i];
    text += fmt::format("  {}0 = {}{} parameter({})\n", name, type, dims(before), number);
    if (!as_they_are) text += fmt::format("  {0}1 = {1}{2} convert({0}0)\n", name, in, dims(before));
    text += fmt::format("  {} = {}{} transpose({}{}), dimensions={}\n", name, in, dims(of), name, as_they_are ? 0 : 1,
                        list(order));
    const std::string side = name == "x" ? "lhs" : "rhs";
    attributes += fmt::format(", {0}_batch_dims={{{1}}}, {0}_contracting_dims={{{2}}}", side, roles[0], roles[2]);
  };
  operand("x", 0, lhs, rows);
  operand("y", 1, rhs, columns);
  const std::string array = dims({batch, rows, columns});
  text += fmt::format("  d = {}{} dot(x, y){}\n", out, array, attributes);
  if (out != "f32") return text + fmt::format("  ROOT n = {}{} negate(d)\n}}\n", out, array);
  text += fmt::format("  f = f32[] parameter(2)\n  ff = f32{0} broadcast(f), dimensions={{}}\n", array);
  return text + fmt::format("  s = f32{0} multiply(d, ff)\n  ROOT c = bf16{0} convert(s)\n}}\n", array);
}

TEST_F(LibraryCallsTest, RandomNarrowProductsAgreeWithTheInterpreter) {
  std::map<std::string, int> kinds;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    const std::string text = random_narrow_dot(random);
    const hlo::ModulePtr module = parsed(text);
    ASSERT_TRUE(module);
    const std::string wrong = checked(*module, seed);
    ASSERT_EQ(wrong, "") << "seed " << seed << "\n" << text << explained_;
    ASSERT_TRUE(notes_.empty()) << "seed " << seed << "\n" << text << notes_.front();
    for (const char* kind : {" s8 to s32", " of s8 to s32", " f8e4m3fn to", " by f8e5m2 to", " bf16"})
      kinds[kind] += explained_.find(kind) != std::string::npos ? 1 : 0;
  }
  for (const auto& [kind, count] : kinds) EXPECT_GE(count, 2) << kind;
}

// As JAX prints a product of f8 with one scale.
constexpr const char* kScaled = R"(ENTRY e {
  x = f8e4m3fn[40,64] parameter(0)
  w = f8e4m3fn[128,64] parameter(1)
  s = f32[] parameter(2)
  d = f32[40,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ss = f32[40,128] broadcast(s), dimensions={}
  m = f32[40,128] multiply(d, ss)
  ROOT c = bf16[40,128] convert(m)
})";

TEST_F(LibraryCallsTest, ProductsOfBytes) {
  EXPECT_EQ(explained_work(kScaled), "f8e4m3fn to bf16 40×128×64 scaled, algorithm 0; ");
  EXPECT_EQ(checked(*parsed(kScaled), 1), "");
  EXPECT_TRUE(notes_.empty());
  // Of what is converted to f32 before, sums stay those of f32; terms that lie apart are transposed.
  const auto with = [](const std::string& type, const std::string& wide, const std::string& result) {
    return fmt::format(R"(ENTRY e {{
  x = {0}[40,64] parameter(0)
  w = {0}[64,128] parameter(1)
  xx = {1}[40,64] convert(x)
  ww = {1}[64,128] convert(w)
  ROOT d = {2}[40,128] dot(xx, ww), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}})",
                       type, wide, result);
  };
  EXPECT_EQ(explained_work(with("f8e4m3fn", "f32", "f32")), "kernel; kernel; bf16 to f32 40×128×64, algorithm 0; ");
  EXPECT_EQ(explained_work(with("f8e4m3fn", "bf16", "bf16")), "kernel; f8e4m3fn to bf16 40×128×64, algorithm 0; ");
  EXPECT_EQ(explained_work(with("s4", "s8", "s32")), "kernel; kernel; s8 to s32 40×128×64, algorithm 0; ");
  EXPECT_EQ(explained_work(with("bf16", "f32", "f32")), "bf16 to f32 40×128×64, algorithm 0; ");
  // The sums of 64 terms of u8 are below 2^24.
  EXPECT_EQ(explained_work(with("u8", "s32", "s32")), "kernel; kernel; bf16 to f32 40×128×64, algorithm 0; kernel; ");
  EXPECT_EQ(explained_work(with("s16", "s32", "s32")), "kernel; kernel; kernel; ");
}

TEST_F(LibraryCallsTest, OperandsBesideOneOfBf16AreRoundedToTf32) {
  // Operands of f32 come as they are, others are converted to it.
  const auto dot = [](const std::string& lhs, const std::string& rhs, const std::string& more) {
    const auto operand = [](const std::string& name, const std::string& type, const std::string& sizes, int number) {
      if (type == "f32") return fmt::format("  {}{} = f32{} parameter({})\n", name, name, sizes, number);
      return fmt::format("  {0} = {1}{2} parameter({3})\n  {0}{0} = f32{2} convert({0})\n", name, type, sizes, number);
    };
    return "ENTRY e {\n" + operand("x", lhs, "[40,64]", 0) + operand("w", rhs, "[64,128]", 1) +
           fmt::format(
               "  ROOT d = f32[40,128] dot(xx, ww), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{}\n}}",
               more);
  };
  const std::string exact = "f32 40×128×64, algorithm 0; ", rounded = "f32 as tf32 40×128×64, algorithm 0; ";
  EXPECT_EQ(explained_work(dot("f32", "bf16", "")), "kernel; " + rounded);
  EXPECT_EQ(explained_work(dot("bf16", "f32", ", operand_precision={default,default}")), "kernel; " + rounded);
  EXPECT_EQ(checked(*parsed(dot("bf16", "f32", "")), 1), "");
  EXPECT_EQ(explained_work(dot("bf16", "bf16", "")), "bf16 to f32 40×128×64, algorithm 0; ");
  // f16 has as many bits as TF32: rounding the other operand would add an error of its own size.
  EXPECT_EQ(explained_work(dot("f16", "f32", "")), "kernel; " + exact);
  EXPECT_EQ(explained_work(dot("f32", "f32", "")), exact);
  for (const char* more :
       {", operand_precision={highest,highest}", ", operand_precision={default,high}", ", algorithm=dot_f32_f32_f32"}) {
    EXPECT_EQ(explained_work(dot("bf16", "f32", more)), "kernel; " + exact) << more;
  }
  EXPECT_EQ(explained_work(dot("f32", "f32", ", algorithm=dot_tf32_tf32_f32")), rounded);
}

TEST_F(LibraryCallsTest, FloatsOfTwoTypesAreMultipliedAsOne) {
  const auto dot = [](const std::string& lhs, const std::string& rhs, const std::string& result,
                      const std::string& more) {
    return fmt::format(R"(ENTRY e {{
  x = {0}[3,40,64] parameter(0)
  w = {1}[3,128,64] parameter(1)
  ROOT d = {2}[3,40,128] dot(x, w), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
    rhs_contracting_dims={{2}}{3}
}})",
                       lhs, rhs, result, more);
  };
  const std::string bf16 = ", algorithm=dot_bf16_bf16_f32", exact = ", operand_precision={highest,highest}";
  const std::string size = " 40×128×64, algorithm 0; ";
  // What an algorithm says counts, and operands that have its type already stay as they are.
  EXPECT_EQ(explained_work(dot("f32", "bf16", "f32", bf16)), "kernel; 3 of bf16 to f32" + size);
  EXPECT_EQ(explained_work(dot("f32", "f32", "f32", bf16)), "kernel; kernel; 3 of bf16 to f32" + size);
  EXPECT_EQ(explained_work(dot("bf16", "f32", "bf16", bf16)), "kernel; 3 of bf16" + size);
  EXPECT_EQ(explained_work(dot("f16", "f32", "f32", ", algorithm=dot_f16_f16_f32")), "kernel; 3 of f16 to f32" + size);
  EXPECT_EQ(explained_work(dot("bf16", "bf16", "f32", bf16)), "3 of bf16 to f32" + size);
  // Without one, both are f32, and rounded to TF32 at most where one has the bits of bf16 alone.
  EXPECT_EQ(explained_work(dot("f32", "bf16", "f32", "")), "kernel; 3 of f32 as tf32" + size);
  EXPECT_EQ(explained_work(dot("f32", "bf16", "f32", exact)), "kernel; 3 of f32" + size);
  EXPECT_EQ(explained_work(dot("f16", "f32", "f32", "")), "kernel; 3 of f32" + size);
  EXPECT_EQ(explained_work(dot("bf16", "f16", "f32", "")), "kernel; kernel; 3 of f32" + size);
  for (const auto& [lhs, rhs] : {std::pair("f32", "bf16"), std::pair("f16", "f32"), std::pair("bf16", "f16")})
    EXPECT_EQ(checked(*parsed(dot(lhs, rhs, "f32", "")), 1), "") << lhs << " " << rhs;
}

}  // namespace
}  // namespace strata::emitters

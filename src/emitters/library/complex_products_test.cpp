// Products of complex numbers: random ones, by a library that computes on the host, against the interpreter.
#include "emitters/library/complex_products.h"

#include <array>

#include "emitters/library/test_library_calls.h"

namespace strata::emitters {
namespace {

/// One dot of complex numbers, with operands that may come from floats, of which both parts are read, one, or all.
std::string random_complex_dot(Random& random) {
  const bool wide = random.below(3) == 0;
  const std::string type = wide ? "c128" : "c64", part = wide ? "f64" : "f32";
  const auto size = [&](std::vector<int64_t> of) { return of[random.below(of.size())]; };
  const int64_t batch = size({1, 1, 3}), rows = size({1, 5, 40}), columns = size({1, 3, 32}),
                terms = size({1, 12, 17, 48});
  std::string text = "HloModule m\n\nENTRY e {\n", attributes;
  const auto operand = [&](const std::string& name, int number, int64_t free) {
    const std::vector<int64_t> roles = shuffled({0, 1, 2}, random);
    std::vector<int64_t> of(3);
    for (size_t i = 0; i < 3; ++i) of[static_cast<size_t>(roles[i])] = std::array{batch, free, terms}[i];
    switch (random.below(4)) {
      case 0:  // real numbers
        text +=
            fmt::format("  {0}0 = f32{1} parameter({2})\n  {0} = {3}{1} convert({0}0)\n", name, dims(of), number, type);
        break;
      case 1:  // of two parts that are at hand
        text += fmt::format(
            "  {0}0 = {1}{2} parameter({3})\n  {0}1 = {1}{2} cosine({0}0)\n  {0} = {4}{2} complex({0}0, {0}1)\n", name,
            part, dims(of), number, type);
        break;
      default:
        text += fmt::format("  {} = {}{} parameter({})\n", name, type, dims(of), number);
    }
    const std::string side = name == "x" ? "lhs" : "rhs";
    attributes += fmt::format(", {0}_batch_dims={{{1}}}, {0}_contracting_dims={{{2}}}", side, roles[0], roles[2]);
  };
  operand("x", 0, rows);
  operand("y", 1, columns);
  const std::string array = dims({batch, rows, columns});
  const std::string dot = fmt::format("{}{} dot(x, y){}\n", type, array, attributes);
  switch (random.below(4)) {
    case 0:
      return text + "  ROOT d = " + dot + "}\n";
    case 1:
      return text + fmt::format("  d = {}  ROOT r = {}{} real(d)\n}}\n", dot, part, array);
    case 2:
      return text + fmt::format("  d = {}  ROOT i = {}{} imag(d)\n}}\n", dot, part, array);
    default:
      return text + fmt::format(
                        "  d = {0}  r = {1}{2} real(d)\n  n = {3}{2} negate(d)\n"
                        "  ROOT t = ({1}{2}, {3}{2}) tuple(r, n)\n}}\n",
                        dot, part, array, type);
  }
}

class ComplexProductsTest : public LibraryCallsTest {};

TEST_F(ComplexProductsTest, RandomOnesAgreeWithTheInterpreter) {
  int calls = 0;
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    Random random(seed);
    const std::string text = random_complex_dot(random);
    const hlo::ModulePtr module = parsed(text);
    ASSERT_TRUE(module);
    const std::string wrong = checked(*module, seed);
    ASSERT_EQ(wrong, "") << "seed " << seed << "\n" << text << explained_;
    calls += libraries_;
  }
  EXPECT_GE(calls, 30);
}

TEST(ComplexProducts, ComputeThePartsThatAreRead) {
  const auto works = [](const char* root) {
    return explained_work(
        fmt::format("ENTRY e {{\n  x = c64[40,64] parameter(0)\n  y = c64[64,48] parameter(1)\n"
                    "  d = c64[40,48] dot(x, y), lhs_contracting_dims={{1}}, "
                    "rhs_contracting_dims={{0}}\n{}}}\n",
                    root));
  };
  const auto count = [](const std::string& text) {
    size_t found = 0;
    for (size_t at = text.find("40×48×128"); at != std::string::npos; at = text.find("40×48×128", at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count(works("  ROOT r = f32[40,48] real(d)\n")), 1) << works("  ROOT r = f32[40,48] real(d)\n");
  EXPECT_EQ(count(works("  ROOT r = f32[40,48] imag(d)\n")), 1);
  EXPECT_EQ(count(works("  ROOT r = c64[40,48] negate(d)\n")), 2);
}

/// A bitcast reads the order in memory of what it is of.
TEST_F(ComplexProductsTest, PartsKeepTheirOrderInMemory) {
  for (const char* part : {"real", "imag"}) {
    const hlo::ModulePtr module =
        parsed(fmt::format("ENTRY e {{\n  a = c64[24,40]{{1,0}} parameter(0)\n  b = c64[40,24]{{1,0}} parameter(1)\n"
                           "  d = c64[24,24]{{0,1}} dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
                           "  r = f32[24,24]{{0,1}} {}(d)\n  ROOT t = f32[24,24]{{1,0}} bitcast(r)\n}}\n",
                           part));
    ASSERT_TRUE(module);
    EXPECT_EQ(checked(*module, 3), "") << explained_;
  }
}

/// What a loop computes sooner than it could read it.
TEST(ComplexProducts, OfFewTermsStay) {
  const hlo::ModulePtr module = parsed(
      "ENTRY e {\n  x = c64[40,2] parameter(0)\n  y = c64[2,48] parameter(1)\n"
      "  ROOT d = c64[40,48] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n");
  const hlo::Module split = split_complex_products(*module, EmitOptions{}.target);
  EXPECT_EQ(split.entry_computation().root_instruction().opcode, hlo::Opcode::Dot);
}

}  // namespace
}  // namespace strata::emitters

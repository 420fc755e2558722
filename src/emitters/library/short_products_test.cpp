// Products of few terms, which are computed where they are read.
#include "emitters/library/test_library_calls.h"
#include "support/test_rounds.h"

namespace strata::emitters {
namespace {

class ShortProductsTest : public LibraryCallsTest {};

/// The second product of a LoRA: h + x · up, where `up` lies as it is or transposed, in batches or not.
TEST_F(ShortProductsTest, AreComputedByTheirReader) {
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(rounds(80)); ++seed) {
    Random random(seed);
    const auto below = [&](uint64_t most) { return static_cast<int64_t>(random.below(most)); };
    const char* const type = random.below(2) == 0 ? "bf16" : "f32";
    const int64_t batch = 1 + below(3), rows = 2 + below(9), columns = 2 + below(500), terms = 2 + below(62);
    const bool lies_transposed = random.below(2) == 0;
    const std::string up = lies_transposed ? fmt::format("{},{},{}", batch, columns, terms)
                                           : fmt::format("{},{},{}", batch, terms, columns);
    const std::string text = fmt::format(
        "HloModule m\n\nENTRY e {{\n  h = {0}[{1},{2},{3}] parameter(0)\n  x = {0}[{1},{2},{4}] parameter(1)\n"
        "  up = {0}[{5}] parameter(2)\n"
        "  d = {0}[{1},{2},{3}] dot(x, up), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, "
        "rhs_contracting_dims={{{6}}}\n  ROOT s = {0}[{1},{2},{3}] add(h, d)\n}}\n",
        type, batch, rows, columns, terms, up, lies_transposed ? 2 : 1);
    const hlo::ModulePtr module = parsed(text);
    ASSERT_NE(module, nullptr);
    ASSERT_EQ(checked(*module, seed, 4, LibraryUse::WhereFaster), "") << text << explained_;
    EXPECT_EQ(steps_, 1) << text << explained_;
  }
}

/// More terms than a thread adds up beside other work, and more results than are computed sooner than written.
TEST_F(ShortProductsTest, OthersStayProducts) {
  struct Sizes {
    int64_t rows, terms, columns;
  };
  for (const auto& [rows, terms, columns] : {Sizes{8, 64, 4096}, Sizes{4096, 16, 4096}}) {
    const std::string text = fmt::format(
        "HloModule m\n\nENTRY e {{\n  h = bf16[{0},{2}] parameter(0)\n  x = bf16[{0},{1}] parameter(1)\n"
        "  up = bf16[{1},{2}] parameter(2)\n  d = bf16[{0},{2}] dot(x, up), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={{0}}\n  ROOT s = bf16[{0},{2}] add(h, d)\n}}\n",
        rows, terms, columns);
    const auto program = emit_program(*parsed(text), {}, LibraryUse::WhereFaster);
    ASSERT_TRUE(program) << program.error().to_string();
    EXPECT_EQ(explain(*program).find("d.sums"), std::string::npos) << explain(*program);
  }
}

}  // namespace
}  // namespace strata::emitters

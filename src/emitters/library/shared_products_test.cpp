// Batches of products of many terms, in parts.
#include "emitters/library/shared_products.h"

#include <gtest/gtest.h>

#include "emitters/library/test_library_calls.h"
#include "machine/target.h"

namespace strata::emitters {
namespace {

/// 15 products of few results; the terms lie outside the batch's second dimension.
std::string linear_attention(int64_t terms, const std::string& type = "f32", const std::string& result = "f32") {
  return fmt::format(R"(HloModule m

ENTRY e {{
  k = {1}[3,{0},5,48] parameter(0)
  v = {1}[3,{0},5,48] parameter(1)
  ROOT d = {2}[3,5,48,48] dot(k, v), lhs_batch_dims={{0,2}}, lhs_contracting_dims={{1}},
      rhs_batch_dims={{0,2}}, rhs_contracting_dims={{1}}
}}
)",
                     terms, type, result);
}

int64_t batches_of(const hlo::Module& module) {
  int64_t batches = 0;
  for (const hlo::Instruction& it : module.entry_computation().instructions) {
    if (it.opcode == hlo::Opcode::Dot)
      batches = it.shape.element_count() / (it.shape.dims.end()[-1] * it.shape.dims.end()[-2]);
  }
  return batches;
}

class SharedProductsTest : public LibraryCallsTest {};

TEST_F(SharedProductsTest, FewTilesOfManyTermsAreCut) {
  const auto cut = [&](int64_t terms) {
    return batches_of(
        with_shared_products(*parsed(linear_attention(terms)), targets().back(), LibraryUse::WhereFaster));
  };
  EXPECT_GE(cut(3001), 60);
  EXPECT_EQ(cut(200), 15);
  // One product: the library shares its sums itself.
  const hlo::ModulePtr one = parsed(
      "HloModule m\nENTRY e {\n  a = f32[3001,48] parameter(0)\n  b = f32[3001,48] parameter(1)\n"
      "  ROOT d = f32[48,48] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n}\n");
  EXPECT_EQ(batches_of(with_shared_products(*one, targets().back(), LibraryUse::WhereFaster)), 1);
  // Enough tiles.
  const hlo::ModulePtr many = parsed(
      "HloModule m\nENTRY e {\n  a = f32[64,1024,512] parameter(0)\n  b = f32[64,1024,512] parameter(1)\n"
      "  ROOT d = f32[64,512,512] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, "
      "rhs_contracting_dims={1}\n}\n");
  EXPECT_EQ(batches_of(with_shared_products(*many, targets().back(), LibraryUse::WhereFaster)), 64);
}

TEST_F(SharedProductsTest, PartsComeToTheSame) {
  // A target on which operations are slow, so that small products are worth parts.
  Target slow = targets().back();
  slow.rates.scalar_rate *= 1e-3;
  slow.rates.matrix_rate *= 1e-3;
  slow.rates.overlapped_kernel = slow.rates.kernel = 0;
  int64_t cut = 0, seed = 0;
  for (const int64_t terms : {512, 601}) {
    for (const auto& [type, result] : {std::pair("f32", "f32"), std::pair("bf16", "bf16"), std::pair("bf16", "f32")}) {
      const hlo::ModulePtr module = parsed(linear_attention(terms, type, result));
      const hlo::Module changed = with_shared_products(*module, slow, LibraryUse::WherePossible);
      cut += batches_of(changed) > 15;
      const auto arguments = hlo::typical_arguments(module->entry_computation(), static_cast<uint64_t>(++seed));
      const auto expected = hlo::evaluate(*module, arguments), actual = hlo::evaluate(changed, arguments);
      ASSERT_TRUE(expected && actual);
      EXPECT_EQ(hlo::difference(*actual, *expected, 4), std::nullopt) << hlo::print(changed);
    }
  }
  EXPECT_EQ(cut, 6);
}

}  // namespace
}  // namespace strata::emitters

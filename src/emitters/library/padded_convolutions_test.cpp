// Convolutions of 16-bit types with channels filled up: by a library that computes on the host, against the
// interpreter.
#include "emitters/library/padded_convolutions.h"

#include "emitters/library/call_plan.h"
#include "emitters/library/test_library_calls.h"

namespace strata::emitters {
namespace {

/// Images with their channels first or last, by filters of 3 × 3.
std::string convolution(const std::string& type, int64_t channels, int64_t filters, bool last) {
  const std::string x = last ? fmt::format("[2,21,23,{}]", channels) : fmt::format("[2,{},21,23]", channels);
  const std::string w =
      last ? fmt::format("[3,3,{},{}]", channels, filters) : fmt::format("[{},{},3,3]", filters, channels);
  const std::string y = last ? fmt::format("[2,21,23,{}]", filters) : fmt::format("[2,{},21,23]", filters);
  return fmt::format(
      "HloModule m\n\nENTRY e {{\n  x = {0}{1} parameter(0)\n  w = {0}{2} parameter(1)\n"
      "  ROOT c = {0}{3} convolution(x, w), window={{size=3x3 pad=1_1x1_1}}, dim_labels={4}\n}}\n",
      type, x, w, y, last ? "b01f_01io->b01f" : "bf01_oi01->bf01");
}

class PaddedConvolutionsTest : public LibraryCallsTest {};

TEST_F(PaddedConvolutionsTest, ComeToTheSame) {
  int filled = 0;
  for (const char* type : {"bf16", "f16"}) {
    for (const bool last : {false, true}) {
      for (const auto& [channels, filters] : {std::pair(20, 13), std::pair(24, 30), std::pair(19, 16)}) {
        const std::string text = convolution(type, channels, filters, last);
        const hlo::ModulePtr module = parsed(text);
        ASSERT_TRUE(module);
        EXPECT_EQ(checked(*module, 1), "") << text << explained_;
        EXPECT_EQ(libraries_, 1) << text << explained_;
        filled += explained_.find("resized") != std::string::npos ? 1 : 0;
      }
    }
  }
  EXPECT_GE(filled, 6);
}

/// Filters of one element, in rows that are no whole 16 bytes and so lie in another order for the library: they are
/// filled up on the way. In whole rows they stay as they lie.
TEST(PaddedConvolutions, AreFilledOnTheWayToAnotherOrder) {
  const auto filled = [](int64_t channels, int64_t filters, int64_t size) {
    const hlo::Module module = with_padded_convolutions(
        *parsed(fmt::format("HloModule m\n\nENTRY e {{\n  x = bf16[3,{0},{2},{2}] parameter(0)\n"
                            "  w = bf16[{1},{0},1,1] parameter(1)\n  ROOT c = bf16[3,{1},{2},{2}] convolution(x, w), "
                            "window={{size=1x1}}, dim_labels=bf01_oi01->bf01\n}}\n",
                            channels, filters, size)),
        EmitOptions{}.target);
    const hlo::Computation& entry = module.entry_computation();
    const auto users = users_of(entry);
    for (hlo::InstructionId id = 0; id < std::ssize(entry.instructions); ++id) {
      if (entry[id].opcode != hlo::Opcode::Convolution) continue;
      const auto plan = plan_convolution(entry, users, id, EmitOptions{}.target);
      EXPECT_TRUE(plan);
      return std::get<Convolution>(plan->work);
    }
    return Convolution{};
  };
  const Convolution odd = filled(556, 100, 65);
  EXPECT_EQ(std::tie(odd.channels, odd.filters, odd.channels_last), std::tuple(560, 104, true));
  const Convolution whole = filled(560, 104, 64);
  EXPECT_EQ(std::tie(whole.channels, whole.filters, whole.channels_last), std::tuple(560, 104, false));
}

/// f32 has no such kernels, whole channels need nothing, and groups stay.
TEST(PaddedConvolutions, OthersStay) {
  for (const std::string& text : {convolution("f32", 20, 13, false), convolution("bf16", 24, 16, false)}) {
    const hlo::Module same = with_padded_convolutions(*parsed(text), EmitOptions{}.target);
    EXPECT_EQ(same.entry_computation().root_instruction().name, "c") << text;
    EXPECT_EQ(same.entry_computation().instructions.size(), 3U) << text;
  }
}

}  // namespace
}  // namespace strata::emitters

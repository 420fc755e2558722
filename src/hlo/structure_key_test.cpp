#include "hlo/structure_key.h"

#include <gtest/gtest.h>

#include <set>

#include "hlo/random_fusion.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

std::string key_of(const std::string& text) {
  const auto module = parse_module(text);
  EXPECT_TRUE(module) << (module ? "" : module.error().to_string());
  return module ? structure_key(**module) : "";
}

TEST(StructureKey, KnowsNoNames) {
  EXPECT_EQ(key_of("HloModule m\nENTRY e {\n x = f32[4] parameter(0)\n ROOT y = f32[4] negate(x)\n}\n"),
            key_of("HloModule n\nENTRY f {\n a = f32[4] parameter(0)\n ROOT b = f32[4] negate(a)\n}\n"));
}

TEST(StructureKey, TellsApartWhatDiffers) {
  const auto text = [](const std::string& shape, const std::string& last) {
    return "ENTRY e {\n a = " + shape + " parameter(0)\n b = " + shape + " parameter(1)\n ROOT y = " + last + "\n}\n";
  };
  const std::set<std::string> keys{
      key_of(text("f32[4,4]", "f32[4,4] subtract(a, b)")),
      key_of(text("f32[4,4]", "f32[4,4] subtract(b, a)")),
      key_of(text("f32[4,4]", "f32[4,4] add(a, b)")),
      key_of(text("f32[4,4]{0,1}", "f32[4,4]{0,1} add(a, b)")),
      key_of(text("f16[4,4]", "f16[4,4] add(a, b)")),
      key_of(text("f32[4,4]", "f32[4,4] transpose(a), dimensions={0,1}")),
      key_of(text("f32[4,4]", "f32[4,4] transpose(a), dimensions={1,0}")),
      key_of("ENTRY e {\n ROOT y = f32[] constant(0)\n}\n"),
      key_of("ENTRY e {\n ROOT y = f32[] constant(-0)\n}\n"),
  };
  EXPECT_EQ(keys.size(), 9);
}

TEST(StructureKey, IsTheSameAfterPrintingAndParsing) {
  std::set<std::string> keys;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const ModulePtr module = random_fusion(seed);
    keys.insert(structure_key(*module));
    EXPECT_EQ(key_of(print(*module)), structure_key(*module)) << "seed " << seed;
  }
  EXPECT_EQ(keys.size(), 50);
}

}  // namespace
}  // namespace strata::hlo

#include "hlo/input_output_alias.h"

#include <gmock/gmock.h>

#include "hlo/text.h"

namespace strata::hlo {
namespace {

using testing::HasSubstr;

std::string module_of(const std::string& alias) {
  return "HloModule jit_f, is_scheduled=true, input_output_alias=" + alias + R"(, entry_computation_layout={()->f32[]}

ENTRY %main (x: f32[2], y: (f32[], (s32[4], f32[3]))) -> (f32[3], (f32[2], s32[4]), token[]) {
  %x = f32[2]{0} parameter(0)
  %y = (f32[], (s32[4]{0}, f32[3]{0})) parameter(1)
  %inner = (s32[4]{0}, f32[3]{0}) get-tuple-element(%y), index=1
  %a = s32[4]{0} get-tuple-element(%inner), index=0
  %b = f32[3]{0} get-tuple-element(%inner), index=1
  %pair = (f32[2]{0}, s32[4]{0}) tuple(%x, %a)
  %token = token[] after-all()
  ROOT %r = (f32[3]{0}, (f32[2]{0}, s32[4]{0}), token[]) tuple(%b, %pair, %token)
}
)";
}

std::string error_of(const std::string& alias) {
  const auto read = parse_module_text(module_of(alias));
  return read ? "no error" : read.error().message;
}

TEST(InputOutputAlias, IsReadAndPrinted) {
  const auto read =
      parse_module_text(module_of("{ {1,0}: (0, {}, may-alias), {1,1}: (1, {1,0}, must-alias), {0}: (1, {1,1}) }"));
  ASSERT_TRUE(read) << read.error().to_string();
  const InputOutputAliases expected{{{1, 0}, 0, {}, false}, {{1, 1}, 1, {1, 0}, true}, {{0}, 1, {1, 1}, false}};
  EXPECT_EQ(read->aliases, expected);
  const std::string printed = print(*read->module, read->aliases);
  EXPECT_TRUE(printed.starts_with(
      "HloModule jit_f, input_output_alias={ {1,0}: (0, {}, may-alias), {1,1}: (1, {1,0}, must-alias), {0}: (1, {1,1}, "
      "may-alias) }\n"))
      << printed;
  const auto again = parse_module_text(printed);
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(again->aliases, expected);
  EXPECT_EQ(print(*again->module, again->aliases), printed);
  const auto none = parse_module_text(module_of("{}"));
  ASSERT_TRUE(none);
  EXPECT_EQ(print(*none->module, none->aliases), print(*none->module));
}

TEST(InputOutputAlias, WhatDoesNotFitIsAnError) {
  EXPECT_THAT(error_of("{ {2}: (0, {}, may-alias) }"), HasSubstr("{2} names no array of the result"));
  EXPECT_THAT(error_of("{ {1}: (0, {}, may-alias) }"), HasSubstr("{1} names no array of the result"));
  EXPECT_THAT(error_of("{ {7}: (0, {}, may-alias) }"), HasSubstr("{7} names no array"));
  EXPECT_THAT(error_of("{ {0}: (2, {}, may-alias) }"), HasSubstr("there is no parameter 2; 'main' has 2"));
  EXPECT_THAT(error_of("{ {0}: (1, {}, may-alias) }"), HasSubstr("{} names no array of parameter 1"));
  EXPECT_THAT(error_of("{ {0}: (1, {1,0}, may-alias) }"), HasSubstr("result {0} is f32[3], and parameter 1 is s32[4]"));
  EXPECT_THAT(error_of("{ {1,0}: (0, {}, may-alias), {1,0}: (0, {}, may-alias) }"),
              HasSubstr("result {1,0} is given two parameters"));
  EXPECT_THAT(error_of("{ {0}: (0, {}, perhaps) }"), HasSubstr("expected"));
  EXPECT_THAT(error_of("{ 0: (0, {}, may-alias) }"), HasSubstr("expected"));
}

}  // namespace
}  // namespace strata::hlo

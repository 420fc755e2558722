#include "hlo/indexing/element_loop.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hlo/inline_calls.h"
#include "hlo/text.h"
#include "hlo/verify.h"

namespace strata::indexing {
namespace {

using Role = ElementLoop::Role;

/// What the recognizer says of the only loop of a module's entry.
Result<ElementLoop> found(const std::string& text) {
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string() << text;
  if (!module) return tl::unexpected(module.error());
  const hlo::Module flat = hlo::inline_calls(**module);
  const auto& instructions = flat.entry_computation().instructions;
  const auto loop = std::ranges::find(instructions, hlo::Opcode::While, &hlo::Instruction::opcode);
  EXPECT_NE(loop, instructions.end());
  auto result = element_loop(flat, flat.entry, static_cast<hlo::InstructionId>(loop - instructions.begin()));
  if (result) {
    const auto verified = hlo::verify(result->step);
    EXPECT_TRUE(verified) << verified.error().to_string() << hlo::print(result->step);
  }
  return result;
}

std::string reason(const std::string& text) {
  const auto loop = found(text);
  return loop ? "" : loop.error().message;
}

/// A loop of 100 over (i, x, xs, ys, c), whose body gives x `next` and ys an update.
std::string scan(const std::string& body, const std::string& update = "ys", const std::string& c = "c") {
  return fmt::format(R"(HloModule scan
sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}}
condition {{
  s = (s32[], f32[8], f32[100,8], f32[100,8], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(100)
  ROOT r = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], f32[8], f32[100,8], f32[100,8], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  xs = f32[100,8] get-tuple-element(s), index=2
  ys = f32[100,8] get-tuple-element(s), index=3
  c = f32[] get-tuple-element(s), index=4
  zero = s32[] constant(0)
  none = f32[] constant(0)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  row = f32[1,8] dynamic-slice(xs, i, zero), dynamic_slice_sizes={{1,8}}
  at = f32[8] reshape(row)
  {}
  ROOT r = (s32[], f32[8], f32[100,8], f32[100,8], f32[]) tuple(j, next, xs, {}, {})
}}
ENTRY e {{
  x = f32[8] parameter(0)
  xs = f32[100,8] parameter(1)
  c = f32[] parameter(2)
  zero = s32[] constant(0)
  none = f32[] constant(0)
  ys = f32[100,8] broadcast(none), dimensions={{}}
  s = (s32[], f32[8], f32[100,8], f32[100,8], f32[]) tuple(zero, x, xs, ys, c)
  ROOT w = (s32[], f32[8], f32[100,8], f32[100,8], f32[]) while(s), condition=condition, body=body
}}
)",
                     body, update, c);
}

TEST(ElementLoop, HasARoleForEachLeaf) {
  const auto loop =
      found(scan("next = f32[8] add(x, at)\n  w = f32[1,8] reshape(next)\n"
                 "  rows = f32[100,8] dynamic-update-slice(ys, w, i, zero)\n  grown = f32[] add(c, c)",
                 "rows", "grown"));
  ASSERT_TRUE(loop) << loop.error().to_string();
  std::vector<Role> roles;
  for (const ElementLoop::Leaf& leaf : loop->leaves) roles.push_back(leaf.role);
  EXPECT_EQ(roles, (std::vector<Role>{Role::Counter, Role::Element, Role::Same, Role::Rows, Role::Scalar}));
  EXPECT_EQ(loop->dims, std::vector<int64_t>{8});
  ASSERT_TRUE(loop->counted);
  EXPECT_EQ(loop->counted->count, 100);
  EXPECT_FALSE(loop->each);
  EXPECT_EQ(loop->leaves[3].at, (hlo::LoopRows::Affine{0, 1}));
  EXPECT_EQ(loop->states().size(), 3U) << "the counter, the elements and the scalar";
}

TEST(ElementLoop, TakesWhatReadsItsOwnIndexByAnyWay) {
  for (const char* body : {
           "next = f32[8] add(x, at)",
           "next = f32[8] add(at, at)",
           "a = f32[2,4] reshape(x)\n  b = f32[4,2] transpose(a), dimensions={1,0}\n"
           "  d = f32[2,4] transpose(b), dimensions={1,0}\n  next = f32[8] reshape(d)",
           "a = f32[8] reverse(x), dimensions={0}\n  next = f32[8] reverse(a), dimensions={0}",
           "a = f32[8,1] reshape(x)\n  b = f32[8,2] concatenate(a, a), dimensions={1}\n"
           "  next = f32[8] reduce(b, none), dimensions={1}, to_apply=sum",
           "a = f32[8] reverse(at), dimensions={0}\n  next = f32[8] add(x, a)",
           "a = s32[8] convert(x)\n  b = s32[8,1] reshape(a)\n  d = f32[8,8] gather(xs, b), offset_dims={1}, "
           "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}\n"
           "  f = f32[8,1] slice(d), slice={[0:8], [3:4]}\n  next = f32[8] reshape(f)",
       })
    EXPECT_EQ(reason(scan(body)), "") << body;
}

TEST(ElementLoop, RefusesWhatReadsOtherElements) {
  const std::string other = "it reads state_1 at other indices than its own";
  for (const auto& [body, why] : std::vector<std::pair<std::string, std::string>>{
           {"next = f32[8] reverse(x), dimensions={0}", other},
           {"a = f32[7] slice(x), slice={[1:8]}\n  next = f32[8] pad(a, none), padding=0_1", other},
           {"a = f32[] reduce(x, none), dimensions={0}, to_apply=sum\n"
            "  next = f32[8] broadcast(a), dimensions={}",
            other},
           {"a = f32[1] dynamic-slice(x, i), dynamic_slice_sizes={1}\n  b = f32[] reshape(a)\n"
            "  next = f32[8] broadcast(b), dimensions={}",
            other},
           {"a = f32[4] slice(x), slice={[0:4]}\n  next = f32[8] concatenate(a, a), dimensions={0}", other},
           {"next = f32[8] sort(x), dimensions={0}, to_apply=less", "it has next, a sort"},
           {"a = f32[1] constant({1})\n  next = f32[8] dynamic-update-slice(x, a, i)",
            "it has next, a dynamic-update-slice"},
           {"next = f32[8] dot(x, xs), lhs_contracting_dims={0}, rhs_contracting_dims={0}", "it has next, a dot"},
       }) {
    std::string text = scan(body);
    if (body.find("less") != std::string::npos)
      text.insert(text.find("condition {"),
                  "less {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                  "  ROOT r = pred[] compare(a, b), direction=LT\n}\n");
    if (body.find("dot") != std::string::npos) {
      for (size_t at = 0; (at = text.find("100,8", at)) != std::string::npos;) text.replace(at, 5, "8,8");
      for (size_t at = 0; (at = text.find("constant(100)", at)) != std::string::npos;)
        text.replace(at, 13, "constant(8)");
    }
    EXPECT_EQ(reason(text), why) << body;
  }
}

TEST(ElementLoop, RefusesScalarsOfElementsAndRowsThatAreRead) {
  EXPECT_EQ(
      reason(scan("next = f32[8] add(x, at)\n  a = f32[] reduce(x, none), dimensions={0}, to_apply=sum", "ys", "a")),
      "it reads state_1 at other indices than its own");
  // A row of what is written is read: it is an array of another size.
  EXPECT_NE(reason(scan("y = f32[1,8] dynamic-slice(ys, i, zero), dynamic_slice_sizes={1,8}\n"
                        "  z = f32[8] reshape(y)\n  next = f32[8] add(x, z)\n  w = f32[1,8] reshape(next)\n"
                        "  rows = f32[100,8] dynamic-update-slice(ys, w, i, zero)",
                        "rows"))
                .find("the state has arrays of different sizes"),
            std::string::npos);
}

/// while any(x > 1): x ← `next` where `pred`, a comparison with `bound`.
std::string until_each(const std::string& bound, const std::string& otherwise) {
  return fmt::format(R"(HloModule each
or {{
  a = pred[] parameter(0)
  b = pred[] parameter(1)
  ROOT r = pred[] or(a, b)
}}
condition {{
  s = (f32[8], f32[8]) parameter(0)
  x = f32[8] get-tuple-element(s), index=0
  one = f32[] constant(1)
  ones = f32[8] broadcast(one), dimensions={{}}
  p = pred[8] compare(x, ones), direction=GT
  no = pred[] constant(false)
  ROOT r = pred[] reduce(p, no), dimensions={{0}}, to_apply=or
}}
body {{
  s = (f32[8], f32[8]) parameter(0)
  x = f32[8] get-tuple-element(s), index=0
  y = f32[8] get-tuple-element(s), index=1
  bound = f32[] constant({})
  bounds = f32[8] broadcast(bound), dimensions={{}}
  p = pred[8] compare(x, bounds), direction=GT
  half = f32[] constant(0.5)
  halves = f32[8] broadcast(half), dimensions={{}}
  a = f32[8] multiply(x, halves)
  b = f32[8] add(y, halves)
  c = f32[8] select(p, a, {})
  d = f32[8] select(p, b, y)
  ROOT r = (f32[8], f32[8]) tuple(c, d)
}}
ENTRY e {{
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  s = (f32[8], f32[8]) tuple(x, y)
  ROOT w = (f32[8], f32[8]) while(s), condition=condition, body=body
}}
)",
                     bound, otherwise);
}

TEST(ElementLoop, EachElementGoesOnByItselfOnlyWhereOthersStay) {
  const auto loop = found(until_each("1", "x"));
  ASSERT_TRUE(loop) << loop.error().to_string();
  EXPECT_TRUE(loop->each);
  EXPECT_FALSE(loop->counted);
  const std::string why = "it goes on while any element does, and others do not stay as they are";
  EXPECT_EQ(reason(until_each("2", "x")), why) << "the body has another condition";
  EXPECT_EQ(reason(until_each("1", "y")), why) << "an element whose condition is false becomes another one";
}

}  // namespace
}  // namespace strata::indexing

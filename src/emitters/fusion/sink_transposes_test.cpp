#include "emitters/fusion/sink_transposes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"

namespace strata::emitters {
namespace {

const std::string kSum = R"(HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
)";

/// How many transposes of many elements the root needs.
int64_t transposes(const hlo::Module& module) {
  const hlo::Computation& entry = module.entry_computation();
  std::vector<bool> used(entry.instructions.size(), false);
  used[static_cast<size_t>(entry.root)] = true;
  int64_t count = 0;
  for (hlo::InstructionId id = entry.root; id >= 0; --id) {
    if (!used[static_cast<size_t>(id)]) continue;
    const hlo::Instruction& it = entry[id];
    for (const hlo::InstructionId operand : it.operands) used[static_cast<size_t>(operand)] = true;
    count += it.opcode == hlo::Opcode::Transpose && it.shape.element_count() >= 1 << 14 ? 1 : 0;
  }
  return count;
}

void check(const std::string& body, int64_t left) {
  SCOPED_TRACE(body);
  const auto module = hlo::parse_module(kSum + "ENTRY e {\n  z = f32[] constant(0)\n" + body + "}\n");
  ASSERT_TRUE(module) << module.error().to_string();
  const std::optional<hlo::Module> changed = sink_transposes(**module);
  ASSERT_TRUE(changed);
  const auto verified = hlo::verify(*changed);
  ASSERT_TRUE(verified) << verified.error().to_string() << hlo::print(*changed);
  EXPECT_EQ(transposes(*changed), left) << hlo::print(*changed);
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 5);
  const auto expected = hlo::evaluate(**module, arguments);
  ASSERT_TRUE(expected) << expected.error().to_string();
  const auto actual = hlo::evaluate(*changed, arguments);
  ASSERT_TRUE(actual) << actual.error().to_string();
  EXPECT_EQ(hlo::difference(*actual, *expected, 64).value_or(""), "");
  const auto program = emit_program(**module);
  ASSERT_TRUE(program) << program.error().to_string();
  const auto run = run_on_cpu(*program, arguments);
  ASSERT_TRUE(run) << run.error().to_string();
  EXPECT_EQ(hlo::difference(*run, *expected, 64).value_or(""), "");
}

TEST(SinkTransposes, ReduceWhatLiesInMemory) {
  // Both directions of one array, with a broadcast and an iota; back again at the end.
  check(R"(  x = f32[130,140] parameter(0)
  w = f32[130] parameter(1)
  t = f32[140,130] transpose(x), dimensions={1,0}
  ws = f32[140,130] broadcast(w), dimensions={1}
  i = f32[140,130] iota(), iota_dimension=0
  wi = f32[140,130] multiply(ws, i)
  y = f32[140,130] add(t, wi)
  s = f32[140] reduce(y, z), dimensions={1}, to_apply=add
  ss = f32[140,130] broadcast(s), dimensions={0}
  d = f32[140,130] divide(y, ss)
  q = f32[130] reduce(d, z), dimensions={0}, to_apply=add
  u = f32[130,140] transpose(d), dimensions={1,0}
  v = f32[130,140] add(u, x)
  ROOT r = (f32[140], f32[130], f32[130,140]) tuple(s, q, v)
)",
        0);
  // Three dimensions, one transpose after the other; results in another order.
  for (const char* dims : {"0", "1", "2", "0,2", "1,2", "0,1,2"}) {
    const std::string text = dims;
    const int64_t sizes[] = {40, 17, 31};
    std::string kept;
    for (int d = 0; d < 3; ++d) {
      if (text.find(std::to_string(d)) != std::string::npos) continue;
      kept += (kept.empty() ? "" : ",") + std::to_string(sizes[d]);
    }
    check(fmt::format(R"(  x = f32[17,31,40] parameter(0)
  a = f32[31,17,40] transpose(x), dimensions={{1,0,2}}
  n = f32[31,17,40] negate(a)
  t = f32[40,17,31] transpose(n), dimensions={{2,1,0}}
  e = f32[40,17,31] exponential(t)
  ROOT s = f32[{}] reduce(e, z), dimensions={{{}}}, to_apply=add
)",
                      kept, dims),
          0);
  }
}

TEST(SinkTransposes, WhatStandsBetweenTwoConvolutions) {
  // Two results with their channels last, cut, beside a value of each channel, padded and pooled; one comes out as the
  // next convolution wants it, another one in sums.
  check(R"(  x = f32[4,9,10,104] parameter(0)
  y = f32[4,9,10,104] parameter(1)
  c = f32[4,100] parameter(2)
  w = f32[4,100] parameter(3)
  xt = f32[4,104,9,10] transpose(x), dimensions={0,3,1,2}
  yt = f32[4,104,9,10] transpose(y), dimensions={0,3,1,2}
  xs = f32[4,100,9,10] slice(xt), slice={[0:4], [0:100], [0:9], [0:10]}
  ys = f32[4,100,9,10] slice(yt), slice={[0:4], [4:104], [0:9], [0:10]}
  cs = f32[4,100,9,10] broadcast(c), dimensions={0,1}
  all = f32[4,300,9,10] concatenate(xs, cs, ys), dimensions={1}
  n = f32[4,300,9,10] negate(all)
  p = f32[4,304,10,12] pad(n, z), padding=0_0x0_4x1_0x2_0
  q = f32[4,304,5,4] reduce-window(p, z), window={size=1x1x2x3 stride=1x1x2x3}, to_apply=add
  u = f32[4,5,4,304] transpose(q), dimensions={0,2,3,1}
  s = f32[304] reduce(p, z), dimensions={0,2,3}, to_apply=add
  ROOT r = (f32[4,5,4,304], f32[304]) tuple(u, s)
)",
        0);
  // A dimension of one element, which convolutions of one dimension have, comes and goes; so do dimensions that
  // transposes move it over. A broadcast gets its dimensions in the other order.
  check(R"(  x = f32[30,1,60,104] parameter(0)
  b = f32[104,60] parameter(1)
  xt = f32[30,104,1,60] transpose(x), dimensions={0,3,1,2}
  xr = f32[30,104,60] reshape(xt)
  bs = f32[30,104,60] broadcast(b), dimensions={1,2}
  a = f32[30,104,60] add(xr, bs)
  ar = f32[30,104,60,1] reshape(a)
  ROOT u = f32[30,60,1,104] transpose(ar), dimensions={0,2,3,1}
)",
        0);
  check(R"(  x = f32[3,1,60,104] parameter(0)
  b = f32[3,104] parameter(1)
  xt = f32[3,104,1,60] transpose(x), dimensions={0,3,1,2}
  xr = f32[1,3,104,60] reshape(xt)
  bs = f32[1,3,104,60] broadcast(b), dimensions={1,2}
  a = f32[1,3,104,60] multiply(xr, bs)
  s = f32[3,104] reduce(a, z), dimensions={0,3}, to_apply=add
  u = f32[60,3,1,104] transpose(a), dimensions={3,1,0,2}
  v = f32[3,60,1,104] transpose(u), dimensions={1,0,2,3}
  ROOT r = (f32[3,104], f32[3,60,1,104]) tuple(s, v)
)",
        0);
}

TEST(SinkTransposes, CutBeforeTheyTranspose) {
  // What only cuts a transpose makes that of a part; other readers keep the whole.
  const std::string slices = R"(  x = f32[4,9,10,104] parameter(0)
  b = f32[100] parameter(1)
  t = f32[4,104,9,10] transpose(x), dimensions={0,3,1,2}
  s = f32[4,100,9,10] slice(t), slice={[0:4], [0:100], [0:9], [0:10]}
  bs = f32[4,100,9,10] broadcast(b), dimensions={1}
  a = f32[4,100,9,10] add(s, bs)
)";
  const std::string body = slices + "  ROOT r = (f32[4,100,9,10]) tuple(a)\n";
  check(body, 1);
  const auto module = hlo::parse_module(kSum + "ENTRY e {\n  z = f32[] constant(0)\n" + body + "}\n");
  ASSERT_TRUE(module) << module.error().to_string();
  const std::optional<hlo::Module> changed = sink_transposes(**module);
  ASSERT_TRUE(changed);
  const auto& made = changed->entry_computation().instructions;
  const auto part = std::find_if(made.begin(), made.end(), [](const hlo::Instruction& it) { return it.name == "s"; });
  ASSERT_NE(part, made.end()) << hlo::print(*changed);
  EXPECT_EQ(part->opcode, hlo::Opcode::Transpose) << hlo::print(*changed);
  const auto both = hlo::parse_module(kSum + "ENTRY e {\n  z = f32[] constant(0)\n" + slices +
                                      "  ROOT r = (f32[4,100,9,10], f32[4,104,9,10]) tuple(a, t)\n}\n");
  EXPECT_FALSE(sink_transposes(**both));
}

TEST(SinkTransposes, LeaveOthers) {
  // Another array beside it that lies as the transpose does; a transpose that is a result; few elements.
  for (const char* body : {R"(  x = f32[130,140] parameter(0)
  y = f32[140,130] parameter(1)
  t = f32[140,130] transpose(x), dimensions={1,0}
  a = f32[140,130] add(t, y)
  ROOT s = f32[140] reduce(a, z), dimensions={1}, to_apply=add
)",
                           R"(  x = f32[130,140] parameter(0)
  ROOT t = f32[140,130] transpose(x), dimensions={1,0}
)",
                           // A reshape that merges dimensions.
                           R"(  x = f32[20,30,40] parameter(0)
  t = f32[30,40,20] transpose(x), dimensions={1,2,0}
  m = f32[1200,20] reshape(t)
  ROOT u = f32[20,1200] transpose(m), dimensions={1,0}
)",
                           R"(  x = f32[13,14] parameter(0)
  t = f32[14,13] transpose(x), dimensions={1,0}
  ROOT s = f32[14] reduce(t, z), dimensions={1}, to_apply=add
)"}) {
    const auto module = hlo::parse_module(kSum + "ENTRY e {\n  z = f32[] constant(0)\n" + body + "}\n");
    ASSERT_TRUE(module) << module.error().to_string();
    EXPECT_FALSE(sink_transposes(**module)) << body;
  }
}

}  // namespace
}  // namespace strata::emitters

// Parameters that the caller gives away to results (input_output_alias), and updates in place, on a fake GPU.
#include "emitters/test_alias.h"

namespace strata::emitters {
namespace {

constexpr const char* kUpdate = R"(
  row = f32[1,512] parameter(1)
  i = s32[] parameter(2)
  zero = s32[] constant(0)
)";

std::string module_of(const std::string& alias, const std::string& entry) {
  return fmt::format("HloModule m{}\n\nENTRY e {{\n  cache = f32[4096,512] parameter(0){}{}}}\n",
                     alias.empty() ? "" : ", input_output_alias=" + alias, kUpdate, entry);
}

TEST_F(AliasTest, AnUpdateOfAGivenArrayIsInPlace) {
  const std::string update = "  ROOT u = f32[4096,512] dynamic-update-slice(cache, row, i, zero)\n";
  run(module_of("{ {}: (0, {}, may-alias) }", update));
  EXPECT_EQ(copies_, 0);
  EXPECT_TRUE(lies_in(0, "cache"));
  EXPECT_EQ(layout_of(runner_->gpu().manifest()).working_bytes, 0);
  // Else the kernel writes the whole result, which is no copy and an update of it.
  run(module_of("", update));
  EXPECT_EQ(copies_, 0);
  EXPECT_EQ(runner_->gpu().manifest().steps.size(), 1u);
  EXPECT_FALSE(lies_in(0, "cache"));
}

TEST_F(AliasTest, AnArrayThatIsReadLaterIsCopied) {
  run(module_of("{ {0}: (0, {}, may-alias) }",
                "  u = f32[4096,512] dynamic-update-slice(cache, row, i, zero)\n"
                "  both = f32[4096,512] add(cache, u)\n"
                "  ROOT r = (f32[4096,512], f32[4096,512]) tuple(u, both)\n"));
}

TEST_F(AliasTest, UpdatesOfUpdatesAreInPlace) {
  run(module_of("{ {0}: (0, {}, may-alias) }",
                "  other = f32[2,256] parameter(3)\n"
                "  u = f32[4096,512] dynamic-update-slice(cache, row, i, zero)\n"
                "  v = f32[4096,512] dynamic-update-slice(u, other, i, zero)\n"
                "  ROOT r = (f32[4096,512]) tuple(v)\n"));
  EXPECT_EQ(copies_, 0);
  EXPECT_TRUE(lies_in(0, "cache"));
}

/// A row or a few of a cache, at places that are read, set by a scatter.
TEST_F(AliasTest, AScatterOfFewRowsWritesThemAlone) {
  const std::string set = "f {\n  a = f32[] parameter(0)\n  ROOT b = f32[] parameter(1)\n}\n";
  for (const int rows : {1, 3}) {
    for (const char* unique : {"", ", unique_indices=true"}) {
      const std::string entry = fmt::format(
          "{0}ENTRY e {{\n  cache = f32[4096,512] parameter(0)\n  row = f32[{1},512] parameter(1)\n  i = s32[{1}] "
          "parameter(2)\n  ROOT u = f32[4096,512] scatter(cache, i, row), update_window_dims={{1}}, "
          "inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1{2}, to_apply=f\n}}\n",
          set, rows, rows > 1 ? "" : unique);
      run("HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n" + entry);
      EXPECT_EQ(copies_, 0);
      EXPECT_TRUE(lies_in(0, "cache"));
      ASSERT_EQ(runner_->gpu().manifest().steps.size(), 1u);
      const GpuLaunch* launch = std::get_if<GpuLaunch>(&runner_->gpu().manifest().steps[0].work);
      ASSERT_NE(launch, nullptr);
      EXPECT_LE(launch->grid[0] * launch->threads, 1024);
      run("HloModule m\n" + entry);
      EXPECT_EQ(copies_, 0);
      EXPECT_EQ(runner_->gpu().manifest().steps.size(), 1u);
      EXPECT_FALSE(lies_in(0, "cache"));
    }
  }
}

/// What gives an array that a kernel has written another shape is no kernel and no copy.
TEST_F(AliasTest, AReshapeOfAKernelsResultIsThatResult) {
  const std::string scatter =
      "f {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\nENTRY e {\n  z = f32[] "
      "constant(0)\n  x = f32[400,200] broadcast(z), dimensions={}\n  i = s32[70000,2] parameter(0)\n  u = f32[70000] "
      "parameter(1)\n  r = f32[400,200] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0,1}, "
      "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=f\n  s = f32[20,20,200] reshape(r)\n";
  const auto launches = [&] {
    return std::ranges::count_if(runner_->gpu().manifest().steps,
                                 [](const GpuStep& step) { return std::holds_alternative<GpuLaunch>(step.work); });
  };
  run("HloModule m\n" + scatter + "  ROOT t = (f32[20,20,200]) tuple(s)\n}\n");
  EXPECT_EQ(launches(), 1);
  EXPECT_EQ(copies_, 0);
  // Both are results: two arrays.
  run("HloModule m\n" + scatter + "  ROOT t = (f32[400,200], f32[20,20,200]) tuple(r, s)\n}\n");
  EXPECT_EQ(launches() + copies_, 2);
}

/// The array may be an element of what a kernel computes; who reads that through a tuple reads it, too.
TEST_F(AliasTest, AReshapeOfAnElementOfATupleIsThatElement) {
  const std::string sort =
      "less {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  i = s32[] parameter(2)\n  j = s32[] "
      "parameter(3)\n  ROOT c = pred[] compare(a, b), direction=LT\n}\nENTRY e {\n  x = f32[400] parameter(0)\n  i = "
      "s32[400] parameter(1)\n  p = (f32[400], s32[400]) sort(x, i), dimensions={0}, to_apply=less\n  k = f32[400] "
      "get-tuple-element(p), index=0\n  v = s32[400] get-tuple-element(p), index=1\n";
  const auto launches = [&] {
    return std::ranges::count_if(runner_->gpu().manifest().steps,
                                 [](const GpuStep& step) { return std::holds_alternative<GpuLaunch>(step.work); });
  };
  run("HloModule m\n" + sort + "  ROOT t = (f32[400], s32[400]) tuple(k, v)\n}\n");
  const auto alone = launches() + copies_;
  run("HloModule m\n" + sort + "  s = s32[20,20] reshape(v)\n  ROOT t = (f32[400], s32[20,20]) tuple(k, s)\n}\n");
  EXPECT_EQ(launches() + copies_, alone);
  run("HloModule m\n" + sort +
      "  s = s32[20,20] reshape(v)\n  both = (s32[400], f32[400]) tuple(v, k)\n  w = s32[400] get-tuple-element(both), "
      "index=0\n  ROOT t = (f32[400], s32[20,20], s32[400]) tuple(k, s, w)\n}\n");
  EXPECT_EQ(launches() + copies_, alone + 1);
}

TEST_F(AliasTest, LoopsUpdateAGivenArrayInPlace) {
  const std::string text = R"(
condition {
  s = (s32[], f32[64,8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[64,8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[64,8] get-tuple-element(s), index=1
  x = f32[8] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  row = f32[1,8] reshape(x)
  updated = f32[64,8] dynamic-update-slice(a, row, i, zero)
  y = f32[8] negate(x)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[64,8], f32[8]) tuple(j, updated, y)
}
ENTRY e {
  a = f32[64,8] parameter(0)
  x = f32[8] parameter(1)
  zero = s32[] constant(0)
  s = (s32[], f32[64,8], f32[8]) tuple(zero, a, x)
  w = (s32[], f32[64,8], f32[8]) while(s), condition=condition, body=body
  ROOT r = f32[64,8] get-tuple-element(w), index=1
}
)";
  run("HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n" + text);
  EXPECT_TRUE(lies_in(0, "a"));
  EXPECT_TRUE(loop_works_in_place(1));
  run("HloModule m\n" + text);
  EXPECT_FALSE(lies_in(0, "a"));
}

/// Pages of a cache that are copied to others, as where sequences that share them part: what is read goes through a
/// kernel of its own, and the array is updated in place.
TEST_F(AliasTest, LoopsCopyRowsOfAnArrayWithinIt) {
  run(R"(HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
condition {
  s = (s32[], f32[16384,128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[16384,128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[16384,128] get-tuple-element(s), index=1
  zero = s32[] constant(0)
  three = s32[] constant(3)
  from = s32[] multiply(i, three)
  rows = f32[2,128] dynamic-slice(a, from, zero), dynamic_slice_sizes={2,128}
  one = s32[] constant(1)
  to = s32[] add(from, one)
  updated = f32[16384,128] dynamic-update-slice(a, rows, to, zero)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[16384,128]) tuple(j, updated)
}
ENTRY e {
  a = f32[16384,128] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[16384,128]) tuple(zero, a)
  w = (s32[], f32[16384,128]) while(s), condition=condition, body=body
  ROOT r = f32[16384,128] get-tuple-element(w), index=1
}
)");
  EXPECT_TRUE(lies_in(0, "a"));
  EXPECT_TRUE(loop_works_in_place(1));
}

TEST_F(AliasTest, AResultTakesTheMemoryOfAGivenArrayThatIsFree) {
  const std::string text = R"(
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
ENTRY e {
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  once = f32[64,64] sort(x), dimensions={1}, to_apply=less
  ROOT twice = f32[64,64] sort(once), dimensions={0}, to_apply=less
}
)";
  run("HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n" + text);
  EXPECT_TRUE(lies_in(0, "x"));
  run("HloModule m, input_output_alias={ {}: (1, {}, may-alias) }\n" + text);
  EXPECT_TRUE(lies_in(0, "y"));
}

TEST_F(AliasTest, WhatMustLieInAParameterIsCopiedThere) {
  const std::string entry =
      "ENTRY e {\n  x = f32[64] parameter(0)\n  y = f32[64] parameter(1)\n"
      "  b = f32[64] reverse(x), dimensions={0}\n  n = f32[64] add(b, y)\n"
      "  ROOT r = (f32[64], f32[64]) tuple(n, y)\n}\n";
  run("HloModule m, input_output_alias={ {0}: (0, {}, must-alias) }\n" + entry);
  EXPECT_TRUE(lies_in(0, "x"));
  EXPECT_EQ(copies_, 1);
  const auto read = hlo::parse_module_text("HloModule m, input_output_alias={ {0}: (1, {}, must-alias) }\n" + entry);
  ASSERT_TRUE(read);
  const auto program = emit_program(*read->module, {}, LibraryUse::Never, {}, read->aliases);
  ASSERT_TRUE(program);
  const auto image = image_of(*program, {}, [](const EmittedFusion&) { return Result<std::string>(""); });
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().message, "result 0 must lie in 'y', which is another result");
}

/// Random updates of given arrays, in random order with reads between them.
TEST_F(AliasTest, RandomUpdatesAgreeWithTheInterpreter) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    std::string entry =
        "ENTRY e {\n  a = f32[16,8] parameter(0)\n  b = f32[16,8] parameter(1)\n"
        "  row = f32[1,8] parameter(2)\n  zero = s32[] constant(0)\n  i = s32[] constant(3)\n";
    std::vector<std::string> arrays{"a", "b"}, rows{"row"};
    const auto any = [&](const std::vector<std::string>& of) { return of[random.below(of.size())]; };
    for (int n = 0; n < 7; ++n) {
      const std::string name = fmt::format("v{}", n);
      switch (random.below(4)) {
        case 0:
          entry += fmt::format("  {} = f32[16,8] add({}, {})\n", name, any(arrays), any(arrays));
          arrays.push_back(name);
          break;
        case 1:
          entry += fmt::format("  {} = f32[1,8] dynamic-slice({}, i, zero), dynamic_slice_sizes={{1,8}}\n", name,
                               any(arrays));
          rows.push_back(name);
          break;
        default:
          entry += fmt::format("  {} = f32[16,8] dynamic-update-slice({}, {}, {}, zero)\n", name, any(arrays),
                               any(rows), random.below(2) == 0 ? "i" : "zero");
          arrays.push_back(name);
      }
    }
    const std::string first = any(arrays), second = any(arrays);
    entry +=
        fmt::format("  ROOT r = (f32[16,8], f32[16,8], f32[1,8]) tuple({}, {}, {})\n}}\n", first, second, any(rows));
    const char* alias = std::data({"{ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }",
                                   "{ {1}: (0, {}, may-alias) }", "{ {0}: (1, {}, may-alias) }"})[random.below(3)];
    run(fmt::format("HloModule m, input_output_alias={}\n{}", alias, entry));
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << entry;
  }
}

}  // namespace
}  // namespace strata::emitters

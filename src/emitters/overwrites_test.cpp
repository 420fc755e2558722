// Results that kernels write over operands: which may be, and whole modules of given parameters on a fake GPU.
#include "emitters/overwrites.h"

#include "emitters/test_alias.h"

namespace strata::emitters {
namespace {

std::vector<Overwrite> possible(const std::string& entry, const std::string& only = "") {
  const hlo::ModulePtr module = parsed("HloModule m\n" + entry);
  const auto fusion = emit_fusion(*module, module->entry, "kernel", {.only = only});
  EXPECT_TRUE(fusion) << fusion.error().to_string();
  const auto pairs = fusion->possible_overwrites();
  EXPECT_TRUE(pairs) << pairs.error().to_string();
  return *pairs;
}

using Pairs = std::vector<Overwrite>;

TEST(Overwrites, ElementwiseResultsLieInOperandsOfTheirType) {
  EXPECT_EQ(possible("ENTRY e {\n  x = f32[1000,32] parameter(0)\n  y = f32[1000,32] parameter(1)\n"
                     "  ROOT r = f32[1000,32] multiply(x, y)\n}\n"),
            (Pairs{{0, 0}, {0, 1}}));
  // Elements that are no whole vectors are another loop of the kernel.
  EXPECT_EQ(possible("ENTRY e {\n  x = f32[1003] parameter(0)\n  ROOT r = f32[1003] negate(x)\n}\n"), (Pairs{{0, 0}}));
  EXPECT_EQ(possible("ENTRY e {\n  x = f16[512] parameter(0)\n  ROOT r = f32[512] convert(x)\n}\n"), Pairs{});
  EXPECT_EQ(possible("ENTRY e {\n  x = s32[512] parameter(0)\n  y = f32[512] parameter(1)\n  c = f32[512] "
                     "convert(x)\n  ROOT r = f32[512] add(c, y)\n}\n"),
            (Pairs{{0, 1}}));
}

TEST(Overwrites, PositionsInMemoryCountAndNotIndices) {
  EXPECT_EQ(possible("ENTRY e {\n  x = f32[64,32] parameter(0)\n  s = f32[2048] reshape(x)\n"
                     "  ROOT r = f32[2048] negate(s)\n}\n"),
            (Pairs{{0, 0}}));
  EXPECT_EQ(possible("ENTRY e {\n  x = f32[64,64]{0,1} parameter(0)\n  ROOT r = f32[64,64]{1,0} negate(x)\n}\n"),
            Pairs{});
}

TEST(Overwrites, ElementsThatOthersReadStay) {
  EXPECT_EQ(possible("ENTRY e {\n  x = f32[4096] parameter(0)\n  y = f32[4096] reverse(x), dimensions={0}\n"
                     "  ROOT r = f32[4096] add(x, y)\n}\n",
                     "loop"),
            Pairs{});
  EXPECT_EQ(possible("ENTRY e {\n  x = f32[64,64] parameter(0)\n  y = f32[64,64] transpose(x), dimensions={1,0}\n"
                     "  ROOT r = f32[64,64] add(x, y)\n}\n",
                     "loop"),
            Pairs{});
  // A row is read by all of its elements.
  EXPECT_EQ(possible("ENTRY e {\n  x = f32[64,64] parameter(0)\n  s = f32[1,64] slice(x), slice={[3:4], [0:64]}\n"
                     "  v = f32[64] reshape(s)\n  b = f32[64,64] broadcast(v), dimensions={1}\n"
                     "  ROOT r = f32[64,64] add(x, b)\n}\n",
                     "loop"),
            Pairs{});
}

TEST(Overwrites, ResultsOfOneKernelLieInOperandsOfTheirOwn) {
  EXPECT_EQ(
      possible("ENTRY e {\n  x = f32[4096] parameter(0)\n  y = f32[4096] parameter(1)\n  a = f32[4096] add(x, y)\n"
               "  b = f32[4096] multiply(x, y)\n  ROOT r = (f32[4096], f32[4096]) tuple(a, b)\n}\n"),
      (Pairs{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  // What one thread reads and another one writes over waits for nobody.
  const Pairs pairs = possible(
      "ENTRY e {\n  x = f32[4096] parameter(0)\n  y = f32[4096] parameter(1)\n  a = f32[4096] add(x, y)\n"
      "  b = f32[4096] reverse(x), dimensions={0}\n  ROOT r = (f32[4096], f32[4096]) tuple(a, b)\n}\n",
      "loop");
  EXPECT_EQ(std::ranges::count(pairs, Overwrite{0, 1}), 1);
  EXPECT_EQ(std::ranges::count(pairs, 0, &Overwrite::input), 0);
}

TEST(Overwrites, WhatIsFilledBeforeStays) {
  const std::string scatter =
      "f {\n  a = f32[] parameter(0)\n  ROOT b = f32[] parameter(1)\n}\nENTRY e {\n  x = f32[400] parameter(0)\n"
      "  i = s32[400] parameter(1)\n  z = f32[] constant(0)\n  to = f32[400] broadcast(z), dimensions={}\n"
      "  ROOT s = f32[400] scatter(to, i, x), update_window_dims={}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=f\n}\n";
  EXPECT_EQ(possible(scatter, "scatter"), Pairs{});
}

/// Loads of further elements do not wait for stores: for LLVM both have one pointer, and differ by what is known.
TEST(Overwrites, KernelsLoadAllBeforeTheyStore) {
  const hlo::ModulePtr module = parsed(
      "HloModule m\nENTRY e {\n  x = f32[4194304] parameter(0)\n  y = f32[4194304] parameter(1)\n"
      "  ROOT r = f32[4194304] add(x, y)\n}\n");
  const auto fusion = emit_fusion(*module, module->entry, "kernel");
  ASSERT_TRUE(fusion);
  const auto loads_first = [](const std::string& ptx) {
    EXPECT_GT(ptx.find("ld.global"), 0U);
    return ptx.rfind("ld.global") < ptx.find("st.global");
  };
  const auto apart = fusion->text(Form::Ptx);
  EmittedFusion over = *fusion;
  over.write_over({{0, 0}});
  const auto together = over.text(Form::Ptx);
  ASSERT_TRUE(apart && together);
  EXPECT_NE(*apart, *together);
  EXPECT_TRUE(loads_first(*apart)) << *apart;
  EXPECT_TRUE(loads_first(*together)) << *together;
}

class OverwritesTest : public AliasTest {
 protected:
  /// Bytes beside the parameters.
  int64_t further_bytes() const {
    const LaunchManifest& manifest = runner_->gpu().manifest();
    return layout_of(manifest).working_bytes + manifest.bytes(BufferRole::Counters);
  }
};

const char* const kTwo = "ENTRY e {\n  x = f32[300,7] parameter(0)\n  y = f32[300,7] parameter(1)\n";

TEST_F(OverwritesTest, AnElementwiseResultLiesInTheParameter) {
  for (const char* kind : {"may", "must"}) {
    run(
        fmt::format("HloModule m, input_output_alias={{ {{}}: (1, {{}}, {}-alias) }}\n{}  s = f32[300,7] add(x, y)\n"
                    "  ROOT r = f32[300,7] multiply(s, x)\n}}\n",
                    kind, kTwo));
    EXPECT_TRUE(lies_in(0, "y"));
    EXPECT_EQ(copies_, 0);
    EXPECT_EQ(further_bytes(), 0);
  }
}

/// 600 iterations of x ← x / 2 + `term`, of y, x before the loop and half.
std::string loop_over(const std::string& term) {
  const std::string state = "(s32[], f32[300,7], f32[300,7], f32[300,7])";
  return "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\ncondition {\n  s = " + state +
         " parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(600)\n"
         "  ROOT r = pred[] compare(i, n), direction=LT\n}\nbody {\n  s = " +
         state +
         " parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  z = f32[300,7] get-tuple-element(s), index=1\n"
         "  y = f32[300,7] get-tuple-element(s), index=2\n  x = f32[300,7] get-tuple-element(s), index=3\n"
         "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n  h = f32[] constant(0.5)\n"
         "  half = f32[300,7] broadcast(h), dimensions={}\n  scaled = f32[300,7] multiply(z, half)\n"
         "  term = f32[300,7] " +
         term + "\n  next = f32[300,7] add(scaled, term)\n  ROOT r = " + state +
         " tuple(j, next, y, x)\n}\nENTRY e {\n  x = f32[300,7] parameter(0)\n  y = f32[300,7] parameter(1)\n"
         "  zero = s32[] constant(0)\n  s = " +
         state + " tuple(zero, x, y, x)\n  w = " + state +
         " while(s), condition=condition, body=body\n  ROOT r = f32[300,7] get-tuple-element(w), index=1\n}\n";
}

TEST_F(OverwritesTest, ALoopOfElementsLiesInItsFirstState) {
  run(loop_over("multiply(y, half)"));
  EXPECT_TRUE(lies_in(0, "x"));
  EXPECT_EQ(copies_, 0);
  EXPECT_EQ(further_bytes(), 0);
  // What other elements read in later iterations stays.
  run(loop_over("reverse(x), dimensions={0}"));
}

TEST_F(OverwritesTest, WhatIsReadLaterOrElsewhereStays) {
  // The other result is another kernel's, which reads x in another order.
  run(std::string("HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }\n") + kTwo +
      "  a = f32[300,7] add(x, y)\n  b = f32[7,300] transpose(x), dimensions={1,0}\n"
      "  ROOT r = (f32[300,7], f32[7,300]) tuple(a, b)\n}\n");
  // The array is a result too.
  run(std::string("HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }\n") + kTwo +
      "  a = f32[300,7] add(x, y)\n  ROOT r = (f32[300,7], f32[300,7]) tuple(a, x)\n}\n");
  EXPECT_FALSE(lies_in(0, "x"));
  EXPECT_TRUE(lies_in(1, "x"));
}

TEST_F(OverwritesTest, AParameterThatIsReturnedAsItIsLiesWhereItDoes) {
  run(std::string("HloModule m, input_output_alias={ {0}: (0, {}, must-alias), {1}: (1, {}, must-alias) }\n") + kTwo +
      "  a = f32[300,7] add(x, y)\n  ROOT r = (f32[300,7], f32[300,7]) tuple(x, a)\n}\n");
  EXPECT_TRUE(lies_in(0, "x"));
  EXPECT_TRUE(lies_in(1, "y"));
  EXPECT_EQ(copies_, 0);
}

TEST_F(OverwritesTest, ResultsOfOneKernelEachLieInTheirParameter) {
  run(std::string("HloModule m, input_output_alias={ {0}: (1, {}, may-alias), {1}: (0, {}, may-alias) }\n") + kTwo +
      "  a = f32[300,7] add(x, y)\n  b = f32[300,7] multiply(x, y)\n"
      "  ROOT r = (f32[300,7], f32[300,7]) tuple(a, b)\n}\n");
  EXPECT_TRUE(lies_in(0, "y"));
  EXPECT_TRUE(lies_in(1, "x"));
  EXPECT_EQ(further_bytes(), 0);
}

/// Parameters, moments and gradients of several layers, and numbers of the step.
std::string adam(const std::vector<std::string>& shapes, bool given) {
  std::string entry = "ENTRY e {\n  rate = f32[] parameter(0)\n  b1 = f32[] parameter(1)\n  b2 = f32[] parameter(2)\n";
  std::string results, types, aliases;
  int parameter = 3, result = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::string& shape = shapes[i];
    const auto add = [&](const char* name, const std::string& text) {
      entry += fmt::format("  {}{} = {} {}\n", name, i, shape, text);
    };
    for (const char* name : {"p", "m", "v", "g"}) add(name, fmt::format("parameter({})", parameter++));
    for (const char* name : {"rate", "b1", "b2"})
      add(fmt::format("{}_of_", name).c_str(), fmt::format("broadcast({}), dimensions={{}}", name));
    const auto combined = [&](const char* made, const char* op, const std::string& a, const std::string& b) {
      add(made, fmt::format("{}({}{}, {}{})", op, a, i, b, i));
    };
    combined("dm", "subtract", "g", "m");
    combined("sm", "multiply", "dm", "b1_of_");
    combined("nm", "add", "m", "sm");
    combined("gg", "multiply", "g", "g");
    combined("dv", "subtract", "gg", "v");
    combined("sv", "multiply", "dv", "b2_of_");
    combined("nv", "add", "v", "sv");
    add("av", fmt::format("abs(nv{})", i));
    add("root", fmt::format("sqrt(av{})", i));
    combined("of", "add", "root", "rate_of_");
    combined("step", "divide", "nm", "of");
    combined("scaled", "multiply", "step", "rate_of_");
    combined("np", "subtract", "p", "scaled");
    for (const char* name : {"np", "nm", "nv"}) {
      results += fmt::format("{}{}{}", result > 0 ? ", " : "", name, i);
      types += fmt::format("{}{}", result > 0 ? ", " : "", shape);
      aliases +=
          fmt::format("{}{{{}}}: ({}, {{}}, may-alias)", result > 0 ? ", " : "", result, parameter - 4 + result % 3);
      ++result;
    }
  }
  return fmt::format("HloModule m{}\n{}  ROOT r = ({}) tuple({})\n}}\n",
                     given ? fmt::format(", input_output_alias={{ {} }}", aliases) : "", entry, types, results);
}

/// The results of a short leaf are each computed by a block of its own, and all of these read the moments: only one of
/// them may be written over.
TEST_F(OverwritesTest, AStepOfAdamTakesNoMemoryBesideItsParameters) {
  const std::vector<std::string> shapes{"f32[256,64]", "f32[64]", "f32[256,64]", "f32[7,33]", "f32[64]", "f32[129]"};
  run(adam(shapes, true));
  EXPECT_LE(further_bytes(), 2 * (2 * kBufferAlignment + 4 * 7 * 33 + 4 * 129 + 2 * kBufferAlignment));
  EXPECT_EQ(copies_, 0);
  for (size_t result = 0; result < 3 * shapes.size(); ++result) {
    const bool is_long = shapes[result / 3] == "f32[256,64]";
    const bool lies = lies_in(result, fmt::format("{}{}", "pmv"[result % 3], result / 3));
    EXPECT_TRUE(lies || (!is_long && result % 3 != 0)) << result;
  }
  // Without leave it takes another copy of all but the gradients.
  const int64_t given = runner_->gpu().manifest().bytes(BufferRole::Input);
  run(adam(shapes, false));
  EXPECT_GE(further_bytes(), given * 7 / 10);
}

/// What follows from a given parameter in several kernels, or in one, ends in it.
TEST_F(OverwritesTest, ValuesOnTheWayToAResultTakeTheParametersPlace) {
  run("HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\nENTRY e {\n  x = f32[512,700] parameter(0)\n"
      "  row = f32[1,700] parameter(1)\n  i = s32[] parameter(2)\n  zero = s32[] constant(0)\n"
      "  t = f32[512,700] exponential(x)\n"
      "  ROOT u = f32[512,700] dynamic-update-slice(t, row, i, zero)\n}\n");
  EXPECT_TRUE(lies_in(0, "x"));
  EXPECT_EQ(copies_, 0);
  EXPECT_EQ(further_bytes(), 0);
}

/// Random operators, some of which read elements of others, and parameters that are given to any results.
TEST_F(OverwritesTest, RandomModulesAgreeWithTheInterpreter) {
  int given = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    Random random(seed);
    const std::string shape = std::data({"f32[16,16]", "f32[64,64]", "f32[33,33]"})[random.below(3)];
    const std::string row = shape.substr(0, shape.find(',')) + "]";
    const bool whole_rows = random.below(2) == 0;
    std::string entry =
        "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\nENTRY e {\n";
    const int parameters = 2 + static_cast<int>(random.below(3));
    std::vector<std::string> values;
    for (int i = 0; i < parameters; ++i) {
      values.push_back(fmt::format("p{}", i));
      entry += fmt::format("  p{} = {} parameter({})\n", i, shape, i);
    }
    entry += "  zero = f32[] constant(0)\n";
    const auto any = [&] { return values[random.below(values.size())]; };
    const int count = 3 + static_cast<int>(random.below(8));
    for (int n = 0; n < count; ++n) {
      const std::string name = fmt::format("v{}", n);
      const auto made = [&](const std::string& text) { entry += fmt::format("  {} = {} {}\n", name, shape, text); };
      switch (random.below(9)) {
        case 0:
          made(fmt::format("transpose({}), dimensions={{1,0}}", any()));
          break;
        case 1:
          made(fmt::format("reverse({}), dimensions={{{}}}", any(), random.below(2)));
          break;
        case 2:
          entry += fmt::format("  s{} = {} reduce({}, zero), dimensions={{{}}}, to_apply=add\n", n, row, any(),
                               whole_rows ? 1 : 0);
          made(fmt::format("broadcast(s{}), dimensions={{{}}}", n, random.below(2)));
          break;
        case 3:
          made(fmt::format("negate({})", any()));
          break;
        case 4:
          made(fmt::format("sine({})", any()));
          break;
        default:
          made(fmt::format("{}({}, {})", std::data({"add", "subtract", "maximum"})[random.below(3)], any(), any()));
      }
      values.push_back(name);
    }
    const size_t results = 1 + random.below(4);
    std::string types, list, aliases;
    std::vector<int64_t> to;
    for (int64_t i = 0; i < parameters; ++i) to.push_back(i);
    to = shuffled(to, random);
    for (size_t i = 0; i < results; ++i) {
      types += (i > 0 ? ", " : "") + shape;
      list += (i > 0 ? ", " : "") + (random.below(8) == 0 ? any() : values[values.size() - 1 - random.below(3)]);
      if (i >= to.size() || random.below(4) == 0) continue;
      aliases += fmt::format("{}{{{}}}: ({}, {{}}, may-alias)", aliases.empty() ? "" : ", ", i, to[i]);
    }
    entry += fmt::format("  ROOT r = ({}) tuple({})\n}}\n", types, list);
    run(fmt::format("HloModule m{}\n{}", aliases.empty() ? "" : ", input_output_alias={ " + aliases + " }", entry));
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << aliases << "\n" << entry;
    for (const ProgramStep& step : runner_->program().steps)
      given += step.fusion ? static_cast<int>(step.fusion->decision().preparations.size()) : 0;
  }
  EXPECT_GT(given, 40);  // else it tests nothing
}

}  // namespace
}  // namespace strata::emitters

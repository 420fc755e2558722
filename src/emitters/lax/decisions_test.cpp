// What was decided of parts is remembered, and all parts of a module together end in time.
#include "emitters/lax/decisions.h"

#include <gtest/gtest.h>

#include "emitters/measure_parts.h"
#include "emitters/program.h"
#include "hlo/text.h"
#include "runtime/test_driver.h"

namespace strata::emitters {
namespace {

/// Layers of two products and their product, of 64, 512, … columns, each a part of its own.
hlo::ModulePtr layers(int count) {
  std::string text = "HloModule m\nENTRY e {\n  x = f16[16,64] parameter(0)\n";
  std::string results;
  for (int layer = 0; layer < count; ++layer) {
    text += fmt::format(R"(  w{0} = f16[64,{3}] parameter({1})
  u{0} = f16[64,{3}] parameter({2})
  p{0} = f16[16,{3}] dot(x, w{0}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  q{0} = f16[16,{3}] dot(x, u{0}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  m{0} = f16[16,{3}] multiply(p{0}, q{0})
)",
                        layer, 2 * layer + 1, 2 * layer + 2, 64 << (3 * layer));
    results += fmt::format("{}m{}", layer > 0 ? ", " : "", layer);
  }
  std::string shapes;
  for (int layer = 0; layer < count; ++layer)
    shapes += fmt::format("{}f16[16,{}]", layer > 0 ? ", " : "", 64 << (3 * layer));
  const auto module = hlo::parse_module(fmt::format("{}  ROOT r = ({}) tuple({})\n}}\n", text, shapes, results));
  EXPECT_TRUE(module) << module.error().to_string();
  return *module;
}

std::vector<std::string> lax_steps(const EmittedProgram& program) {
  std::vector<std::string> names;
  for (const ProgramStep& step : program.steps) {
    if (step.lax) names.push_back(step.lax->reason);
  }
  return names;
}

class LaxDecisionsTest : public testing::Test {
 protected:
  /// Emits with a step's time and with what is on the clock.
  EmittedProgram emit(const hlo::Module& module, double step_microseconds, const LaxOptions& options) {
    LaxOptions counted = options;
    counted.microseconds = [&](const hlo::Module&, const LaxStep* step) -> Result<double> {
      ++measured_;
      now_ += std::chrono::seconds(each_takes_);
      return step != nullptr ? step_microseconds : 8;
    };
    const auto program = emit_program(module, {}, LibraryUse::WhereFaster, counted);
    EXPECT_TRUE(program) << program.error().to_string();
    return program ? *program : EmittedProgram{};
  }
  LaxOptions remembered() {
    LaxOptions options;
    options.seconds = 600;
    options.threads = 2;
    options.cache = &cache_;
    options.device = "a GPU";
    return options;
  }
  Deadline deadline(double seconds) {
    return Deadline(seconds, {}, 0, [this] { return now_; });
  }

  TemporaryFolder folder_{"strata-decisions"};
  ResultCache cache_{folder_.path().string(), [](const std::string& warning) { ADD_FAILURE() << warning; }};
  int measured_ = 0;
  int each_takes_ = 0;
  Deadline::TimePoint now_;
};

TEST_F(LaxDecisionsTest, BothWaysAreRemembered) {
  const hlo::ModulePtr module = layers(2);
  for (const double microseconds : {7.0, 9.0}) {
    LaxOptions options = remembered();
    options.device += std::to_string(microseconds);
    measured_ = 0;
    const EmittedProgram first = emit(*module, microseconds, options);
    const int measured = measured_;
    EXPECT_GE(measured, 4);  // both ways of each, and of smaller parts where they were not taken
    // No time is left to search, prove or measure anything: what is known needs none.
    options.deadline = Deadline(0);
    const EmittedProgram second = emit(*module, 1, options);
    EXPECT_EQ(measured_, measured);
    ASSERT_EQ(lax_steps(first).size(), microseconds < 8 ? 2U : 0U) << explain(first);
    ASSERT_EQ(lax_steps(second).size(), lax_steps(first).size()) << explain(second);
    for (size_t i = 0; i < lax_steps(first).size(); ++i)
      EXPECT_EQ(lax_steps(second)[i], lax_steps(first)[i] + "; from the cache");
    EXPECT_EQ(first.notes, second.notes);
    for (size_t i = 0; i < first.steps.size(); ++i) {
      const auto cubin = [](const ProgramStep& step) { return step.lax ? step.lax->cubin : ""; };
      EXPECT_EQ(cubin(first.steps[i]), cubin(second.steps[i]));
      EXPECT_EQ(first.steps[i].inputs, second.steps[i].inputs);
    }
  }
}

TEST_F(LaxDecisionsTest, AnotherGpuAndMoreTimeDecideAnew) {
  const hlo::ModulePtr module = layers(1);
  LaxOptions options = remembered();
  const auto taken = [&](double microseconds) { return lax_steps(emit(*module, microseconds, options)).size(); };
  EXPECT_EQ(taken(9), 0U);
  options.device = "another GPU";
  EXPECT_EQ(taken(7), 1U);
  options.device = "a GPU";
  measured_ = 0;
  EXPECT_EQ(taken(7), 0U);
  options.seconds = 599;
  EXPECT_EQ(taken(7), 0U);
  EXPECT_EQ(measured_, 0);
  options.seconds = 601;
  EXPECT_EQ(taken(7), 1U);
  EXPECT_EQ(measured_, 2);
}

TEST_F(LaxDecisionsTest, AllPartsTogetherHaveTheTime) {
  const hlo::ModulePtr module = layers(3);
  LaxOptions options = remembered();
  options.seconds = 10;
  options.deadline = deadline(10);
  each_takes_ = 6;
  const EmittedProgram first = emit(*module, 7, options);
  // The largest took 12 s.
  EXPECT_EQ(measured_, 2);
  ASSERT_EQ(lax_steps(first).size(), 1U) << explain(first);
  EXPECT_GE(first.notes.size(), 2U);
  for (const std::string& note : first.notes)
    EXPECT_NE(note.find("the 10 s for all parts were over"), std::string::npos) << note;
  for (const ProgramStep& step : first.steps) {
    if (!step.lax) continue;
    const Graph& graph = *step.lax->graph;
    EXPECT_EQ(graph.type(graph.outputs()[0]).shape, (Shape{16, 4096}));
  }
  // What there was no time for is no decision: the next run goes on there.
  options.deadline = deadline(10);
  EXPECT_EQ(lax_steps(emit(*module, 7, options)).size(), 2U);
  EXPECT_EQ(measured_, 4);
  options.deadline = deadline(10);
  EXPECT_EQ(lax_steps(emit(*module, 7, options)).size(), 3U);
  options.deadline = deadline(10);
  EXPECT_EQ(lax_steps(emit(*module, 7, options)).size(), 3U);
  EXPECT_EQ(measured_, 6);
}

TEST_F(LaxDecisionsTest, WhatDoesNotFitIsForgotten) {
  const hlo::ModulePtr module = layers(2);
  const std::vector<LaxPart> parts = find_lax_parts(*module);
  ASSERT_EQ(parts.size(), 2U);
  LaxDecision decision;
  decision.step.emplace();
  decision.step->graph = parts[0].program.graph;
  decision.step->cubin = std::string("\0binary\n", 8);
  decision.step->reason = "for a test";
  const auto known = [&](const LaxPart& part) { return find_decision(cache_, "key", 5, part, default_target()); };
  store_decision(cache_, "key", 5, decision);
  EXPECT_FALSE(known(parts[0]));  // not settled
  decision.settled = true;
  store_decision(cache_, "key", 5, decision);
  const auto found = known(parts[0]);
  ASSERT_TRUE(found && found->step);
  EXPECT_EQ(found->step->cubin, decision.step->cubin);
  EXPECT_EQ(found->step->reason, "for a test");
  EXPECT_EQ(found->step->inputs, parts[0].program.inputs);
  EXPECT_FALSE(known(parts[1]));  // another part's
  EXPECT_FALSE(known(parts[0]));
  for (const char* text : {"", "{", "{}\n", R"({"graph": "graph g {}", "manifest": "{}", "reason": ""})"}) {
    cache_.store("part of a module", "key", text, 5);
    EXPECT_FALSE(known(parts[0])) << text;
  }
}

class LaxBudgetOnAGpuTest : public FakeDriverTest {};

TEST_F(LaxBudgetOnAGpuTest, IsMeasuredBesideWhatItReplacesOnce) {
  setenv("STRATA_FAKE_CUDA_SCRIPT", file("script", "time 3\n").c_str(), 1);  // of each kernel
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device) << device.error().to_string();
  ResultCache cache(folder_.path().string(), [](const std::string& warning) { ADD_FAILURE() << warning; });
  int measured = 0;
  LaxOptions options;
  options.seconds = 600;
  options.threads = 2;
  options.cache = &cache;
  options.microseconds = [&](const hlo::Module& part, const LaxStep* step) {
    ++measured;
    return part_microseconds(**device, part, step, {}, LibraryUse::Never);
  };
  for (int run = 0; run < 2; ++run) {
    const auto program = emit_program(*layers(1), {}, LibraryUse::Never, options);
    ASSERT_TRUE(program) << program.error().to_string();
    const std::vector<std::string> steps = lax_steps(*program);
    ASSERT_EQ(steps.size(), 1U) << explain(*program);
    EXPECT_NE(steps[0].find("3 µs measured; kernels and libraries take "), std::string::npos) << steps[0];
    EXPECT_EQ(measured, 2);
  }
}

}  // namespace
}  // namespace strata::emitters

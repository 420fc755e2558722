#include "megakernel/tgraph/plan_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "megakernel/tgraph/compile.h"
#include "megakernel/tgraph/print.h"
#include "megakernel/tgraph/test_graphs.h"

namespace strata::megakernel {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

Compiled compiled_layers(int64_t layers) {
  DecodeLayers model;
  model.layers = layers;
  auto compiled = compile(decode_layers(model), {});
  if (!compiled) ADD_FAILURE() << compiled.error().to_string();
  return compiled ? *std::move(compiled) : Compiled{};
}

TEST(PlanView, ALayerHasItsTasksAndItsNeighbours) {
  const Plan plan = compiled_layers(3).plan;
  EXPECT_EQ(layer_count(plan), 3);
  const auto layer = layer_of(plan, 1);
  ASSERT_TRUE(layer) << layer.error().to_string();
  std::map<std::string, int64_t> tasks;
  for (const TaskGroup& group : layer->groups) tasks[group.name] = group.count();
  // It waits for the layer before it, and the one after it waits for it; all tasks of both ends take part.
  EXPECT_EQ(tasks, (std::map<std::string, int64_t>{{"down.0", 128},
                                                   {"qkv.1", 128},
                                                   {"attention.1", 128},
                                                   {"combine.1", 8},
                                                   {"o.1", 128},
                                                   {"gate_up.1", 128},
                                                   {"down.1", 128},
                                                   {"qkv.2", 128}}));
  std::map<std::string, int64_t> triggers, waits;  // events by operator
  for (const TaskEvent& event : layer->events) {
    for (const auto& [group, blocks] : event.in.groups) ++triggers[layer->groups[static_cast<size_t>(group)].name];
    for (const auto& [group, blocks] : event.out.groups) ++waits[layer->groups[static_cast<size_t>(group)].name];
  }
  // Attention of a key-value head waits for what makes its part of Q, K and V.
  EXPECT_EQ(triggers["qkv.1"], 8);
  EXPECT_EQ(waits["attention.1"], 8);
  EXPECT_EQ(waits["qkv.1"], 1);
  EXPECT_EQ(triggers["down.1"], 1);
  EXPECT_FALSE(triggers.contains("qkv.2"));
  EXPECT_FALSE(waits.contains("down.0"));
  EXPECT_THAT(to_svg(*layer), HasSubstr("down.0: 128 tasks, 1 kinds"));
}

TEST(PlanView, ALayerThatIsNotThereIsRefused) {
  const Plan plan = compiled_layers(1).plan;
  EXPECT_EQ(layer_of(plan, 1).error().message, "the plan has 1 layers, and 1 is none of them");
  EXPECT_EQ(layer_of(plan, -1).error().message, "the plan has 1 layers, and -1 is none of them");
  Plan without = plan;
  for (std::string& name : without.operators) name += ".x";
  EXPECT_EQ(layer_count(without), 0);
}

TEST(PlanView, WordsCountWhatIsThere) {
  const Compiled compiled = compiled_layers(3);
  const std::string text = to_text(PlanFile{"model", {{1, compiled.plan}, {2, compiled.plan}}});
  EXPECT_THAT(text, HasSubstr("plans of model, format 1: 2 batch sizes\nbatch 1: "));
  EXPECT_THAT(text, HasSubstr("\nbatch 2: "));
  EXPECT_THAT(text, HasSubstr(fmt::format("batch 1: {} tasks of 19 operators, {} events (", compiled.plan.tasks.size(),
                                          compiled.plan.events.size())));
  EXPECT_THAT(text, HasSubstr("; 128 workers, 0 schedulers\n"));
  EXPECT_THAT(text, ContainsRegex("\n  qkv( × |\\.)[0-9]: 128 tasks; wait for 1 event \\("));
  EXPECT_THAT(text, HasSubstr("\n  embed: 1 task; wait for nothing, trigger 1 event ("));
  EXPECT_THAT(text, HasSubstr("\n  empty tasks: 1 task; wait for 1 event (counter), trigger nothing\n"));
}

TEST(PlanView, PassesTellWhatTheyDid) {
  const Compiled compiled = compiled_layers(1);
  const auto numbers = [](const TaskGraph& graph) {
    return fmt::format("{:>7} tasks {:>6} events", graph.task_count(), graph.events.size());
  };
  const std::string text = passes_text(compiled);
  const Stages& stages = compiled.stages;
  EXPECT_THAT(text, HasSubstr("dependences    " + numbers(stages.dependences) + "\n"));
  EXPECT_THAT(text, HasSubstr("implied waits  " + numbers(stages.dropped) + "\n"));
  EXPECT_THAT(text, HasSubstr("fusion         " + numbers(stages.fused) + "\n"));
  EXPECT_THAT(text, HasSubstr("normalisation  " + numbers(stages.normalised.graph) + ", "));
  EXPECT_THAT(text, HasSubstr(fmt::format("labels               0 tasks just in time, {} ahead of time, of which 0 ",
                                          compiled.plan.tasks.size())));
  EXPECT_THAT(text, HasSubstr("    128 workers, "));
  EXPECT_LT(stages.dropped.events.size(), stages.dependences.events.size());
}

/// Events that nobody triggers or waits for, as a file that was written by hand may have, are drawn all the same.
TEST(PlanView, LooseEventsAreDrawnBesideTheirTasks) {
  Plan plan;
  plan.operators = {"a.0"};
  plan.events = {{0, 0, 1}, {1, 0, 0}};
  plan.tasks = {{.op = 0, .waits = {0}, .signal = 1}};
  const auto layer = layer_of(plan, 0);
  ASSERT_TRUE(layer) << layer.error().to_string();
  ASSERT_EQ(layer->events.size(), 2U);
  const std::string drawing = to_svg(*layer);
  EXPECT_THAT(drawing, HasSubstr("viewBox=\"0 0 288 "));
}

}  // namespace
}  // namespace strata::megakernel

// Two kernels in one launch: each block of the second runs once, when what it reads is there, whichever block ends
// last.
#include "superopt/codegen/merging.h"

#include <gmock/gmock.h>

#include <set>

#include "ir/views.h"
#include "runtime/storage.h"
#include "superopt/codegen/all_schedules.h"
#include "superopt/codegen/test_host.h"

namespace strata {
namespace {

using testing::HasSubstr;
using testing::Not;

const Target& target() { return targets().back(); }

/// A product whose sum is split in two, for 4 parts of the columns; each part's sums are needed by 2 blocks.
constexpr const char* kSplitProduct = R"(graph split {
  input X: f16[16, 256]
  input W: f16[256, 128]
  P = block(X, W, grid=[2, 4], loop=4) {
    x = in_iter(X, imap=[1, _], fmap=1)
    w = in_iter(W, imap=[0, 1], fmap=0)
    p = matmul(x, w)
    s = accum(p, kind=sum)
    P = out_saver(s, omap=[0, 1], dtype=f32)
  }
  O = block(P, grid=[8], loop=2) {
    q = in_iter(P, imap=[1], fmap=0)
    t = accum(q, kind=sum)
    O = out_saver(t, omap=[1], dtype=f16)
  }
  output O
})";

/// Attention in 4 parts of the keys, 2 heads and 2 parts of the queries; a block of the second kernel has rows of both
/// heads, so that 8 blocks make what 4 read.
constexpr const char* kSplitAttention = R"(graph attention {
  input Q: f16[2, 32, 64]
  input Kt: f16[2, 512, 64]
  input V: f16[2, 512, 64]
  K = transpose(Kt, perm=[0, 2, 1])
  M, Z, P = block(Q, K, V, grid=[2, 2, 4], loop=2) {
    q = in_iter(Q, imap=[0, 1, _])
    k = in_iter(K, imap=[0, _, 2], fmap=2)
    v = in_iter(V, imap=[0, _, 1], fmap=1)
    s = matmul(q, k)
    m = reduce_max(s, dim=2)
    l = sub(s, m)
    e = exp(l)
    z = sum(e, dim=2)
    p = matmul(e, v)
    mm = accum(m, kind=max)
    zz = accum_rescale(z, m)
    pp = accum_rescale(p, m)
    M = out_saver(mm, omap=[0, 1, 2], dtype=f32)
    Z = out_saver(zz, omap=[0, 1, 2], dtype=f32)
    P = out_saver(pp, omap=[0, 1, 2], dtype=f32)
  }
  O = block(M, Z, P, grid=[8], loop=4) {
    m = in_iter(M, imap=[1], fmap=2)
    z = in_iter(Z, imap=[1], fmap=2)
    p = in_iter(P, imap=[1], fmap=2)
    zz = accum_rescale(z, m)
    pp = accum_rescale(p, m)
    d = div(pp, zz)
    O = out_saver(d, omap=[1], dtype=f16)
  }
  output O
})";

/// More blocks in the second kernel than in the first, which reduce rows of several warps in shared memory.
constexpr const char* kManyBehind = R"(graph many {
  input X: f32[16, 256]
  Y = block(X, grid=[2]) {
    x = in_iter(X, imap=[0])
    y = exp(x)
    Y = out_saver(y, omap=[0])
  }
  O = block(Y, grid=[8]) {
    y = in_iter(Y, imap=[0])
    s = sum(y, dim=1)
    d = div(y, s)
    O = out_saver(d, omap=[0])
  }
  output O
})";

GraphPtr parse(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return *graph;
}

MergedPair pair_of(const Graph& graph) {
  for (size_t i = 0; i < graph.operations().size(); ++i) {
    if (!graph.operations()[i].body) continue;
    const LibraryPlan libraries = plan_libraries(graph, {});
    auto pair = MergedPair::find(graph, i, target(), libraries, view_operations(graph, libraries.strided));
    EXPECT_TRUE(pair);
    return *pair;
  }
  ADD_FAILURE() << "no block graph";
  return {};
}

GeneratedProgram generate(const Graph& graph, const BlockSchedule& schedule) {
  Schedules schedules(graph.operations().size());
  schedules[pair_of(graph).first] = schedule;
  auto program = generate_cuda(graph, target(), schedules);
  EXPECT_TRUE(program) << program.error().to_string();
  return *program;
}

void expect_right(const Graph& graph, const GeneratedProgram& program, const HostCompiler& compiler) {
  const HostOutputs outputs = host_outputs(graph, program, uniform_inputs(graph, -1, 1, 5), compiler);
  ASSERT_EQ(outputs.found.size(), 1U);
  EXPECT_LT(relative_error(outputs.found[0], outputs.expected[0]), 2e-3);
}

class Merging : public testing::TestWithParam<const char*> {};

TEST_P(Merging, ComputesWhatTheInterpreterDoes) {
  const GraphPtr graph = parse(GetParam());
  const MergedPair pair = pair_of(*graph);
  const Operation& op = graph->operations()[pair.first];
  std::vector<BlockSchedule> kinds;  // schedules that differ in how blocks end
  for (const BlockSchedule& schedule : block_schedules(op, operand_strides(*graph, op), target())) {
    const bool known = std::any_of(kinds.begin(), kinds.end(), [&](const BlockSchedule& other) {
      return other.bulk == schedule.bulk && other.cluster == schedule.cluster && other.sharers == schedule.sharers;
    });
    if (!known) kinds.push_back(schedule);
  }
  if (kinds.size() > 4) kinds.erase(kinds.begin() + 4, kinds.end());
  for (BlockSchedule schedule : kinds) {
    for (const Handover handover : {Handover::Wait, Handover::Last}) {
      schedule.handover = handover;
      Schedules schedules(graph->operations().size());
      schedules[pair.first] = schedule;
      SCOPED_TRACE(label(schedules));
      GeneratedProgram program = generate(*graph, schedule);
      ASSERT_EQ(program.launches.size(), 1U);
      EXPECT_EQ(program.launches[0].resident, handover == Handover::Wait);
      // Counters serve again: the second run must not find its own results.
      program.launches.push_back(program.launches[0]);
      const bool checked = handover == Handover::Wait && schedule == kinds.front();
      expect_right(*graph, program, checked ? kSanitizedHost : kPlainHost);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Graphs, Merging, testing::Values(kSplitProduct, kSplitAttention, kManyBehind));

TEST(MergingGroups, AreTheBlocksThatNeedEachOther) {
  const MergedPair product = pair_of(*parse(kSplitProduct));
  EXPECT_EQ(product.groups.count(), 4);
  EXPECT_EQ(product.groups.producers, 2);
  EXPECT_EQ(product.groups.consumers, 2);
  EXPECT_EQ(product.groups.group(), "block_y");
  EXPECT_EQ(product.groups.rank(), "block_x");
  EXPECT_EQ(product.groups.consumer("n"), "block_y * 2 + n, 0, 0");
  const MergedPair attention = pair_of(*parse(kSplitAttention));
  EXPECT_EQ(attention.groups.count(), 2);
  EXPECT_EQ(attention.groups.producers, 8);
  EXPECT_EQ(attention.groups.consumers, 4);
  EXPECT_EQ(attention.groups.rank(), "(block_x * 4 + block_z)");
  const MergedPair many = pair_of(*parse(kManyBehind));
  EXPECT_EQ(many.groups.count(), 2);
  EXPECT_EQ(many.groups.consumers, 4);
}

TEST(MergingGroups, WhereAllNeedAllThereIsOne) {
  const GraphPtr graph = parse(R"(graph columns {
    input X: f16[8, 64]
    Y = block(X, grid=[4]) {
      x = in_iter(X, imap=[0])
      y = exp(x)
      Y = out_saver(y, omap=[0])
    }
    O = block(Y, grid=[2]) {
      y = in_iter(Y, imap=[1])
      z = sqr(y)
      O = out_saver(z, omap=[1])
    }
    output O
  })");
  const auto groups = handover_groups(*graph, graph->operations()[0], graph->operations()[1]);
  ASSERT_TRUE(groups);
  EXPECT_EQ(groups->count(), 1);
  EXPECT_EQ(groups->producers, 4);
  EXPECT_EQ(groups->consumers, 2);
}

/// Blocks that go on too early read what is not there yet, and the test's host sees it.
TEST(MergingWaits, AreNeeded) {
  const GraphPtr graph = parse(kSplitProduct);
  const std::tuple<Handover, std::string, std::string> mutants[] = {
      {Handover::Wait, "strata_device::meet_group<strata_device::BlockTeam<64, 0, 1>, 2>(counter, rank == 0);",
       "strata_device::named_barrier(1, 64);"},
      {Handover::Wait, "arrivals + (block_y) * 32", "arrivals + (rank) * 32"},
      {Handover::Last, "if (!strata_device::arrives_last<", "if (strata_device::arrives_last<"}};
  for (const auto& [handover, right, wrong] : mutants) {
    GeneratedProgram program = generate(*graph, {.loop_warps = 2, .stages = 2, .handover = handover});
    const size_t at = program.source.find(right, program.source.find("// The program:"));
    ASSERT_NE(at, std::string::npos) << right;
    program.source.replace(at, right.size(), wrong);
    if (wrong.find("rank") != std::string::npos) {  // which is known before the counter
      const size_t rank = program.source.find("  const int rank", at);
      const std::string line = program.source.substr(rank, program.source.find('\n', rank) + 1 - rank);
      program.source.erase(rank, line.size());
      program.source.insert(program.source.rfind('\n', at) + 1, line);
    }
    const auto found = run_on_host(program, uniform_inputs(*graph, -1, 1, 5), kPlainHost);
    const bool wrong_value = found && !(relative_error((*found)[0], (*found)[0]) == 0);  // NaN
    EXPECT_TRUE(!found || wrong_value) << wrong;
  }
}

TEST(MergingPass, OffMeansALaunchForEachKernel) {
  const GraphPtr graph = parse(kSplitProduct);
  Schedules waiting(2);
  waiting[0] = BlockSchedule{.loop_warps = 2, .stages = 2, .handover = Handover::Wait};
  const auto with = [&](const Passes& passes) { return *generate_cuda(*graph, target(), waiting, passes); };
  const GeneratedProgram merged = with({});
  EXPECT_EQ(merged.launches.size(), 1U);
  EXPECT_THAT(merged.source, HasSubstr("strata_device::meet_group<strata_device::BlockTeam<"));
  EXPECT_THAT(launch_manifest(merged), HasSubstr("\"role\": \"counters\""));
  const GeneratedProgram apart = with({.merging = false});
  EXPECT_EQ(apart.launches.size(), 2U);
  EXPECT_EQ(apart.counters.size(), 0U);
  EXPECT_THAT(apart.source, Not(HasSubstr("arrive_in_group")));
  for (const Schedules& schedules : all_schedules(*graph, target(), {.merging = false})) {
    EXPECT_THAT(label(schedules), Not(HasSubstr("+")));
  }
}

TEST(MergingCost, KnowsWhoDoesTheWork) {
  const GraphPtr graph = parse(kSplitProduct);
  const MergedPair pair = pair_of(*graph);
  std::vector<std::string> labels;
  for (const Schedules& schedules : all_schedules(*graph, target())) {
    labels.push_back(label(schedules));
    EXPECT_EQ(read_label(labels.back()), schedules[pair.first]);
    if (schedules[pair.first]->handover == Handover::Launch) continue;
    Schedules apart = schedules;
    apart[pair.first]->handover = Handover::Launch;
    EXPECT_EQ(scheduled_cost(*graph, target(), schedules).kernels, 1);
    EXPECT_EQ(scheduled_cost(*graph, target(), apart).kernels, 2);
  }
  EXPECT_THAT(labels, testing::Contains(testing::EndsWith("+wait")));
  EXPECT_EQ(std::set<std::string>(labels.begin(), labels.end()).size(), labels.size());
  // What one block does alone takes longer than what many share, and the choice without a schedule is the cheapest.
  const auto block = describe_schedule(*graph, graph->operations()[pair.first], std::nullopt, target());
  const auto seconds = [&](Handover way) { return pair.seconds(*graph, block->code, block->schedule, way, target()); };
  EXPECT_GT(seconds(Handover::Last), seconds(Handover::Wait));
  const double least = std::min(seconds(Handover::Launch), seconds(Handover::Wait));
  EXPECT_EQ(seconds(pair.cheapest(*graph, block->code, block->schedule, target())), least);
  EXPECT_DOUBLE_EQ(scheduled_cost(*graph, target()).seconds, block->seconds + least);
}

TEST(MergingErrors, SayWhy) {
  const GraphPtr graph = parse(kSplitProduct);
  Target small = target();
  small.multiprocessors = 4;
  Schedules schedules(2);
  schedules[0] = BlockSchedule{.loop_warps = 2, .stages = 2, .handover = Handover::Wait};
  const auto program = generate_cuda(*graph, small, schedules);
  ASSERT_FALSE(program);
  EXPECT_THAT(program.error().message, HasSubstr("8 blocks do not run at the same time"));
  schedules[0]->handover = Handover::Last;
  EXPECT_TRUE(generate_cuda(*graph, small, schedules));
  schedules = {std::nullopt, BlockSchedule{.row_warps = 4, .handover = Handover::Last}};
  const auto behind = generate_cuda(*graph, target(), schedules);
  ASSERT_FALSE(behind);
  EXPECT_THAT(behind.error().message, HasSubstr("no kernel that could be part of its launch"));
}

}  // namespace
}  // namespace strata

// Block functions in registers under their schedules: each computes what the interpreter does, whatever divides the
// work: warps of a group, groups of a block, blocks of a cluster.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ir/validate.h"
#include "runtime/storage.h"
#include "superopt/codegen/all_schedules.h"
#include "superopt/codegen/rows.h"
#include "superopt/codegen/test_host.h"
#include "superopt/codegen/tiles/tiles.h"
#include "support/test_rounds.h"

namespace strata {
namespace {

struct Case {
  const char* name;
  const char* text;
  size_t schedules;  ///< how many must be offered at least
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

const Case kCases[] = {
    // Tensors without dimensions: read by a product's block and by rows, and a block of nothing else.
    {"ScaledProduct", R"(graph scaled {
  input T: f16[]
  input X: f16[16, 128]
  input W: f16[128, 64]
  O = block(T, X, W, grid=[2], loop=4) {
    t = in_iter(T, imap=[_])
    x = in_iter(X, imap=[_], fmap=1)
    w = in_iter(W, imap=[1], fmap=0)
    y = mul(x, t)
    p = matmul(y, w)
    s = accum(p, kind=sum)
    O = out_saver(s, omap=[1])
  }
  output O
})",
     4},
    {"ScaledRows", R"(graph scaled {
  input T: f32[]
  input X: f32[16, 128]
  O = block(T, X, grid=[2]) {
    t = in_iter(T, imap=[_])
    x = in_iter(X, imap=[0])
    y = mul(x, t)
    s = sum(y, dim=1)
    d = div(y, s)
    O = out_saver(d, omap=[0])
  }
  output O
})",
     1},
    {"Scalars", R"(graph scalars {
  input X: f32[]
  input Y: f32[]
  O = block(X, Y, grid=[1]) {
    x = in_iter(X, imap=[_])
    y = in_iter(Y, imap=[_])
    p = mul(x, y)
    e = exp(p)
    O = out_saver(e, omap=[_])
  }
  output O
})",
     1},
    {"GatedMlp", R"(graph gated_mlp {
  input X: f16[8, 256]
  input W1: f16[256, 64]
  input W2: f16[256, 64]
  O = block(X, W1, W2, grid=[2], loop=8) {
    x = in_iter(X, imap=[_], fmap=1)
    w1 = in_iter(W1, imap=[1], fmap=0)
    w2 = in_iter(W2, imap=[1], fmap=0)
    p = matmul(x, w1)
    q = matmul(x, w2)
    a = accum(p, kind=sum)
    b = accum(q, kind=sum)
    m = thread(a, b, threads=128) {
      ar = in_iter(a)
      br = in_iter(b)
      s = silu(ar)
      t = mul(s, br)
      o = out_saver(t)
    }
    O = out_saver(m, omap=[1])
  }
  output O
})",
     6},
    // Three tokens fill no block, 48 columns no power of two, and the gain is a vector.
    {"RmsNormOfThreeTokens", R"(graph rmsnorm {
  input X: bf16[3, 128]
  input G: bf16[128]
  input W: bf16[128, 96]
  O = block(X, G, W, grid=[2], loop=8) {
    x = in_iter(X, imap=[_], fmap=1)
    g = in_iter(G, imap=[_], fmap=0)
    w = in_iter(W, imap=[1], fmap=0)
    y = mul(x, g)
    p = matmul(y, w)
    xx = mul(x, x)
    s = sum(xx, dim=1)
    a = accum(p, kind=sum)
    b = accum(s, kind=sum)
    c = scale(b, factor=1/128)
    r = sqrt(c)
    d = div(a, r)
    O = out_saver(d, omap=[1])
  }
  output O
})",
     4},
    // Tiles of whole lines, which TMA takes.
    {"RmsNormOfLines", R"(graph rmsnorm {
  input X: f16[3, 512]
  input G: f16[512]
  input W: f16[512, 128]
  O = block(X, G, W, grid=[2], loop=4) {
    x = in_iter(X, imap=[_], fmap=1)
    g = in_iter(G, imap=[_], fmap=0)
    w = in_iter(W, imap=[1], fmap=0)
    y = mul(x, g)
    p = matmul(y, w)
    xx = mul(x, x)
    s = sum(xx, dim=1)
    a = accum(p, kind=sum)
    b = accum(s, kind=sum)
    c = scale(b, factor=1/512)
    r = sqrt(c)
    d = div(a, r)
    O = out_saver(d, omap=[1])
  }
  output O
})",
     30},
    {"Lora", R"(graph lora {
  input X: f16[16, 128]
  input W: f16[128, 64]
  input A: f16[128, 16]
  input B: f16[16, 64]
  O = block(X, W, A, B, grid=[2], loop=4) {
    x = in_iter(X, imap=[_], fmap=1)
    w = in_iter(W, imap=[1], fmap=0)
    a = in_iter(A, imap=[_], fmap=0)
    b = in_iter(B, imap=[1])
    p = matmul(x, a)
    q = concat_matmul(x, p, w, b)
    s = accum(q, kind=sum)
    O = out_saver(s, omap=[1])
  }
  output O
})",
     4},
    // Keys are read where they lie; the maximum runs along; scaled queries do not change in the loop.
    {"Attention", R"(graph attention {
  input Q: f16[2, 32, 16]
  input Kt: f16[2, 128, 16]
  input V: f16[2, 128, 16]
  K = transpose(Kt, perm=[0, 2, 1])
  O = block(Q, K, V, grid=[2], loop=8) {
    q = in_iter(Q, imap=[0])
    k = in_iter(K, imap=[0], fmap=2)
    v = in_iter(V, imap=[0], fmap=1)
    c = scale(q, factor=1/4)
    s = matmul(c, k)
    m = reduce_max(s, dim=2)
    l = sub(s, m)
    e = exp(l)
    z = sum(e, dim=2)
    p = matmul(e, v)
    zz = accum_rescale(z, m)
    pp = accum_rescale(p, m)
    d = div(pp, zz)
    O = out_saver(d, omap=[0])
  }
  output O
})",
     6},
    // Products of four warps together, the second of which may end in the next iteration.
    {"WideAttention", R"(graph wide_attention {
  input Q: f16[2, 64, 64]
  input Kt: f16[2, 512, 64]
  input V: f16[2, 512, 64]
  K = transpose(Kt, perm=[0, 2, 1])
  O = block(Q, K, V, grid=[2], loop=8) {
    q = in_iter(Q, imap=[0])
    k = in_iter(K, imap=[0], fmap=2)
    v = in_iter(V, imap=[0], fmap=1)
    c = scale(q, factor=1/8)
    s = matmul(c, k)
    m = reduce_max(s, dim=2)
    l = sub(s, m)
    e = exp(l)
    z = sum(e, dim=2)
    p = matmul(e, v)
    zz = accum_rescale(z, m)
    pp = accum_rescale(p, m)
    d = div(pp, zz)
    O = out_saver(d, omap=[0])
  }
  output O
})",
     40},
    // Two `behind` products that read the same rows.
    {"WideAttentionOfTwoValues", R"(graph two_values {
  input Q: f16[1, 64, 64]
  input Kt: f16[1, 256, 64]
  input V: f16[1, 256, 64]
  input U: f16[1, 256, 64]
  K = transpose(Kt, perm=[0, 2, 1])
  O, P = block(Q, K, V, U, grid=[1], loop=4) {
    q = in_iter(Q, imap=[0])
    k = in_iter(K, imap=[0], fmap=2)
    v = in_iter(V, imap=[0], fmap=1)
    u = in_iter(U, imap=[0], fmap=1)
    s = matmul(q, k)
    c = scale(s, factor=1/8)
    e = exp(c)
    p = matmul(e, v)
    r = matmul(e, u)
    pp = accum(p, kind=sum)
    rr = accum(r, kind=sum)
    O = out_saver(pp, omap=[0])
    P = out_saver(rr, omap=[0])
  }
  output O, P
})",
     20},
    // Partial results with their maxima, and a kernel of rows that brings them together.
    {"SplitAttention", R"(graph split {
  input Q: f16[1, 16, 16]
  input K: f16[1, 16, 256]
  input V: f16[1, 256, 16]
  M, Z, P = block(Q, K, V, grid=[1, 1, 4], loop=4) {
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
  O = block(M, Z, P, grid=[4], loop=4) {
    m = in_iter(M, imap=[1], fmap=2)
    z = in_iter(Z, imap=[1], fmap=2)
    p = in_iter(P, imap=[1], fmap=2)
    pp = accum_rescale(p, m)
    zz = accum_rescale(z, m)
    d = div(pp, zz)
    O = out_saver(d, omap=[1], dtype=f16)
  }
  output O
})",
     3},
    // References that are no maxima: the accumulators rescale what they add. A bias keeps the first from running along.
    {"AnyReference", R"(graph any {
  input A: f16[1, 16, 64]
  input B: f16[1, 64, 32]
  input R: f16[1, 16, 64]
  O = block(A, B, R, grid=[1], loop=4) {
    a = in_iter(A, imap=[_], fmap=2)
    b = in_iter(B, imap=[_], fmap=1)
    r = in_iter(R, imap=[_], fmap=2)
    m = reduce_max(r, dim=2)
    p = matmul(a, b)
    x = accum_rescale(p, m)
    O = out_saver(x, omap=[_])
  }
  output O
})",
     2},
    {"BatchesInATile", R"(graph batches {
  input A: bf16[4, 8, 64]
  input B: bf16[4, 64, 24]
  O = block(A, B, grid=[1], loop=2) {
    a = in_iter(A, imap=[_], fmap=2)
    b = in_iter(B, imap=[_], fmap=1)
    p = matmul(a, b)
    s = accum(p, kind=sum)
    t = relu(s)
    O = out_saver(t, omap=[_])
  }
  output O
})",
     2},
    {"NormOfRows", R"(graph norms {
  input H: f16[3, 1000]
  input X: f16[3, 1000]
  input A: f16[1000]
  O = block(H, X, A, grid=[1]) {
    h = in_iter(H, imap=[_])
    x = in_iter(X, imap=[_])
    a = in_iter(A, imap=[_])
    hh = sqr(h)
    s = sum(hh, dim=1)
    r = sqrt(s)
    n = div(h, r)
    y = mul(n, a)
    z = add(x, y)
    m = reduce_max(z, dim=1)
    d = sub(z, m)
    e = exp(d)
    t = sum(e, dim=1)
    o = div(e, t)
    O = out_saver(o, omap=[_])
  }
  output O
})",
     2},
    {"ColumnSums", R"(graph column_sums {
  input X: f16[256, 64]
  O = block(X, grid=[2], loop=8) {
    x = in_iter(X, imap=[1], fmap=0)
    z = sqr(x)
    s = sum(z, dim=0)
    a = accum(s, kind=sum)
    c = sqrt(a)
    O = out_saver(c, omap=[1])
  }
  output O
})",
     2},
    {"OddRowsInALoop", R"(graph odd {
  input X: f32[5, 3, 28]
  O, P = block(X, grid=[1], loop=4) {
    x = in_iter(X, imap=[_], fmap=2)
    z = sqr(x)
    s = sum(z, dim=2)
    a = accum(s, kind=sum)
    b = accum(x, kind=max)
    c = sqrt(a)
    d = div(b, c)
    O = out_saver(d, omap=[_])
    P = out_saver(c, omap=[_])
  }
  output O, P
})",
     2},
};

class BlockSchedules : public testing::TestWithParam<Case> {};

/// Of the schedules of one block graph, a few that differ in what divides the work.
std::vector<BlockSchedule> different(const std::vector<BlockSchedule>& all, size_t most) {
  std::vector<BlockSchedule> chosen;
  for (const BlockSchedule& schedule : all) {
    const bool known = std::any_of(chosen.begin(), chosen.end(), [&](const BlockSchedule& other) {
      return other.row_warps == schedule.row_warps && other.loop_warps == schedule.loop_warps &&
             other.cluster == schedule.cluster && other.bulk == schedule.bulk && other.sharers == schedule.sharers &&
             other.turns == schedule.turns;
    });
    if (!known) chosen.push_back(schedule);
  }
  // From all over the list: the last are the guess's worst, and must be right as well.
  std::vector<BlockSchedule> spread;
  for (size_t i = 0; i < std::min(most, chosen.size()); ++i) {
    spread.push_back(chosen[i * (chosen.size() - 1) / std::max<size_t>(1, std::min(most, chosen.size()) - 1)]);
  }
  // And one of each way to divide the work.
  const auto add_one_where = [&](const auto& is_kind) {
    if (std::any_of(spread.begin(), spread.end(), is_kind)) return;
    const auto found = std::find_if(all.begin(), all.end(), is_kind);
    if (found != all.end()) spread.push_back(*found);
  };
  add_one_where([](const BlockSchedule& schedule) { return schedule.cluster > 1; });
  add_one_where([](const BlockSchedule& schedule) { return schedule.sharers > 1; });
  add_one_where([](const BlockSchedule& schedule) { return schedule.loop_warps > 1; });
  // And one of each kind of loop.
  for (const bool turns : {false, true}) {
    const auto kind = std::find_if(all.begin(), all.end(), [&](const BlockSchedule& schedule) {
      return schedule.wide && schedule.bulk && schedule.turns == turns;
    });
    if (kind != all.end() && std::find(spread.begin(), spread.end(), *kind) == spread.end()) spread.push_back(*kind);
  }
  return spread;
}

TEST_P(BlockSchedules, ComputeWhatTheInterpreterDoes) {
  const auto parsed = parse_graph(GetParam().text);
  ASSERT_TRUE(parsed) << parsed.error().to_string();
  const GraphPtr& graph = *parsed;
  const Target& target = targets().back();
  ASSERT_TRUE(validate(*graph, target));
  const auto inputs = uniform_inputs(*graph, -1, 1, 11);
  for (size_t i = 0; i < graph->operations().size(); ++i) {
    const Operation& op = graph->operations()[i];
    if (!op.body) continue;
    const auto offered = block_schedules(op, operand_strides(*graph, op), target);
    EXPECT_GE(offered.size(), GetParam().schedules);
    const auto chosen = different(offered, static_cast<size_t>(rounds(6)));
    for (const BlockSchedule& schedule : chosen) {
      SCOPED_TRACE(testing::Message() << "operation " << i << ", row warps " << schedule.row_warps << ", loop warps "
                                      << schedule.loop_warps << ", stages " << schedule.stages << ", cluster "
                                      << schedule.cluster << (schedule.bulk ? ", TMA, sharers " : ", sharers ")
                                      << schedule.sharers << (schedule.turns ? ", turns" : ""));
      Schedules schedules(graph->operations().size());
      schedules[i] = schedule;
      const auto program = generate_cuda(*graph, target, schedules);
      ASSERT_TRUE(program) << program.error().to_string();
      // The memory plan is checked by the first, the order of threads by all.
      const HostCompiler& compiler = &schedule == &chosen.front() ? kSanitizedHost : kPlainHost;
      const HostOutputs outputs = host_outputs(*graph, *program, inputs, compiler);
      for (size_t n = 0; n < outputs.found.size(); ++n) {
        const DType type = graph->type(graph->outputs()[n]).dtype;
        EXPECT_LT(relative_error(outputs.found[n], outputs.expected[n]), type == DType::F32   ? 1e-5
                                                                         : type == DType::F16 ? 2e-3
                                                                                              : 1.5e-2);
      }
    }
  }
}

/// References that are exceeded by much in one iteration, by little in the next: running_reference.h, and what is
/// multiplied only where a reference has moved.
class Rescaling : public testing::TestWithParam<const char*> {};

TEST_P(Rescaling, FollowsMaximaThatGrow) {
  // Attention and its largest scores; its powers' sums, relative to scores that are not saved.
  const bool attention = GetParam() == std::string("Attention");
  const std::string results = attention ? R"(
    v = in_iter(V, imap=[0], fmap=1)
    p = matmul(e, v)
    o = accum_rescale(p, m)
    r = div(o, d)
    t = accum(m, kind=max)
    O = out_saver(r, omap=[0])
    T = out_saver(t, omap=[0])
  }
  output O, T
})"
                                        : R"(
    O = out_saver(d, omap=[0])
  }
  output O
})";
  const auto parsed = parse_graph((attention ? R"(graph g {
  input Q: f16[2, 128, 64]
  input K: f16[2, 64, 1024]
  input V: f16[2, 1024, 64]
  O, T = block(Q, K, V, grid=[2], loop=16) {)"
                                             : R"(graph g {
  input Q: f16[2, 128, 64]
  input K: f16[2, 64, 1024]
  O = block(Q, K, grid=[2], loop=16) {)") +
                                  std::string(R"(
    q = in_iter(Q, imap=[0])
    k = in_iter(K, imap=[0], fmap=2)
    a = matmul(q, k)
    m = reduce_max(a, dim=2)
    s = sub(a, m)
    e = exp(s)
    z = sum(e, dim=2)
    d = accum_rescale(z, m))") + results);
  ASSERT_TRUE(parsed) << parsed.error().to_string();
  const GraphPtr& graph = *parsed;
  const Target& target = targets().back();
  auto inputs = uniform_inputs(*graph, -1, 1, 12);
  for (size_t i = 0; i < inputs[1].data.size(); ++i) {  // keys grow, by steps of different size
    const size_t tile = i % 1024 / 64;
    const double growth = 0.25 * static_cast<double>(tile / 4 * 4 + 1) + (tile % 2 == 1 ? 0.1 : 0.0);
    inputs[1].data[i] = round_to(inputs[1].data[i] * growth, DType::F16);
  }
  const Operation& op = graph->operations().front();
  const auto offered = block_schedules(op, operand_strides(*graph, op), target);
  std::vector<BlockSchedule> chosen = different(offered, 5);
  const auto halves = std::find_if(offered.begin(), offered.end(), [](const BlockSchedule& schedule) {
    return schedule.turns && schedule.row_warps == 8 && schedule.loop_warps == 1;
  });
  ASSERT_EQ(halves != offered.end(), attention);
  if (attention) chosen.push_back(*halves);
  std::set<std::pair<bool, bool>> kinds;
  for (const BlockSchedule& schedule : chosen) {
    SCOPED_TRACE(label({schedule}));
    kinds.insert({schedule.wide, schedule.groups() > 1});
    const auto program = generate_cuda(*graph, target, {schedule});
    ASSERT_TRUE(program) << program.error().to_string();
    const HostOutputs outputs = host_outputs(*graph, *program, inputs, kPlainHost);
    for (size_t n = 0; n < outputs.found.size(); ++n)
      EXPECT_LT(relative_error(outputs.found[n], outputs.expected[n]), 2e-3);
  }
  EXPECT_GE(kinds.size(), 3U);
}

INSTANTIATE_TEST_SUITE_P(Programs, Rescaling, testing::Values("Attention", "PowersSums"),
                         [](const auto& test) { return std::string(test.param); });

INSTANTIATE_TEST_SUITE_P(Graphs, BlockSchedules, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace strata

// Attention over a cache and what is appended to it: blocks read the cache where it lies.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/test_programs.h"
#include "runtime/compile.h"
#include "runtime/launch_accesses.h"
#include "runtime/storage.h"
#include "superopt/codegen/generate.h"
#include "superopt/codegen/test_host.h"
#include "superopt/codegen/test_touched.h"

namespace strata::compiler {
namespace {

struct Cache {
  int past = 120;
  int fresh = 8;
  int loop = 4;
  const char* outputs = "  output O\n";

  std::string text() const {
    return fmt::format(R"(graph g {{
  input Q: bf16[2, 16, 32]
  input PastK: bf16[2, 32, {0}]
  input K: bf16[{1}, 64]
  input PastV: bf16[2, {0}, 32]
  input V: bf16[{1}, 64]
  Kheads = reshape(K, shape=[{1}, 2, 32])
  Knew = transpose(Kheads, perm=[1, 2, 0])
  Kall = concat(PastK, Knew, dim=2)
  Vheads = reshape(V, shape=[{1}, 2, 32])
  Vnew = transpose(Vheads, perm=[1, 0, 2])
  Vall = concat(PastV, Vnew, dim=1)
  O = block(Q, Kall, Vall, grid=[2], loop={2}) {{
    q = in_iter(Q, imap=[0])
    k = in_iter(Kall, imap=[0], fmap=2)
    v = in_iter(Vall, imap=[0], fmap=1)
    s = matmul(q, k)
    e = exp(s)
    t = sum(e, dim=2)
    p = matmul(e, v)
    a = accum(t, kind=sum)
    b = accum(p, kind=sum)
    d = div(b, a)
    O = out_saver(d, omap=[0])
  }}
{3}}})",
                       past, fresh, loop, outputs);
  }
};

size_t number_of_block(const Graph& graph) {
  size_t number = 0;
  while (!graph.operations()[number].body) ++number;
  return number;
}

Shape shape_of(const GeneratedProgram& program, const std::string& name) {
  for (const DeviceBuffer& buffer : program.intermediates) {
    if (buffer.name == name) return buffer.type.shape;
  }
  return {};
}

void expect_right(const Graph& graph, const GeneratedProgram& program) {
  const HostOutputs outputs = host_outputs(graph, program, uniform_inputs(graph, -1, 1, 7), kPlainHost);
  ASSERT_FALSE(outputs.expected.empty());
  for (size_t i = 0; i < outputs.expected.size(); ++i)
    EXPECT_LT(relative_error(outputs.found[i], outputs.expected[i]), 2e-2);
}

TEST(Fronts, CachesAreReadWhereTheyLie) {
  const Target& target = **find_target("sm_90a");
  const GraphPtr graph = parsed(Cache{}.text());
  const size_t number = number_of_block(*graph);
  // Tiles by TMA, by cp.async, of several groups, and the emitter that takes every graph.
  std::vector<Schedules> all(3, Schedules(number + 1));
  all[0][number] = BlockSchedule{.stages = 2, .bulk = true};
  all[1][number] = BlockSchedule{.loop_warps = 2, .stages = 2};
  for (size_t i = 0; i < all.size(); ++i) {
    Passes passes = with_emitters();
    passes.registers = i < 2;
    const auto program = generate_cuda(*graph, target, all[i], passes);
    ASSERT_TRUE(program) << program.error().to_string();
    ASSERT_EQ(program->launches.size(), 2U);
    EXPECT_EQ(shape_of(*program, "Kall"), (Shape{2, 32, 32}));
    EXPECT_EQ(shape_of(*program, "Vall"), (Shape{2, 32, 32}));
    EXPECT_EQ(program->launches[1].arguments, (std::vector<std::string>{"Q", "Kall", "Vall", "O", "PastK", "PastV"}));
    // What both write, what is new, and the cache's last rows.
    EXPECT_EQ(program->launches[0].device_bytes, 2 * (2 * 2 * 32 * 32 * 2));
    EXPECT_EQ(program->launches[1].tensor_maps.size(), i == 0 ? 5U : 0U);
    expect_right(*graph, *program);
    if (!nvrtc_version()) continue;
    const auto cubin = compile_cubin(program->source, target);
    EXPECT_TRUE(cubin) << cubin.error().to_string();
  }
}

/// A block touches of the cache, and of what is copied, just what the manifest says. The emitters' kernel is assembly
/// on the host, where nobody notes what it touches: of it, all of what is copied is said to be written.
TEST(Fronts, ManifestsSayWhatIsTouchedOfBothMemories) {
  const GraphPtr graph = parsed(Cache{}.text());
  Schedules schedules(number_of_block(*graph) + 1);
  schedules.back() = BlockSchedule{.loop_warps = 2, .stages = 2};
  const auto program = generate_cuda(*graph, **find_target("sm_90a"), schedules, with_emitters());
  ASSERT_TRUE(program) << program.error().to_string();
  const LaunchManifest manifest = manifest_of(*program);
  ASSERT_EQ(manifest.steps.size(), 2U);
  const auto checked = check_accesses(manifest);
  EXPECT_TRUE(checked) << checked.error().to_string();
  SaidTouches said = said_touches(manifest);
  std::map<std::string, std::set<int64_t>> copied;
  for (const auto& [key, elements] : said.all) {
    if (key.launch == 0 && key.writes) copied[key.buffer].insert(elements.begin(), elements.end());
  }
  for (const char* name : {"Kall", "Vall"}) EXPECT_EQ(std::ssize(copied[name]), 2 * 32 * 32) << name;
  std::erase_if(said.exact, [](const auto& one) { return one.first.launch == 0; });
  EXPECT_EQ(difference(said, touched_on_host(*program, uniform_inputs(*graph, -1, 1, 7))), "") << *print(manifest);
}

TEST(Fronts, OfOtherSizes) {
  const Target& target = **find_target("sm_90a");
  struct Case {
    Cache cache;
    Shape keys, values;
    bool runs = false;  // on the host too
  };
  for (const Case& c : {
           // No row of the cache is copied; all but a few tiles are; keys of rows that begin at no 16 bytes.
           Case{{.past = 96, .fresh = 32}, {2, 32, 32}, {2, 32, 32}, true},
           Case{{.past = 40, .fresh = 88}, {2, 32, 96}, {2, 96, 32}},
           Case{{.past = 127, .fresh = 1, .loop = 8}, {2, 32, 128}, {2, 16, 32}, true},
           // No tile lies in the cache alone.
           Case{{.past = 24, .fresh = 104}, {2, 32, 128}, {2, 128, 32}},
           // Somebody else reads the keys, who takes no two memories.
           Case{{.outputs = "  P = sqr(Kall)\n  output O, P, Vall\n"}, {2, 32, 128}, {}},
       }) {
    const GraphPtr graph = parsed(c.cache.text());
    const auto program = generate_cuda(*graph, target, {}, with_emitters());
    ASSERT_TRUE(program) << program.error().to_string();
    EXPECT_EQ(shape_of(*program, "Kall"), c.keys) << c.cache.past;
    EXPECT_EQ(shape_of(*program, "Vall"), c.values) << c.cache.past;
    if (c.runs) expect_right(*graph, *program);
  }
}

}  // namespace
}  // namespace strata::compiler

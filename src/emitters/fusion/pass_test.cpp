#include "emitters/fusion/pass.h"

#include <gtest/gtest.h>

#include <map>

#include "emitters/fusion/recompute.h"
#include "emitters/kinds/plan.h"
#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/random_fusion.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "support/random.h"

namespace strata::emitters {
namespace {

/// How many instructions were rated, in all groups, to cut a text of `count` of them into parts.
int64_t rated(const std::string& text, size_t* parts = nullptr) {
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << (module ? "" : module.error().to_string());
  if (!module) return 0;
  FusionWork work;
  const size_t count = fuse(**module, default_target(), Parameters::Kept, &work).size();
  if (parts != nullptr) *parts = count;
  return work.instructions_rated;
}

TEST(FusionWork, IsNearlyLinearForChains) {
  const auto chain = [](int count) {
    std::string text = "ENTRY e {\n  x0 = f32[4096] parameter(0)\n";
    for (int i = 0; i < count; ++i)
      text += fmt::format("  x{} = f32[4096] {}(x{})\n", i + 1, i % 2 == 0 ? "negate" : "abs", i);
    return text + "}\n";
  };
  size_t parts = 0;
  const int64_t work = rated(chain(6000), &parts);
  EXPECT_LE(parts, 60);
  EXPECT_LE(work, 100 * 6000);
}

TEST(FusionWork, IsNearlyLinearForManyReadersOfOneArray) {
  constexpr int kCount = 3000;
  std::string text = "ENTRY e {\n  x = f32[4096] parameter(0)\n  y = f32[4096] sine(x)\n";
  std::string names;
  for (int i = 0; i < kCount; ++i) {
    text += fmt::format("  a{} = f32[4000] slice(y), slice={{[{}:{}]}}\n", i, i % 96, i % 96 + 4000);
    names += fmt::format("{}a{}", i == 0 ? "" : ", ", i);
  }
  EXPECT_LE(rated(text + fmt::format("  ROOT t = tuple({})\n}}\n", names)), 500 * kCount);
}

/// h ← tanh(h · w + x[t] · v), so many steps one after the other, with products as sums.
std::string unrolled_loop(int steps) {
  std::string text = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)\n}\n";
  text += "ENTRY e {\n  zero = f32[] constant(0)\n  v = f32[4,24] parameter(0)\n  w = f32[24,24] parameter(1)\n";
  text += fmt::format("  h0 = f32[3,24] parameter(2)\n  x = f32[{},3,4] parameter(3)\n", steps);
  const auto product = [&](char name, int t, const std::string& of, int terms, char by) {
    const std::string shape = fmt::format("f32[3,{},24]", terms);
    text += fmt::format("  {0}{1}.0 = {2} broadcast({3}), dimensions={{0,1}}\n", name, t, shape, of);
    text += fmt::format("  {0}{1}.1 = {2} broadcast({3}), dimensions={{1,2}}\n", name, t, shape, by);
    text += fmt::format("  {0}{1}.2 = {2} multiply({0}{1}.0, {0}{1}.1)\n", name, t, shape);
    text += fmt::format("  {0}{1} = f32[3,24] reduce({0}{1}.2, zero), dimensions={{1}}, to_apply=add\n", name, t);
  };
  for (int t = 0; t < steps; ++t) {
    text += fmt::format("  s{0} = f32[1,3,4] slice(x), slice={{[{0}:{1}], [0:3], [0:4]}}\n", t, t + 1);
    text += fmt::format("  r{0} = f32[3,4] reshape(s{0})\n", t);
    product('a', t, fmt::format("h{}", t), 24, 'w');
    product('b', t, fmt::format("r{}", t), 4, 'v');
    text += fmt::format("  c{0} = f32[3,24] add(a{0}, b{0})\n  h{1} = f32[3,24] tanh(c{0})\n", t, t + 1);
  }
  return text + "}\n";
}

// Threads of a kernel that has many steps compute them one after the other, so that large groups stop growing. Beyond
// 100 times the instructions only small ones would join.
TEST(FusionWork, IsNearlyLinearForUnrolledLoops) {
  for (const int steps : {60, 100, 200}) {
    const auto module = hlo::parse_module(unrolled_loop(steps));
    ASSERT_TRUE(module) << module.error().to_string();
    const auto count = std::ssize((*module)->entry_computation().instructions);
    FusionWork work;
    fuse(**module, default_target(), Parameters::Kept, &work);
    EXPECT_LE(work.instructions_built, 30 * count) << steps;
  }
}

/// Updates of `count` parameters of one shape, which share nothing.
std::string independent_updates(int count) {
  std::string text = "ENTRY e {\n";
  std::string names;
  for (int i = 0; i < count; ++i) {
    text += fmt::format("  p{0} = f32[4096] parameter({1})\n  g{0} = f32[4096] parameter({2})\n", i, 2 * i, 2 * i + 1);
    text += fmt::format("  s{0} = f32[4096] multiply(g{0}, g{0})\n  r{0} = f32[4096] sqrt(s{0})\n", i);
    text += fmt::format("  d{0} = f32[4096] divide(g{0}, r{0})\n  n{0} = f32[4096] subtract(p{0}, d{0})\n", i);
    names += fmt::format("{}n{}", i == 0 ? "" : ", ", i);
  }
  return text + fmt::format("  ROOT t = tuple({})\n}}\n", names);
}

TEST(FusionWork, EstimatesNoMoreKernelsForMoreParametersOfOneShape) {
  const auto work_of = [](int count) {
    FusionWork work;
    fuse(**hlo::parse_module(independent_updates(count)), default_target(), Parameters::Kept, &work);
    return work;
  };
  const FusionWork few = work_of(2), many = work_of(200);
  EXPECT_GT(few.kernels_rated, 1);
  EXPECT_LE(many.kernels_rated, few.kernels_rated);
  EXPECT_LE(many.instructions_rated, 101 * few.instructions_rated);
}

TEST(Ratings, AreThoseOfModulesRatedAlone) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const hlo::ModulePtr module = hlo::random_fusion(seed);
    Ratings shared(default_target());
    const std::vector<ProgramPart> first = fuse(*module, shared);
    const int64_t computed = shared.computed();
    const std::vector<ProgramPart> again = fuse(*module, shared);
    EXPECT_EQ(shared.computed(), computed) << "seed " << seed;
    const std::vector<ProgramPart> alone = fuse(*module, default_target());
    ASSERT_EQ(first.size(), alone.size());
    ASSERT_EQ(again.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(hlo::print(first[i].module), hlo::print(alone[i].module));
      EXPECT_EQ(hlo::print(again[i].module), hlo::print(alone[i].module));
      if (alone[i].interpreted) continue;
      EXPECT_EQ(first[i].microseconds, estimated_microseconds(first[i].module, default_target())) << "seed " << seed;
    }
  }
}

TEST(Ratings, OfGroupsAreThoseOfTheirParts) {
  hlo::RandomFusionOptions options;
  options.max_instructions = 60;
  options.max_elements = 5000;
  options.control = false;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const hlo::ModulePtr module = hlo::random_fusion(seed, options);
    for (const size_t most : {2, 5, 400}) {
      Ratings ratings(default_target());
      for (const ProgramPart& part : fuse(*module, ratings, Parameters::Kept, nullptr, most)) {
        if (part.interpreted) continue;
        EXPECT_EQ(part.microseconds, estimated_microseconds(part.module, default_target())) << "seed " << seed << "\n"
                                                                                            << hlo::print(part.module);
      }
    }
  }
}

TEST(FusionWork, EndsForLongChainsOfWhatCannotJoin) {
  constexpr int kCount = 20000;
  // Products stay kernels of their own.
  std::string text = "ENTRY e {\n  x0 = f32[4,4] parameter(0)\n";
  for (int i = 0; i < kCount; ++i)
    text += fmt::format("  x{} = f32[4,4] dot(x{}, x{}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n",
                        i + 1, i, i);
  size_t parts = 0;
  EXPECT_LE(rated(text + "}\n", &parts), 2 * kCount);
  EXPECT_EQ(parts, kCount);
}

/// What instructions of a module take as kernels of their own.
struct Apart {
  std::map<hlo::InstructionId, double> microseconds;
  double operations = 0, longest_thread = 0;
  int launches = 0;
};

Apart apart(const hlo::Module& module) {
  Apart result;
  for (const ProgramPart& part : fuse(module, default_target(), Parameters::Kept, nullptr, /*most_instructions=*/1)) {
    if (part.interpreted) continue;
    const KernelWork work = kernel_work(part.module, default_target());
    for (const hlo::InstructionId id : part.instructions) result.microseconds[id] = part.microseconds;
    result.operations += work.operations;
    result.longest_thread = std::max(result.longest_thread, work.of_longest_thread);
    ++result.launches;
  }
  return result;
}

/// What is wrong with the kernels that a module is cut into. Each takes no longer than its instructions as kernels of
/// their own, one after the other, which bounds its longest thread too. Beside that, which is time: together they
/// compute no more than twice what those do, or than the launches saved would take (why the latter: the test
/// below), no thread does more than twice the longest of those (or some thousands of operations), and none computes a
/// long reduction again.
std::string excess(const hlo::Module& module, int* kernels = nullptr) {
  constexpr double kFewOperations = 4096;
  constexpr double kRounding = 1e-9;
  const Target& target = default_target();
  const double operations_of_a_launch = target.kernel_seconds() * target.rates.scalar_rate / 2;
  const Apart alone = apart(module);
  const double longest_alone = std::max(alone.longest_thread, kFewOperations);
  int launches_saved = alone.launches;
  double together = 0;
  for (const ProgramPart& part : fuse(module, target)) {
    if (part.interpreted) continue;
    const KernelWork work = kernel_work(part.module, target);
    together += work.operations;
    --launches_saved;
    if (kernels != nullptr) ++*kernels;
    if (work.serial) return "threads compute long reductions by themselves in\n" + hlo::print(part.module);
    if (!work.repeated.empty()) return "a long reduction is computed again in\n" + hlo::print(part.module);
    if (work.of_longest_thread > 2 * longest_alone) {
      return fmt::format("a thread of {} operations, alone {}, in\n{}", work.of_longest_thread, longest_alone,
                         hlo::print(part.module));
    }
    double apart = 0;
    for (const hlo::InstructionId id : part.instructions) apart += alone.microseconds.at(id);
    const KernelTime time = kernel_time(part.module, target);
    if (time.all > (1 + kRounding) * apart || time.launch + time.thread > (1 + kRounding) * apart) {
      return fmt::format("{} µs, a thread {}; apart {}, in\n{}", time.all, time.thread, apart, hlo::print(part.module));
    }
  }
  return together > 2 * alone.operations + launches_saved * operations_of_a_launch
             ? fmt::format("{} operations, alone {}", together, alone.operations)
             : "";
}

TEST(Fusion, DoesNotComputeAgainNorMakeLongThreadsOfRandomModules) {
  int kernels = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    hlo::RandomFusionOptions options;
    options.max_instructions = 24;
    options.max_elements = int64_t{1} << 22;  // estimated, not run
    const hlo::ModulePtr module = hlo::random_fusion(seed, options);
    const std::string wrong = excess(*module, &kernels);
    EXPECT_EQ(wrong, "") << "seed " << seed << "\n" << (wrong.empty() ? "" : hlo::print(*module));
  }
  EXPECT_GE(kernels, 400);
}

/// A chain of products by reductions, norms, softmax and sums, each of the one before, over rows or columns at random.
std::string random_chain(uint64_t seed) {
  Random random(seed);
  const auto size = [&] { return int64_t{1} << random.below(13); };
  int64_t n = size();
  std::string text =
      "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"
      "ENTRY e {\n  zero = f32[] constant(0)\n" +
      fmt::format("  x0 = f32[{}] parameter(0)\n", n);
  int at = 0, parameters = 1;
  const int steps = 2 + static_cast<int>(random.below(8));
  for (int i = 0; i < steps; ++i, ++at) {
    switch (random.below(3)) {
      case 0: {  // a product with a matrix
        const int64_t rows = size();
        const bool by_rows = random.below(2) == 0;
        const std::string shape = by_rows ? fmt::format("f32[{},{}]", rows, n) : fmt::format("f32[{},{}]", n, rows);
        text += fmt::format("  w{} = {} parameter({})\n", i, shape, parameters++);
        text += fmt::format("  b{} = {} broadcast(x{}), dimensions={{{}}}\n", i, shape, at, by_rows ? 1 : 0);
        text += fmt::format("  m{} = {} multiply(w{}, b{})\n", i, shape, i, i);
        text += fmt::format("  x{} = f32[{}] reduce(m{}, zero), dimensions={{{}}}, to_apply=sum\n", at + 1, rows, i,
                            by_rows ? 1 : 0);
        n = rows;
        break;
      }
      case 1:  // divided by its norm
        text += fmt::format("  q{} = f32[{}] multiply(x{}, x{})\n", i, n, at, at);
        text += fmt::format("  s{} = f32[] reduce(q{}, zero), dimensions={{0}}, to_apply=sum\n", i, i);
        text +=
            fmt::format("  r{} = f32[] rsqrt(s{})\n  t{} = f32[{}] broadcast(r{}), dimensions={{}}\n", i, i, i, n, i);
        text += fmt::format("  x{} = f32[{}] multiply(x{}, t{})\n", at + 1, n, at, i);
        break;
      default:
        text += fmt::format("  x{} = f32[{}] {}(x{})\n", at + 1, n, random.below(2) == 0 ? "exponential" : "tanh", at);
    }
  }
  return text + fmt::format("  ROOT y = f32[{}] negate(x{})\n}}\n", n, at);
}

TEST(Fusion, DoesNotComputeAgainNorMakeLongThreadsOfChainsOfReductions) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const std::string text = random_chain(seed);
    const auto module = hlo::parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string() << text;
    EXPECT_EQ(excess(**module), "") << "seed " << seed << "\n" << text;
  }
}

/// "At most twice the operations" alone, without what launches and bytes cost, would be a wrong rule: a product of a
/// matrix by few rows computes functions of its vector again for each row, while it waits for the matrix.
TEST(Fusion, MoreThanTwiceTheOperationsMayBeLessTime) {
  const auto module = hlo::parse_module(R"(
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e {
  w = f32[4096,4096] parameter(0)
  x = f32[4096] parameter(1)
  t = f32[4096] tanh(x)
  ts = f32[4096,4096] broadcast(t), dimensions={1}
  m = f32[4096,4096] multiply(w, ts)
  zero = f32[] constant(0)
  ROOT y = f32[4096] reduce(m, zero), dimensions={1}, to_apply=sum
})");
  ASSERT_TRUE(module) << module.error().message;
  const std::vector<ProgramPart> parts = fuse(**module, default_target());
  ASSERT_EQ(parts.size(), 1u);
  const KernelWork work = kernel_work(parts[0].module, default_target());
  // Written once, the function would be evaluated 4096 times, and the matrix read by the second kernel alone.
  hlo::Module given = **module;
  hlo::Instruction& t = given.computations[static_cast<size_t>(given.entry)].instructions[2];
  ASSERT_EQ(t.name, "t");
  t.opcode = hlo::Opcode::Copy;
  const KernelWork second = kernel_work(given, default_target());
  EXPECT_GT(work.operations, 2 * second.operations);
  EXPECT_LT(parts[0].microseconds,
            estimated_microseconds(given, default_target()) + 1e6 * default_target().kernel_seconds());
  EXPECT_EQ(excess(**module), "");
}

/// Of lengths around what the reduction emitter takes, with what is copied into every part and with tuples.
/// Levels of x[i / 2] · 3 where i is even, and x[i / 2] + x[(i / 2 + 1) mod n] where it is odd, as gradients of scans
/// have them: each level reads the one before at two places.
std::string interleaved_levels(int levels, int64_t elements) {
  std::string text = "HloModule m\nENTRY e {\n  zero = f32[] constant(0)\n  three = f32[] constant(3)\n";
  text += fmt::format("  x0 = f32[4096,{}] parameter(0)\n", elements);
  for (int level = 1; level <= levels; ++level, elements *= 2) {
    const int before = level - 1;
    text += fmt::format(
        "  threes{0} = f32[4096,{2}] broadcast(three), dimensions={{}}\n"
        "  even{0} = f32[4096,{2}] multiply(x{1}, threes{0})\n"
        "  first{0} = f32[4096,1] slice(x{1}), slice={{[0:4096], [0:1]}}\n"
        "  rest{0} = f32[4096,{3}] slice(x{1}), slice={{[0:4096], [1:{2}]}}\n"
        "  turned{0} = f32[4096,{2}] concatenate(rest{0}, first{0}), dimensions={{1}}\n"
        "  odd{0} = f32[4096,{2}] add(x{1}, turned{0})\n"
        "  evens{0} = f32[4096,{4}] pad(even{0}, zero), padding=0_0x0_1_1\n"
        "  odds{0} = f32[4096,{4}] pad(odd{0}, zero), padding=0_0x1_0_1\n"
        "  {5}x{0} = f32[4096,{4}] add(evens{0}, odds{0})\n",
        level, before, elements, elements - 1, 2 * elements, level == levels ? "ROOT " : "");
  }
  return text + "}\n";
}

TEST(Fusion, CutsWhatWouldRepeatItsCodeInEveryLevel) {
  const auto module = hlo::parse_module(interleaved_levels(7, 2));
  ASSERT_TRUE(module) << module.error().message;
  const Target& target = default_target();
  size_t kernels = 0;
  for (const ProgramPart& part : fuse(**module, target)) {
    EXPECT_LE(kernel_work(part.module, target).repeated_code, 1024) << hlo::print(part.module);
    ++kernels;
  }
  EXPECT_GE(kernels, 2u);
  // Two levels of it are one kernel, as before.
  const auto two = hlo::parse_module(interleaved_levels(2, 48));
  ASSERT_TRUE(two) << two.error().message;
  EXPECT_EQ(fuse(**two, target).size(), 1u);
}

TEST(Fusion, KeepsShortReductionsOnTheGpu) {
  for (const int n : {31, 33, 40, 63, 64, 65, 100}) {
    for (const bool argmax : {false, true}) {
      const std::string text = argmax ? fmt::format(R"(
both {{
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  p = pred[] compare(a, b), direction=GE
  x = f32[] select(p, a, b)
  k = s32[] select(p, i, j)
  ROOT t = (f32[], s32[]) tuple(x, k)
}}
ENTRY e {{
  x = f32[{0}] parameter(0)
  i = s32[{0}] iota(), iota_dimension=0
  low = f32[] constant(-1e30)
  zero = s32[] constant(0)
  r = (f32[], s32[]) reduce(x, i, low, zero), dimensions={{0}}, to_apply=both
  m = f32[] get-tuple-element(r), index=0
  k = s32[] get-tuple-element(r), index=1
  b = f32[{0}] broadcast(m), dimensions={{}}
  d = f32[{0}] subtract(x, b)
  ROOT t = (f32[{0}], s32[]) tuple(d, k)
}})",
                                                    n)
                                      : fmt::format(R"(
sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
ENTRY e {{
  x = f32[{0}] parameter(0)
  c = bf16[] constant(0)
  z = f32[] convert(c)
  s = f32[] reduce(x, z), dimensions={{0}}, to_apply=sum
  b = f32[{0}] broadcast(s), dimensions={{}}
  ROOT d = f32[{0}] divide(x, b)
}})",
                                                    n);
      const auto module = hlo::parse_module(text);
      ASSERT_TRUE(module) << module.error().to_string();
      const Target& target = default_target();
      for (const ProgramPart& part : fuse(**module, target)) {
        EXPECT_FALSE(part.interpreted);
        EXPECT_TRUE(choose_plan({part.module, part.module.entry, target})) << n << hlo::print(part.module);
      }
    }
  }
}

/// How many kernels a text is cut into.
size_t kernels_of(const std::string& text) {
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << (module ? "" : module.error().to_string());
  return module ? fuse(**module, default_target()).size() : 0;
}

TEST(Fusion, WritesRowsOfAProductInTheirOrderWhereBatchesLieBesideEachOther) {
  const auto text = [](int batches) {
    return fmt::format(
        "ENTRY e {{\n  a = bf16[16,512,{0}] parameter(0)\n  w = bf16[{0},1000,512] parameter(1)\n"
        "  t = bf16[{0},16,512] transpose(a), dimensions={{2,0,1}}\n"
        "  ROOT d = f32[{0},16,1000] dot(t, w), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, "
        "rhs_batch_dims={{0}}, rhs_contracting_dims={{2}}\n}}\n",
        batches);
  };
  // Each of 32 warps along the columns of a batch would read a sector for each of 16 · 512 elements.
  EXPECT_EQ(kernels_of(text(24)), 2u);
  EXPECT_EQ(kernels_of(text(1)), 1u);  // they do not move
}

TEST(Fusion, IsRefusedByEmittersWhereAReductionIsComputedAgain) {
  const auto module = hlo::parse_module(R"(
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  zero = f32[] constant(0)
  w = f32[4096,4096] parameter(0)
  y = f32[4096] reduce(w, zero), dimensions={1}, to_apply=sum
  q = f32[4096,8] broadcast(y), dimensions={0}
  p = f32[4096,8] parameter(1)
  ROOT d = f32[4096,8] add(p, q)
}
)");
  ASSERT_TRUE(module) << module.error().to_string();
  const Target& target = default_target();
  const auto plan = choose_plan({**module, (*module)->entry, target}, "loop");
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message, "y, a reduction of 4096 terms, would be computed 8 times for each element");
  EXPECT_NE(plan.error().remedy, "");
}

/// Rows gathered for edges, added up by their receivers, of which as many indices are read in two scatters; indices of
/// two columns that are computed; the same reshape for each.
constexpr const char* kScatters = R"(
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  zero = f32[] constant(0)
  one = f32[] constant(1)
  x = f32[%ROWS%,8] parameter(0)
  from = s32[%EDGES%] parameter(1)
  to = s32[%EDGES%] parameter(2)
  senders = s32[%EDGES%,1] reshape(from)
  receivers = s32[%EDGES%,1] reshape(to)
  again = s32[%EDGES%,1] reshape(to)
  rows = f32[%EDGES%,8] gather(x, senders),
      offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}
  zeros = f32[%ROWS%,8] broadcast(zero), dimensions={}
  sums = f32[%ROWS%,8] scatter(zeros, receivers, rows),
      update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1,
      to_apply=sum
  ones = f32[%EDGES%] broadcast(one), dimensions={}
  none = f32[%ROWS%] broadcast(zero), dimensions={}
  counts = f32[%ROWS%] scatter(none, again, ones),
      update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1,
      to_apply=sum
  five = s32[] constant(5)
  fives = s32[%EDGES%] broadcast(five), dimensions={}
  p = s32[%EDGES%] and(from, fives)
  q = s32[%EDGES%] and(to, fives)
  p1 = s32[%EDGES%,1] reshape(p)
  q1 = s32[%EDGES%,1] reshape(q)
  places = s32[%EDGES%,2] concatenate(p1, q1), dimensions={1}
  bins = f32[6,6] broadcast(zero), dimensions={}
  histogram = f32[6,6] scatter(bins, places, ones),
      update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1},
      index_vector_dim=1, to_apply=sum
  ROOT t = (f32[%ROWS%,8], f32[%ROWS%], f32[6,6]) tuple(sums, counts, histogram)
}
)";

hlo::ModulePtr scatters(int64_t rows, int64_t edges) {
  std::string text = kScatters;
  for (const auto& [name, value] : {std::pair("%ROWS%", rows), std::pair("%EDGES%", edges)}) {
    for (size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, std::string_view(name).size(), std::to_string(value));
  }
  auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << (module ? "" : module.error().to_string());
  return module ? *module : nullptr;
}

/// Two small kernels that read different results of one kernel share a launch.
TEST(FusionParts, ReadersOfDifferentResultsOfAKernelShareOne) {
  const auto module = hlo::parse_module(R"(HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
ENTRY e {
  zero = f32[] constant(0)
  x = f32[512,4096] parameter(0)
  sums = f32[512] reduce(x, zero), dimensions={1}, to_apply=add
  most = f32[512] reduce(x, zero), dimensions={1}, to_apply=max
  sum = f32[] reduce(sums, zero), dimensions={0}, to_apply=add
  all = f32[] reduce(most, zero), dimensions={0}, to_apply=max
  ROOT t = (f32[], f32[]) tuple(sum, all)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(fuse_recomputing(**module, default_target()).parts.size(), 2U);
}

TEST(FusionParts, ScattersComputeTheirIndicesAndUpdates) {
  for (const int64_t edges : {int64_t{3000}, int64_t{1000000}}) {
    const hlo::ModulePtr module = scatters(50000, edges);
    ASSERT_TRUE(module);
    const std::vector<ProgramPart> parts = fuse(*module, default_target());
    EXPECT_EQ(parts.size(), 3U);
    for (const ProgramPart& part : parts)
      EXPECT_EQ(part.module.entry_computation().root_instruction().opcode, hlo::Opcode::Scatter);
  }
}

TEST(FusionParts, ScattersThatComputeTheirIndicesAndUpdatesAreRight) {
  const hlo::ModulePtr module = scatters(40, 3000);
  ASSERT_TRUE(module);
  Random random(7);
  std::vector<hlo::Literal> arguments = hlo::typical_arguments(module->entry_computation(), 7);
  for (const size_t i : {size_t{1}, size_t{2}}) {
    for (int64_t k = 0; k < 3000; ++k) arguments[i].set<int64_t>(k, static_cast<int64_t>(random.below(40)));
  }
  const auto expected = hlo::evaluate(*module, arguments);
  ASSERT_TRUE(expected) << expected.error().to_string();
  const auto program = emit_program(*module);
  ASSERT_TRUE(program) << program.error().to_string();
  EXPECT_EQ(program->steps.size(), 3U);
  const auto actual = run_on_cpu(*program, arguments);
  ASSERT_TRUE(actual) << actual.error().to_string();
  EXPECT_EQ(hlo::difference(*actual, *expected, 64).value_or(""), "");
}

/// Indices that take long to compute are computed once, not by each thread that takes a part of a window.
TEST(FusionParts, ScattersReadIndicesThatAreSums) {
  const auto module = hlo::parse_module(R"(
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
add {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b)
}
ENTRY e {
  zero = f32[] constant(0)
  nought = s32[] constant(0)
  x = f32[4096,64] parameter(0)
  bits = s32[4096,1024] parameter(1)
  at = s32[4096] reduce(bits, nought), dimensions={1}, to_apply=add
  places = s32[4096,1] reshape(at)
  zeros = f32[512,64] broadcast(zero), dimensions={}
  ROOT r = f32[512,64] scatter(zeros, places, x),
      update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1,
      to_apply=sum
}
)");
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(fuse(**module, default_target()).size(), 2U);
}

}  // namespace
}  // namespace strata::emitters

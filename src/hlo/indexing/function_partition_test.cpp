#include "hlo/indexing/function_partition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "hlo/random_fusion.h"
#include "hlo/text.h"
#include "indexing/simplify.h"
#include "support/random.h"
#include "test_paths.h"

namespace strata::indexing {
namespace {

hlo::ModulePtr parsed(const std::string& text) {
  auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << text << "\n" << module.error().to_string();
  return module ? *module : nullptr;
}

FunctionPartition partitioned(const hlo::Module& module, const PartitionOptions& options = {}) {
  auto partition = partition_functions(module, module.entry, options);
  EXPECT_TRUE(partition) << partition.error().to_string();
  return partition ? *partition : FunctionPartition{};
}

hlo::InstructionId id_of(const hlo::Computation& computation, const std::string& name) {
  for (size_t i = 0; i < computation.instructions.size(); ++i) {
    if (computation.instructions[i].name == name) return static_cast<hlo::InstructionId>(i);
  }
  ADD_FAILURE() << "no " << name;
  return 0;
}

/// The instructions of each function: "a b | c".
std::string functions(const std::string& text, const std::vector<std::string>& heroes = {}) {
  const hlo::ModulePtr module = parsed(text);
  if (!module) return {};
  const hlo::Computation& entry = module->entry_computation();
  PartitionOptions options;
  for (const std::string& hero : heroes) options.heroes.push_back(id_of(entry, hero));
  std::vector<std::string> parts;
  for (const Function& function : partitioned(*module, options).functions) {
    std::vector<std::string> names;
    for (const hlo::InstructionId id : function.instructions) names.push_back(entry[id].name);
    std::string part = fmt::format("{}", fmt::join(names, " "));
    for (const hlo::InstructionId id : function.injected) part += " <" + entry[id].name;
    parts.push_back(part);
  }
  return fmt::format("{}", fmt::join(parts, " | "));
}

TEST(FunctionPartition, RootsOfDifferentGroupsHaveDifferentFunctions) {
  const hlo::ModulePtr module = parsed(R"(HloModule m
ENTRY e {
  p = f32[8,16] parameter(0)
  a = f32[8,16] exponential(p)
  b = f32[8,16] negate(p)
  c = f32[16,8] reshape(b)
  ROOT t = (f32[8,16], f32[8,16], f32[16,8]) tuple(a, b, c)
})");
  ASSERT_TRUE(module);
  const auto roots = [&](const std::vector<int>& groups) {
    PartitionOptions options;
    options.root_groups = groups;
    std::vector<std::pair<int, int>> values;
    for (const auto& value : partitioned(*module, options).roots) values.emplace_back(value.function, value.result);
    return values;
  };
  using Values = std::vector<std::pair<int, int>>;
  EXPECT_EQ(roots({}), (Values{{0, 0}, {0, 1}, {0, 2}}));
  EXPECT_EQ(roots({0, 1, 0}), (Values{{0, 0}, {1, 0}, {0, 1}}));
  EXPECT_EQ(roots({2, 1, 0}), (Values{{0, 0}, {1, 0}, {2, 0}}));
}

TEST(FunctionPartition, UsersAtTheSameIndexShareAFunction) {
  EXPECT_EQ(functions(R"(HloModule m
ENTRY e {
  p = f32[8,16] parameter(0)
  a = f32[8,16] exponential(p)
  b = f32[8,16] negate(a)
  c = f32[8,16] add(a, a)
  ROOT r = f32[8,16] multiply(b, c)
})"),
            "a b c r");
}

TEST(FunctionPartition, EqualMapsOfDifferentOperatorsShareAFunction) {
  EXPECT_EQ(functions(R"(HloModule m
ENTRY e {
  p = f32[8,16] parameter(0)
  a = f32[8,16] exponential(p)
  t = f32[16,8] transpose(a), dimensions={1,0}
  u = f32[8,16] transpose(t), dimensions={1,0}
  s = f32[4,16] slice(a), slice={[0:4], [0:16]}
  v = f32[4,16] slice(u), slice={[0:4], [0:16]}
  ROOT r = f32[4,16] multiply(s, v)
})"),
            "a t u s v r");
}

TEST(FunctionPartition, DifferentIndicesSplit) {
  EXPECT_EQ(functions(R"(HloModule m
ENTRY e {
  p = f32[8,8] parameter(0)
  a = f32[8,8] exponential(p)
  t = f32[8,8] transpose(a), dimensions={1,0}
  ROOT r = f32[8,8] multiply(a, t)
})"),
            "t r | a");
}

TEST(FunctionPartition, BranchesSplit) {
  // Both pads read a at the same index, but code in one branch cannot use what another one computes.
  EXPECT_EQ(functions(R"(HloModule m
ENTRY e {
  p = f32[8] parameter(0)
  z = f32[] constant(0)
  o = f32[] constant(1)
  a = f32[8] exponential(p)
  b = f32[9] pad(a, z), padding=1_0
  c = f32[9] pad(a, o), padding=1_0
  ROOT r = f32[9] multiply(b, c)
})"),
            "b c r | a");
}

TEST(FunctionPartition, RepeatedReadsSplit) {
  EXPECT_EQ(functions(R"(HloModule m
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}
ENTRY e {
  p = f32[8,16] parameter(0)
  zero = f32[] constant(0)
  a = f32[8,16] exponential(p)
  b = f32[8] reduce(a, zero), dimensions={1}, to_apply=add
  ROOT r = f32[8] negate(b)
})"),
            "b r | a");
}

TEST(FunctionPartition, HeroesAreInjectedIntoTheirEpilogue) {
  const std::string text = R"(HloModule m
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}
ENTRY e {
  p = f32[8,16] parameter(0)
  q = f32[8] parameter(1)
  zero = f32[] constant(0)
  a = f32[8,16] exponential(p)
  b = f32[8] reduce(a, zero), dimensions={1}, to_apply=add
  c = f32[8] negate(b)
  d = f32[8] sqrt(b)
  f = f32[8] add(d, q)
  ROOT r = (f32[8], f32[8]) tuple(c, f)
})";
  EXPECT_EQ(functions(text, {"b"}), "c d f <b | b | a");
  const hlo::ModulePtr module = parsed(text);
  const hlo::Computation& entry = module->entry_computation();
  PartitionOptions options;
  options.heroes = {id_of(entry, "b")};
  const FunctionPartition partition = partitioned(*module, options);
  EXPECT_EQ(signature(entry, partition.functions[0]),
            "e_c(p: f32[8,16]{1,0}, q: f32[8]{0}, d0 in [0, 7], b: f32) -> (f32, f32): c, d, f");
  EXPECT_EQ(partition.roots[1].function, 0);
  EXPECT_EQ(partition.roots[1].result, 1);
}

TEST(FunctionPartition, RootsOfOtherShapes) {
  EXPECT_EQ(functions(R"(HloModule m
ENTRY e {
  p = f32[8,16] parameter(0)
  a = f32[8,16] exponential(p)
  b = f32[16,8] reshape(a)
  c = f32[4,16] slice(a), slice={[0:4], [0:16]}
  ROOT r = (f32[8,16], f32[16,8], f32[4,16]) tuple(a, b, c)
})"),
            "b | c | a");
}

TEST(FunctionPartition, SeveralResultsOfOneInstruction) {
  EXPECT_EQ(functions(R"(HloModule m
max {
  x = f32[] parameter(0)
  i = s32[] parameter(1)
  y = f32[] parameter(2)
  j = s32[] parameter(3)
  a = f32[] maximum(x, y)
  b = s32[] maximum(i, j)
  ROOT r = (f32[], s32[]) tuple(a, b)
}
ENTRY e {
  p = f32[8,16] parameter(0)
  q = s32[8,16] parameter(1)
  z = f32[] constant(0)
  k = s32[] constant(0)
  v = (f32[8], s32[8]) reduce(p, q, z, k), dimensions={1}, to_apply=max
  a = f32[8] get-tuple-element(v), index=0
  b = s32[8] get-tuple-element(v), index=1
  c = f32[8] convert(b)
  ROOT r = f32[8] add(a, c)
})"),
            "v a b c r");
}

/// Checks what partition_functions promises.
void check(const hlo::Module& module, hlo::ComputationId id_of_computation, const FunctionPartition& partition) {
  const hlo::Computation& computation = module[id_of_computation];
  const auto reads_inside = reads_in_bounds(module, id_of_computation, partition);
  ASSERT_TRUE(reads_inside) << reads_inside.error().to_string();
  const bool anywhere = reads_inside->reason.find("may be read anywhere") != std::string::npos;
  EXPECT_TRUE(reads_inside->kind == Verdict::Kind::ProvedByStructure || anywhere) << reads_inside->reason;
  std::vector<int> placed(computation.instructions.size());
  for (size_t f = 0; f < partition.functions.size(); ++f) {
    for (const hlo::InstructionId id : partition.functions[f].instructions) {
      ++placed[static_cast<size_t>(id)];
      EXPECT_EQ(partition.function_of[static_cast<size_t>(id)], static_cast<int>(f));
    }
    for (const int callee : partition.functions[f].callees) EXPECT_GT(callee, static_cast<int>(f));
  }
  for (size_t id = 0; id < placed.size(); ++id) {
    EXPECT_EQ(placed[id], partition.function_of[id] >= 0 ? 1 : 0);
    if (partition.function_of[id] < 0) continue;
    const int function = partition.function_of[id];
    const auto reads = operand_reads(module, id_of_computation, static_cast<hlo::InstructionId>(id));
    ASSERT_TRUE(reads);
    for (const Read& read : *reads) {
      const hlo::InstructionId operand = computation.instructions[id].operands[static_cast<size_t>(read.operand)];
      const int of_operand = partition.function_of[static_cast<size_t>(operand)];
      if (of_operand < 0) continue;
      if (of_operand != function) {
        // Called at other indices: then it is what its function returns.
        const Function& callee = partition.functions[static_cast<size_t>(of_operand)];
        EXPECT_EQ(callee.results[0].instruction, operand);
      } else {
        ASSERT_EQ(read.maps.size(), 1U);
        EXPECT_EQ(simplify(compose(partition.index_of[id], read.maps[0])),
                  partition.index_of[static_cast<size_t>(operand)]);
      }
    }
  }
}

std::string pad_slice_chain(int pairs) {
  std::string text = "HloModule m\nENTRY e {\n  p = f32[64,64] parameter(0)\n  z = f32[] constant(0)\n";
  std::string last = "p";
  for (int i = 0; i < pairs; ++i) {
    text += fmt::format(
        "  a{0} = f32[64,64] exponential({1})\n"
        "  b{0} = f32[66,64] pad(a{0}, z), padding=1_1x0_0\n"
        "  c{0} = f32[64,64] slice(b{0}), slice={{[0:64], [0:64]}}\n"
        "  d{0} = f32[64,64] slice(b{0}), slice={{[2:66], [0:64]}}\n"
        "  e{0} = f32[64,64] add(c{0}, d{0})\n",
        i, last);
    last = fmt::format("e{}", i);
  }
  return text + fmt::format("  ROOT r = f32[64,64] negate({})\n}}\n", last);
}

TEST(FunctionPartition, ChainsOfPadsAndSlicesStayLinear) {
  // Composed along all paths there would be 2^30 maps.
  for (const int pairs : {10, 30}) {
    const hlo::ModulePtr module = parsed(pad_slice_chain(pairs));
    ASSERT_TRUE(module);
    const FunctionPartition partition = partitioned(*module);
    size_t emitted = 0;
    for (const Function& function : partition.functions) emitted += function.instructions.size();
    EXPECT_EQ(emitted, static_cast<size_t>(5 * pairs + 1));
    EXPECT_EQ(partition.functions.size(), static_cast<size_t>(pairs + 1));
    check(*module, module->entry, partition);
  }
}

TEST(FunctionPartition, CutsLongFunctionsAndCostlyIndices) {
  std::string text = "HloModule m\nENTRY e {\n  x0 = f32[30,42] parameter(0)\n";
  for (int i = 0; i < 30; ++i) {
    text += fmt::format(
        "  a{0} = f32[35,36] reshape(x{0})\n  b{0} = f32[36,35] transpose(a{0}), dimensions={{1,0}}\n"
        "  x{1} = f32[30,42] reshape(b{0})\n",
        i, i + 1);
  }
  const hlo::ModulePtr module = parsed(text + "  ROOT r = f32[30,42] negate(x30)\n}\n");
  ASSERT_TRUE(module);
  PartitionOptions options;
  const FunctionPartition by_cost = partitioned(*module, options);
  EXPECT_GT(by_cost.functions.size(), 3U);
  EXPECT_LT(by_cost.functions.size(), 31U);
  for (const IndexingMap& index : by_cost.index_of) EXPECT_LE(index.cost(), options.max_index_cost);
  check(*module, module->entry, by_cost);
  options.max_instructions = 2;
  const FunctionPartition by_size = partitioned(*module, options);
  EXPECT_EQ(by_size.functions.size(), 46U);
  check(*module, module->entry, by_size);
}

TEST(FunctionPartition, ErrorsNameTheInstruction) {
  const hlo::ModulePtr module = parsed(R"(HloModule m
f {
  a = f32[8] parameter(0)
  b = f32[4] slice(a), slice={[0:4]}
  ROOT r = (f32[8], f32[4]) tuple(a, b)
}
ENTRY e {
  p = f32[8] parameter(0)
  c = (f32[8], f32[4]) fusion(p), kind=kLoop, calls=f
  ROOT r = f32[4] get-tuple-element(c), index=1
})");
  ASSERT_TRUE(module);
  const auto partition = partition_functions(*module, module->entry);
  ASSERT_FALSE(partition);
  EXPECT_EQ(partition.error().to_string(),
            "<input>:9:3: error: c has no array for a value, nor arrays of the same sizes");
}

TEST(FunctionPartition, RandomGraphs) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    std::string text = "HloModule m\nENTRY e {\n  x0 = f32[6,6] parameter(0)\n  z = f32[] constant(0)\n";
    int count = 1;
    const auto any = [&] { return fmt::format("x{}", random.below(static_cast<uint64_t>(count))); };
    for (; count < 16; ++count) {
      const char* forms[] = {"exponential({0})",
                             "add({0}, {1})",
                             "multiply({0}, {1})",
                             "transpose({0}), dimensions={{1,0}}",
                             "reverse({0}), dimensions={{0}}",
                             "pad({0}, z), padding=1_-1x0_0",
                             "concatenate({0}s, {1}s), dimensions={{0}}",
                             "add({0}, {1})"};
      const std::string a = any();
      const std::string b = any();
      const uint64_t form = random.below(std::size(forms));
      if (form == 6) {
        for (const std::string& operand : {a, b}) {
          text += fmt::format("  {0}s{1} = f32[3,6] slice({0}), slice={{[0:6:2], [0:6]}}\n", operand, count);
          if (a == b) break;
        }
        text += fmt::format("  x{0} = f32[6,6] concatenate({1}s{0}, {2}s{0}), dimensions={{0}}\n", count, a, b);
        continue;
      }
      text += fmt::format("  x{} = f32[6,6] {}\n", count, fmt::format(fmt::runtime(forms[form]), a, b));
    }
    text += fmt::format("  ROOT r = f32[6,6] add(x{}, {})\n}}\n", count - 1, any());
    const hlo::ModulePtr module = parsed(text);
    ASSERT_TRUE(module);
    check(*module, module->entry, partitioned(*module));
  }
}

/// Partitions and checks all computations of a module but those that combine scalars; counts them by outcome.
void check_all(const hlo::Module& module, std::map<std::string, int>& outcomes) {
  for (hlo::ComputationId id = 0; id < static_cast<hlo::ComputationId>(module.computations.size()); ++id) {
    const auto partition = partition_functions(module, id);
    if (!partition) {
      EXPECT_EQ(partition.error().code, ErrorCode::Unsupported);
      ++outcomes[partition.error().message];
      continue;
    }
    ++outcomes["ok"];
    check(module, id, *partition);
    const auto reads = computation_reads(module, id);
    EXPECT_TRUE(reads) << reads.error().to_string();
  }
}

/// Only calls and loops with tuples of different arrays, and calls from several places, may be refused.
void expect_mostly_partitioned(const std::map<std::string, int>& outcomes) {
  int all = 0;
  for (const auto& [what, count] : outcomes) all += count;
  EXPECT_GE(outcomes.at("ok"), all * 8 / 10);
}

TEST(FunctionPartition, RandomFusions) {
  std::map<std::string, int> outcomes;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const hlo::ModulePtr module = hlo::random_fusion(seed);
    check_all(*module, outcomes);
  }
  expect_mostly_partitioned(outcomes);
}

TEST(FunctionPartition, ModulesFromElsewhere) {
  std::map<std::string, int> outcomes;
  for (const auto& entry : std::filesystem::directory_iterator(STRATA_SOURCE_DIR "/tests/hlo")) {
    if (entry.path().extension() != ".hlo") continue;
    const auto module = hlo::load_module(entry.path());
    ASSERT_TRUE(module) << module.error().to_string();
    check_all(**module, outcomes);
  }
  expect_mostly_partitioned(outcomes);
}

}  // namespace
}  // namespace strata::indexing

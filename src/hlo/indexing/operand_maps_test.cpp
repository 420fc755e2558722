// Maps of operators against the interpreter: an element of an operand is read where changing it changes the result.
#include "hlo/indexing/operand_maps.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "hlo/evaluate.h"
#include "hlo/indexing/random_operators.h"
#include "hlo/text.h"
#include "indexing/enumerate.h"
#include "indexing/map_checks.h"
#include "indexing/simplify.h"

namespace strata::indexing {
namespace {

using hlo::Literal;

hlo::ModulePtr parsed(const std::string& text) {
  auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << text << "\n" << module.error().to_string();
  return module ? *module : nullptr;
}

int32_t element(const Literal& literal, int64_t i) {
  int32_t value = 0;
  std::memcpy(&value, literal.bytes() + i * 4, 4);
  return value;
}

void set_element(Literal& literal, int64_t i, int32_t value) {
  std::memcpy(literal.mutable_bytes() + i * 4, &value, 4);
}

int64_t position(const std::vector<int64_t>& index, const std::vector<int64_t>& dims) {
  int64_t result = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    EXPECT_TRUE(below(dims[i]).contains(index[i]));
    result = result * dims[i] + index[i];
  }
  return result;
}

/// (position in the result, position in the operand).
using Pairs = std::set<std::pair<int64_t, int64_t>>;

/// A module with arguments.
struct Trial {
  hlo::ModulePtr module;
  std::vector<Literal> arguments;

  const hlo::Computation& entry() const { return module->entry_computation(); }
  const hlo::Shape& shape() const { return entry().root_instruction().shape; }

  Literal value() const {
    auto result = hlo::evaluate(*module, arguments);
    EXPECT_TRUE(result) << result.error().to_string();
    return result ? *result : Literal(shape());
  }

  /// What the runtime variables of the map are at a point that leaves them open.
  void set_runtime(const IndexingMap& map, const Point& point, std::vector<int64_t>& values) const {
    values.clear();
    for (const RuntimeVariable& variable : map.runtime) {
      const auto id = static_cast<hlo::InstructionId>(variable.instruction & 0x7fffffff);
      const hlo::Instruction& user = entry()[id];
      const hlo::Instruction& operand = entry()[user.operands[static_cast<size_t>(variable.operand)]];
      const Literal& indices = arguments[static_cast<size_t>(operand.as<hlo::ParameterAttributes>().number)];
      std::vector<int64_t> index;
      for (const Expr& expr : variable.element) index.push_back(*evaluate(expr, {point.dims, point.ranges, values}));
      int64_t value = element(indices, position(index, operand.shape.dims));
      if (user.opcode != hlo::Opcode::Scatter) {
        // Clamped to what the operator allows, which the simplifier may have narrowed.
        const hlo::Shape& from = entry().operand_shape(user, 0);
        const std::vector<int64_t> last = greatest_starts(user, from);
        const int64_t d = start_dimension(user, variable, index);
        value = std::clamp<int64_t>(value, 0, last[static_cast<size_t>(d)]);
      }
      values.push_back(value);
    }
  }

  std::vector<int64_t> greatest_starts(const hlo::Instruction& user, const hlo::Shape& from) const {
    std::vector<int64_t> last;
    for (size_t d = 0; d < from.dims.size(); ++d) {
      int64_t size = 0;
      if (user.opcode == hlo::Opcode::DynamicSlice) size = user.shape.dims[d];
      if (user.opcode == hlo::Opcode::DynamicUpdateSlice) size = entry().operand_shape(user, 1).dims[d];
      if (user.opcode == hlo::Opcode::Gather) size = user.as<hlo::GatherAttributes>().slice_sizes[d];
      last.push_back(from.dims[d] - size);
    }
    return last;
  }

  static int64_t start_dimension(const hlo::Instruction& user, const RuntimeVariable& variable,
                                 const std::vector<int64_t>& index) {
    if (user.opcode == hlo::Opcode::DynamicSlice) return variable.operand - 1;
    if (user.opcode == hlo::Opcode::DynamicUpdateSlice) return variable.operand - 2;
    const auto& gather = user.as<hlo::GatherAttributes>();
    const auto at = static_cast<size_t>(gather.index_vector_dim);
    return gather.start_index_map[at < index.size() ? static_cast<size_t>(index[at]) : 0];
  }

  /// All pairs that a map has, from `from` to `to`.
  Pairs pairs(const IndexingMap& map, const std::vector<int64_t>& from, const std::vector<int64_t>& to) const {
    Pairs result;
    IndexingMap box = map;
    box.constraints.clear();
    for (RuntimeVariable& variable : box.runtime) variable.range = {0, 0};
    std::vector<int64_t> runtime;
    for_each_point(box, [&](const Point& free) {
      set_runtime(map, free, runtime);
      const Point point{free.dims, free.ranges, runtime};
      if (!in_domain(map, point)) return true;
      const auto index = evaluate(map, point);
      EXPECT_TRUE(index.has_value());
      result.insert({position({point.dims.begin(), point.dims.end()}, from), position(*index, to)});
      return true;
    });
    return result;
  }

  /// Where the result changes with an element of a parameter.
  Pairs dependences(size_t parameter) {
    Pairs result;
    const Literal before = value();
    for (int64_t i = 0; i < arguments[parameter].size(); ++i) {
      const int32_t old = element(arguments[parameter], i);
      set_element(arguments[parameter], i, old + 1);
      const Literal after = value();
      for (int64_t o = 0; o < after.size(); ++o) {
        if (element(before, o) != element(after, o)) result.insert({o, i});
      }
      set_element(arguments[parameter], i, old);
    }
    return result;
  }
};

Trial random_run(Random& random, const OperatorSample& sample) {
  Trial run{parsed(sample.text()), {}};
  if (!run.module) return run;
  for (size_t p = 0; p < sample.least.size(); ++p) {
    Literal literal(run.entry()[run.entry().parameters[p]].shape);
    for (int64_t i = 0; i < literal.size(); ++i) {
      set_element(literal, i, static_cast<int32_t>(random_between(random, sample.least[p], sample.greatest[p])));
    }
    run.arguments.push_back(std::move(literal));
  }
  return run;
}

class OperatorMaps : public testing::TestWithParam<std::string> {};

TEST_P(OperatorMaps, SayWhatTheInterpreterReads) {
  const Sampler sampler = samplers().at(GetParam());
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    OperatorSample sample;
    sampler(random, sample);
    Trial run = random_run(random, sample);
    ASSERT_TRUE(run.module);
    const hlo::ComputationId entry = run.module->entry;
    const hlo::InstructionId root = run.entry().root;
    const auto reads = operand_reads(*run.module, entry, root);
    ASSERT_TRUE(reads) << reads.error().to_string();
    for (size_t p = 0; p < run.arguments.size(); ++p) {
      const std::vector<int64_t>& dims = run.arguments[p].shape().dims;
      Pairs read;
      std::string maps;
      for (const Read& of : *reads) {
        if (of.operand != static_cast<int>(p)) continue;
        EXPECT_FALSE(of.unknown);
        for (const IndexingMap& map : of.maps) {
          EXPECT_EQ(simplify(map), map);
          EXPECT_EQ(reads_in_bounds(map, dims).kind, Verdict::Kind::ProvedByStructure) << to_string(map);
          read.merge(run.pairs(map, run.shape().dims, dims));
          maps += to_string(map) + "\n";
        }
      }
      const Pairs changed = run.dependences(p);
      if (sample.exact[p]) {
        ASSERT_EQ(read, changed) << sample.text() << "parameter " << p << ": " << maps;
      } else {
        ASSERT_TRUE(std::includes(read.begin(), read.end(), changed.begin(), changed.end()))
            << sample.text() << "parameter " << p << ": " << maps;
      }
      const auto uses = result_uses(*run.module, entry, root, static_cast<int>(p));
      ASSERT_TRUE(uses) << uses.error().to_string();
      Pairs used;
      for (const Read& of : *uses) {
        for (const IndexingMap& map : of.maps) {
          maps += to_string(map) + "\n";
          for (const auto& [from, to] : run.pairs(map, dims, run.shape().dims)) used.insert({to, from});
        }
      }
      ASSERT_EQ(used, read) << sample.text() << "parameter " << p << ": " << maps;
    }
  }
}

std::vector<std::string> operators() {
  std::vector<std::string> names;
  for (const auto& [name, sampler] : samplers()) names.push_back(name);
  return names;
}

std::string parameter_name(const testing::TestParamInfo<std::string>& parameter) { return parameter.param; }

INSTANTIATE_TEST_SUITE_P(All, OperatorMaps, testing::ValuesIn(operators()), parameter_name);

/// The maps of the root's operands, one a line.
std::string root_maps(const std::string& text) {
  const hlo::ModulePtr module = parsed(text);
  if (!module) return {};
  const auto reads = operand_reads(*module, module->entry, module->entry_computation().root);
  if (!reads) return reads.error().message;
  std::string result;
  for (const Read& read : *reads) {
    for (const IndexingMap& map : read.maps) result += fmt::format("{}: {}\n", read.operand, to_string(map));
    if (read.unknown) result += fmt::format("{}: unknown\n", read.operand);
  }
  return result;
}

TEST(OperandMaps, RuntimeVariablesNameTheirOperand) {
  EXPECT_EQ(root_maps(R"(HloModule m
ENTRY e {
  x = f32[8,16] parameter(0)
  u = f32[2,16] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT r = f32[8,16] dynamic-update-slice(x, u, i, j)
})"),
            "0: (d0, d1) -> (d0, d1), domain: d0 in [0, 7], d1 in [0, 15]\n"
            "1: (d0, d1){rt0} -> (d0 - rt0, d1), domain: d0 in [0, 7], d1 in [0, 15], rt0 = 4:2[] in [0, 6], "
            "d0 - rt0 in [0, 1]\n"
            "2: (d0, d1) -> (), domain: d0 in [0, 7], d1 in [0, 15]\n"
            "3: (d0, d1) -> (), domain: d0 in [0, 7], d1 in [0, 15]\n");
}

/// Windows over an array with holes go through no more elements than may lie beside the holes.
TEST(OperandMaps, WindowsLeaveHolesOut) {
  const auto elements = [](int size, int holes, int apart) {
    const int reach = (size - 1) * apart + 1, result = 20 * holes - holes + 1 - reach + 1;
    const hlo::ModulePtr module = parsed(fmt::format(
        "HloModule m\nplus {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}}\n"
        "ENTRY e {{\n  x = f32[20] parameter(0)\n  z = f32[] constant(0)\n  ROOT r = f32[{}] reduce-window(x, z), "
        "window={{size={} lhs_dilate={} rhs_dilate={}}}, to_apply=plus\n}}",
        result, size, holes, apart));
    const auto reads = operand_reads(*module, module->entry, module->entry_computation().root);
    EXPECT_TRUE(reads);
    return (*reads)[0].maps.at(0).ranges.empty() ? 1 : (*reads)[0].maps[0].ranges[0].size();
  };
  EXPECT_EQ(elements(3, 1, 1), 3);
  EXPECT_EQ(elements(3, 2, 1), 2);
  EXPECT_EQ(elements(9, 4, 1), 3);
  EXPECT_EQ(elements(2, 3, 1), 1);
  EXPECT_EQ(elements(6, 6, 5), 1);
  EXPECT_EQ(elements(6, 6, 4), 2);  // every third
  EXPECT_EQ(elements(6, 2, 4), 6);  // all or none
}

TEST(OperandMaps, UnknownAndTuples) {
  EXPECT_EQ(root_maps("HloModule m\nENTRY e {\n  p = (f32[4], s32[3]) parameter(0)\n"
                      "  ROOT r = s32[3] get-tuple-element(p), index=1\n}"),
            "0: (d0) -> (d0), domain: d0 in [0, 2]\n");
  EXPECT_EQ(root_maps("HloModule m\nENTRY e {\n  p = f32[4] parameter(0)\n"
                      "  ROOT r = f32[4] custom-call(p), custom_call_target=\"f\"\n}"),
            "0: unknown\n");
}

TEST(OperandMaps, FusionsByComposition) {
  EXPECT_EQ(root_maps(R"(HloModule m
f {
  a = f32[12] parameter(0)
  b = f32[4,3] parameter(1)
  c = f32[3,4] reshape(a)
  d = f32[4,3] transpose(c), dimensions={1,0}
  e = f32[4,3] add(d, b)
  f1 = f32[4,3] multiply(e, d)
  g = f32[3,4] transpose(f1), dimensions={1,0}
  ROOT h = f32[12] reshape(g)
}
ENTRY e {
  x = f32[12] parameter(0)
  y = f32[4,3] parameter(1)
  ROOT r = f32[12] fusion(x, y), kind=kLoop, calls=f
})"),
            "1: (d0) -> (d0 mod 4, d0 floordiv 4), domain: d0 in [0, 11]\n"
            "0: (d0) -> (d0), domain: d0 in [0, 11]\n");
}

TEST(OperandMaps, RandomChainsAgreeWithTheInterpreter) {
  // A chain of movements, each read in two ways, down to one parameter.
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    OperatorSample sample;
    std::string current = sample.parameter(Dims{4, 6});
    for (int step = 0; step < 4; ++step) {
      const std::string name = fmt::format("x{}", step);
      const char* forms[] = {"reverse({}), dimensions={{1}}", "pad({0}, z), padding=1_-1x0_0", "add({0}, {0})"};
      const std::string other = name + "o";
      sample.lines.push_back(
          fmt::format("  {} = s32[4,6] {}", other, fmt::format(fmt::runtime(forms[random.below(3)]), current)));
      const char* more[] = {"  {0}t = s32[6,4] transpose({1}), dimensions={{1,0}}\n  {0} = s32[4,6] reshape({0}t)",
                            "  {0}t = s32[2,6] slice({1}), slice={{[1:3], [0:6]}}\n"
                            "  {0} = s32[4,6] concatenate({0}t, {0}t), dimensions={{0}}",
                            "  {0} = s32[4,6] add({1}, {2})"};
      sample.lines.push_back(fmt::format(fmt::runtime(more[random.below(3)]), name, current, other));
      current = name;
      if (random.below(2) == 0) {
        sample.lines.push_back(fmt::format("  {}s = s32[4,6] add({}, {})", name, name, other));
        current = name + "s";
      }
    }
    sample.lines.insert(sample.lines.begin(), "  z = s32[] constant(0)");
    sample.set_root("s32[4]", fmt::format("reduce({}, z), dimensions={{1}}, to_apply=sum", current));
    Trial run = random_run(random, sample);
    ASSERT_TRUE(run.module);
    const auto reads = computation_reads(*run.module, run.module->entry);
    ASSERT_TRUE(reads) << reads.error().to_string();
    Pairs read;
    for (const Read& of : *reads) {
      ASSERT_FALSE(of.unknown);
      for (const IndexingMap& map : of.maps) read.merge(run.pairs(map, {4}, {4, 6}));
    }
    ASSERT_EQ(read, run.dependences(0)) << sample.text();
  }
}

}  // namespace
}  // namespace strata::indexing

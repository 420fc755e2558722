#include "emitters/fusion/gain_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "emitters/fusion/array_uses.h"
#include "emitters/fusion/instruction_roles.h"
#include "emitters/fusion/part_builder.h"
#include "hlo/random_fusion.h"
#include "hlo/text.h"
#include "machine/target.h"

namespace strata::emitters {
namespace {

/// Parts of a module as groups, of which pairs are bounded and priced.
class Pairs {
 public:
  Pairs(const hlo::Module& module, std::vector<ProgramPart> parts)
      : module_(module), entry_(module.entry_computation()), parts_(std::move(parts)), ratings_(default_target()) {
    everywhere_ = known_values(entry_);
    const std::vector<bool> reshaped = free_reshapes(entry_);
    for (size_t i = 0; i < everywhere_.size(); ++i)
      everywhere_[i] = everywhere_[i] || reshaped[i] || is_name(entry_.instructions[i].opcode);
    const std::vector<unsigned> of_instructions = instruction_traits(entry_);
    for (ProgramPart& part : parts_) {
      times_.push_back(part.interpreted ? KernelTime{} : kernel_time(part.module, default_target()));
      part.inputs = distinct(std::move(part.inputs));
      traits_.push_back(0);
      for (const hlo::InstructionId id : part.instructions) traits_.back() |= of_instructions[static_cast<size_t>(id)];
    }
    for (int64_t leaf = 0; leaf < hlo::leaf_count(entry_.root_instruction().shape); ++leaf)
      if (const auto value = resolve(entry_, entry_.root, static_cast<int>(leaf))) results_.push_back(*value);
  }

  size_t size() const { return parts_.size(); }

  /// Arrays of one part that another one reads.
  std::vector<ArrayValue> passed(size_t from, size_t to) const {
    std::vector<ArrayValue> found;
    for (const ArrayValue& value : parts_[to].inputs)
      if (std::ranges::count(parts_[from].outputs, value) > 0) found.push_back(value);
    return found;
  }

  /// Whether the pass may think of them as one kernel, as far as this test knows it.
  bool are_thought_of(size_t from, size_t to) const {
    return std::ranges::all_of(std::array{from, to}, [&](size_t part) {
      return !parts_[part].interpreted && std::ranges::none_of(parts_[part].instructions, [&](hlo::InstructionId id) {
        return is_alone(entry_, id) || is_sort(entry_[id]) || entry_[id].opcode == hlo::Opcode::Scatter;
      });
    });
  }

  double bound(size_t from, size_t to) const {
    const std::vector<ArrayValue> all = passed(from, to);
    std::vector<ArrayValue> gone;
    std::ranges::copy_if(all, std::back_inserter(gone), [&](const auto& value) { return is_gone(value, from, to); });
    return GainBound(entry_, ratings_).of_pair(of(from), of(to), all, gone);
  }

  double gain(size_t from, size_t to) const {
    const auto group_of = [](const ProgramPart& part) {
      Group group;
      for (const hlo::InstructionId id : part.instructions) group = Group(group, Group(id));
      return group;
    };
    std::vector<ArrayValue> outputs = parts_[to].outputs;
    for (const ArrayValue& value : parts_[from].outputs)
      if (!is_gone(value, from, to)) outputs.push_back(value);
    const Group joined(group_of(parts_[from]), group_of(parts_[to]));
    const ProgramPart part = build_part(module_, everywhere_, joined, distinct(std::move(outputs)));
    return times_[from].all + times_[to].all - kernel_time(part.module, default_target()).all;
  }

  std::string text(size_t from, size_t to) const {
    return hlo::print(parts_[from].module) + hlo::print(parts_[to].module);
  }

 private:
  BoundedGroup of(size_t part) const { return {times_[part], parts_[part].inputs, traits_[part]}; }

  bool is_gone(const ArrayValue& value, size_t from, size_t to) const {
    for (size_t part = 0; part < parts_.size(); ++part)
      if (part != from && part != to && std::ranges::count(parts_[part].inputs, value) > 0) return false;
    return std::ranges::count(results_, value) == 0;
  }

  const hlo::Module& module_;
  const hlo::Computation& entry_;
  std::vector<ProgramPart> parts_;
  Ratings ratings_;
  std::vector<bool> everywhere_;
  std::vector<KernelTime> times_;
  std::vector<unsigned> traits_;
  std::vector<ArrayValue> results_;
};

/// Compares all producers and consumers among a module's parts; returns how many of them save time.
int expect_bounded(const hlo::Module& module, size_t most_instructions) {
  int saving = 0;
  const Pairs pairs(module, fuse(module, default_target(), Parameters::Kept, nullptr, most_instructions));
  for (size_t from = 0; from < pairs.size(); ++from) {
    for (size_t to = 0; to < pairs.size(); ++to) {
      if (from == to || pairs.passed(from, to).empty() || !pairs.are_thought_of(from, to)) continue;
      const double gain = pairs.gain(from, to);
      if (!(gain > 0) || !std::isfinite(gain)) continue;
      ++saving;
      EXPECT_LE(gain, pairs.bound(from, to)) << pairs.text(from, to);
    }
  }
  return saving;
}

TEST(GainBound, HoldsForRandomModules) {
  hlo::RandomFusionOptions options;
  options.max_instructions = 40;
  options.max_elements = 1 << 22;
  options.control = false;
  int saving = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const hlo::ModulePtr module = hlo::random_fusion(seed, options);
    SCOPED_TRACE(seed);
    for (const size_t most : {1, 4}) saving += expect_bounded(*module, most);
  }
  EXPECT_GT(saving, 500);
}

/// A producer of 64 MB whose array is read in part, as a whole, or along rows.
TEST(GainBound, IsNoMoreThanWhatIsNotDone) {
  const auto bound_of = [](const std::string& reader) {
    const auto module = hlo::parse_module(
        "ENTRY e {\n  x = f32[4096,4096] parameter(0)\n  y = f32[4096,4096] negate(x)\n  " + reader + "\n}\n");
    EXPECT_TRUE(module) << (module ? "" : module.error().to_string());
    const Pairs pairs(**module, fuse(**module, default_target(), Parameters::Kept, nullptr, 1));
    EXPECT_EQ(pairs.size(), 2U);
    EXPECT_LE(pairs.gain(0, 1), pairs.bound(0, 1));
    return std::pair(pairs.gain(0, 1), pairs.bound(0, 1));
  };
  const auto [whole, of_whole] = bound_of("ROOT z = f32[4096,4096] abs(y)");
  EXPECT_NEAR(of_whole, whole, 0.01 * whole);
  const auto [stored, of_stored] =
      bound_of("z = f32[4096,4096] abs(y)\n  ROOT t = (f32[4096,4096], f32[4096,4096]) tuple(y, z)");
  EXPECT_NEAR(of_stored, stored, 0.01 * stored);
  EXPECT_LT(of_stored, 0.7 * of_whole);
  // One element of it is computed: nearly all is saved, and the bound knows that it may be.
  const auto [part, of_part] = bound_of("ROOT z = f32[1,1] slice(y), slice={[5:6], [7:8]}");
  EXPECT_GT(part, 0.7 * of_part);
}

}  // namespace
}  // namespace strata::emitters

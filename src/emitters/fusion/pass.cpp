#include "emitters/fusion/pass.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <set>

#include "emitters/elemental/known_functions.h"
#include "emitters/fusion/array_uses.h"
#include "emitters/fusion/expected_gains.h"
#include "emitters/fusion/followers.h"
#include "emitters/fusion/gain_bound.h"
#include "emitters/fusion/group.h"
#include "emitters/fusion/group_kernels.h"
#include "emitters/fusion/group_order.h"
#include "emitters/fusion/group_pair.h"
#include "emitters/fusion/instruction_roles.h"
#include "emitters/fusion/part_builder.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

constexpr size_t kSoonRated = 64;   // instructions of two groups
constexpr double kRounding = 1e-6;  // of gains that are the same

/// Joins groups.
class Fuser {
 public:
  Fuser(const hlo::Module& module, Ratings& ratings, Parameters parameters, FusionWork& work, size_t most_instructions,
        Ties ties)
      : module_(module),
        computation_(module.entry_computation()),
        ratings_(ratings),
        bound_(computation_, ratings),
        parameters_(parameters),
        work_(work),
        most_instructions_(most_instructions),
        ties_(ties) {}

  std::vector<ProgramPart> run() {
    make_groups();
    for (size_t group = 0; group < groups_.size(); ++group) add_pairs_of(static_cast<int>(group));
    while (!pairs_.empty()) {
      const GroupPair best = pairs_.top();
      pairs_.pop();
      if (has_changed(best)) continue;
      if (!best.rated) {
        const double gain = gain_of(best.producer, best.consumer);
        const size_t gone = best.siblings ? 0 : passed_between(best.producer, best.consumer).gone.size();
        const size_t size = size_of(best.producer, best.consumer);
        expected_.rated(best.producer, best.consumer, gain, size, gone);
        if (!saves_most(gain, size)) {
          add_pair(best.producer, best.consumer, best.siblings, gain);
          continue;
        }
      }
      // Others may have been joined since the gain was computed.
      if (has_detour(best.producer, best.consumer) || has_detour(best.consumer, best.producer)) continue;
      expected_.join(best.producer, groups_[static_cast<size_t>(best.producer)].size(), best.consumer,
                     groups_[static_cast<size_t>(best.consumer)].size());
      join(best.producer, best.consumer);
      take_in_followers(best.consumer);
      times_[static_cast<size_t>(best.consumer)] = time_of(groups_[static_cast<size_t>(best.consumer)]);
      grown_ = best.consumer;
      add_pairs_of(best.consumer);
      add_pairs_with(best.consumer);
    }
    std::vector<ProgramPart> parts;
    for (const int number : last_order()) {
      parts.push_back(part(groups_[static_cast<size_t>(number)]));
      parts.back().microseconds = times_[static_cast<size_t>(number)].all;
    }
    return parts;
  }

 private:
  /// What a group takes as one kernel.
  KernelTime time_of(const Group& group) {
    work_.instructions_rated += static_cast<int64_t>(group.size());
    // What a library gives of several arrays is no kernel.
    const hlo::Instruction& first = computation_[*group.begin()];
    if (first.opcode == Opcode::Call && first.shape.is_tuple()) return {};
    const std::vector<ArrayValue> outputs = uses_->outputs_of(group);
    const bool in_place = updates_in_place(group, outputs);
    return ratings_.of_group(kernels_->describe(group, outputs, in_place), [&] {
      const PricedKernel* kernel = in_place ? nullptr : kernels_->kernel_of(group, outputs);
      if (kernel != nullptr) return ratings_.time(*kernel, kernels_->together());
      KernelTime never;
      never.all = std::numeric_limits<double>::infinity();
      if (!in_place && kernels_->writes_apart(group, outputs)) return never;
      work_.instructions_built += static_cast<int64_t>(group.size());
      return time_of_part(part(group), in_place);
    });
  }

  /// Whether so many parts were built to be priced that only small groups still join: this work may grow with the third
  /// power of the instructions. So it is bounded, by 100 times their number.
  bool has_worked_long() const { return work_.instructions_built > 100 * std::ssize(computation_.instructions); }

  KernelTime time_of_part(const ProgramPart& part, bool in_place) {
    if (part.interpreted) return {};
    const hlo::Module priced = in_place ? only_updates(part.module) : part.module;
    KernelTime time = ratings_.time(priced);
    // Threads of the kernel that updates in place have an element each, so that one would sum all terms of it.
    if (in_place && sums_many_terms(priced.entry_computation())) time.all = std::numeric_limits<double>::infinity();
    return time;
  }

  ProgramPart part(const Group& group) const {
    ProgramPart result = build_part(module_, everywhere_, group, uses_->outputs_of(group));
    result.instructions.assign(group.begin(), group.end());
    result.interpreted = group.size() == 1 && is_interpreted(computation_[*group.begin()]);
    return result;
  }

  /// The parameter's array that a dynamic-update-slice may be written over: no result is the array itself.
  std::optional<ArrayValue> overwritten_by(InstructionId update) const {
    const Instruction& it = computation_[update];
    if (parameters_ == Parameters::Kept || it.opcode != Opcode::DynamicUpdateSlice) return std::nullopt;
    const auto value = resolve(computation_, it.operands[0]);
    const bool may = value && computation_[value->instruction].opcode == Opcode::Parameter &&
                     std::find(uses_->results().begin(), uses_->results().end(), *value) == uses_->results().end();
    return may ? value : std::nullopt;
  }

  /// Whether two groups as one would write a whole array, of which one of them updates some in place.
  bool loses_update_in_place(const Group& joined) const {
    if (parameters_ == Parameters::Kept) return false;
    const auto update =
        std::find_if(joined.begin(), joined.end(), [&](InstructionId id) { return overwritten_by(id).has_value(); });
    if (update == joined.end()) return false;
    const std::vector<ArrayValue> outputs = uses_->outputs_of(joined);
    return outputs != std::vector{ArrayValue{*update}} && !updates_in_place(joined, outputs);
  }

  /// Whether a group updates arrays of parameters in place: nothing else reads these but what the updates are computed
  /// of before, in other groups; and what else it computes has as many elements as each update.
  bool updates_in_place(const Group& group, const std::vector<ArrayValue>& outputs) const {
    if (parameters_ == Parameters::Kept) return false;
    std::optional<int64_t> elements;
    size_t updates = 0;
    for (const InstructionId id : group) {
      const std::optional<ArrayValue> value = overwritten_by(id);
      if (!value) continue;
      ++updates;
      const Instruction& it = computation_[id];
      const int64_t of_update = computation_.operand_shape(it, 1).element_count();
      const auto& users = uses_->users(value->instruction);
      const auto readers = std::count_if(users.begin(), users.end(), [&](const auto& use) {
        return use.first == *value && (group.contains(use.second) || !uses_->is_computed_of(id, use.second));
      });
      const bool is_output = std::find(outputs.begin(), outputs.end(), ArrayValue{id}) != outputs.end();
      const bool is_read = std::any_of(uses_->users(id).begin(), uses_->users(id).end(),
                                       [&](const auto& use) { return group.contains(use.second); });
      if (readers != 1 || !is_output || is_read || of_update != elements.value_or(of_update)) return false;
      elements = of_update;
    }
    if (updates == 0) return false;
    return std::all_of(outputs.begin(), outputs.end(), [&](const ArrayValue& output) {
      return overwritten_by(output.instruction) ||
             hlo::leaf_of(computation_[output.instruction].shape, output.element).element_count() == *elements;
    });
  }

  /// Finds who reads what, and which instructions are in no group or in all.
  std::vector<bool> find_uses() {
    known_ = known_values(computation_);
    const std::vector<bool> reshaped = free_reshapes(computation_);
    everywhere_ = known_;
    for (size_t i = 0; i < known_.size(); ++i) {
      if (is_name(computation_.instructions[i].opcode) || reshaped[i]) everywhere_[i] = true;
    }
    used_ = used_values(computation_);
    kernels_.emplace(module_, used_, everywhere_, ratings_);
    std::vector<bool> transparent = everywhere_;
    for (size_t i = 0; i < transparent.size(); ++i) {
      if (!used_[i] || computation_.instructions[i].opcode == Opcode::Parameter) transparent[i] = true;
    }
    uses_.emplace(computation_, transparent, reshaped);
    return transparent;
  }

  void make_groups() {
    const std::vector<bool> transparent = find_uses();
    group_of_.assign(computation_.instructions.size(), -1);
    for (size_t i = 0; i < computation_.instructions.size(); ++i) {
      if (transparent[i]) continue;
      group_of_[i] = static_cast<int>(groups_.size());
      groups_.emplace_back(static_cast<InstructionId>(i));
    }
    // What is in every group has none of its own, but where it is a result.
    for (const ArrayValue& result : uses_->results()) {
      const InstructionId id = result.instruction;
      if (known_[static_cast<size_t>(id)]) groups_.emplace_back(id);
    }
    for (const Group& group : groups_) inputs_.push_back(uses_->inputs_of(group));
    const std::vector<int> long_ones = long_reductions(computation_);
    const std::vector<unsigned> traits = instruction_traits(computation_);
    for (const Group& group : groups_) {
      reductions_.push_back(long_ones[static_cast<size_t>(*group.begin())]);
      traits_.push_back(traits[static_cast<size_t>(*group.begin())]);
    }
    versions_.assign(groups_.size(), 0);
    visited_.assign(groups_.size(), 0);
    producers_.assign(groups_.size(), {});
    order_ = GroupOrder(groups_.size());
    expected_ = ExpectedGains(groups_.size());
    if (most_instructions_ > 1 && computation_.instructions.size() > kFewInstructions) {
      followers_.emplace(computation_, *uses_, groups_);
      for (size_t i = groups_.size(); i-- > 0;) take_in_followers(static_cast<int>(i));
    }
    for (const Group& group : groups_) times_.push_back(group.empty() ? KernelTime{} : time_of(group));
  }

  /// Joins producers with the group that they follow, one after the other.
  void take_in_followers(int group) {
    if (!followers_) return;
    for (bool changed = true; changed;) {
      changed = false;
      for (const int producer : std::vector<int>(producers(group))) {
        const Group& from = groups_[static_cast<size_t>(producer)];
        if (from.size() + groups_[static_cast<size_t>(group)].size() > most_instructions_) continue;
        if (!followers_->follows(producer, group, from, group_of_)) continue;
        join(producer, group);
        changed = true;
      }
    }
  }

  int version(int group) const { return versions_[static_cast<size_t>(group)]; }

  /// Whether one of the groups has been joined with another one since.
  bool has_changed(const GroupPair& pair) const {
    return pair.producer_version != version(pair.producer) || pair.consumer_version != version(pair.consumer);
  }

  /// Groups that compute what this one reads. They are remembered until it, or one of them, joins another one.
  const std::vector<int>& producers(int group) const {
    Producers& known = producers_[static_cast<size_t>(group)];
    const auto is_gone = [&](int from) { return groups_[static_cast<size_t>(from)].empty(); };
    if (known.version == version(group) && std::ranges::none_of(known.groups, is_gone)) return known.groups;
    std::vector<int> found;
    for (const ArrayValue& value : inputs_[static_cast<size_t>(group)]) {
      const int from = group_of_[static_cast<size_t>(value.instruction)];
      if (from >= 0 && from != group) found.push_back(from);
    }
    known = {version(group), distinct(std::move(found))};
    return known.groups;
  }

  /// Whether `from` is needed, directly or not, by another producer of `to` than itself: then joining makes a cycle.
  bool has_detour(int from, int to) const {
    const size_t first = order_.place(from);
    if (first > order_.place(to)) return false;
    std::vector<int> stack;
    ++visit_;
    // Groups stand behind those that they read: what stands before `from` does not need it.
    const auto add = [&](int group, bool direct) {
      if (group == from) return !direct;
      int& visited = visited_[static_cast<size_t>(group)];
      if (order_.place(group) > first && visited != visit_) stack.push_back(group);
      visited = visit_;
      return false;
    };
    for (const int producer : producers(to)) add(producer, true);
    while (!stack.empty()) {
      const int group = stack.back();
      stack.pop_back();
      for (const int producer : producers(group)) {
        if (add(producer, false)) return true;
      }
    }
    return false;
  }

  /// A sort is the only output of its kernel, and reads each element once.
  bool may_join_sort(const Group& producer, const Group& sort) const {
    if (!std::all_of(producer.begin(), producer.end(),
                     [&](InstructionId id) { return keeps_places(computation_[id]); }))
      return false;
    return uses_->outputs_of(Group(producer, sort)) == uses_->outputs_of(sort);
  }

  bool may_join(const Group& producer, const Group& consumer) const {
    if (producer.size() + consumer.size() > most_instructions_) return false;
    for (const Group* group : {&producer, &consumer}) {
      if (std::any_of(group->begin(), group->end(), [&](InstructionId id) { return is_alone(computation_, id); })) {
        return false;
      }
    }
    const auto sorts = [&](const Group& group) {
      return std::any_of(group.begin(), group.end(), [&](InstructionId id) { return is_sort(computation_[id]); });
    };
    if (sorts(producer)) return false;
    if (sorts(consumer)) return may_join_sort(producer, consumer);
    // The elements that a scatter writes are known only when all of it is done, and it is the only output.
    if (std::any_of(producer.begin(), producer.end(),
                    [&](InstructionId id) { return computation_[id].opcode == Opcode::Scatter; })) {
      return false;
    }
    bool into_scatter = false;
    for (const InstructionId id : consumer) {
      const Instruction& it = computation_[id];
      if (it.opcode != Opcode::Scatter) continue;
      into_scatter = true;
      // What it scatters into has to be complete before: it is copied, and updated in place.
      for (size_t i = 0; i < it.operands.size() / 2; ++i) {
        const std::optional<ArrayValue> operand = resolve(computation_, it.operands[i]);
        if (operand && producer.contains(operand->instruction)) return false;
      }
    }
    if (!into_scatter) return true;
    return uses_->outputs_of(Group(producer, consumer)).size() == uses_->outputs_of(consumer).size();
  }

  /// Of an array that very many read, only readers that stand near each other are thought of.
  template <class Consider>
  void readers_near(const ArrayValue& value, InstructionId reader, const Consider& consider) const {
    constexpr std::ptrdiff_t kVeryMany = 256;
    const auto& users = uses_->users(value.instruction);
    const std::ptrdiff_t near = std::ssize(users) > kVeryMany ? 4 : kVeryMany;
    const auto at = std::partition_point(users.begin(), users.end(), [&](const auto& u) { return u.second < reader; });
    const auto begin = at - std::min(at - users.begin(), near);
    const auto end = at + std::min(users.end() - at, near);
    for (auto user = begin; user != end; ++user) {
      if (user->first == value) consider(group_of_[static_cast<size_t>(user->second)]);
    }
  }

  /// Other groups that read an array which this one reads too, or another result of a group whose results it reads:
  /// both can run when that is done.
  std::vector<int> siblings(int group) const {
    std::vector<int> found;
    for (const InstructionId id : groups_[static_cast<size_t>(group)]) {
      for (const ArrayValue& value : uses_->reads(id)) {
        readers_near(value, id, [&](int other) {
          if (other >= 0 && other != group) found.push_back(other);
        });
      }
    }
    if (ties_ == Ties::ReadersLast || computation_.instructions.size() > kFewInstructions) {
      for (const int producer : producers(group)) {
        for (const int reader : consumers(producer)) {
          if (reader != group) found.push_back(reader);
        }
      }
    }
    return distinct(std::move(found));
  }

  /// Groups that read what this one computes.
  std::vector<int> consumers(int group) const {
    std::vector<int> found;
    for (const InstructionId id : groups_[static_cast<size_t>(group)]) {
      const auto add = [&](int other) {
        if (other >= 0 && other != group) found.push_back(other);
      };
      for (const auto& [value, user] : uses_->users(id)) {
        readers_near(value, user, add);
        if (!computation_[id].shape.is_tuple()) break;
      }
    }
    return distinct(std::move(found));
  }

  /// With this group as the consumer, or the second of two readers. Pairs are rated in their turn; most never are,
  /// since one of their groups has been joined with another one by then.
  void add_pairs_of(int consumer) {
    const std::vector<int> from = producers(consumer);
    for (const int producer : from) add_pair(producer, consumer, false, most_gain_of(producer, consumer), false);
    for (const int sibling : siblings(consumer)) {
      if (sibling < consumer && !std::binary_search(from.begin(), from.end(), sibling)) add_siblings(sibling, consumer);
    }
  }

  /// With it as the producer, or the first of two readers.
  void add_pairs_with(int group) {
    const std::vector<int> to = consumers(group);
    for (const int consumer : to) add_pair(group, consumer, false, most_gain_of(group, consumer), false);
    for (const int sibling : siblings(group)) {
      if (sibling > group && !std::binary_search(to.begin(), to.end(), sibling)) add_siblings(group, sibling);
    }
  }

  void add_siblings(int first, int second) {
    add_pair(first, second, true, expected(first, second, bound_.of_readers(bounded(first), bounded(second)), 0),
             false);
  }

  /// With seven significant bits.
  static double about(double gain) {
    int exponent = 0;
    return std::ldexp(std::round(std::frexp(gain, &exponent) * 128) / 128, exponent);
  }

  void add_pair(int producer, int consumer, bool of_one_array, double gain, bool rated = true) {
    // In large modules pairs that save about the same grow evenly: each instruction is then rated a few times, not once
    // for each instruction that joins its group.
    constexpr size_t kManyGroups = 2000;
    if (!(gain > 0)) return;
    if (of_one_array && ties_ == Ties::ReadersLast) gain *= 1 - kRounding;
    GroupPair pair{gain, 0, consumer, of_one_array, producer, version(producer), version(consumer), rated};
    if (groups_.size() > kManyGroups) {
      pair.gain = about(gain);
      pair.size = size_of(producer, consumer);
    }
    pairs_.push(pair);
  }

  size_t size_of(int one, int other) const {
    return groups_[static_cast<size_t>(one)].size() + groups_[static_cast<size_t>(other)].size();
  }

  BoundedGroup bounded(int group) const {
    const auto i = static_cast<size_t>(group);
    return {times_[i], inputs_[i], traits_[i]};
  }

  /// What a producer and a consumer can save at most.
  double most_gain_of(int producer, int consumer) const {
    if (reduces_apart(producer, consumer)) return 0;
    const BoundedGroup from = bounded(producer), to = bounded(consumer);
    const auto updates = [&](int group) {
      const Group& of = groups_[static_cast<size_t>(group)];
      return std::any_of(of.begin(), of.end(), [&](InstructionId id) { return overwritten_by(id).has_value(); });
    };
    // Joined, they may update an array in place that one of them writes as a whole.
    if (parameters_ != Parameters::Kept && (updates(producer) || updates(consumer)))
      return bound_.of_launch(from.time, to.time);
    const Passed arrays = passed_between(producer, consumer);
    const double bound = bound_.of_pair(from, to, arrays.all, arrays.gone);
    return expected(producer, consumer, bound, arrays.gone.size());
  }

  struct Passed {
    std::vector<ArrayValue> all, gone;  ///< those that others need, too, or only these two
  };
  Passed passed_between(int producer, int consumer) const {
    Passed arrays;
    for (const ArrayValue& value : inputs_[static_cast<size_t>(consumer)]) {
      if (group_of_[static_cast<size_t>(value.instruction)] != producer) continue;
      arrays.all.push_back(value);
      if (!is_needed_beside(value, producer, consumer)) arrays.gone.push_back(value);
    }
    return arrays;
  }

  /// What two groups save about, of which one has just grown; `bound` at most.
  double expected(int one, int other, double bound, size_t gone) const {
    if (!followers_ || grown_ < 0 || size_of(one, other) <= kSoonRated) return bound;
    const int neighbour = one == grown_ ? other : one;
    return expected_.of(grown_, neighbour, bound, size_of(one, other), gone, ratings_.launch());
  }

  /// Whether a pair of so many instructions that has just been rated saves as much, but for rounding, as any other one
  /// is expected to. Of large groups all pairs that save the same would be rated before one of them is joined, and all
  /// but that one again then.
  bool saves_most(double gain, size_t size) {
    if (!followers_ || size <= kSoonRated || !(gain > 0)) return false;
    while (!pairs_.empty() && has_changed(pairs_.top())) pairs_.pop();
    return pairs_.empty() || gain >= pairs_.top().gain * (1 - kRounding);
  }

  /// Whether an array is a result, or others than these groups read it.
  bool is_needed_beside(const ArrayValue& value, int one, int other) const {
    const auto& users = uses_->users(value.instruction);
    const bool is_read = std::any_of(users.begin(), users.end(), [&](const auto& use) {
      const int reader = group_of_[static_cast<size_t>(use.second)];
      return use.first == value && reader != one && reader != other;
    });
    return is_read || (uses_->is_result(value.instruction) &&
                       std::find(uses_->results().begin(), uses_->results().end(), value) != uses_->results().end());
  }

  /// Whether two groups have long reductions that no emitter computes together: the time of both as one kernel is
  /// infinite (kernel_time).
  bool reduces_apart(int producer, int consumer) const {
    const int a = reductions_[static_cast<size_t>(producer)], b = reductions_[static_cast<size_t>(consumer)];
    return parameters_ == Parameters::Kept && a >= 0 && b >= 0 && a != b;
  }

  double gain_of(int producer, int consumer) {
    const Group& from = groups_[static_cast<size_t>(producer)];
    const Group& to = groups_[static_cast<size_t>(consumer)];
    constexpr size_t kSmall = 32;  // instructions
    if (from.size() + to.size() > kSmall && has_worked_long()) return 0;
    if (reduces_apart(producer, consumer) || !may_join(from, to) || has_detour(producer, consumer) ||
        has_detour(consumer, producer))
      return 0;
    const Group joined(from, to);
    if (loses_update_in_place(joined)) return 0;
    const double together = time_of(joined).all;
    if (!std::isfinite(together)) return 0;
    return times_[static_cast<size_t>(producer)].all + times_[static_cast<size_t>(consumer)].all - together;
  }

  void join(int producer, int consumer) {
    order_.join(producer, consumer, [&](int group) { return producers(group); });
    Group& from = groups_[static_cast<size_t>(producer)];
    Group& to = groups_[static_cast<size_t>(consumer)];
    for (const InstructionId id : from) group_of_[static_cast<size_t>(id)] = consumer;
    to = Group(from, to);
    from.clear();
    if (followers_) followers_->join(producer, consumer);
    inputs_[static_cast<size_t>(consumer)] = uses_->inputs_of(to);
    inputs_[static_cast<size_t>(producer)].clear();
    traits_[static_cast<size_t>(consumer)] |= traits_[static_cast<size_t>(producer)];
    int& reduction = reductions_[static_cast<size_t>(consumer)];
    const int other = reductions_[static_cast<size_t>(producer)];
    if (other == kOtherReduction || reduction == kNoReduction) reduction = other;
    // Gains of other pairs hardly change.
    ++versions_[static_cast<size_t>(producer)];
    ++versions_[static_cast<size_t>(consumer)];
  }

  /// Groups after those whose results they read.
  std::vector<int> last_order() const {
    std::vector<int> result;
    std::vector<bool> done(groups_.size(), false);
    std::vector<std::pair<int, std::vector<int>>> stack;  // a group and the producers that are left
    const auto open = [&](int group) {
      if (done[static_cast<size_t>(group)]) return;
      done[static_cast<size_t>(group)] = true;
      const std::vector<int> from = producers(group);
      stack.emplace_back(group, std::vector<int>(from.rbegin(), from.rend()));
    };
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (!groups_[i].empty()) open(static_cast<int>(i));
      while (!stack.empty()) {
        if (std::vector<int>& left = stack.back().second; !left.empty()) {
          const int producer = left.back();
          left.pop_back();
          open(producer);
          continue;
        }
        result.push_back(stack.back().first);
        stack.pop_back();
      }
    }
    return result;
  }

  const hlo::Module& module_;
  const Computation& computation_;
  Ratings& ratings_;
  const GainBound bound_;
  const Parameters parameters_;
  FusionWork& work_;
  const size_t most_instructions_;
  const Ties ties_;
  std::vector<bool> known_, everywhere_;
  std::optional<ArrayUses> uses_;
  std::optional<GroupKernels> kernels_;
  std::optional<Followers> followers_;  ///< of large modules
  ExpectedGains expected_;              ///< used in these
  int grown_ = -1;                      ///< the group that grew last
  std::vector<bool> used_;              ///< by the root; not what stood for a function that is known
  std::vector<Group> groups_;
  std::vector<int> group_of_;
  std::vector<KernelTime> times_;
  std::vector<std::vector<ArrayValue>> inputs_;  ///< of each group
  std::vector<int> reductions_;                  ///< of each group: one of its long_reductions
  std::vector<unsigned> traits_;                 ///< of each group
  std::vector<int> versions_;                    ///< how often a group has changed
  struct Producers {
    int version = -1;
    std::vector<int> groups;
  };
  mutable std::vector<Producers> producers_;  ///< of each group
  std::priority_queue<GroupPair> pairs_;      ///< that save time, with the versions that they were rated at
  GroupOrder order_;
  mutable int visit_ = 0;
  mutable std::vector<int> visited_;  ///< of each group: the last visit of has_detour
};

}  // namespace

std::vector<ProgramPart> fuse(const hlo::Module& module, Ratings& ratings, Parameters parameters, FusionWork* work,
                              size_t most_instructions, Ties ties) {
  const std::optional<hlo::Module> known = with_known_functions(module, module.entry);
  FusionWork own;
  const hlo::Module& whole = known ? *known : module;
  return Fuser(whole, ratings, parameters, work != nullptr ? *work : own, most_instructions, ties).run();
}

std::vector<ProgramPart> fuse(const hlo::Module& module, const Target& target, Parameters parameters, FusionWork* work,
                              size_t most_instructions) {
  Ratings ratings(target);
  std::vector<ProgramPart> parts = fuse(module, ratings, parameters, work, most_instructions);
  if (work != nullptr) work->kernels_rated += ratings.computed();
  return parts;
}

}  // namespace strata::emitters

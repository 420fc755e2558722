#include "superopt/codegen/grouping.h"

#include <algorithm>

#include "superopt/codegen/block_accesses.h"
#include "superopt/codegen/emit.h"
#include "superopt/codegen/joined_parameters.h"
#include "superopt/codegen/schedule_cost.h"

namespace strata {
namespace {

constexpr int64_t kWarp = 32;
constexpr int64_t kUnknownRegisters = 64;

int64_t blocks_of(const KernelLaunch& launch) { return launch.grid[0] * launch.grid[1] * launch.grid[2]; }

int64_t registers_of(const KernelLaunch& launch) {
  return launch.registers > 0 ? std::min(kMostThreadRegisters, launch.registers) : kUnknownRegisters;
}

/// Blocks of such a size that a multiprocessor holds at a time.
int64_t places(int64_t threads, int64_t registers, int64_t shared_bytes, const Target& target) {
  return std::clamp<int64_t>(
      std::min({target.multiprocessor_shared_memory / (shared_bytes + target.reserved_shared_memory),
                target.registers / (registers * threads), target.threads_per_multiprocessor / threads}),
      1, target.blocks_per_multiprocessor);
}

bool writes(const KernelLaunch& launch, size_t argument) {
  // A library's result is its last argument.
  if (launch.library) return argument + 1 == launch.arguments.size();
  return !launch.types[argument].starts_with("const ");
}

/// Whether the order of two launches matters: one writes what the other one reads or writes.
bool ordered(const KernelLaunch& a, const KernelLaunch& b) {
  for (size_t i = 0; i < a.arguments.size(); ++i) {
    for (size_t j = 0; j < b.arguments.size(); ++j) {
      if (a.arguments[i] == b.arguments[j] && (writes(a, i) || writes(b, j))) return true;
    }
  }
  return false;
}

class GroupPlan {
 public:
  GroupPlan(const std::vector<KernelLaunch>& launches, const Target& target)
      : launches_(launches),
        target_(target),
        groups_(launches.size()),
        behind_(launches.size(), std::vector<bool>(launches.size())) {
    const size_t count = launches.size();
    for (size_t i = 0; i < count; ++i) groups_[i] = {i};
    // All that comes after a launch, from the last one on.
    for (size_t i = count; i-- > 0;) {
      for (size_t j = i + 1; j < count; ++j) {
        if (behind_[i][j] || !ordered(launches[i], launches[j])) continue;
        behind_[i][j] = true;
        for (size_t k = j + 1; k < count; ++k) behind_[i][k] = behind_[i][k] || behind_[j][k];
      }
    }
  }

  std::vector<std::vector<size_t>> run() {
    while (merge_best()) {
    }
    return in_order();
  }

 private:
  std::vector<const KernelLaunch*> members(size_t group, size_t other) const {
    std::vector<const KernelLaunch*> all;
    for (size_t i : groups_[group]) all.push_back(&launches_[i]);
    if (other != group) {
      for (size_t i : groups_[other]) all.push_back(&launches_[i]);
    }
    return all;
  }

  double seconds(size_t group, size_t other) const { return seconds_together(members(group, other), target_); }

  bool can_share(size_t group) const { return !groups_[group].empty() && can_share_launch(members(group, group)); }

  bool merge_best() {
    double most = 0;
    size_t first = 0;
    size_t second = 0;
    for (size_t a = 0; a < groups_.size(); ++a) {
      if (!can_share(a)) continue;
      for (size_t b = a + 1; b < groups_.size(); ++b) {
        if (groups_[b].empty() || behind_[a][b] || behind_[b][a] || !can_share_launch(members(a, b))) continue;
        const double saved = seconds(a, a) + seconds(b, b) - seconds(a, b);
        if (saved <= most) continue;
        most = saved;
        first = a;
        second = b;
      }
    }
    if (most <= 0) return false;
    groups_[first].insert(groups_[first].end(), groups_[second].begin(), groups_[second].end());
    groups_[second].clear();
    join(first, second);
    return true;
  }

  /// What came after one of two groups, or before it, does so for both. A group is the number of any of its launches.
  void join(size_t a, size_t b) {
    const size_t count = groups_.size();
    std::vector<bool> all(count);
    for (size_t k = 0; k < count; ++k) all[k] = behind_[a][k] || behind_[b][k];
    behind_[a] = all;
    behind_[b] = all;
    for (size_t i = 0; i < count; ++i) {
      if (!behind_[i][a] && !behind_[i][b]) continue;
      for (size_t k = 0; k < count; ++k) behind_[i][k] = behind_[i][k] || all[k];
      behind_[i][a] = behind_[i][b] = true;
    }
  }

  /// Again and again the group of the earliest launch that needs none of those that are left.
  std::vector<std::vector<size_t>> in_order() {
    std::vector<std::vector<size_t>> order;
    std::vector<bool> done(groups_.size());
    const auto is_ready = [&](size_t group) {
      for (size_t i = 0; i < groups_.size(); ++i) {
        if (!done[i] && !groups_[i].empty() && behind_[i][group]) return false;
      }
      return true;
    };
    for (size_t i = 0; i < groups_.size();) {
      if (done[i] || groups_[i].empty() || !is_ready(i)) {
        ++i;
        continue;
      }
      done[i] = true;
      order.push_back(groups_[i]);
      i = 0;
    }
    return order;
  }

  const std::vector<KernelLaunch>& launches_;
  const Target& target_;
  std::vector<std::vector<size_t>> groups_;  ///< launches; empty where a group went into another one
  std::vector<std::vector<bool>> behind_;    ///< by launch and launch: whether the second needs the first to be done
};

/// One launch in place of several.
class Group {
 public:
  Group(std::vector<const KernelLaunch*> parts, const Target& target, bool spreading)
      : parts_(std::move(parts)), parameters_(parts_) {
    const KernelLaunch& first = *parts_.front();
    name_ = first.kernel.substr(0, first.kernel.size() - std::string_view("_kernel").size()) + "_group";
    made_.kernel = name_ + "_kernel";
    made_.function = name_;
    made_.arguments = parameters_.arguments;
    made_.types = parameters_.types;
    made_.parameters = parameters_.names;
    made_.tensor_maps = parameters_.tensor_maps;
    made_.seconds = seconds_together(parts_, target);
    made_.grid[0] = 0;
    made_.parts = static_cast<int>(parts_.size());
    int64_t budget = 0;  // threads of a multiprocessor that share its registers; 0: as the compiler likes
    for (const KernelLaunch* part : parts_) {
      made_.grid[0] += blocks_of(*part);
      made_.threads = std::max(made_.threads, part->threads);
      made_.cluster = std::max(made_.cluster, part->cluster);
      made_.own_shared_bytes = std::max(made_.own_shared_bytes, part->own_shared_bytes);
      made_.registers = std::max(made_.registers, part->registers);
      made_.device_bytes += part->device_bytes;
      made_.layouts.choices += part->layouts.choices;
      made_.layouts.seconds += part->layouts.seconds;
      prepares_ |= !part->preparation.empty();
      const int64_t wanted = part->threads * part->resident_blocks;
      if (wanted > 0) budget = budget == 0 ? wanted : std::min(budget, wanted);
    }
    if (budget > 0) made_.resident_blocks = std::max<int64_t>(1, budget / made_.threads);
    made_.shared_bytes = made_.own_shared_bytes;
    if (spreading)
      made_.shared_bytes =
          std::max(made_.shared_bytes, spreading_bytes(made_.grid[0], {.cluster = made_.cluster}, target));
    if (prepares_) made_.preparation = name_ + "_start";
    add_accesses();
  }

  const KernelLaunch& launch() const { return made_; }

  /// The functions that its kernel calls.
  std::string text() const {
    std::string list;
    for (const KernelLaunch* part : parts_) list += (list.empty() ? "" : ", ") + part->kernel;
    return fmt::format("// In one launch, none of which needs another: {}.\n", list) + start_function() + function();
  }

 private:
  /// Those of all parts, where all are known.
  void add_accesses() {
    int64_t first = 0;
    for (size_t n = 0; n < parts_.size(); ++n) {
      const KernelLaunch& part = *parts_[n];
      const auto accesses = renumbered(blocks_from(first, part.grid), parameters_.accesses(n, part));
      if (accesses.empty()) return made_.block_accesses.clear();
      made_.block_accesses.insert(made_.block_accesses.end(), accesses.begin(), accesses.end());
      first += blocks_of(part);
    }
  }

  /// Statements in a branch for each part; `branch` has its own as far as blocks take part.
  template <class Branch>
  std::string by_block(const Branch& branch) const {
    std::string text;
    int64_t first = 0;
    for (size_t n = 0; n < parts_.size(); ++n) {
      const int64_t end = first + blocks_of(*parts_[n]);
      text += fmt::format("  if (block < {}) {{\n{}    return;\n  }}\n", end, branch(n, first));
      first = end;
    }
    return text;
  }

  std::string start_function() const {
    if (!prepares_) return "";
    return fmt::format(
        "static STRATA_DEVICE void {}_start([[maybe_unused]] unsigned char* shared) {{\n"
        "  const auto block = strata_device::block();\n{}}}\n\n",
        name_, by_block([&](size_t n, int64_t) {
          const std::string& start = parts_[n]->preparation;
          return start.empty() ? std::string() : fmt::format("    {}(shared);\n", start);
        }));
  }

  std::string function() const {
    return fmt::format(
        "static STRATA_DEVICE void {}({}, {}, [[maybe_unused]] unsigned char* shared) {{\n"
        "  const auto block = block_x;\n{}}}\n\n",
        name_, parameters_.declaration(), kBlockCoordinates,
        by_block([&](size_t n, int64_t first) { return call(n, first); }));
  }

  std::string call(size_t n, int64_t first) const {
    const KernelLaunch& part = *parts_[n];
    std::string text;
    if (part.threads < made_.threads)
      text += fmt::format("    if (strata_device::thread() >= {}) return;\n", part.threads);
    text += fmt::format("    const auto at = block - {};\n", first);
    std::vector<std::string> arguments = parameters_.tensors[n];
    arguments.insert(arguments.end(), parameters_.maps[n].begin(), parameters_.maps[n].end());
    arguments.push_back(
        part.coordinates({fmt::format("at % {}", part.grid[0]), fmt::format("at / {} % {}", part.grid[0], part.grid[1]),
                          fmt::format("at / {}", part.grid[0] * part.grid[1])}));
    arguments.emplace_back("shared");
    const std::string& function = part.threads == made_.threads ? part.function : part.part_function;
    return text + fmt::format("    {}({});\n", function, fmt::join(arguments, ", "));
  }

  std::vector<const KernelLaunch*> parts_;
  JoinedParameters parameters_;
  std::string name_;
  bool prepares_ = false;
  KernelLaunch made_;
};

}  // namespace

bool can_share_launch(const std::vector<const KernelLaunch*>& launches) {
  int64_t cluster = 1;
  for (const KernelLaunch* launch : launches) cluster = std::max(cluster, launch->cluster);
  return std::all_of(launches.begin(), launches.end(), [&](const KernelLaunch* launch) {
    return !launch->part_function.empty() && !launch->resident && launch->threads % kWarp == 0 &&
           (launch->cluster == 1 || launch->cluster == cluster) && blocks_of(*launch) % cluster == 0;
  });
}

double seconds_together(const std::vector<const KernelLaunch*>& launches, const Target& target) {
  if (launches.size() == 1) return launches.front()->seconds;
  int64_t threads = 1;
  int64_t shared_bytes = 0;
  int64_t registers = 1;
  int64_t blocks = 0;
  for (const KernelLaunch* launch : launches) {
    threads = std::max(threads, launch->threads);
    shared_bytes = std::max(shared_bytes, launch->own_shared_bytes);
    registers = std::max(registers, registers_of(*launch));
    blocks += blocks_of(*launch);
  }
  const bool large = std::any_of(launches.begin(), launches.end(),
                                 [&](const KernelLaunch* launch) { return launch->cluster >= target.large_cluster; });
  const int64_t count = large ? target.cluster_multiprocessors : target.multiprocessors;
  const auto multiprocessors = static_cast<double>(count);
  const int64_t found = places(threads, registers, shared_bytes, target);
  double longest = 0;
  double work = 0;  // seconds of all multiprocessors
  double bytes = 0;
  for (const KernelLaunch* launch : launches) {
    const int64_t own = places(launch->threads, registers_of(*launch), launch->own_shared_bytes, target);
    const int64_t wanted = std::min(own, ceil_div(blocks_of(*launch), count));
    // Where fewer blocks of a kernel run at a time than in a launch of its own, it takes that much longer.
    const double slower = std::max(1.0, static_cast<double>(wanted) / static_cast<double>(found));
    const double busy = std::max(0.0, launch->seconds - target.kernel_seconds()) * slower;
    longest = std::max(longest, busy);
    work += busy * std::min(1.0, static_cast<double>(blocks_of(*launch)) / multiprocessors);
    bytes += launch->device_bytes;
  }
  // Multiprocessors have whole blocks: some wait for those that have one more.
  const double filled = static_cast<double>(blocks) / multiprocessors / static_cast<double>(ceil_div(blocks, count));
  return target.kernel_seconds() + std::max({longest, work / filled, bytes / target.rates.memory_bandwidth});
}

std::vector<std::vector<size_t>> plan_groups(const std::vector<KernelLaunch>& launches, const Target& target) {
  return GroupPlan(launches, target).run();
}

std::string group_launches(GeneratedProgram& program, const Target& target, bool spreading) {
  std::vector<KernelLaunch> launches;
  std::string text;
  for (const std::vector<size_t>& numbers : plan_groups(program.launches, target)) {
    if (numbers.size() == 1) {
      launches.push_back(program.launches[numbers.front()]);
      continue;
    }
    std::vector<const KernelLaunch*> parts;
    for (size_t i : numbers) parts.push_back(&program.launches[i]);
    // Blocks are started in order: the longest first.
    std::stable_sort(parts.begin(), parts.end(),
                     [](const KernelLaunch* a, const KernelLaunch* b) { return a->seconds > b->seconds; });
    const Group group(parts, target, spreading);
    for (const KernelLaunch* part : parts) program.saved.seconds += part->seconds;
    program.saved.seconds -= group.launch().seconds;
    program.saved.kernels += static_cast<int>(parts.size()) - 1;
    text += group.text();
    launches.push_back(group.launch());
  }
  program.launches = std::move(launches);
  return text;
}

}  // namespace strata

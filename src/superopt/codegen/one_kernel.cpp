#include "superopt/codegen/one_kernel.h"

#include <algorithm>

#include "superopt/codegen/block_accesses.h"
#include "superopt/codegen/emit.h"
#include "superopt/codegen/joined_parameters.h"
#include "superopt/codegen/kernel_text.h"

namespace strata {
namespace {

constexpr int64_t kWarp = 32;
constexpr int64_t kAlignment = 1024;
constexpr int64_t kCounterBytes = 128;

int64_t aligned(int64_t bytes) { return ceil_div(bytes, kAlignment) * kAlignment; }

/// Why a launch cannot be part of another; empty where it can.
std::string refusal(const KernelLaunch& launch) {
  if (launch.library) return "a library's work is a launch of its own";
  if (!launch.task) return "it is more than one block function";
  if (launch.cluster > 1) return "its blocks are in clusters";
  if (launch.task->ring && launch.task->ring->team_registers > 0) return "its threads pass registers on";
  if (launch.task->team % kWarp != 0) return fmt::format("{} threads are no whole warps", launch.task->team);
  return "";
}

class OneKernel {
 public:
  OneKernel(GeneratedProgram program, const Target& target) : program_(std::move(program)), target_(target) {}

  Result<GeneratedProgram> run() {
    STRATA_CHECK(plan());
    KernelLaunch made;
    made.kernel =
        program_.launches.front().kernel.substr(0, program_.launches.front().kernel.find('_')) + "_all_kernel";
    made.grid = {blocks_, 1, 1};
    made.threads = team_ + (rings_ ? kWarp : 0);
    made.resident_blocks = 1;
    made.shared_bytes = scratch_ + scratch_bytes_;
    made.resident = true;
    add_parameters(made);
    const std::string name = made.kernel.substr(0, made.kernel.size() - std::string_view("_kernel").size());
    made.function = name;
    if (rings_) made.preparation = name + "_start";
    program_.source +=
        start_function(name) + tasks(name, "_load") + tasks(name, "_compute") + block(name) + kernel_text(made);
    program_.launches = {std::move(made)};
    return std::move(program_);
  }

 private:
  /// Where a launch's ring lies in shared memory: barriers, page and slots.
  Result<void> plan() {
    if (program_.launches.empty()) return unsupported("a program without launches has no kernel");
    blocks_ = target_.multiprocessors;
    for (const KernelLaunch& launch : program_.launches) {
      if (const std::string why = refusal(launch); !why.empty())
        return unsupported("{} cannot be a part of one kernel: {}", launch.kernel, why);
      team_ = std::max(team_, launch.task->team);
      scratch_bytes_ = std::max(scratch_bytes_, launch.task->scratch_bytes);
      places_.push_back(scratch_);
      if (!launch.task->ring) continue;
      rings_ = true;
      const RingPlan& ring = *launch.task->ring;
      // Its page is filled again while others compute: it has a barrier of its own for that.
      scratch_ += aligned(barrier_bytes(ring)) + aligned(ring.page_bytes) + aligned(ring.slots * ring.slot_bytes);
    }
    if (scratch_ + scratch_bytes_ > target_.shared_memory)
      return unsupported("the rings of its block functions need {} bytes of shared memory beside each other; {} has {}",
                         scratch_ + scratch_bytes_, target_.name, target_.shared_memory);
    return {};
  }

  static int64_t barrier_bytes(const RingPlan& ring) { return (2 * ring.slots + 2) * 8; }

  void add_parameters(KernelLaunch& made) {
    std::vector<const KernelLaunch*> launches;
    for (const KernelLaunch& launch : program_.launches) launches.push_back(&launch);
    parameters_.emplace(launches);
    std::string counter = "phases";
    while (std::find(parameters_->arguments.begin(), parameters_->arguments.end(), counter) !=
           parameters_->arguments.end())
      counter += "_";
    parameters_->add(counter, "unsigned*", "phases");
    program_.counters.push_back({counter, {DType::F32, {kCounterBytes / 4}}});
    made.arguments = parameters_->arguments;
    made.types = parameters_->types;
    made.parameters = parameters_->names;
    made.tensor_maps = parameters_->tensor_maps;
    add_accesses(made);
  }

  /// Of all phases in order, where all are known: a later one reads what those before it wrote. Its two counters lie
  /// apart (device/strata_handover.h, end_phases).
  void add_accesses(KernelLaunch& made) const {
    constexpr int64_t kBetweenCounters = 16;
    for (size_t n = 0; n < program_.launches.size(); ++n) {
      const KernelLaunch& launch = program_.launches[n];
      const auto accesses = renumbered(blocks_in_turn(blocks_, launch.grid), parameters_->accesses(n, launch));
      if (accesses.empty()) return made.block_accesses.clear();
      made.block_accesses.insert(made.block_accesses.end(), accesses.begin(), accesses.end());
    }
    indexing::IndexingMap counters;
    counters.dims = indexing::positions({blocks_, 1, 1});
    counters.ranges = {indexing::below(2)};
    counters.results = {indexing::Expr::range(0) * kBetweenCounters};
    for (const bool writes : {false, true})
      made.block_accesses.push_back({made.arguments.size() - 1, writes, true, counters});
  }

  std::string start_function(const std::string& name) const {
    if (!rings_) return "";
    std::string text = fmt::format(
        "static STRATA_DEVICE void {}_start(unsigned char* shared) {{\n  if (strata_device::thread() == 0) {{\n", name);
    for (size_t n = 0; n < program_.launches.size(); ++n) {
      const KernelLaunch& launch = program_.launches[n];
      if (!launch.task->ring) continue;
      text += fmt::format("    strata_device::start_ring<{}, {}, {}>(shared + {});\n", launch.task->ring->slots,
                          launch.task->ring->done, launch.task->team / kWarp, places_[n]);
    }
    return text + "    strata_device::show_barriers();\n  }\n  strata_device::barrier();\n}\n\n";
  }

  /// The variables of a launch's ring.
  std::string ring_variables() const {
    std::string text;
    for (size_t n = 0; n < program_.launches.size(); ++n) {
      const KernelLaunch& launch = program_.launches[n];
      if (!launch.task->ring) continue;
      const RingPlan& ring = *launch.task->ring;
      const int64_t page = places_[n] + aligned(barrier_bytes(ring));
      text += fmt::format(
          "  strata_device::Ring ring_{0} = strata_device::ring_at<{1}>(shared + {2}, {3});\n"
          "  [[maybe_unused]] strata_device::Page page_{0} = strata_device::kept_page_at<{1}>(shared + {2}, {4});\n",
          n, ring.slots, places_[n], page + aligned(ring.page_bytes) - places_[n], page - places_[n]);
    }
    return text;
  }

  /// What one thread does to bring tiles, or the team to compute: NAME_load, NAME_compute.
  std::string tasks(const std::string& name, std::string_view what) const {
    const bool loads = what == "_load";
    if (loads && !rings_) return "";
    std::string text = fmt::format("{}static STRATA_DEVICE void {}{}({}, int first, unsigned char* shared) {{\n",
                                   loads ? "" : "template <class Team>\n", name, what, parameters_->declaration());
    text += ring_variables();
    if (!loads) text += fmt::format("  [[maybe_unused]] unsigned char* const scratch = shared + {};\n", scratch_);
    for (size_t n = 0; n < program_.launches.size(); ++n) {
      const KernelLaunch& launch = program_.launches[n];
      const BlockTask& task = *launch.task;
      const bool ring = task.ring.has_value();
      if (loads && n > 0 && ring)
        text += fmt::format("  strata_device::wait_for_phase<{}>({}, {});\n", blocks_, parameters_->names.back(), n);
      if (!loads || ring) {
        const int64_t count = launch.grid[0] * launch.grid[1] * launch.grid[2];
        text += fmt::format("  for (int task = first; task < {}; task += {}) {{\n", count, blocks_);
        const std::string x = fmt::format("task % {}", launch.grid[0]);
        const std::string y = fmt::format("task / {} % {}", launch.grid[0], launch.grid[1]);
        const std::string z = fmt::format("task / {}", launch.grid[0] * launch.grid[1]);
        std::vector<std::string> arguments = parameters_->tensors[n];
        if (loads) arguments.insert(arguments.end(), parameters_->maps[n].begin(), parameters_->maps[n].end());
        arguments.push_back(launch.coordinates({x, y, z}));
        if (ring) arguments.insert(arguments.end(), {fmt::format("ring_{}", n), fmt::format("page_{}", n)});
        if (!loads) arguments.emplace_back("scratch");
        const bool all = task.team == team_;
        const std::string team = all ? "Team" : fmt::format("typename Team::template First<{}>", task.team);
        const std::string function =
            loads ? task.name + "_load" : fmt::format("{}<{}, {}>", task.name, team, task.math);
        text += fmt::format("    {}{}({});\n", loads || all ? "" : fmt::format("if (Team::rank() < {}) ", task.team),
                            function, fmt::join(arguments, ", "));
        if (!loads) text += "    Team::meet();  // the next one uses the same memory\n";
        text += "  }\n";
      }
      if (!loads && n + 1 < program_.launches.size())
        text +=
            fmt::format("  strata_device::end_phase<Team, {}>({}, {});\n", blocks_, parameters_->names.back(), n + 1);
    }
    text += fmt::format("  {}strata_device::end_phases<{}>({});\n", loads ? "" : "if (Team::rank() == 0) ",
                        rings_ ? 2 * blocks_ : blocks_, parameters_->names.back());
    return text + "}\n\n";
  }

  /// What a block does: roles part.
  std::string block(const std::string& name) const {
    std::vector<std::string> arguments = parameters_->values();
    arguments.insert(arguments.end(), {"static_cast<int>(block_x)", "shared"});
    const std::string call = fmt::format("{}", fmt::join(arguments, ", "));
    std::string text = fmt::format("static STRATA_DEVICE void {}({}, {}, unsigned char* shared) {{\n", name,
                                   parameters_->declaration(), kBlockCoordinates);
    if (rings_) {
      text += fmt::format(
          "  if (strata_device::thread() >= {0}) {{\n    if (strata_device::thread() == {0}) {1}_load({2});\n"
          "    return;\n  }}\n",
          team_, name, call);
    }
    return text + fmt::format("  {}_compute<{}>({});\n}}\n\n", name, team_text(team_, 1), call);
  }

  GeneratedProgram program_;
  const Target& target_;
  int64_t blocks_ = 0;
  int64_t team_ = kWarp;
  bool rings_ = false;
  std::vector<int64_t> places_;  ///< by launch: of its ring
  int64_t scratch_ = 0;          ///< where it begins, after all rings
  int64_t scratch_bytes_ = 0;
  std::optional<JoinedParameters> parameters_;
};

}  // namespace

Result<GeneratedProgram> as_one_kernel(GeneratedProgram program, const Target& target) {
  return OneKernel(std::move(program), target).run();
}

}  // namespace strata

#include "emitters/loop_kernel.h"

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Linker/Linker.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "emitters/backend/cpu_kernel.h"
#include "emitters/backend/ptx.h"
#include "emitters/math/math_library.h"
#include "runtime/gpu_steps.h"
#include "runtime/loop_buffers.h"

namespace strata::emitters {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kWarp = 32;
constexpr int kMostPlaces = 8;            ///< of a value: a few first ones, and two or three, or both, by turns
constexpr int64_t kMostArguments = 4000;  ///< PTX has 32,764 bytes for them
/// Blocks that a block computes one after the other in an iteration, at most: beyond it kernels of their own, of which
/// more threads run at the same time, make up for the time between them.
constexpr int64_t kMostRounds = 8;
constexpr int64_t kMostSerialRounds = 2;
constexpr int64_t kMostSerialBytes = 4096;
constexpr int64_t kBytesOfAThread = 16;

template <typename Integer>
Integer divided_up(Integer a, Integer b) {
  return (a + b - 1) / b;
}

/// What a launch takes of a fusion's estimate beside the launch itself, in seconds. Without an estimate it is the time
/// that the arrays' bytes take.
double own_seconds(const ProgramStep& step, const Target& target) {
  const EmittedFusion& fusion = *step.fusion;
  const Decision& decision = fusion.decision();
  const auto launches = static_cast<double>(decision.launches.size());
  if (step.microseconds && std::isfinite(*step.microseconds)) {
    const double started =
        launches * target.kernel_seconds() + static_cast<double>(decision.preparations.size()) * target.rates.launch;
    return std::max(*step.microseconds * 1e-6 - started, 0.0) / launches;
  }
  double bytes = 0;
  for (const std::vector<hlo::Shape>* shapes : {&fusion.inputs(), &fusion.outputs()}) {
    for (const hlo::Shape& shape : *shapes)
      bytes += static_cast<double>(shape.element_count()) * hlo::byte_width(shape.type);
  }
  return bytes / target.rates.memory_bandwidth;
}

class Planner {
 public:
  Planner(const LaunchManifest& manifest, const GpuLoop& loop, const EmittedProgram& body, const Target& target)
      : manifest_(manifest), loop_(loop), target_(target) {
    for (const ProgramStep& step : body.steps) {
      if (!step.fusion) continue;
      const std::vector<std::string> names = step.fusion->kernel_names();
      for (size_t i = 0; i < names.size(); ++i)
        kernels_[names[i]] = {&*step.fusion, &step.fusion->decision().launches[i], own_seconds(step, target)};
    }
  }

  /// Whether the loop can be one kernel, and is to be.
  bool plan(LoopFunction& made, std::vector<std::string>& arguments) {
    if (loop_.once || !loop_.condition.empty()) return false;
    if (!(loop_.count ? add_counted_values(made) : add_values(made)) || !add_works()) return false;
    std::optional<LoopFunction> best;
    for (const bool alone : {false, true}) {
      std::optional<LoopFunction> one = spread(made, alone);
      if (one && (!best || iteration_seconds(*one) < iteration_seconds(*best))) best = std::move(one);
    }
    if (!best || (loop_.count && !is_sooner(*best))) return false;
    made = *std::move(best);
    if (std::ssize(arguments_) > kMostArguments) return false;
    made.buffers = static_cast<int>(arguments_.size()) + 1;
    arguments = std::move(arguments_);
    return true;
  }

 private:
  /// A kernel of the body.
  struct Known {
    const EmittedFusion* fusion = nullptr;
    const Launch* launch = nullptr;
    double seconds = 0;  ///< beside the launch
  };

  /// A work, and what it writes of its slots; it may read all.
  struct Touching {
    LoopWork work;
    std::set<LoopSlot> touched, written;
  };

  const GpuBuffer& root(const std::string& name) const {
    const GpuBuffer* at = manifest_.find(name);
    while (!at->lies_in.empty()) at = manifest_.find(at->lies_in);
    return *at;
  }

  int argument(const std::string& name) {
    const std::string& of = root(name).name;
    const auto found = std::find(arguments_.begin(), arguments_.end(), of);
    if (found != arguments_.end()) return static_cast<int>(found - arguments_.begin());
    arguments_.push_back(of);
    return static_cast<int>(arguments_.size()) - 1;
  }

  /// Of a value: the one whose array the slot is, where values are written in place.
  LoopSlot slot_of(LoopSlot::Kind kind, size_t value) const {
    return {in_place_[value] ? LoopSlot::Kind::Current : kind, static_cast<int>(value)};
  }

  LoopSlot slot(const std::string& name) {
    const std::string& of = root(name).name;
    for (size_t i = 0; i < loop_.values.size(); ++i) {
      const std::vector<std::string>& current = loop_.values[i].current;
      if (std::count(current.begin(), current.end(), of) > 0) return slot_of(LoopSlot::Kind::Current, i);
    }
    const auto written = writers_.find(of);
    if (written != writers_.end()) return slot_of(LoopSlot::Kind::Next, written->second);
    return {LoopSlot::Kind::Buffer, argument(of)};
  }

  bool add_values(LoopFunction& made) {
    int answer = -1;
    for (size_t i = 0; i < loop_.values.size(); ++i) {
      const GpuLoop::Value& it = loop_.values[i];
      LoopFunction::Value& value = made.values.emplace_back();
      const auto is_own = [&](const std::string& name) {
        return std::count(it.current.begin(), it.current.end(), root(name).name) > 0;
      };
      const int initial = argument(it.initial);
      value.places = {initial};
      value.bytes = root(it.initial).type.bytes();
      in_place_.push_back(it.over == static_cast<int64_t>(i));
      const bool changes = !is_own(it.next);
      if (is_own(loop_.answer)) answer = static_cast<int>(i);
      // Blocks read the answer without waiting for each other: an iteration must not write over it.
      if (answer == static_cast<int>(i) && changes && in_place_[i]) return false;
      if (!changes) continue;
      if (it.result.empty() || it.spare.empty()) return false;
      value.result = argument(it.result);
      if (in_place_[i]) {
        value.places = {value.result};
        if (initial != value.result) value.before = initial;
      } else {
        value.places = {initial, value.result, argument(it.spare)};
      }
      if (root(it.next).role == BufferRole::Carried) writers_.try_emplace(root(it.next).name, i);
    }
    made.answer = answer;
    return answer >= 0;
  }

  /// The argument that has a value of a loop whose iterations are counted.
  int argument_of(const LoopPlace& place, size_t leaf) {
    const auto number = static_cast<size_t>(place.number);
    switch (place.kind) {
      case LoopPlace::Kind::Initial:
        return argument(loop_.values[number].initial);
      case LoopPlace::Kind::Result:
        return argument(loop_.values[number].result);
      case LoopPlace::Kind::Scratch:
        return argument(loop_.scratch[number]);
      case LoopPlace::Kind::Constant:
        return argument(manifest_.buffers[number].name);
      case LoopPlace::Kind::Counter:
        return argument(loop_.values[leaf].counted);
    }
    return -1;
  }

  /// Values lie where launches would have them (loop_buffers.h), which repeats after some iterations.
  bool add_counted_values(LoopFunction& made) {
    if (*loop_.count < 1 || !has_works_alone()) return false;
    const Result<LoopFlow> flow = flow_of(manifest_, loop_);
    if (!flow) return false;
    const std::vector<std::vector<LoopPlace>> states = plan_loop_buffers(*flow).states;
    const size_t leaves = loop_.values.size();
    std::vector<std::vector<int>> at(leaves);  // by leaf, then by iteration
    for (size_t leaf = 0; leaf < leaves; ++leaf) {
      for (const std::vector<LoopPlace>& state : states) at[leaf].push_back(argument_of(state[leaf], leaf));
    }
    const auto is_written = [&](size_t leaf) { return flow->leaves[leaf].next == LoopFlow::Leaf::Next::Written; };
    std::vector<int> before(leaves, -1);
    for (size_t leaf = 0; leaf < leaves; ++leaf) {
      std::vector<int>& places = at[leaf];
      const bool stays = std::all_of(places.begin() + 1, places.end(), [&](int one) { return one == places[1]; });
      in_place_.push_back(is_written(leaf) && loop_.values[leaf].over == static_cast<int64_t>(leaf) && stays);
      if (in_place_[leaf] && places[0] != places[1]) before[leaf] = std::exchange(places[0], places[1]);
    }
    if (!find_turns(at, made)) return false;
    // No iteration writes over what it reads but in place.
    for (size_t leaf = 0; leaf < leaves; ++leaf) {
      for (size_t other = 0; is_written(leaf) && other < leaves; ++other) {
        if (other == leaf && in_place_[leaf]) continue;
        for (size_t k = 0; k + 1 < states.size(); ++k) {
          if (at[leaf][k + 1] == at[other][k] && !flow->leaves[other].counter) return false;
        }
      }
    }
    for (size_t leaf = 0; leaf < leaves; ++leaf) {
      const GpuLoop::Value& it = loop_.values[leaf];
      LoopFunction::Value& value = made.values.emplace_back();
      value.places.assign(at[leaf].begin(), at[leaf].begin() + std::min<int64_t>(made.places, std::ssize(at[leaf])));
      value.before = before[leaf];
      value.bytes = flow->leaves[leaf].bytes;
      if (flow->leaves[leaf].counter) value.stride = value.bytes;
      if (is_written(leaf)) writers_.try_emplace(root(it.next).name, leaf);
      if (it.result.empty()) continue;
      const int result = argument(it.result);
      const bool lies_there = at[leaf].back() == result && !flow->leaves[leaf].counter;
      if (!lies_there) value.result = result;
    }
    // Copies of last values wait for no others: none may be written over what another one reads.
    for (const LoopFunction::Value& value : made.values) {
      for (size_t leaf = 0; value.result >= 0 && leaf < leaves; ++leaf) {
        if (made.values[leaf].result >= 0 && at[leaf].back() == value.result) return false;
      }
    }
    made.count = loop_.count;
    return true;
  }

  /// After how many iterations all values lie where they lay: a first value that moves from leaf to leaf lies where no
  /// later one does.
  static bool find_turns(const std::vector<std::vector<int>>& at, LoopFunction& made) {
    for (int all = 2; all <= kMostPlaces; ++all) {
      for (int first = 1; first < all; ++first) {
        const bool repeats = std::all_of(at.begin(), at.end(), [&](const std::vector<int>& places) {
          return std::ssize(places) <= all || std::equal(places.begin() + all, places.end(), places.begin() + first);
        });
        if (!repeats) continue;
        made.places = all;
        made.repeats = first;
        return true;
      }
    }
    return false;
  }

  /// Adds what is done with it, in order.
  void add(LoopWork work, const std::vector<size_t>& written) {
    Touching& it = works_.emplace_back();
    it.touched.insert(work.slots.begin(), work.slots.end());
    for (const size_t one : written) it.written.insert(work.slots[one]);
    it.work = std::move(work);
  }

  bool add_launch(const GpuLaunch& launch) {
    const auto known = kernels_.find(launch.kernel);
    if (launch.library || known == kernels_.end() || !launch.tensor_maps.empty()) return false;
    const auto& [fusion, of, seconds] = known->second;
    if (fusion->decision().emitter == "product") return false;
    LoopWork work;
    work.function = launch.kernel;
    work.blocks = of->blocks;
    work.threads = of->threads;
    work.shared_bytes = of->shared_bytes;
    std::vector<size_t> written;
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      work.slots.push_back(slot(launch.arguments[i]));
      if (i >= fusion->inputs().size()) written.push_back(i);
    }
    add(std::move(work), written);
    return true;
  }

  void add_copy(const LoopSlot& from, const LoopSlot& to, int64_t bytes) {
    if (from == to) return;
    LoopWork work;
    work.kind = LoopWork::Kind::Copy;
    work.slots = {from, to};
    work.bytes = bytes;
    add(std::move(work), {1});
  }

  /// Whether all steps are works of a kernel, which is known before what they read and write.
  bool has_works_alone() const {
    return std::all_of(loop_.body.begin(), loop_.body.end(), [](const GpuStep& step) {
      return step.launch() != nullptr || std::holds_alternative<GpuCopy>(step.work) ||
             std::holds_alternative<GpuFill>(step.work);
    });
  }

  bool add_works() {
    for (const GpuStep& step : loop_.body) {
      if (const GpuLaunch* launch = step.launch()) {
        if (!add_launch(*launch)) return false;
      } else if (const auto* copied = std::get_if<GpuCopy>(&step.work)) {
        add_copy(slot(copied->from), slot(copied->to), manifest_.find(copied->to)->type.bytes());
      } else if (const auto* filled = std::get_if<GpuFill>(&step.work)) {
        constexpr size_t kWidths[] = {1, 2, 4, 8, 16};
        const size_t width = filled->pattern.size();
        if (std::find(std::begin(kWidths), std::end(kWidths), width) == std::end(kWidths)) return false;
        LoopWork work;
        work.kind = LoopWork::Kind::Fill;
        work.slots = {slot(filled->to)};
        work.bytes = manifest_.find(filled->to)->type.bytes();
        work.pattern = filled->pattern;
        add(std::move(work), {0});
      } else {
        return false;
      }
    }
    // What no step writes where it is to lie; where iterations are counted, values lie where they were written.
    for (size_t i = 0; !loop_.count && i < loop_.values.size(); ++i) {
      const GpuLoop::Value& it = loop_.values[i];
      const LoopSlot from = slot(it.next);
      const bool stays = from == LoopSlot{LoopSlot::Kind::Current, static_cast<int>(i)};
      if (!stays) add_copy(from, slot_of(LoopSlot::Kind::Next, i), root(it.initial).type.bytes());
    }
    return std::any_of(works_.begin(), works_.end(),
                       [](const Touching& it) { return it.work.kind == LoopWork::Kind::Call; });
  }

  /// The works in one block, or as a launch spreads the largest of them: over all multiprocessors, and as many threads
  /// on each as it has then, or as there may be. Nothing where a block had too much to do.
  std::optional<LoopFunction> spread(LoopFunction made, bool alone) const {
    int64_t blocks = 1;
    for (const Touching& it : works_) {
      const bool is_call = it.work.kind == LoopWork::Kind::Call;
      blocks = std::max(blocks, is_call ? it.work.blocks : divided_up(it.work.bytes, kBytesOfAThread * kMostThreads));
    }
    made.blocks = alone ? 1 : std::min<int64_t>(blocks, target_.multiprocessors);
    int64_t threads = kWarp;
    for (const Touching& it : works_) {
      if (it.work.kind != LoopWork::Kind::Call) continue;
      const int64_t wanted = divided_up(it.work.blocks, made.blocks) * it.work.threads;
      threads = std::max({threads, int64_t{it.work.threads}, std::min<int64_t>(wanted, kMostThreads)});
    }
    made.threads = static_cast<int>(divided_up(threads, int64_t{kWarp}) * kWarp);
    made.shared_bytes = shared_bytes_of(made_of(made), target_.shared_memory);
    if (made.shared_bytes > target_.shared_memory) return std::nullopt;
    for (const Touching& it : works_) {
      if (divided_up(groups(made, it.work), made.blocks) > kMostRounds) return std::nullopt;
    }
    add_stages(made);
    return made;
  }

  LoopFunction made_of(const LoopFunction& made) const {
    LoopFunction all = made;
    LoopStage& stage = all.stages.emplace_back();
    for (const Touching& it : works_) stage.works.push_back(it.work);
    return all;
  }

  /// Of a work: as many as one block does at the same time are one.
  static int64_t groups(const LoopFunction& made, const LoopWork& work) {
    if (work.kind == LoopWork::Kind::Call)
      return divided_up(work.blocks, parts_of(work, made.threads, made.shared_bytes));
    return divided_up(work.bytes, kBytesOfAThread * made.threads);
  }

  static bool is_small(const LoopFunction& made, const LoopWork& work) {
    return work.kind == LoopWork::Kind::Call ? groups(made, work) <= kMostSerialRounds : work.bytes <= kMostSerialBytes;
  }

  static bool meets(const std::set<LoopSlot>& a, const std::set<LoopSlot>& b) {
    return std::any_of(a.begin(), a.end(), [&](const LoopSlot& one) { return b.count(one) > 0; });
  }

  /// A stage ends where a work touches what another one of it writes. What one block does without much ado is done by
  /// the last that comes to the barrier, with the others waiting: that saves a barrier.
  void add_stages(LoopFunction& made) const {
    std::vector<LoopStage> stages;
    std::set<LoopSlot> touched, written;
    for (const Touching& it : works_) {
      if (stages.empty() || meets(it.written, touched) || meets(it.touched, written)) {
        stages.push_back({true, {}});
        touched.clear();
        written.clear();
      }
      touched.insert(it.touched.begin(), it.touched.end());
      written.insert(it.written.begin(), it.written.end());
      stages.back().serial &= is_small(made, it.work);
      stages.back().works.push_back(it.work);
    }
    const auto large = std::find_if(stages.begin(), stages.end(), [](const LoopStage& one) { return !one.serial; });
    if (made.blocks == 1 || large == stages.end()) {
      for (LoopStage& stage : stages) stage.serial = false;
      made.stages = std::move(stages);
      return;
    }
    made.ahead.assign(stages.begin(), large);
    made.stages.assign(large, stages.end());
  }

  /// What a work does beside its loads' and stores' way, by so many blocks of all of the kernel's.
  double own_seconds_of(const LoopFunction& made, const LoopWork& work, int64_t blocks) const {
    const Rates& rates = target_.rates;
    if (work.kind != LoopWork::Kind::Call) {
      const double bytes = static_cast<double>(work.bytes) * (work.kind == LoopWork::Kind::Copy ? 2 : 1);
      const double each = static_cast<double>(blocks) * rates.multiprocessor_bandwidth;
      return bytes / std::min(rates.memory_bandwidth, each);
    }
    // Launched alone it has more threads to hide what memory takes.
    const int64_t alone = std::min<int64_t>(work.blocks, target_.multiprocessors);
    const int64_t on_one =
        std::min<int64_t>(divided_up(work.blocks, alone) * work.threads, target_.threads_per_multiprocessor);
    const int64_t here = parts_of(work, made.threads, made.shared_bytes) * work.threads;
    const double slower = std::max(static_cast<double>(on_one) / static_cast<double>(here), 1.0);
    const double fewer = static_cast<double>(alone) / static_cast<double>(std::min(alone, blocks));
    return kernels_.at(work.function).seconds * slower * fewer;
  }

  double seconds_of(const LoopFunction& made, const LoopStage& stage) const {
    const int64_t blocks = stage.serial ? 1 : made.blocks;
    double seconds = 0;
    for (const LoopWork& work : stage.works) {
      const auto rounds = static_cast<double>(divided_up(groups(made, work), blocks));
      seconds += rounds * (target_.rates.kernel - target_.rates.launch) + own_seconds_of(made, work, blocks);
    }
    return seconds;
  }

  double iteration_seconds(const LoopFunction& made) const {
    double seconds = 0;
    for (const std::vector<LoopStage>* stages : {&made.ahead, &made.stages}) {
      for (const LoopStage& stage : *stages) {
        seconds += seconds_of(made, stage);
        if (!stage.serial) seconds += made.blocks > 1 ? target_.rates.grid_barrier : target_.rates.iteration;
      }
    }
    return seconds;
  }

  /// Whether all iterations take less time than those of launches would.
  bool is_sooner(const LoopFunction& made) const {
    double launched = 0;
    for (const Touching& it : works_) {
      const bool is_call = it.work.kind == LoopWork::Kind::Call;
      launched += is_call ? target_.kernel_seconds() + kernels_.at(it.work.function).seconds
                          : target_.rates.launch + own_seconds_of(made, it.work, target_.multiprocessors);
    }
    const auto count = static_cast<double>(*made.count);
    // Its launch, and the barrier after what is copied before the first iteration.
    const Rates& rates = target_.rates;
    const double alone = target_.kernel_seconds() + rates.iteration;
    const double once = made.blocks > 1 ? rates.kernel + rates.grid_barrier : alone;
    return once + count * iteration_seconds(made) < count * launched;
  }

  const LaunchManifest& manifest_;
  const GpuLoop& loop_;
  const Target& target_;
  std::map<std::string, Known> kernels_;
  std::map<std::string, size_t> writers_;  ///< by carried buffer: the value whose next one is written there
  std::vector<bool> in_place_;             ///< by value
  std::vector<std::string> arguments_;
  std::vector<Touching> works_;
};

/// All block functions of the fusions, and the loop's.
Result<std::unique_ptr<llvm::Module>> module_of(const std::vector<EmittedFusion>& fusions, const LoopFunction& loop,
                                                llvm::LLVMContext& context, bool on_gpu) {
  std::unique_ptr<llvm::Module> all;
  std::set<std::string> known;
  for (const EmittedFusion& fusion : fusions) {
    if (!known.insert(fusion.module_name()).second) continue;
    STRATA_TRY(std::unique_ptr<llvm::Module> one, fusion.block_module(context, on_gpu));
    const std::vector<std::string> kernels = fusion.kernel_names();
    for (llvm::GlobalValue& value : one->global_values()) {
      const bool kernel = std::any_of(kernels.begin(), kernels.end(),
                                      [&](const std::string& it) { return value.getName() == it + "_block"; });
      if (!kernel && !value.isDeclaration()) value.setLinkage(llvm::GlobalValue::InternalLinkage);
    }
    if (all == nullptr) {
      all = std::move(one);
    } else if (llvm::Linker::linkModules(*all, std::move(one))) {
      return unsupported("the kernels of {} do not link: a fault of Strata", loop.name);
    }
  }
  STRATA_CHECK(add_loop_function(*all, loop));
  return all;
}

Result<std::string> ptx_of(const std::vector<EmittedFusion>& fusions, const LoopFunction& loop, const Target& target) {
  llvm::LLVMContext context;
  STRATA_TRY(const std::unique_ptr<llvm::Module> module, module_of(fusions, loop, context, true));
  PtxOptions options;
  options.arch = target.name;
  options.overlap = target.overlapping_kernels;
  options.kernels.push_back({loop.name, loop.threads});
  options.optimize.math = math_bitcode(MathTarget::Nvptx);
  return to_ptx(*module, options);
}

}  // namespace

std::optional<LoopKernel> loop_kernel(const LaunchManifest& manifest, const GpuLoop& loop, const std::string& name,
                                      const EmittedProgram& body, const EmitOptions& options) {
  LoopKernel made;
  made.function_.name = name;
  made.target_ = options.target;
  if (!Planner(manifest, loop, body, options.target).plan(made.function_, made.arguments_)) return std::nullopt;
  for (const ProgramStep& step : body.steps) {
    if (step.fusion) made.fusions_.push_back(*step.fusion);
  }
  return made;
}

const Result<std::string>& LoopKernel::compile() {
  ptx_ = ptx_of(fusions_, function_, target_);
  return ptx_;
}

Result<void> LoopKernel::run_on_cpu(std::span<void* const> buffers) const {
  llvm::LLVMContext context;
  LoopFunction alone = function_;
  alone.blocks = 1;
  STRATA_TRY(const std::unique_ptr<llvm::Module> module, module_of(fusions_, alone, context, false));
  OptimizeOptions options;
  options.math = math_bitcode(MathTarget::X86);
  STRATA_TRY(const std::vector<CpuKernel> kernels, compile_for_cpu(*module, std::vector<std::string>{name()}, options));
  return kernels.front().run(buffers, 1, threads(), static_cast<size_t>(shared_bytes()));
}

}  // namespace strata::emitters

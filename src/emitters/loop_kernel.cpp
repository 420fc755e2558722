#include "emitters/loop_kernel.h"

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Linker/Linker.h>

#include <algorithm>
#include <map>
#include <set>

#include "emitters/backend/cpu_kernel.h"
#include "emitters/backend/ptx.h"
#include "emitters/math/math_library.h"

namespace strata::emitters {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kWarp = 32;
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

class Planner {
 public:
  Planner(const LaunchManifest& manifest, const GpuLoop& loop, const std::vector<EmittedFusion>& fusions,
          const Target& target)
      : manifest_(manifest), loop_(loop), target_(target) {
    for (const EmittedFusion& fusion : fusions) {
      const std::vector<std::string> names = fusion.kernel_names();
      for (size_t i = 0; i < names.size(); ++i) kernels_[names[i]] = {&fusion, &fusion.decision().launches[i]};
    }
  }

  /// Whether the loop can be one kernel.
  bool plan(LoopFunction& made, std::vector<std::string>& arguments) {
    if (loop_.count || loop_.once || !loop_.condition.empty()) return false;
    if (!add_values(made) || !add_works()) return false;
    choose_threads(made);
    made.shared_bytes = shared_bytes_of(made_of(made), target_.shared_memory);
    if (made.shared_bytes > target_.shared_memory) return false;
    for (const Touching& it : works_)
      made.blocks = std::max(made.blocks, std::min<int64_t>(groups(made, it.work), target_.multiprocessors));
    for (const Touching& it : works_) {
      if (groups(made, it.work) > kMostRounds * made.blocks) return false;
    }
    add_stages(made);
    if (std::ssize(arguments_) > kMostArguments) return false;
    made.buffers = static_cast<int>(arguments_.size()) + 1;
    arguments = std::move(arguments_);
    return true;
  }

 private:
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

  bool is_in_place(size_t value) const { return loop_.values[value].over == static_cast<int64_t>(value); }

  /// Of a value: the one whose array the slot is, where values are written in place.
  LoopSlot slot_of(LoopSlot::Kind kind, size_t value) const {
    return {is_in_place(value) ? LoopSlot::Kind::Current : kind, static_cast<int>(value)};
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
      value.initial = value.first = value.second = argument(it.initial);
      value.bytes = root(it.initial).type.bytes();
      value.changes = !is_own(it.next);
      if (is_own(loop_.answer)) answer = static_cast<int>(i);
      if (!value.changes) continue;
      if (it.result.empty() || it.spare.empty()) return false;
      value.first = argument(it.result);
      value.second = is_in_place(i) ? value.first : argument(it.spare);
      value.wanted = true;
      if (root(it.next).role == BufferRole::Carried) writers_.try_emplace(root(it.next).name, i);
    }
    made.answer = answer;
    // Blocks read the answer without waiting for each other: an iteration must not write over it.
    return answer >= 0 &&
           !(made.values[static_cast<size_t>(answer)].changes && is_in_place(static_cast<size_t>(answer)));
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
    const auto& [fusion, of] = known->second;
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
    // What no step writes where it is to lie.
    for (size_t i = 0; i < loop_.values.size(); ++i) {
      const GpuLoop::Value& it = loop_.values[i];
      const LoopSlot from = slot(it.next);
      const bool stays = from == LoopSlot{LoopSlot::Kind::Current, static_cast<int>(i)};
      if (!stays) add_copy(from, slot_of(LoopSlot::Kind::Next, i), root(it.initial).type.bytes());
    }
    return std::any_of(works_.begin(), works_.end(),
                       [](const Touching& it) { return it.work.kind == LoopWork::Kind::Call; });
  }

  /// As many as the largest block, or all that a multiprocessor has room for where there is work for them.
  void choose_threads(LoopFunction& made) const {
    int64_t all = 0;
    for (const Touching& it : works_) {
      if (it.work.kind != LoopWork::Kind::Call) continue;
      made.threads = std::max(made.threads, it.work.threads);
      all = std::max(all, it.work.blocks * it.work.threads);
    }
    if (all > int64_t{made.threads} * target_.multiprocessors) made.threads = kMostThreads;
    made.threads = divided_up(made.threads, kWarp) * kWarp;
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

  const LaunchManifest& manifest_;
  const GpuLoop& loop_;
  const Target& target_;
  std::map<std::string, std::pair<const EmittedFusion*, const Launch*>> kernels_;
  std::map<std::string, size_t> writers_;  ///< by carried buffer: the value whose next one is written there
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
                                      const std::vector<EmittedFusion>& fusions, const EmitOptions& options) {
  LoopKernel made;
  made.function_.name = name;
  if (!Planner(manifest, loop, fusions, options.target).plan(made.function_, made.arguments_)) return std::nullopt;
  made.ptx_ = ptx_of(fusions, made.function_, options.target);
  if (!made.ptx_ && made.ptx_.error().code != ErrorCode::Environment) return std::nullopt;
  made.fusions_ = fusions;
  return made;
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

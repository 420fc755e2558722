#include "emitters/backend/delay_stores.h"

#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/MemoryLocation.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Target/TargetMachine.h>

#include <algorithm>

#include "emitters/backend/run_passes.h"

namespace strata::emitters {
namespace {

constexpr unsigned kGlobal = 1;  ///< address spaces of NVPTX
constexpr unsigned kShared = 3;

/// Stores of a basic block that have not found their place yet.
class Delayed {
 public:
  Delayed(llvm::AAResults& aliases, const llvm::DataLayout& layout, int64_t registers)
      : aliases_(aliases), layout_(layout), registers_(registers) {}

  void visit(llvm::Instruction& it) {
    if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&it); store && store->isSimple()) {
      if (store->getPointerAddressSpace() == kGlobal) return add(*store);
      if (store->getPointerAddressSpace() == kShared) return;
    }
    if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(&it); load && load->isSimple()) {
      if (load->getPointerAddressSpace() == kShared) return;
      const auto reads = llvm::MemoryLocation::get(load);
      if (llvm::any_of(stores_, [&](const llvm::StoreInst* store) {
            return !aliases_.isNoAlias(reads, llvm::MemoryLocation::get(store));
          }))
        place_before(it);
      else
        passed_ |= !stores_.empty();
      return;
    }
    if (it.mayReadOrWriteMemory() || it.isTerminator()) place_before(it);
  }

 private:
  void add(llvm::StoreInst& store) {
    const int64_t bits = layout_.getTypeSizeInBits(store.getValueOperand()->getType()).getFixedValue();
    const int64_t needs = (bits + 31) / 32;
    if (alive_ + needs > registers_) place_before(store);
    stores_.push_back(&store);
    alive_ += needs;
  }

  /// All of them, in their order. Where no load stands between, they stay.
  void place_before(llvm::Instruction& it) {
    if (passed_) {
      for (llvm::StoreInst* store : stores_) store->moveBefore(&it);
    }
    stores_.clear();
    alive_ = 0;
    passed_ = false;
  }

  llvm::AAResults& aliases_;
  const llvm::DataLayout& layout_;
  const int64_t registers_;
  std::vector<llvm::StoreInst*> stores_;
  int64_t alive_ = 0;
  bool passed_ = false;  ///< a load stands behind some of them
};

struct DelayStores : llvm::PassInfoMixin<DelayStores> {
  explicit DelayStores(const std::vector<std::pair<std::string, int64_t>>* of) : kernels(of) {}

  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    const auto kernel =
        std::ranges::find_if(*kernels, [&](const auto& one) { return function.getName() == one.first; });
    if (kernel == kernels->end()) return llvm::PreservedAnalyses::all();
    auto& aliases = analyses.getResult<llvm::AAManager>(function);
    for (llvm::BasicBlock& block : function) {
      Delayed delayed(aliases, function.getParent()->getDataLayout(), kernel->second);
      for (llvm::Instruction& it : llvm::make_early_inc_range(block)) delayed.visit(it);
    }
    llvm::PreservedAnalyses preserved;
    preserved.preserveSet<llvm::CFGAnalyses>();
    return preserved;
  }

  const std::vector<std::pair<std::string, int64_t>>* kernels;
};

}  // namespace

void delay_stores(llvm::Module& module, llvm::TargetMachine& machine,
                  const std::vector<std::pair<std::string, int64_t>>& kernels) {
  run_passes(module, machine, [&](llvm::PassBuilder&, llvm::ModulePassManager& passes) {
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(DelayStores(&kernels)));
  });
}

int64_t registers_for_stores(const Target& target, int threads, int min_blocks) {
  constexpr int64_t kOther = 32;  // addresses, indices and sums
  const int64_t each = std::min(target.registers / (int64_t{threads} * std::max(min_blocks, 1)), kMostThreadRegisters);
  return std::max<int64_t>((each - kOther) / 2, 0);
}

}  // namespace strata::emitters

#include "emitters/backend/share_sums.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/PatternMatch.h>

#include <map>
#include <utility>
#include <vector>

namespace strata::emitters {
namespace {

/// (x + k) + c.
struct Sum {
  llvm::Instruction* inner;
  llvm::Instruction* outer;
  llvm::ConstantInt* constant;
};

using Addends = std::pair<llvm::Value*, llvm::ConstantInt*>;

std::vector<Sum> sums_of(llvm::Function& function) {
  using namespace llvm::PatternMatch;
  std::vector<Sum> sums;
  for (llvm::Instruction& outer : llvm::instructions(function)) {
    llvm::Instruction* inner = nullptr;
    llvm::ConstantInt* constant = nullptr;
    if (!match(&outer, m_Add(m_Instruction(inner), m_ConstantInt(constant)))) continue;
    if (match(inner, m_OneUse(m_Add(m_Value(), m_Value()))) && !llvm::isa<llvm::Constant>(inner->getOperand(1)))
      sums.push_back({inner, &outer, constant});
  }
  return sums;
}

/// k + c, where k is made.
llvm::Value* shared_sum(llvm::Function& function, const Addends& addends) {
  auto* made = llvm::dyn_cast<llvm::Instruction>(addends.first);
  llvm::Instruction* before = made == nullptr                  ? &*function.getEntryBlock().getFirstInsertionPt()
                              : llvm::isa<llvm::PHINode>(made) ? &*made->getParent()->getFirstInsertionPt()
                              : made->isTerminator()           ? nullptr
                                                               : made->getNextNode();
  return before == nullptr ? nullptr : llvm::IRBuilder<>(before).CreateAdd(addends.first, addends.second);
}

void share_sums(llvm::Function& function) {
  const std::vector<Sum> sums = sums_of(function);
  std::map<Addends, int> uses;
  for (const Sum& sum : sums) {
    for (llvm::Value* addend : sum.inner->operands()) ++uses[{addend, sum.constant}];
  }
  std::map<Addends, llvm::Value*> shared;
  for (const Sum& sum : sums) {
    const unsigned k =
        uses[{sum.inner->getOperand(0), sum.constant}] > uses[{sum.inner->getOperand(1), sum.constant}] ? 0 : 1;
    const Addends addends(sum.inner->getOperand(k), sum.constant);
    if (uses[addends] < 2) continue;
    const auto [at, is_new] = shared.try_emplace(addends, nullptr);
    if (is_new) at->second = shared_sum(function, addends);
    if (at->second == nullptr) continue;
    llvm::Value* replaced = llvm::IRBuilder<>(sum.outer).CreateAdd(sum.inner->getOperand(1 - k), at->second);
    sum.outer->replaceAllUsesWith(replaced);
    sum.outer->eraseFromParent();
    sum.inner->eraseFromParent();
  }
}

}  // namespace

bool rotates(const llvm::Function& function) {
  return llvm::any_of(llvm::instructions(function), [](const llvm::Instruction& instruction) {
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    return call != nullptr &&
           (call->getIntrinsicID() == llvm::Intrinsic::fshl || call->getIntrinsicID() == llvm::Intrinsic::fshr);
  });
}

void share_sums(llvm::Module& module) {
  for (llvm::Function& function : module) {
    if (rotates(function)) share_sums(function);
  }
}

}  // namespace strata::emitters

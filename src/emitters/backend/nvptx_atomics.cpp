#include "emitters/backend/nvptx_atomics.h"

#include <fmt/format.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>

#include <string>
#include <vector>

namespace strata::emitters {
namespace {

constexpr unsigned kGeneric = 0;  // address spaces of NVPTX
constexpr unsigned kGlobal = 1;
constexpr unsigned kShared = 3;

/// One vector `atomicrmw` on its way into pieces.
class Lowering {
 public:
  Lowering(llvm::AtomicRMWInst& rmw, bool sm_90)
      : rmw_(rmw),
        builder_(&rmw),
        type_(llvm::cast<llvm::FixedVectorType>(rmw.getType())),
        element_(type_->getElementType()),
        bytes_(element_->getScalarSizeInBits() / 8),
        space_(rmw.getPointerAddressSpace()),
        sm_90_(sm_90) {}

  void run() {
    llvm::Value* before = llvm::PoisonValue::get(type_);
    for (unsigned first = 0; first < type_->getNumElements();) {
      const unsigned count = piece(first);
      before = one_piece(first, count, before);
      first += count;
    }
    rmw_.replaceAllUsesWith(before);
    rmw_.eraseFromParent();
  }

  /// Whether LLVM makes of it what this would.
  bool is_left_alone() const { return type_->getNumElements() == 2 && is_pair_of_loops(0); }

 private:
  bool adds() const { return rmw_.getOperation() == llvm::AtomicRMWInst::FAdd; }
  bool relaxed() const { return rmw_.getOrdering() == llvm::AtomicOrdering::Monotonic; }
  bool is_half() const { return element_->isHalfTy() || element_->isBFloatTy(); }
  llvm::Align align_at(unsigned first) const {
    return llvm::commonAlignment(rmw_.getAlign(), uint64_t{first} * bytes_);
  }

  /// How many elements from `first` on one instruction takes.
  unsigned piece(unsigned first) const {
    const unsigned left = type_->getNumElements() - first;
    if (adds() && relaxed()) {
      if (sm_90_ && space_ == kGlobal && (is_half() || element_->isFloatTy()))
        for (const unsigned size : {16U, 8U})
          if (left * bytes_ >= size && align_at(first).value() >= size) return size / bytes_;
      if (is_pair(first)) return 2;
    }
    return is_pair_of_loops(first) ? 2 : 1;
  }

  bool is_pair(unsigned first) const {
    const bool known_space = space_ == kGeneric || space_ == kGlobal || space_ == kShared;
    return first + 2 <= type_->getNumElements() && align_at(first).value() >= 4 && known_space &&
           (element_->isHalfTy() || (element_->isBFloatTy() && sm_90_));
  }

  /// Two 16-bit values in a word, for which LLVM makes one loop of compare-and-swap instead of two.
  bool is_pair_of_loops(unsigned first) const {
    return is_half() && first + 2 <= type_->getNumElements() && align_at(first).value() >= 4 &&
           !(adds() && relaxed() && is_pair(first));
  }

  llvm::Value* one_piece(unsigned first, unsigned count, llvm::Value* before) {
    llvm::Value* pointer = builder_.CreateConstInBoundsGEP1_64(element_, rmw_.getPointerOperand(), first);
    std::vector<int> lanes(count);
    for (unsigned i = 0; i < count; ++i) lanes[i] = static_cast<int>(first + i);
    if (count == 1) {
      llvm::Value* old = plain(pointer, builder_.CreateExtractElement(rmw_.getValOperand(), first), first);
      return builder_.CreateInsertElement(before, old, first);
    }
    llvm::Value* operand = builder_.CreateShuffleVector(rmw_.getValOperand(), lanes);
    llvm::Value* old =
        is_pair_of_loops(first) && count == 2 ? plain(pointer, operand, first) : instruction(pointer, operand, count);
    if (rmw_.use_empty()) return before;
    for (unsigned i = 0; i < count; ++i)
      before = builder_.CreateInsertElement(before, builder_.CreateExtractElement(old, i), first + i);
    return before;
  }

  llvm::Value* plain(llvm::Value* pointer, llvm::Value* operand, unsigned first) {
    return builder_.CreateAtomicRMW(rmw_.getOperation(), pointer, operand, align_at(first), rmw_.getOrdering(),
                                    rmw_.getSyncScopeID());
  }

  std::string scope() const {
    llvm::SmallVector<llvm::StringRef, 8> names;
    rmw_.getContext().getSyncScopeNames(names);
    const llvm::StringRef name = names[rmw_.getSyncScopeID()];
    return name == "device" ? "gpu" : name == "block" ? "cta" : "sys";
  }

  /// red, or atom where the old value is used. Registers are f32 or pairs of 16 bits.
  llvm::Value* instruction(llvm::Value* pointer, llvm::Value* operand, unsigned count) {
    const bool single = element_->isFloatTy();
    const unsigned registers = single ? count : count / 2;
    const char* constraint = single ? "f" : "r";
    llvm::Type* type = single ? builder_.getFloatTy() : static_cast<llvm::Type*>(builder_.getInt32Ty());
    llvm::Value* words =
        single ? operand : builder_.CreateBitCast(operand, llvm::FixedVectorType::get(type, registers));
    const bool reads = !rmw_.use_empty();
    std::vector<llvm::Value*> inputs{builder_.CreatePtrToInt(pointer, builder_.getInt64Ty())};
    std::string results, constraints, values;
    unsigned number = 0;
    for (unsigned i = 0; reads && i < registers; ++i) {
      results += fmt::format("{}${}", i == 0 ? "" : ", ", number++);
      constraints += fmt::format("={},", constraint);
    }
    const unsigned address = number++;
    constraints += "l";
    for (unsigned i = 0; i < registers; ++i) {
      inputs.push_back(registers == 1 && !single ? builder_.CreateBitCast(operand, type)
                                                 : builder_.CreateExtractElement(words, i));
      values += fmt::format("{}${}", i == 0 ? "" : ", ", number++);
      constraints += fmt::format(",{}", constraint);
    }
    const auto group = [&](const std::string& list) { return registers == 1 ? list : "{" + list + "}"; };
    const std::string name = fmt::format("{}.relaxed.{}{}.add{}{}.{}", reads ? "atom" : "red", scope(),
                                         space_ == kGlobal   ? ".global"
                                         : space_ == kShared ? ".shared"
                                                             : "",
                                         single ? "" : ".noftz", registers == 1 ? "" : fmt::format(".v{}", registers),
                                         single                 ? "f32"
                                         : element_->isHalfTy() ? "f16x2"
                                                                : "bf16x2");
    const std::string text =
        fmt::format("{} {}[${}], {};", name, reads ? group(results) + ", " : "", address, group(values));
    std::vector<llvm::Type*> types;
    for (const llvm::Value* input : inputs) types.push_back(input->getType());
    llvm::Type* result = !reads ? builder_.getVoidTy()
                         : registers == 1
                             ? type
                             : llvm::StructType::get(rmw_.getContext(), std::vector<llvm::Type*>(registers, type));
    auto* code = llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), text, constraints + ",~{memory}",
                                      /*hasSideEffects=*/true);
    llvm::Value* call = builder_.CreateCall(code, inputs);
    if (!reads) return nullptr;
    llvm::Value* old = llvm::PoisonValue::get(llvm::FixedVectorType::get(type, registers));
    for (unsigned i = 0; i < registers; ++i)
      old = builder_.CreateInsertElement(old, registers == 1 ? call : builder_.CreateExtractValue(call, i), i);
    return builder_.CreateBitCast(old, operand->getType());
  }

  llvm::AtomicRMWInst& rmw_;
  llvm::IRBuilder<> builder_;
  llvm::FixedVectorType* type_;
  llvm::Type* element_;
  unsigned bytes_;
  unsigned space_;
  bool sm_90_;
};

}  // namespace

void lower_vector_atomics(llvm::Module& module, bool sm_90) {
  std::vector<llvm::AtomicRMWInst*> found;
  for (llvm::Function& function : module)
    for (llvm::Instruction& instruction : llvm::instructions(function))
      if (auto* rmw = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction); rmw && rmw->getType()->isVectorTy())
        found.push_back(rmw);
  for (llvm::AtomicRMWInst* rmw : found)
    if (Lowering lowering(*rmw, sm_90); !lowering.is_left_alone()) lowering.run();
}

}  // namespace strata::emitters

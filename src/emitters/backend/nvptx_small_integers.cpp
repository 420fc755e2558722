#include "emitters/backend/nvptx_small_integers.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/Transforms/Utils/Local.h>

#include <map>
#include <optional>
#include <tuple>
#include <vector>

namespace strata::emitters {
namespace {

constexpr unsigned kWordBytes = 4;
constexpr unsigned kByteBits = 8;
constexpr uint32_t kExponent = 0x4B000000;  ///< of an f32 from 2^23 on, which counts in ones
constexpr double kFirst = 8388608;          ///< 2^23

/// An element of a vector, or a value that is no element of one that is known.
struct Lane {
  llvm::Value* of = nullptr;  ///< null: no matter what
  std::optional<unsigned> number;
};

/// Where it comes from, through what only moves elements.
Lane trace(Lane lane) {
  while (lane.of != nullptr) {
    if (!lane.number) {
      auto* extract = llvm::dyn_cast<llvm::ExtractElementInst>(lane.of);
      auto* place = extract ? llvm::dyn_cast<llvm::ConstantInt>(extract->getIndexOperand()) : nullptr;
      if (place == nullptr) return lane;
      lane = {extract->getVectorOperand(), static_cast<unsigned>(place->getZExtValue())};
    } else if (auto* shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(lane.of)) {
      const int from = shuffle->getMaskValue(*lane.number);
      if (from < 0) return {};
      const auto count = llvm::cast<llvm::FixedVectorType>(shuffle->getOperand(0)->getType())->getNumElements();
      const auto place = static_cast<unsigned>(from);
      lane = {shuffle->getOperand(place < count ? 0 : 1), place % count};
    } else if (auto* insert = llvm::dyn_cast<llvm::InsertElementInst>(lane.of)) {
      auto* place = llvm::dyn_cast<llvm::ConstantInt>(insert->getOperand(2));
      if (place == nullptr) return lane;
      if (place->getZExtValue() == *lane.number) {
        lane = {insert->getOperand(1), std::nullopt};
      } else {
        lane.of = insert->getOperand(0);
      }
    } else {
      return lane;
    }
  }
  return lane;
}

/// Of an integer that is loaded, or part of words.
struct Byte {
  llvm::Instruction* from = nullptr;  ///< a load of bytes, or a cast of words to bytes
  unsigned number = 0;
};

/// Whether a value is one word, or several.
bool is_words(const llvm::Type* type) { return type->getScalarType()->isIntegerTy(kWordBytes * kByteBits); }

std::optional<Byte> loaded_byte(Lane lane) {
  lane = trace(lane);
  if (auto* narrow = llvm::dyn_cast_or_null<llvm::TruncInst>(lane.of))
    lane = trace({narrow->getOperand(0), lane.number});
  auto* cast = llvm::dyn_cast_or_null<llvm::BitCastInst>(lane.of);
  if (cast != nullptr && lane.number && cast->getType()->getScalarType()->isIntegerTy(kByteBits) &&
      is_words(cast->getSrcTy()))
    return Byte{cast, *lane.number};
  auto* load = llvm::dyn_cast_or_null<llvm::LoadInst>(lane.of);
  if (load == nullptr || !lane.number || !load->isSimple()) return std::nullopt;
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(load->getType());
  if (type == nullptr || !type->getElementType()->isIntegerTy(kByteBits) || type->getNumElements() % kWordBytes != 0 ||
      load->getAlign().value() < std::min<uint64_t>(type->getNumElements(), 16))
    return std::nullopt;
  return Byte{load, *lane.number};
}

class Converter {
 public:
  bool convert(llvm::CastInst& cast) {
    const bool is_signed = cast.getOpcode() == llvm::Instruction::SIToFP;
    const unsigned bits = cast.getSrcTy()->getScalarSizeInBits();
    llvm::Type* to = cast.getDestTy()->getScalarType();
    if (bits < 2 || bits > kByteBits || !(to->isFloatTy() || to->isHalfTy() || to->isBFloatTy())) return false;
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(cast.getDestTy());
    std::vector<Byte> bytes;
    for (unsigned i = 0; i < (vector ? vector->getNumElements() : 1); ++i) {
      const auto number = vector ? std::optional(i) : std::nullopt;
      const std::optional<Byte> byte = loaded_byte({cast.getOperand(0), number});
      if (!byte) return false;
      bytes.push_back(*byte);
    }
    llvm::IRBuilder<> builder(&cast);
    llvm::Type* f32 = builder.getFloatTy();
    llvm::Value* all =
        vector ? llvm::PoisonValue::get(llvm::FixedVectorType::get(f32, vector->getNumElements())) : nullptr;
    for (unsigned i = 0; i < bytes.size(); ++i) {
      llvm::Value* one = as_float(builder, bytes[i], bits, is_signed);
      all = vector ? builder.CreateInsertElement(all, one, i) : one;
    }
    cast.replaceAllUsesWith(to->isFloatTy() ? all : builder.CreateFPTrunc(all, cast.getDestTy()));
    return true;
  }

 private:
  llvm::Value* as_float(llvm::IRBuilder<>& builder, Byte byte, unsigned bits, bool is_signed) {
    const unsigned place = byte.number % kWordBytes;
    llvm::Value* word = biased_word(byte.from, byte.number / kWordBytes, bits, is_signed);
    // The byte, two zeros and the exponent's byte.
    llvm::Value* joined = builder.CreateIntrinsic(
        llvm::Intrinsic::nvvm_prmt, {}, {word, builder.getInt32(kExponent), builder.getInt32(0x7540U | place)});
    const double bias = is_signed ? static_cast<double>(1U << (bits - 1)) : 0;
    return builder.CreateFSub(builder.CreateBitCast(joined, builder.getFloatTy()),
                              llvm::ConstantFP::get(builder.getFloatTy(), kFirst + bias));
  }

  /// Four integers, each as its distance from the smallest one of its type.
  llvm::Value* biased_word(llvm::Instruction* from, unsigned number, unsigned bits, bool is_signed) {
    llvm::Value*& known = words_[{from, number, bits, is_signed}];
    if (known != nullptr) return known;
    llvm::Value* word = words_of(from)[number];
    llvm::IRBuilder<> builder(from->getNextNode());
    const auto each = [&](uint32_t byte) { return builder.getInt32(byte * 0x01010101U); };
    if (bits < kByteBits) word = builder.CreateAnd(word, each((1U << bits) - 1));
    return known = is_signed ? builder.CreateXor(word, each(1U << (bits - 1))) : word;
  }

  const std::vector<llvm::Value*>& words_of(llvm::Instruction* from) {
    std::vector<llvm::Value*>& words = all_words_[from];
    if (!words.empty()) return words;
    llvm::IRBuilder<> builder(from);
    const unsigned count = llvm::cast<llvm::FixedVectorType>(from->getType())->getNumElements() / kWordBytes;
    llvm::Value* whole = from->getOperand(0);
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(from)) whole = load_of_words(builder, *load, count);
    const bool several = whole->getType()->isVectorTy();
    for (unsigned i = 0; i < count; ++i) words.push_back(several ? builder.CreateExtractElement(whole, i) : whole);
    return words;
  }

  static llvm::Value* load_of_words(llvm::IRBuilder<>& builder, llvm::LoadInst& load, unsigned count) {
    llvm::Type* type = builder.getInt32Ty();
    if (count > 1) type = llvm::FixedVectorType::get(type, count);
    llvm::LoadInst* whole = builder.CreateAlignedLoad(type, load.getPointerOperand(), load.getAlign());
    whole->copyMetadata(
        load, {llvm::LLVMContext::MD_invariant_load, llvm::LLVMContext::MD_alias_scope, llvm::LLVMContext::MD_noalias});
    return whole;
  }

  std::map<llvm::Instruction*, std::vector<llvm::Value*>> all_words_;
  std::map<std::tuple<llvm::Instruction*, unsigned, unsigned, bool>, llvm::Value*> words_;
};

/// The f32 from which an element of bf16 is rounded.
llvm::Value* rounded_from(llvm::IRBuilder<>& builder, Lane lane) {
  lane = trace(lane);
  auto* cast = llvm::dyn_cast_or_null<llvm::FPTruncInst>(lane.of);
  if (cast == nullptr || !cast->getSrcTy()->getScalarType()->isFloatTy()) return nullptr;
  const Lane wide = trace({cast->getOperand(0), lane.number});
  if (wide.of == nullptr) return nullptr;
  return wide.number ? builder.CreateExtractElement(wide.of, *wide.number) : wide.of;
}

/// A word of two elements of bf16 that are rounded from f32.
bool round_together(llvm::ExtractElementInst& word) {
  auto* place = llvm::dyn_cast<llvm::ConstantInt>(word.getIndexOperand());
  auto* cast = llvm::dyn_cast<llvm::BitCastInst>(word.getVectorOperand());
  if (place == nullptr || cast == nullptr || !word.getType()->isIntegerTy(32)) return false;
  auto* halves = llvm::dyn_cast<llvm::FixedVectorType>(cast->getSrcTy());
  if (halves == nullptr || !halves->getElementType()->isBFloatTy()) return false;
  const auto first = static_cast<unsigned>(place->getZExtValue()) * 2;
  llvm::IRBuilder<> builder(&word);
  llvm::Value* low = rounded_from(builder, {cast->getOperand(0), first});
  llvm::Value* high = low ? rounded_from(builder, {cast->getOperand(0), first + 1}) : nullptr;
  if (high == nullptr) return false;
  llvm::Value* both = builder.CreateIntrinsic(llvm::Intrinsic::nvvm_ff2bf16x2_rn, {}, {high, low});
  word.replaceAllUsesWith(builder.CreateBitCast(both, word.getType()));
  return true;
}

}  // namespace

void convert_small_integers(llvm::Module& module) {
  for (llvm::Function& function : module) {
    llvm::SmallVector<llvm::WeakTrackingVH> dead;
    Converter converter;
    for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
      auto* cast = llvm::dyn_cast<llvm::CastInst>(&instruction);
      const bool converts = cast != nullptr && (cast->getOpcode() == llvm::Instruction::SIToFP ||
                                                cast->getOpcode() == llvm::Instruction::UIToFP);
      if (converts && converter.convert(*cast)) dead.emplace_back(cast);
    }
    for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
      auto* word = llvm::dyn_cast<llvm::ExtractElementInst>(&instruction);
      if (word != nullptr && round_together(*word)) dead.emplace_back(word);
    }
    llvm::RecursivelyDeleteTriviallyDeadInstructionsPermissive(dead);
  }
}

}  // namespace strata::emitters

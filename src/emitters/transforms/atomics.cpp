#include "emitters/transforms/atomics.h"

#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Complex/IR/Complex.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>
#include <mlir/IR/IRMapping.h>

#include "emitters/transforms/memory.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
namespace LLVM = mlir::LLVM;
using mlir::Location;
using mlir::OpBuilder;
using mlir::Type;
using mlir::Value;

/// What hardware has an instruction for, by combiner and kind of element.
struct Native {
  Combiner combiner;
  bool is_float;
  unsigned widths;  ///< of elements, added up: they are powers of two
  LLVM::AtomicBinOp instruction;
};

constexpr unsigned kWords = 32 | 64;
constexpr Native kNative[] = {
    {Combiner::Add, false, kWords, LLVM::AtomicBinOp::add},
    {Combiner::And, false, kWords, LLVM::AtomicBinOp::_and},
    {Combiner::Or, false, kWords, LLVM::AtomicBinOp::_or},
    {Combiner::Xor, false, kWords, LLVM::AtomicBinOp::_xor},
    {Combiner::MinS, false, kWords, LLVM::AtomicBinOp::min},
    {Combiner::MaxS, false, kWords, LLVM::AtomicBinOp::max},
    {Combiner::MinU, false, kWords, LLVM::AtomicBinOp::umin},
    {Combiner::MaxU, false, kWords, LLVM::AtomicBinOp::umax},
    {Combiner::Replace, false, kWords, LLVM::AtomicBinOp::xchg},
    {Combiner::Add, true, kWords | 16, LLVM::AtomicBinOp::fadd},
};

/// That of integers of the type.
std::optional<LLVM::AtomicBinOp> native_instruction(Combiner combiner, Type type) {
  for (const Native& one : kNative) {
    if (one.combiner == combiner && !one.is_float && (one.widths & type.getIntOrFloatBitWidth()) != 0) {
      return one.instruction;
    }
  }
  return std::nullopt;
}

class AtomicLowering {
 public:
  AtomicLowering(AtomicRmwOp op, Value value, Value pointer, const LoweringOptions& options)
      : op_(op), builder_(op), value_(value), pointer_(pointer), options_(options) {}

  mlir::LogicalResult run() {
    const Type type = value_.getType();
    if (const auto vector = llvm::dyn_cast<mlir::VectorType>(type)) return elements(vector);
    if (const auto complex = llvm::dyn_cast<mlir::ComplexType>(type); complex && op_.getCombiner() == Combiner::Add) {
      const Type part = complex.getElementType();
      const Value imaginary = pointer_at(part, 1);
      native(LLVM::AtomicBinOp::fadd, pointer_, builder_.create<mlir::complex::ReOp>(location(), part, value_));
      native(LLVM::AtomicBinOp::fadd, imaginary, builder_.create<mlir::complex::ImOp>(location(), part, value_));
      return mlir::success();
    }
    const int64_t bytes = stored_bytes(type);
    if (bytes > 8) {
      return op_.emitError("unsupported: no atomic update of ") << 8 * bytes << " bits but of sums";
    }
    if (instruction(type)) return mlir::success();
    const bool floats = llvm::isa<mlir::FloatType>(type) && bytes >= 4;
    if (floats && (op_.getCombiner() == Combiner::MinF || op_.getCombiner() == Combiner::MaxF)) {
      extremum();
    } else if (bytes < 4) {
      within_word();
    } else {
      compare_and_swap(pointer_, builder_.getIntegerType(static_cast<unsigned>(8 * bytes)), [&](Value bits) {
        return to_bits(builder_, location(), combined(from_bits(builder_, location(), bits, type)));
      });
    }
    return mlir::success();
  }

 private:
  Location location() { return op_.getLoc(); }
  Value integer(int64_t value, Type type) { return builder_.create<arith::ConstantIntOp>(location(), value, type); }

  Value native(LLVM::AtomicBinOp instruction, Value pointer, Value value) {
    return builder_.create<LLVM::AtomicRMWOp>(location(), instruction, pointer, value, LLVM::AtomicOrdering::monotonic);
  }

  Value pointer_at(Type element, int32_t number) {
    return builder_.create<LLVM::GEPOp>(location(), pointer_.getType(), element, pointer_,
                                        llvm::ArrayRef<LLVM::GEPArg>{number}, /*inbounds=*/true);
  }

  /// By one instruction on GPUs, else one after the other.
  mlir::LogicalResult elements(mlir::VectorType type) {
    if (options_.processor == Processor::Gpu &&
        llvm::cast<LLVM::LLVMPointerType>(pointer_.getType()).getAddressSpace() == 0) {
      const mlir::func::FuncOp function = vector_sum(type);
      builder_.create<mlir::func::CallOp>(location(), function, mlir::ValueRange{pointer_, value_});
      return mlir::success();
    }
    for (int64_t i = 0; i < type.getNumElements(); ++i) {
      const Value element = builder_.create<mlir::vector::ExtractOp>(location(), value_, i);
      const Value place = pointer_at(type.getElementType(), static_cast<int32_t>(i));
      if (mlir::failed(AtomicLowering(op_, element, place, options_).run())) return mlir::failure();
    }
    return mlir::success();
  }

  /// The declaration that stands for the instruction (kVectorSum).
  mlir::func::FuncOp vector_sum(mlir::VectorType type) {
    std::string name = kVectorSum;
    llvm::raw_string_ostream(name) << type.getNumElements() << 'x' << type.getElementType();
    auto module = op_->getParentOfType<mlir::ModuleOp>();
    if (auto known = module.lookupSymbol<mlir::func::FuncOp>(name)) return known;
    OpBuilder outside = OpBuilder::atBlockBegin(module.getBody());
    auto function = outside.create<mlir::func::FuncOp>(
        module.getLoc(), name, outside.getFunctionType({pointer_.getType(), type}, mlir::TypeRange()));
    function.setPrivate();
    return function;
  }

  /// Whether one instruction did it.
  bool instruction(Type type) {
    const bool replaces = op_.getCombiner() == Combiner::Replace && llvm::isa<mlir::FloatType>(type);
    // Other 16-bit sums than the GPU's are a loop in any case: ours is the same for all types.
    const bool gpu = options_.processor == Processor::Gpu;
    for (const Native& one : kNative) {
      if (one.combiner != op_.getCombiner() || !type.isIntOrFloat()) continue;
      const unsigned width = type.getIntOrFloatBitWidth();
      if ((one.widths & width) == 0 || (width == 16 && !gpu)) continue;
      if (!replaces && one.is_float != llvm::isa<mlir::FloatType>(type)) continue;
      native(one.instruction, pointer_, replaces ? to_bits(builder_, location(), value_) : value_);
      return true;
    }
    return false;
  }

  /// Minima and maxima of floats by those of integers: bits of positive floats are in the order of the floats, bits of
  /// negative ones, as unsigned, in the reverse. NaN becomes the one that wins in both orders. Where the element
  /// stays as it is nothing is written: it is NaN, or the better one already.
  void extremum() {
    const bool is_max = op_.getCombiner() == Combiner::MaxF;
    auto type = llvm::cast<mlir::FloatType>(value_.getType());
    const Type word = builder_.getIntegerType(type.getWidth());
    const Value value = value_;
    // Volatile: other threads write here.
    const Value now = builder_.create<LLVM::LoadOp>(location(), type, pointer_,
                                                    static_cast<unsigned>(stored_bytes(type)), /*isVolatile=*/true);
    using FloatPredicate = arith::CmpFPredicate;
    const Value is_number = builder_.create<arith::CmpFOp>(location(), FloatPredicate::ORD, now, now);
    const Value better =
        builder_.create<arith::CmpFOp>(location(), is_max ? FloatPredicate::UGT : FloatPredicate::ULT, value, now);
    const Value update = builder_.create<arith::AndIOp>(location(), is_number, better);
    auto outer = builder_.create<mlir::scf::IfOp>(location(), update, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToStart(outer.thenBlock());
    const Value is_nan = builder_.create<arith::CmpFOp>(location(), FloatPredicate::UNO, value, value);
    const Value nan = integer(is_max ? (int64_t{1} << (type.getWidth() - 1)) - 1 : -1, word);
    const Value bits = builder_.create<arith::SelectOp>(
        location(), is_nan, nan, builder_.create<mlir::LLVM::BitcastOp>(location(), word, value));
    const Value positive =
        builder_.create<arith::CmpIOp>(location(), arith::CmpIPredicate::sge, bits, integer(0, word));
    auto inner = builder_.create<mlir::scf::IfOp>(location(), positive, /*withElseRegion=*/true);
    builder_.setInsertionPointToStart(inner.thenBlock());
    native(is_max ? LLVM::AtomicBinOp::max : LLVM::AtomicBinOp::min, pointer_, bits);
    builder_.setInsertionPointToStart(inner.elseBlock());
    native(is_max ? LLVM::AtomicBinOp::umin : LLVM::AtomicBinOp::umax, pointer_, bits);
  }

  /// Elements of 8 and 16 bits, in the aligned word around them.
  void within_word() {
    const Type type = value_.getType();
    const Type word = builder_.getI32Type();
    const Type address_type = builder_.getI64Type();
    const Type narrow = builder_.getIntegerType(static_cast<unsigned>(8 * stored_bytes(type)));
    const Value address = builder_.create<LLVM::PtrToIntOp>(location(), address_type, pointer_);
    const Value offset = builder_.create<arith::AndIOp>(location(), address, integer(3, address_type));
    const Value back = builder_.create<arith::SubIOp>(location(), integer(0, address_type), offset);
    const Value base = builder_.create<LLVM::GEPOp>(location(), pointer_.getType(), builder_.getI8Type(), pointer_,
                                                    mlir::ValueRange{back});
    const Value bytes = builder_.create<arith::TruncIOp>(location(), word, offset);
    const Value shift = builder_.create<arith::ShLIOp>(location(), bytes, integer(3, word));
    const auto in_place = [&](Value bits) -> Value {
      return builder_.create<arith::ShLIOp>(location(), builder_.create<arith::ExtUIOp>(location(), word, bits), shift);
    };
    const Value ones = in_place(integer(-1, narrow));
    const Value others = builder_.create<arith::XOrIOp>(location(), ones, integer(-1, word));
    if (llvm::isa<mlir::IntegerType>(type)) {
      const Value value = in_place(to_bits(builder_, location(), value_));
      switch (op_.getCombiner()) {
        case Combiner::Or:
          native(LLVM::AtomicBinOp::_or, base, value);
          return;
        case Combiner::Xor:
          native(LLVM::AtomicBinOp::_xor, base, value);
          return;
        case Combiner::And:
          native(LLVM::AtomicBinOp::_and, base, builder_.create<arith::OrIOp>(location(), value, others));
          return;
        default:
          break;
      }
    }
    compare_and_swap(base, word, [&](Value all) -> Value {
      const Value shifted = builder_.create<arith::ShRUIOp>(location(), all, shift);
      const Value bits = builder_.create<arith::TruncIOp>(location(), narrow, shifted);
      const Value next = to_bits(builder_, location(), combined(from_bits(builder_, location(), bits, type)));
      const Value kept = builder_.create<arith::AndIOp>(location(), all, others);
      return builder_.create<arith::OrIOp>(location(), kept, in_place(next));
    });
  }

  /// Until nobody else has written the word between its reading and ours.
  void compare_and_swap(Value pointer, Type word, llvm::function_ref<Value(Value)> next) {
    const Value first = builder_.create<LLVM::LoadOp>(location(), word, pointer);
    // The builder makes both blocks, empty.
    auto loop = builder_.create<mlir::scf::WhileOp>(location(), word, first, nullptr, nullptr);
    OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToStart(loop.getBeforeBody());
    const Value seen = loop.getBeforeBody()->getArgument(0);
    const Value exchanged = builder_.create<LLVM::AtomicCmpXchgOp>(
        location(), pointer, seen, next(seen), LLVM::AtomicOrdering::monotonic, LLVM::AtomicOrdering::monotonic);
    const Value now = builder_.create<LLVM::ExtractValueOp>(location(), exchanged, 0);
    const Value done = builder_.create<LLVM::ExtractValueOp>(location(), exchanged, 1);
    const Value again = builder_.create<arith::XOrIOp>(location(), done, integer(1, builder_.getI1Type()));
    builder_.create<mlir::scf::ConditionOp>(location(), again, now);
    builder_.setInsertionPointToStart(loop.getAfterBody());
    builder_.create<mlir::scf::YieldOp>(location(), loop.getAfterArguments());
  }

  /// The element's new value.
  Value combined(Value element) {
    const Value value = value_;
    const bool floats = llvm::isa<mlir::FloatType>(value.getType());
    if (llvm::isa<mlir::ComplexType>(value.getType()) && op_.getCombiner() == Combiner::Mul) {
      return builder_.create<mlir::complex::MulOp>(location(), element, value);
    }
    switch (op_.getCombiner()) {
      case Combiner::Custom: {
        mlir::IRMapping mapping;
        mlir::Block& body = op_.getBody().front();
        mapping.map(body.getArguments(), llvm::ArrayRef<Value>{element, value});
        for (mlir::Operation& one : body.without_terminator()) builder_.clone(one, mapping);
        return mapping.lookupOrDefault(body.getTerminator()->getOperand(0));
      }
      case Combiner::Add:
        return floats ? wide<arith::AddFOp>(element) : builder_.create<arith::AddIOp>(location(), element, value);
      case Combiner::Mul:
        return floats ? wide<arith::MulFOp>(element) : builder_.create<arith::MulIOp>(location(), element, value);
      case Combiner::MinF:
        return wide<arith::MinimumFOp>(element);
      case Combiner::MaxF:
        return wide<arith::MaximumFOp>(element);
      case Combiner::MinS:
        return builder_.create<arith::MinSIOp>(location(), element, value);
      case Combiner::MaxS:
        return builder_.create<arith::MaxSIOp>(location(), element, value);
      case Combiner::MinU:
        return builder_.create<arith::MinUIOp>(location(), element, value);
      case Combiner::MaxU:
        return builder_.create<arith::MaxUIOp>(location(), element, value);
      case Combiner::And:
        return builder_.create<arith::AndIOp>(location(), element, value);
      case Combiner::Or:
        return builder_.create<arith::OrIOp>(location(), element, value);
      case Combiner::Xor:
        return builder_.create<arith::XOrIOp>(location(), element, value);
      case Combiner::Replace:
        return value;
    }
    return value;
  }

  /// Narrow floats are computed in f32 and rounded.
  template <class Op>
  Value wide(Value element) {
    auto type = llvm::cast<mlir::FloatType>(element.getType());
    if (type.getWidth() >= 32) return builder_.create<Op>(location(), element, value_);
    const Type f32 = builder_.getF32Type();
    const Value a = builder_.create<arith::ExtFOp>(location(), f32, element);
    const Value b = builder_.create<arith::ExtFOp>(location(), f32, value_);
    return builder_.create<arith::TruncFOp>(location(), type, builder_.create<Op>(location(), a, b));
  }

  AtomicRmwOp op_;
  OpBuilder builder_;
  Value value_, pointer_;
  const LoweringOptions& options_;
};

}  // namespace

void lower_atomic_fetch(AtomicFetchOp op, Value pointer) {
  OpBuilder builder(op);
  const auto instruction = native_instruction(op.getCombiner(), op.getValue().getType());
  assert(instruction && "the verifier has seen to that");
  op.getOld().replaceAllUsesWith(builder.create<LLVM::AtomicRMWOp>(op.getLoc(), *instruction, pointer, op.getValue(),
                                                                   LLVM::AtomicOrdering::monotonic));
}

mlir::LogicalResult lower_atomic(AtomicRmwOp op, Value pointer, const LoweringOptions& options) {
  return AtomicLowering(op, op.getValue(), pointer, options).run();
}

}  // namespace strata::emitters

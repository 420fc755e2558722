// Tensors become pointers: each tensor value lies where the one it was made from lies, in an argument, in shared memory
// or in a constant.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>

#include <numeric>

#include "emitters/dialect/dialect.h"
#include "emitters/transforms/atomics.h"
#include "emitters/transforms/index_values.h"
#include "emitters/transforms/memory.h"
#include "emitters/transforms/passes.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
namespace LLVM = mlir::LLVM;
namespace scf = mlir::scf;
using mlir::Location;
using mlir::OpBuilder;
using mlir::Operation;
using mlir::RankedTensorType;
using mlir::Type;
using mlir::Value;
using mlir::ValueRange;
using mlir::func::FuncOp;

constexpr int64_t kSharedAlignment = 16;
constexpr int64_t kBufferAlignment = 256;    ///< of whole arrays in device memory
constexpr int64_t kHostArrayAlignment = 16;  ///< of the host's: what malloc gives, and no vector is longer
constexpr unsigned kGpuShared = 3;           ///< NVPTX's address spaces
constexpr unsigned kGpuGlobal = 1;

bool is_tensor(Value value) { return llvm::isa<RankedTensorType>(value.getType()); }

/// The value whose memory a tensor is in: an argument of a function, a constant, or a tile of shared memory. Nothing
/// where that depends on a condition. `known` remembers: branches in a row would double the work each.
Value root_of(Value tensor, llvm::DenseMap<Value, Value>& known);

Value find_root(Value tensor, llvm::DenseMap<Value, Value>& known) {
  while (true) {
    if (const auto argument = llvm::dyn_cast<mlir::BlockArgument>(tensor)) {
      auto loop = llvm::dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
      if (!loop) return llvm::isa<FuncOp>(argument.getOwner()->getParentOp()) ? tensor : Value();
      tensor = loop.getTiedLoopInit(argument)->get();
      continue;
    }
    const auto result = llvm::cast<mlir::OpResult>(tensor);
    Operation* op = result.getOwner();
    const unsigned number = result.getResultNumber();
    if (auto insert = llvm::dyn_cast<mlir::tensor::InsertOp>(op)) {
      tensor = insert.getDest();
    } else if (auto predicated = llvm::dyn_cast<PredicatedInsertOp>(op)) {
      tensor = predicated.getDest();
    } else if (auto atomic = llvm::dyn_cast<AtomicRmwOp>(op)) {
      tensor = atomic.getDest();
    } else if (auto fetch = llvm::dyn_cast<AtomicFetchOp>(op)) {
      tensor = fetch.getDest();
    } else if (auto write = llvm::dyn_cast<mlir::vector::TransferWriteOp>(op)) {
      tensor = write.getSource();
    } else if (llvm::isa<SyncThreadsOp>(op)) {
      tensor = op->getOperand(number);
    } else if (auto loop = llvm::dyn_cast<scf::ForOp>(op)) {
      tensor = loop.getInits()[number];
    } else if (llvm::isa<scf::IfOp, scf::IndexSwitchOp>(op)) {
      Value common;
      for (mlir::Region& region : op->getRegions()) {
        const Value root = root_of(region.front().getTerminator()->getOperand(number), known);
        if (!root || (common && common != root)) return {};
        common = root;
      }
      return common;
    } else if (llvm::isa<arith::ConstantOp, AllocateSharedOp>(op)) {
      return tensor;
    } else {
      return {};
    }
    if (llvm::isa<mlir::BlockArgument>(tensor)) continue;
    const auto before = known.find(tensor);
    if (before != known.end()) return before->second;
  }
}

Value root_of(Value tensor, llvm::DenseMap<Value, Value>& known) {
  const auto before = known.find(tensor);
  if (before != known.end()) return before->second;
  const Value root = find_root(tensor, known);
  known[tensor] = root;
  return root;
}

/// Kernels read an input over which they write an output where the output lies. So loads and stores of one array begin
/// at one pointer, which tells LLVM which of them are of the same element; of the input's own nothing is left.
void read_where_written(mlir::ModuleOp module) {
  for (auto kernel : module.getOps<FuncOp>()) {
    for (unsigned output = 0; output < kernel.getNumArguments(); ++output) {
      const auto alias = kernel.getArgAttrOfType<mlir::IntegerAttr>(output, "strata.alias");
      for (unsigned input = 0; alias && input < kernel.getNumArguments(); ++input) {
        if (kernel.getArgAttrOfType<mlir::IntegerAttr>(input, "strata.input") == alias)
          kernel.getArgument(input).replaceAllUsesWith(kernel.getArgument(output));
      }
    }
  }
}

/// Uses of tensors in the module become uses of their roots.
mlir::LogicalResult use_roots(mlir::ModuleOp module) {
  llvm::SmallVector<std::pair<Value, Value>> roots;
  llvm::DenseMap<Value, Value> known;
  const auto wanted = [&](Value value) {
    if (!is_tensor(value)) return true;
    const Value root = root_of(value, known);
    if (root && root != value) roots.emplace_back(value, root);
    return static_cast<bool>(root);
  };
  const auto result = module.walk([&](Operation* op) -> mlir::WalkResult {
    for (const Value value : op->getResults()) {
      if (wanted(value)) continue;
      op->emitError("unsupported: a tensor that lies nowhere, or in more than one place");
      return mlir::WalkResult::interrupt();
    }
    for (mlir::Region& region : op->getRegions()) {
      for (mlir::Block& block : region) {
        for (const Value value : block.getArguments()) {
          if (wanted(value)) continue;
          op->emitError("unsupported: a tensor that a region's argument holds");
          return mlir::WalkResult::interrupt();
        }
      }
    }
    return mlir::WalkResult::advance();
  });
  if (result.wasInterrupted()) return mlir::failure();
  for (auto& [value, root] : roots) value.replaceAllUsesWith(root);
  return mlir::success();
}

/// Which arguments of functions nothing writes while the kernel runs.
class InvariantArguments {
 public:
  explicit InvariantArguments(mlir::ModuleOp module) {
    const mlir::SymbolTable symbols(module);
    for (auto function : module.getOps<FuncOp>()) {
      if (function->hasAttr("strata.kernel")) add_kernel(function);
    }
    // Other functions' arguments are unless a caller gives them one that is not: until nothing changes.
    for (bool changed = true; changed;) {
      changed = false;
      module.walk([&](mlir::CallOpInterface call) {
        const auto symbol = llvm::dyn_cast<mlir::SymbolRefAttr>(call.getCallableForCallee());
        auto callee = symbol ? symbols.lookup<FuncOp>(symbol.getRootReference()) : FuncOp();
        if (!callee || callee.isExternal()) return;
        for (const auto& [operand, argument] : llvm::zip_equal(call.getArgOperands(), callee.getArguments())) {
          if (is_tensor(operand) && !contains(operand)) changed |= written_.insert(argument).second;
        }
      });
    }
  }

  bool contains(Value root) const {
    return llvm::isa<mlir::BlockArgument>(root) ? !written_.contains(root) : !root.getDefiningOp<AllocateSharedOp>();
  }

 private:
  void add_kernel(FuncOp kernel) {
    for (const mlir::BlockArgument argument : kernel.getArguments()) {
      if (!kernel.getArgAttr(argument.getArgNumber(), "strata.input")) written_.insert(argument);
    }
  }

  llvm::DenseSet<Value> written_;
};

class TensorLowering {
 public:
  TensorLowering(mlir::ModuleOp module, const LoweringOptions& options)
      : module_(module), options_(options), invariant_(module) {}

  mlir::LogicalResult run() {
    for (FuncOp function : llvm::to_vector(module_.getOps<FuncOp>())) {
      if (!function.isExternal() && mlir::failed(lower(function))) return mlir::failure();
    }
    return mlir::success();
  }

 private:
  mlir::LogicalResult lower(FuncOp function) {
    add_pointers(function);
    llvm::SmallVector<Operation*> operations;
    function.walk<mlir::WalkOrder::PostOrder>([&](Operation* op) { operations.push_back(op); });
    for (Operation* op : operations) {
      if (mlir::failed(lower_access(op))) return mlir::failure();
    }
    // Only what hands tensors on is left.
    operations.clear();
    function.walk<mlir::WalkOrder::PostOrder>([&](Operation* op) { operations.push_back(op); });
    for (Operation* op : operations) {
      if (op->hasTrait<mlir::OpTrait::IsTerminator>()) drop_tensors(op);
    }
    for (Operation* op : operations) {
      if (llvm::any_of(op->getResults(), is_tensor)) drop_results(op);
    }
    for (const auto& [root, pointer] : pointers_) {
      if (Operation* op = root.getDefiningOp(); op && op->use_empty()) op->erase();
    }
    remove_tensors(function);
    return mlir::success();
  }

  /// A pointer after each argument that is a tensor, and, after all, one to the shared memory of kernels.
  void add_pointers(FuncOp function) {
    pointers_.clear();
    shared_bytes_ = 0;
    mlir::Builder builder(function.getContext());
    const Type pointer = LLVM::LLVMPointerType::get(function.getContext());
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      const auto tensor = llvm::dyn_cast<RankedTensorType>(function.getArgument(i).getType());
      if (!tensor) continue;
      const Value root = function.getArgument(i);
      const bool invariant = invariant_.contains(root);
      const bool is_kernel = function->hasAttr("strata.kernel");
      llvm::SmallVector<mlir::NamedAttribute> attributes;
      const auto add = [&](llvm::StringRef name, mlir::Attribute value) {
        attributes.push_back(builder.getNamedAttr(name, value));
      };
      if (is_kernel && (invariant || function.getArgAttr(i, "strata.output")))
        add("llvm.noalias", builder.getUnitAttr());
      if (invariant || (is_kernel && function.getArgAttr(i, "strata.input"))) {
        add("llvm.readonly", builder.getUnitAttr());
      }
      add("llvm.nocapture", builder.getUnitAttr());
      const bool gpu = options_.processor == Processor::Gpu;
      add("llvm.align", builder.getI64IntegerAttr(gpu ? kBufferAlignment : kHostArrayAlignment));
      if (const int64_t bytes = tensor.getNumElements() * stored_bytes(tensor.getElementType()); bytes > 0) {
        add("llvm.dereferenceable", builder.getI64IntegerAttr(bytes));
      }
      function.insertArgument(i + 1, pointer, builder.getDictionaryAttr(attributes), root.getLoc());
      pointers_[root] = function.getArgument(i + 1);
      ++i;
    }
    if (!function->hasAttr("strata.kernel")) return;
    const unsigned space = options_.processor == Processor::Gpu ? kGpuShared : 0;
    const auto attributes =
        builder.getDictionaryAttr({builder.getNamedAttr("llvm.noalias", builder.getUnitAttr()),
                                   builder.getNamedAttr("llvm.align", builder.getI64IntegerAttr(kSharedAlignment))});
    function.insertArgument(function.getNumArguments(), LLVM::LLVMPointerType::get(function.getContext(), space),
                            attributes, function.getLoc());
  }

  void remove_tensors(FuncOp function) {
    llvm::BitVector arguments(function.getNumArguments()), results(function.getNumResults());
    for (const mlir::BlockArgument argument : function.getArguments()) {
      if (is_tensor(argument)) arguments.set(argument.getArgNumber());
    }
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      if (llvm::isa<RankedTensorType>(function.getResultTypes()[i])) results.set(i);
    }
    function.eraseArguments(arguments);
    function.eraseResults(results);
    if (function->hasAttr("strata.kernel")) {
      function->setAttr("strata.shared_bytes", mlir::Builder(function.getContext()).getI64IntegerAttr(shared_bytes_));
    }
  }

  mlir::LogicalResult lower_access(Operation* op) {
    OpBuilder builder(op);
    if (auto allocate = llvm::dyn_cast<AllocateSharedOp>(op)) return lower_allocation(allocate);
    if (auto constant = llvm::dyn_cast<arith::ConstantOp>(op); constant && is_tensor(constant)) {
      return lower_constant(constant);
    }
    if (auto extract = llvm::dyn_cast<mlir::tensor::ExtractOp>(op)) {
      extract.replaceAllUsesWith(
          load(builder, extract.getLoc(), extract.getTensor(), extract.getIndices(), extract.getType()));
      extract.erase();
    } else if (auto read = llvm::dyn_cast<mlir::vector::TransferReadOp>(op)) {
      read.replaceAllUsesWith(load(builder, read.getLoc(), read.getSource(), read.getIndices(), read.getType()));
      read.erase();
    } else if (auto insert = llvm::dyn_cast<mlir::tensor::InsertOp>(op)) {
      store(builder, insert.getLoc(), insert.getScalar(), insert.getDest(), insert.getIndices());
      insert.erase();
    } else if (auto write = llvm::dyn_cast<mlir::vector::TransferWriteOp>(op)) {
      store(builder, write.getLoc(), write.getVector(), write.getSource(), write.getIndices());
      write.erase();
    } else if (auto predicated = llvm::dyn_cast<PredicatedInsertOp>(op)) {
      auto branch = builder.create<scf::IfOp>(op->getLoc(), predicated.getCondition(), /*withElseRegion=*/false);
      OpBuilder inside = branch.getThenBodyBuilder();
      store(inside, op->getLoc(), predicated.getValue(), predicated.getDest(), predicated.getIndices());
      predicated.erase();
    } else if (auto guarded = llvm::dyn_cast<PredicatedExtractOp>(op)) {
      auto branch = builder.create<scf::IfOp>(
          op->getLoc(), guarded.getCondition(),
          [&](OpBuilder& inside, Location location) {
            inside.create<scf::YieldOp>(
                location, load(inside, location, guarded.getSource(), guarded.getIndices(), guarded.getType()));
          },
          [&](OpBuilder& inside, Location location) { inside.create<scf::YieldOp>(location, guarded.getFallback()); });
      guarded.replaceAllUsesWith(branch.getResult(0));
      guarded.erase();
    } else if (auto atomic = llvm::dyn_cast<AtomicRmwOp>(op)) {
      const Value place = address(builder, op->getLoc(), atomic.getDest(), atomic.getIndices());
      if (mlir::failed(lower_atomic(atomic, place, options_))) return mlir::failure();
      atomic.erase();
    } else if (auto fetch = llvm::dyn_cast<AtomicFetchOp>(op)) {
      lower_atomic_fetch(fetch, address(builder, op->getLoc(), fetch.getDest(), fetch.getIndices()));
      fetch.erase();
    } else if (llvm::isa<SyncThreadsOp>(op)) {
      builder.create<mlir::func::CallOp>(op->getLoc(), barrier(), ValueRange());
      op->erase();
    } else if (llvm::isa<PureCallOp, mlir::func::CallOp>(op)) {
      for (mlir::OpOperand& operand : op->getOpOperands()) {
        if (is_tensor(operand.get())) operand.set(generic_pointer(builder, operand.get()));
      }
    }
    return mlir::success();
  }

  /// Tiles lie one after the other.
  mlir::LogicalResult lower_allocation(AllocateSharedOp op) {
    auto function = op->getParentOfType<FuncOp>();
    if (!function->hasAttr("strata.kernel")) return op.emitError("is in a function that is no kernel");
    OpBuilder builder(op);
    const Value base = function.getArguments().back();
    const auto offset = static_cast<int32_t>(shared_bytes_);
    pointers_[op.getResult()] = builder.create<LLVM::GEPOp>(op.getLoc(), base.getType(), builder.getI8Type(), base,
                                                            llvm::ArrayRef<LLVM::GEPArg>{offset}, /*inbounds=*/true);
    const int64_t bytes = shared_bytes(llvm::cast<RankedTensorType>(op.getType()));
    shared_bytes_ += (bytes + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
    return mlir::success();
  }

  /// An array that all uses of the same constant share.
  mlir::LogicalResult lower_constant(arith::ConstantOp op) {
    auto value = llvm::dyn_cast<mlir::DenseElementsAttr>(op.getValue());
    if (!value) return op.emitError("unsupported: a constant that is not dense");
    LLVM::GlobalOp& global = globals_[value];
    OpBuilder builder(op);
    const bool gpu = options_.processor == Processor::Gpu;
    if (!global) {
      const mlir::DenseElementsAttr stored = stored_constant(value);
      const auto type =
          LLVM::LLVMArrayType::get(stored.getElementType(), static_cast<uint64_t>(stored.getNumElements()));
      OpBuilder outside = OpBuilder::atBlockBegin(module_.getBody());
      global = outside.create<LLVM::GlobalOp>(op.getLoc(), type, /*isConstant=*/true, LLVM::Linkage::Internal,
                                              "strata_constant_" + std::to_string(globals_.size() - 1), stored,
                                              /*alignment=*/kBufferAlignment, gpu ? kGpuGlobal : 0);
    }
    pointers_[op.getResult()] = builder.create<LLVM::AddressOfOp>(op.getLoc(), global);
    return mlir::success();
  }

  /// Of rank 1, with elements as they are in memory.
  static mlir::DenseElementsAttr stored_constant(mlir::DenseElementsAttr value) {
    const Type element = value.getElementType();
    const int64_t count = value.getNumElements();
    if (const auto complex = llvm::dyn_cast<mlir::ComplexType>(element)) {
      llvm::SmallVector<llvm::APFloat> parts;
      for (const std::complex<llvm::APFloat>& one : value.getValues<std::complex<llvm::APFloat>>()) {
        parts.push_back(one.real());
        parts.push_back(one.imag());
      }
      return mlir::DenseElementsAttr::get(RankedTensorType::get({2 * count}, complex.getElementType()), parts);
    }
    if (element.isInteger() && element.getIntOrFloatBitWidth() < 8) {
      return value.mapValues(stored_type(element), [](const llvm::APInt& one) { return one.zext(8); })
          .reshape(RankedTensorType::get({count}, stored_type(element)));
    }
    return value.reshape(RankedTensorType::get({count}, element));
  }

  Value address(OpBuilder& builder, Location location, Value root, ValueRange indices) {
    const auto type = llvm::cast<RankedTensorType>(root.getType());
    const Value base = pointers_.lookup(root);
    assert(base && "the tensor is a root");
    // Complex elements are two of their parts: one array of them is what LLVM knows.
    Type element = stored_type(type.getElementType());
    if (const auto pair = llvm::dyn_cast<mlir::VectorType>(element)) {
      element = LLVM::LLVMArrayType::get(pair.getElementType(), 2);
    }
    Value position;
    if (root.getDefiningOp<AllocateSharedOp>()) {
      position = shared_address(builder, location, type, indices);
    } else {
      assert(indices.size() == 1 && "arrays are flat");
      const Value index = indices[0];
      const Type i64 = builder.getI64Type();
      position = value_range(index).lo >= 0 ? builder.create<arith::IndexCastUIOp>(location, i64, index).getResult()
                                            : builder.create<arith::IndexCastOp>(location, i64, index).getResult();
    }
    return builder.create<LLVM::GEPOp>(location, base.getType(), element, base, ValueRange{position},
                                       /*inbounds=*/true);
  }

  /// Vectors begin at multiples of their length; in tiles of shared memory only if rows do.
  unsigned alignment(RankedTensorType tensor, Type accessed) const {
    const int64_t bytes = stored_bytes(tensor.getElementType());
    const auto vector = llvm::dyn_cast<mlir::VectorType>(accessed);
    if (!vector) return static_cast<unsigned>(bytes);
    int64_t elements = vector.getNumElements();
    if (const auto layout = llvm::dyn_cast_or_null<SharedTileAttr>(tensor.getEncoding())) {
      elements = std::gcd(elements, tensor.getShape().back() + layout.getPadding());
    }
    const int64_t whole = elements * bytes;
    const int64_t most = options_.processor == Processor::Gpu ? kBufferAlignment : kHostArrayAlignment;
    return static_cast<unsigned>(std::min(whole & -whole, most));
  }

  /// Vectors of bytes as vectors of words. There are instructions that access 16 bytes, but none for 16 elements; and
  /// a cast before a store LLVM would take back, were it not for a permutation that it cannot see through.
  static Value words_of(OpBuilder& builder, Location location, Value bytes, int64_t count) {
    const Type word = builder.getI32Type();
    const Value zero = builder.create<LLVM::ConstantOp>(location, word, builder.getI32IntegerAttr(0));
    const Value order = builder.create<LLVM::ConstantOp>(location, word, builder.getI32IntegerAttr(0x3210));
    Value all = builder.create<LLVM::PoisonOp>(location, mlir::VectorType::get({count}, word));
    for (int32_t i = 0; i < count; ++i) {
      const int32_t first = 4 * i;
      const Value part = builder.create<LLVM::ShuffleVectorOp>(
          location, bytes, bytes, llvm::ArrayRef<int32_t>{first, first + 1, first + 2, first + 3});
      const Value cast = builder.create<LLVM::BitcastOp>(location, word, part);
      // Bytes 0 to 3 of both words together, in order: the first word.
      auto moved = builder.create<LLVM::CallIntrinsicOp>(location, word, builder.getStringAttr("llvm.nvvm.prmt"),
                                                         ValueRange{cast, zero, order});
      const Value place = builder.create<LLVM::ConstantOp>(location, word, builder.getI32IntegerAttr(i));
      all = builder.create<LLVM::InsertElementOp>(location, all, moved.getResults(), place);
    }
    return all;
  }

  /// What 8 or 16 bytes of narrow elements are loaded as: LLVM splits such vectors into words, and some of them into
  /// loads of one word each.
  static Type accessed_type(Type stored) {
    const auto vector = llvm::dyn_cast<mlir::VectorType>(stored);
    if (!vector || !vector.getElementType().isIntOrFloat() || vector.getElementTypeBitWidth() >= 32) return stored;
    const int64_t bits = vector.getNumElements() * vector.getElementTypeBitWidth();
    if (bits != 64 && bits != 128) return stored;
    return mlir::VectorType::get({bits / 32}, mlir::IntegerType::get(stored.getContext(), 32));
  }

  Value load(OpBuilder& builder, Location location, Value root, ValueRange indices, Type type) {
    const auto tensor = llvm::cast<RankedTensorType>(root.getType());
    const Value place = address(builder, location, root, indices);
    const Type accessed = accessed_type(stored_type(type));
    Value stored = builder.create<LLVM::LoadOp>(location, accessed, place, alignment(tensor, type),
                                                /*isVolatile=*/false, /*isNonTemporal=*/false,
                                                /*isInvariant=*/invariant_.contains(root));
    if (accessed != stored_type(type)) stored = builder.create<LLVM::BitcastOp>(location, stored_type(type), stored);
    return from_stored(builder, location, stored, type);
  }

  void store(OpBuilder& builder, Location location, Value value, Value root, ValueRange indices) {
    const auto tensor = llvm::cast<RankedTensorType>(root.getType());
    const Value place = address(builder, location, root, indices);
    Value stored = to_stored(builder, location, value);
    const auto bytes = llvm::dyn_cast<mlir::VectorType>(stored.getType());
    const bool as_words = options_.processor == Processor::Gpu && bytes && bytes.getElementType().isInteger(8) &&
                          bytes.getNumElements() >= 8 && bytes.getNumElements() % 4 == 0;
    if (as_words) stored = words_of(builder, location, stored, bytes.getNumElements() / 4);
    builder.create<LLVM::StoreOp>(location, stored, place, alignment(tensor, value.getType()));
  }

  /// For functions that take it whatever memory it is in.
  Value generic_pointer(OpBuilder& builder, Value root) {
    const Value pointer = pointers_.lookup(root);
    const auto generic = LLVM::LLVMPointerType::get(module_.getContext());
    if (pointer.getType() == generic) return pointer;
    return builder.create<LLVM::AddrSpaceCastOp>(root.getLoc(), generic, pointer);
  }

  FuncOp barrier() {
    if (auto known = module_.lookupSymbol<FuncOp>("strata_barrier")) return known;
    OpBuilder builder = OpBuilder::atBlockBegin(module_.getBody());
    auto function = builder.create<FuncOp>(module_.getLoc(), "strata_barrier", builder.getFunctionType({}, {}));
    function.setPrivate();
    return function;
  }

  static void drop_tensors(Operation* terminator) {
    llvm::BitVector dropped(terminator->getNumOperands());
    for (unsigned i = 0; i < terminator->getNumOperands(); ++i) dropped[i] = is_tensor(terminator->getOperand(i));
    terminator->eraseOperands(dropped);
  }

  /// The operation over regions again, without what it hands on of tensors.
  static void drop_results(Operation* op) {
    if (op->getNumRegions() == 0) return;  // a root
    OpBuilder builder(op);
    mlir::OperationState state(op->getLoc(), op->getName());
    state.addAttributes(op->getDiscardableAttrDictionary().getValue());
    state.propertiesAttr = op->getPropertiesAsAttribute();
    for (const Value operand : op->getOperands()) {
      if (!is_tensor(operand)) state.addOperands(operand);
    }
    for (const Value result : op->getResults()) {
      if (!is_tensor(result)) state.addTypes(result.getType());
    }
    for (unsigned i = 0; i < op->getNumRegions(); ++i) state.addRegion();
    Operation* changed = builder.create(state);
    for (const auto& [from, to] : llvm::zip_equal(op->getRegions(), changed->getRegions())) {
      to.takeBody(from);
      for (mlir::Block& block : to) {
        block.eraseArguments([](mlir::BlockArgument argument) { return is_tensor(argument); });
      }
    }
    auto next = changed->result_begin();
    for (const Value result : op->getResults()) {
      if (!is_tensor(result)) Value(result).replaceAllUsesWith(*next++);
    }
    op->erase();
  }

  mlir::ModuleOp module_;
  const LoweringOptions& options_;
  InvariantArguments invariant_;
  llvm::DenseMap<Value, Value> pointers_;  ///< of roots
  llvm::DenseMap<mlir::Attribute, LLVM::GlobalOp> globals_;
  int64_t shared_bytes_ = 0;
};

/// Conditional writes that may come late go to before what needs their tensor: each is a branch, over which no load
/// moves, and the copies of an unrolled body have their loads first then.
void delay_conditional_writes(mlir::ModuleOp module) {
  llvm::SmallVector<PredicatedInsertOp> writes;
  module.walk([&](PredicatedInsertOp write) {
    if (write->hasAttr("strata.late")) writes.push_back(write);
  });
  for (PredicatedInsertOp write : llvm::reverse(writes)) {  // users first
    mlir::Block* block = write->getBlock();
    Operation* first = block->getTerminator();
    for (Operation* user : write->getUsers()) {
      Operation* here = block->findAncestorOpInBlock(*user);
      if (here && here->isBeforeInBlock(first)) first = here;
    }
    write->moveBefore(first);
  }
}

}  // namespace

mlir::LogicalResult lower_tensors(mlir::ModuleOp module, const LoweringOptions& options) {
  delay_conditional_writes(module);
  read_where_written(module);
  if (mlir::failed(use_roots(module))) return mlir::failure();
  return TensorLowering(module, options).run();
}

}  // namespace strata::emitters

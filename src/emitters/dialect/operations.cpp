// Verifiers, folders, builders and texts of the operations.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/IR/Builders.h>

#include "emitters/dialect/dialect.h"

using mlir::failure;
using mlir::LogicalResult;
using mlir::success;

/// The types of apply_indexing's results are all index: only their number is written, ": 3", and not where it is 1.
static mlir::ParseResult parseIndexResults(mlir::OpAsmParser& parser, llvm::SmallVectorImpl<mlir::Type>& types) {
  int64_t count = 1;
  if (succeeded(parser.parseOptionalColon()) && parser.parseInteger(count)) return failure();
  types.assign(static_cast<size_t>(count), parser.getBuilder().getIndexType());
  return success();
}

static void printIndexResults(mlir::OpAsmPrinter& printer, mlir::Operation*, mlir::TypeRange types) {
  if (types.size() != 1) printer << " : " << types.size();
}

#define GET_OP_CLASSES
#include "emitters/dialect/strata_operations.cpp.inc"

namespace strata::emitters {

using mlir::Type;
using mlir::Value;
using mlir::ValueRange;

// --- apply_indexing ---

void ApplyIndexingOp::build(mlir::OpBuilder& builder, mlir::OperationState& state, const indexing::IndexingMap& map,
                            ValueRange dims) {
  build(builder, state, llvm::SmallVector<Type>(map.results.size(), builder.getIndexType()),
        MapAttr::get(builder.getContext(), map), dims);
}

LogicalResult ApplyIndexingOp::verify() {
  const indexing::IndexingMap& map = indexing_map();
  if (!map.ranges.empty() || !map.runtime.empty()) return emitOpError("needs a map of dimensions only");
  if (!map.constraints.empty()) return emitOpError("needs a map without constraints");
  if (map.dims.size() != getDims().size()) {
    return emitOpError() << "has " << getDims().size() << " operands for " << map.dims.size() << " dimensions";
  }
  if (map.results.size() != getNumResults()) {
    return emitOpError() << "has " << getNumResults() << " results for " << map.results.size() << " of the map";
  }
  return success();
}

LogicalResult ApplyIndexingOp::fold(FoldAdaptor adaptor, llvm::SmallVectorImpl<mlir::OpFoldResult>& results) {
  const indexing::IndexingMap& map = indexing_map();
  std::vector<int64_t> dims;
  for (const mlir::Attribute dim : adaptor.getDims()) {
    const auto integer = llvm::dyn_cast_or_null<mlir::IntegerAttr>(dim);
    if (!integer) break;
    dims.push_back(integer.getInt());
  }
  llvm::SmallVector<mlir::OpFoldResult> folded;
  const auto index_attr = [&](int64_t value) {
    return mlir::IntegerAttr::get(mlir::IndexType::get(getContext()), value);
  };
  for (const indexing::Expr& result : map.results) {
    if (result.is_constant()) {
      folded.push_back(index_attr(result.value()));
    } else if (result.kind() == indexing::ExprKind::Dimension) {
      folded.push_back(getDims()[static_cast<unsigned>(result.number())]);
    } else {
      if (dims.size() != map.dims.size()) return failure();
      const std::optional<int64_t> value = indexing::evaluate(result, {dims, {}, {}});
      if (!value) return failure();
      folded.push_back(index_attr(*value));
    }
  }
  results.append(folded.begin(), folded.end());
  return success();
}

// --- loop ---

void LoopOp::build(mlir::OpBuilder& builder, mlir::OperationState& state, const indexing::IndexingMap& map,
                   ValueRange dims, ValueRange inits, std::optional<int64_t> vector) {
  mlir::OpBuilder::InsertionGuard guard(builder);
  Properties& properties = state.getOrAddProperties<Properties>();
  properties.map = MapAttr::get(builder.getContext(), map);
  if (vector) properties.vector = builder.getI64IntegerAttr(*vector);
  state.addOperands(dims);
  state.addOperands(inits);
  properties.operandSegmentSizes = {static_cast<int32_t>(dims.size()), static_cast<int32_t>(inits.size())};
  state.addTypes(inits.getTypes());
  llvm::SmallVector<Type> types(map.ranges.size() + map.results.size(), builder.getIndexType());
  llvm::append_range(types, inits.getTypes());
  builder.createBlock(state.addRegion(), {}, types, llvm::SmallVector<mlir::Location>(types.size(), state.location));
}

LoopOp create_loop(mlir::ImplicitLocOpBuilder& builder, const indexing::IndexingMap& map, ValueRange dims,
                   ValueRange inits, std::optional<int64_t> vector, LoopBody body) {
  auto loop = builder.create<LoopOp>(map, dims, inits, vector);
  auto inside = mlir::ImplicitLocOpBuilder::atBlockBegin(builder.getLoc(), &loop.getBody().front());
  const llvm::SmallVector<Value> next =
      body(inside, loop.range_variables(), loop.map_results(), loop.iteration_arguments());
  inside.create<YieldOp>(next);
  return loop;
}

mlir::Block::BlockArgListType LoopOp::range_variables() {
  return getBody().getArguments().take_front(indexing_map().ranges.size());
}

mlir::Block::BlockArgListType LoopOp::map_results() {
  return getBody().getArguments().slice(indexing_map().ranges.size(), indexing_map().results.size());
}

mlir::Block::BlockArgListType LoopOp::iteration_arguments() {
  return getBody().getArguments().take_back(getInits().size());
}

LogicalResult LoopOp::verify() {
  const indexing::IndexingMap& map = indexing_map();
  if (!map.runtime.empty()) return emitOpError("needs a map without runtime variables");
  if (map.dims.size() != getDims().size()) {
    return emitOpError() << "has " << getDims().size() << " operands for " << map.dims.size() << " dimensions";
  }
  if (getVector() && *getVector() >= map.ranges.size()) {
    return emitOpError() << "has no range variable " << *getVector() << " to take as the vector";
  }
  llvm::SmallVector<Type> types(map.ranges.size() + map.results.size(), mlir::IndexType::get(getContext()));
  llvm::append_range(types, getInits().getTypes());
  if (llvm::SmallVector<Type>(getBody().getArgumentTypes()) != types) {
    return emitOpError("needs a body over range variables, results of the map and iteration arguments");
  }
  if (getResultTypes() != getInits().getTypes()) return emitOpError("needs results of its iteration arguments' types");
  if (getBody().front().getTerminator()->getOperandTypes() != getInits().getTypes()) {
    return emitOpError("yields other types than its iteration arguments'");
  }
  return success();
}

void LoopOp::print(mlir::OpAsmPrinter& printer) {
  printer << " (" << getDims() << ") in " << getMap();
  if (!getInits().empty()) {
    printer << " iter_args(";
    llvm::interleaveComma(llvm::zip(iteration_arguments(), getInits()), printer,
                          [&](const auto& pair) { printer << std::get<0>(pair) << " = " << std::get<1>(pair); });
    printer << ") -> (" << getInits().getTypes() << ")";
  }
  printer.printOptionalAttrDict((*this)->getAttrs(), {"map", "operandSegmentSizes"});
  const auto names = [&](const mlir::Block::BlockArgListType& values) {
    llvm::interleaveComma(values, printer, [&](Value value) { printer << value; });
  };
  printer << " do [";
  names(range_variables());
  printer << "] -> (";
  names(map_results());
  printer << ") ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/!getInits().empty());
}

mlir::ParseResult LoopOp::parse(mlir::OpAsmParser& parser, mlir::OperationState& state) {
  using Argument = mlir::OpAsmParser::Argument;
  llvm::SmallVector<mlir::OpAsmParser::UnresolvedOperand> dims, inits;
  llvm::SmallVector<Argument> ranges, results, iterations;
  llvm::SmallVector<Type> types;
  MapAttr map;
  const Type index = parser.getBuilder().getIndexType();
  if (parser.parseOperandList(dims, mlir::OpAsmParser::Delimiter::Paren) || parser.parseKeyword("in") ||
      parser.parseCustomAttributeWithFallback(map)) {
    return failure();
  }
  if (succeeded(parser.parseOptionalKeyword("iter_args")) &&
      (parser.parseAssignmentList(iterations, inits) || parser.parseArrowTypeList(types))) {
    return failure();
  }
  const auto place = parser.getCurrentLocation();
  if (types.size() != inits.size()) return parser.emitError(place, "needs one type an iteration argument");
  if (parser.parseOptionalAttrDict(state.attributes) || parser.parseKeyword("do") ||
      parser.parseArgumentList(ranges, mlir::OpAsmParser::Delimiter::Square) || parser.parseArrow() ||
      parser.parseArgumentList(results, mlir::OpAsmParser::Delimiter::Paren)) {
    return failure();
  }
  llvm::SmallVector<Argument> arguments;
  for (Argument& argument : ranges) arguments.push_back(argument), arguments.back().type = index;
  for (Argument& argument : results) arguments.push_back(argument), arguments.back().type = index;
  for (size_t i = 0; i < iterations.size(); ++i) {
    arguments.push_back(iterations[i]);
    arguments.back().type = types[i];
  }
  state.addTypes(types);
  Properties& properties = state.getOrAddProperties<Properties>();
  properties.map = map;
  properties.operandSegmentSizes = {static_cast<int32_t>(dims.size()), static_cast<int32_t>(inits.size())};
  mlir::Region* body = state.addRegion();
  if (parser.parseRegion(*body, arguments)) return failure();
  ensureTerminator(*body, parser.getBuilder(), state.location);
  return mlir::failure(parser.resolveOperands(dims, index, state.operands) ||
                       parser.resolveOperands(inits, types, place, state.operands));
}

// --- pure_call ---

mlir::CallInterfaceCallable PureCallOp::getCallableForCallee() { return getCalleeAttr(); }
void PureCallOp::setCalleeFromCallable(mlir::CallInterfaceCallable callee) {
  setCalleeAttr(llvm::cast<mlir::FlatSymbolRefAttr>(llvm::cast<mlir::SymbolRefAttr>(callee)));
}
mlir::Operation::operand_range PureCallOp::getArgOperands() { return getOperands(); }
mlir::MutableOperandRange PureCallOp::getArgOperandsMutable() { return getOperandsMutable(); }

LogicalResult PureCallOp::verifySymbolUses(mlir::SymbolTableCollection& tables) {
  auto callee = tables.lookupNearestSymbolFrom<mlir::func::FuncOp>(*this, getCalleeAttr());
  if (!callee) return emitOpError() << "calls " << getCalleeAttr() << ", which is no function";
  if (callee.getFunctionType().getInputs() != llvm::ArrayRef<Type>(llvm::to_vector(getOperandTypes())) ||
      callee.getFunctionType().getResults() != llvm::ArrayRef<Type>(llvm::to_vector(getResultTypes()))) {
    return emitOpError() << "has other types than " << getCalleeAttr() << ": " << callee.getFunctionType();
  }
  return success();
}

// --- elements of tensors ---

/// That a tensor is indexed by its rank's number of indices and holds values of the type.
static LogicalResult verify_element(mlir::Operation* op, Type tensor, size_t indices, Type value) {
  const auto type = llvm::cast<mlir::RankedTensorType>(tensor);
  if (type.getRank() != static_cast<int64_t>(indices)) {
    return op->emitOpError() << "has " << indices << " indices for a tensor of rank " << type.getRank();
  }
  if (type.getElementType() != value) {
    return op->emitOpError() << "has a value of type " << value << " for elements of " << type.getElementType();
  }
  return success();
}

LogicalResult PredicatedInsertOp::verify() {
  return verify_element(*this, getDest().getType(), getIndices().size(), getValue().getType());
}

mlir::OpFoldResult PredicatedInsertOp::fold(FoldAdaptor adaptor) {
  const auto condition = llvm::dyn_cast_or_null<mlir::IntegerAttr>(adaptor.getCondition());
  return condition && condition.getValue().isZero() ? mlir::OpFoldResult(getDest()) : mlir::OpFoldResult();
}

LogicalResult PredicatedExtractOp::verify() {
  return verify_element(*this, getSource().getType(), getIndices().size(), getFallback().getType());
}

LogicalResult WarpProductOp::verify() {
  const auto left = llvm::cast<mlir::VectorType>(getLeft().getType());
  const auto right = llvm::cast<mlir::VectorType>(getRight().getType());
  const Type type = left.getElementType();
  const Type sum =
      type.isInteger() ? Type(mlir::IntegerType::get(getContext(), 32)) : Type(mlir::Float32Type::get(getContext()));
  const int64_t count = type.isInteger() ? 16 : 8;
  if (right.getElementType() != type || left.getNumElements() != count || right.getNumElements() * 2 != count ||
      llvm::cast<mlir::VectorType>(getSums().getType()).getElementType() != sum) {
    return emitOpError() << "multiplies " << left << " by " << right << " into " << getSums().getType();
  }
  return success();
}

LogicalResult AtomicRmwOp::verify() {
  const auto vector = llvm::dyn_cast<mlir::VectorType>(getValue().getType());
  const Type type = vector ? vector.getElementType() : getValue().getType();
  if (mlir::failed(verify_element(*this, getDest().getType(), getIndices().size(), type))) return failure();
  if (vector && (vector.getRank() != 1 || getCombiner() != Combiner::Add || !llvm::isa<mlir::FloatType>(type))) {
    return emitOpError("takes vectors of one dimension, of floats to be added");
  }
  if ((getCombiner() == Combiner::Custom) != !getBody().empty()) {
    return emitOpError("has a region if and only if its combiner is custom");
  }
  if (getCombiner() != Combiner::Custom) {
    const bool floats = llvm::isa<mlir::FloatType>(type);
    switch (getCombiner()) {
      case Combiner::MinF:
      case Combiner::MaxF:
        return floats ? success() : emitOpError("needs floats for ") << stringifyCombiner(getCombiner());
      case Combiner::Custom:
      case Combiner::Add:
      case Combiner::Mul:
      case Combiner::Replace:
        return success();
      default:
        return llvm::isa<mlir::IntegerType>(type)
                   ? success()
                   : emitOpError("needs integers for ") << stringifyCombiner(getCombiner());
    }
  }
  mlir::Block& body = getBody().front();
  if (body.getArgumentTypes() != mlir::TypeRange({type, type}) ||
      body.getTerminator()->getOperandTypes() != mlir::TypeRange({type})) {
    return emitOpError() << "needs a region from two values of " << type << " to one";
  }
  return success();
}

LogicalResult ShuffleReduceOp::verify() {
  const int64_t distance = getDistance();
  if (distance < 1 || distance > 16 || (distance & (distance - 1)) != 0) {
    return emitOpError() << "needs a power of two from 1 to 16 as distance, not " << distance;
  }
  return success();
}

LogicalResult ShuffleReduceOp::verifySymbolUses(mlir::SymbolTableCollection& tables) {
  auto combiner = tables.lookupNearestSymbolFrom<mlir::func::FuncOp>(*this, getCombinerAttr());
  if (!combiner) return emitOpError() << "combines by " << getCombinerAttr() << ", which is no function";
  llvm::SmallVector<Type> types(getValues().getTypes());
  llvm::append_range(types, getValues().getTypes());
  if (combiner.getFunctionType().getInputs() != llvm::ArrayRef<Type>(types) ||
      combiner.getFunctionType().getResults() != llvm::ArrayRef<Type>(types).take_front(getValues().size())) {
    return emitOpError() << "needs a combiner of two times its values to its values, not "
                         << combiner.getFunctionType();
  }
  return success();
}

}  // namespace strata::emitters

#include "emitters/kinds/in_place.h"

#include <mlir/Dialect/Arith/IR/Arith.h>

#include <algorithm>

#include "indexing/simplify.h"
#include "indexing/thread_maps.h"

namespace strata::emitters {

using hlo::InstructionId;
using hlo::Opcode;
using indexing::IndexingMap;

Result<Preparation> preparation_in_place(const hlo::Computation& computation, InstructionId operand,
                                         const hlo::Shape& output) {
  const hlo::Instruction& it = computation[operand];
  Preparation preparation;
  if (it.opcode == Opcode::Parameter) {
    if (it.shape.minor_to_major != output.minor_to_major) {
      return unsupported("{} does not lie as the result does", it.name);
    }
    preparation.kind = Preparation::Kind::Copy;
    for (const InstructionId parameter : computation.parameters) {
      if (parameter == operand) break;
      if (computation[parameter].shape.is_array()) ++preparation.input;
    }
    return preparation;
  }
  InstructionId from = operand;
  while (computation[from].opcode == Opcode::Broadcast || computation[from].opcode == Opcode::Reshape) {
    from = computation[from].operands[0];
  }
  if (computation[from].opcode != Opcode::Constant) {
    return unsupported("{} is computed here: it must be complete before", it.name);
  }
  const hlo::Literal& literal = computation[from].as<hlo::ConstantAttributes>().value;
  if (literal.size() != 1) return unsupported("{} is a constant of several values", it.name);
  preparation.kind = Preparation::Kind::Fill;
  preparation.value = literal.with_shape(hlo::array_shape(output.type, {}));
  return preparation;
}

IndexingMap visits_of(const hlo::Shape& shape, const AccessWidth& width) {
  const indexing::Tiling tiling =
      indexing::linear_tiling({shape.element_count()}, width.threads, width.vector, width.unroll);
  return indexing::simplify(indexing::compose(indexing::thread_map(tiling), index_at_position(shape)),
                            indexing::UnusedVariables::Keep);
}

bool has_vector_sums(const Target& target, hlo::ElementType type) {
  using hlo::ElementType;
  return target.vector_atomics && (type == ElementType::F32 || type == ElementType::F16 || type == ElementType::BF16);
}

double atomics_rate(const Target& target, std::optional<Combiner> combiner, hlo::ElementType type, int64_t vector) {
  const Rates& rates = target.rates;
  const int bytes = hlo::byte_width(type);
  if (!combiner || *combiner == Combiner::Custom || *combiner == Combiner::Mul) return rates.exchange_atomics;
  // A vector of 4 bytes is a word.
  if (has_vector_sums(target, type) && *combiner == Combiner::Add && vector * bytes >= 4)
    return std::min(rates.atomics * static_cast<double>(vector), rates.vector_atomics / bytes);
  return bytes == 4 || bytes == 8 || hlo::is_complex(type) ? rates.atomics : rates.exchange_atomics;
}

mlir::Value index_of(mlir::ImplicitLocOpBuilder& builder, mlir::Value integer, hlo::ElementType type) {
  const mlir::Type index = builder.getIndexType();
  if (hlo::is_unsigned(type)) return builder.create<mlir::arith::IndexCastUIOp>(index, integer);
  return builder.create<mlir::arith::IndexCastOp>(index, integer);
}

indexing::Interval values_of_index(hlo::ElementType type) {
  const int bits = hlo::bit_width(type);
  if (bits >= 64) return indexing::kEverything;
  if (hlo::is_unsigned(type)) return {0, (int64_t{1} << bits) - 1};
  return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
}

}  // namespace strata::emitters

#include "ops/tiling.h"

namespace strata {

struct InIter {
  static constexpr OpTraits traits{
      .name = "in_iter",
      .summary = "input iterator: the tile of a tensor that a block, in one iteration, reads",
      .arity = 1,
      .levels = {.kernel = false, .block = true, .thread = true},
      .moves = true,
      .abstract_expression = "E(X)"};
  static constexpr std::array attributes{
      AttributeSpec{"imap", AttributeKind::IntList, false,
                    "block level: for each grid dimension the tensor dimension it cuts, or _ to replicate"},
      AttributeSpec{"fmap", AttributeKind::Int, false,
                    "block level: the dimension the for-loop cuts inside the block's part, or _ (default)"}};
  static constexpr CudaLowering cuda = structural_cuda();

  /// A thread's iterator hands the block tensor's elements to their threads and keeps its type.
  static Result<TensorType> infer(const OpScope& scope, OperandTypes operands, const Attributes& attributes) {
    TensorType result = operands[0];
    if (scope.level == Level::Thread) {
      if (!attributes.entries().empty()) return invalid("a thread graph's in_iter takes no imap and no fmap");
      return result;
    }
    if (!attributes.has("imap")) return invalid("a block graph's in_iter needs imap=[…]");
    STRATA_TRY(std::vector<int64_t> counts, tile_counts(result.shape, scope.grid, attributes.list("imap"), "imap"));
    const int64_t fmap = attributes.integer_or("fmap", kReplicate);
    if (fmap != kReplicate) {
      if (fmap < 0 || fmap >= static_cast<int64_t>(result.shape.size())) {
        return invalid("fmap={} names no dimension of {}", fmap, to_string(result));
      }
      int64_t& count = counts[static_cast<size_t>(fmap)];
      STRATA_TRY(count, checked_product(count, scope.loop));
    }
    for (size_t d = 0; d < counts.size(); ++d) {
      if (result.shape[d] % counts[d] != 0) {
        return invalid("dimension {} of {} is not divisible into {} tiles", d, to_string(result), counts[d]);
      }
      result.shape[d] /= counts[d];
    }
    return result;
  }
  static IndexLabels labels(OperandTypes operands, const Attributes&) { return elementwise_labels(operands); }
  static OperandReads reads(OperandTypes, const Attributes&) { return no_reads(); }
  static ExprId expression(ExprBuilder&, const OpScope&, std::span<const ExprId> e, OperandTypes, const Attributes&) {
    return e[0];
  }
  template <class A>
  static void eval(const EvalArgs<A>& args) {
    const auto& whole = *args.operands[0];
    if (args.scope.level == Level::Thread) {
      args.result.data = whole.data;
      return;
    }
    auto position = tile_of(whole.shape.size(), args.scope.grid, args.attributes.list("imap"), args.point).position;
    const int64_t fmap = args.attributes.integer_or("fmap", kReplicate);
    if (fmap != kReplicate) {
      int64_t& at = position[static_cast<size_t>(fmap)];
      at = at * args.scope.loop + args.point.iteration;
    }
    for_each_in_tile(whole.shape, args.result.shape, position,
                     [&](int64_t from, int64_t to) { args.result[to] = whole[from]; });
  }
};

}  // namespace strata

STRATA_DEFINE_OP(InIter)

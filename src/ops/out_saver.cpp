#include "ops/tiling.h"

namespace strata {

struct OutSaver {
  static constexpr OpTraits traits{.name = "out_saver",
                                   .summary = "output saver: writes a block's tile to its place in a kernel tensor",
                                   .arity = 1,
                                   .levels = {.kernel = false, .block = true, .thread = true},
                                   .moves = true,
                                   .abstract_expression = "E(X)"};
  static constexpr std::array attributes{
      AttributeSpec{"omap", AttributeKind::IntList, false,
                    "block level: for each grid dimension the result dimension along which blocks lie side by side"},
      AttributeSpec{"dtype", AttributeKind::Word, false,
                    "block level: the result's element type, where it is not the tile's: f16, bf16, f32 or f64"}};
  static constexpr CudaLowering cuda = structural_cuda();

  static Result<TensorType> infer(const OpScope& scope, OperandTypes operands, const Attributes& attributes) {
    TensorType result = operands[0];
    if (scope.level == Level::Thread) {
      if (!attributes.entries().empty()) return invalid("a thread graph's out_saver takes no omap");
      return result;
    }
    if (!attributes.has("omap")) return invalid("a block graph's out_saver needs omap=[…]");
    if (attributes.has("dtype")) {
      STRATA_TRY(result.dtype, parse_dtype(attributes.word("dtype")));
    }
    const std::vector<int64_t>& omap = attributes.list("omap");
    STRATA_TRY(const std::vector<int64_t> counts, tile_counts(result.shape, scope.grid, omap, "omap"));
    for (size_t i = 0; i < omap.size(); ++i) {
      if (omap[i] == kReplicate && scope.grid[i] > 1) {
        return invalid("omap={} replicates grid dimension {} of size {}: blocks would write the same elements",
                       to_string(AttributeValue(omap)), i, scope.grid[i]);
      }
    }
    for (size_t d = 0; d < counts.size(); ++d) {
      STRATA_TRY(result.shape[d], checked_product(result.shape[d], counts[d]));
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
    const auto& tile = *args.operands[0];
    if (args.scope.level == Level::Thread) {
      args.result.data = tile.data;
      return;
    }
    const auto position =
        tile_of(tile.shape.size(), args.scope.grid, args.attributes.list("omap"), args.point).position;
    for_each_in_tile(args.result.shape, tile.shape, position,
                     [&](int64_t to, int64_t from) { args.result[to] = tile[from]; });
  }
};

}  // namespace strata

STRATA_DEFINE_OP(OutSaver)

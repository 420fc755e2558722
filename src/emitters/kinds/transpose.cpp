// The transpose emitter: a block reads a tile as it lies in the operand, and writes it as it lies in the result.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include <numeric>
#include <set>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/index_code.h"
#include "emitters/elemental/types.h"
#include "emitters/kinds/access_width.h"
#include "emitters/kinds/epilogue.h"
#include "emitters/kinds/kernel.h"
#include "emitters/kinds/place_maps.h"
#include "emitters/kinds/plan.h"
#include "emitters/kinds/transpose_tile.h"
#include "hlo/terms.h"
#include "indexing/map_checks.h"
#include "indexing/simplify.h"
#include "indexing/thread_maps.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;
using indexing::IndexingMap;
using mlir::Value;
using mlir::ValueRange;

constexpr int64_t kLeastElements = 256;

int64_t bytes_of(const hlo::Shape& shape) { return std::max<int64_t>(hlo::byte_width(shape.type), 1); }

/// Nothing, or why the loop emitter does as well.
std::string not_worth_it(const Permutation& permutation, int64_t bytes) {
  const std::vector<int64_t> result = permutation.result_dims();
  const int64_t count = std::accumulate(result.begin(), result.end(), int64_t{1}, std::multiplies<>());
  if (count < kLeastElements) return fmt::format("{} is {} elements only", permutation.text(), count);
  const double ratio = reads_of_loop(permutation, bytes).lines;
  if (ratio >= kLeastLineRatio) return {};
  return fmt::format("{} in the result's order takes {:.2f} times the lines that it fills: it is read as it is",
                     permutation.text(), ratio);
}

struct TransposePlan {
  HeroSplit split;
  TransposeTile tile;
  TransposeMaps maps;
  std::vector<SharedLayout> layouts;  ///< of each hero
};

/// The permutation that the heroes have, and which they are.
Result<HeroSplit> find_heroes(const Fusion& fusion, Permutation& permutation) {
  const hlo::Computation& computation = fusion.computation();
  std::string refused = "no transpose stands behind a root by operators that keep places";
  std::optional<Permutation> chosen;
  // Of several kinds of permutations the first that is worth a tile; the others are read as they are.
  const auto is_hero = [&](InstructionId id) {
    const std::optional<Permutation> one = permutation_of(computation, id);
    if (!one) return false;
    const std::string why = not_worth_it(*one, bytes_of(computation[id].shape));
    if (!why.empty()) {
      refused = computation[id].name + ": " + why;
      return false;
    }
    if (!chosen) chosen = one;
    return *chosen == *one;
  };
  STRATA_TRY(HeroSplit split, split_at_heroes(fusion, is_hero));
  if (split.heroes.empty()) return unsupported("{}", refused);
  permutation = *chosen;
  return split;
}

/// The bytes of elements that the kernel reads and writes.
TransposeTraffic traffic_of(const HeroSplit& split) {
  const hlo::Computation& computation = (*split.module)[split.computation];
  TransposeTraffic traffic;
  const int64_t count = computation[split.heroes[0]].shape.element_count();
  for (const InstructionId hero : split.heroes) traffic.tile_bytes.push_back(bytes_of(computation[hero].shape));
  // What the heroes read, by a walk through their operands.
  std::set<InstructionId> seen;
  std::vector<InstructionId> pending;
  for (const InstructionId hero : split.heroes) pending.push_back(computation[hero].operands[0]);
  while (!pending.empty()) {
    const InstructionId id = pending.back();
    pending.pop_back();
    if (!seen.insert(id).second) continue;
    const hlo::Instruction& it = computation[id];
    const bool parameter = it.opcode == hlo::Opcode::Parameter && it.shape.is_array();
    if (parameter && it.shape.element_count() >= count / 2) {
      traffic.widest_read = std::max(traffic.widest_read, bytes_of(it.shape));
    }
    pending.insert(pending.end(), it.operands.begin(), it.operands.end());
  }
  traffic.computes =
      std::any_of(computation.instructions.begin(), computation.instructions.end(), [](const hlo::Instruction& it) {
        return it.opcode != hlo::Opcode::Parameter && it.opcode != hlo::Opcode::Transpose &&
               it.opcode != hlo::Opcode::Copy && it.opcode != hlo::Opcode::Tuple;
      });
  for (const hlo::Instruction& it : computation.instructions) traffic.terms += hlo::terms_of(computation, it) - 1;
  const std::vector<InstructionId> roots = root_values(computation);
  for (size_t i = 0; i < roots.size(); ++i) {
    int64_t& widest = split.has_hero[i] ? traffic.widest_written : traffic.widest_read;
    widest = std::max(widest, bytes_of(computation[roots[i]].shape));
  }
  return traffic;
}

Result<void> check_maps(const TransposePlan& plan) {
  const Permutation& permutation = plan.tile.permutation;
  const auto expect = [](const char* what, const indexing::Verdict& verdict) -> Result<void> {
    if (verdict.kind != indexing::Verdict::Kind::Refuted) return {};
    return unsupported("internal error: {}: {}", what, verdict.reason);
  };
  STRATA_CHECK(
      expect("writes of a transpose", indexing::writes_bijectively(plan.maps.write, permutation.result_dims())));
  STRATA_CHECK(expect("reads of a transpose", indexing::writes_bijectively(plan.maps.read, permutation.dims)));
  for (const SharedLayout& layout : plan.layouts) {
    for (const bool result : {false, true}) {
      IndexingMap places = result ? plan.maps.write : plan.maps.read;
      places.results = result ? layout.drain : layout.fill;
      STRATA_CHECK(expect("a tile's places", indexing::reads_in_bounds(places, plan.maps.shared_shape)));
    }
  }
  return {};
}

/// Writes the kernel.
class TransposeKernel {
 public:
  TransposeKernel(const TransposePlan& plan, const FusionFunctions& functions, Kernel& kernel)
      : plan_(plan), functions_(functions), kernel_(kernel) {}

  Result<Values> run() {
    mlir::ImplicitLocOpBuilder& builder = kernel_.builder();
    Values tiles;
    for (size_t i = 0; i < plan_.split.heroes.size(); ++i) {
      const indexing::SharedTile& lies = plan_.layouts[i].tile;
      const auto how = SharedTileAttr::get(builder.getContext(), lies.padding, lies.swizzle_chunk);
      const mlir::Type element = element_type(builder.getContext(), hero(i).shape.type);
      tiles.push_back(
          builder.create<AllocateSharedOp>(mlir::RankedTensorType::get(plan_.maps.shared_shape, element, how)));
    }
    Values written = tiles;
    llvm::append_range(written, kernel_.outputs());
    STRATA_CHECK(fill(written));
    const ValueRange filled = ValueRange(written).take_front(tiles.size());
    auto sync = builder.create<SyncThreadsOp>(filled.getTypes(), filled);
    return drain(Values(sync.getResults()), Values(ValueRange(written).drop_front(tiles.size())));
  }

 private:
  const hlo::Instruction& hero(size_t i) const { return functions_.computation()[plan_.split.heroes[i]]; }
  const hlo::Shape& function_shape(int function) const {
    const indexing::Function& of = functions_.partition().functions[static_cast<size_t>(function)];
    return functions_.computation()[of.results[0].instruction].shape;
  }

  /// The index of an array's element, given its place in memory. Not a result of the loop's map: there it would be
  /// simplified by itself, and places in memory that are computed from it again might not be found to be the same.
  static Values index_at(mlir::ImplicitLocOpBuilder& builder, const hlo::Shape& shape, Value place) {
    return apply_map(builder, index_at_position(shape), {{place}, {}, {}});
  }

  /// Reads the heroes' operands into the tiles, and writes what else is computed at their places: `written` are the
  /// tiles, then the outputs.
  Result<void> fill(Values& written) {
    const std::vector<int> side_functions = root_functions(plan_.split, false);
    MapResults results(plan_.maps.read);
    results.add({position_of(plan_.maps.read, plan_.tile.permutation.dims)});
    for (const SharedLayout& layout : plan_.layouts) results.add(layout.fill);
    std::optional<Error> error;
    auto loop = create_loop(kernel_.builder(), results.map(), kernel_.place(), written, /*vector=*/1,
                            [&](mlir::ImplicitLocOpBuilder& inside, ValueRange, ValueRange indices, ValueRange before) {
                              const size_t tiles = plan_.split.heroes.size();
                              Values after(before);
                              for (size_t i = 0; i < tiles; ++i) {
                                const auto value = functions_.read(
                                    inside, hero(i).operands[0], kernel_.inputs(),
                                    index_at(inside, functions_.computation().operand_shape(hero(i), 0), indices[0]));
                                if (!value) {
                                  error = value.error();
                                  return after;
                                }
                                const ValueRange place = results.of(indices, i + 1);
                                after[i] = inside.create<mlir::tensor::InsertOp>((*value)[0], after[i], place);
                              }
                              Values outputs(ValueRange(after).drop_front(tiles));
                              for (const int function : side_functions) {
                                outputs =
                                    write_outputs(inside, functions_, function, kernel_.inputs(),
                                                  index_at(inside, function_shape(function), indices[0]), {}, outputs);
                              }
                              after.truncate(tiles);
                              llvm::append_range(after, outputs);
                              return after;
                            });
    if (error) return tl::unexpected(std::move(*error));
    written = Values(loop.getResults());
    return {};
  }

  /// Reads the tiles along the results, and writes what is computed of them.
  Values drain(const Values& tiles, const Values& outputs) {
    const std::vector<int> epilogues = root_functions(plan_.split, true);
    MapResults results(plan_.maps.write);
    results.add({position_of(plan_.maps.write, plan_.tile.permutation.result_dims())});
    for (const SharedLayout& layout : plan_.layouts) results.add(layout.drain);
    auto loop = create_loop(
        kernel_.builder(), results.map(), kernel_.place(), outputs, /*vector=*/2,
        [&](mlir::ImplicitLocOpBuilder& inside, ValueRange, ValueRange indices, ValueRange before) {
          Values values;
          for (size_t i = 0; i < tiles.size(); ++i) {
            const ValueRange place = results.of(indices, i + 1);
            values.push_back(inside.create<mlir::tensor::ExtractOp>(tiles[i], place));
          }
          Values after(before);
          for (const int function : epilogues) {
            Values injected;
            for (const InstructionId id : functions_.partition().functions[static_cast<size_t>(function)].injected) {
              injected.push_back(values[plan_.split.hero_number(id)]);
            }
            after = write_outputs(inside, functions_, function, kernel_.inputs(),
                                  index_at(inside, function_shape(function), indices[0]), injected, after);
          }
          return after;
        });
    return Values(loop.getResults());
  }

  const TransposePlan& plan_;
  const FusionFunctions& functions_;
  Kernel& kernel_;
};

Decision decision_of(const TransposePlan& plan) {
  const TransposeTile& tile = plan.tile;
  Decision decision;
  decision.emitter = "transpose";
  decision.reason = "elements that lie together in the operand lie apart in the result";
  decision.launch().threads = tile.threads;
  decision.launch().blocks = tile.blocks();
  decision.details = {{"permutation", tile.permutation.text()},
                      {"tile", fmt::format("{}", fmt::join(tile.extents, "x"))},
                      {"reads", fmt::format("{} elements together", tile.read_vector)},
                      {"writes", fmt::format("{} elements together, of {} at a time", tile.write_vector, tile.pack)}};
  for (size_t i = 0; i < plan.layouts.size(); ++i) {
    const InstructionId hero = plan.split.heroes[i];
    decision.details.emplace_back("tile of " + (*plan.split.module)[plan.split.computation][hero].name,
                                  plan.layouts[i].text());
    decision.launch().shared_bytes += plan.layouts[i].tile.bytes();
  }
  return decision;
}

}  // namespace

Result<Plan> plan_transpose(const Fusion& fusion) {
  TransposePlan made;
  Permutation permutation;
  STRATA_TRY(made.split, find_heroes(fusion, permutation));
  const hlo::Computation& computation = (*made.split.module)[made.split.computation];
  const int64_t count = computation[made.split.heroes[0]].shape.element_count();
  for (const InstructionId id : root_values(computation)) {
    if (computation[id].shape.element_count() == count) continue;
    return unsupported("{} has not as many elements as {}", computation[id].name,
                       computation[made.split.heroes[0]].name);
  }
  made.tile = choose_transpose_tile(permutation, traffic_of(made.split), fusion.target);
  made.maps = transpose_maps(made.tile);
  std::map<int64_t, SharedLayout> layouts;
  for (const InstructionId hero : made.split.heroes) {
    const int64_t bytes = bytes_of(computation[hero].shape);
    if (!layouts.contains(bytes)) layouts.emplace(bytes, choose_shared_layout(made.tile, made.maps, bytes));
    made.layouts.push_back(layouts.at(bytes));
  }
  STRATA_CHECK(check_maps(made));
  Plan plan;
  plan.decision = decision_of(made);
  if (plan.decision.launch().shared_bytes > fusion.target.shared_memory) {
    return unsupported("{} tiles need {} bytes of shared memory", made.layouts.size(),
                       plan.decision.launch().shared_bytes);
  }
  Launch& launch = plan.decision.launch();
  launch.min_blocks = choose_min_blocks(fusion, launch.threads, launch.shared_bytes);
  plan.emit = [made, decision = plan.decision](mlir::ModuleOp target, const std::string& name) -> Result<void> {
    STRATA_TRY(const FusionFunctions functions,
               FusionFunctions::create(target, *made.split.module, made.split.computation, made.split.options));
    Kernel kernel(functions, name, decision);
    STRATA_TRY(const Values outputs, TransposeKernel(made, functions, kernel).run());
    kernel.finish(outputs);
    return {};
  };
  return plan;
}

}  // namespace strata::emitters

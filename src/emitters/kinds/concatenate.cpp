// The concatenate emitter: each operand has blocks of its own, whose threads read it as it lies and write where it
// goes.
#include "emitters/kinds/concatenate.h"

#include <fmt/format.h>

#include <numeric>

#include "emitters/dialect/dialect.h"
#include "emitters/kinds/access_width.h"
#include "emitters/kinds/epilogue.h"
#include "emitters/kinds/kernel.h"
#include "emitters/kinds/place_maps.h"
#include "emitters/kinds/plan.h"
#include "indexing/map_checks.h"
#include "indexing/simplify.h"
#include "indexing/thread_maps.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;
using indexing::Expr;
using indexing::IndexingMap;
using mlir::ValueRange;

/// The part of the result that one operand is.
struct Part {
  size_t operand = 0;
  int64_t blocks = 0;         ///< by which `read` and `written` count, until these are placed in the grid
  IndexingMap read;           ///< (block, thread)[unroll, vector] → index of the operand
  std::vector<Expr> written;  ///< … → index of the result
  int64_t vector = 1;
};

struct ConcatenatePlan {
  HeroSplit split;
  std::vector<Part> parts;
  std::vector<Part> others;  ///< other root functions, by the place of their elements; `operand` is the function
  int threads = 128;
  int64_t blocks = 0;
};

bool same_parts(const hlo::Computation& computation, InstructionId a, InstructionId b) {
  const hlo::Instruction& x = computation[a];
  const hlo::Instruction& y = computation[b];
  if (x.operands.size() != y.operands.size() || x.dimensions() != y.dimensions()) return false;
  if (x.shape.minor_to_major != y.shape.minor_to_major) return false;
  for (size_t i = 0; i < x.operands.size(); ++i) {
    if (!hlo::same_dims(computation.operand_shape(x, i), computation.operand_shape(y, i))) return false;
  }
  return true;
}

/// The widest vector of elements that lie together in an operand and in the result.
int64_t vector_of(const hlo::Shape& operand, const hlo::Shape& result, int64_t dim, int64_t offset, int64_t limit) {
  // What lies together at both sides, and the steps between.
  int64_t together = 1;
  for (const int64_t d : result.minor_to_major) {
    together *= operand.dim(d);
    if (d == dim) break;
  }
  const auto strides = hlo::memory_strides(result);
  const int64_t step = strides[static_cast<size_t>(dim)];
  int64_t vector = 1;
  while (vector * 2 <= limit && together % (vector * 2) == 0 && step * result.dim(dim) % (vector * 2) == 0 &&
         step * offset % (vector * 2) == 0) {
    vector *= 2;
  }
  return vector;
}

/// One loop over a part of the result.
Part make_part(ConcatenatePlan& plan, const hlo::Shape& shape, int64_t vector, int64_t unroll) {
  Part part;
  part.vector = vector;
  const int64_t count = shape.element_count();
  part.blocks = indexing::ceil_div(count, plan.threads * vector * unroll);
  plan.blocks += part.blocks;
  part.read = indexing::simplify(indexing::thread_map(indexing::linear_tiling({count}, plan.threads, vector, unroll)),
                                 indexing::UnusedVariables::Keep);
  part.read.results = indices_at(part.read, {count}, shape);
  return part;
}

Result<void> check_part(const Part& part, const hlo::Shape& shape) {
  const indexing::Verdict verdict = indexing::writes_bijectively(part.read, shape.dims);
  if (verdict.kind != indexing::Verdict::Kind::Refuted) return {};
  return unsupported("internal error: a part of a concatenation: {}", verdict.reason);
}

/// Gives each part its blocks of the grid. They take turns, each with as many blocks at a time as is its share: so all
/// operands are read and the result is written from beginning to end.
void place_parts(ConcatenatePlan& plan) {
  std::vector<Part*> parts;
  for (Part& part : plan.parts) parts.push_back(&part);
  for (Part& part : plan.others) parts.push_back(&part);
  int64_t turns = 0;
  for (const Part* part : parts) turns = std::gcd(turns, part->blocks);
  int64_t offset = 0;
  const int64_t round = turns == 0 ? 0 : plan.blocks / turns;
  for (Part* part : parts) {
    const int64_t share = part->blocks / turns;
    const Expr block = Expr::dim(indexing::kBlock);
    const Expr place = mod(block, round);
    const auto placed = [&](indexing::ExprKind kind, int number) {
      if (kind != indexing::ExprKind::Dimension || number != indexing::kBlock) return Expr::variable(kind, number);
      return floor_div(block, round) * share + place - offset;
    };
    IndexingMap& map = part->read;
    map.results = indexing::substitute(map.results, placed);
    part->written = indexing::substitute(part->written, placed);
    for (indexing::Constraint& one : map.constraints) one.expr = indexing::substitute(one.expr, placed);
    map.dims[indexing::kBlock] = indexing::below(plan.blocks);
    if (share < round) map.constraints.push_back({place, {offset, offset + share - 1}});
    offset += share;
  }
}

Result<Values> emit_parts(const ConcatenatePlan& plan, const FusionFunctions& functions, Kernel& kernel) {
  const hlo::Computation& computation = functions.computation();
  const auto function_shape = [&](int number) {
    const indexing::Function& of = functions.partition().functions[static_cast<size_t>(number)];
    return computation[of.results[0].instruction].shape;
  };
  Values outputs(kernel.outputs());
  std::optional<Error> error;
  const std::vector<int> epilogues = root_functions(plan.split, true);
  for (const Part& part : plan.parts) {
    MapResults results(part.read);
    results.add(part.read.results);
    IndexingMap written = part.read;
    written.results = part.written;
    const hlo::Shape& whole = computation[plan.split.heroes[0]].shape;
    for (const int function : epilogues) results.add(indices_at_place(written, whole, function_shape(function)));
    auto loop = create_loop(
        kernel.builder(), results.map(), kernel.place(), outputs, /*vector=*/1,
        [&](mlir::ImplicitLocOpBuilder& inside, ValueRange, ValueRange indices, ValueRange before) {
          Values values;
          for (const InstructionId hero : plan.split.heroes) {
            const InstructionId operand = computation[hero].operands[part.operand];
            const auto value = functions.read(inside, operand, kernel.inputs(), results.of(indices, 0));
            if (!value) {
              error = value.error();
              return Values(before);
            }
            values.push_back((*value)[0]);
          }
          Values after(before);
          for (size_t i = 0; i < epilogues.size(); ++i) {
            Values injected;
            for (const InstructionId id : functions.partition().functions[static_cast<size_t>(epilogues[i])].injected) {
              injected.push_back(values[plan.split.hero_number(id)]);
            }
            after = write_outputs(inside, functions, epilogues[i], kernel.inputs(), results.of(indices, i + 1),
                                  injected, after);
          }
          return after;
        });
    if (error) return tl::unexpected(std::move(*error));
    outputs = Values(loop.getResults());
  }
  for (const Part& other : plan.others) {
    auto loop = create_loop(kernel.builder(), other.read, kernel.place(), outputs, /*vector=*/1,
                            [&](mlir::ImplicitLocOpBuilder& inside, ValueRange, ValueRange indices, ValueRange before) {
                              return write_outputs(inside, functions, static_cast<int>(other.operand), kernel.inputs(),
                                                   indices, {}, Values(before));
                            });
    outputs = Values(loop.getResults());
  }
  return outputs;
}

}  // namespace

Result<Plan> plan_concatenate(const Fusion& fusion) {
  ConcatenatePlan made;
  std::optional<InstructionId> first;
  std::string refused = "no concatenate stands behind a root by operators that keep places";
  const auto is_hero = [&](InstructionId id) {
    const hlo::Instruction& it = fusion.computation()[id];
    if (it.opcode != hlo::Opcode::Concatenate) return false;
    if (it.operands.size() > kMostOperandsApart) {
      refused =
          fmt::format("{} has {} operands, each of which would be a loop of its own", it.name, it.operands.size());
      return false;
    }
    if (!first) first = id;
    return same_parts(fusion.computation(), *first, id);
  };
  STRATA_TRY(made.split, split_at_heroes(fusion, is_hero));
  if (made.split.heroes.empty()) return unsupported("{}", refused);
  const hlo::Computation& computation = (*made.split.module)[made.split.computation];
  const hlo::Instruction& hero = computation[made.split.heroes[0]];
  if (hero.shape.element_count() == 0) return unsupported("{} has no elements", hero.name);
  // Other roots may have many more elements, or fewer.
  const std::vector<int> others = root_functions(made.split, false);
  const auto shape_of = [&](int function) -> const hlo::Shape& {
    return computation[made.split.partition.functions[static_cast<size_t>(function)].results[0].instruction].shape;
  };
  int64_t most = hero.shape.element_count();
  for (const int function : others) most = std::max(most, shape_of(function).element_count());
  const AccessWidth width = choose_access_width(fusion, hero.shape.element_count());
  made.threads = most == hero.shape.element_count() ? width.threads : choose_access_width(fusion, most).threads;
  const auto dim = static_cast<size_t>(hero.dimensions()[0]);
  int64_t offset = 0;
  std::string vectors;
  for (size_t i = 0; i < hero.operands.size(); ++i) {
    const hlo::Shape& operand = computation.operand_shape(hero, i);
    // Elements are visited in the result's order, whatever the operand's layout is.
    const hlo::Shape as_result = hlo::array_shape(operand.type, operand.dims, hero.shape.minor_to_major);
    const int64_t limit = width.vector;
    const int64_t vector = vector_of(as_result, hero.shape, hero.dimensions()[0], offset, limit);
    if (operand.element_count() > 0) {
      Part part = make_part(made, as_result, vector, width.unroll * (limit / vector));
      part.operand = i;
      part.written = part.read.results;
      part.written[dim] = part.written[dim] + offset;
      STRATA_CHECK(check_part(part, as_result));
      made.parts.push_back(std::move(part));
      vectors += fmt::format("{}{}", vectors.empty() ? "" : ", ", vector);
    }
    offset += operand.dim(hero.dimensions()[0]);
  }
  for (const int function : others) {
    const hlo::Shape& shape = shape_of(function);
    if (shape.element_count() == 0) continue;
    const AccessWidth own = choose_access_width(fusion, shape.element_count());
    Part part = make_part(made, shape, own.vector, own.unroll);
    part.operand = static_cast<size_t>(function);
    made.others.push_back(std::move(part));
  }
  place_parts(made);
  Plan plan;
  plan.decision.emitter = "concatenate";
  plan.decision.reason = "each operand has blocks of its own";
  plan.decision.launch().threads = made.threads;
  plan.decision.launch().blocks = made.blocks;
  plan.decision.details = {{"operands", std::to_string(hero.operands.size())},
                           {"vector", vectors},
                           {"unroll", std::to_string(width.unroll)}};
  plan.emit = [made, decision = plan.decision](mlir::ModuleOp target, const std::string& name) -> Result<void> {
    STRATA_TRY(const FusionFunctions functions,
               FusionFunctions::create(target, *made.split.module, made.split.computation, made.split.options));
    Kernel kernel(functions, name, decision);
    STRATA_TRY(const Values outputs, emit_parts(made, functions, kernel));
    kernel.finish(outputs);
    return {};
  };
  return plan;
}

}  // namespace strata::emitters

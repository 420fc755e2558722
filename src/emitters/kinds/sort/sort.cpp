// The sort emitter: tiles of rows are sorted in shared memory, longer rows are merged from them.
#include "emitters/kinds/sort/sort.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "emitters/elemental/scalar_operators.h"
#include "emitters/elemental/types.h"

namespace strata::emitters {
namespace {

using mlir::Value;

/// Registers that the elements of a thread take, all arrays together: there are as many again while runs are merged,
/// and a thread of a block of 1024 has 64.
constexpr int64_t kItemWords = 22;
constexpr int64_t kMaxItems = 15;
constexpr int64_t kMaxThreads = kMostBlockThreads;
/// Of blocks that merge parts of rows, or find the first elements of one: several of them are on a multiprocessor, so
/// that some work while others wait for memory or at barriers.
constexpr int64_t kPartThreads = 512;
constexpr int64_t kMaxTileBytes = 96 * 1024;
/// Of blocks that sort several rows.
constexpr int64_t kManyRowsThreads = 128;
/// Rows that lie beside each other in memory and are sorted together: their elements fill a sector of 32 bytes.
constexpr int64_t kInnerRows = 8;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t power_of_two_from(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); }

class StepPlanner {
 public:
  StepPlanner(const SortShape& shape, const Target& target) : shape_(shape), target_(target) {
    items_ = std::clamp<int64_t>(kItemWords / shape.words(), 1, kMaxItems);
    // Threads read elements that lie so far apart in shared memory: an odd number goes through all banks.
    if (items_ % 2 == 0) --items_;
    const int64_t bytes = std::min(kMaxTileBytes, target.shared_memory * 2 / 5);
    threads_ = kMaxThreads;
    while (threads_ > 32 && threads_ * items_ * shape.element_bytes() > bytes) threads_ /= 2;
  }

  int64_t most_items() const { return items_; }
  int64_t most_threads() const { return threads_; }

  /// Blocks of at most so many threads with so many elements each.
  StepPlanner& limit(int64_t threads, int64_t items) {
    threads_ = std::min(threads_, threads);
    items_ = std::min(items_, items);
    return *this;
  }

  std::vector<SortStep> run() {
    if (shape_.rows == 0 || shape_.length == 0 || shape_.keep == 0) return {};
    int64_t length = shape_.length;
    // A row that no block can hold. Where little is kept of each tile, few elements are left after one kernel.
    const int64_t part = std::min(threads_, kPartThreads) * items_;
    while (length > threads_ * items_ && 4 * shape_.keep <= part) {
      SortStep step = part_of_row(length, kPartThreads);
      step.keep = shape_.keep;
      const int64_t last = length - (step.tiles - 1) * part;
      step.written = (step.tiles - 1) * step.keep + std::min(step.keep, last);
      add(step);
      length = step.written;
    }
    if (length <= threads_ * items_) {
      SortStep step = whole_rows(length);
      step.keep = step.written = shape_.keep;
      add(step);
    } else {
      merge_sort(length);
    }
    steps_.back().target = -1;
    return std::move(steps_);
  }

 private:
  void add(SortStep step) {
    step.source = steps_.empty() ? -1 : steps_.back().target;
    step.target = step.source == 0 ? 1 : 0;
    steps_.push_back(step);
  }

  /// Each block has a tile of one row.
  SortStep part_of_row(int64_t length, int64_t threads) const {
    SortStep step;
    step.length = length;
    step.items = items_;
    step.group = std::min(threads_, threads);
    step.threads = static_cast<int>(step.group);
    step.tiles = ceil_div(length, step.span());
    return step;
  }

  /// Each block has one or more rows.
  SortStep whole_rows(int64_t length) const {
    SortStep step;
    step.length = length;
    step.group = power_of_two_from(ceil_div(length, items_));
    step.items = ceil_div(length, step.group);
    if (step.items % 2 == 0 && step.items < items_) ++step.items;
    const int64_t wanted = shape_.rows_inner ? std::max(kManyRowsThreads, kInnerRows * step.group) : kManyRowsThreads;
    const int64_t threads = std::clamp(wanted, std::max<int64_t>(step.group, 32), std::max(threads_, step.group));
    step.rows_per_block = threads / step.group;
    while (step.rows_per_block / 2 >= shape_.rows && step.rows_per_block * step.group > 32) step.rows_per_block /= 2;
    step.threads = static_cast<int>(step.rows_per_block * step.group);
    return step;
  }

  /// Fewer elements of a thread, where each tile still has a multiprocessor of its own and no kernel is added: all
  /// kernels take as long as one of their blocks, or two.
  void share_among_multiprocessors(int64_t length) {
    const auto tiles = [&](int64_t items) { return ceil_div(length, threads_ * items); };
    const int64_t runs = power_of_two_from(tiles(items_));
    while (items_ > 2 && tiles(items_ - 2) <= runs && shape_.rows * tiles(items_ - 2) <= target_.multiprocessors)
      items_ -= 2;
  }

  void merge_sort(int64_t length) {
    share_among_multiprocessors(length);
    // A merge within a block costs less than one more kernel.
    SortStep step = part_of_row(length, threads_);
    step.keep = step.span();
    step.written = length;
    add(step);
    for (int64_t run = step.span(); run < length; run *= 2) {
      SortStep merge = part_of_row(length, kPartThreads);
      merge.kind = SortStep::Kind::Merge;
      merge.run = run;
      merge.written = length;
      if (2 * run >= length) {
        // What is not kept is not written.
        merge.written = std::min(length, shape_.keep);
        merge.tiles = ceil_div(merge.written, merge.span());
      }
      add(merge);
    }
  }

  const SortShape& shape_;
  const Target& target_;
  int64_t items_ = 1, threads_ = 1;  ///< at most
  std::vector<SortStep> steps_;
};

/// Whether an element of a top-k comes before another: it is larger, or smaller, in the total order.
Result<mlir::func::FuncOp> top_k_order(FusionFunctions& functions, const SortShape& shape) {
  const hlo::Instruction& it = functions.computation()[shape.sort];
  const hlo::Shape scalar = hlo::array_shape(shape.types[0], {});
  hlo::Computation order;
  order.name = "comes_first";
  for (const int64_t number : {0, 1}) {
    hlo::Instruction parameter{fmt::format("p{}", number),
                               hlo::Opcode::Parameter,
                               scalar,
                               {},
                               {},
                               hlo::ParameterAttributes{number},
                               it.location};
    order.parameters.push_back(static_cast<hlo::InstructionId>(number));
    order.instructions.push_back(std::move(parameter));
  }
  using Direction = hlo::CompareAttributes::Direction;
  const Direction direction = it.as<hlo::TopKAttributes>().largest ? Direction::GT : Direction::LT;
  order.instructions.push_back({"before",
                                hlo::Opcode::Compare,
                                hlo::array_shape(hlo::ElementType::Pred, {}),
                                {0, 1},
                                {},
                                hlo::CompareAttributes{direction, hlo::CompareAttributes::Order::Total},
                                it.location});
  order.root = 2;
  mlir::ModuleOp target = functions.target();
  mlir::ImplicitLocOpBuilder builder(target.getLoc(), target.getContext());
  builder.setInsertionPointToEnd(target.getBody());
  llvm::SmallVector<mlir::Type> inputs;
  for (const hlo::ElementType type : shape.types) inputs.append(2, element_type(builder.getContext(), type));
  auto function = builder.create<mlir::func::FuncOp>(functions.computation().name + "_comes_first",
                                                     builder.getFunctionType(inputs, builder.getI1Type()));
  function.setPrivate();
  builder.setInsertionPointToStart(function.addEntryBlock());
  const Values pair{function.getArgument(0), function.getArgument(1)};
  STRATA_TRY(const Value before, emit_scalar(builder, order, order.instructions[2], pair));
  builder.create<mlir::func::ReturnOp>(before);
  return function;
}

Result<void> emit_sort(const Fusion& fusion, const SortShape& shape, const std::vector<SortStep>& steps,
                       const Decision& decision, mlir::ModuleOp target, const std::string& name) {
  indexing::PartitionOptions options;
  options.heroes = decision.heroes;
  STRATA_TRY(FusionFunctions functions, FusionFunctions::create(target, fusion.module, fusion.id, options));
  if (steps.empty()) {
    Kernel kernel(functions, name, decision);
    kernel.finish(kernel.outputs());
    return {};
  }
  SortEmission emission{functions, shape, steps, decision, name, {}};
  if (shape.top_k) {
    STRATA_TRY(emission.less, top_k_order(functions, shape));
  } else {
    const hlo::ComputationId order = fusion.computation()[shape.sort].called[0];
    STRATA_TRY(emission.less, functions.scalar_function(order, /*wide=*/false));
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    STRATA_CHECK(steps[i].kind == SortStep::Kind::Tiles ? emit_tiles(emission, i) : emit_merge(emission, i));
  }
  return {};
}

std::string text_of(const SortStep& step) {
  if (step.kind == SortStep::Kind::Merge) return fmt::format("merge of runs of {}", step.run);
  if (step.rows_per_block > 1) return fmt::format("{} rows a block", step.rows_per_block);
  return step.tiles == 1 ? "a row a block" : fmt::format("{} tiles a row, {} kept of each", step.tiles, step.keep);
}

/// How often the elements of a kernel's rows go through a comparison and a move, about: once for each doubling of what
/// is in order. Of a top-k, pieces of more than k elements shrink as they are merged.
double levels_of(const SortShape& shape, const SortStep& step) {
  constexpr double kMerge = 1.5;    // a doubling, and the search for where each thread's part begins
  constexpr double kShrinking = 3;  // what pieces beyond k elements come to in all
  if (step.kind == SortStep::Kind::Merge) return kMerge;
  const double all = std::log2(static_cast<double>(std::max<int64_t>(std::min(step.span(), step.length), 2)));
  if (!shape.top_k) return all;
  return std::min(all, std::log2(static_cast<double>(std::max<int64_t>(shape.keep, 1))) + kShrinking);
}

/// Of all kernels.
double microseconds_of(const SortShape& shape, const std::vector<SortStep>& steps, const Target& target) {
  // Instructions' worth of an element at a level, waiting for shared memory included: fitted to 16 sorts and top-ks on
  // an H200 (docs/benchmarks-emitters.md). Estimates are 0.7 to 1.4 times those, and less of one that takes 7 µs.
  constexpr double kOperations = 95;
  const Rates& rates = target.rates;
  const double multiprocessor = rates.scalar_rate / 2 / target.multiprocessors;
  double seconds = 0;
  for (const SortStep& step : steps) {
    const auto elements = static_cast<double>(shape.rows * step.length);
    const double blocks = static_cast<double>(ceil_div(shape.rows, step.rows_per_block) * step.tiles);
    const double busy = std::clamp<double>(blocks, 1, target.multiprocessors);
    const double bytes = static_cast<double>(shape.rows * (step.length + step.written) * shape.element_bytes());
    seconds +=
        target.kernel_seconds() + std::max(bytes / rates.memory_bandwidth,
                                           elements * levels_of(shape, step) * kOperations / (busy * multiprocessor));
  }
  return 1e6 * std::max(seconds, target.kernel_seconds());
}

/// As few kernels as there can be, or rows shared by several blocks, where that takes much less time: whole rows that
/// are too few for all multiprocessors. Each tile has one of its own then.
std::vector<SortStep> choose_steps(const SortShape& shape, const Target& target) {
  constexpr double kWorthSharing =
      0.8;  // blocks of fewer threads hide less of each other's waiting than the price says
  StepPlanner planner(shape, target);
  const int64_t most_items = planner.most_items(), most_threads = planner.most_threads();
  std::vector<SortStep> best = planner.run();
  // Of rows beside each other in memory a tile of one would take a sector for each element.
  if (best.size() != 1 || shape.rows_inner) return best;
  double least = kWorthSharing * microseconds_of(shape, best, target);
  for (int64_t threads = most_threads; threads >= std::min(most_threads, kPartThreads); threads /= 2) {
    for (int64_t items = most_items; items > 1; items -= 2) {
      if (threads * items >= shape.length) continue;
      std::vector<SortStep> steps = StepPlanner(shape, target).limit(threads, items).run();
      if (shape.rows * steps.front().tiles > target.multiprocessors) break;
      const double microseconds = microseconds_of(shape, steps, target);
      if (microseconds >= least) continue;
      least = microseconds;
      best = std::move(steps);
    }
  }
  return best;
}

Decision decision_of(const SortShape& shape, const std::vector<SortStep>& steps, const Target& target) {
  Decision decision;
  decision.emitter = shape.top_k ? "top-k" : "sort";
  decision.reason = steps.size() < 2 ? "a row fits into a block" : "rows are merged from tiles that fit into a block";
  decision.heroes = {shape.sort};
  decision.details = {{"rows", std::to_string(shape.rows)}, {"length", std::to_string(shape.length)}};
  if (shape.top_k) decision.details.emplace_back("k", std::to_string(shape.keep));
  decision.microseconds = microseconds_of(shape, steps, target);
  decision.launch().threads = 32;  // of what has no elements
  if (steps.empty()) return decision;
  decision.launches.clear();
  std::vector<int64_t> lengths(2, 0);  // of rows in each set of temporaries
  for (size_t i = 0; i < steps.size(); ++i) {
    const SortStep& step = steps[i];
    Launch launch;
    if (steps.size() > 1) launch.name = step.kind == SortStep::Kind::Tiles ? "tiles" : "merge";
    if (steps.size() > 1) launch.name += std::to_string(i);
    launch.blocks = ceil_div(shape.rows, step.rows_per_block) * step.tiles;
    launch.threads = step.threads;
    decision.launches.push_back(launch);
    if (step.target >= 0) {
      int64_t& length = lengths[static_cast<size_t>(step.target)];
      length = std::max(length, step.written);
    }
    decision.details.emplace_back(fmt::format("kernel {}", i),
                                  fmt::format("{}, {} elements a thread", text_of(step), step.items));
  }
  for (const int64_t length : lengths) {
    if (length == 0) continue;
    for (const hlo::ElementType type : shape.types) {
      decision.temporaries.push_back(hlo::array_shape(type, {shape.rows * length}));
    }
  }
  return decision;
}

}  // namespace

Result<Plan> plan_sort(const Fusion& fusion) {
  STRATA_TRY(const SortShape shape, sort_shape(fusion));
  if (shape.words() > kItemWords) {
    return unsupported("elements of all arrays together take {} registers, more than {}", shape.words(), kItemWords);
  }
  const std::vector<SortStep> steps = choose_steps(shape, fusion.target);
  Plan plan;
  plan.decision = decision_of(shape, steps, fusion.target);
  for (const Launch& launch : plan.decision.launches) {
    if (launch.blocks >= int64_t{1} << 31) return unsupported("there are 2^31 blocks and more");
  }
  plan.emit = [fusion, shape, steps, decision = plan.decision](mlir::ModuleOp target, const std::string& name) {
    return emit_sort(fusion, shape, steps, decision, target, name);
  };
  return plan;
}

}  // namespace strata::emitters

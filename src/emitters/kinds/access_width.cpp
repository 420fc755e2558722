#include "emitters/kinds/access_width.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "emitters/kinds/epilogue.h"
#include "hlo/element_work.h"
#include "hlo/indexing/evaluations.h"
#include "hlo/terms.h"

namespace strata::emitters {
namespace {

/// Arrays of a root that are computed by one loop, and what they are computed of.
struct LoopRoots {
  std::vector<hlo::InstructionId> roots;
  std::vector<bool> reached;  ///< of each instruction whether they need it
  int64_t elements = 0;       ///< of each root, at most
  int64_t of_kernel = 0;      ///< of the kernel's largest array

  bool has(hlo::InstructionId id) const { return reached[static_cast<size_t>(id)]; }
};

LoopRoots loop_roots(const hlo::Computation& computation, std::vector<hlo::InstructionId> roots, int64_t elements,
                     int64_t of_kernel) {
  LoopRoots made{std::move(roots), std::vector<bool>(computation.instructions.size(), false), elements, of_kernel};
  for (const hlo::InstructionId root : made.roots) made.reached[static_cast<size_t>(root)] = true;
  for (size_t i = made.reached.size(); i-- > 0;) {
    if (!made.reached[i]) continue;
    for (const hlo::InstructionId operand : computation.instructions[i].operands)
      made.reached[static_cast<size_t>(operand)] = true;
  }
  return made;
}

bool any_reached(const hlo::Computation& computation, const LoopRoots& of,
                 const std::function<bool(const hlo::Instruction&)>& is) {
  for (size_t i = 0; i < of.reached.size(); ++i) {
    if (of.reached[i] && is(computation.instructions[i])) return true;
  }
  return false;
}

/// Whether a thread waits for more than one load or does much beside: functions, or elements at places that are read.
bool wants_more_work(const hlo::Computation& computation, const LoopRoots& of) {
  return any_reached(computation, of, [](const hlo::Instruction& it) {
    switch (it.opcode) {
      case hlo::Opcode::Exp:
      case hlo::Opcode::Expm1:
      case hlo::Opcode::Log:
      case hlo::Opcode::Log1p:
      case hlo::Opcode::Tanh:
      case hlo::Opcode::Logistic:
      case hlo::Opcode::Erf:
      case hlo::Opcode::Sine:
      case hlo::Opcode::Cosine:
      case hlo::Opcode::Tan:
      case hlo::Opcode::Power:
      case hlo::Opcode::Divide:
      case hlo::Opcode::Map:
      case hlo::Opcode::Dot:
      case hlo::Opcode::Convolution:
      case hlo::Opcode::Gather:
      case hlo::Opcode::DynamicSlice:
        return true;
      default:
        return false;
    }
  });
}

/// Whether an operator needs few registers: no long function, no loop, no index of its own for each element.
bool is_short(const hlo::Instruction& it) {
  switch (it.opcode) {
    case hlo::Opcode::Atan2:
    case hlo::Opcode::Cbrt:
    case hlo::Opcode::Cosine:
    case hlo::Opcode::Power:
    case hlo::Opcode::Remainder:
    case hlo::Opcode::Sine:
    case hlo::Opcode::Tan:
      return false;
    case hlo::Opcode::Bitcast:
    case hlo::Opcode::Broadcast:
    case hlo::Opcode::Constant:
    case hlo::Opcode::Copy:
    case hlo::Opcode::Map:
    case hlo::Opcode::Parameter:
    case hlo::Opcode::Reshape:
    case hlo::Opcode::Transpose:
    case hlo::Opcode::Tuple:
      return true;
    default:
      return hlo::is_elementwise(it.opcode);
  }
}

/// Whether all arrays of half as many elements and more are read where the roots' elements lie in memory, and so by
/// vectors wherever these begin at a multiple of their length.
bool keeps_all_places(const Fusion& fusion, const LoopRoots& of) {
  const hlo::Computation& computation = fusion.computation();
  const int64_t elements = of.elements;
  enum Use : uint8_t { Unused, AtPlaces, Elsewhere };
  std::vector<Use> uses(computation.instructions.size(), Unused);
  for (const hlo::InstructionId root : of.roots) uses[static_cast<size_t>(root)] = AtPlaces;
  for (size_t i = computation.instructions.size(); i-- > 0;) {  // users stand behind their operands
    const hlo::Instruction& it = computation.instructions[i];
    if (it.opcode == hlo::Opcode::Tuple || uses[i] == Unused) continue;
    for (size_t k = 0; k < it.operands.size(); ++k) {
      const bool large = computation.operand_shape(it, k).is_tuple() ||
                         computation.operand_shape(it, k).element_count() >= elements / 2;
      Use& use = uses[static_cast<size_t>(it.operands[k])];
      const bool kept = uses[i] == AtPlaces && large &&
                        keeps_places(fusion.module, fusion.id, static_cast<hlo::InstructionId>(i), static_cast<int>(k));
      use = std::max(use, kept ? AtPlaces : Elsewhere);
    }
  }
  return std::ranges::none_of(computation.parameters, [&](hlo::InstructionId id) {
    const hlo::Shape& shape = computation[id].shape;
    return uses[static_cast<size_t>(id)] == Elsewhere && shape.is_array() && shape.element_count() >= elements / 2;
  });
}

/// Whether elements come of terms that a loop of their own goes through (windows, convolutions, short sums), of arrays
/// of half as many elements and more: what it loads is one element at a time, however many results a thread has beside
/// each other. Smaller arrays are in caches, where neighbours' loads need not lie together.
bool goes_through_terms(const hlo::Computation& computation, const LoopRoots& of) {
  const auto is_large = [&](const hlo::Shape& shape) {
    return shape.is_array() && indexing::elements_of(shape) * 2 >= static_cast<double>(of.elements);
  };
  const bool has_terms = any_reached(computation, of, [&](const hlo::Instruction& it) {
    return hlo::terms_of(computation, it) > 1 && is_large(it.shape);
  });
  return has_terms && std::ranges::any_of(computation.parameters, [&](hlo::InstructionId id) {
           return of.has(id) && is_large(computation[id].shape);
         });
}

/// What a loop over a result's elements computes.
struct ElementWork {
  double operations = 0;  ///< of an element of a result, with all that it is computed of
  /// Of an element by one thread, where conditions (padding, pieces of a concatenation) part the elements of a thread;
  /// what is loaded after a branch is waited for. 0 without conditions.
  double seconds_in_turn = 0;
};

bool is_piecewise(const indexing::CountedInstruction& it) {
  return it.opcode == hlo::Opcode::Pad || it.opcode == hlo::Opcode::Concatenate;
}

/// The sum of what an element of a result takes: of the result of which that is most.
double of_longest_result(indexing::CountedGraph& graph, const LoopRoots& of, const std::vector<double>& operations) {
  double longest = 0;
  for (const hlo::InstructionId root : of.roots) {
    graph.roots = {root};
    longest = std::max(longest, indexing::EvaluationCounts(graph).of_longest_thread(operations));
  }
  return longest;
}

ElementWork work_of_element(const Fusion& fusion, const LoopRoots& of) {
  const hlo::Computation& computation = fusion.computation();
  const indexing::CountedComputation counted(fusion.module, fusion.id);
  indexing::CountedGraph graph = counted.graph();
  const std::vector<const indexing::CountedInstruction*>& instructions = graph.instructions;
  ElementWork work;
  // Of what a piece of a concatenation or a padded array has, the ranges of a map may say it all.
  const auto parts = [](const indexing::CountedInstruction& it) {
    return is_piecewise(it) || std::ranges::any_of(it.reads, [](const auto& read) {
             return std::ranges::any_of(read.maps, [](const auto& map) { return map.constrained; });
           });
  };
  bool branches = false;
  for (size_t i = 0; i < instructions.size(); ++i) branches |= of.reached[i] && parts(*instructions[i]);
  std::vector<double> operations;
  for (size_t i = 0; i < instructions.size(); ++i) {
    const hlo::Instruction& it = computation.instructions[i];
    const int64_t terms = hlo::terms_of(computation, it);
    const double combined = terms > 1 ? 2 * static_cast<double>(terms) : 0;  // multiplied and added
    operations.push_back(hlo::element_operations(computation, it) + combined);
  }
  work.operations = of_longest_result(graph, of, operations);
  if (!branches) return work;
  const Rates& rates = fusion.target.rates;
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (is_piecewise(*instructions[i])) operations[i] += rates.chained_load / rates.dependent_operation;
  }
  work.seconds_in_turn = of_longest_result(graph, of, operations) * rates.dependent_operation;
  return work;
}

/// `threads` of a block, if these are known.
AccessWidth choose_width(const Fusion& fusion, const LoopRoots& of, bool takes_rest, std::optional<int> threads) {
  const hlo::Computation& computation = fusion.computation();
  int64_t widest = 1;      // bytes of an element
  int64_t bytes_read = 0;  // for each element of the output, of arrays that are about as large
  double moved = 0;        // bytes of all arrays of the kernel
  const auto consider = [&](const hlo::Shape& shape, bool read, bool own) {
    if (!shape.is_array()) return;
    const int64_t bytes = std::max<int64_t>(hlo::byte_width(shape.type), 1);
    moved += static_cast<double>(bytes * shape.element_count());
    if (!own || shape.element_count() < of.elements / 2) return;
    widest = std::max(widest, bytes);
    if (read) bytes_read += bytes;
  };
  for (const hlo::InstructionId id : computation.parameters) consider(computation[id].shape, true, of.has(id));
  for (const hlo::InstructionId id : root_values(computation)) {
    const bool own = std::ranges::find(of.roots, id) != of.roots.end();
    const hlo::Shape& shape = computation[id].shape;
    if (!shape.is_tuple()) consider(shape, false, own);
    for (const hlo::Shape& one : shape.elements) consider(one, false, own);
  }
  AccessWidth width;
  // What a thread does one element after the other is no longer than the kernel as a whole: than what it moves takes,
  // or than twice as many threads as issue an operation in each cycle, since they wait for what they read, too.
  const Rates& rates = fusion.target.rates;
  std::optional<ElementWork> known;
  const auto work = [&]() -> const ElementWork& {
    if (!known) known = work_of_element(fusion, of);
    return *known;
  };
  const double moving = moved / rates.memory_bandwidth;
  // Whether no multiprocessor computes longer than all others by the blocks that it has more. An eighth is little
  // beside what vectors save, and all of it where arrays are still on their way meanwhile.
  const auto shares_evenly = [&](int64_t elements_per_block) {
    const int64_t at_a_time = elements_per_block * fusion.target.multiprocessors;
    if (of.of_kernel <= at_a_time || at_a_time == 0) return true;
    const int64_t longest = indexing::ceil_div(of.of_kernel, at_a_time) * at_a_time;  // if all had as much as that one
    if (longest <= of.of_kernel + of.of_kernel / 8) return true;
    return static_cast<double>(longest) * work().operations / rates.scalar_rate <= moving;
  };
  const double busy_threads = rates.dependent_operation * rates.scalar_rate;
  const bool has_terms = goes_through_terms(computation, of);
  // What a thread computes one after the other is shared by as many threads as these arrays alone can have; of all
  // else, the kernel's other arrays have threads, too.
  const auto shared = [&] {
    const bool own = of.elements == of.of_kernel || has_terms || work().seconds_in_turn > 0;
    return own ? of.elements : of.of_kernel;
  };
  const auto fills = [&](int64_t elements_per_thread) {
    const int64_t least = elements_per_thread * width.threads * fusion.target.multiprocessors * 2;
    if (of.of_kernel < least || shared() < least) return false;
    const auto of_thread = static_cast<double>(elements_per_thread);
    if (!shares_evenly(elements_per_thread * width.threads)) return false;
    if (static_cast<double>(shared()) >= of_thread * busy_threads) return true;
    // After a branch the elements of a thread are computed one after the other; without any they go side by side.
    return of_thread * work().seconds_in_turn <= moving;
  };
  // Neighbouring threads then read neighbouring elements. Of a vector each load would be far from the neighbours' ones.
  const int64_t most = has_terms ? 1 : std::max<int64_t>(16 / widest, 1);
  int64_t vector = 1;
  while (vector < most && fills(vector * 2)) vector *= 2;
  while (width.vector < vector && of.elements % (width.vector * 2) == 0) width.vector *= 2;
  if (takes_rest && width.vector < vector && keeps_all_places(fusion, of)) width.vector = vector;
  // Measured on an H200 (docs/benchmarks-emitters.md): what only moves data is fastest with a vector a thread and many
  // threads.
  const int64_t bytes_in_flight = wants_more_work(computation, of) ? 32 : 16;  // of a thread
  if (threads ? *threads == 256 : shares_evenly(width.vector * 256)) width.threads = 256;
  // Where nothing is read, more vectors of a thread only make blocks larger, which multiprocessors share less evenly.
  while (bytes_read > 0 && width.unroll < 8 && width.unroll * width.vector * bytes_read * 2 <= bytes_in_flight &&
         fills(width.vector * width.unroll * 2)) {
    width.unroll *= 2;
  }
  return width;
}

}  // namespace

AccessWidth choose_access_width(const Fusion& fusion, int64_t elements, bool takes_rest) {
  const hlo::Computation& computation = fusion.computation();
  return choose_width(fusion, loop_roots(computation, root_values(computation), elements, elements), takes_rest, {});
}

AccessWidth choose_part_width(const Fusion& fusion, const AccessWidth& whole, int64_t elements_of_whole,
                              const std::vector<hlo::InstructionId>& roots) {
  const hlo::Computation& computation = fusion.computation();
  const auto elements = static_cast<int64_t>(indexing::elements_of(computation[roots.front()].shape));
  AccessWidth own = choose_width(fusion, loop_roots(computation, roots, elements, elements_of_whole),
                                 /*takes_rest=*/true, whole.threads);
  own.vector = std::min(own.vector, whole.vector);
  own.unroll = std::min(own.unroll, whole.unroll);
  return own;
}

int choose_min_blocks(const Fusion& fusion, int threads, int64_t shared_bytes) {
  constexpr size_t kMostArrays = 4;
  const hlo::Computation& computation = fusion.computation();
  const bool few = std::ranges::all_of(computation.instructions, [](const hlo::Instruction& it) {
    return is_short(it) && (it.shape.is_tuple() || hlo::byte_width(it.shape.type) <= 4);
  });
  if (!few || computation.parameters.size() > kMostArrays) return 0;
  if (!wants_more_work(computation, loop_roots(computation, root_values(computation), 0, 0))) return 0;
  const int64_t fit =
      fusion.target.multiprocessor_shared_memory / (shared_bytes + fusion.target.reserved_shared_memory);
  return static_cast<int>(std::min<int64_t>(fit, fusion.target.threads_per_multiprocessor * 3 / 4 / threads));
}

}  // namespace strata::emitters

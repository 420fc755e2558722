#include "hlo/scan_recursion.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "hlo/zero_constant.h"

namespace strata::hlo {
namespace {

constexpr InstructionId kNone = -1;
constexpr size_t kMostNodes = 256;  ///< of a combiner: more are no combiner that a kernel should repeat

/// The combiner of one array, read off the first level.
struct Node {
  enum class Kind : uint8_t { Earlier, Later, Constant, Operator };
  Kind kind = Kind::Operator;
  size_t array = 0;              ///< of Earlier, Later
  InstructionId id = kNone;      ///< of Constant, Operator: at the first level
  std::vector<size_t> operands;  ///< of Operator
};

/// One of the arrays that are scanned, by level. kNone where it is not known, or not there.
struct Scanned {
  int64_t axis = 0;  ///< that is scanned, of its own dimensions
  /// By dimension, that of the first array along which it lies, where it is repeated along others; those of one element
  /// may have any.
  std::vector<int64_t> places;
  std::vector<InstructionId> elements;  ///< what the level scans
  std::vector<InstructionId> results;   ///< the level's scan
  std::vector<InstructionId> evens;     ///< the level's results 2, 4, …
  size_t root = SIZE_MAX;               ///< the combiner's node
  std::set<size_t> combined, scanned;   ///< levels whose elements, or even results, were compared
};

/// A slice along one dimension, of all elements of the others.
struct AxisSlice {
  InstructionId from = kNone;
  int64_t start = 0, stride = 1, count = 0;
};

/// An array put together from those at even and those at odd places.
struct Interleaved {
  InstructionId evens = kNone, odds = kNone;
  int64_t dimension = 0;
};

std::optional<Interleaved> interleaved(const Computation& computation, InstructionId id) {
  const Instruction& it = computation[id];
  if (it.opcode != Opcode::Add && it.opcode != Opcode::Or) return std::nullopt;
  Interleaved found;
  found.dimension = -1;
  for (const InstructionId operand : it.operands) {
    const Instruction& padded = computation[operand];
    if (padded.opcode != Opcode::Pad || !is_zero_constant(computation, padded.operands[1])) return std::nullopt;
    const auto& pad = padded.as<PadAttributes>();
    int64_t dimension = -1;
    for (size_t d = 0; d < pad.low.size(); ++d) {
      // The parts' sizes say the rest: with one element, padding between elements is nothing.
      if (pad.low[d] == 0 && pad.high[d] == 0 && pad.interior[d] == 0) continue;
      if (dimension >= 0 || pad.interior[d] != 1) return std::nullopt;
      dimension = static_cast<int64_t>(d);
    }
    if (dimension < 0) return std::nullopt;
    if (found.dimension >= 0 && found.dimension != dimension) return std::nullopt;
    found.dimension = dimension;
    const auto d = static_cast<size_t>(dimension);
    if (pad.low[d] < 0 || pad.low[d] > 1 || pad.high[d] < 0) return std::nullopt;
    (pad.low[d] == 0 ? found.evens : found.odds) = padded.operands[0];
  }
  if (found.evens == kNone || found.odds == kNone) return std::nullopt;
  const auto count = [&](InstructionId part) { return computation[part].shape.dim(found.dimension); };
  const int64_t length = it.shape.dim(found.dimension);
  if (count(found.odds) != length / 2 || count(found.evens) != length - length / 2) return std::nullopt;
  return found;
}

/// A scan while it is found. Everything is compared with what the first level says; a contradiction ends it.
class Recursion {
 public:
  Recursion(const Computation& computation, int64_t dimension, InstructionId elements)
      : computation_(computation), dimension_(dimension) {
    for (int64_t n = computation[elements].shape.dim(dimension); n > 0; n /= 2) lengths_.push_back(n);
    std::vector<int64_t> places(computation[elements].shape.dims.size());
    std::iota(places.begin(), places.end(), 0);
    add(elements, dimension, std::move(places));
  }

  /// Also the results of an array. False where they cannot be.
  bool take(size_t array, InstructionId results) { return unify(arrays_[array].results[0], results) && settle(); }

  const std::vector<Scanned>& arrays() const { return arrays_; }
  bool is_complete() const {
    return std::all_of(arrays_.begin(), arrays_.end(), [](const Scanned& one) { return one.root != SIZE_MAX; });
  }

  ScanRecursion found() const {
    ScanRecursion result;
    result.dimension = dimension_;
    result.length = lengths_[0];
    for (const Scanned& one : arrays_) {
      result.inputs.push_back(one.elements[0]);
      result.results.push_back(one.results[0]);
      result.axes.push_back(one.axis);
      result.places.push_back(one.places);
    }
    result.combiner = combiner();
    return result;
  }

  /// The array that the outermost level of an interleaving scans, and the results of the level below.
  struct Level {
    InstructionId elements = kNone, below = kNone, evens = kNone;
    int64_t dimension = 0;
  };
  static std::optional<Level> level_of(const Computation& computation, InstructionId results) {
    const std::optional<Interleaved> parts = interleaved(computation, results);
    if (!parts) return std::nullopt;
    Level level;
    level.below = parts->odds;
    level.dimension = parts->dimension;
    InstructionId first = parts->evens;
    if (computation[first].opcode == Opcode::Concatenate) {
      const Instruction& it = computation[first];
      if (it.operands.size() > 2 || it.dimensions()[0] != parts->dimension) return std::nullopt;
      first = it.operands[0];
      if (it.operands.size() == 2 && computation[it.operands[1]].shape.element_count() > 0)
        level.evens = it.operands[1];
    }
    const std::optional<AxisSlice> slice = axis_slice(computation, first, parts->dimension);
    if (!slice || slice->start != 0 || slice->count != 1) return std::nullopt;
    level.elements = slice->from;
    const Shape& shape = computation[results].shape;
    if (!same_dims(computation[level.elements].shape, shape) || computation[level.elements].shape.type != shape.type)
      return std::nullopt;
    if ((level.evens == kNone) != (shape.dim(parts->dimension) == 2)) return std::nullopt;
    return level;
  }

 private:
  static std::optional<AxisSlice> axis_slice(const Computation& computation, InstructionId id, int64_t dimension) {
    const Instruction& it = computation[id];
    if (it.opcode != Opcode::Slice) return std::nullopt;
    const auto& slice = it.as<SliceAttributes>();
    const Shape& from = computation.operand_shape(it, 0);
    for (size_t d = 0; d < slice.starts.size(); ++d) {
      if (static_cast<int64_t>(d) == dimension) continue;
      if (it.shape.dims[d] != from.dims[d]) return std::nullopt;
    }
    const auto d = static_cast<size_t>(dimension);
    return AxisSlice{it.operands[0], slice.starts[d], slice.strides[d], it.shape.dims[d]};
  }

  int64_t length_of(InstructionId id, const Scanned& array) const { return computation_[id].shape.dim(array.axis); }

  size_t add(InstructionId elements, int64_t axis, std::vector<int64_t> places) {
    Scanned one;
    one.axis = axis;
    one.places = std::move(places);
    one.elements.assign(lengths_.size(), kNone);
    one.results = one.evens = one.elements;
    one.elements[0] = elements;
    arrays_.push_back(std::move(one));
    return arrays_.size() - 1;
  }

  bool unify(InstructionId& slot, InstructionId id) {
    if (slot == kNone) {
      slot = id;
      changed_ = true;
    }
    return slot == id;
  }

  /// Compares whatever is known until nothing new is. False on a contradiction.
  bool settle() {
    do {
      changed_ = false;
      for (size_t i = 0; i < arrays_.size(); ++i) {
        for (size_t level = 0; level < lengths_.size(); ++level) {
          if (!take_results(i, level) || !take_elements(i, level) || !take_evens(i, level)) return false;
        }
      }
    } while (changed_);
    return true;
  }

  bool take_results(size_t i, size_t level) {
    Scanned& one = arrays_[i];
    const InstructionId results = one.results[level];
    if (results == kNone) return true;
    if (level + 1 == lengths_.size()) return unify(one.elements[level], results);
    const std::optional<Level> found = level_of(computation_, results);
    if (!found || found->dimension != one.axis || length_of(results, one) != lengths_[level]) return false;
    if (!unify(one.elements[level], found->elements)) return false;
    if (found->evens != kNone && !unify(one.evens[level], found->evens)) return false;
    return unify(one.results[level + 1], found->below);
  }

  /// The elements of the level after this one are pairs combined.
  bool take_elements(size_t i, size_t level) {
    if (level + 1 == lengths_.size() || arrays_[i].elements[level + 1] == kNone) return true;
    const InstructionId made = arrays_[i].elements[level + 1];
    if (arrays_[i].root == SIZE_MAX) {
      if (level > 0) return true;  // the first level's comes first
      const std::optional<size_t> root = read_off({made, arrays_[i].places}, 0);
      if (!root) return false;
      arrays_[i].root = *root;
      changed_ = true;
    }
    if (!arrays_[i].combined.insert(level).second) return true;
    compared_.clear();
    return same(arrays_[i].root, {made, arrays_[i].places}, level, /*is_even=*/false);
  }

  bool take_evens(size_t i, size_t level) {
    if (arrays_[i].evens[level] == kNone || arrays_[i].root == SIZE_MAX) return true;
    if (!arrays_[i].scanned.insert(level).second) return true;
    compared_.clear();
    return same(arrays_[i].root, {arrays_[i].evens[level], arrays_[i].places}, level, /*is_even=*/true);
  }

  /// A value, and by its dimension the first array's along which it lies, as places of Scanned.
  struct Placed {
    InstructionId id = kNone;
    std::vector<int64_t> places;
  };

  /// Through what repeats values along other dimensions, or leaves out and adds dimensions of one element.
  std::optional<Placed> source(Placed value) const {
    while (true) {
      const Instruction& it = computation_[value.id];
      if (it.opcode != Opcode::Broadcast && it.opcode != Opcode::Reshape && it.opcode != Opcode::Copy) return value;
      const Shape& from = computation_.operand_shape(it, 0);
      std::vector<int64_t> places(from.dims.size(), -1);
      size_t next = 0;
      for (size_t d = 0; d < from.dims.size(); ++d) {
        if (from.dims[d] == 1) continue;
        if (it.opcode == Opcode::Reshape) {
          while (next < it.shape.dims.size() && it.shape.dims[next] == 1) ++next;
          if (next == it.shape.dims.size() || it.shape.dims[next] != from.dims[d]) return std::nullopt;
          places[d] = value.places[next++];
        } else {
          places[d] = value.places[it.opcode == Opcode::Copy ? d : static_cast<size_t>(it.dimensions()[d])];
        }
      }
      value = {it.operands[0], std::move(places)};
    }
  }

  bool agree(const Placed& value, const Scanned& array) const {
    const Shape& shape = computation_[value.id].shape;
    if (shape.dims.size() != array.places.size()) return false;
    for (size_t d = 0; d < shape.dims.size(); ++d) {
      if (shape.dims[d] != 1 && value.places[d] != array.places[d]) return false;
    }
    return true;
  }

  bool may_repeat(const Instruction& it) const {
    return is_elementwise(it.opcode) && it.called.empty() && it.shape.is_array() && !it.operands.empty();
  }

  /// Of an operand of an elementwise operator: scalars have none.
  std::vector<int64_t> places_of(InstructionId operand, const Placed& user) const {
    const size_t rank = computation_[operand].shape.dims.size();
    return rank == user.places.size() ? user.places : std::vector<int64_t>(rank, -1);
  }

  /// The combiner's node that an instruction of the first level is; adds arrays that it reads.
  std::optional<size_t> read_off(Placed value, int depth) {
    const std::optional<Placed> from = source(std::move(value));
    if (!from) return std::nullopt;
    const InstructionId id = from->id;
    const Instruction& it = computation_[id];
    Node node;
    node.id = id;
    if (it.opcode == Opcode::Slice) {
      const InstructionId elements = it.operands[0];
      while (node.array < arrays_.size() && arrays_[node.array].elements[0] != elements) ++node.array;
      if (node.array == arrays_.size()) {
        const auto along = std::find(from->places.begin(), from->places.end(), dimension_);
        if (along == from->places.end()) return std::nullopt;
        add(elements, along - from->places.begin(), from->places);
      }
      const Scanned& array = arrays_[node.array];
      const std::optional<AxisSlice> slice = axis_slice(computation_, id, array.axis);
      if (!slice || !agree(*from, array) || slice->start > 1 || !is_pair(*slice, slice->start, 0, array))
        return std::nullopt;
      node.kind = slice->start == 0 ? Node::Kind::Earlier : Node::Kind::Later;
    } else if (it.opcode == Opcode::Constant && it.shape.element_count() == 1) {
      node.kind = Node::Kind::Constant;
    } else if (may_repeat(it) && depth < 64) {
      for (const InstructionId operand : it.operands) {
        const std::optional<size_t> one = read_off({operand, places_of(operand, *from)}, depth + 1);
        if (!one) return std::nullopt;
        node.operands.push_back(*one);
      }
    } else {
      return std::nullopt;
    }
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const Node& known = nodes_[n];
      const bool leaf = node.kind == Node::Kind::Earlier || node.kind == Node::Kind::Later;
      if (known.kind == node.kind && (leaf ? known.array == node.array : known.id == node.id)) return n;
    }
    if (nodes_.size() == kMostNodes) return std::nullopt;
    nodes_.push_back(std::move(node));
    return nodes_.size() - 1;
  }

  /// Whether a slice is of every other element from `start` on, of a level's elements.
  bool is_pair(const AxisSlice& slice, int64_t start, size_t level, const Scanned& array) const {
    const int64_t n = lengths_[level];
    const int64_t count = start == 2 ? (n - 1) / 2 : n / 2;
    return slice.start == start && slice.count == count && (slice.stride == 2 || count == 1) &&
           length_of(slice.from, array) == n;
  }

  /// Whether an instruction is what the node is at a level: of pairs of elements, or (`is_even`) of the results at odd
  /// places with the elements after them.
  bool same(size_t number, Placed value_there, size_t level, bool is_even) {
    const std::optional<Placed> from = source(std::move(value_there));
    if (!from) return false;
    const InstructionId id = from->id;
    if (!compared_.insert({number, id}).second) return true;
    const Node node = nodes_[number];
    const Instruction& it = computation_[id];
    if (node.kind == Node::Kind::Constant) {
      return it.opcode == Opcode::Constant && it.shape.element_count() == 1 &&
             it.shape.type == computation_[node.id].shape.type &&
             std::equal(value(id).bytes(), value(id).bytes() + value(id).byte_size(), value(node.id).bytes(),
                        value(node.id).bytes() + value(node.id).byte_size());
    }
    if (node.kind == Node::Kind::Operator) {
      const Instruction& like = computation_[node.id];
      if (it.opcode != like.opcode || it.shape.type != like.shape.type || !it.called.empty() ||
          it.operands.size() != like.operands.size() || !same_attributes(it, like))
        return false;
      for (size_t k = 0; k < it.operands.size(); ++k) {
        if (!same(node.operands[k], {it.operands[k], places_of(it.operands[k], *from)}, level, is_even)) return false;
      }
      return true;
    }
    Scanned& array = arrays_[node.array];
    if (!agree(*from, array)) return false;
    const std::optional<AxisSlice> slice = axis_slice(computation_, id, array.axis);
    if (is_even && node.kind == Node::Kind::Earlier) {
      // Of an odd number of elements all results of the level below are there.
      const int64_t below = lengths_[level + 1];
      if (lengths_[level] % 2 == 1) return length_of(id, array) == below && unify(array.results[level + 1], id);
      return slice && slice->start == 0 && slice->stride == 1 && slice->count == below - 1 &&
             length_of(slice->from, array) == below && unify(array.results[level + 1], slice->from);
    }
    const int64_t start = is_even ? 2 : node.kind == Node::Kind::Earlier ? 0 : 1;
    return slice && is_pair(*slice, start, level, array) && unify(array.elements[level], slice->from);
  }

  const Literal& value(InstructionId id) const { return computation_[id].as<ConstantAttributes>().value; }

  static bool same_attributes(const Instruction& a, const Instruction& b) {
    if (a.attributes.index() != b.attributes.index()) return false;
    if (const auto* compare = std::get_if<CompareAttributes>(&a.attributes)) {
      const auto& other = b.as<CompareAttributes>();
      return compare->direction == other.direction && compare->order == other.order;
    }
    if (const auto* precision = std::get_if<ReducePrecisionAttributes>(&a.attributes)) {
      const auto& other = b.as<ReducePrecisionAttributes>();
      return precision->exponent_bits == other.exponent_bits && precision->mantissa_bits == other.mantissa_bits;
    }
    return std::holds_alternative<NoAttributes>(a.attributes);
  }

  Computation combiner() const {
    Computation made;
    made.name = "combine";
    const auto append = [&](Instruction it) {
      made.instructions.push_back(std::move(it));
      return static_cast<InstructionId>(made.instructions.size()) - 1;
    };
    for (const char* side : {"a", "b"}) {
      for (const Scanned& one : arrays_) {
        const auto number = static_cast<int64_t>(made.parameters.size());
        const Shape scalar = array_shape(computation_[one.elements[0]].shape.type, {});
        made.parameters.push_back(append({side + std::to_string(number % std::ssize(arrays_)),
                                          Opcode::Parameter,
                                          scalar,
                                          {},
                                          {},
                                          ParameterAttributes{number},
                                          {}}));
      }
    }
    // Operands have lower numbers than what reads them.
    std::vector<InstructionId> of_node;
    for (const Node& node : nodes_) {
      if (node.kind == Node::Kind::Earlier || node.kind == Node::Kind::Later) {
        of_node.push_back(made.parameters[node.array + (node.kind == Node::Kind::Later ? arrays_.size() : size_t{0})]);
        continue;
      }
      Instruction copy = computation_[node.id];
      copy.name = "n" + std::to_string(made.instructions.size());
      copy.shape = array_shape(copy.shape.type, {});
      copy.operands.clear();
      for (const size_t operand : node.operands) copy.operands.push_back(of_node[operand]);
      if (node.kind == Node::Kind::Constant)
        copy.attributes = ConstantAttributes{value(node.id).with_shape(copy.shape), false};
      of_node.push_back(append(std::move(copy)));
    }
    std::vector<InstructionId> roots;
    std::vector<Shape> shapes;
    for (const Scanned& one : arrays_) {
      roots.push_back(of_node[one.root]);
      shapes.push_back(made[roots.back()].shape);
    }
    made.root = roots.size() == 1
                    ? roots[0]
                    : append({"all", Opcode::Tuple, tuple_shape(std::move(shapes)), roots, {}, NoAttributes{}, {}});
    return made;
  }

  const Computation& computation_;
  int64_t dimension_;
  std::vector<int64_t> lengths_;  ///< by level, down to 1
  std::vector<Scanned> arrays_;
  std::vector<Node> nodes_;
  std::set<std::pair<size_t, InstructionId>> compared_;
  bool changed_ = false;
};

/// Where an interleaving lies that may be the results of a scan.
struct Candidate {
  InstructionId results = kNone, elements = kNone;
  int64_t dimension = 0;
};

std::optional<ScanRecursion> scan_from(const Computation& computation, const Candidate& from,
                                       const std::vector<Candidate>& candidates) {
  std::optional<Recursion> scan(std::in_place, computation, from.dimension, from.elements);
  if (!scan->take(0, from.results)) return std::nullopt;
  for (size_t i = 0; i < scan->arrays().size(); ++i) {
    for (const Candidate& other : candidates) {
      const Scanned& array = scan->arrays()[i];
      if (array.results[0] != kNone) break;
      if (other.elements != array.elements[0] || other.dimension != array.axis) continue;
      if (!same_dims(computation[other.results].shape, computation[from.results].shape)) continue;
      Recursion with(*scan);  // what contradicts leaves nothing behind
      if (with.take(i, other.results) && with.arrays().size() == scan->arrays().size()) scan.emplace(std::move(with));
    }
  }
  if (!scan->is_complete()) return std::nullopt;
  ScanRecursion found = scan->found();
  for (size_t i = 0; i < found.inputs.size(); ++i) {
    const Shape& result = found.combiner.root_instruction().shape;
    const ElementType type = result.is_tuple() ? result.elements[i].type : result.type;
    const Shape& input = computation[found.inputs[i]].shape;
    if (type != input.type) return std::nullopt;
    // A broadcast of it must give the first array's dimensions.
    int64_t last = -1;
    for (size_t d = 0; d < input.dims.size(); ++d) {
      if (input.dims[d] == 1) continue;
      if (found.places[i][d] <= last || input.dims[d] != computation[found.inputs[0]].shape.dim(found.places[i][d]))
        return std::nullopt;
      last = found.places[i][d];
    }
  }
  return found;
}

}  // namespace

std::vector<ScanRecursion> find_scan_recursions(const Computation& computation, int64_t least) {
  std::vector<Candidate> candidates;
  std::set<InstructionId> inner;
  for (auto id = static_cast<InstructionId>(computation.instructions.size()) - 1; id >= 0; --id) {
    const std::optional<Recursion::Level> level = Recursion::level_of(computation, id);
    if (!level) continue;
    // Users come later: the level around an inner one has been seen.
    inner.insert(level->below);
    if (inner.contains(id) || computation[id].shape.dim(level->dimension) < least) continue;
    candidates.push_back({id, level->elements, level->dimension});
  }
  std::vector<ScanRecursion> scans;
  for (const Candidate& one : candidates) {
    if (std::optional<ScanRecursion> scan = scan_from(computation, one, candidates)) scans.push_back(*std::move(scan));
  }
  std::stable_sort(scans.begin(), scans.end(),
                   [](const auto& a, const auto& b) { return a.inputs.size() > b.inputs.size(); });
  std::set<InstructionId> taken;
  std::erase_if(scans, [&](const ScanRecursion& scan) {
    bool is_new = true;
    for (const InstructionId id : scan.results) is_new &= id == kNone || !taken.contains(id);
    if (is_new) taken.insert(scan.results.begin(), scan.results.end());
    return !is_new;
  });
  return scans;
}

}  // namespace strata::hlo

#include "hlo/expand_ragged_dots.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "hlo/replace_instructions.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

using Dimensions = std::vector<int64_t>;

bool contains(const Dimensions& list, int64_t value) { return std::ranges::find(list, value) != list.end(); }

std::string list(const Dimensions& dims) { return fmt::format("{{{}}}", fmt::join(dims, ",")); }

/// Picoseconds for a weight of an H200, by the bytes that are moved at 4.4 TB/s and the rate of multiply-adds.
struct Costs {
  double weight;         ///< to read it
  double row_by_kernel;  ///< to multiply a row by it in a kernel that reads each weight once
  double copy;           ///< to write a copy of it, for a library, which reads it again
  double row_by_library;
};
/// Of 16-bit floats: products of 8 to 64 rows were measured (2026-11-29), and 600 TFLOP/s of the library.
constexpr Costs kHalves{0.46, 0.009, 1.4, 0.0033};
/// Of f32, without tensor cores.
constexpr Costs kOthers{0.91, 0.07, 2.7, 0.04};
/// Rows that the kernel takes: of 16-bit floats in a batch whose weights are computed, and of other types. As few as
/// one matrix instruction has.
constexpr int64_t kKernelRowsOfHalves = 32, kKernelRowsOfOthers = 16, kFewestRows = 8;

/// "{0,1}", or nothing where it is no list of numbers.
std::optional<Dimensions> numbers(std::string_view text) {
  if (text.size() < 2 || text.front() != '{' || text.back() != '}') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  Dimensions result;
  while (!text.empty()) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value < 0) return std::nullopt;
    result.push_back(value);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty()) break;
    if (text.front() != ',') return std::nullopt;
    text.remove_prefix(1);
    while (text.starts_with(' ')) text.remove_prefix(1);
    if (text.empty()) return std::nullopt;
  }
  return result;
}

struct RaggedAttributes {
  Dimensions lhs_batch, rhs_batch, lhs_contracting, rhs_contracting, ragged, group;
};

Result<RaggedAttributes> attributes_of(const Instruction& it) {
  RaggedAttributes result;
  for (const auto& [name, value] : it.as<RawAttributes>().entries) {
    Dimensions* const to = name == "lhs_batch_dims"         ? &result.lhs_batch
                           : name == "rhs_batch_dims"       ? &result.rhs_batch
                           : name == "lhs_contracting_dims" ? &result.lhs_contracting
                           : name == "rhs_contracting_dims" ? &result.rhs_contracting
                           : name == "lhs_ragged_dims"      ? &result.ragged
                           : name == "rhs_group_dims"       ? &result.group
                                                            : nullptr;
    if (to == nullptr) continue;
    std::optional<Dimensions> read = numbers(value);
    if (!read) return invalid("{} of ragged-dot are a list of dimensions, as in {{0,1}}", name);
    *to = std::move(*read);
  }
  return result;
}

/// A ragged-dot that has been checked, and the computation that it becomes.
class Expansion {
 public:
  static Result<Expansion> create(const Computation& computation, const Instruction& it) {
    Expansion made;
    if (it.operands.size() != 3)
      return invalid("ragged-dot has three operands: the left one, the right one and the groups' sizes");
    STRATA_TRY(made.a_, attributes_of(it));
    for (const auto& [to, number] : {std::pair(&made.lhs_, 0), std::pair(&made.rhs_, 1), std::pair(&made.sizes_, 2)})
      *to = computation.operand_shape(it, static_cast<size_t>(number));
    STRATA_CHECK(made.check());
    made.result_ = it.shape;
    if (const Dimensions dims = made.result_dims(); dims != it.shape.dims)
      return invalid("ragged-dot of {} and {} has the dimensions {}, not {}", to_string(made.lhs_),
                     to_string(made.rhs_), list(dims), list(it.shape.dims));
    return made;
  }

  std::string text() {
    for (const auto& [shape, number] : {std::pair(&lhs_, 0), std::pair(&rhs_, 1), std::pair(&sizes_, 2)})
      add(fmt::format("p{}", number), to_string(*shape), fmt::format("parameter({})", number));
    add_sizes();
    has_blocks() ? in_blocks() : in_masks();
    return fmt::format(
        "HloModule m\nplus {{\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  ROOT r = s32[] add(a, b)\n}}\n"
        "ENTRY ragged_dot {{\n{}}}\n",
        body_);
  }

 private:
  /// The sizes as s32, none of which is more than there are elements, so that their sums are places.
  void add_sizes() {
    const int64_t length = lhs_.dim(a_.ragged[0]), width = bit_width(sizes_.type) - (is_signed(sizes_.type) ? 1 : 0);
    const int64_t most = width < 63 ? std::min(length, (int64_t{1} << width) - 1) : length;
    const std::string scalar = to_string(array_shape(sizes_.type, {}));
    add("least", scalar, "constant(0)");
    add("most", scalar, fmt::format("constant({})", most));
    add("within_length", to_string(array_shape(sizes_.type, sizes_.dims)), "clamp(least, p2, most)");
    add("sizes", to_string(array_shape(ElementType::S32, sizes_.dims)), "convert(within_length)");
  }

  void in_masks() {
    Dimensions lhs_contracting = a_.lhs_contracting, rhs_contracting = a_.rhs_contracting, lhs_batch = a_.lhs_batch;
    std::string lhs = "p0", rhs = "p1";
    if (!contains(a_.lhs_batch, a_.ragged[0])) {
      const int64_t place = place_of_groups();
      mask(place);
      lhs = "masked";
      for (Dimensions* dims : {&lhs_contracting, &lhs_batch}) {
        for (int64_t& d : *dims) d += d >= place ? 1 : 0;
      }
      if (!of_terms()) {
        lhs_contracting.insert(lhs_contracting.begin(), place);
        rhs_contracting.insert(rhs_contracting.begin(), a_.group[0]);
        rhs = with_terms_together(rhs_contracting);
      }
    }
    const std::string dot = fmt::format(
        "dot({}, {}), lhs_batch_dims={}, rhs_batch_dims={}, lhs_contracting_dims={}, rhs_contracting_dims={}", lhs, rhs,
        list(lhs_batch), list(a_.rhs_batch), list(lhs_contracting), list(rhs_contracting));
    const auto batch = std::ssize(a_.lhs_batch);
    if (of_terms() && batch > 0) {
      // The groups behind the batch, to be the first.
      Dimensions order{batch};
      for (int64_t d = 0; d < result_.rank(); ++d) {
        if (d != batch) order.push_back(d);
      }
      Dimensions dims(result_.dims.size());
      for (size_t i = 0; i < order.size(); ++i) dims[static_cast<size_t>(order[i])] = result_.dims[i];
      add("products", fmt::format("{}[{}]", name(result_.type), fmt::join(dims, ",")), dot);
      add("ROOT r", to_string(result_), fmt::format("transpose(products), dimensions={}", list(order)));
    } else {
      add("ROOT r", to_string(result_), dot);
    }
  }

  Result<void> check() const {
    const auto within = [](const Dimensions& of, const Shape& shape) {
      return std::ranges::all_of(of, [&](int64_t d) { return d < shape.rank(); });
    };
    if (!lhs_.is_array() || !rhs_.is_array() || !is_integer(sizes_.type) || !within(a_.lhs_batch, lhs_) ||
        !within(a_.lhs_contracting, lhs_) || !within(a_.ragged, lhs_) || !within(a_.rhs_batch, rhs_) ||
        !within(a_.rhs_contracting, rhs_) || !within(a_.group, rhs_))
      return invalid("ragged-dot of {}, {} and sizes {}: a dimension that is named is not there", to_string(lhs_),
                     to_string(rhs_), to_string(sizes_));
    if (sizes_.rank() != 1)
      return unsupported("sizes {} of a ragged-dot: one array of sizes for all is supported, of one dimension",
                         to_string(sizes_));
    if (a_.ragged.size() != 1) return invalid("ragged-dot has one ragged dimension, not {}", a_.ragged.size());
    const bool rows = !of_terms() && !contains(a_.lhs_batch, a_.ragged[0]);
    if (a_.group.size() != (rows ? 1U : 0U))
      return invalid("ragged-dot has {} dimensions of groups on the right, where it has {}", a_.group.size(),
                     rows ? "1, for its ragged dimension is one of rows" : "none, for its ragged dimension is shared");
    if (rows && rhs_.dim(a_.group[0]) != sizes_.dim(0))
      return invalid("ragged-dot has {} sizes for {} groups", sizes_.dim(0), rhs_.dim(a_.group[0]));
    if (a_.lhs_batch.size() != a_.rhs_batch.size() || a_.lhs_contracting.size() != a_.rhs_contracting.size() ||
        a_.lhs_contracting.empty())
      return invalid("ragged-dot has other batch or contracting dimensions on the left than on the right");
    const auto are_distinct = [](std::initializer_list<const Dimensions*> lists) {
      std::set<int64_t> seen;
      for (const Dimensions* list : lists) {
        for (const int64_t d : *list) {
          if (!seen.insert(d).second) return false;
        }
      }
      return true;
    };
    if (!are_distinct({&a_.lhs_batch, &a_.lhs_contracting}) ||
        !are_distinct({&a_.rhs_batch, &a_.rhs_contracting, &a_.group}))
      return invalid("ragged-dot names a dimension twice among batch, contracting and group dimensions");
    for (const auto& [left, right] :
         {std::pair(&a_.lhs_batch, &a_.rhs_batch), std::pair(&a_.lhs_contracting, &a_.rhs_contracting)}) {
      for (size_t i = 0; i < left->size(); ++i) {
        if (lhs_.dim((*left)[i]) != rhs_.dim((*right)[i]))
          return invalid("ragged-dot of {} and {}: dimensions {} and {} differ", to_string(lhs_), to_string(rhs_),
                         (*left)[i], (*right)[i]);
      }
    }
    return {};
  }

  /// Whether the groups are of terms.
  bool of_terms() const { return contains(a_.lhs_contracting, a_.ragged[0]); }

  Dimensions result_dims() const {
    Dimensions dims;
    if (of_terms()) dims.push_back(sizes_.dim(0));
    for (const int64_t d : a_.lhs_batch) dims.push_back(lhs_.dim(d));
    for (int64_t d = 0; d < lhs_.rank(); ++d) {
      if (!contains(a_.lhs_batch, d) && !contains(a_.lhs_contracting, d)) dims.push_back(lhs_.dim(d));
    }
    for (int64_t d = 0; d < rhs_.rank(); ++d) {
      if (!contains(a_.rhs_batch, d) && !contains(a_.rhs_contracting, d) && !contains(a_.group, d))
        dims.push_back(rhs_.dim(d));
    }
    return dims;
  }

  void add(std::string_view name, std::string_view shape, std::string_view call) {
    body_ += fmt::format("  {} = {} {}\n", name, shape, call);
  }

  /// Just outside the terms, as they stand in most right operands, or where the groups are of terms, outside the rows.
  /// In two masked products of one array they stand after the ragged dimension if it is the first, so that both read
  /// one masked array.
  int64_t place_of_groups() const {
    if (!of_terms()) return *std::ranges::min_element(a_.lhs_contracting);
    for (int64_t d = 0; d < lhs_.rank(); ++d) {
      if (!contains(a_.lhs_batch, d) && !contains(a_.lhs_contracting, d)) return d;
    }
    return 0;
  }

  /// The right operand with its terms, of which the groups are the first, as neighbours: passes that fill products up
  /// take them for one dimension. Renumbers the terms. An operand with batches stays as it is.
  std::string with_terms_together(Dimensions& terms) {
    Dimensions order = terms;
    for (int64_t d = 0; d < rhs_.rank(); ++d) {
      if (!contains(terms, d)) order.push_back(d);
    }
    if (!a_.rhs_batch.empty() || std::ranges::is_sorted(order)) return "p1";
    Dimensions dims;
    for (const int64_t d : order) dims.push_back(rhs_.dim(d));
    std::iota(terms.begin(), terms.end(), 0);
    add("together", to_string(array_shape(rhs_.type, dims)), fmt::format("transpose(p1), dimensions={}", list(order)));
    return "together";
  }

  /// The left operand with a dimension of groups at this place, and 0 where an element is of another group.
  void mask(int64_t place) {
    const int64_t groups = sizes_.dim(0), length = lhs_.dim(a_.ragged[0]);
    const auto shape_of = [](ElementType type, const Dimensions& dims) { return to_string(array_shape(type, dims)); };
    const std::string pairs = shape_of(ElementType::S32, {groups, groups}), each = shape_of(ElementType::S32, {groups});
    add("zero", shape_of(ElementType::S32, {}), "constant(0)");
    add("earlier", pairs, "iota(), iota_dimension=0");
    add("later", pairs, "iota(), iota_dimension=1");
    add("is_before", shape_of(ElementType::Pred, {groups, groups}), "compare(earlier, later), direction=LT");
    add("of_earlier", pairs, "broadcast(sizes), dimensions={0}");
    add("nothing", pairs, "broadcast(zero), dimensions={}");
    add("before", pairs, "select(is_before, of_earlier, nothing)");
    add("first", each, "reduce(before, zero), dimensions={0}, to_apply=plus");
    add("end", each, "add(first, sizes)");
    const Dimensions both{length, groups};
    add("position", shape_of(ElementType::S32, both), "iota(), iota_dimension=0");
    for (const auto& [name, of, direction] : {std::tuple("reached", "first", "GE"), std::tuple("left", "end", "LT")}) {
      add(fmt::format("{}_of", name), shape_of(ElementType::S32, both),
          fmt::format("broadcast({}), dimensions={{1}}", of));
      add(name, shape_of(ElementType::Pred, both),
          fmt::format("compare(position, {}_of), direction={}", name, direction));
    }
    add("member", shape_of(ElementType::Pred, both), "and(reached, left)");
    Dimensions wide = lhs_.dims, kept(lhs_.dims.size());
    wide.insert(wide.begin() + place, groups);
    std::iota(kept.begin(), kept.end(), 0);
    for (int64_t& d : kept) d += d >= place ? 1 : 0;
    const int64_t ragged = kept[static_cast<size_t>(a_.ragged[0])];
    // Dimensions of a broadcast ascend in our texts; the mask is turned where groups stand outside.
    const bool turned = place < ragged;
    if (turned) add("turned", shape_of(ElementType::Pred, {groups, length}), "transpose(member), dimensions={1,0}");
    add("members", shape_of(ElementType::Pred, wide),
        fmt::format("broadcast({}), dimensions={}", turned ? "turned" : "member",
                    list({std::min(place, ragged), std::max(place, ragged)})));
    add("values", shape_of(lhs_.type, wide), fmt::format("broadcast(p0), dimensions={}", list(kept)));
    add("none", shape_of(lhs_.type, {}), "constant(0)");
    add("nones", shape_of(lhs_.type, wide), "broadcast(none), dimensions={}");
    add("masked", shape_of(lhs_.type, wide), "select(members, values, nones)");
  }

  // --- rows in blocks ---

  /// Whether rows are multiplied in blocks that have a group each.
  bool has_blocks() const {
    if (of_terms() || !a_.lhs_batch.empty() || !a_.rhs_batch.empty() || lhs_.element_count() == 0 ||
        rhs_.element_count() == 0)
      return false;
    // Few groups, or few rows of each: all rows are multiplied by all weights in the time of reading these.
    const double masked =
        static_cast<double>(groups()) * (costs().weight + static_cast<double>(rows()) * costs().row_by_library);
    return best_blocks().cost < masked;
  }

  int64_t rows() const { return lhs_.dim(a_.ragged[0]); }
  int64_t groups() const { return sizes_.dim(0); }

  bool are_halves() const {
    const auto is_half = [](const Shape& shape) { return is_float(shape.type) && bit_width(shape.type) == 16; };
    return is_half(lhs_) && is_half(rhs_);
  }
  const Costs& costs() const { return are_halves() ? kHalves : kOthers; }

  /// As many blocks of so many rows as groups of any sizes need.
  int64_t block_count(int64_t size) const {
    const int64_t with_rows = std::min(rows(), groups());
    return (rows() + with_rows * (size - 1)) / size;
  }

  struct Blocks {
    int64_t size = 0;  ///< rows of each
    double cost = HUGE_VAL;
  };
  /// The cheapest, by a kernel or by a library that multiplies copies of the weights, one for each block: large blocks
  /// have rows that are filled up, small ones read weights more often.
  Blocks best_blocks() const {
    const int64_t most = are_halves() ? kKernelRowsOfHalves : kKernelRowsOfOthers;
    Blocks best;
    for (int64_t size = kFewestRows; size == kFewestRows || size < 2 * rows(); size *= 2) {
      const double read = costs().weight + (size > most ? costs().copy : 0);
      const double row = size > most ? costs().row_by_library : costs().row_by_kernel;
      const double cost = static_cast<double>(block_count(size)) * (read + static_cast<double>(size) * row);
      if (cost < best.cost) best = {size, cost};
    }
    return best;
  }

  /// Block b has `size` rows from row b · size + shift[group of b] on, and row m stands at place m − shift[group of m]
  /// of all blocks' rows.
  void in_blocks() {
    const int64_t size = best_blocks().size, blocks = block_count(size);
    const auto shape = [](const Dimensions& dims) { return to_string(array_shape(ElementType::S32, dims)); };
    const Dimensions each{groups()}, pairs{groups(), groups()}, of_blocks{blocks}, in_rows{rows()};
    const auto number = [&](std::string_view as, int64_t value, const Dimensions& dims) {
      add(fmt::format("{}_0", as), shape({}), fmt::format("constant({})", value));
      add(as, shape(dims), fmt::format("broadcast({}_0), dimensions={{}}", as));
    };
    number("size", size, each);
    number("rest", size - 1, each);
    add("filled", shape(each), "add(sizes, rest)");
    add("blocks", shape(each), "divide(filled, size)");
    add("zero", shape({}), "constant(0)");
    add("earlier", shape(pairs), "iota(), iota_dimension=0");
    add("later", shape(pairs), "iota(), iota_dimension=1");
    add("until", to_string(array_shape(ElementType::Pred, pairs)), "compare(earlier, later), direction=LE");
    add("nothing", shape(pairs), "broadcast(zero), dimensions={}");
    for (const auto& [of, end] : {std::pair("sizes", "end"), std::pair("blocks", "block_end")}) {
      add(fmt::format("{}_of", of), shape(pairs), fmt::format("broadcast({}), dimensions={{0}}", of));
      add(fmt::format("{}_until", of), shape(pairs), fmt::format("select(until, {}_of, nothing)", of));
      add(end, shape(each), fmt::format("reduce({}_until, zero), dimensions={{0}}, to_apply=plus", of));
    }
    add("first", shape(each), "subtract(end, sizes)");
    add("block_first", shape(each), "subtract(block_end, blocks)");
    add("place", shape(each), "multiply(block_first, size)");
    add("shift", shape(each), "subtract(first, place)");
    find_groups("b", "block_end", blocks);
    find_groups("m", "end", rows());

    number("b_size", size, of_blocks);
    add("b_number", shape(of_blocks), "iota(), iota_dimension=0");
    add("b_place", shape(of_blocks), "multiply(b_number, b_size)");
    add("b_start", shape(of_blocks), "add(b_place, b_shift)");
    add("starts", shape({blocks, size}), "broadcast(b_start), dimensions={0}");
    add("within", shape({blocks, size}), "iota(), iota_dimension=1");
    add("row", shape({blocks, size}), "add(starts, within)");
    const Dimensions lhs_places = pick("x", "p0", lhs_, a_.ragged[0], "row", {blocks, size});
    const Dimensions rhs_places = pick("y", "p1", rhs_, a_.group[0], "b_group", {blocks});
    const auto at = [](const Dimensions& dims, const Dimensions& places) {
      Dimensions made;
      for (const int64_t d : dims) made.push_back(places[static_cast<size_t>(d)]);
      return list(made);
    };
    // Of the result: rows, others of the left operand, those of the right one.
    Dimensions dims{rows()}, order;
    for (int64_t d = 0; d < lhs_.rank(); ++d) {
      if (contains(a_.lhs_contracting, d)) continue;
      if (d != a_.ragged[0]) dims.push_back(lhs_.dim(d));
      order.push_back(d == a_.ragged[0] ? 0 : std::ssize(dims) - 1);
    }
    for (int64_t d = 0; d < rhs_.rank(); ++d) {
      if (contains(a_.rhs_contracting, d) || d == a_.group[0]) continue;
      order.push_back(std::ssize(dims));
      dims.push_back(rhs_.dim(d));
    }
    Dimensions product = dims, flat = dims;
    product[0] = size;
    product.insert(product.begin(), blocks);
    flat[0] = blocks * size;
    const auto result_shape = [&](const Dimensions& of) { return to_string(array_shape(result_.type, of)); };
    add("products", result_shape(product),
        fmt::format("dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={}, "
                    "rhs_contracting_dims={}",
                    at(a_.lhs_contracting, lhs_places), at(a_.rhs_contracting, rhs_places)));
    add("flat", result_shape(flat), "reshape(products)");
    add("m_number", shape(in_rows), "iota(), iota_dimension=0");
    add("m_place", shape(in_rows), "subtract(m_number, m_shift)");
    pick("picked", "flat", array_shape(result_.type, flat), 0, "m_place", in_rows);
    number("groups", groups(), in_rows);
    add("is_there", to_string(array_shape(ElementType::Pred, in_rows)), "compare(m_group, groups), direction=LT");
    add("are_there", to_string(array_shape(ElementType::Pred, dims)), "broadcast(is_there), dimensions={0}");
    add("none", result_shape({}), "constant(0)");
    add("nones", result_shape(dims), "broadcast(none), dimensions={}");
    const bool turned = !std::ranges::is_sorted(order);
    add(turned ? "chosen" : "ROOT r", result_shape(dims), "select(are_there, picked, nones)");
    if (turned) add("ROOT r", to_string(result_), fmt::format("transpose(chosen), dimensions={}", list(order)));
  }

  /// {as}_group: how many groups have ended at each of `count` numbers; {as}_shift: shift of that group.
  void find_groups(std::string_view as, std::string_view end, int64_t count) {
    const auto shape = [](const Dimensions& dims) { return to_string(array_shape(ElementType::S32, dims)); };
    const Dimensions both{count, groups()};
    add(fmt::format("{}_at", as), shape(both), "iota(), iota_dimension=0");
    add(fmt::format("{}_ends", as), shape(both), fmt::format("broadcast({}), dimensions={{1}}", end));
    add(fmt::format("{}_past", as), to_string(array_shape(ElementType::Pred, both)),
        fmt::format("compare({0}_at, {0}_ends), direction=GE", as));
    add(fmt::format("{}_count", as), shape(both), fmt::format("convert({}_past)", as));
    add(fmt::format("{}_group", as), shape({count}),
        fmt::format("reduce({}_count, zero), dimensions={{1}}, to_apply=plus", as));
    pick(fmt::format("{}_shift", as), "shift", array_shape(ElementType::S32, {groups()}), 0,
         fmt::format("{}_group", as), {count});
  }

  /// The slices of an array at these indices of dimension d, the indices' dimensions first. Returns where its
  /// dimensions are; that of d is not used.
  Dimensions pick(std::string_view as, std::string_view from, const Shape& array, int64_t d, std::string_view indices,
                  const Dimensions& counts) {
    Dimensions dims = counts, slice = array.dims, offsets, places;
    for (int64_t i = 0; i < array.rank(); ++i) {
      places.push_back(std::ssize(dims));
      if (i == d) continue;
      offsets.push_back(std::ssize(dims));
      dims.push_back(array.dim(i));
    }
    slice[static_cast<size_t>(d)] = 1;
    add(as, to_string(array_shape(array.type, dims)),
        fmt::format("gather({}, {}), offset_dims={}, collapsed_slice_dims={{{}}}, start_index_map={{{}}}, "
                    "index_vector_dim={}, slice_sizes={}",
                    from, indices, list(offsets), d, d, counts.size(), list(slice)));
    return places;
  }

  RaggedAttributes a_;
  Shape lhs_, rhs_, sizes_, result_;
  std::string body_;
};

}  // namespace

bool has_ragged_dots(const Module& module) {
  return std::ranges::any_of(module.computations, [](const Computation& computation) {
    return std::ranges::any_of(computation.instructions,
                               [](const Instruction& it) { return it.opcode == Opcode::RaggedDot; });
  });
}

int64_t ragged_terms(const Computation& computation, const Instruction& it) {
  const auto a = attributes_of(it);
  if (!a || it.operands.empty()) return 1;
  const Shape& lhs = computation.operand_shape(it, 0);
  int64_t terms = 1;
  for (const int64_t d : a->lhs_contracting) terms *= d < lhs.rank() ? lhs.dim(d) : 1;
  return terms;
}

Result<Module> expand_ragged_dots(const Module& module) {
  for (const Computation& computation : module.computations) {
    for (const Instruction& it : computation.instructions) {
      if (it.opcode != Opcode::RaggedDot) continue;
      if (auto made = Expansion::create(computation, it); !made) {
        made.error().location = it.location;
        return tl::unexpected(made.error());
      }
    }
  }
  return replace_instructions(module,
                              [](const Computation& computation, const Instruction& it) -> std::optional<Replacement> {
                                if (it.opcode != Opcode::RaggedDot) return std::nullopt;
                                return Replacement{Expansion::create(computation, it)->text(), it.operands};
                              });
}

}  // namespace strata::hlo

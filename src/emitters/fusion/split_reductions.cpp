#include "emitters/fusion/split_reductions.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "emitters/fusion/bandwidth.h"
#include "emitters/kinds/reduction_shape.h"
#include "emitters/kinds/reduction_tiling.h"
#include "hlo/entry_rewriter.h"
#include "hlo/indexing/evaluations.h"
#include "hlo/text.h"
#include "indexing/interval.h"
#include "support/divisors.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using hlo::Shape;
using Dimensions = std::vector<int64_t>;

constexpr int64_t kLineBytes = 128;
constexpr int64_t kVectorBytes = 16;
constexpr int64_t kLeastPart = 32;    ///< rows: less would not make much fewer numbers of them
constexpr int64_t kShortRow = 512;    ///< bytes that do not fill the lanes of a warp with vectors
constexpr int64_t kMostPart = 16384;  ///< elements of a row that stay in registers

/// An array that is reduced in two steps: how it is looked at, and which dimensions are reduced first, and then of what
/// is left.
struct Parts {
  Dimensions view;  ///< sizes
  Dimensions first, second;
  int64_t terms = 1;          ///< of the first step
  bool in_registers = false;  ///< what the first step reads can be gone through twice
  /// Rows, of the dimension `rows` of the groups, that no part has: they are added to the second step's results.
  int64_t left = 0;
  int64_t rows = -1;
};

class Splitter : hlo::EntryRewriter {
 public:
  Splitter(const hlo::Module& module, const Target& target) : EntryRewriter(module), target_(target) {}

  hlo::Module run() {
    return rewrite([&](const Instruction& it, const Instruction& copy) {
      return it.opcode == Opcode::Reduce ? replaced(it, copy) : std::nullopt;
    });
  }

 private:
  // --- what may be split ---

  /// The operator that a computation is, where it is one of its parameters.
  static std::optional<Opcode> operator_of(const Computation& of) {
    const Instruction& root = of.root_instruction();
    const bool both = root.operands.size() == 2 && std::is_permutation(root.operands.begin(), root.operands.end(),
                                                                       of.parameters.begin(), of.parameters.end());
    return both ? std::optional(root.opcode) : std::nullopt;
  }

  /// Whether a reduction in two steps is the same: its initial value changes nothing, and no result of a step is
  /// rounded to fewer bits than sums are kept in.
  bool may_split(const Instruction& it) const {
    if (it.operands.size() != 2 || !it.shape.is_array()) return false;
    const Shape& operand = from_.operand_shape(it, 0);
    const Instruction& initial = from_[it.operands[1]];
    if (!operand.has_default_layout() || !it.shape.has_default_layout() || operand.element_count() == 0 ||
        initial.opcode != Opcode::Constant || hlo::kind(operand.type) != hlo::TypeKind::Float)
      return false;
    const std::optional<Opcode> combiner = operator_of(result_[it.called[0]]);
    const bool wide = hlo::bit_width(operand.type) >= 32;
    const std::string value = hlo::print(initial.as<hlo::ConstantAttributes>().value);
    return (combiner == Opcode::Add && wide && (value == "0" || value == "-0")) ||
           (combiner == Opcode::Multiply && wide && value == "1") || (combiner == Opcode::Maximum && value == "-inf") ||
           (combiner == Opcode::Minimum && value == "inf");
  }

  /// Bytes of an element of the narrowest array that is read for it, through elementwise operators: the same for all
  /// reductions that one kernel could compute of it.
  int64_t width(InstructionId of) const {
    constexpr size_t kMost = 64;  // operators that are looked at
    const int64_t elements = from_[of].shape.element_count();
    int64_t least = hlo::byte_width(from_[of].shape.type);
    std::vector<InstructionId> stack{of};
    std::set<InstructionId> seen;
    while (!stack.empty() && seen.size() < kMost) {
      const Instruction& it = from_[stack.back()];
      stack.pop_back();
      const bool passes = hlo::is_elementwise(it.opcode) || it.opcode == Opcode::Reshape;
      if (!passes && it.opcode != Opcode::Broadcast && it.shape.type != hlo::ElementType::Pred)
        least = std::min<int64_t>(least, hlo::byte_width(it.shape.type));
      for (const InstructionId operand : it.operands) {
        const Shape& shape = from_[operand].shape;
        if (passes && shape.is_array() && shape.element_count() == elements && seen.insert(operand).second)
          stack.push_back(operand);
      }
    }
    return least;
  }

  // --- where it is split ---

  /// Rows of a part of columns: about as many as stay in registers, fewer where that makes too few blocks.
  int64_t most_rows(int64_t columns, int64_t bytes, int64_t rows, int64_t blocks) const {
    int64_t vector = 1;
    while (vector * 2 * bytes <= 16 && columns % (vector * 2) == 0) vector *= 2;
    const int64_t in_registers = most_column_part(indexing::ceil_div(columns, vector), vector, bytes).rows;
    const int64_t wanted = 2 * int64_t{target_.multiprocessors};
    return std::clamp(rows * blocks / wanted, kLeastPart, in_registers);
  }

  /// `again`: what is read is gone through twice, if it is not split.
  std::optional<Parts> parts_of(const Instruction& it, bool again) const {
    const Shape& operand = from_.operand_shape(it, 0);
    const std::vector<DimensionGroup> groups = dimension_groups(operand, it.dimensions());
    if (groups.size() < 2) return std::nullopt;
    const int64_t bytes = width(it.operands[0]);
    int64_t kept = 1;
    std::vector<size_t> reduced;
    for (size_t g = 0; g < groups.size(); ++g) {
      if (groups[g].reduced)
        reduced.push_back(g);
      else
        kept *= groups[g].size;
    }
    const double all = static_cast<double>(operand.element_count() * bytes);
    const auto few = [&](int64_t blocks) { return are_few_blocks(all, /*operations=*/0, blocks, target_); };
    const DimensionGroup& last = groups.back();
    const bool short_rows = last.reduced && reduced.size() > 1 && last.size * bytes < kShortRow;
    if (last.reduced && !short_rows) {
      // Of few results over dimensions that do not lie together, the innermost first.
      if (reduced.size() == 1 || !(few(kept) || (again && last.size <= kMostPart))) return std::nullopt;
      Parts parts;
      for (size_t g = 0; g < groups.size(); ++g) {
        parts.view.push_back(groups[g].size);
        if (groups[g].reduced) (g + 1 < groups.size() ? parts.second : parts.first).push_back(static_cast<int64_t>(g));
      }
      parts.terms = last.size;
      parts.in_registers = last.size <= kMostPart;
      return parts;
    }
    // Columns: all that lies together behind the rows.
    const size_t along = short_rows ? groups.size() - 3 : groups.size() - 2;
    int64_t columns = 1, others = 1;
    for (size_t g = 0; g < groups.size(); ++g) {
      if (g != along) (g > along ? columns : others) *= groups[g].size;
    }
    const int64_t rows = groups[along].size;
    const int64_t lines = others * indexing::ceil_div(columns * bytes, kLineBytes);
    const int64_t most = most_rows(columns, bytes, rows, lines);
    // Where one kernel reads all in less time than another one's launch takes, two are no better.
    if (memory_microseconds(all, static_cast<double>(lines), target_) <= 1e6 * target_.kernel_seconds())
      return std::nullopt;
    if (rows < kLeastPart || !(reduced.size() > 1 || few(lines) || (again && rows > most))) return std::nullopt;
    if (!again && reduced.size() == 1) {
      if (auto narrow = narrow_columns(groups, columns, bytes)) return narrow;
    }
    // More rows than one part has, where that is for blocks or registers.
    const bool in_parts = rows > most && (again || few(lines));
    const std::optional<int64_t> part = in_parts ? divisor_near(rows, most, 4) : std::optional(rows);
    if (!part) return std::nullopt;
    Parts parts;
    for (size_t g = 0; g < groups.size(); ++g) {
      const auto add = [&](int64_t size, bool first, bool second) {
        if (first) parts.first.push_back(std::ssize(parts.view));
        if (second) parts.second.push_back(std::ssize(parts.view));
        parts.view.push_back(size);
      };
      if (g == along && *part < rows) add(rows / *part, false, true);
      add(g == along ? *part : groups[g].size, g == along, g != along && groups[g].reduced);
    }
    if (parts.second.empty()) return std::nullopt;
    parts.terms = *part;
    parts.in_registers = *part <= most;
    return parts;
  }

  /// Of columns that are narrower than a line and no whole vectors: rows beside each other are columns too, as many as
  /// are whole vectors, and what is left of rows is added in the end. Else a thread would have a column, and single
  /// elements on their way.
  std::optional<Parts> narrow_columns(const std::vector<DimensionGroup>& groups, int64_t columns, int64_t bytes) const {
    const int64_t vector = std::max<int64_t>(kVectorBytes / bytes, 1);
    const int64_t beside = vector / std::gcd(vector, columns);
    if (beside == 1 || columns * bytes >= kLineBytes) return std::nullopt;
    const size_t along = groups.size() - 2;
    int64_t others = 1;
    for (size_t g = 0; g < along; ++g) others *= groups[g].size;
    const int64_t rows = groups[along].size / beside;
    const int64_t most =
        most_rows(beside * columns, bytes, rows, others * indexing::ceil_div(beside * columns * bytes, kLineBytes));
    if (rows < 2 * most) return std::nullopt;
    // The longest part of those that leave the fewest rows: no more than a thread adds up beside what it computes.
    const auto left_by = [&](int64_t part) { return groups[along].size % (part * beside); };
    int64_t part = most;
    for (int64_t one = most; 2 * one > most; --one) {
      if (left_by(one) < left_by(part)) part = one;
    }
    if (left_by(part) > indexing::kFewTerms) return std::nullopt;
    Parts parts;
    for (size_t g = 0; g < along; ++g) parts.view.push_back(groups[g].size);
    const auto first = std::ssize(parts.view);
    parts.view.insert(parts.view.end(), {rows / part, part, beside, groups.back().size});
    parts.first = {first + 1};
    parts.second = {first, first + 2};
    parts.terms = part;
    parts.left = left_by(part);
    parts.rows = first;
    return parts;
  }

  // --- code ---

  /// The rows that are left, or the others, of an array in the shape of its groups.
  InstructionId some_rows(InstructionId id, const Parts& parts, bool left) {
    Dimensions sizes = without(parts.view, {parts.first[0], parts.second.back()});
    const auto rows = static_cast<size_t>(parts.rows);
    const int64_t others = parts.view[rows] * parts.view[rows + 1] * parts.view[rows + 2];
    sizes[rows] = others + parts.left;
    const hlo::ElementType type = shape(id).type;
    const InstructionId whole = add(entry_[id].name + ".rows", Opcode::Reshape, hlo::array_shape(type, sizes), {id});
    Dimensions starts(sizes.size()), limits = sizes;
    (left ? starts : limits)[rows] = others;
    sizes[rows] = left ? parts.left : others;
    return add(entry_[id].name + (left ? ".left" : ".even"), Opcode::Slice, hlo::array_shape(type, sizes), {whole},
               hlo::SliceAttributes{starts, limits, Dimensions(sizes.size(), 1)});
  }

  /// By way of parts; the few rows that are left are added up where the second step's results are.
  InstructionId with_left_rows(const Instruction& copy, const Parts& parts) {
    const InstructionId of = copy.operands[0];
    const InstructionId summed = first_step(copy, viewed(some_rows(of, parts, false), parts), parts);
    const InstructionId even = second_step(copy, summed, parts);
    const InstructionId left = some_rows(of, parts, true);
    Dimensions sizes = shape(left).dims;
    sizes.erase(sizes.begin() + parts.rows);
    const InstructionId of_left = add(copy.name + ".of.left", Opcode::Reduce, hlo::array_shape(copy.shape.type, sizes),
                                      {left, copy.operands[1]}, hlo::DimensionsAttributes{{parts.rows}}, copy.called);
    return add(copy.name, *operator_of(result_[copy.called[0]]), copy.shape,
               {even, add(copy.name + ".shaped", Opcode::Reshape, copy.shape, {of_left})});
  }

  InstructionId viewed(InstructionId id, const Parts& parts) {
    return add(entry_[id].name + ".parts", Opcode::Reshape, hlo::array_shape(shape(id).type, parts.view), {id});
  }

  static Dimensions without(const Dimensions& sizes, const Dimensions& left_out) {
    Dimensions rest;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (std::find(left_out.begin(), left_out.end(), static_cast<int64_t>(i)) == left_out.end())
        rest.push_back(sizes[i]);
    }
    return rest;
  }

  /// The first step: `like` has the initial value and the operator.
  InstructionId first_step(const Instruction& like, InstructionId view, const Parts& parts) {
    return add(like.name + ".of.parts", Opcode::Reduce,
               hlo::array_shape(shape(view).type, without(parts.view, parts.first)), {view, like.operands[1]},
               hlo::DimensionsAttributes{parts.first}, like.called);
  }

  /// The second one, in the shape of the reduction.
  InstructionId second_step(const Instruction& like, InstructionId of_parts, const Parts& parts) {
    Dimensions reduced, kept;
    int64_t number = 0;
    for (int64_t d = 0; d < std::ssize(parts.view); ++d) {
      if (std::find(parts.first.begin(), parts.first.end(), d) != parts.first.end()) continue;
      const bool now = std::find(parts.second.begin(), parts.second.end(), d) != parts.second.end();
      if (now)
        reduced.push_back(number);
      else
        kept.push_back(parts.view[static_cast<size_t>(d)]);
      ++number;
    }
    const InstructionId whole = add(like.name + ".of.all", Opcode::Reduce, hlo::array_shape(shape(of_parts).type, kept),
                                    {of_parts, like.operands[1]}, hlo::DimensionsAttributes{reduced}, like.called);
    return add(like.name + ".shaped", Opcode::Reshape, like.shape, {whole});
  }

  InstructionId binary(const std::string& name, Opcode opcode, InstructionId a, InstructionId b) {
    return add(name, opcode, shape(a), {a, b});
  }
  InstructionId spread(InstructionId scalar, Shape to) {
    return add("spread", Opcode::Broadcast, to, {scalar}, hlo::DimensionsAttributes{});
  }
  InstructionId number(double value, Shape to) {
    hlo::Literal literal(hlo::array_shape(to.type, {}));
    const auto narrow = static_cast<float>(value);
    const bool wide = to.type == hlo::ElementType::F64;
    std::memcpy(literal.mutable_bytes(), wide ? static_cast<const void*>(&value) : &narrow, literal.byte_size());
    return spread(add("number", Opcode::Constant, literal.shape(), {}, hlo::ConstantAttributes{literal, false}), to);
  }

  std::optional<InstructionId> replaced(const Instruction& it, const Instruction& copy) {
    if (!may_split(it)) return std::nullopt;
    const Shape& operand = from_.operand_shape(it, 0);
    if (operand.element_count() == it.shape.element_count()) {
      const InstructionId elements =
          add(it.name + ".element", Opcode::Reshape, hlo::array_shape(operand.type, it.shape.dims), {copy.operands[0]});
      return add(it.name, result_[it.called[0]].root_instruction().opcode, it.shape,
                 {elements, spread(copy.operands[1], it.shape)});
    }
    if (const auto replacement = of_exponentials(it, copy)) return replacement;
    if (const auto squares = centred_squares(it)) {
      if (const Moments* moments = moments_of(squares->first, it.dimensions(), copy))
        return sum_of_squares(copy, *moments, moved_[static_cast<size_t>(squares->second)]);
    }
    if (is_sum(it)) {
      if (const Moments* moments = moments_of(it.operands[0], it.dimensions(), copy))
        return second_step(copy, moments->sum, moments->parts);
    }
    const std::optional<Parts> parts = parts_of(it, false);
    if (!parts) return std::nullopt;
    if (parts->left > 0) return with_left_rows(copy, *parts);
    return second_step(copy, first_step(copy, viewed(copy.operands[0], *parts), *parts), *parts);
  }

  // --- Σ(x - b)² ---

  bool is_sum(const Instruction& it) const {
    return it.opcode == Opcode::Reduce && may_split(it) && operator_of(result_[it.called[0]]) == Opcode::Add;
  }

  /// x and b of Σ(x - b)², where b is the same along what is reduced.
  std::optional<std::pair<InstructionId, InstructionId>> centred_squares(const Instruction& it) const {
    if (!is_sum(it)) return std::nullopt;
    const Instruction& square = from_[it.operands[0]];
    if (square.opcode != Opcode::Multiply || square.operands[0] != square.operands[1]) return std::nullopt;
    return difference(it, square.operands[0]);
  }

  /// x and b of x - b, where b is the same along what `it` reduces.
  std::optional<std::pair<InstructionId, InstructionId>> difference(const Instruction& it, InstructionId id) const {
    const Instruction& centred = from_[id];
    if (centred.opcode != Opcode::Subtract) return std::nullopt;
    const InstructionId b = centred.operands[1];
    const Instruction& spread = from_[b];
    if (spread.opcode != Opcode::Broadcast) return std::nullopt;
    const Dimensions& kept = spread.dimensions();
    for (size_t i = 0; i < kept.size(); ++i) {
      const bool reduced = std::find(it.dimensions().begin(), it.dimensions().end(), kept[i]) != it.dimensions().end();
      if (reduced && from_.operand_shape(spread, 0).dims[i] != 1) return std::nullopt;
    }
    return std::pair(centred.operands[0], b);
  }

  /// What the parts of an array have come to.
  struct Moments {
    Parts parts;
    InstructionId mean = 0, sum = 0, squares = 0, rest = 0;  ///< Σx/n as rounded, Σx, Σ(x - mean)², Σ(x - mean)
  };
  using Key = std::pair<InstructionId, Dimensions>;

  /// Whether b is made of a sum of x, directly or not.
  bool needs(InstructionId b, InstructionId sum) const {
    std::vector<InstructionId> stack{b};
    std::set<InstructionId> seen;
    while (!stack.empty()) {
      const InstructionId id = stack.back();
      stack.pop_back();
      if (id == sum) return true;
      if (id < sum || !seen.insert(id).second) continue;
      const std::vector<InstructionId>& operands = from_[id].operands;
      stack.insert(stack.end(), operands.begin(), operands.end());
    }
    return false;
  }

  void find_squares() {
    searched_ = true;
    std::map<Key, std::vector<InstructionId>> sums;
    for (size_t i = 0; i < from_.instructions.size(); ++i) {
      const Instruction& it = from_.instructions[i];
      if (!is_sum(it)) continue;
      if (const auto squares = centred_squares(it)) {
        const Key key{squares->first, it.dimensions()};
        for (const InstructionId sum : sums[key]) {
          if (needs(squares->second, sum)) twice_.insert(key);
        }
      }
      sums[{it.operands[0], it.dimensions()}].push_back(static_cast<InstructionId>(i));
    }
  }

  /// Of an array that is summed, and then the squares of its differences; nothing where it stays on the chip anyway.
  const Moments* moments_of(InstructionId x, const Dimensions& reduced, const Instruction& copy) {
    if (!searched_) find_squares();
    const Key key{x, reduced};
    if (!twice_.contains(key)) return nullptr;
    if (const auto known = moments_.find(key); known != moments_.end())
      return known->second ? &*known->second : nullptr;
    std::optional<Moments>& made = moments_[key];
    Instruction like = from_[x];
    like.operands = {x};
    like.attributes = hlo::DimensionsAttributes{reduced};
    like.shape = copy.shape;
    const std::optional<Parts> parts = parts_of(like, true);
    if (!parts || !parts->in_registers) return nullptr;
    made.emplace();
    made->parts = *parts;
    const InstructionId view = viewed(moved_[static_cast<size_t>(x)], *parts);
    made->sum = first_step(copy, view, *parts);
    const double share = 1.0 / static_cast<double>(parts->terms);
    made->mean = binary("part.mean", Opcode::Multiply, made->sum, number(share, shape(made->sum)));
    Dimensions kept;
    for (int64_t d = 0; d < std::ssize(parts->view); ++d) {
      if (std::find(parts->first.begin(), parts->first.end(), d) == parts->first.end()) kept.push_back(d);
    }
    // Not a broadcast of the mean: between the sums and their one reader nothing stands then that another kernel could
    // take in, which would make two kernels of them.
    const InstructionId sums =
        add("part.sums", Opcode::Broadcast, shape(view), {made->sum}, hlo::DimensionsAttributes{kept});
    const InstructionId means = binary("part.means", Opcode::Multiply, sums, number(share, shape(view)));
    const InstructionId centred = binary("part.centred", Opcode::Subtract, view, means);
    made->rest = first_step(copy, centred, *parts);
    made->squares = first_step(copy, binary("part.squares", Opcode::Multiply, centred, centred), *parts);
    return &*made;
  }

  /// What is the same at all elements of a part: that at the first one. Of a broadcast of its own: what else reads b
  /// may be in another kernel, and then all of it would be written for the few elements here.
  InstructionId of_parts(InstructionId b, const Parts& parts, const Shape& scalars) {
    Instruction again = entry_.instructions[static_cast<size_t>(b)];
    if (again.opcode == Opcode::Broadcast)
      b = add("part.spread", again.opcode, again.shape, std::move(again.operands), std::move(again.attributes));
    const InstructionId view = viewed(b, parts);
    Dimensions sizes = parts.view;
    for (const int64_t d : parts.first) sizes[static_cast<size_t>(d)] = 1;
    const InstructionId first =
        add("part.first", Opcode::Slice, hlo::array_shape(shape(b).type, sizes), {view},
            hlo::SliceAttributes{Dimensions(sizes.size(), 0), sizes, Dimensions(sizes.size(), 1)});
    return add("part.b", Opcode::Reshape, scalars, {first});
  }

  InstructionId sum_of_squares(const Instruction& copy, const Moments& moments, InstructionId b) {
    const Parts& parts = moments.parts;
    const Shape scalars = shape(moments.mean);  // instructions move as others are added
    const InstructionId of_part = of_parts(b, parts, scalars);
    const InstructionId away = binary("part.away", Opcode::Subtract, moments.mean, of_part);
    const InstructionId rests = binary("part.rests", Opcode::Multiply, number(2, scalars), moments.rest);
    const InstructionId moved =
        binary("part.moved", Opcode::Multiply, number(static_cast<double>(parts.terms), scalars), away);
    const InstructionId more = binary("part.more", Opcode::Add, rests, moved);
    const InstructionId product = binary("part.product", Opcode::Multiply, away, more);
    return second_step(copy, binary("part.all", Opcode::Add, moments.squares, product), parts);
  }

  // --- Σ exp(x - b) ---

  bool is_maximum(const Instruction& it) const {
    return it.opcode == Opcode::Reduce && may_split(it) && operator_of(result_[it.called[0]]) == Opcode::Maximum;
  }

  /// x and b of Σ exp(x - b).
  std::optional<std::pair<InstructionId, InstructionId>> exponentials(const Instruction& it) const {
    if (!is_sum(it) || from_[it.operands[0]].opcode != Opcode::Exp) return std::nullopt;
    return difference(it, from_[it.operands[0]].operands[0]);
  }

  /// What the parts of a row have come to.
  struct Exponentials {
    Parts parts;
    InstructionId maximum = 0, shift = 0;  ///< and what is subtracted: the maximum where it is finite, else 0
    InstructionId sum = 0;                 ///< Σ exp(x - shift)
  };

  void find_exponentials() {
    searched_exponentials_ = true;
    std::map<Key, std::vector<InstructionId>> maxima;
    for (size_t i = 0; i < from_.instructions.size(); ++i) {
      const Instruction& it = from_.instructions[i];
      if (is_maximum(it)) maxima[{it.operands[0], it.dimensions()}].push_back(static_cast<InstructionId>(i));
      const auto found = exponentials(it);
      if (!found) continue;
      const Key key{found->first, it.dimensions()};
      for (const InstructionId maximum : maxima[key]) {
        if (!needs(found->second, maximum)) continue;
        exponentials_.try_emplace(key).first->second.sum = &it;
      }
    }
  }

  /// The parts of a row that a block cannot keep, so that it would be read for its maximum and again for the sum.
  std::optional<Parts> parts_of_row(InstructionId x, const Dimensions& reduced) const {
    const std::vector<DimensionGroup> groups = dimension_groups(from_[x].shape, reduced);
    if (groups.empty() || !groups.back().reduced || groups.size() > 2) return std::nullopt;
    const int64_t length = groups.back().size;
    if (length * width(x) <= most_kept_row(target_)) return std::nullopt;
    const std::optional<int64_t> part = divisor_near(length, kMostPart, 4);
    if (!part || *part == length) return std::nullopt;
    Parts parts;
    parts.view = {length / *part, *part};
    if (groups.size() == 2) parts.view.insert(parts.view.begin(), groups[0].size);
    parts.first = {std::ssize(parts.view) - 1};
    parts.second = {std::ssize(parts.view) - 2};
    parts.terms = *part;
    parts.in_registers = true;
    return parts;
  }

  /// A maximum or a sum of exponentials by way of parts of rows; nothing for other reductions.
  std::optional<InstructionId> of_exponentials(const Instruction& it, const Instruction& copy) {
    const auto pair = exponentials(it);
    if (!pair && !is_maximum(it)) return std::nullopt;
    if (!searched_exponentials_) find_exponentials();
    const Key key{pair ? pair->first : it.operands[0], it.dimensions()};
    const auto known = exponentials_.find(key);
    if (known == exponentials_.end()) return std::nullopt;
    PartsOfRows& rows = known->second;
    if (!rows.made) {
      const std::optional<Parts> parts = pair ? std::nullopt : parts_of_row(key.first, key.second);
      if (!parts) {
        exponentials_.erase(known);
        return std::nullopt;
      }
      rows.made = add_exponentials(key.first, copy, *rows.sum, *parts);
    }
    if (!pair) return second_step(copy, rows.made->maximum, rows.made->parts);
    return sum_of_exponentials(copy, *rows.made, moved_[static_cast<size_t>(pair->second)]);
  }

  Exponentials add_exponentials(InstructionId x, const Instruction& maximum, const Instruction& sum,
                                const Parts& parts) {
    Exponentials made;
    made.parts = parts;
    const InstructionId view = viewed(moved_[static_cast<size_t>(x)], parts);
    made.maximum = first_step(maximum, view, parts);
    made.shift = finite_or_zero(made.maximum);
    // Not a broadcast of the shift: as with means.
    Dimensions kept(parts.view.size() - 1);
    for (size_t d = 0; d < kept.size(); ++d) kept[d] = static_cast<int64_t>(d);
    const InstructionId maxima =
        add("part.maxima", Opcode::Broadcast, shape(view), {made.maximum}, hlo::DimensionsAttributes{kept});
    const InstructionId centred = binary("part.centred", Opcode::Subtract, view, finite_or_zero(maxima));
    Instruction like = sum;
    const hlo::Literal zero(hlo::array_shape(shape(view).type, {}));  // the sum's own may not be there yet
    like.operands[1] = add("zero", Opcode::Constant, zero.shape(), {}, hlo::ConstantAttributes{zero, false});
    made.sum = first_step(like, add("part.exponentials", Opcode::Exp, shape(view), {centred}), parts);
    return made;
  }

  InstructionId finite_or_zero(InstructionId of) {
    Shape tests = shape(of);
    tests.type = hlo::ElementType::Pred;
    const InstructionId finite = add("part.finite", Opcode::IsFinite, tests, {of});
    return add("part.shift", Opcode::Select, shape(of), {finite, of, number(0, shape(of))});
  }

  /// A part without anything above -∞ adds nothing, however far b lies below 0.
  InstructionId sum_of_exponentials(const Instruction& copy, const Exponentials& made, InstructionId b) {
    const Shape scalars = shape(made.sum);
    const InstructionId away = binary("part.away", Opcode::Subtract, made.shift, of_parts(b, made.parts, scalars));
    const InstructionId factor = add("part.factor", Opcode::Exp, scalars, {away});
    const InstructionId product = binary("part.product", Opcode::Multiply, made.sum, factor);
    Shape tests = scalars;
    tests.type = hlo::ElementType::Pred;
    const InstructionId zero = number(0, scalars);
    const InstructionId none = add("part.none", Opcode::Compare, tests, {made.sum, zero}, hlo::CompareAttributes{});
    return second_step(copy, add("part.all", Opcode::Select, scalars, {none, zero, product}), made.parts);
  }

  /// Rows whose maximum and sum of exponentials are wanted.
  struct PartsOfRows {
    const Instruction* sum = nullptr;  ///< one of the sums
    std::optional<Exponentials> made;
  };

  const Target& target_;
  bool searched_exponentials_ = false;
  std::map<Key, PartsOfRows> exponentials_;
  bool searched_ = false;
  std::set<Key> twice_;  ///< arrays that are summed and then their differences squared, with what is reduced
  std::map<Key, std::optional<Moments>> moments_;
};

}  // namespace

hlo::Module split_reductions(const hlo::Module& module, const Target& target) { return Splitter(module, target).run(); }

}  // namespace strata::emitters

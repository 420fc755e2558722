#include "emitters/library/padded_arrays.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "hlo/compute.h"
#include "hlo/entry_rewriter.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using hlo::Shape;
using Dimensions = std::vector<int64_t>;

constexpr size_t kMostMembers = 512;

int64_t elements_of(const Shape& shape, const LongDimension& of) {
  int64_t all = 1;
  for (int64_t d = of.first; d < of.first + of.count; ++d) all *= shape.dim(d);
  return all;
}

bool has(const LongDimension& of, int64_t d) { return d >= of.first && d < of.first + of.count; }

/// How many of the dimension's parts are among these.
int64_t parts_in(const LongDimension& of, const Dimensions& dimensions) {
  return std::ranges::count_if(dimensions, [&](int64_t d) { return has(of, d); });
}

/// A dimension's number where the parts are one.
int64_t renumbered(int64_t d, const LongDimension& to) {
  return d < to.first + to.count ? std::min(d, to.first) : d - to.count + 1;
}

Dimensions renumbered(const Dimensions& dimensions, const LongDimension& to) {
  Dimensions result;
  for (const int64_t d : dimensions) {
    if (!has(to, d) || d == to.first) result.push_back(renumbered(d, to));
  }
  return result;
}

/// The dimension of a reduction's result that is one of its operand's, and the other way round; nothing where it is
/// reduced, or its parts do not follow each other.
std::optional<LongDimension> after_reduction(const LongDimension& of, const Dimensions& reduced) {
  if (parts_in(of, reduced) > 0) return std::nullopt;
  const auto before = std::ranges::count_if(reduced, [&](int64_t d) { return d < of.first; });
  return LongDimension{of.first - before, of.count, of.size};
}

std::optional<LongDimension> before_reduction(const LongDimension& of, const Dimensions& reduced, int64_t rank) {
  Dimensions kept;
  for (int64_t d = 0; d < rank; ++d) {
    if (std::ranges::find(reduced, d) == reduced.end()) kept.push_back(d);
  }
  const int64_t first = kept[static_cast<size_t>(of.first)];
  if (kept[static_cast<size_t>(of.first + of.count - 1)] != first + of.count - 1) return std::nullopt;
  return LongDimension{first, of.count, of.size};
}

/// The operator that a computation is on its two parameters, which it may convert before and after.
std::optional<Opcode> operator_of(const Computation& body) {
  const auto converted = [&](InstructionId id) {
    while (body[id].opcode == Opcode::Convert) id = body[id].operands[0];
    return id;
  };
  const Instruction& last = body[converted(body.root)];
  if (last.operands.size() != 2 || body.parameters.size() != 2) return std::nullopt;
  const std::vector<InstructionId> operands{converted(last.operands[0]), converted(last.operands[1])};
  const bool both = std::ranges::is_permutation(operands, body.parameters);
  return both ? std::optional(last.opcode) : std::nullopt;
}

/// A value that combines with any other to that one.
std::optional<double> neutral_number(const hlo::Module& module, const Instruction& reduce) {
  // Floats of 8 bits need not have infinities, or a zero that is negative.
  if (reduce.operands.size() != 2 || hlo::kind(reduce.shape.type) != hlo::TypeKind::Float ||
      hlo::bit_width(reduce.shape.type) < 16)
    return std::nullopt;
  switch (operator_of(module[reduce.called[0]]).value_or(Opcode::Tuple)) {
    case Opcode::Add:
      return -0.0;
    case Opcode::Multiply:
      return 1;
    case Opcode::Minimum:
      return std::numeric_limits<double>::infinity();
    case Opcode::Maximum:
      return -std::numeric_limits<double>::infinity();
    default:
      return std::nullopt;
  }
}

/// The dimension of a reshape's result that is one of its operand's.
std::optional<LongDimension> after_reshape(const Shape& from, const LongDimension& of, const Shape& to) {
  int64_t before = 1;
  for (int64_t d = 0; d < of.first; ++d) before *= from.dim(d);
  LongDimension made{0, 0, of.size};
  int64_t elements = 1;
  for (; made.first < to.rank() && (elements < before || to.dim(made.first) == 1); ++made.first)
    elements *= to.dim(made.first);
  if (elements != before) return std::nullopt;
  const int64_t own = elements_of(from, of);
  for (elements = 1; made.first + made.count < to.rank() && elements < own; ++made.count)
    elements *= to.dim(made.first + made.count);
  return elements == own ? std::optional(made) : std::nullopt;
}

/// The dimension of a transpose's operand that is one of its result's.
std::optional<LongDimension> before_transpose(const Computation& from, const Instruction& it, const LongDimension& to) {
  if (it.opcode != Opcode::Transpose || !it.shape.has_default_layout() ||
      !from.operand_shape(it, 0).has_default_layout())
    return std::nullopt;
  const auto place = it.dimensions().begin() + to.first;
  for (int64_t i = 1; i < to.count; ++i) {
    if (place[i] != place[0] + i) return std::nullopt;
  }
  return LongDimension{place[0], to.count, to.size};
}

bool reduces_arrays(const Instruction& it) {
  return it.opcode == Opcode::Reduce && it.operands.size() == 2 && it.shape.is_array();
}

}  // namespace

Shape longer(const Shape& shape, const LongDimension& to) {
  Dimensions dims(shape.dims.begin(), shape.dims.begin() + to.first);
  dims.push_back(to.size);
  dims.insert(dims.end(), shape.dims.begin() + to.first + to.count, shape.dims.end());
  return hlo::array_shape(shape.type, dims);
}

// --- which arrays ---

bool PaddedArrays::is_result(InstructionId id) const {
  return std::ranges::any_of(users_[static_cast<size_t>(id)],
                             [&](InstructionId user) { return user < 0 || entry_[user].opcode == Opcode::Tuple; });
}

bool PaddedArrays::computes(InstructionId id) const {
  const Instruction& it = entry_[id];
  if (!it.shape.is_array() || !it.shape.has_default_layout() || is_result(id)) return false;
  if (it.opcode == Opcode::Reduce || it.opcode == Opcode::Reshape)
    return (it.opcode == Opcode::Reshape || reduces_arrays(it)) && entry_.operand_shape(it, 0).has_default_layout();
  return hlo::is_elementwise(it.opcode) && it.shape.rank() > 0 &&
         std::ranges::all_of(it.operands, [&](InstructionId operand) {
           const Shape& shape = entry_[operand].shape;
           return shape.rank() == 0 || (hlo::same_dims(shape, it.shape) && shape.has_default_layout());
         });
}

bool PaddedArrays::has_neutral_value(const Instruction& reduce) const {
  return neutral_number(module_, reduce).has_value() && entry_.operand_shape(reduce, 0).has_default_layout();
}

bool PaddedArrays::is_longer(InstructionId id, const LongDimension& to) const {
  const auto found = members_.arrays.find(id);
  return found != members_.arrays.end() && found->second == to;
}

std::optional<LongDimension> PaddedArrays::dimension_of_operand(InstructionId id, const LongDimension& to) const {
  const Instruction& it = entry_[id];
  if (it.opcode == Opcode::Reduce) return before_reduction(to, it.dimensions(), entry_.operand_shape(it, 0).rank());
  return it.opcode == Opcode::Reshape ? after_reshape(it.shape, to, entry_.operand_shape(it, 0)) : to;
}

bool PaddedArrays::grow(InstructionId id, const LongDimension& to, Members& made) const {
  std::vector<InstructionId> pending;
  const auto join = [&](InstructionId one, const LongDimension& as) {
    for (const Members* known : {&members_, &std::as_const(made)}) {
      if (const auto found = known->arrays.find(one); found != known->arrays.end()) return found->second == as;
    }
    if (!computes(one) || made.arrays.size() == kMostMembers) return false;
    made.arrays[one] = as;
    pending.push_back(one);
    return true;
  };
  if (!join(id, to)) return false;
  while (!pending.empty()) {
    const InstructionId one = pending.back();
    pending.pop_back();
    const Instruction& it = entry_[one];
    const LongDimension as = made.arrays.at(one);
    const std::optional<LongDimension> before = dimension_of_operand(one, as);
    if (!before) return false;
    const bool is_one = it.opcode == Opcode::Reduce || it.opcode == Opcode::Reshape;
    for (const InstructionId operand : std::span(it.operands).first(is_one ? 1 : it.operands.size())) {
      if (entry_[operand].shape.rank() == 0) continue;
      if (!computes(operand) || !dimension_of_operand(operand, *before)) {
        made.read[operand] = *before;
      } else if (!join(operand, *before)) {
        return false;
      }
    }
    for (const InstructionId user : users_[static_cast<size_t>(one)]) {
      const Instruction& reader = entry_[user];
      if (hlo::is_elementwise(reader.opcode)) {
        if (!join(user, as)) return false;
      } else if (reader.opcode == Opcode::Reshape) {
        const auto after = after_reshape(it.shape, as, reader.shape);
        if (after && computes(user) && !join(user, *after)) return false;
      } else if (reader.opcode == Opcode::Reduce && !takes_in(user, as, made)) {
        const auto after = after_reduction(as, reader.dimensions());
        if (!after || !reduces_arrays(reader) || !join(user, *after)) return false;
      }
    }
  }
  return true;
}

/// Records a reduction along a longer dimension, if it is one.
bool PaddedArrays::takes_in(InstructionId reduction, const LongDimension& as, Members& made) const {
  const Instruction& it = entry_[reduction];
  if (it.opcode != Opcode::Reduce || !reduces_arrays(it) || parts_in(as, it.dimensions()) != as.count ||
      !has_neutral_value(it))
    return false;
  made.reduced[reduction] = as;
  return true;
}

bool PaddedArrays::is_read_by_these(InstructionId id, const Members& made) const {
  return std::ranges::all_of(users_[static_cast<size_t>(id)], [&](InstructionId user) {
    return made.arrays.contains(user) || made.reduced.contains(user) || members_.arrays.contains(user);
  });
}

std::optional<PaddedArrays::Members> PaddedArrays::members_for(InstructionId id, const LongDimension& to) const {
  InstructionId source = id;  // a reshape alone computes nothing
  while (entry_[source].opcode == Opcode::Reshape) source = entry_[source].operands[0];
  Members made;
  if (!computes(source) || !dimension_of_operand(id, to) || !grow(id, to, made)) return std::nullopt;
  // What else is reduced of an array that is read: the kernel that reads its rows does that too.
  const std::map<InstructionId, LongDimension> read = made.read;
  for (const auto& [array, as] : read) {
    const Opcode opcode = entry_[array].opcode;
    if (opcode == Opcode::Constant || opcode == Opcode::Iota || opcode == Opcode::Broadcast) continue;
    for (const InstructionId user : users_[static_cast<size_t>(array)]) {
      if (user < 0 || made.arrays.contains(user) || takes_in(user, as, made)) continue;
      Members more = made;
      if (!hlo::is_elementwise(entry_[user].opcode) || !grow(user, as, more)) continue;
      const bool only_here = std::ranges::all_of(more.arrays, [&](const auto& one) {
        return made.arrays.contains(one.first) || is_read_by_these(one.first, more);
      });
      if (only_here) made = more;
    }
  }
  return made;
}

void PaddedArrays::add(const Members& members) {
  members_.arrays.insert(members.arrays.begin(), members.arrays.end());
  members_.reduced.insert(members.reduced.begin(), members.reduced.end());
}

void PaddedArrays::fill_with_zeros(InstructionId id) {
  zeros_.insert(id);
  while (entry_[id].opcode == Opcode::Reshape && members_.arrays.contains(entry_[id].operands[0]))
    zeros_.insert(id = entry_[id].operands[0]);
}

// --- in a new entry ---

InstructionId PaddedArrayWriter::scalar(const std::string& name, hlo::ElementType type, double value) {
  const Shape shape = hlo::array_shape(type, {});
  hlo::Literal literal(shape);  // zero, of any type
  if (value != 0 || std::signbit(value)) {
    literal = hlo::kind(type) == hlo::TypeKind::Float
                  ? hlo::literal_of<double>(shape, std::vector<double>{value})
                  : hlo::literal_of<int64_t>(shape, std::vector<int64_t>{static_cast<int64_t>(value)});
  }
  return add_(name, Opcode::Constant, shape, {}, hlo::ConstantAttributes{literal, false}, {});
}

/// An array of this shape in the old entry, whose filling becomes one number.
InstructionId PaddedArrayWriter::filled(const std::string& name, const Shape& shape, InstructionId array,
                                        const LongDimension& to, double with) {
  const Shape all = longer(shape, to);
  const auto typed = [&](hlo::ElementType type) { return hlo::array_shape(type, all.dims); };
  const auto repeated = [&](InstructionId number, hlo::ElementType type) {
    return add_(name + ".filling", Opcode::Broadcast, typed(type), {number}, hlo::DimensionsAttributes{}, {});
  };
  const InstructionId place =
      add_(name + ".place", Opcode::Iota, typed(hlo::ElementType::S32), {}, hlo::DimensionsAttributes{{to.first}}, {});
  const InstructionId end = repeated(
      scalar(name + ".end", hlo::ElementType::S32, static_cast<double>(elements_of(shape, to))), hlo::ElementType::S32);
  const InstructionId own = add_(name + ".own", Opcode::Compare, typed(hlo::ElementType::Pred), {place, end},
                                 hlo::CompareAttributes{hlo::CompareAttributes::Direction::LT}, {});
  const InstructionId filling = repeated(scalar(name + ".number", shape.type, with), shape.type);
  return add_(name + ".filled", Opcode::Select, all, {own, array, filling}, {}, {});
}

InstructionId PaddedArrayWriter::own_part(const std::string& name, const Shape& shape, InstructionId array,
                                          std::vector<LongDimension> dimensions) {
  Shape own = shape;
  std::ranges::sort(dimensions, std::greater<>());
  bool merges = false;
  for (const LongDimension& one : dimensions) {
    own = longer(own, {one.first, one.count, elements_of(shape, one)});
    merges |= one.count > 1;
  }
  const Dimensions starts(own.dims.size(), 0), steps(own.dims.size(), 1);
  array = add_(name + ".cut", Opcode::Slice, hlo::array_shape(shape.type, own.dims), {array},
               hlo::SliceAttributes{starts, own.dims, steps}, {});
  return merges ? add_(name + ".parts", Opcode::Reshape, hlo::array_shape(shape.type, shape.dims), {array}, {}, {})
                : array;
}

InstructionId PaddedArrayWriter::value(InstructionId id, const LongDimension& to) {
  const auto found = values_.find({id, to});
  if (found != values_.end()) return found->second;
  const Instruction& it = from_[id];
  InstructionId made = -1;
  if (it.opcode == Opcode::Broadcast && it.shape.has_default_layout() && parts_in(to, it.dimensions()) == 0) {
    made = add_(it.name + ".long", Opcode::Broadcast, longer(it.shape, to), {moved_(it.operands[0])},
                hlo::DimensionsAttributes{renumbered(it.dimensions(), to)}, {});
  } else if (it.opcode == Opcode::Iota && (to.count == 1 || !has(to, it.dimensions()[0]))) {
    made = add_(it.name + ".long", Opcode::Iota, longer(it.shape, to), {},
                hlo::DimensionsAttributes{renumbered(it.dimensions(), to)}, {});
  } else if (const auto before = before_transpose(from_, it, to)) {
    Dimensions permutation;
    for (const int64_t d : it.dimensions()) {
      if (!has(*before, d) || d == before->first) permutation.push_back(renumbered(d, *before));
    }
    made = add_(it.name + ".long", Opcode::Transpose, longer(it.shape, to), {value(it.operands[0], *before)},
                hlo::DimensionsAttributes{permutation}, {});
  } else {
    made = moved_(id);
    const Shape whole = longer(it.shape, {to.first, to.count, elements_of(it.shape, to)});
    if (to.count > 1) made = add_(it.name + ".whole", Opcode::Reshape, whole, {made}, {}, {});
    const Shape made_longer = longer(it.shape, to);
    made = add_(it.name + ".long", Opcode::Pad, made_longer, {made, scalar("zero", it.shape.type, 0)},
                hlo::padding_to(whole.dims, made_longer.dims), {});
  }
  values_[{id, to}] = made;
  return made;
}

InstructionId PaddedArrayWriter::with_zeros(InstructionId id, const LongDimension& to) {
  const InstructionId any = value(id, to);
  return arrays_.is_filled_with_zeros(id) ? any : filled(from_[id].name, from_[id].shape, any, to, 0);
}

InstructionId PaddedArrayWriter::computed(InstructionId id, const LongDimension& to) {
  const Instruction& it = from_[id];
  std::vector<InstructionId> operands;
  hlo::Attributes attributes = it.attributes;
  if (it.opcode == Opcode::Reduce) {
    const LongDimension before = *before_reduction(to, it.dimensions(), from_.operand_shape(it, 0).rank());
    operands = {value(it.operands[0], before), moved_(it.operands[1])};
    attributes = hlo::DimensionsAttributes{renumbered(it.dimensions(), before)};
  } else if (it.opcode == Opcode::Reshape) {
    const InstructionId operand = it.operands[0];
    const LongDimension before = *after_reshape(it.shape, to, from_[operand].shape);
    operands = {value(operand, before)};
    if (longer(from_[operand].shape, before).dims == longer(it.shape, to).dims) return operands[0];
  } else {
    for (const InstructionId operand : it.operands)
      operands.push_back(from_[operand].shape.rank() == 0 ? moved_(operand) : value(operand, to));
  }
  return add_(it.name + ".long", it.opcode, longer(it.shape, to), operands, attributes, it.called);
}

std::optional<InstructionId> PaddedArrayWriter::replaced(InstructionId id) {
  const Instruction& it = from_[id];
  if (const auto found = arrays_.all().arrays.find(id); found != arrays_.all().arrays.end()) {
    InstructionId made = computed(id, found->second);
    const bool is_filled = it.opcode == Opcode::Reshape && arrays_.is_filled_with_zeros(it.operands[0]);
    if (arrays_.is_filled_with_zeros(id) && !is_filled) made = filled(it.name, it.shape, made, found->second, 0);
    values_[{id, found->second}] = made;
    return own_part(it.name, it.shape, made, {found->second});
  }
  const auto found = arrays_.all().reduced.find(id);
  if (found == arrays_.all().reduced.end()) return std::nullopt;
  const LongDimension& to = found->second;
  const InstructionId operand =
      filled(it.name, from_.operand_shape(it, 0), value(it.operands[0], to), to, *neutral_number(module_, it));
  return add_(it.name + ".long", Opcode::Reduce, it.shape, {operand, moved_(it.operands[1])},
              hlo::DimensionsAttributes{renumbered(it.dimensions(), to)}, it.called);
}

InstructionId PaddedArrayWriter::add_product(InstructionId id, InstructionId made,
                                             const std::vector<LongDimension>& dimensions) {
  const Instruction& it = from_[id];
  for (const LongDimension& one : dimensions) {
    if (dimensions.size() == 1) {
      values_[{id, one}] = made;
      continue;
    }
    // The other one is cut: a view of memory.
    const LongDimension& other = dimensions[&one == dimensions.data() ? 1 : 0];
    LongDimension there = other;
    if (other.first > one.first) there.first -= one.count - 1;
    values_[{id, one}] = own_part(it.name, longer(it.shape, one), made, {there});
  }
  return own_part(it.name, it.shape, made, dimensions);
}

}  // namespace strata::emitters

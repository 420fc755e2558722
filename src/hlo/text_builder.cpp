#include "hlo/text_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace strata::hlo {
namespace {

/// Comes after all marks.
constexpr int64_t kLastMark = 2147483647;

std::string list(const std::vector<int64_t>& numbers) { return fmt::format("{{{}}}", fmt::join(numbers, ",")); }

std::string names(const std::vector<TextBuilder::Value>& values) {
  std::string all;
  for (const auto& value : values) all += (all.empty() ? "" : ", ") + value.name;
  return all;
}

}  // namespace

TextBuilder::Value TextBuilder::add(const Shape& shape, std::string_view call) {
  Value made{fmt::format("v{}", lines_.size()), shape};
  lines_.push_back(fmt::format("{} = {} {}\n", made.name, to_string(shape), call));
  return made;
}

TextBuilder::Value TextBuilder::parameter(int64_t number, const Shape& shape) {
  return add(shape, fmt::format("parameter({})", number));
}

TextBuilder::Value TextBuilder::constant(ElementType type, std::string_view value) {
  const bool complex = is_complex(type);
  return add(array_shape(type, {}), fmt::format("constant({}{}{})", complex ? "(" : "", value, complex ? ", 0)" : ""));
}

TextBuilder::Value TextBuilder::iota(ElementType type, const Dims& dims, int64_t dimension) {
  return add(array_shape(type, dims), fmt::format("iota(), iota_dimension={}", dimension));
}

TextBuilder::Value TextBuilder::unary(std::string_view name, const Value& of) {
  return add(array_shape(of.type(), of.dims()), fmt::format("{}({})", name, of.name));
}

TextBuilder::Value TextBuilder::spread(const Value& of, const Dims& dims) {
  return of.dims().empty() && !dims.empty() ? broadcast(of, dims, {}) : of;
}

TextBuilder::Value TextBuilder::binary(std::string_view name, Value a, Value b) {
  const Dims dims = a.dims().empty() ? b.dims() : a.dims();
  a = spread(a, dims);
  b = spread(b, dims);
  return add(array_shape(a.type(), dims), fmt::format("{}({}, {})", name, a.name, b.name));
}

TextBuilder::Value TextBuilder::compare(Value a, Value b, std::string_view direction) {
  const Dims dims = a.dims().empty() ? b.dims() : a.dims();
  a = spread(a, dims);
  b = spread(b, dims);
  return add(array_shape(ElementType::Pred, dims),
             fmt::format("compare({}, {}), direction={}", a.name, b.name, direction));
}

TextBuilder::Value TextBuilder::select(Value which, Value yes, Value no) {
  Dims dims = which.dims();
  if (dims.empty()) dims = yes.dims().empty() ? no.dims() : yes.dims();
  which = spread(which, dims);
  yes = spread(yes, dims);
  no = spread(no, dims);
  return add(array_shape(yes.type(), dims), fmt::format("select({}, {}, {})", which.name, yes.name, no.name));
}

TextBuilder::Value TextBuilder::convert(const Value& of, ElementType type) {
  if (of.type() == type) return of;
  return add(array_shape(type, of.dims()), fmt::format("convert({})", of.name));
}

TextBuilder::Value TextBuilder::real(const Value& of) {
  return is_complex(of.type()) ? add(array_shape(part_type(of.type()), of.dims()), fmt::format("real({})", of.name))
                               : of;
}

TextBuilder::Value TextBuilder::conjugate(const Value& of) {
  if (!is_complex(of.type())) return of;
  const Value imaginary = add(array_shape(part_type(of.type()), of.dims()), fmt::format("imag({})", of.name));
  const Value negated = unary("negate", imaginary);
  return add(array_shape(of.type(), of.dims()), fmt::format("complex({}, {})", real(of).name, negated.name));
}

TextBuilder::Value TextBuilder::broadcast(const Value& of, const Dims& dims, const Dims& at) {
  return add(array_shape(of.type(), dims), fmt::format("broadcast({}), dimensions={}", of.name, list(at)));
}

TextBuilder::Value TextBuilder::reshape(const Value& of, const Dims& dims) {
  if (of.dims() == dims && of.shape.has_default_layout()) return of;
  return add(array_shape(of.type(), dims), fmt::format("reshape({})", of.name));
}

TextBuilder::Value TextBuilder::slice(const Value& of, int64_t dimension, int64_t from, int64_t to) {
  Dims dims = of.dims();
  std::vector<std::string> parts;
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool here = static_cast<int64_t>(d) == dimension;
    parts.push_back(fmt::format("[{}:{}]", here ? from : 0, here ? to : dims[d]));
    if (here) dims[d] = to - from;
  }
  if (dims == of.dims()) return of;
  return add(array_shape(of.type(), dims), fmt::format("slice({}), slice={{{}}}", of.name, fmt::join(parts, ", ")));
}

TextBuilder::Value TextBuilder::cut(const Value& of, const Dims& dims) {
  Value result = of;
  for (size_t d = 0; d < dims.size(); ++d) result = slice(result, static_cast<int64_t>(d), 0, dims[d]);
  return result;
}

TextBuilder::Value TextBuilder::pad(const Value& of, const Dims& dims) {
  if (of.dims() == dims) return of;
  std::vector<std::string> parts;
  for (size_t d = 0; d < dims.size(); ++d) parts.push_back(fmt::format("0_{}", dims[d] - of.dims()[d]));
  const Value zero = constant(of.type(), 0);
  return add(array_shape(of.type(), dims),
             fmt::format("pad({}, {}), padding={}", of.name, zero.name, fmt::join(parts, "x")));
}

TextBuilder::Value TextBuilder::reverse(const Value& of, const Dims& dimensions) {
  return add(array_shape(of.type(), of.dims()), fmt::format("reverse({}), dimensions={}", of.name, list(dimensions)));
}

TextBuilder::Value TextBuilder::concatenate(const std::vector<Value>& parts, int64_t dimension) {
  Dims dims = parts.front().dims();
  int64_t& size = dims[static_cast<size_t>(dimension)];
  size = 0;
  for (const Value& part : parts) size += part.dims()[static_cast<size_t>(dimension)];
  return add(array_shape(parts.front().type(), dims),
             fmt::format("concatenate({}), dimensions={{{}}}", names(parts), dimension));
}

TextBuilder::Value TextBuilder::transpose(const Value& of) {
  return add(with_transposed_matrices(of.shape),
             fmt::format("transpose({}), dimensions={}", of.name, list(transposed_matrices_order(of.shape.rank()))));
}

TextBuilder::Value TextBuilder::dynamic_slice(const Value& of, const std::vector<Value>& starts, const Dims& sizes) {
  return add(array_shape(of.type(), sizes),
             fmt::format("dynamic-slice({}, {}), dynamic_slice_sizes={}", of.name, names(starts), list(sizes)));
}

TextBuilder::Value TextBuilder::dynamic_update(const Value& of, const Value& update, const std::vector<Value>& starts) {
  return add(array_shape(of.type(), of.dims()),
             fmt::format("dynamic-update-slice({}, {}, {})", of.name, update.name, names(starts)));
}

TextBuilder::Value TextBuilder::product(const Value& a, const Value& b, bool transposed) {
  const Dims dims{a.dims()[0], a.dims()[1], b.dims()[transposed ? 1 : 2]};
  return add(array_shape(a.type(), dims),
             fmt::format("dot({}, {}), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, "
                         "rhs_contracting_dims={{{}}}, operand_precision={{highest,highest}}",
                         a.name, b.name, transposed ? 2 : 1));
}

TextBuilder::Value TextBuilder::tuple(const std::vector<Value>& elements) {
  std::vector<Shape> shapes;
  for (const Value& value : elements) shapes.push_back(value.shape);
  return add(tuple_shape(std::move(shapes)), fmt::format("tuple({})", names(elements)));
}

TextBuilder::Value TextBuilder::element(const Value& of, int64_t index) {
  return add(of.shape.elements[static_cast<size_t>(index)],
             fmt::format("get-tuple-element({}), index={}", of.name, index));
}

std::string TextBuilder::called(std::string_view what) { return fmt::format("{}{}{}", prefix_, what, called_++); }

void TextBuilder::take(TextBuilder& made, std::string_view name, const Value& root) {
  computations_ += made.computations_ + made.computation(name, root);
}

std::vector<TextBuilder::Value> TextBuilder::repeat(int64_t times, const std::vector<Value>& state, const Step& step) {
  return loop(times, state, step, /*until_false=*/false);
}

std::vector<TextBuilder::Value> TextBuilder::repeat_while(int64_t most, const std::vector<Value>& state,
                                                          const Step& step) {
  return loop(most, state, step, /*until_false=*/true);
}

std::vector<TextBuilder::Value> TextBuilder::loop(int64_t most, const std::vector<Value>& state, const Step& step,
                                                  bool until_false) {
  std::vector<Value> all{constant(ElementType::S32, 0)};
  all.insert(all.end(), state.begin(), state.end());
  const Value first = tuple(all);
  const std::string condition_name = called("condition"), body_name = called("body");
  TextBuilder condition(condition_name + "."), body(body_name + ".");
  const Value asked = condition.parameter(0, first.shape);
  const Value few = condition.compare(condition.element(asked, 0), condition.constant(ElementType::S32, most), "LT");
  take(condition, condition_name, until_false ? condition.binary("and", few, condition.element(asked, 1)) : few);
  const Value before = body.parameter(0, first.shape);
  const Value number = body.element(before, 0);
  std::vector<Value> values;
  for (size_t i = 0; i < state.size(); ++i) values.push_back(body.element(before, static_cast<int64_t>(i) + 1));
  std::vector<Value> next = step(body, number, values);
  next.insert(next.begin(), body.binary("add", number, body.constant(ElementType::S32, 1)));
  take(body, body_name, body.tuple(next));
  const Value last =
      add(first.shape, fmt::format("while({}), condition={}, body={}", first.name, condition_name, body_name));
  std::vector<Value> results;
  for (size_t i = 0; i < state.size(); ++i) results.push_back(element(last, static_cast<int64_t>(i) + 1));
  return results;
}

TextBuilder::Value TextBuilder::at_largest(const Value& numbers, const Value& marks, int64_t dimension) {
  const std::string name = called("larger");
  TextBuilder larger(name + ".");
  const auto scalar = [&](int64_t number, const Value& of) {
    return larger.parameter(number, array_shape(of.type(), {}));
  };
  const Value a = scalar(0, numbers), a_mark = scalar(1, marks), b = scalar(2, numbers), b_mark = scalar(3, marks);
  const Value earlier = larger.binary("and", larger.compare(a, b, "EQ"), larger.compare(a_mark, b_mark, "LE"));
  const Value stays = larger.binary("or", larger.compare(a, b, "GT"), earlier);
  take(larger, name, larger.tuple({larger.select(stays, a, b), larger.select(stays, a_mark, b_mark)}));
  Dims dims = numbers.dims();
  dims.erase(dims.begin() + dimension);
  const Value least_number = constant(numbers.type(), "-inf"), last_mark = constant(marks.type(), kLastMark);
  const Value both = add(tuple_shape({array_shape(numbers.type(), dims), array_shape(marks.type(), dims)}),
                         fmt::format("reduce({}, {}, {}, {}), dimensions={{{}}}, to_apply={}", numbers.name, marks.name,
                                     least_number.name, last_mark.name, dimension, name));
  return element(both, 1);
}

TextBuilder::Value TextBuilder::reduced(const Value& of, const Dims& dimensions, const Value& first,
                                        std::string_view op) {
  const std::string name = called(op);
  TextBuilder of_two(name + ".");
  const Shape scalar = array_shape(of.type(), {});
  const Value a = of_two.parameter(0, scalar), b = of_two.parameter(1, scalar);
  take(of_two, name, of_two.binary(op, a, b));
  Dims dims;
  for (int64_t d = 0; d < std::ssize(of.dims()); ++d) {
    if (std::find(dimensions.begin(), dimensions.end(), d) == dimensions.end())
      dims.push_back(of.dims()[static_cast<size_t>(d)]);
  }
  return add(array_shape(of.type(), dims),
             fmt::format("reduce({}, {}), dimensions={}, to_apply={}", of.name, first.name, list(dimensions), name));
}

TextBuilder::Value TextBuilder::least(const Value& of, const Dims& dimensions, const Value& most) {
  return reduced(of, dimensions, most, "minimum");
}

TextBuilder::Value TextBuilder::sum(const Value& of, const Dims& dimensions) {
  return reduced(of, dimensions, constant(of.type(), 0), "add");
}

std::pair<TextBuilder::Value, TextBuilder::Value> TextBuilder::sorted(const Value& keys, const Value& marks,
                                                                      std::string_view direction) {
  const std::string name = called("before");
  TextBuilder before(name + ".");
  const Shape key = array_shape(keys.type(), {}), mark = array_shape(marks.type(), {});
  const Value a = before.parameter(0, key), b = before.parameter(1, key);
  before.parameter(2, mark);
  before.parameter(3, mark);
  take(before, name, before.compare(a, b, direction));
  const Value both = add(tuple_shape({array_shape(keys.type(), keys.dims()), array_shape(marks.type(), marks.dims())}),
                         fmt::format("sort({}, {}), dimensions={{{}}}, is_stable=true, to_apply={}", keys.name,
                                     marks.name, keys.dims().size() - 1, name));
  return {element(both, 0), element(both, 1)};
}

std::string TextBuilder::computation(std::string_view name, const Value& root) const {
  std::string text = fmt::format("{} {{\n", name);
  for (size_t i = 0; i < lines_.size(); ++i)
    text += (root.name == fmt::format("v{}", i) ? "  ROOT " : "  ") + lines_[i];
  return text + "}\n";
}

std::string TextBuilder::module(const Value& root) const {
  return "HloModule m\n" + computations_ + "ENTRY " + computation("expansion", root);
}

}  // namespace strata::hlo

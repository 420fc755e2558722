// The parts of HLO text that the parser of modules (parser.cpp) is made of.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>

#include "hlo/cursor.h"
#include "hlo/hlo.h"

namespace strata::hlo {

struct ParsedShape {
  Shape shape;
  /// Whether a layout has tiles: elements do not lie in memory as the dimensions alone say.
  bool tiled = false;
};

/// "f32[2,3]{1,0:T(8,128)}", "(f32[], (s32[4]))". Error where sizes overflow or are dynamic.
Result<ParsedShape> parse_shape(Cursor& cursor);
/// Whether a shape, not a name, comes next.
bool shape_ahead(Cursor cursor);

/// What stands in the parentheses of constant(…). Error where a number does not fit the type or the count is another.
/// Where the elements were left out in printing ("{...}"), they are made up: small numbers, the same every time.
Result<ConstantAttributes> parse_constant(Cursor& cursor, const Shape& shape);
/// The same without "{...}".
Result<Literal> parse_literal(Cursor& cursor, const Shape& shape);

/// The attributes of one instruction, as they stand in the text.
class RawAttributeList {
 public:
  struct Entry {
    std::string_view name, value;
    size_t offset = 0;  ///< of the name
    bool used = false;
  };
  static Result<RawAttributeList> parse(Cursor& cursor);

  /// Marks it as used; null where there is none.
  const Entry* take(std::string_view name);
  std::vector<Entry>& entries() { return entries_; }

 private:
  std::vector<Entry> entries_;
};

/// Typed values of an instruction's attributes. Each marks the attribute as used; error where it has another form, or
/// is missing and has no usual value.
class AttributeValues {
 public:
  using Integers = std::vector<int64_t>;

  AttributeValues(Cursor& cursor, RawAttributeList& list, const Instruction& instruction)
      : cursor_(cursor), list_(list), instruction_(instruction) {}

  /// {1,2,3}; none where an optional one is missing.
  Result<Integers> integers(std::string_view name, bool optional = false);
  /// `otherwise` where it is missing, if that is not negative.
  Result<int64_t> integer(std::string_view name, int64_t otherwise = -1);
  Result<bool> flag(std::string_view name, bool otherwise);
  Result<float> real(std::string_view name);
  /// The value's place in `words`.
  Result<size_t> one_of(std::string_view name, std::initializer_list<std::string_view> words);

  tl::unexpected<Error> missing(std::string_view name) const;
  /// At the attribute, or after the instruction where it is not given.
  tl::unexpected<Error> error(std::string_view name, std::string message);

 protected:
  Cursor& cursor_;
  RawAttributeList& list_;
  const Instruction& instruction_;
};

/// window={size=2x2 stride=… pad=0_1x… lhs_dilate=… rhs_dilate=… rhs_reversal=…}.
Result<std::vector<WindowDimension>> parse_window(const Cursor& cursor, const RawAttributeList::Entry& entry);
/// padding=0_1_2x3_4.
Result<PadAttributes> parse_padding(const Cursor& cursor, const RawAttributeList::Entry& entry);
/// b01f_01io->b01f, into the dimensions of `result`; false where it has another form.
bool parse_dim_labels(std::string_view text, ConvolutionAttributes& result);

/// The attributes of an instruction whose opcode, shape and operands are set; `called` names its computations in the
/// order of Instruction::called.
struct ParsedAttributes {
  Attributes attributes;
  std::vector<std::pair<std::string, size_t>> called;  ///< name and offset in the text
};
Result<ParsedAttributes> parse_attributes(Cursor& cursor, RawAttributeList& list, const Instruction& instruction,
                                          const std::vector<Shape>& operand_shapes);

}  // namespace strata::hlo

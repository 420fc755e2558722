#include "hlo/npy.h"

#include <optional>

#include "hlo/compute.h"
#include "hlo/evaluate_parts.h"
#include "hlo/strided.h"
#include "support/npy_format.h"

namespace strata::hlo {
namespace {

/// The type of a file's elements; raw bytes are of the type that is wanted.
std::optional<ElementType> type_of(std::string_view descr, ElementType wanted) {
  if (descr.size() < 5) return std::nullopt;
  const std::string_view code = descr.substr(2, descr.size() - 3);  // without quotes and byte order
  if (descr[1] == '>') return std::nullopt;
  for (const auto& [name, type] : {std::pair{"b1", ElementType::Pred},
                                   {"i1", ElementType::S8},
                                   {"i2", ElementType::S16},
                                   {"i4", ElementType::S32},
                                   {"i8", ElementType::S64},
                                   {"u1", ElementType::U8},
                                   {"u2", ElementType::U16},
                                   {"u4", ElementType::U32},
                                   {"u8", ElementType::U64},
                                   {"f2", ElementType::F16},
                                   {"f4", ElementType::F32},
                                   {"f8", ElementType::F64},
                                   {"c8", ElementType::C64},
                                   {"c16", ElementType::C128}}) {
    if (code == name) return type;
  }
  const bool raw = (code == "V1" && byte_width(wanted) == 1) || (code == "V2" && byte_width(wanted) == 2);
  return raw && is_float(wanted) ? std::optional(wanted) : std::nullopt;
}

/// A type that NumPy has and that holds all values of `type`.
ElementType numpy_type(ElementType type) {
  if (is_float(type) && bit_width(type) <= 16 && type != ElementType::F16) return ElementType::F32;
  if (is_integer(type) && bit_width(type) < 8) return is_signed(type) ? ElementType::S8 : ElementType::U8;
  return type;
}

std::string descr_of(ElementType type) {
  const int bytes = byte_width(type);
  const char kind_letter = type == ElementType::Pred ? 'b'
                           : is_signed(type)         ? 'i'
                           : is_unsigned(type)       ? 'u'
                           : is_float(type)          ? 'f'
                                                     : 'c';
  return fmt::format("{}{}{}", bytes == 1 ? '|' : '<', kind_letter, bytes);
}

}  // namespace

Result<Literal> read_npy(const std::string& path, const Shape& shape) {
  STRATA_TRY(const NpyFile file, read_npy_file(path));
  const auto type = type_of(file.descr, shape.type);
  const bool kinds_fit = type && (kind(*type) == kind(shape.type) || (is_integer(*type) && is_integer(shape.type)));
  if (!kinds_fit) {
    return tl::unexpected(Error{ErrorCode::InvalidInput,
                                fmt::format("'{}' holds elements of type {}, not {}", path,
                                            file.descr.empty() ? "unknown" : file.descr, name(shape.type)),
                                fmt::format("convert it with astype; {} suits", descr_of(numpy_type(shape.type))),
                                {}});
  }
  if (file.shape != shape.dims) {
    return with_remedy(
        invalid("'{}' has shape [{}]; expected {}", path, fmt::join(file.shape, ", "), to_string_without_layout(shape)),
        "save an array of the parameter's shape");
  }
  Literal read(array_shape(*type, shape.dims));
  const size_t width = static_cast<size_t>(byte_width(*type));
  STRATA_CHECK(check_npy_size(path, file, width));
  Strided from{0, row_major_strides(shape.dims)};
  int64_t stride = 1;
  for (size_t d = 0; d < shape.dims.size() && file.fortran_order; ++d) {
    from.strides[d] = stride;
    stride *= shape.dims[d];
  }
  copy_strided(shape.dims, read.mutable_bytes(), {0, row_major_strides(shape.dims)},
               reinterpret_cast<const std::byte*>(file.data.data()), from, width);
  if (*type == ElementType::Pred) {
    // Any byte but 0 is true.
    std::byte* bytes = read.mutable_bytes();
    for (size_t i = 0; i < read.byte_size(); ++i) bytes[i] = std::byte{bytes[i] != std::byte{0}};
  }
  Literal result = *type == shape.type ? read.with_shape(shape) : evaluate_convert(read, shape);
  const bool is_narrower = is_integer(shape.type) && !identical(evaluate_convert(result, read.shape()), read);
  if (is_narrower) {
    return with_remedy(invalid("'{}' holds numbers that do not fit {}", path, name(shape.type)),
                       "take them modulo the type's range, or another parameter type");
  }
  return result;
}

std::string npy_bytes(const Literal& literal) {
  const ElementType type = numpy_type(literal.type());
  const Literal written =
      type == literal.type() ? literal : evaluate_convert(literal, array_shape(type, literal.shape().dims));
  std::string bytes = npy_header(descr_of(type), literal.shape().dims);
  if (written.byte_size() > 0) bytes.append(reinterpret_cast<const char*>(written.bytes()), written.byte_size());
  return bytes;
}

}  // namespace strata::hlo

// What is done to products and convolutions before libraries are asked.
#include <complex>
#include <numeric>
#include <set>

#include "emitters/kinds/memory_views.h"
#include "emitters/library/call_plan.h"
#include "emitters/library/narrow_products.h"
#include "emitters/library/ordered_products.h"
#include "emitters/library/padded_convolutions.h"
#include "emitters/library/padded_products.h"
#include "emitters/library/shared_products.h"
#include "emitters/library/split_products.h"
#include "emitters/library/unbatched_products.h"
#include "hlo/compute.h"
#include "hlo/drop_identities.h"
#include "hlo/entry_rewriter.h"
#include "hlo/indexing/evaluations.h"
#include "superopt/codegen/libraries.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using hlo::Shape;
using Dimensions = std::vector<int64_t>;

/// Of a convolution, what a kernel must take to be worth a copy of its operands.
constexpr double kWorthACopy = 6;

class Preparer : hlo::EntryRewriter {
 public:
  Preparer(const hlo::Module& module, const Target& target, LibraryUse use)
      : EntryRewriter(module), target_(target), use_(use) {}

  hlo::Module run() {
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      if (const auto gradient = it.opcode == Opcode::Convolution ? add_gradient(it) : std::nullopt) return gradient;
      if (it.opcode == Opcode::Dot && is_sum_of_products(it)) return add_sum(copy);
      if (it.opcode == Opcode::Convolution && should_change(it)) return add_convolution(copy);
      if (it.opcode == Opcode::Convolution && reads_reversed(it) && !is_large(it)) return add_reversed(it);
      if (is_inverse_transform(it)) return add_transform(it);
      return std::nullopt;
    });
  }

 private:
  InstructionId converted(InstructionId id, hlo::ElementType type) {
    if (shape(id).type == type) return id;
    Shape to = shape(id);
    to.type = type;
    return add(entry_[id].name + ".converted", Opcode::Convert, to, {id});
  }

  InstructionId transposed(InstructionId id, const Dimensions& permutation) {
    if (std::is_sorted(permutation.begin(), permutation.end())) return id;
    Dimensions dims;
    for (const int64_t d : permutation) dims.push_back(shape(id).dim(d));
    return add(entry_[id].name + ".transposed", Opcode::Transpose, hlo::array_shape(shape(id).type, dims), {id},
               hlo::DimensionsAttributes{permutation});
  }

  InstructionId reshaped(InstructionId id, const Shape& to) {
    return add(entry_[id].name + ".reshaped", Opcode::Reshape, to, {id});
  }

  static int64_t free_elements(const Shape& shape, const Dimensions& batch, const Dimensions& contracting) {
    int64_t all = shape.element_count();
    for (const int64_t d : batch) all /= shape.dim(d);
    for (const int64_t d : contracting) all /= shape.dim(d);
    return all;
  }

  /// Whether threads compute the products of so many terms of a result in less time than a kernel takes that writes it:
  /// then the result is best not written at all, but computed where it is read. Sums of more terms are not computed
  /// there (indexing::is_long_reduction).
  bool has_few_terms(const Shape& result, int64_t terms) const {
    constexpr double kOperationsOfTerm = 4;
    const auto results = static_cast<double>(result.element_count());
    const double computing = results * static_cast<double>(terms) * kOperationsOfTerm / (target_.rates.scalar_rate / 2);
    const double writing = results * hlo::byte_width(result.type) / target_.rates.memory_bandwidth;
    return use_ == LibraryUse::WhereFaster && terms <= indexing::kFewTerms &&
           computing < target_.kernel_seconds() + writing;
  }

  /// Whether a product is of vectors, or has one term, or few.
  bool is_sum_of_products(const Instruction& it) const {
    const auto& a = it.as<hlo::DotAttributes>();
    const Shape& lhs = from_.operand_shape(it, 0);
    const Shape& rhs = from_.operand_shape(it, 1);
    const auto computes = [](hlo::ElementType type) {
      return type != hlo::ElementType::Pred && hlo::bit_width(type) >= 8;
    };
    if (lhs.element_count() == 0 || rhs.element_count() == 0 || !computes(lhs.type) || !computes(rhs.type))
      return false;
    int64_t terms = 1;
    for (const int64_t d : a.lhs_contracting) terms *= lhs.dim(d);
    return terms == 1 || has_few_terms(it.shape, terms) || free_elements(lhs, a.lhs_batch, a.lhs_contracting) == 1 ||
           free_elements(rhs, a.rhs_batch, a.rhs_contracting) == 1;
  }

  /// Narrow floats are summed in f32.
  static hlo::ElementType sum_type(hlo::ElementType type) {
    return hlo::kind(type) == hlo::TypeKind::Float && hlo::bit_width(type) < 32 ? hlo::ElementType::F32 : type;
  }

  hlo::ComputationId adder(hlo::ElementType type) {
    const Shape scalar = hlo::array_shape(type, {});
    Computation made;
    made.name = "add_" + std::string(hlo::name(type));
    for (const int64_t i : {0, 1}) {
      made.instructions.push_back(
          {i == 0 ? "a" : "b", Opcode::Parameter, scalar, {}, {}, hlo::ParameterAttributes{i}, {}});
      made.parameters.push_back(static_cast<InstructionId>(i));
    }
    made.instructions.push_back({"sum", Opcode::Add, scalar, {0, 1}, {}, hlo::NoAttributes{}, {}});
    made.root = 2;
    result_.computations.push_back(std::move(made));
    return static_cast<hlo::ComputationId>(result_.computations.size()) - 1;
  }

  /// Dimensions of the products by what they are: the result's dimensions by number, and terms behind them.
  struct Labels {
    Dimensions lhs, rhs;
  };
  static Labels labels_of(const hlo::DotAttributes& a, const Shape& lhs, const Shape& rhs, int64_t result_rank) {
    Labels labels{Dimensions(lhs.dims.size(), -1), Dimensions(rhs.dims.size(), -1)};
    int64_t next = 0;
    for (size_t i = 0; i < a.lhs_batch.size(); ++i) {
      labels.lhs[static_cast<size_t>(a.lhs_batch[i])] = next;
      labels.rhs[static_cast<size_t>(a.rhs_batch[i])] = next++;
    }
    for (size_t i = 0; i < a.lhs_contracting.size(); ++i) {
      labels.lhs[static_cast<size_t>(a.lhs_contracting[i])] = result_rank + static_cast<int64_t>(i);
      labels.rhs[static_cast<size_t>(a.rhs_contracting[i])] = result_rank + static_cast<int64_t>(i);
    }
    for (Dimensions* side : {&labels.lhs, &labels.rhs}) {
      for (int64_t& label : *side) {
        if (label < 0) label = next++;
      }
    }
    return labels;
  }

  /// The order of a product's dimensions in which its few terms stand before the innermost one of the result: threads
  /// then have vectors of the result, of which they add up one term after the other.
  static Dimensions order_of_few_terms(const Instruction& it, size_t terms) {
    const int64_t rank = it.shape.rank();
    Dimensions order(static_cast<size_t>(rank));
    std::iota(order.begin(), order.end(), 0);
    auto innermost = order.end();
    while (innermost != order.begin() && it.shape.dim(*(innermost - 1)) == 1) --innermost;
    if (innermost != order.begin()) --innermost;
    Dimensions of_terms(terms);
    std::iota(of_terms.begin(), of_terms.end(), rank);
    order.insert(innermost, of_terms.begin(), of_terms.end());
    return order;
  }

  /// The products as an array whose dimensions lie as the larger operand has them in memory, seen through transposes
  /// and conversions too, and their sums. Where both operands have dimensions of their own, they lie as the result's
  /// do.
  InstructionId add_sum(const Instruction& it) {
    const auto& a = it.as<hlo::DotAttributes>();
    const Shape lhs = shape(it.operands[0]);
    const Shape rhs = shape(it.operands[1]);
    const int64_t rank = it.shape.rank();
    const Labels labels = labels_of(a, lhs, rhs, rank);
    const bool left = lhs.element_count() >= rhs.element_count();
    const Dimensions& larger = left ? labels.lhs : labels.rhs;
    const Shape& larger_shape = left ? lhs : rhs;
    // Of the other one, what is not in the larger one comes first: single elements, but for products of one term.
    Dimensions order;
    for (const int64_t label : left ? labels.rhs : labels.lhs) {
      if (std::find(larger.begin(), larger.end(), label) == larger.end()) order.push_back(label);
    }
    // Dimensions of one element lie anywhere: first.
    for (size_t d = 0; d < larger.size(); ++d) {
      if (larger_shape.dims[d] == 1) order.push_back(larger[d]);
    }
    for (const int64_t d : order_in_memory(entry_, it.operands[left ? 0 : 1]))
      order.push_back(larger[static_cast<size_t>(d)]);
    const bool vectors = free_elements(lhs, a.lhs_batch, a.lhs_contracting) == 1 ||
                         free_elements(rhs, a.rhs_batch, a.rhs_contracting) == 1;
    if (!vectors) order = order_of_few_terms(it, a.lhs_contracting.size());
    Dimensions place(order.size());
    for (size_t i = 0; i < order.size(); ++i) place[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    const hlo::ElementType type = sum_type(it.shape.type);
    Shape all = hlo::array_shape(type, Dimensions(order.size(), 1));
    for (const auto& [side, of] : {std::pair(&labels.lhs, &lhs), std::pair(&labels.rhs, &rhs)}) {
      for (size_t d = 0; d < side->size(); ++d)
        all.dims[static_cast<size_t>(place[static_cast<size_t>((*side)[d])])] = of->dims[d];
    }
    const auto spread = [&](InstructionId id, const Dimensions& side) {
      Dimensions sorted(side.size());
      std::iota(sorted.begin(), sorted.end(), 0);
      const auto at = [&](int64_t d) { return place[static_cast<size_t>(side[static_cast<size_t>(d)])]; };
      std::sort(sorted.begin(), sorted.end(), [&](int64_t x, int64_t y) { return at(x) < at(y); });
      Dimensions places;
      for (const int64_t d : sorted) places.push_back(at(d));
      const InstructionId in_order = transposed(converted(id, type), sorted);
      if (shape(in_order) == all) return in_order;
      return add(it.name + ".operand", Opcode::Broadcast, all, {in_order}, hlo::DimensionsAttributes{places});
    };
    const InstructionId left_terms = spread(it.operands[0], labels.lhs);
    const InstructionId right_terms = spread(it.operands[1], labels.rhs);
    InstructionId sum = add(it.name + ".products", Opcode::Multiply, all, {left_terms, right_terms});
    Dimensions reduced, kept, kept_dims;
    for (size_t i = 0; i < order.size(); ++i) {
      (order[i] >= rank ? reduced : kept).push_back(order[i] >= rank ? static_cast<int64_t>(i) : order[i]);
      if (order[i] < rank) kept_dims.push_back(all.dims[i]);
    }
    const int64_t terms = std::accumulate(reduced.begin(), reduced.end(), int64_t{1},
                                          [&](int64_t n, int64_t d) { return n * all.dim(d); });
    const Shape sums = hlo::array_shape(type, kept_dims);
    sum = terms == 1 ? reshaped(sum, sums)
                     : add(it.name + ".sums", Opcode::Reduce, sums, {sum, zero(type)},
                           hlo::DimensionsAttributes{reduced}, {adder(type)});
    return convert_last(in_result_order(sum, kept, it.shape), it);
  }

  /// The kept dimensions in the result's order; a reshape does where those that move have one element.
  InstructionId in_result_order(InstructionId id, const Dimensions& kept, const Shape& to) {
    Dimensions large;
    for (const int64_t label : kept) {
      if (to.dim(label) != 1) large.push_back(label);
    }
    const Shape shape = hlo::array_shape(this->shape(id).type, to.dims);
    if (std::is_sorted(kept.begin(), kept.end())) return id;
    if (std::is_sorted(large.begin(), large.end())) return reshaped(id, shape);
    Dimensions permutation(kept.size());
    for (size_t i = 0; i < kept.size(); ++i) permutation[static_cast<size_t>(kept[i])] = static_cast<int64_t>(i);
    return transposed(id, permutation);
  }

  InstructionId convert_last(InstructionId id, const Instruction& it) {
    id = converted(id, it.shape.type);
    if (shape(id).minor_to_major == it.shape.minor_to_major) return id;
    return add(it.name + ".copy", Opcode::Copy, it.shape, {id});
  }

  /// Whether a kernel would take long for a convolution whose types cuDNN has.
  bool is_large(const Instruction& it) const {
    const auto& a = it.as<hlo::ConvolutionAttributes>();
    const auto type = library_type(it.shape.type);
    const Shape& x = from_.operand_shape(it, 0);
    const Shape& w = from_.operand_shape(it, 1);
    if (!type || *type == DType::F64 || x.type != it.shape.type || w.type != it.shape.type) return false;
    if (it.shape.element_count() == 0 || x.element_count() == 0 || w.element_count() == 0) return false;
    const double kernel = convolution_kernel_microseconds(from_, it, target_);
    const bool filters = a.batch_group_count > 1;
    const int64_t groups = filters ? a.batch_group_count : a.feature_group_count;
    const int64_t channels = filters ? it.shape.dim(a.output_batch) : w.dim(a.kernel_input_feature);
    if (groups == 1 || !has_few_channels(channels)) return kernel >= kWorthACopy;
    const double products = static_cast<double>(it.shape.element_count()) * terms_of_result(from_, it);
    return kernel >= 1e6 * few_channels_seconds(products, hlo::byte_width(x.type), filters);
  }

  /// A convolution that is another one's gradient, with what sizes and padding need for cuDNN to take it as such.
  std::optional<InstructionId> add_gradient(const Instruction& it) {
    hlo::ConvolutionAttributes a = it.as<hlo::ConvolutionAttributes>();
    if (a.window.size() < 2 || a.window.size() > 3 || !is_large(it)) return std::nullopt;
    Shape x = from_.operand_shape(it, 0);
    Shape result = it.shape;
    InstructionId filters = it.operands[1];
    if (from_[filters].opcode == Opcode::Reverse) {
      if (!reads_reversed(it)) return std::nullopt;
      turn_window(a, from_[filters]);
      filters = from_[filters].operands[0];
    }
    const Shape& w = from_[filters].shape;
    InstructionId from = moved_[static_cast<size_t>(it.operands[0])];
    if (!gradient_of(a, x, w, result)) {
      if (is_filter_gradient(a, x, result)) {
        for (size_t i = 0; i < a.window.size(); ++i)
          x.dims[static_cast<size_t>(a.input_spatial[i])] += a.window[i].pad_low + a.window[i].pad_high;
      } else if (is_image_gradient(a)) {
        for (size_t i = 0; i < a.window.size(); ++i)
          resize_images(a.window[i], x.dim(a.input_spatial[i]), result.dims[static_cast<size_t>(a.output_spatial[i])]);
        result.minor_to_major = hlo::default_layout(result.dims.size());
      } else {
        return std::nullopt;
      }
      hlo::ConvolutionAttributes without = a;
      for (hlo::WindowDimension& each : without.window) {
        if (x.dims != from_.operand_shape(it, 0).dims) each.pad_low = each.pad_high = 0;
      }
      if (!gradient_of(without, x, w, result)) return std::nullopt;
      if (x.dims != from_.operand_shape(it, 0).dims) from = padded(from, a, it.name);
    }
    const InstructionId made =
        add(it.name + ".gradient", Opcode::Convolution, result, {from, moved_[static_cast<size_t>(filters)]}, a);
    return same_dims(result, it.shape) ? made : resized_as(made, it.shape);
  }

  /// Whether a convolution's window lies reversed, which it can say itself.
  bool reads_reversed(const Instruction& it) const {
    const auto& a = it.as<hlo::ConvolutionAttributes>();
    const Instruction& reverse = from_[it.operands[1]];
    return reverse.opcode == Opcode::Reverse && std::ranges::all_of(reverse.dimensions(), [&](int64_t d) {
             return std::ranges::count(a.kernel_spatial, d) > 0;
           });
  }

  static void turn_window(hlo::ConvolutionAttributes& a, const Instruction& reverse) {
    for (size_t i = 0; i < a.window.size(); ++i) a.window[i].reversed ^= is_among(a.kernel_spatial[i], reverse);
  }

  /// Of one that stays a kernel: no library reverses a forward convolution's window.
  InstructionId add_reversed(const Instruction& it) {
    hlo::ConvolutionAttributes a = it.as<hlo::ConvolutionAttributes>();
    const Instruction& reverse = from_[it.operands[1]];
    turn_window(a, reverse);
    const InstructionId images = moved_[static_cast<size_t>(it.operands[0])];
    return add(it.name, Opcode::Convolution, it.shape, {images, moved_[static_cast<size_t>(reverse.operands[0])]}, a);
  }

  static bool is_among(int64_t dimension, const Instruction& it) {
    return std::find(it.dimensions().begin(), it.dimensions().end(), dimension) != it.dimensions().end();
  }

  /// The nearest size of images from which a result of these rows follows: others differ in zeros at the end, or in
  /// what is cut off.
  static void resize_images(hlo::WindowDimension& d, int64_t rows, int64_t& size) {
    const int64_t reach = (d.size - 1) * d.rhs_dilate, padding = reach - d.pad_low;
    const int64_t dilated = (rows - 1) * d.lhs_dilate + 1, least = dilated + reach - 2 * padding;
    size = std::max<int64_t>(std::clamp(size, least, least + d.lhs_dilate - 1), 1);
    d.pad_high = size - dilated - d.pad_low + reach;
  }

  /// Longer dimensions by zeros, shorter ones cut.
  InstructionId resized_as(InstructionId id, const Shape& to) {
    id = resized(id, to.dims);
    return to.has_default_layout() ? id : add(entry_[id].name + ".copy", Opcode::Copy, to, {id});
  }

  /// Whether a library takes the convolution only with its windows changed, and it is large.
  bool should_change(const Instruction& it) const {
    const auto& a = it.as<hlo::ConvolutionAttributes>();
    if (!is_large(it) || a.batch_group_count != 1 || a.window.empty() || a.window.size() > 3) return false;
    return a.window.size() == 1 || needs_padding(a.window) ||
           std::any_of(a.window.begin(), a.window.end(), [](const hlo::WindowDimension& d) { return d.reversed; });
  }

  static bool needs_padding(const std::vector<hlo::WindowDimension>& window) {
    return std::any_of(window.begin(), window.end(), [](const hlo::WindowDimension& d) {
      return d.pad_low != d.pad_high || d.pad_low < 0 || d.lhs_dilate != 1 || d.pad_low > (d.size - 1) * d.rhs_dilate;
    });
  }

  InstructionId add_convolution(const Instruction& it) {
    hlo::ConvolutionAttributes a = it.as<hlo::ConvolutionAttributes>();
    InstructionId x = it.operands[0];
    InstructionId w = it.operands[1];
    Dimensions reversed;
    for (size_t i = 0; i < a.window.size(); ++i) {
      if (std::exchange(a.window[i].reversed, false)) reversed.push_back(a.kernel_spatial[i]);
    }
    if (!reversed.empty())
      w = add(it.name + ".filters", Opcode::Reverse, default_shape(w), {w}, hlo::DimensionsAttributes{reversed});
    if (needs_padding(a.window)) x = padded(x, a, it.name);
    Shape result = it.shape;
    if (a.window.size() == 1) {
      x = with_dimension(x, a.input_spatial, {&a.input_batch, &a.input_feature});
      w = with_dimension(w, a.kernel_spatial, {&a.kernel_input_feature, &a.kernel_output_feature});
      result = hlo::array_shape(result.type, result.dims);
      result.dims.insert(result.dims.begin() + a.output_spatial[0], 1);
      result.minor_to_major = hlo::default_layout(result.dims.size());
      insert(a.output_spatial, {&a.output_batch, &a.output_feature});
      a.window.insert(a.window.begin(), hlo::WindowDimension{});
    }
    const InstructionId made = add(it.name + ".windows", Opcode::Convolution, result, {x, w}, a);
    return same_dims(result, it.shape) ? made : reshaped(made, it.shape);
  }

  static bool is_inverse_transform(const Instruction& it) {
    if (it.opcode != Opcode::Fft || it.shape.element_count() == 0) return false;
    const auto type = it.as<hlo::FftAttributes>().type;
    return type == hlo::FftAttributes::Type::IFFT || type == hlo::FftAttributes::Type::IRFFT;
  }

  InstructionId times(InstructionId id, double factor, const std::string& name) {
    const Shape to = shape(id);
    const Shape scalar = hlo::array_shape(to.type, {});
    const hlo::Literal value = hlo::is_complex(to.type)
                                   ? hlo::literal_of<std::complex<double>>(scalar, {std::complex<double>(factor)})
                                   : hlo::literal_of<double>(scalar, {factor});
    const InstructionId one =
        add(name + ".factor", Opcode::Constant, scalar, {}, hlo::ConstantAttributes{value, false});
    const InstructionId all =
        add(name + ".factors", Opcode::Broadcast, to, {one}, hlo::DimensionsAttributes{Dimensions{}});
    return add(name, Opcode::Multiply, to, {id, all});
  }

  /// A transform that divides by its length N, as N times that of what was divided by N before: a kernel that computes
  /// the operand does that too, and the rest is what the library does. The operand is an array of the transform's own.
  InstructionId add_transform(const Instruction& it) {
    hlo::FftAttributes attributes = it.as<hlo::FftAttributes>();
    InstructionId from = it.operands[0];
    if (const std::optional<InstructionId> outer = outer_transform(it)) {
      const Instruction& other = from_[*outer];
      attributes.lengths.insert(attributes.lengths.begin(), other.as<hlo::FftAttributes>().lengths.begin(),
                                other.as<hlo::FftAttributes>().lengths.end());
      from = from_[other.operands[0]].operands[0];
    }
    double all = 1;
    for (const int64_t length : attributes.lengths) all *= static_cast<double>(length);
    const InstructionId divided = times(moved_[static_cast<size_t>(from)], 1 / all, it.name + ".divided");
    const InstructionId made = add(it.name + ".transform", Opcode::Fft, it.shape, {divided}, attributes);
    return times(made, all, it.name + ".whole");
  }

  /// The transform of dimensions just outside this one's, if it stands before it between two transposes: JAX writes
  /// inverse transforms of real numbers in several dimensions so. Both are one.
  std::optional<InstructionId> outer_transform(const Instruction& it) const {
    if (it.as<hlo::FftAttributes>().type != hlo::FftAttributes::Type::IRFFT) return std::nullopt;
    const Instruction& back = from_[it.operands[0]];
    if (back.opcode != Opcode::Transpose) return std::nullopt;
    const Instruction& outer = from_[back.operands[0]];
    if (outer.opcode != Opcode::Fft) return std::nullopt;
    const Instruction& forth = from_[outer.operands[0]];
    const auto& a = outer.as<hlo::FftAttributes>();
    const size_t count = a.lengths.size(), rank = it.shape.dims.size();
    const size_t own = it.as<hlo::FftAttributes>().lengths.size();
    if (a.type != hlo::FftAttributes::Type::IFFT || forth.opcode != Opcode::Transpose || count + own > 3)
      return std::nullopt;
    for (size_t d = 0; d < rank; ++d) {
      // Back is forth's inverse, and what is transformed lies just outside.
      const auto moved = static_cast<size_t>(forth.dimensions()[d]);
      if (static_cast<size_t>(back.dimensions()[moved]) != d) return std::nullopt;
      if (d >= rank - count && moved != d - own) return std::nullopt;
    }
    return back.operands[0];
  }

  Shape default_shape(InstructionId id) const { return hlo::array_shape(shape(id).type, shape(id).dims); }

  InstructionId padded(InstructionId x, hlo::ConvolutionAttributes& a, const std::string& name) {
    const size_t rank = shape(x).dims.size();
    hlo::PadAttributes pad{Dimensions(rank, 0), Dimensions(rank, 0), Dimensions(rank, 0)};
    Shape larger = default_shape(x);
    for (size_t i = 0; i < a.window.size(); ++i) {
      hlo::WindowDimension& each = a.window[i];
      const auto d = static_cast<size_t>(a.input_spatial[i]);
      pad.low[d] = std::exchange(each.pad_low, 0);
      pad.high[d] = std::exchange(each.pad_high, 0);
      pad.interior[d] = std::exchange(each.lhs_dilate, 1) - 1;
      larger.dims[d] += pad.low[d] + pad.high[d] + std::max<int64_t>(larger.dims[d] - 1, 0) * pad.interior[d];
    }
    return add(name + ".padded", Opcode::Pad, larger, {x, zero(larger.type)}, pad);
  }

  /// A dimension of one element before the spatial one: numbers of dimensions from there on are one higher.
  static void insert(Dimensions& spatial, std::initializer_list<int64_t*> others) {
    for (int64_t* other : others) *other += *other > spatial[0] ? 1 : 0;
    spatial = {spatial[0], spatial[0] + 1};
  }

  InstructionId with_dimension(InstructionId id, Dimensions& spatial, std::initializer_list<int64_t*> others) {
    Shape larger = default_shape(id);
    larger.dims.insert(larger.dims.begin() + spatial[0], 1);
    larger.minor_to_major = hlo::default_layout(larger.dims.size());
    insert(spatial, others);
    return reshaped(id, larger);
  }

  const Target& target_;
  const LibraryUse use_;
};

}  // namespace

hlo::Module prepare_for_libraries(const hlo::Module& module, const Target& target, LibraryUse use) {
  // Before vectors are told from matrices: heads of one query each that share keys are rows of a product.
  const hlo::Module rows = with_unbatched_products(module, use, indexing::kFewTerms + 1);
  hlo::Module prepared = Preparer(with_narrow_products(rows, target, use), target, use).run();
  prepared = with_padded_convolutions(prepared, target);
  prepared = with_ordered_products(with_split_products(with_unbatched_products(prepared, use), use), target, use);
  const hlo::Module padded = with_padded_products(prepared, target, use);
  // Transposes of what products made transposed.
  return hlo::drop_identities(with_shared_products(padded, target, use));
}

}  // namespace strata::emitters

#include <algorithm>

#include "hlo/shape_rules.h"

namespace strata::hlo {
namespace {

bool contains(const std::vector<int64_t>& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

/// Operands are converted to the result's kind of number, which has to hold theirs.
Result<void> check_types(const RuleContext& context) {
  const ElementType result = context.instruction.shape.type;
  const auto rank_of = [](ElementType type) {
    return type == ElementType::Pred ? 0 : is_integer(type) ? 1 : is_float(type) ? 2 : 3;
  };
  for (size_t i = 0; i < 2; ++i) {
    const ElementType type = context.operand(i).type;
    if (!is_array(result) || rank_of(type) > rank_of(result)) {
      return invalid("operand {} is {}, which a result of {} does not hold", i, name(type), name(result));
    }
  }
  return {};
}

Result<Shape> infer_dot(const RuleContext& context) {
  const auto& a = context.instruction.as<DotAttributes>();
  const Shape& lhs = context.operand(0);
  const Shape& rhs = context.operand(1);
  STRATA_CHECK(check_types(context));
  const auto joined = [](std::vector<int64_t> first, const std::vector<int64_t>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  };
  STRATA_CHECK(check_dimensions(joined(a.lhs_batch, a.lhs_contracting), lhs.rank(), "the left dimension"));
  STRATA_CHECK(check_dimensions(joined(a.rhs_batch, a.rhs_contracting), rhs.rank(), "the right dimension"));
  const auto match = [&](const std::vector<int64_t>& left, const std::vector<int64_t>& right,
                         std::string_view what) -> Result<void> {
    if (left.size() != right.size())
      return invalid("{} {} dimensions on the left, {} right", left.size(), what, right.size());
    for (size_t i = 0; i < left.size(); ++i) {
      if (lhs.dim(left[i]) != rhs.dim(right[i])) {
        return invalid("{} dimensions {} and {} have sizes {} and {}", what, left[i], right[i], lhs.dim(left[i]),
                       rhs.dim(right[i]));
      }
    }
    return {};
  };
  STRATA_CHECK(match(a.lhs_batch, a.rhs_batch, "batch"));
  STRATA_CHECK(match(a.lhs_contracting, a.rhs_contracting, "contracting"));
  std::vector<int64_t> dims;
  for (int64_t d : a.lhs_batch) dims.push_back(lhs.dim(d));
  for (int64_t d = 0; d < lhs.rank(); ++d) {
    if (!contains(a.lhs_batch, d) && !contains(a.lhs_contracting, d)) dims.push_back(lhs.dim(d));
  }
  for (int64_t d = 0; d < rhs.rank(); ++d) {
    if (!contains(a.rhs_batch, d) && !contains(a.rhs_contracting, d)) dims.push_back(rhs.dim(d));
  }
  return array_shape(context.instruction.shape.type, dims);
}

Result<Shape> infer_convolution(const RuleContext& context) {
  const auto& a = context.instruction.as<ConvolutionAttributes>();
  const Shape& input = context.operand(0);
  const Shape& kernel = context.operand(1);
  STRATA_CHECK(check_types(context));
  const size_t rank = a.input_spatial.size() + 2;
  const auto sides = {std::pair{&input, std::pair{a.input_batch, a.input_feature}},
                      std::pair{&kernel, std::pair{a.kernel_input_feature, a.kernel_output_feature}}};
  for (const auto& [shape, dims] : sides) {
    if (shape->dims.size() != rank) return invalid("dim_labels have {} dimensions, an operand {}", rank, shape->rank());
    if (dims.first == dims.second) return invalid("dim_labels name a dimension twice");
  }
  std::vector<int64_t> sizes;
  for (int64_t d : a.input_spatial) sizes.push_back(input.dim(d));
  STRATA_CHECK(check_window(a.window, sizes));
  for (size_t i = 0; i < a.window.size(); ++i) {
    if (kernel.dim(a.kernel_spatial[i]) != a.window[i].size) {
      return invalid("the window has size {} where the kernel has {}", a.window[i].size,
                     kernel.dim(a.kernel_spatial[i]));
    }
  }
  const int64_t features = input.dim(a.input_feature);
  const int64_t outputs = kernel.dim(a.kernel_output_feature);
  const int64_t batch = input.dim(a.input_batch);
  if (a.feature_group_count < 1 || a.batch_group_count < 1 || (a.feature_group_count > 1 && a.batch_group_count > 1)) {
    return invalid("group counts are at least 1, and one of them is 1");
  }
  if (features % a.feature_group_count != 0 || kernel.dim(a.kernel_input_feature) != features / a.feature_group_count) {
    return invalid("{} features in {} groups do not fit a kernel of {}", features, a.feature_group_count,
                   kernel.dim(a.kernel_input_feature));
  }
  if (outputs % a.feature_group_count != 0 || outputs % a.batch_group_count != 0 || batch % a.batch_group_count != 0) {
    return invalid("{} output features and a batch of {} do not fit the groups", outputs, batch);
  }
  std::vector<int64_t> dims(rank);
  dims[static_cast<size_t>(a.output_batch)] = batch / a.batch_group_count;
  dims[static_cast<size_t>(a.output_feature)] = outputs;
  for (size_t i = 0; i < a.window.size(); ++i) {
    dims[static_cast<size_t>(a.output_spatial[i])] = window_output_size(sizes[i], a.window[i]);
  }
  return array_shape(context.instruction.shape.type, dims);
}

}  // namespace

Result<Shape> infer_contraction(const RuleContext& context) {
  return context.instruction.opcode == Opcode::Dot ? infer_dot(context) : infer_convolution(context);
}

}  // namespace strata::hlo

#include <algorithm>

#include "hlo/parse_parts.h"

namespace strata::hlo {
namespace {

using Entry = RawAttributeList::Entry;

/// What changes no value: where things come from, where they run, how they are compiled, how exact they are at most.
constexpr std::string_view kIgnored[] = {"metadata",
                                         "backend_config",
                                         "frontend_attributes",
                                         "sharding",
                                         "control-predecessors",
                                         "operand_precision",
                                         "algorithm",
                                         "result_accuracy",
                                         "statistics",
                                         "origin",
                                         "original_value",
                                         "parameter_replication",
                                         "channel_id",
                                         "output_to_operand_aliasing",
                                         "outer_dimension_partitions",
                                         "execution_thread",
                                         "is_composite",
                                         "schedule",
                                         "raw_backend_config_string",
                                         "inferred_dimension",
                                         "inlineable"};

bool is_ignored(std::string_view name) {
  return std::find(std::begin(kIgnored), std::end(kIgnored), name) != std::end(kIgnored);
}

/// Attributes that name computations, in the order of Instruction::called.
constexpr std::string_view kCalling[] = {"to_apply",
                                         "calls",
                                         "condition",
                                         "body",
                                         "select",
                                         "scatter",
                                         "branch_computations",
                                         "called_computations",
                                         "true_computation",
                                         "false_computation"};

class AttributeParser : private AttributeValues {
 public:
  AttributeParser(Cursor& cursor, RawAttributeList& list, const Instruction& instruction,
                  const std::vector<Shape>& operands)
      : AttributeValues(cursor, list, instruction), operands_(operands) {}

  Result<ParsedAttributes> parse() {
    ParsedAttributes result;
    for (std::string_view name : kCalling) {
      if (const Entry* entry = list_.take(name)) STRATA_CHECK(called(*entry, result.called));
    }
    if (family(instruction_.opcode) == Family::Unsupported) {
      STRATA_TRY(result.attributes, raw());
      return result;
    }
    STRATA_TRY(result.attributes, typed());
    for (const Entry& entry : list_.entries()) {
      if (entry.used || is_ignored(entry.name)) continue;
      return cursor_.error_at(entry.offset,
                              fmt::format("{} has no attribute '{}'", name(instruction_.opcode), entry.name),
                              "it may change what is computed, so it is not skipped; docs/hlo.md lists the attributes");
    }
    return result;
  }

 private:
  Result<void> called(const Entry& entry, std::vector<std::pair<std::string, size_t>>& names) {
    Cursor value = cursor_.within(entry.value);
    const bool list = value.accept("{");
    bool first = true;
    while (list ? !value.accept("}") : first) {
      if (!first) STRATA_CHECK(value.expect(","));
      first = false;
      const size_t place = value.offset();
      STRATA_TRY(std::string name, value.name("a computation's name"));
      names.emplace_back(std::move(name), place);
    }
    return {};
  }

  Result<Attributes> raw() {
    RawAttributes result;
    int next = 0;
    for (const Entry& entry : list_.entries()) {
      const bool calling = std::find(std::begin(kCalling), std::end(kCalling), entry.name) != std::end(kCalling);
      if (!calling && is_ignored(entry.name) && entry.name != "backend_config") continue;
      std::string text(entry.value);
      if (calling) {
        // Names may change in printing; what is kept is their number in Instruction::called.
        std::vector<std::pair<std::string, size_t>> names;
        STRATA_CHECK(called(entry, names));
        std::vector<std::string> numbers;
        for (size_t i = 0; i < names.size(); ++i) numbers.push_back(fmt::format("@{}", next++));
        const bool list = entry.value.front() == '{';
        text = fmt::format("{}{}{}", list ? "{" : "", fmt::join(numbers, ", "), list ? "}" : "");
      }
      result.entries.emplace_back(entry.name, std::move(text));
    }
    return result;
  }

  Result<Attributes> typed() {
    const int64_t rank = instruction_.shape.rank();
    switch (instruction_.opcode) {
      case Opcode::Iota: {
        const int64_t scalar = rank == 0 ? 0 : -1;
        STRATA_TRY(const int64_t dimension, integer("iota_dimension", scalar));
        return DimensionsAttributes{{dimension}};
      }
      case Opcode::Map: {
        DimensionsAttributes result;
        for (int64_t d = 0; d < rank; ++d) result.dimensions.push_back(d);
        if (list_.take("dimensions") == nullptr) return result;
        STRATA_TRY(result.dimensions, integers("dimensions"));
        return result;
      }
      case Opcode::Broadcast: {
        // A scalar has no dimensions to name.
        STRATA_TRY(Integers dimensions, integers("dimensions", !operands_.empty() && operands_[0].rank() == 0));
        return DimensionsAttributes{std::move(dimensions)};
      }
      case Opcode::Concatenate:
      case Opcode::GetDimensionSize:
      case Opcode::Reduce:
      case Opcode::Reverse:
      case Opcode::Transpose: {
        STRATA_TRY(Integers dimensions, integers("dimensions"));
        return DimensionsAttributes{std::move(dimensions)};
      }
      case Opcode::Compare:
        return compare();
      case Opcode::ReducePrecision: {
        STRATA_TRY(const int64_t exponent, integer("exponent_bits"));
        STRATA_TRY(const int64_t mantissa, integer("mantissa_bits"));
        return ReducePrecisionAttributes{static_cast<int>(std::clamp<int64_t>(exponent, -1, 64)),
                                         static_cast<int>(std::clamp<int64_t>(mantissa, -1, 64))};
      }
      case Opcode::Slice:
        return slice();
      case Opcode::DynamicSlice: {
        STRATA_TRY(Integers sizes, integers("dynamic_slice_sizes"));
        return DynamicSliceAttributes{std::move(sizes)};
      }
      case Opcode::Pad: {
        const Entry* entry = list_.take("padding");
        if (entry == nullptr && rank > 0) return missing("padding");
        if (entry == nullptr) return PadAttributes{};
        STRATA_TRY(PadAttributes padding, parse_padding(cursor_, *entry));
        return padding;
      }
      case Opcode::Gather:
        return gather();
      case Opcode::Scatter:
        return scatter();
      case Opcode::ReduceWindow:
      case Opcode::SelectAndScatter: {
        STRATA_TRY(auto dimensions, window(operands_.empty() ? 0 : operands_[0].rank()));
        return WindowAttributes{std::move(dimensions)};
      }
      case Opcode::Dot:
        return dot();
      case Opcode::Convolution:
        return convolution();
      case Opcode::Sort: {
        SortAttributes result;
        STRATA_TRY(const Integers dimensions, integers("dimensions", operands_.empty() || operands_[0].rank() == 1));
        if (dimensions.size() > 1) return error("dimensions", "sort has exactly one dimension");
        if (!dimensions.empty()) result.dimension = dimensions[0];
        STRATA_TRY(result.is_stable, flag("is_stable", false));
        return result;
      }
      case Opcode::TopK: {
        TopKAttributes result;
        STRATA_TRY(result.k, integer("k"));
        STRATA_TRY(result.largest, flag("largest", true));
        STRATA_TRY(result.is_stable, flag("is_stable", true));
        return result;
      }
      case Opcode::RngBitGenerator: {
        STRATA_TRY(const size_t algorithm, one_of("algorithm", {"rng_default", "rng_three_fry", "rng_philox"}));
        return RandomAttributes{static_cast<RandomAttributes::Algorithm>(algorithm)};
      }
      case Opcode::Scan: {
        ScanAttributes result;
        STRATA_TRY(const Integers dimensions, integers("dimensions"));
        if (dimensions.size() != 1) return error("dimensions", "scan has exactly one dimension");
        result.dimension = dimensions[0];
        STRATA_TRY(result.carries, integer("num_carries"));
        STRATA_TRY(result.is_reverse, flag("is_reverse", false));
        if (list_.take("is_associative") != nullptr) {
          STRATA_TRY(result.is_associative, flag("is_associative", false));
        }
        return result;
      }
      case Opcode::Cholesky: {
        CholeskyAttributes result;
        STRATA_TRY(result.lower, flag("lower", false));
        return result;
      }
      case Opcode::Fft:
        return fft();
      case Opcode::TriangularSolve:
        return triangular_solve();
      case Opcode::BatchNormGrad:
      case Opcode::BatchNormInference:
      case Opcode::BatchNormTraining: {
        BatchNormAttributes result;
        STRATA_TRY(result.epsilon, real("epsilon"));
        STRATA_TRY(result.feature_index, integer("feature_index"));
        return result;
      }
      case Opcode::GetTupleElement: {
        STRATA_TRY(const int64_t index, integer("index"));
        return TupleIndexAttributes{index};
      }
      case Opcode::Fusion: {
        FusionAttributes result;
        if (const Entry* kind = list_.take("kind")) result.kind = std::string(kind->value);
        return result;
      }
      default:
        return NoAttributes{};
    }
  }

  Result<Attributes> compare() {
    CompareAttributes result;
    const Entry* direction = list_.take("direction");
    if (direction == nullptr) return missing("direction");
    constexpr std::string_view kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
    const auto found = std::find(std::begin(kDirections), std::end(kDirections), direction->value);
    if (found == std::end(kDirections)) return error("direction", "a direction is EQ, NE, LT, LE, GT or GE");
    result.direction = static_cast<CompareAttributes::Direction>(found - std::begin(kDirections));
    const ElementType element = operands_.empty() ? ElementType::F32 : operands_[0].type;
    std::optional<CompareAttributes::Order> by_type;
    if (const Entry* type = list_.take("type")) {
      using Order = CompareAttributes::Order;
      by_type = type->value == "TOTALORDER" ? Order::Total : Order::Partial;
      const std::string_view usual = is_float(element) || is_complex(element) ? "FLOAT"
                                     : is_signed(element)                     ? "SIGNED"
                                                                              : "UNSIGNED";
      if (by_type == Order::Partial && type->value != usual) {
        return error("type", fmt::format("the comparison of {} is {} or TOTALORDER", name(element), usual));
      }
      result.order = *by_type;
    }
    if (list_.take("order") != nullptr) {
      STRATA_TRY(const size_t order, one_of("order", {"PARTIAL", "WEAK", "TOTAL"}));
      result.order = static_cast<CompareAttributes::Order>(order);
      if (is_complex(element) && order > 0) return error("order", "complex numbers have no order");
      if (is_float(element) && by_type && result.order != *by_type) return error("order", "type= states another order");
    }
    // Other types have one order.
    if (!is_float(element)) result.order = CompareAttributes::Order::Partial;
    return result;
  }

  Result<Attributes> slice() {
    const Entry* entry = list_.take("slice");
    if (entry == nullptr) return missing("slice");
    SliceAttributes result;
    Cursor value = cursor_.within(entry->value);
    STRATA_CHECK(value.expect("{"));
    while (!value.accept("}")) {
      if (!result.starts.empty()) STRATA_CHECK(value.expect(","));
      STRATA_CHECK(value.expect("["));
      STRATA_TRY(const int64_t start, value.integer("a start"));
      STRATA_CHECK(value.expect(":"));
      STRATA_TRY(const int64_t limit, value.integer("a limit"));
      int64_t stride = 1;
      if (value.accept(":")) {
        STRATA_TRY(stride, value.integer("a stride"));
      }
      STRATA_CHECK(value.expect("]"));
      result.starts.push_back(start);
      result.limits.push_back(limit);
      result.strides.push_back(stride);
    }
    return result;
  }

  Result<Attributes> gather() {
    GatherAttributes result;
    STRATA_TRY(result.offset_dims, integers("offset_dims"));
    STRATA_TRY(result.collapsed_slice_dims, integers("collapsed_slice_dims"));
    STRATA_TRY(result.start_index_map, integers("start_index_map"));
    STRATA_TRY(result.operand_batching_dims, integers("operand_batching_dims", true));
    STRATA_TRY(result.start_indices_batching_dims, integers("start_indices_batching_dims", true));
    STRATA_TRY(result.slice_sizes, integers("slice_sizes"));
    STRATA_TRY(result.index_vector_dim, integer("index_vector_dim"));
    STRATA_TRY(result.indices_are_sorted, flag("indices_are_sorted", false));
    return result;
  }

  Result<Attributes> scatter() {
    ScatterAttributes result;
    STRATA_TRY(result.update_window_dims, integers("update_window_dims"));
    STRATA_TRY(result.inserted_window_dims, integers("inserted_window_dims"));
    STRATA_TRY(result.scatter_dims_to_operand_dims, integers("scatter_dims_to_operand_dims"));
    STRATA_TRY(result.input_batching_dims, integers("input_batching_dims", true));
    STRATA_TRY(result.scatter_indices_batching_dims, integers("scatter_indices_batching_dims", true));
    STRATA_TRY(result.index_vector_dim, integer("index_vector_dim"));
    STRATA_TRY(result.indices_are_sorted, flag("indices_are_sorted", false));
    STRATA_TRY(result.unique_indices, flag("unique_indices", false));
    return result;
  }

  Result<Attributes> dot() {
    DotAttributes result;
    STRATA_TRY(result.lhs_batch, integers("lhs_batch_dims", true));
    STRATA_TRY(result.rhs_batch, integers("rhs_batch_dims", true));
    STRATA_TRY(result.lhs_contracting, integers("lhs_contracting_dims", true));
    STRATA_TRY(result.rhs_contracting, integers("rhs_contracting_dims", true));
    result.precision = precision();
    return result;
  }

  /// An algorithm says more than precisions of operands; of these the highest counts.
  OperandPrecision precision() {
    const Entry* algorithm = list_.take("algorithm");
    const Entry* operands = list_.take("operand_precision");
    if (algorithm != nullptr && algorithm->value != "dot_any_f8_any_f8_f32") {
      for (const OperandPrecision one : {OperandPrecision::Tf32, OperandPrecision::Bf16, OperandPrecision::F16})
        if (algorithm->value == algorithm_of(one)) return one;
      return OperandPrecision::Exact;
    }
    const bool high = operands != nullptr && operands->value.find("high") != std::string::npos;
    return high ? OperandPrecision::Exact : OperandPrecision::Default;
  }

  Result<Attributes> convolution() {
    ConvolutionAttributes result;
    const Entry* labels = list_.take("dim_labels");
    if (labels == nullptr) return missing("dim_labels");
    if (!parse_dim_labels(labels->value, result)) {
      return error("dim_labels", "dim_labels have the form b01f_01io->b01f");
    }
    STRATA_TRY(result.window, window(static_cast<int64_t>(result.input_spatial.size())));
    STRATA_TRY(result.feature_group_count, integer("feature_group_count", 1));
    STRATA_TRY(result.batch_group_count, integer("batch_group_count", 1));
    result.precision = precision();
    return result;
  }

  Result<Attributes> fft() {
    FftAttributes result;
    STRATA_TRY(const size_t type, one_of("fft_type", {"FFT", "IFFT", "RFFT", "IRFFT"}));
    result.type = static_cast<FftAttributes::Type>(type);
    STRATA_TRY(result.lengths, integers("fft_length"));
    return result;
  }

  Result<Attributes> triangular_solve() {
    TriangularSolveAttributes result;
    STRATA_TRY(result.left_side, flag("left_side", false));
    STRATA_TRY(result.lower, flag("lower", false));
    STRATA_TRY(result.unit_diagonal, flag("unit_diagonal", false));
    STRATA_TRY(const size_t transpose, one_of("transpose_a", {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"}));
    result.transpose_a = static_cast<TriangularSolveAttributes::Transpose>(transpose);
    return result;
  }

  /// Without window= it has no dimensions, or is one of size 1 in each.
  Result<std::vector<WindowDimension>> window(int64_t rank) {
    const Entry* entry = list_.take("window");
    if (entry == nullptr) return std::vector<WindowDimension>(static_cast<size_t>(rank));
    return parse_window(cursor_, *entry);
  }

  const std::vector<Shape>& operands_;
};

}  // namespace

Result<ParsedAttributes> parse_attributes(Cursor& cursor, RawAttributeList& list, const Instruction& instruction,
                                          const std::vector<Shape>& operand_shapes) {
  return AttributeParser(cursor, list, instruction, operand_shapes).parse();
}

}  // namespace strata::hlo

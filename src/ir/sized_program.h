// Programs whose sizes have names ("dim tokens = 16"): one text for all sizes (docs/sizes.md).
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"
#include "ir/size_expr.h"

namespace strata {

/// A kernel graph at the sizes that its text declares, and how it is made at others.
struct SizedProgram {
  struct Dim {
    std::string name;
    int64_t size = 1;
    SourceLocation location{};
    Comments comments{};
  };
  /// By attribute: an expression for each of its numbers.
  using AttributeSizes = std::map<std::string, std::vector<SizeExpr>, std::less<>>;

  std::vector<Dim> dims;                      ///< in the order of the text; none where its sizes are numbers
  GraphPtr graph;                             ///< at the declared sizes
  std::vector<std::vector<SizeExpr>> shapes;  ///< by tensor of `graph`; empty where there are no dims
  std::vector<AttributeSizes> attributes;     ///< by operation: those that depend on dims

  const Dim* find_dim(std::string_view name) const;
  DimSizes declared() const;
  /// The declared sizes with these in their place. Error where the program has no such dim, or a size is below 1.
  Result<DimSizes> with(const DimSizes& given) const;
  /// The kernel graph at these sizes; those that are not given are as declared. Error, with operator and place, where
  /// they do not fit each other.
  Result<GraphPtr> at(const DimSizes& given) const;
  /// The sizes for which the arguments have these shapes. Error, naming inputs, where none do, two inputs contradict
  /// each other, or the shapes leave a size open.
  Result<DimSizes> sizes_of(std::span<const Shape> inputs) const;
  /// The same of the inputs whose shapes are known, which must not contradict the sizes that are given; what they leave
  /// open is as declared.
  Result<DimSizes> sizes_of(std::span<const std::optional<Shape>> inputs, const DimSizes& given) const;

 private:
  Result<DimSizes> told_by(std::span<const std::optional<Shape>> inputs, const DimSizes& given) const;
};

/// The sizes of an operator's result. Error where what must be equal is so for some sizes only, or the operator is none
/// for which sizes can have names.
Result<std::vector<SizeExpr>> result_sizes(const Graph& graph, const Operation& op,
                                           std::span<const std::vector<SizeExpr>> operands,
                                           const SizedProgram::AttributeSizes& attributes);

/// The text with names for sizes: what parse_program reads.
std::string print(const SizedProgram& program);

/// A kernel graph whose sizes may have names; of programs without names, what parse_graph reads. Errors as its.
Result<SizedProgram> parse_program(std::string_view text, const std::string& file = "<input>");

}  // namespace strata

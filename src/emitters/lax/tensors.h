// Values of HLO as tensors of a program under construction: which dimension lies where.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace strata::emitters {

/// A value of HLO: of all dimensions that it has, in their order, the place in a tensor's memory, or −1 where its
/// elements are the same along it.
struct LaxValue {
  /// Regrouped: the elements of a tensor, row-major, under other sizes. An output needs no operator for that.
  enum class Kind : uint8_t { Constant, Parameter, Tensor, Regrouped };
  Kind kind = Kind::Tensor;
  double constant = 0;  ///< the value of all elements
  int parameter = 0;    ///< whose memory it is: no tensor is there yet
  /// Of what is a parameter or regrouped: sizes in the order in which they lie, without those of 1.
  std::vector<int64_t> memory;
  TensorId tensor = 0;
  std::vector<int> places;  ///< by dimension: which one of `memory`, or of the tensor
  /// The value is this over the tensor: src/ir has no reciprocal, but quotients.
  std::optional<Rational> over = {};

  bool is_constant() const { return kind == Kind::Constant; }
  bool has_memory() const { return kind == Kind::Parameter || kind == Kind::Regrouped; }
  int placed() const;
  /// The same tensor with other dimensions: of each new one, the old one or −1.
  LaxValue renamed(const std::vector<int>& old_ones) const;
};

/// Dimensions of a tensor, outermost first: which one of the value's each is; −1: one element.
using Arrangement = std::vector<int>;

/// Makes tensors; transposes and reshapes them where a value is needed in another arrangement.
class LaxTensors {
 public:
  explicit LaxTensors(DType type) : type_(type), builder_(Level::Kernel, "part") {}

  DType type() const { return type_; }
  GraphBuilder& builder() { return builder_; }
  /// By input of the graph so far, its parameter; −1 for iotas.
  const std::vector<int>& inputs() const { return inputs_; }

  /// As the value lies, without ones in front.
  Arrangement arrangement(const LaxValue& value) const;
  /// Whether it needs no operator in this arrangement.
  bool lies_as(const LaxValue& value, const Arrangement& wanted) const;
  /// A tensor with the value's elements, in this arrangement but for ones in front. `sizes` are the value's; it has
  /// `least_rank` dimensions or more.
  Result<TensorId> arranged(const LaxValue& value, const Arrangement& wanted, const std::vector<int64_t>& sizes,
                            size_t least_rank = 1);
  /// The value of a tensor that was made in this arrangement, from the right.
  LaxValue made(TensorId tensor, const Arrangement& arrangement, size_t dimensions) const;
  Result<TensorId> iota(const Shape& shape, const Iota& values);
  Result<TensorId> transpose(TensorId tensor, const std::vector<int64_t>& permutation);
  /// Of an input, and of what is computed element by element of inputs alone, no operator is needed.
  Result<TensorId> reshape(TensorId tensor, const Shape& shape);

 private:
  bool is_elementwise_of_inputs(TensorId tensor) const;
  Result<TensorId> input(int parameter, const Shape& shape);
  /// Whether it is elementwise of iotas, which is the same of others where its dimensions are to lie otherwise.
  bool is_known(TensorId tensor) const;
  /// Such a tensor in another shape: dimension d becomes dimension to[d]; −1, which must have one element, none.
  Result<TensorId> relaid(TensorId tensor, const std::vector<int>& to, size_t rank);
  Arrangement wanted_of(const LaxValue& value, const Arrangement& wanted) const;

  DType type_;
  GraphBuilder builder_;
  std::vector<int> inputs_;
  std::map<std::pair<int, Shape>, TensorId> known_;
};

/// The graph without what no output needs; `inputs` keeps the parameters of its arguments.
Result<GraphPtr> without_unused(const Graph& graph, std::vector<int>& inputs);

}  // namespace strata::emitters

// All values that operators can make from some inputs at one level, with every way to make each.
//
// The search does not enumerate graphs operator by operator, because most such graphs are dead ends. It first finds
// the *values*: a class is a value (told from others by its abstract expression, its shape and its entries on random
// field inputs) together with all its derivations. Graphs are then read off backwards from a wanted value
// (derive.h), so that every graph that is visited is complete. Merging equal values is exact up to the
// random test, whose primes are near 2^61.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "superopt/expr/subexpression_oracle.h"
#include "superopt/search/axis_filter.h"
#include "superopt/search/model.h"
#include "superopt/search/search.h"

namespace strata {

/// The kind of derivations by several operators that count as one, as in the paper: X / √(factor · Σ X²) over `dim`,
/// the RMS norm (or, with factor 1, the L2 norm). build_template writes its operators out.
constexpr OpKind kNorm = OpKind::GraphDefined;

struct Derivation {
  OpKind kind;  ///< of the table, or kNorm
  Attributes attributes;
  std::vector<int> operands;  ///< classes

  friend bool operator==(const Derivation&, const Derivation&) = default;
};

struct ValueClass {
  Shape shape;
  Shape extents;  ///< what the dimensions count as in abstract expressions; see Axis
  std::vector<int> axes;
  ExprId expression = 0;
  LoopStage stage = LoopStage::Body;
  int kernel_tensor = -1;  ///< block level: in_iter of that input; kernel level: that input of the program
  int min_ops = 0;         ///< no derivation has fewer operators
  /// The value at the points that tell values apart: kernel level one; block level one a block and, inside the loop, an
  /// iteration, of the first block alone where `one_block` is set. Block inputs have all blocks.
  std::vector<FieldTensor> values;
  std::vector<Derivation> derivations;
};

/// Counters that many class graphs share.
struct SharedCounters {
  std::atomic<int64_t> generated{0}, pruned_shape{0}, pruned_memory{0}, pruned_expression{0}, pruned_axes{0};
  std::atomic<int64_t> pruned_stability{0};
  std::atomic<int64_t> verified{0}, rejected{0}, units_done{0};
};

/// What the operators may be applied to and with.
struct ClassGraphOptions {
  Level level = Level::Kernel;
  OpScope scope;
  OpScope extents;  ///< the scope in which abstract expressions are formed; as `scope` where extents are sizes
  /// Values are told apart by the first block: what the blocks do is the same function of their tiles, which are random
  /// in each. Not where inputs are cut inconsistently, so that tiles may coincide in one block alone.
  bool one_block = false;
  int max_ops = 11;
  int64_t max_elements = std::numeric_limits<int64_t>::max();  ///< larger values are not made
  bool prune_expression = true;
  /// Also the residue for exponents of values that reach no exponent of the program: without the rule `expression`
  /// there are other exponents, and values of both levels are compared.
  bool all_residues = false;
  /// Exponents of the program that subtract a maximum, whole; null where there are none or the rule is off.
  const std::set<ExprId>* stable_exponents = nullptr;
  AxisFilter* axis_filter = nullptr;  ///< null: only the paper's expressions prune
  /// Attribute sets beyond those that a shape implies: constants of scale, permutations, groupings of the program.
  std::vector<std::pair<OpKind, Attributes>> program_attributes;
  std::set<OpKind> program_kinds;  ///< operators that the program uses
  std::vector<Rational> norms;     ///< factors of the program's norms
  /// The program's elementwise operators of three operands, by their expressions: as functions that the axioms do not
  /// look into, they fit with no others.
  std::vector<std::pair<OpKind, std::vector<ExprId>>> ternary;
  bool with_max = false;       ///< the program takes maxima, so maximum and rescaling accumulators are worth trying
  int loop_axis = kMixedAxis;  ///< of the block space; kMixedAxis where it is no one axis
  bool combines = false;       ///< in the loop there are only accumulators: it walks over partial results
  std::stop_token stop{};
};

class ClassGraph {
 public:
  ClassGraph(const FieldArithmetic& arithmetic, NormalForms& forms, SubexpressionOracle& oracle,
             SharedCounters& counters, ClassGraphOptions options);
  ~ClassGraph();
  ClassGraph(const ClassGraph&) = delete;
  ClassGraph& operator=(const ClassGraph&) = delete;

  /// Adds a class without derivation; returns its number.
  int add_input(ValueClass input);
  /// Registers one more way to make the values of a class, if that is where the application leads; the class.
  int apply(OpKind kind, const Attributes& attributes, const std::vector<int>& operands);
  /// The norms of a class, as values of one more operator.
  void apply_norms(int c);
  /// From here on, no value of more operators is made.
  void limit_ops(int max_ops) { options_.max_ops = max_ops; }
  /// For a value whose dimensions no operator ties to an axis, but the program does.
  void set_axes(int i, std::vector<int> axes) { classes_[static_cast<size_t>(i)].axes = std::move(axes); }
  /// Applies all operators until nothing new appears (or kMaxClasses or kMaxBytes is reached).
  void saturate();

  const std::vector<ValueClass>& classes() const { return classes_; }
  const ValueClass& at(int i) const { return classes_[static_cast<size_t>(i)]; }
  /// The class with that value at kernel level; −1 where there is none.
  int find(ExprId expression, const FieldTensor& value) const;
  /// The class's value at every point of every block.
  std::vector<FieldTensor> everywhere(int i);
  bool overflowed() const { return overflowed_; }

  static constexpr size_t kMaxClasses = 1500;
  /// Of all values together, so that memory is bounded however large the model is; each thread has one graph at a time.
  static constexpr int64_t kMaxBytes = int64_t{512} << 20;

 private:
  bool is_stable(ExprId exponent) const;
  bool fits_axes(const ValueClass& value, const AxisTracker& tracker) const;
  /// Whether the shapes broadcast, except for this many innermost dimensions.
  bool broadcast(int a, int b, size_t from_last) const;
  /// Whether a matrix product has equal lengths to contract.
  bool contracts(int a, int b) const;
  void report_counts();
  void apply_unary(int c);
  void apply_binary(int a, int b);
  /// With this class among the operands, and older ones.
  void apply_ternary(int c);
  void apply_fused_products(int sum);
  /// `operands` at this many blocks.
  std::vector<FieldTensor> evaluate(const OpDef& op, const Attributes& attributes, LoopStage stage,
                                    const std::vector<const std::vector<FieldTensor>*>& operands, const Shape& shape,
                                    ExprId expression, int64_t blocks);
  const std::vector<FieldTensor>& everywhere(int i, std::unordered_map<int, std::vector<FieldTensor>>& known);
  uint64_t key(const ValueClass& value) const;

  FieldArithmetic arithmetic_;
  NormalForms& forms_;
  SubexpressionOracle& oracle_;
  SharedCounters& counters_;
  ClassGraphOptions options_;
  std::vector<const OpDef*> unary_ops_, binary_ops_;  ///< elementwise ones without attributes, and matmul
  std::vector<const OpDef*> reductions_;
  struct {
    int64_t generated = 0, shape = 0, memory = 0, expression = 0, axes = 0, stability = 0;
  } counts_;  ///< not yet in the shared counters
  std::vector<ValueClass> classes_;
  std::unordered_map<uint64_t, int> by_key_;
  int64_t bytes_ = 0;  ///< of all values
  bool overflowed_ = false;
};

}  // namespace strata

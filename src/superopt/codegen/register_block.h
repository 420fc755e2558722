// What block functions have in common whose computed tensors stay in registers: operators over tiles, one statement or
// one loop over a tile's registers each. How a tile lies in the registers of the block's threads is up to the emitter:
// fragments for tensor cores (tiles/) or rows (rows.cpp).
#pragma once

#include <map>
#include <set>

#include "superopt/codegen/block_code.h"
#include "superopt/codegen/emit.h"

namespace strata {

class RegisterBlock {
 public:
  RegisterBlock(const Operation& op, std::string name, const OperandPlaces& strides, const BlockSchedule& schedule,
                const Target& target);
  virtual ~RegisterBlock() = default;
  RegisterBlock(const RegisterBlock&) = delete;
  RegisterBlock& operator=(const RegisterBlock&) = delete;

 protected:
  /// The C++ type of a tensor's tile in a thread's registers, in a layout; `after` the loop, groups hold shares.
  virtual std::string tile_type(TensorId id, bool transposed, bool after) const = 0;
  /// A computed tensor's layout.
  virtual bool transposed(TensorId id) const = 0;
  /// Whether a tile comes from device memory, and whether it is the same in all iterations.
  virtual bool loaded(TensorId id) const = 0;
  virtual bool stays(TensorId id) const = 0;
  /// The name of a tensor's tile in registers; it is loaded at its first use. Loaded tiles have any layout.
  virtual std::string value(TensorId id, bool transposed) = 0;
  /// Whether a reduction runs along the columns of its operand's tile, or along the rows.
  virtual Result<bool> reduces_columns(const Operation& op) const = 0;
  /// The call that reduces `from`; in_lane: only what each thread holds.
  virtual std::string reduce_call(const Operation& op, bool columns, bool in_lane, const std::string& from) = 0;
  /// The call that reduces among threads what they hold of a reduction, if they can be left to do so until the loop has
  /// ended; empty where they cannot.
  virtual std::string across_call(bool columns, const std::string& from) const = 0;
  virtual Result<void> product(const Operation& op) = 0;
  virtual Result<void> save(const Operation& op) = 0;

  std::string tile_type(TensorId id) const { return tile_type(id, transposed(id), after_); }
  std::string value(TensorId id) { return value(id, !loaded(id) && transposed(id)); }
  void line(const std::string& text) { text_ += indent_ + text + "\n"; }
  size_t input_number(TensorId id) const;
  /// The operator that makes a tensor, if any.
  const Operation* producer(TensorId id) const;

  /// Names for all tensors, and for states of all reference values of accum_rescale.
  void name_tensors();
  /// The heads of the functions of block_code.h; lists of parameters end in ", ".
  std::string load_head(const std::string& maps, const std::string& ring) const;
  std::string team_head(const std::string& ring = "") const;
  std::string pack_head() const;
  /// The variables of an accumulator.
  void declare(const Operation& op);
  /// What the loop computes of tiles that it does not cut is the same in every iteration: computed before it.
  Result<void> invariants();
  bool is_invariant(const Operation& op) const;
  /// Elementary operations on each element: those of a thread graph together; exponentials and divisions take several.
  static double operations_of(const Operation& op);
  /// The accumulator of sums that alone uses a value: a product is added to it directly.
  const Operation* only_accumulator(TensorId id) const;
  Result<void> operation(const Operation& op);
  /// Whether what has been added is multiplied only where a reference has moved. Not between wgmma: ptxas 13.0 gives
  /// fragments that stay in registers away where a branch lies between them, and where none do, attention gets 11 %
  /// slower by it.
  bool rescales_seldom() const { return !schedule_.wide; }
  /// Multiplies what an accum_rescale has added, only where a reference has moved if `branch`.
  void scale_before(const Operation& op, bool branch);
  /// Behind the loop: what has been added comes to be relative to the largest references.
  void settle_references();
  /// Sums that are only added up are summed among threads once, after the loop.
  void finish_reductions();
  /// Maxima of reference values are what the rescaling keeps anyway.
  bool is_largest_reference(const Operation& op) const;
  void name_largest_references();

  const Graph& body_;
  std::string name_;
  const OperandPlaces& strides_;
  BlockSchedule schedule_;
  const Target& target_;
  std::vector<LoopStage> stages_;
  int64_t loop_;
  NameScope scope_;
  std::map<TensorId, std::string> names_;
  std::map<TensorId, std::string> fronts_;                   ///< names of inputs' fronts (operand_place.h)
  std::map<std::pair<TensorId, bool>, std::string> values_;  ///< loaded tiles in registers, by layout
  std::map<TensorId, std::string> references_;               ///< rescaling states, by reference
  std::set<TensorId> running_;           ///< references for which the loop's largest, or one near it, stands
  std::set<TensorId> known_references_;  ///< references whose largest is known before the loop
  std::set<TensorId> invariant_;         ///< computed before the loop
  std::set<TensorId> direct_;            ///< accumulators that products are added to directly
  bool after_ = false;                   ///< whether groups hold shares
  bool is_template_ = false;             ///< whether the functions do not know what their tensors and ring are
  std::string text_;
  std::string indent_ = "  ";

 private:
  struct Step {
    const Operation* op;
    std::vector<std::string> operands;
    std::string variable;
  };

  std::string parameters(bool typed = true) const;
  /// "template <class Team, …>", with the types that `parameters` names where it does not know them.
  std::string template_head(bool team) const;
  Result<void> reduction(const Operation& op);
  Result<void> accumulate(const Operation& op);
  Result<void> rescale(const Operation& op);
  Result<void> thread_graph(const Operation& op);
  /// The expressions of the steps' variables, empty where none of the others that lead to `last` needs one.
  static std::vector<std::string> fused_expressions(const std::vector<Step>& steps, const std::string& last);
  /// A loop over the result's registers.
  void elements(TensorId result, const std::vector<std::pair<TensorId, std::string>>& operands,
                const std::vector<Step>& steps, const std::string& last);

  std::map<TensorId, bool> deferred_;  ///< accumulators of sums within threads, and whether along columns
  std::set<TensorId> advanced_;        ///< references whose state this iteration has brought up to date
};

}  // namespace strata

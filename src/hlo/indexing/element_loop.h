// While loops in which each element of the state goes its own way: code for them needs no memory between iterations.
#pragma once

#include <optional>
#include <vector>

#include "hlo/counted_loop.h"
#include "hlo/loop_rows.h"

namespace strata::indexing {

/// A loop whose next state is, at each index, computed of the state at that index, of scalars of the state, of what
/// stays as it is, read anywhere, and of the iteration's number.
///
/// `step` is the loop's module with one more computation, the last one, which has the parameters of the computation
/// around the loop. Its root is the tuple of `results`: what an iteration computes, and what is computed before the
/// first and after the last one. Where these need the state, they read instructions that have no code (Leaf::state):
/// the code of the loop has their values.
struct ElementLoop {
  enum class Role : uint8_t {
    Element,  ///< an array of `dims`
    Scalar,   ///< computed of scalars alone, so that whoever has an element computes it as well
    Counter,  ///< known beforehand (CountedLoop)
    Same,     ///< stays as it is
    Rows,     ///< each iteration writes a part of it, which nothing reads; all of it is written
  };
  struct Leaf {
    Role role = Role::Same;
    hlo::InstructionId state = -1;  ///< of `step`: what stands for its value. Of what stays the value itself.
    int first = -1, next = -1;      ///< of elements and scalars: results
    int part = -1;                  ///< of rows: a result of as many elements as `dims` has
    size_t dimension = 0;           ///< along which parts are written, from `at` on
    hlo::LoopRows::Affine at{};
  };
  /// What a result is asked for: all of one group are computed at the same time, at one index.
  enum class Group : uint8_t { First, Next, Condition, Ahead, Last };
  /// A row of an array that stays as it is, which is known without the state: it may be read iterations ahead.
  struct Row {
    hlo::InstructionId value = 0;  ///< of `step`: what is computed of it reads this
    int result = 0;                ///< the same, computed
  };

  hlo::Module step;
  hlo::ComputationId computation = 0;
  std::vector<Leaf> leaves;  ///< of the state (hlo::leaf_of)
  std::vector<Row> rows;     ///< each read at its own index alone
  /// By array of the root of the computation around the loop: the result that it is, computed of the last state at the
  /// same index; -1 where it is a leaf of the state itself.
  std::vector<int> last;
  std::vector<int64_t> dims;  ///< of elements
  std::vector<Group> results;
  std::optional<hlo::CountedLoop> counted;
  int condition = -1;  ///< of loops that are not counted: the result that tells whether it goes on
  /// Each element goes on by itself, until its own condition is false, after which it would stay as it is.
  bool each = false;

  /// What stands for the state in `step`; without rows.
  std::vector<hlo::InstructionId> states() const;
};

/// Of a `while` of a computation; its body calls nothing but scalar functions. Unsupported, with the reason, for all
/// other loops.
Result<ElementLoop> element_loop(const hlo::Module& module, hlo::ComputationId computation, hlo::InstructionId loop);

}  // namespace strata::indexing

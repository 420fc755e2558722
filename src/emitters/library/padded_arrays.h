// Arrays whose innermost dimension has more elements in memory than in HLO, so that rows are whole multiples of 16
// bytes, and all that kernels compute of each other so.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "emitters/library/call_plan.h"

namespace strata::emitters {

/// Neighbouring dimensions of an array as one of `size` elements, which are no fewer than those: what is more is
/// filling.
struct LongDimension {
  int64_t first = 0, count = 1, size = 0;
  auto operator<=>(const LongDimension&) const = default;
};

/// The shape with the dimensions as one; of several, those behind come first.
hlo::Shape longer(const hlo::Shape& shape, const LongDimension& to);

/// Which arrays of an entry are longer than in its text. Filling is any value where no zeros are asked for.
class PaddedArrays {
 public:
  PaddedArrays(const hlo::Module& module, const hlo::Computation& entry, const Users& users)
      : module_(module), entry_(entry), users_(users) {}

  /// What is longer if one array is: `arrays` themselves, and the operands of what is `reduced` along the dimension.
  struct Members {
    std::map<hlo::InstructionId, LongDimension> arrays, reduced;
    std::map<hlo::InstructionId, LongDimension> read;  ///< what kernels fill up as they read it
  };

  /// What kernels compute longer so that they compute an array longer: all elementwise operators, reductions and
  /// reshapes that it is computed of, and that are computed of these, up to what is no such operator, which reads or is
  /// read at its own length. So reductions and what is elementwise, all of one kernel in the end, have rows of one
  /// length. Nothing where a result of the entry is among them, a reduction that filling would change (one without a
  /// neutral value, or along another part of the dimensions), or what is longer already otherwise.
  std::optional<Members> members_for(hlo::InstructionId id, const LongDimension& to) const;
  void add(const Members& members);
  /// That the filling of a longer array has to be zeros: also of what it is a reshape of, so that both are one array.
  void fill_with_zeros(hlo::InstructionId id);

  const Members& all() const { return members_; }
  bool is_longer(hlo::InstructionId id, const LongDimension& to) const;
  bool is_filled_with_zeros(hlo::InstructionId id) const { return zeros_.contains(id); }

 private:
  bool computes(hlo::InstructionId id) const;
  /// The dimension of what an array is computed of; nothing where it does not stay together.
  std::optional<LongDimension> dimension_of_operand(hlo::InstructionId id, const LongDimension& to) const;
  bool is_result(hlo::InstructionId id) const;
  bool has_neutral_value(const hlo::Instruction& reduce) const;
  bool grow(hlo::InstructionId id, const LongDimension& to, Members& made) const;
  bool takes_in(hlo::InstructionId reduction, const LongDimension& as, Members& made) const;
  bool is_read_by_these(hlo::InstructionId id, const Members& made) const;

  const hlo::Module& module_;
  const hlo::Computation& entry_;
  const Users& users_;
  Members members_;
  std::set<hlo::InstructionId> zeros_;
};

/// Writes these arrays into a new entry.
class PaddedArrayWriter {
 public:
  /// Adds an instruction to the new entry.
  using Add = std::function<hlo::InstructionId(const std::string& name, hlo::Opcode opcode, hlo::Shape shape,
                                               std::vector<hlo::InstructionId> operands, hlo::Attributes attributes,
                                               std::vector<hlo::ComputationId> called)>;
  /// What an instruction of the old entry has become in the new one.
  using Moved = std::function<hlo::InstructionId(hlo::InstructionId)>;

  PaddedArrayWriter(const hlo::Module& module, const hlo::Computation& from, const PaddedArrays& arrays, Add add,
                    Moved moved)
      : module_(module), from_(from), arrays_(arrays), add_(std::move(add)), moved_(std::move(moved)) {}

  /// What stands for an instruction of which something is longer: its own part of what is longer.
  std::optional<hlo::InstructionId> replaced(hlo::InstructionId id);
  /// A product that is made with longer dimensions, the first ones first: its own part.
  hlo::InstructionId add_product(hlo::InstructionId id, hlo::InstructionId made,
                                 const std::vector<LongDimension>& dimensions);

  /// An array of this shape out of a longer one.
  hlo::InstructionId own_part(const std::string& name, const hlo::Shape& shape, hlo::InstructionId longer,
                              std::vector<LongDimension> dimensions);

  /// An array with any filling: computed so, where it is; else filled up with zeros.
  hlo::InstructionId value(hlo::InstructionId id, const LongDimension& to);
  /// The same with zeros as the filling.
  hlo::InstructionId with_zeros(hlo::InstructionId id, const LongDimension& to);

 private:
  hlo::InstructionId scalar(const std::string& name, hlo::ElementType type, double value);
  hlo::InstructionId filled(const std::string& name, const hlo::Shape& shape, hlo::InstructionId longer,
                            const LongDimension& to, double with);
  hlo::InstructionId computed(hlo::InstructionId id, const LongDimension& to);

  const hlo::Module& module_;
  const hlo::Computation& from_;
  const PaddedArrays& arrays_;
  const Add add_;
  const Moved moved_;
  std::map<std::pair<hlo::InstructionId, LongDimension>, hlo::InstructionId> values_;
};

}  // namespace strata::emitters

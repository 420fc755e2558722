// A copy of a computation to which instructions are added to ask what a library would do with them.
#pragma once

#include "emitters/library/call_plan.h"

namespace strata::emitters {

/// What is added is taken away when a `Trial` ends. Numbers of instructions are those of the computation, and those
/// added follow.
class Scratch {
 public:
  explicit Scratch(const hlo::Computation& computation) : computation_(computation), users_(users_of(computation)) {}

  /// The users of each instruction; what is added has none.
  const Users& users() const { return users_; }

  hlo::InstructionId add(hlo::Opcode opcode, hlo::Shape shape, std::vector<hlo::InstructionId> operands,
                         hlo::Attributes attributes);
  Result<CallPlan> plan(hlo::InstructionId product) const { return plan_product(computation_, users_, product); }

  class Trial {
   public:
    explicit Trial(Scratch& scratch) : scratch_(scratch), before_(scratch.users_.size()) {}
    Trial(const Trial&) = delete;
    Trial& operator=(const Trial&) = delete;
    ~Trial();

   private:
    Scratch& scratch_;
    size_t before_;
  };

 private:
  hlo::Computation computation_;
  Users users_;
};

}  // namespace strata::emitters

// Which instructions of a module become one kernel.
#pragma once

#include <compare>
#include <limits>
#include <optional>
#include <vector>

#include "emitters/fusion/ratings.h"
#include "emitters/kinds/decision.h"
#include "hlo/hlo.h"
#include "hlo/indexing/evaluations.h"
#include "machine/target.h"
#include "support/error.h"

namespace strata::emitters {

/// An array: the value of an instruction, or a leaf of its tuple (hlo::leaf_of; 0 otherwise).
struct ArrayValue {
  hlo::InstructionId instruction = 0;
  int element = 0;
  auto operator<=>(const ArrayValue&) const = default;
};

/// A part of the entry as a module of its own, whose parameters are arrays.
struct ProgramPart {
  hlo::Module module;                              ///< its entry is the fusion
  std::vector<ArrayValue> inputs;                  ///< what its parameters are, by number; of the whole module's entry
  std::vector<ArrayValue> outputs;                 ///< what the arrays of its root are
  std::vector<hlo::InstructionId> instructions{};  ///< of the whole module's entry, but for those of every part
  bool interpreted = false;                        ///< one instruction that has no kernel: the interpreter runs it
  double microseconds = 0;                         ///< by the model
};

/// What a module's entry does as one kernel. How often an instruction is evaluated follows from the indexing maps of
/// its users; what the emitter that would take the fusion computes once (Decision::heroes) counts once.
struct KernelWork {
  double memory_bytes = 0;                                  ///< of inputs, as far as they are read, and outputs
  double cache_bytes = 0;                                   ///< of inputs, as often as they are read
  double blocks = std::numeric_limits<double>::infinity();  ///< of reductions and scans, which may have few
  double operations = 0;                                    ///< of all threads
  double computing = 0;                                     ///< of these, all but loads and products
  double of_longest_thread = 0;    ///< operations: its part of all, and at least what an element of a root takes
  double code = 0;                 ///< operations of an element in the kernel's code
  double code_apart = 0;           ///< the same of all elements of a thread, where some results are computed apart
  double repeated_code = 0;        ///< of these, beyond once for each instruction
  double update_microseconds = 0;  ///< of atomic updates of a scatter in place
  double waits = 0;  ///< of warps for loads one after the other, where their threads take different branches
  std::vector<indexing::RepeatedReduction> repeated;
  int64_t fills = 0;    ///< outputs that hold a value before, to which a reduction's blocks add theirs
  bool serial = false;  ///< long reductions, by one thread for each element, beside other operators
};
KernelWork kernel_work(const hlo::Module& module, const Target& target);

/// Estimated time of a module's entry as one kernel: its bytes over the bandwidths of memory and cache, or its
/// operations over the rate of arithmetic (of as many multiprocessors as have blocks), or those of the longest thread
/// over the rate of one thread, or its atomic updates, or its waits, whichever is most; and the launch. Infinite where
/// long reductions are computed again, which emitters refuse, or by single threads: the reduction emitter takes them
/// with fewer operators around them, or with none. Infinite too where there is so much code, or so much of it again,
/// that warps wait for instructions.
double estimated_microseconds(const hlo::Module& module, const Target& target);
/// The same with what it is made of.
KernelTime kernel_time(const hlo::Module& module, const Target& target);

/// Whether what a parameter holds is still needed after the program: of a loop's body it is not, once nothing reads it.
enum class Parameters { Kept, MayBeOverwritten };

/// Which of pairs that save the same are joined first: those of the first groups, or two readers of one array after all
/// others. Joined, two readers may keep others from what they compute; apart, each may compute it again. The same holds
/// of readers of different results of one group: they are joined with ReadersLast, and in modules that have one order.
enum class Ties { InOrder, ReadersLast };

/// Modules of more instructions are fused in one order only.
inline constexpr size_t kFewInstructions = 256;

/// Operations of an element in a kernel's code, those that stand there again included: with what indices and loads
/// take, an instruction cache of 128 KB holds so many. A larger kernel waits for its instructions, and takes the
/// assembler long.
inline constexpr double kMostCode = 4096;

/// Of a group, if nothing else is said: so many that only kMostCode matters, but for the time that rating them takes.
inline constexpr size_t kMostInstructions = 4000;

/// What fuse() has done, for tests that count it.
struct FusionWork {
  int64_t instructions_built = 0;  ///< of groups that became parts to be priced
  int64_t instructions_rated = 0;  ///< of all groups whose time was asked for
  int64_t kernels_rated = 0;       ///< of different structure, whose time was estimated (Ratings::computed)
};

/// Cuts the entry of a module without calls (hlo/inline_calls.h) into parts in an order in which they can run.
/// Groups begin as single instructions; while some pair of a producer and a consumer saves time as one kernel (bytes
/// that are neither written nor read, against what is computed again), the pair that saves most is joined. Constants,
/// iota and broadcasts of constants belong to every group that uses them.
/// Pairs are rated as one kernel only when it is their turn by what they could save at most (gain_bound.h). Of most
/// pairs one group has been joined with another one before that.
/// No group has more than `most_instructions`, beside those constants.
/// A dynamic-update-slice of a parameter that may be overwritten costs what it updates, in a kernel whose other results
/// are such updates, too, or have as many elements as it updates.
/// Time is nearly linear: of an array that very many instructions read, only readers near each other are joined.
std::vector<ProgramPart> fuse(const hlo::Module& module, const Target& target, Parameters parameters = Parameters::Kept,
                              FusionWork* work = nullptr, size_t most_instructions = kMostInstructions);
/// The same, with times that passes before it have estimated; `work` counts none of them.
std::vector<ProgramPart> fuse(const hlo::Module& module, Ratings& ratings, Parameters parameters = Parameters::Kept,
                              FusionWork* work = nullptr, size_t most_instructions = kMostInstructions,
                              Ties ties = Ties::InOrder);

}  // namespace strata::emitters

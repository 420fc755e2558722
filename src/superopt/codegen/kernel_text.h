// What a block of a launch does with a block function (block_code.h). Folder-internal.
#pragma once

#include <string>
#include <vector>

#include "superopt/codegen/generate.h"

namespace strata {

/// A call of a block function, from expressions for what it takes.
struct BlockCall {
  std::string function;
  std::string math;  ///< the numeric policy
  std::vector<std::string> tensors;
  std::vector<std::string> maps;
  std::string coordinates;  ///< three, with commas
  std::string shared;       ///< the block's shared memory
};

/// The statements that a block runs the function with: where tiles come through a ring, roles part, and threads that
/// load return. Other statements may follow for the team. Declares `ring` and `page` where there is a ring. `team` is
/// its type.
std::string block_statements(const BlockCode& code, const BlockCall& call, const std::string& team);
/// The variable of a kernel that is its shared memory.
constexpr const char* kSharedMemory = "shared_memory";
/// Says which launches may start before the one before them has ended. A kernel of a library does not let the next one
/// start, and may end with something that is no kernel. Runs of a program follow each other, so that its first launch
/// comes after its last.
void set_overlap(GeneratedProgram& program, const Target& target, const Passes& passes);
/// Every kernel may be launched while the one before it still runs, and lets the next one be launched at once: blocks
/// are set up meanwhile, which `preparation` (a statement) is part of, and memory is touched when the kernel before has
/// ended.
std::string kernel_order(const std::string& preparation = "");
/// "float* a, const float* b".
std::string typed_names(const std::vector<std::string>& types, const std::vector<std::string>& names);
/// A function of a block, the launch's, with these statements: it takes what `declaration` says, the launch's tensor
/// maps, the block's coordinates and its shared memory.
std::string block_function(const KernelLaunch& launch, std::string declaration, const std::string& statements);
/// The kernel of a launch, which calls its function.
std::string kernel_text(const KernelLaunch& launch);
/// What starts the ring's barriers, to be called with the block's shared memory before any tensor is touched; empty
/// where there is nothing to start.
std::string preparation_text(const BlockCode& code);
/// The type of the team that runs the function alone in a block.
std::string team_of(const BlockCode& code);
/// The same for the first threads of a block that may have others.
std::string part_team_of(const BlockCode& code);

}  // namespace strata

// The order of loads and stores in PTX. Folder-internal.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "machine/target.h"

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace strata::emitters {

/// Moves stores to device memory behind the loads that follow them in their basic block, where LLVM knows that these
/// read other memory. The assembler does not know it: pointers of PTX have no word for it, and loads of memory that
/// nobody writes (".nc") it would move to before a kernel's wait for the kernel before. So it leaves each load behind
/// the stores before it, and an unrolled loop that writes would wait for the loads of each copy of its body in turn.
///
/// `kernels`: the functions to look at, each with the registers of 32 bits that stores may keep alive.
void delay_stores(llvm::Module& module, llvm::TargetMachine& machine,
                  const std::vector<std::pair<std::string, int64_t>>& kernels);

/// What stores may keep alive in a kernel of so many threads a block: half of what a thread has beside 32 registers for
/// all else, if a multiprocessor is to hold so many blocks; so loads have the other half.
int64_t registers_for_stores(const Target& target, int threads, int min_blocks);

}  // namespace strata::emitters

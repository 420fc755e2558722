// What `strata emit --explain` prints of a kernel: which emitter wrote it, how it is launched, and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hlo/hlo.h"

namespace strata::emitters {

/// What an output or a temporary must hold before the first kernel starts.
struct Preparation {
  enum class Kind { Copy, Fill };
  Kind kind = Kind::Copy;
  int output = 0;
  bool temporary = false;  ///< `output` is the number of a temporary
  int input = 0;           ///< Copy: the input whose bytes it takes, which lies as it does
  hlo::Literal value;      ///< Fill: a scalar of its type
};

/// One kernel of a fusion.
struct Launch {
  std::string name;    ///< what it does, which is part of the kernel's name; empty where there is only one
  int64_t blocks = 0;  ///< 0: nothing to do
  int threads = 0;     ///< of a block
  int64_t shared_bytes = 0;
  int min_blocks = 0;  ///< that a multiprocessor shall have room for, by their registers; 0: no matter
};

struct Decision {
  std::string emitter;  ///< "loop", "row reduction", …
  std::string reason;   ///< why this one
  /// The kernels, which run one after the other. All have the same arguments: inputs, outputs, temporaries.
  std::vector<Launch> launches{Launch{}};
  std::vector<hlo::Shape> temporaries;                       ///< arrays that are nothing before and nothing after
  std::vector<std::pair<std::string, std::string>> details;  ///< name and text: tile, vector, unroll, …
  std::vector<std::pair<std::string, std::string>> refused;  ///< emitters that came first, and why not
  std::vector<Preparation> preparations;
  /// Instructions of the fusion whose elements the emitter computes once each, whatever reads them.
  std::vector<hlo::InstructionId> heroes;
  /// By hero, of reductions: the pass over its row in which it is computed. All of a pass, and in pass 0 elementwise
  /// results, have what they read at one index from one evaluation.
  std::vector<int> passes;
  /// Parameters that stay in shared memory between passes: each is read from device memory once.
  std::vector<hlo::InstructionId> staged;
  /// Results of which a thread writes several elements beside each other in memory, one after the other: where threads
  /// of a warp read and write for them lies apart.
  std::vector<hlo::InstructionId> apart;
  /// Estimated, of all kernels and preparations, where the emitter knows better than the model of a fusion
  /// (fusion/pass.h), which sees one kernel whose threads each compute elements of the result.
  std::optional<double> microseconds;

  /// That of a fusion of one kernel.
  Launch& launch() { return launches.front(); }
  const Launch& launch() const { return launches.front(); }
};

/// One fact a line: the table that --explain prints.
std::string to_string(const Decision& decision);

}  // namespace strata::emitters

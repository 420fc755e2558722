#include "megakernel/fibers/fiber_code.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "megakernel/runtime/cuda/source.h"
#include "superopt/codegen/emit.h"
#include "support/temporary_folder.h"
#include "support/write_file.h"

namespace strata {

// The texts, which CMake embeds.
std::string_view fiber_platform_text();
std::string_view fiber_kernel_text();
std::string_view fiber_graph_text();
std::string_view fiber_main_text();

namespace megakernel {

std::string fiber_source(std::string_view functions, std::span<const std::string> kernels, bool profile,
                         int graph_functions) {
  std::string text =
      "#include <sys/mman.h>\n#include <sys/prctl.h>\n\n#include <chrono>\n#include <csignal>\n#include <utility>\n";
  text += core_source();  // which says what STRATA_DEVICE is
  text += host_library();
  append_headers(text, fiber_platform_text());
  text += agreement_source("FiberPlatform", profile);
  text += functions;
  text += "\nnamespace strata::megakernel {\ninline std::vector<PackingKernel> kernels() {\n  return {\n";
  for (const std::string& name : kernels)
    text += fmt::format("      {{\"{0}\", [](void* const* arguments) {{ call_with(&::{0}, arguments); }}}},\n", name);
  text += "  };\n}\n}  // namespace strata::megakernel\n" + block_source();
  if (graph_functions == 0) {
    append_headers(text, fiber_kernel_text());
  } else {
    text += fmt::format("constexpr int kGraphFunctions = {};\n", graph_functions) + graph_source();
    append_headers(text, fiber_graph_text());
  }
  append_headers(text, fiber_main_text());
  return text;
}

Result<std::unique_ptr<FiberCode>> FiberCode::compile(std::string_view functions, std::span<const std::string> kernels,
                                                      bool profile, const HostCompiler& compiler, int graph_functions) {
  const HeldSignals held;  // until the folder is gone
  const TemporaryFolder folder("strata-fibers");
  if (folder.path().empty())
    return with_remedy(environment("cannot make a temporary folder"), "set TMPDIR to a folder that can be written to");
  const std::string program = (folder.path() / "program").string();
  STRATA_CHECK(write_file(program + ".cpp", fiber_source(functions, kernels, profile, graph_functions), Sync::None));
  std::vector<std::string> command{compiler.command, "-std=c++20"};
  command.insert(command.end(), compiler.options.begin(), compiler.options.end());
  command.insert(command.end(), {program + ".cpp", "-o", program});
  STRATA_TRY(Process process, Process::start(command, {}));
  STRATA_TRY(const Process::End end, process.wait());
  if (!end.succeeded())
    return with_remedy(environment("compiling the mega-kernel for the host: {}", end.text),
                       "install a C++20 compiler, as c++");
  // The open file is the program from here on: launches inherit it, and it has no name that anyone would remove.
  OpenFile file(open(program.c_str(), O_RDONLY));
  if (file.number() < 0)
    return with_remedy(environment("the compiled mega-kernel cannot be opened: {}", std::strerror(errno)),
                       "raise the limit of open files (ulimit -n)");
  std::unique_ptr<FiberCode> code(new FiberCode(std::move(file), profile));
  return code;
}

}  // namespace megakernel
}  // namespace strata

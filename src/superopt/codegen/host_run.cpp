#include "superopt/codegen/host_run.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/storage.h"
#include "support/temporary_folder.h"
#include "support/write_file.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Runs a shell command with its output in `log`.
Result<void> run(const std::string& command, const fs::path& log) {
  if (std::system((command + " > " + log.string() + " 2>&1").c_str()) == 0) return {};
  return environment("'{}' failed:\n{}", command, read(log));
}

}  // namespace

Result<std::vector<Tensor<double>>> run_on_host(const GeneratedProgram& program,
                                                const std::vector<Tensor<double>>& inputs,
                                                const HostCompiler& compiler) {
  const TemporaryFolder folder("strata-host");
  if (folder.path().empty()) return environment("cannot make a temporary folder");
  const fs::path log = folder.path() / "log";
  const std::string binary = (folder.path() / "program").string();
  STRATA_CHECK(write_file(binary + ".cpp", host_program(program), Sync::None));
  STRATA_CHECK(run(
      fmt::format("{} -std=c++20 {} {}.cpp -o {}", compiler.command, fmt::join(compiler.options, " "), binary, binary),
      log));
  std::string command = binary;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const std::string path = (folder.path() / fmt::format("in{}", i)).string();
    STRATA_CHECK(write_file(path, encode(inputs[i], program.inputs[i].type.dtype), Sync::None));
    command += " " + path;
  }
  for (size_t i = 0; i < program.outputs.size(); ++i) command += fmt::format(" {}/out{}", folder.path().string(), i);
  std::vector<std::string> written;  // by the first run
  for (const std::string& order : compiler.orders) {
    STRATA_CHECK(run(fmt::format("STRATA_HOST_ORDER={} {}", order, command), log));
    for (size_t i = 0; i < program.outputs.size(); ++i) {
      const std::string bytes = read(folder.path() / fmt::format("out{}", i));
      if (static_cast<int64_t>(bytes.size()) != program.outputs[i].type.bytes())
        return environment("output {} is short", i);
      if (written.size() == i) written.push_back(bytes);
      if (bytes != written[i]) {
        return environment("{} depends on the order of threads: {} and {} disagree", program.outputs[i].name,
                           compiler.orders.front(), order);
      }
    }
  }
  std::vector<Tensor<double>> outputs;
  for (size_t i = 0; i < program.outputs.size(); ++i) outputs.push_back(decode(written[i], program.outputs[i].type));
  return outputs;
}

}  // namespace strata

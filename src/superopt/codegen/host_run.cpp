#include "superopt/codegen/host_run.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ops/arithmetic.h"
#include "support/half.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// A folder that disappears with its owner.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "strata-host-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

template <class Stored>
void put(std::string& bytes, Stored value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string encode(const Tensor<double>& tensor, DType type) {
  std::string bytes;
  for (double value : tensor.data) {
    switch (type) {
      case DType::F16:
        put(bytes, double_to_half(round_to(value, type)));
        break;
      case DType::BF16:
        put(bytes, static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(round_to(value, type))) >> 16));
        break;
      case DType::F32:
        put(bytes, static_cast<float>(value));
        break;
      case DType::F64:
        put(bytes, value);
        break;
    }
  }
  return bytes;
}

template <class Stored>
Stored get(const std::string& bytes, size_t i) {
  Stored value;
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}

Tensor<double> decode(const std::string& bytes, const TensorType& type) {
  Tensor<double> tensor(type.shape);
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    switch (type.dtype) {
      case DType::F16:
        tensor.data[i] = half_to_double(get<uint16_t>(bytes, i));
        break;
      case DType::BF16:
        tensor.data[i] = std::bit_cast<float>(static_cast<uint32_t>(get<uint16_t>(bytes, i)) << 16);
        break;
      case DType::F32:
        tensor.data[i] = get<float>(bytes, i);
        break;
      case DType::F64:
        tensor.data[i] = get<double>(bytes, i);
        break;
    }
  }
  return tensor;
}

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
  const TemporaryFolder folder;
  if (folder.path().empty()) return environment("cannot make a temporary folder");
  const fs::path log = folder.path() / "log";
  std::ofstream(folder.path() / "program.cpp") << host_program(program);
  const std::string binary = (folder.path() / "program").string();
  STRATA_CHECK(run(
      fmt::format("{} -std=c++20 {} {}.cpp -o {}", compiler.command, fmt::join(compiler.options, " "), binary, binary),
      log));
  std::string command = binary;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const fs::path path = folder.path() / fmt::format("in{}", i);
    std::ofstream(path, std::ios::binary) << encode(inputs[i], program.inputs[i].type.dtype);
    command += " " + path.string();
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

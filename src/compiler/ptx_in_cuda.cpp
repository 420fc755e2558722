#include "compiler/ptx_in_cuda.h"

#include <fmt/format.h>

namespace strata::compiler {
namespace {

std::string_view trimmed(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

/// For the text of an assembly statement: % begins an operand there, and $ is not for labels.
std::string escaped(std::string_view line) {
  std::string text;
  for (const char c : line) {
    if (c == '%') {
      text += "%%";
    } else if (c == '$') {
      text += "STRATA_";
    } else if (c == '"' || c == '\\') {
      text += {'\\', c};
    } else {
      text += c;
    }
  }
  return text;
}

/// "ld.param.u64 %rd1, [k_param_0];" as "mov.u64 %rd1, OPERAND 0": pointers are operands of the statement. Nothing
/// where the line is another.
std::optional<std::string> as_operand(std::string_view line) {
  constexpr std::string_view kParameter = "_param_";
  if (!line.starts_with("ld.param.")) return std::nullopt;
  const size_t comma = line.find(',');
  const size_t number = line.rfind(kParameter);
  const size_t space = line.find_first_of(" \t");
  if (comma == std::string_view::npos || number == std::string_view::npos) return std::nullopt;
  const size_t first = number + kParameter.size();
  const std::string_view digits = line.substr(first, line.find(']') - first);
  return fmt::format("mov.b64 {}, %{};", escaped(trimmed(line.substr(space, comma - space))), digits);
}

}  // namespace

Result<std::string> ptx_in_cuda(std::string_view ptx, std::string_view name, const std::vector<std::string>& parameters,
                                int64_t threads) {
  std::string body;
  bool inside = false;
  bool found = false;
  while (!ptx.empty()) {
    const size_t end = std::min(ptx.find('\n'), ptx.size() - 1) + 1;
    std::string_view line = ptx.substr(0, end);
    ptx.remove_prefix(end);
    line = trimmed(line.substr(0, std::min(line.find("//"), line.find('\n'))));
    if (line.empty()) continue;
    if (!inside) {
      const bool of_module = line.starts_with(".global") || line.starts_with(".const") || line.starts_with(".extern") ||
                             line.starts_with(".visible .global") || line.starts_with(".func") ||
                             line.starts_with(".shared") || line.find(".func ") != std::string_view::npos;
      if (of_module) return unsupported("its PTX has '{}'", line);
      if (line.find(".entry") != std::string_view::npos) {
        if (found) return unsupported("its PTX has several kernels");
        found = true;
      }
      inside = line == "{";
      continue;
    }
    if (line == "}") {
      inside = false;
      continue;
    }
    if (line.find("\\\"") != std::string_view::npos) return unsupported("its PTX has '{}'", line);
    const auto operand = as_operand(line);
    body += fmt::format("      \"{}\\n\"\n", operand ? *operand : escaped(line));
  }
  if (!found) return unsupported("its PTX has no kernel");
  std::vector<std::string> declared, operands;
  for (size_t i = 0; i < parameters.size(); ++i) {
    declared.push_back(fmt::format("{} p{}", parameters[i], i));
    operands.push_back(fmt::format("\"l\"(p{})", i));
  }
  return fmt::format(
      "#if defined(__CUDACC__) || defined(__CUDACC_RTC__)\n"
      "STRATA_KERNEL void __launch_bounds__({}) {}({}) {{\n  asm volatile(\n      \"{{\\n\"\n{}      \"}}\\n\" ::{}\n"
      "      : \"memory\");\n}}\n#endif\n\n",
      threads, name, fmt::join(declared, ", "), body, fmt::join(operands, ", "));
}

}  // namespace strata::compiler

#include "compiler/ptx_in_cuda.h"

#include <fmt/format.h>

#include <cctype>
#include <set>

namespace strata::compiler {
namespace {

std::string_view trimmed(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

/// The letters that a name begins with.
std::string_view letters(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end]))) ++end;
  return text.substr(0, end);
}

/// For the text of an assembly statement: % begins an operand there, and $ is not for labels. Registers that the text
/// declares get names that the compiler's own, which stand for operands, do not have.
std::string escaped(std::string_view line, const std::set<std::string, std::less<>>& registers) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '%') {
      text += registers.count(letters(line.substr(i + 1))) > 0 ? "%%strata_" : "%%";
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
std::optional<std::string> as_operand(std::string_view line, const std::set<std::string, std::less<>>& registers) {
  constexpr std::string_view kParameter = "_param_";
  if (!line.starts_with("ld.param.")) return std::nullopt;
  const size_t comma = line.find(',');
  const size_t number = line.rfind(kParameter);
  const size_t space = line.find_first_of(" \t");
  if (comma == std::string_view::npos || number == std::string_view::npos) return std::nullopt;
  const size_t first = number + kParameter.size();
  const std::string_view digits = line.substr(first, line.find(']') - first);
  return fmt::format("mov.b64 {}, %{};", escaped(trimmed(line.substr(space, comma - space)), registers), digits);
}

/// A line of the kernel's body, with what belongs to the team in place of what belongs to a block: `first` is the
/// number of the operand that holds the block's number, and others come after it.
std::string of_team(std::string text, size_t first) {
  const auto replace = [&](std::string_view from, const std::string& to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  replace("%%ctaid.x", fmt::format("%{}", first));
  replace("%%tid.x", fmt::format("%{}", first + 1));
  if (text.starts_with("bar.sync") && text.ends_with("0;"))
    return fmt::format("bar.sync %{}, %{};", first + 2, first + 3);
  // Other code of the program comes after it.
  replace("ret;", "bra.uni STRATA_END;");
  return text;
}

/// What the text declares for all kernels of a module.
bool is_of_module(std::string_view line) {
  return line.starts_with(".global") || line.starts_with(".const") || line.starts_with(".extern") ||
         line.starts_with(".visible .global") || line.starts_with(".func") || line.starts_with(".shared") ||
         line.find(".func ") != std::string_view::npos;
}

}  // namespace

Result<std::string> ptx_in_cuda(std::string_view ptx, std::string_view name,
                                const std::vector<std::string>& parameters) {
  constexpr std::string_view kShared = ".extern .shared .align 16 .b8 strata_shared[];";
  const size_t first = parameters.size();
  std::string body;
  std::set<std::string, std::less<>> registers;  // that it declares, without their numbers
  bool inside = false, found = false, shares = false;
  while (!ptx.empty()) {
    const size_t end = std::min(ptx.find('\n'), ptx.size() - 1) + 1;
    std::string_view line = ptx.substr(0, end);
    ptx.remove_prefix(end);
    line = trimmed(line.substr(0, std::min(line.find("//"), line.find('\n'))));
    if (line.empty()) continue;
    if (!inside) {
      if (line == kShared) {
        shares = true;
        continue;
      }
      if (is_of_module(line)) return unsupported("its PTX has '{}'", line);
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
    if (line.starts_with("griddepcontrol")) return unsupported("its PTX orders kernels: '{}'", line);
    if (line.starts_with("bar") && !(line.starts_with("bar.sync") && line.ends_with("0;")) &&
        !line.starts_with("bar.warp"))
      return unsupported("its PTX has '{}'", line);
    if (line.starts_with(".reg")) {
      const size_t at = line.find('%');
      if (at != std::string_view::npos) registers.emplace(letters(line.substr(at + 1)));
    }
    const auto operand = as_operand(line, registers);
    body += fmt::format("      \"{}\\n\"\n", of_team(operand ? *operand : escaped(line, registers), first));
  }
  if (!found) return unsupported("its PTX has no kernel");
  std::vector<std::string> declared, operands;
  for (size_t i = 0; i < first; ++i) {
    declared.push_back(fmt::format("{} p{}", parameters[i], i));
    operands.push_back(fmt::format("\"l\"(p{})", i));
  }
  declared.insert(declared.end(), {"unsigned block", "[[maybe_unused]] unsigned char* shared"});
  operands.insert(operands.end(), {"\"r\"(block)", "\"r\"(static_cast<unsigned>(Team::rank()))",
                                   "\"n\"(Team::kBarrier)", "\"n\"(Team::kThreads)"});
  if (shares) operands.emplace_back("\"l\"(__cvta_generic_to_shared(shared))");
  const std::string memory =
      shares
          ? fmt::format("      \".reg .b64 strata_shared;\\n\"\n      \"mov.b64 strata_shared, %{};\\n\"\n", first + 4)
          : "";
  return fmt::format(
      "template <class Team>\nstatic STRATA_DEVICE void {}({}) {{\n  asm volatile(\n      \"{{\\n\"\n{}{}"
      "      \"STRATA_END:\\n\"\n      \"}}\\n\" ::{}\n      : \"memory\");\n}}\n\n",
      name, fmt::join(declared, ", "), memory, body, fmt::join(operands, ", "));
}

}  // namespace strata::compiler

#include "hlo/opcode.h"

#include <array>
#include <unordered_map>

namespace strata::hlo {
namespace {

struct Properties {
  std::string_view name;
  int arity;
  Family family;
};

constexpr auto kOpcodes = std::to_array<Properties>({
#define HLO_OPCODE(enumerator, name, arity, family, attributes) {name, arity, Family::family},
#include "hlo/opcode.def"
#undef HLO_OPCODE
});

const Properties& properties(Opcode opcode) { return kOpcodes[static_cast<size_t>(opcode)]; }

}  // namespace

std::string_view name(Opcode opcode) { return properties(opcode).name; }
Family family(Opcode opcode) { return properties(opcode).family; }
int arity(Opcode opcode) { return properties(opcode).arity; }

const std::vector<Opcode>& all_opcodes() {
  static const std::vector<Opcode> all = [] {
    std::vector<Opcode> opcodes;
    for (size_t i = 0; i < kOpcodes.size(); ++i) opcodes.push_back(static_cast<Opcode>(i));
    return opcodes;
  }();
  return all;
}

std::optional<Opcode> opcode_named(std::string_view name) {
  static const std::unordered_map<std::string_view, Opcode> by_name = [] {
    std::unordered_map<std::string_view, Opcode> map;
    for (Opcode opcode : all_opcodes()) map.emplace(hlo::name(opcode), opcode);
    return map;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace strata::hlo

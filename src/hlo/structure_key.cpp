#include "hlo/structure_key.h"

#include <map>

#include "hlo/text.h"

namespace strata::hlo {
namespace {

/// Appends to a key. What has no fixed length comes after its length, so that no two modules have one key.
class KeyWriter {
 public:
  std::string take() { return std::move(key_); }

  void add(int64_t number) { key_.append(reinterpret_cast<const char*>(&number), sizeof number); }

  template <class Int>
  void add_all(const std::vector<Int>& numbers) {
    add(std::ssize(numbers));
    key_.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Int));
  }

  void add(std::string_view text) {
    add(std::ssize(text));
    key_ += text;
  }

  void add(const Shape& shape) {
    key_ += static_cast<char>(shape.type);
    if (shape.is_tuple()) {
      add(std::ssize(shape.elements));
      for (const Shape& element : shape.elements) add(element);
      return;
    }
    add_all(shape.dims);
    add_all(shape.minor_to_major);
  }

  void add(const Literal& literal) {
    add(literal.shape());
    if (literal.shape().is_tuple()) {
      for (const Literal& element : literal.elements()) add(element);
      return;
    }
    add(std::string_view(reinterpret_cast<const char*>(literal.bytes()), literal.byte_size()));
  }

  void add_with_called(const Module& module, const Instruction& it) {
    add_alone(module, it);
    add(std::ssize(it.called));
    for (const ComputationId id : it.called) {
      // Each once: what calls the one before twice would double with each level.
      const auto [known, is_new] = written_.try_emplace(id, std::ssize(written_));
      add(known->second);
      if (!is_new) continue;
      const Computation& computation = module[id];
      add(static_cast<int64_t>(computation.root));
      add(std::ssize(computation.instructions));
      for (const Instruction& one : computation.instructions) {
        add_all(one.operands);
        add_with_called(module, one);
      }
    }
  }

  void add(const Module& module, const Instruction& it) {
    add_all(it.operands);
    add_all(it.called);
    add_alone(module, it);
  }

 private:
  void add_alone(const Module& module, const Instruction& it) {
    add(static_cast<int64_t>(it.opcode));
    add(it.shape);
    add(static_cast<int64_t>(it.attributes.index()));
    if (const auto* parameter = std::get_if<ParameterAttributes>(&it.attributes)) {
      add(parameter->number);
    } else if (const auto* constant = std::get_if<ConstantAttributes>(&it.attributes)) {
      add(static_cast<int64_t>(constant->elided));
      add(constant->value);
    } else if (!std::holds_alternative<NoAttributes>(it.attributes)) {
      add(print_attributes(module, it));
    }
  }

  std::string key_;
  std::map<ComputationId, int64_t> written_;  ///< computations, in order
};

}  // namespace

std::string structure_key(const Module& module, const Instruction& instruction) {
  KeyWriter key;
  key.add_with_called(module, instruction);
  return key.take();
}

std::string structure_key(const Module& module, const Instruction& instruction,
                          const std::vector<InstructionId>& operands) {
  KeyWriter key;
  key.add_with_called(module, instruction);
  key.add_all(operands);
  return key.take();
}

std::string structure_key(const Module& module) {
  KeyWriter key;
  key.add(static_cast<int64_t>(module.entry));
  key.add(static_cast<int64_t>(module.fusion));
  key.add(std::ssize(module.computations));
  for (const Computation& computation : module.computations) {
    key.add(static_cast<int64_t>(computation.root));
    key.add(std::ssize(computation.instructions));
    for (const Instruction& it : computation.instructions) key.add(module, it);
  }
  return key.take();
}

}  // namespace strata::hlo

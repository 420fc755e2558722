// Any bytes at all: parsing does not crash, what parses is printed to a fixed point of the format, and what is small
// runs to a value or an error.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "fuzz_target.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace {

using namespace strata::hlo;

// abort(), not exit(): libFuzzer and the driver both keep the input of an abort.
[[noreturn]] void fail(const std::string& what, const std::string& printed) {
  fmt::print(stderr, "hlo_fuzz: {}\nprinted:\n{}\n", what, printed);
  std::fflush(stderr);
  std::abort();
}

bool is_small(const Shape& shape) {
  if (shape.is_tuple()) return std::all_of(shape.elements.begin(), shape.elements.end(), is_small);
  return shape.element_count() <= 2000;
}

bool has_small_window(const std::vector<WindowDimension>& window) {
  int64_t size = 1;
  for (const WindowDimension& dimension : window) size = std::min<int64_t>(size * dimension.size, 10000);
  return size <= 100;
}

/// Loops may run for ever, and sizes multiply.
bool runs_quickly(const Module& module) {
  size_t calls = 0;
  for (const Computation& computation : module.computations) {
    for (const Instruction& instruction : computation.instructions) {
      calls += instruction.called.size();
      if (instruction.opcode == Opcode::While || !is_small(instruction.shape)) return false;
      if (instruction.opcode == Opcode::Convolution &&
          !has_small_window(instruction.as<ConvolutionAttributes>().window)) {
        return false;
      }
      const auto* window = std::get_if<WindowAttributes>(&instruction.attributes);
      if (window != nullptr && !has_small_window(window->window)) return false;
    }
  }
  return calls <= 40;
}

}  // namespace

const FuzzTarget& fuzz_target() {
  static const FuzzTarget target = [] {
    FuzzTarget made{{"tests/hlo"}, ".hlo", {}, [](std::string_view text) { return parse_module(text).has_value(); }};
    for (Opcode opcode : all_opcodes()) made.words.emplace_back(name(opcode));
    for (int type = 0; type <= static_cast<int>(ElementType::Token); ++type) {
      made.words.emplace_back(name(static_cast<ElementType>(type)));
    }
    return made;
  }();
  return target;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto module = parse_module({reinterpret_cast<const char*>(data), size});
  if (!module) return 0;
  const std::string printed = print(**module);
  const auto again = parse_module(printed);
  if (!again) fail("a printed module does not parse: " + again.error().to_string(), printed);
  if (print(**again) != printed) fail("a printed module prints to other bytes: " + print(**again), printed);
  if (!runs_quickly(**module)) return 0;
  const auto value = evaluate(**module, typical_arguments((*module)->entry_computation(), 1));
  if (value && !same_shape(value->shape(), (*module)->entry_computation().root_instruction().shape)) {
    fail("a value is of another shape than its instruction", printed);
  }
  return 0;
}

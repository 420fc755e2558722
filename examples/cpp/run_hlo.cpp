// Compiles HLO text for this machine's processor and calls it.
//
//   run_hlo
#include <strata/strata.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr const char* kText = R"(
HloModule scaled
ENTRY main {
  x = f32[4,8] parameter(0)
  two = f32[] constant(2)
  twos = f32[4,8] broadcast(two), dimensions={}
  ROOT y = f32[4,8] multiply(x, twos)
}
)";

/// Memory as Strata takes it: a multiple of the alignment, from where a multiple of it is.
struct Freed {
  void operator()(void* memory) const { std::free(memory); }
};
using Array = std::unique_ptr<float, Freed>;

Array array(const strata::ArraySpec& spec, size_t alignment) {
  const size_t bytes = (spec.bytes + alignment - 1) / alignment * alignment;
  return Array(static_cast<float*>(std::aligned_alloc(alignment, bytes)));
}

}  // namespace

int main() {
  try {
    const strata::Function doubled = strata::compile_hlo(kText, {.place = strata::Place::Cpu});
    const strata::ArraySpec& x = doubled.inputs().front();
    std::printf("%s: %s[%d,%d]\n", x.name.c_str(), x.type.c_str(), static_cast<int>(x.shape[0]),
                static_cast<int>(x.shape[1]));
    const Array input = array(x, doubled.alignment());
    const Array result = array(doubled.results().front(), doubled.alignment());
    const size_t count = x.bytes / sizeof(float);
    for (size_t i = 0; i < count; ++i) input.get()[i] = static_cast<float>(i);
    const void* const inputs[] = {input.get()};
    void* const results[] = {result.get()};
    doubled(inputs, results);
    for (size_t i = 0; i < count; ++i) {
      if (result.get()[i] != 2 * input.get()[i]) return 1;
    }
    std::printf("twice %g is %g\n", input.get()[count - 1], result.get()[count - 1]);

    strata::compile_hlo("HloModule m\nENTRY e {\n  ROOT x = f32[2] parametr(0)\n}\n", {.file = "wrong.hlo"});
  } catch (const strata::Error& error) {
    std::printf("%s\n", error.what());
    return error.line() == 3 ? 0 : 1;
  }
  return 1;  // the text above is wrong
}

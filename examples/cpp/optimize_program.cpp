// Superoptimizes a program, keeps the result, and runs it: on the GPU where there is one of the target, else by the
// reference executor.
//
//   optimize_program PROGRAM.strata FOLDER
#include <strata/strata.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

namespace {

struct Freed {
  void operator()(void* memory) const { std::free(memory); }
};
using Array = std::unique_ptr<void, Freed>;

/// Zeros. They lie in the host's memory, as Place::Cpu wants.
std::vector<Array> arrays(const std::vector<strata::ArraySpec>& specs, size_t alignment) {
  std::vector<Array> made;
  for (const strata::ArraySpec& spec : specs) {
    const size_t bytes = (spec.bytes + alignment - 1) / alignment * alignment;
    made.emplace_back(std::aligned_alloc(alignment, bytes));
    std::fill_n(static_cast<char*>(made.back().get()), bytes, '\0');
  }
  return made;
}

int run(const char* program, const char* folder) {
  std::ifstream file(program);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  strata::OptimizeOptions options;
  options.search_seconds = 10;
  options.file = program;
  const strata::Kernel kernel = strata::optimize(text, options);
  std::printf("%s\n%s\n", kernel.headline().c_str(), kernel.proof().c_str());
  for (const std::string& note : kernel.notes()) std::printf("note: %s\n", note.c_str());

  kernel.save(folder);
  const strata::Kernel again = strata::load(folder);
  if (again.mugraph() != kernel.mugraph()) return 1;

  const strata::Function function = again.function(strata::Place::Cpu);
  const auto inputs = arrays(function.inputs(), function.alignment());
  const auto results = arrays(function.results(), function.alignment());
  std::vector<const void*> from;
  std::vector<void*> to;
  for (const Array& one : inputs) from.push_back(one.get());
  for (const Array& one : results) to.push_back(one.get());
  function(from, to);
  std::printf("ran: %zu inputs, %zu results\n", from.size(), to.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: optimize_program PROGRAM.strata FOLDER\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2]);
  } catch (const strata::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

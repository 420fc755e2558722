// Any bytes at all: parsing and validating do not crash, and what parses is printed to a fixed point of the format.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "fuzz_target.h"
#include "ir/text.h"
#include "ir/validate.h"

namespace {

// abort(), not exit(): libFuzzer and the driver both keep the input of an abort.
[[noreturn]] void fail(const std::string& what, const std::string& printed) {
  fmt::print(stderr, "text_fuzz: {}\nprinted:\n{}\n", what, printed);
  std::fflush(stderr);
  std::abort();
}

}  // namespace

const FuzzTarget& fuzz_target() {
  static const FuzzTarget target = [] {
    FuzzTarget made{{"programs", "tests/data"}, ".strata", {}, [](std::string_view text) {
                      return strata::parse_graph(text).has_value();
                    }};
    for (const auto* op : strata::all_ops()) made.words.emplace_back(op->traits.name);
    return made;
  }();
  return target;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata;
  const auto graph = parse_graph({reinterpret_cast<const char*>(data), size});
  if (!graph) return 0;
  // Most inputs are illegal; that validate() returns is what is tested.
  for (const Target& target : targets()) static_cast<void>(validate(**graph, target));
  const std::string printed = print(**graph);
  const auto again = parse_graph(printed);
  if (!again) fail("a printed graph does not parse: " + again.error().to_string(), printed);
  if (!same_structure(**graph, **again)) fail("a printed graph parses to another structure", printed);
  if (print(**again) != printed) fail("a printed graph prints to other bytes: " + print(**again), printed);
  return 0;
}

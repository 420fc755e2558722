// How long indexing maps take of a compilation: fusions of 50 operators cut into functions, the maps from threads to
// all that they read, and the checks of these. usage: map_rate
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "hlo/indexing/function_partition.h"
#include "hlo/text.h"
#include "indexing/map_checks.h"
#include "indexing/memory_access.h"
#include "indexing/simplify.h"
#include "indexing/split_interior.h"
#include "indexing/thread_maps.h"

namespace {

using namespace strata;
using namespace strata::indexing;

/// The least time of five, in milliseconds.
double milliseconds(const std::function<void()>& work) {
  double least = 1e30;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    least = std::min(least, time.count());
  }
  return least;
}

std::string module_text(const std::string& body, const std::string& root) {
  return "HloModule m\nENTRY e {\n  p = f32[48,35,64] parameter(0)\n  z = f32[] constant(0)\n" + body +
         "  ROOT r = " + root + "\n}\n";
}

/// Ten times: there and back through shapes that share no factor structure, one use each.
std::string reshapes() {
  std::string body;
  std::string last = "p";
  for (int i = 0; i < 10; ++i) {
    body += fmt::format(
        "  a{0} = f32[64,105,16] reshape({1})\n  b{0} = f32[16,64,105] transpose(a{0}), dimensions={{2,0,1}}\n"
        "  c{0} = f32[40,56,48] reshape(b{0})\n  d{0} = f32[48,35,64] reshape(c{0})\n"
        "  e{0} = f32[48,35,64] exponential(d{0})\n",
        i, last);
    last = fmt::format("e{}", i);
  }
  return module_text(body, "f32[48,35,64] negate(" + last + ")");
}

/// Ten times: a pad with two slices of it, so that every step has users at two indices.
std::string pads() {
  std::string body;
  std::string last = "p";
  for (int i = 0; i < 10; ++i) {
    body += fmt::format(
        "  a{0} = f32[48,35,64] exponential({1})\n  b{0} = f32[50,35,64] pad(a{0}, z), padding=1_1x0_0x0_0\n"
        "  c{0} = f32[48,35,64] slice(b{0}), slice={{[0:48], [0:35], [0:64]}}\n"
        "  d{0} = f32[48,35,64] slice(b{0}), slice={{[2:50], [0:35], [0:64]}}\n"
        "  e{0} = f32[48,35,64] add(c{0}, d{0})\n",
        i, last);
    last = fmt::format("e{}", i);
  }
  return module_text(body, "f32[48,35,64] negate(" + last + ")");
}

void report(const char* name, const std::string& text) {
  const auto module = hlo::parse_module(text);
  if (!module) {
    fmt::print("{}: {}\n", name, module.error().to_string());
    return;
  }
  const hlo::Module& m = **module;
  FunctionPartition partition;
  const double cut = milliseconds([&] { partition = *partition_functions(m, m.entry); });
  const std::vector<int64_t> shape{48, 35, 64};
  const IndexingMap threads = thread_map(linear_tiling(shape, 128, 4, 1), shape);
  std::vector<IndexingMap> from_threads;
  const double composed = milliseconds([&] {
    from_threads.clear();
    for (size_t i = 0; i < partition.index_of.size(); ++i) {
      if (partition.function_of[i] == 0) from_threads.push_back(simplify(compose(threads, partition.index_of[i])));
    }
  });
  const double writes = milliseconds([&] { writes_bijectively(threads, shape); });
  int structural = 0;
  const double reads = milliseconds([&] {
    structural = 0;
    for (const IndexingMap& map : from_threads) {
      const std::vector<int64_t> any(map.results.size(), 107520);
      structural += reads_in_bounds(map, any).kind == Verdict::Kind::ProvedByStructure ? 1 : 0;
    }
  });
  const double sectors = milliseconds([&] { global_access(threads, {35 * 64, 64, 1}, 32, 1); });
  const double split = milliseconds([&] { split_interior(threads); });
  fmt::print(
      "{}: {} functions; partition {:.2f} ms, {} maps from threads {:.2f} ms, writes checked {:.3f} ms, reads checked "
      "{:.3f} ms ({} by structure), sectors {:.2f} ms, split {:.3f} ms\n",
      name, partition.functions.size(), cut, from_threads.size(), composed, writes, reads, structural, sectors, split);
}

}  // namespace

int main() {
  report("reshapes and transposes", reshapes());
  report("pads and slices", pads());
  return 0;
}

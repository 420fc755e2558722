// How many candidate µGraphs a second the verifier's screen decides: all graphs that the search finds for a program,
// each with nothing remembered of the others (a screen of its own: sample, reference and candidate at shrunk shapes),
// and with one screen for all, as a search would use it.
//
//   build/release/bin/screen_rate programs/rmsnorm.strata
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "ir/text.h"
#include "superopt/search/search.h"
#include "superopt/verify/verify.h"

namespace {

using namespace strata;

struct Measured {
  double seconds = 0;
  int refused = 0;
};

Measured measure(const GraphPtr& program, const std::vector<GraphPtr>& graphs, int threads, bool remember) {
  Screen shared(program, 1);
  std::atomic<size_t> next{0};
  std::atomic<int> refused{0};
  const auto work = [&] {
    for (size_t i = next++; i < graphs.size(); i = next++) {
      const bool passes = remember ? shared.passes(*graphs[i]) : Screen(program, i).passes(*graphs[i]);
      if (!passes) ++refused;
    }
  };
  const auto start = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t) workers.emplace_back(work);
  }
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), refused};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: screen_rate PROGRAM.strata\n");
    return 2;
  }
  const auto program = load_graph(argv[1]);
  if (!program) {
    fmt::print(stderr, "{}\n", program.error().to_string());
    return 2;
  }
  SearchOptions options;
  options.target = &targets().back();
  options.threads = 2;
  const auto found = search(*program, options);
  if (!found) {
    fmt::print(stderr, "{}\n", found.error().to_string());
    return 2;
  }
  fmt::print("{} equivalent graphs of {}\n{:>8} {:>12} {:>12} {:>8}\n", found->graphs.size(), argv[1], "threads",
             "remembered", "per second", "refused");
  for (const bool remember : {false, true}) {
    for (const int threads : {1, 2}) {
      const Measured m = measure(*program, found->graphs, threads, remember);
      fmt::print("{:>8} {:>12} {:>12.0f} {:>8}\n", threads, remember ? "yes" : "no",
                 static_cast<double>(found->graphs.size()) / m.seconds, m.refused);
    }
  }
  return 0;
}

// Pairs of programs that were written against the verifier: unequal ones that it must not take for equal, and equal
// ones that it must not take for different and should be able to prove. Each file has a class of them; README.md says
// more.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "ir/text.h"
#include "superopt/decide.h"
#include "test_paths.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

struct Pair {
  std::string name, reason, first, second;
};

/// Reads "== name: reason", a program, "--" and a program, as often as they come.
std::vector<Pair> read_pairs(const fs::path& path) {
  std::ifstream file(path);
  std::vector<Pair> pairs;
  bool in_second = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("== ")) {
      const size_t colon = line.find(": ");
      EXPECT_NE(colon, std::string::npos) << path << ": " << line;
      pairs.push_back({.name = line.substr(3, colon - 3), .reason = line.substr(colon + 2)});
      in_second = false;
    } else if (line == "--") {
      in_second = true;
    } else if (!pairs.empty()) {
      (in_second ? pairs.back().second : pairs.back().first) += line + "\n";
    }
  }
  return pairs;
}

std::vector<fs::path> files_of(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(STRATA_SOURCE_DIR) / "tests/adversary" / folder)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// As `strata verify` decides, by its default limits.
Result<Decision> decide(const Pair& pair) {
  STRATA_TRY(const GraphPtr first, parse_graph(pair.first));
  STRATA_TRY(const GraphPtr second, parse_graph(pair.second));
  return decide(*first, *second);
}

std::string described(const Decision& decision) {
  switch (decision.verdict) {
    case Verdict::Equivalent:
      return decision.solver ? "equivalent by the solver: " + decision.solver->argument
                             : "equivalent by the finite fields: " + decision.fields.argument;
    case Verdict::Different:
      return "different: " + (decision.solver ? decision.solver->reason : decision.fields.reason);
    case Verdict::Undecided:
      return "undecided: " + decision.fields.reason + (decision.solver ? "; " + decision.solver->reason : "");
  }
  return "";
}

/// Decides every pair of a file, none of which may have the verdict `wrong`.
void expect_never(const fs::path& path, Verdict wrong) {
  const std::vector<Pair> pairs = read_pairs(path);
  EXPECT_FALSE(pairs.empty()) << path;
  for (const Pair& pair : pairs) {
    const auto start = std::chrono::steady_clock::now();
    const auto decision = decide(pair);
    ASSERT_TRUE(decision) << pair.name << ": " << decision.error().to_string();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << fmt::format("{:6.2f} s  {}: {}\n", seconds.count(), pair.name, described(*decision));
    EXPECT_NE(decision->verdict, wrong) << pair.name << ": " << pair.reason << "\n" << described(*decision);
  }
}

class Unequal : public testing::TestWithParam<fs::path> {};
class Equal : public testing::TestWithParam<fs::path> {};

TEST_P(Unequal, IsNeverEquivalent) { expect_never(GetParam(), Verdict::Equivalent); }
TEST_P(Equal, IsNeverDifferent) { expect_never(GetParam(), Verdict::Different); }

std::string class_name(const testing::TestParamInfo<fs::path>& info) { return info.param.stem().string(); }

INSTANTIATE_TEST_SUITE_P(Adversary, Unequal, testing::ValuesIn(files_of("unequal")), class_name);
INSTANTIATE_TEST_SUITE_P(Adversary, Equal, testing::ValuesIn(files_of("equal")), class_name);

TEST(Adversary, ProvesAlmostAllEqualPairs) {
  std::vector<Pair> pairs;
  for (const fs::path& file : files_of("equal")) {
    for (Pair& pair : read_pairs(file)) pairs.push_back(std::move(pair));
  }
  ASSERT_FALSE(pairs.empty());
  std::vector<std::string> unproved(pairs.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < pairs.size(); i = next++) {
      const auto decision = decide(pairs[i]);
      if (!decision) {
        unproved[i] = decision.error().to_string();
      } else if (decision->verdict != Verdict::Equivalent) {
        unproved[i] = described(*decision);
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  }
  size_t count = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (unproved[i].empty()) continue;
    ++count;
    std::cout << pairs[i].name << ": " << unproved[i] << "\n";
  }
  constexpr double kProved = 0.97;
  EXPECT_GE(static_cast<double>(pairs.size() - count), kProved * static_cast<double>(pairs.size()))
      << count << " of " << pairs.size() << " equal pairs are not proved";
}

}  // namespace
}  // namespace strata

// Pairs of programs that were written against the verifier: unequal ones that it must not take for equal, and equal
// ones that it must not take for different and should be able to prove. Each file has a class of them; README.md says
// more.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

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

/// As `strata verify` decides. `patience` multiplies the solver's time limit.
Result<Decision> decide(const Pair& pair, double patience) {
  STRATA_TRY(const GraphPtr first, parse_graph(pair.first));
  STRATA_TRY(const GraphPtr second, parse_graph(pair.second));
  SolverOptions solving;
  solving.time_limit *= patience;
  return decide(*first, *second, {}, solving);
}

/// Equal pairs that are not proved, by name: undecided.txt.
std::set<std::string> known_undecided() {
  std::ifstream file(fs::path(STRATA_SOURCE_DIR) / "tests/adversary/undecided.txt");
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') names.insert(line);
  }
  return names;
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

/// Decides every pair of a file and hands pair and decision to `check`.
void decide_all(const fs::path& path, const std::function<double(const Pair&)>& patience,
                const std::function<void(const Pair&, const Decision&)>& check) {
  const std::vector<Pair> pairs = read_pairs(path);
  EXPECT_FALSE(pairs.empty()) << path;
  for (const Pair& pair : pairs) {
    SCOPED_TRACE(pair.name + ": " + pair.reason);
    const auto start = std::chrono::steady_clock::now();
    const auto decision = decide(pair, patience(pair));
    ASSERT_TRUE(decision) << decision.error().to_string();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << fmt::format("{:6.2f} s  {}: {}\n", seconds.count(), pair.name, described(*decision));
    check(pair, *decision);
  }
}

class Unequal : public testing::TestWithParam<fs::path> {};
class Equal : public testing::TestWithParam<fs::path> {};

TEST_P(Unequal, IsNeverEquivalent) {
  decide_all(
      GetParam(), [](const Pair&) { return 1; },
      [](const Pair&, const Decision& decision) {
        EXPECT_NE(decision.verdict, Verdict::Equivalent) << described(decision);
      });
}

TEST_P(Equal, IsProvedUnlessListed) {
  const std::set<std::string> listed = known_undecided();
  // On a busy machine a proof takes longer; what is never found need not be sought for longer.
  const auto patience = [&](const Pair& pair) { return listed.contains(pair.name) ? 1 : 10; };
  decide_all(GetParam(), patience, [&](const Pair& pair, const Decision& decision) {
    EXPECT_NE(decision.verdict, Verdict::Different) << described(decision);
    const bool proved = decision.verdict == Verdict::Equivalent;
    EXPECT_TRUE(proved || listed.contains(pair.name)) << described(decision);
  });
}

std::string class_name(const testing::TestParamInfo<fs::path>& info) { return info.param.stem().string(); }

INSTANTIATE_TEST_SUITE_P(Adversary, Unequal, testing::ValuesIn(files_of("unequal")), class_name);
INSTANTIATE_TEST_SUITE_P(Adversary, Equal, testing::ValuesIn(files_of("equal")), class_name);

TEST(Adversary, FewEqualPairsAreListed) {
  const std::set<std::string> listed = known_undecided();
  std::set<std::string> names;
  for (const fs::path& file : files_of("equal")) {
    for (const Pair& pair : read_pairs(file)) EXPECT_TRUE(names.insert(pair.name).second) << pair.name << " twice";
  }
  for (const std::string& name : listed) EXPECT_TRUE(names.contains(name)) << name << " is no equal pair";
  EXPECT_LE(listed.size(), 0.03 * static_cast<double>(names.size()));
}

}  // namespace
}  // namespace strata

#include "report/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "report/bench_rows.h"
#include "report/pages.h"
#include "report/read_report.h"
#include "support/write_file.h"
#include "test_paths.h"

namespace strata {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string words_of(const Explanation& explanation) { return to_text(explanation); }

Json search_report() {
  return Json::parse(R"({"kind": "search", "program": "p", "target": "sm_90a", "gpu": "H200", "seed": 1,
    "headline": "1 kernel in place of 3 kernels: 4.00 µs",
    "search": {"seconds": 1.5, "threads": 2, "generated": 57219, "verified": 18, "spaces_total": 9,
               "spaces_searched": 4, "stop_reason": "exhausted", "left_out": "graphs of 2 kernels; some derivations"},
    "input": {"kernels": 3, "bytes": 4000000, "estimated_seconds": 1e-5, "floor_seconds": 1e-6},
    "best": {"kernels": 1, "bytes": 3000000, "estimated_seconds": 4e-6, "floor_seconds": 8e-7, "needs": "",
             "block_ops": 5, "grid": [4, 8], "forloop": 16},
    "verification": {"delta": 1e-12, "method": "finite fields", "tests": 2, "error_bound": 3e-20, "argument": "a bound",
                     "full_shape": true, "unproved": 0},
    "profile": {"measured": false, "reason": "no GPU"},
    "candidates": [{"kernels": 1, "estimated_seconds": 4e-6, "f32_error": 1e-7, "own_type_error": 1e-3}]})");
}

TEST(Words, OfASearch) {
  const std::string words = words_of(explain_search(search_report()));
  for (const char* sentence :
       {"p on sm_90a\n1 kernel in place of 3 kernels: 4.00 µs.\n", "went through 4 of 9 spaces",
        "It tried 57,219 operators.", "It ended because nothing was left",
        "Its kernel has 5 operators in 32 blocks, each with 16 iterations of a loop.",
        "It launches 2 kernels fewer: 1 in place of 3.", "3.00 MB of device memory in place of 4.00 MB: 25.0 % less.",
        "Of the 6.00 µs that the model sees saved, 0.20 µs are bytes", "takes 0.80 µs, which is 20 % of its estimate.",
        "2 random tests over finite fields show it", "at most 3e-20 (1e-12 was asked for)",
        "at the program's own shapes", "1.0e-07 in float32", "Nothing: no GPU.", "Graphs of 2 kernels.",
        "Some derivations."}) {
    EXPECT_THAT(words, HasSubstr(sentence));
  }
}

TEST(Words, WhatWasNotTriedOfParts) {
  Json report = search_report();
  report["search"]["left_out"] = "part of 'V': 3 spaces; some derivations; part of 'H': 2 sets";
  EXPECT_THAT(words_of(explain_search(report)),
              HasSubstr("  Part of 'V': 3 spaces; some derivations.\n  Part of 'H': 2 sets.\n"));
}

TEST(Words, OfASearchThatFoundNothingOrWasEnded) {
  Json report = search_report();
  report["best"]["estimated_seconds"] = 1e-5;
  report["search"]["stop_reason"] = "time limit";
  report["search"]["left_out"] = "";
  report["verification"]["method"] = "solver";
  const std::string words = words_of(explain_search(report));
  EXPECT_THAT(words,
              AllOf(HasSubstr("Why it is not faster"), HasSubstr("It was ended before that (time limit)"),
                    HasSubstr("The solver proved it equal to the program: a bound."),
                    HasSubstr("Nothing within the limits of the search was left out."), Not(HasSubstr("fewer"))));
}

/// Whatever is missing or of another type, nothing breaks: each key away, and each value another.
TEST(Words, AndPagesOfDamagedReportsAreMade) {
  const auto try_all = [](const Json& report, auto&& make) {
    for (const auto& [key, value] : report.items()) {
      for (const Json& other : {Json(), Json("word"), Json(-3.5), Json::array({1, "a"}), Json::object({{"a", 1}})}) {
        Json damaged = report;
        damaged[key] = other;
        make(damaged);
        if (!value.is_object()) continue;
        for (const auto& [inner, ignored] : value.items()) {
          damaged = report;
          damaged[key][inner] = other;
          make(damaged);
        }
      }
    }
  };
  try_all(search_report(), [](const Json& report) {
    EXPECT_THAT(words_of(explain_search(report)), HasSubstr("What is proved"));
    EXPECT_THAT(search_page(report, "code"), HasSubstr("</html>"));
  });
  const Json module = Json::parse(R"({"kind": "module", "name": "m", "target": "sm_90a", "bytes": 100, "floor_us": 1,
    "steps": [{"name": "f", "kind": "emitter", "what": "loop", "reason": "r", "reads": [{"shape": "f32[2]"}],
               "writes": [], "bytes": 10, "floor_us": 1, "estimated_us": 2, "launches": [{"kernel": "k", "blocks": 1}],
               "details": [["a", "b"]], "refused": [["c", "d"]]},
              {"name": "w", "kind": "loop", "what": "loop", "steps": [{"name": "inner", "kind": "emitter"}]}],
    "notes": ["n"], "measured": {"device": "G", "all_us": 5}})");
  try_all(module, [](const Json& report) {
    EXPECT_THAT(words_of(explain_module(report)), HasSubstr("What is proved"));
    EXPECT_THAT(module_page(report), HasSubstr("</html>"));
  });
  const Json bench =
      Json::parse(R"({"device": "G", "date": "d", "rows": [{"program": "a", "us": 2, "floor": 1, "xla": 3}],
    "modules": {"m": {"microseconds": 4}}})");
  try_all(bench, [](const Json& report) {
    EXPECT_THAT(words_of(explain_bench(report)), HasSubstr("Against"));
    EXPECT_THAT(bench_page(report), HasSubstr("</html>"));
  });
}

TEST(Bench, RowsOfEachFormOfTheFilesAreRead) {
  const auto rows = [](const char* text) { return bench_rows(Json::parse(text)); };
  auto made = rows(R"({"rows": [{"program": "a", "floor_us": 1, "strata": {"cold_us": 2, "hot_us": 1},
                                 "peers": {"eager": {"cold_us": 3}, "flash": {"cold_us": 2.5}, "broken": {}}}]})");
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].name, "a");
  EXPECT_EQ(made[0].us, 2);
  EXPECT_EQ(made[0].floor, 1);
  EXPECT_EQ(made[0].peers, (std::map<std::string, double>{{"eager", 3}, {"flash", 2.5}}));
  EXPECT_EQ(made[0].fastest_peer()->first, "flash");
  made = rows(R"({"rows": [{"name": "b", "us": 5, "floor": 4, "compile": 6, "xla": 7}]})");
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].peers, (std::map<std::string, double>{{"torch.compile", 6}, {"XLA", 7}}));
  made = rows(R"({"modules": {"c": {"strata_us": 5, "xla_us": 4, "steps": 3}, "d": {"status": "failed"}}})");
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].name, "c");
  EXPECT_EQ(made[0].peers, (std::map<std::string, double>{{"XLA", 4}}));
  made = rows(R"({"rows": [{"model": "q", "batch": 1, "position": 576, "floor_ms": 3, "megakernel": {"ms": 4},
                            "torch": {"ms": 5}}]})");
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].name, "q, batch 1, position 576");
  EXPECT_EQ(made[0].us, 4000);
  EXPECT_EQ(made[0].floor, 3000);
  EXPECT_EQ(made[0].peers, (std::map<std::string, double>{{"PyTorch", 5000}}));
  EXPECT_TRUE(rows(R"({"rows": [{"program": "e", "error": 0.1}]})").empty());
  EXPECT_EQ(geometric_mean({}), std::nullopt);
  EXPECT_NEAR(*geometric_mean({2, 8}), 4, 1e-12);
}

TEST(Bench, SaysWhereItIsSlower) {
  const Json results = Json::parse(R"({"device": "G", "rows": [{"name": "slow", "us": 4, "xla": 2, "compile": 9},
    {"name": "fast", "us": 1, "floor": 0.5, "xla": 8}, {"name": "even", "us": 100, "xla": 100.2},
    {"name": "alone", "us": 1}]})");
  const std::string words = words_of(explain_bench(results));
  for (const char* sentence :
       {"G\n4 rows; 1.59 times as fast as the fastest peer; 2.00 times the floor, in the geometric mean.",
        "It is faster in 1, slower in 1, and equal within half a percent in 1.",
        "Most is won with fast: 1.00 µs against 8.00 µs of XLA.",
        "Slower: slow, 4.00 µs against 2.00 µs of XLA (0.50 times as fast).", "1 row has no peer.",
        "3 rows have no floor."}) {
    EXPECT_THAT(words, HasSubstr(sentence));
  }
  const std::string page = bench_page(results);
  EXPECT_THAT(page, HasSubstr("<td class=\"n bar bad\">0.50"));
  EXPECT_THAT(page, HasSubstr("1 of 3"));  // slower than the fastest peer
}

/// All that are in the tree: those with times are explained, and the others refused.
TEST(Bench, FilesOfTheTreeAreReports) {
  int explained = 0;
  for (const auto& entry : std::filesystem::directory_iterator(STRATA_SOURCE_DIR "/bench/results")) {
    if (entry.path().extension() != ".json") continue;
    const auto report = read_report(entry.path().string());
    if (!report) {
      EXPECT_THAT(report.error().to_string(), HasSubstr("is no report")) << entry.path();
      continue;
    }
    EXPECT_EQ(report->kind, ReportKind::Bench);
    EXPECT_THAT(page_of(*report), HasSubstr("</html>"));
    EXPECT_THAT(explain(*report).headline, Not(HasSubstr("nan"))) << entry.path();
    ++explained;
  }
  EXPECT_GE(explained, 15);
  const auto table = read_report(STRATA_SOURCE_DIR "/bench/results/nvidia-h200-2026-11-21.json");
  ASSERT_TRUE(table);
  EXPECT_THAT(to_text(explain(*table)),
              AllOf(HasSubstr("nvidia-h200-2026-11-21\n22 rows; "), HasSubstr("in the geometric mean")));
}

TEST(ReadReport, SaysWhatIsNone) {
  const std::string folder = testing::TempDir() + "/strata_read_report";
  std::filesystem::create_directories(folder);
  const auto refused = [&](const std::string& text, const char* why) {
    ASSERT_TRUE(write_file(folder + "/x.json", text));
    const auto report = read_report(folder + "/x.json");
    ASSERT_FALSE(report) << text;
    EXPECT_THAT(report.error().to_string(), HasSubstr(why));
  };
  refused("[1, 2]", "is no JSON object");
  refused("{", "is no JSON object");
  refused("{}", "is no report");
  refused(R"({"kind": "search"})", "is no report");
  refused(R"({"kind": "search", "search": {}})", "is no report");
  refused(R"({"kind": "module"})", "is no report");
  refused(R"({"shard": {"index": 0}, "search": {}})", "is of one shard of a search");
  std::filesystem::remove(folder + "/report.json");
  EXPECT_THAT(read_report(folder).error().to_string(), HasSubstr("has no report.json"));
  EXPECT_THAT(read_report(folder + "/nothing.json").error().to_string(), HasSubstr("cannot read"));
  ASSERT_TRUE(write_file(folder + "/report.json", search_report().dump()));
  ASSERT_TRUE(read_report(folder));
}

}  // namespace
}  // namespace strata

#include <cctype>
#include <cmath>

#include "page/page.h"
#include "report/words.h"

namespace strata {
namespace {

double us(const Json& json, std::string_view key) { return number(json, key) * 1e6; }

std::string sentence(std::string text) {
  if (text.empty() || text.back() == '.') return text;
  return text + ".";
}

std::string capitalised(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

Paragraph searched(const Json& report) {
  const Json& search = at(report, {"search"});
  Paragraph made{"What was searched", {}};
  made.sentences.push_back(fmt::format("The program is {} as given, for {} ({}).",
                                       counted(whole(at(report, {"input", "kernels"})), "kernel"),
                                       text(report, "target"), text(report, "gpu")));
  made.sentences.push_back(
      fmt::format("The search took {:.2f} s on {} and went through {} of {} spaces; a space is one grid and one loop.",
                  number(search, "seconds"), counted(whole(search, "threads"), "thread"),
                  page::grouped(whole(search, "spaces_searched")), page::grouped(whole(search, "spaces_total"))));
  made.sentences.push_back(fmt::format("It tried {}. {} computed what the program computes, on a random test.",
                                       counted(whole(search, "generated"), "operator"),
                                       counted(whole(search, "verified"), "whole graph")));
  const std::string reason = text(search, "stop_reason");
  if (reason == "exhausted") {
    made.sentences.push_back("It ended because nothing was left that could be faster by its estimates.");
  } else if (!reason.empty()) {
    made.sentences.push_back(fmt::format("It was ended before that ({}): what was not reached may be faster.", reason));
  }
  const Json& parts = list(report, "parts");
  if (parts.size() > 1) {
    const auto left =
        std::count_if(parts.begin(), parts.end(), [](const Json& one) { return !truth(one, "searched"); });
    made.sentences.push_back(fmt::format("The program was cut into {}; {} left as they are, the others searched.",
                                         counted(static_cast<int64_t>(parts.size()), "part"),
                                         left == 1 ? "1 was" : fmt::format("{} were", left)));
  }
  return made;
}

Paragraph found(const Json& report) {
  const Json& best = at(report, {"best"});
  Paragraph made{"What was found", {}};
  made.sentences.push_back(sentence(text(report, "headline")));
  const Json& grid = list(best, "grid");
  if (grid.size() > 0 && whole(best, "kernels") == 1) {
    int64_t blocks = 1;
    for (const Json& size : grid) blocks *= std::max<int64_t>(1, whole(size));
    const int64_t loop = whole(best, "forloop");
    made.sentences.push_back(fmt::format("Its kernel has {} operators in {}{}.", whole(best, "block_ops"),
                                         counted(blocks, "block"),
                                         loop > 1 ? fmt::format(", each with {} iterations of a loop", loop) : ""));
  }
  if (const auto count = list(report, "candidates").size(); count > 1)
    made.sentences.push_back(fmt::format("{} graphs are proved and listed, this one first.", count));
  if (const std::string needs = text(best, "needs"); !needs.empty())
    made.sentences.push_back(fmt::format("At run time it needs {}.", needs));
  return made;
}

/// What the estimates come from: launches, bytes, and the rest.
Paragraph why_faster(const Json& report) {
  const Json& input = at(report, {"input"});
  const Json& best = at(report, {"best"});
  Paragraph made{"Why it is faster", {}};
  const double before = us(input, "estimated_seconds"), after = us(best, "estimated_seconds");
  if (after >= before * 0.995) {
    made.title = "Why it is not faster";
    made.sentences.push_back("No graph that is proved is estimated to be faster than the program as given.");
    return made;
  }
  const int64_t fewer = whole(input, "kernels") - whole(best, "kernels");
  if (fewer > 0)
    made.sentences.push_back(fmt::format("It launches {} fewer: {} in place of {}.", counted(fewer, "kernel"),
                                         whole(best, "kernels"), whole(input, "kernels")));
  const double bytes_before = number(input, "bytes"), bytes_after = number(best, "bytes");
  const double change = bytes_before > 0 ? (bytes_before - bytes_after) / bytes_before * 100 : 0;
  made.sentences.push_back(std::abs(change) < 0.05
                               ? fmt::format("It moves as many bytes of device memory: {}.", page::bytes(bytes_after))
                               : fmt::format("It moves {} of device memory in place of {}: {:.1f} % {}.",
                                             page::bytes(bytes_after), page::bytes(bytes_before), std::abs(change),
                                             change > 0 ? "less" : "more"));
  const double floor_before = us(input, "floor_seconds"), floor_after = us(best, "floor_seconds");
  if (floor_after > 0) {
    made.sentences.push_back(fmt::format(
        "Of the {:.2f} µs that the model sees saved, {:.2f} µs are bytes that need not be moved; the rest is fewer "
        "launches, and kernels that are busier.",
        before - after, std::max(0.0, floor_before - floor_after)));
    made.sentences.push_back(fmt::format("Moving its bytes alone takes {:.2f} µs, which is {:.0f} % of its estimate.",
                                         floor_after, 100 * floor_after / after));
  }
  return made;
}

Paragraph proved(const Json& report) {
  const Json& proof = at(report, {"verification"});
  const Json& first = list(report, "candidates").empty() ? Json() : list(report, "candidates")[0];
  Paragraph made{"What is proved", {}};
  const int64_t tests = whole(proof, "tests");
  if (text(proof, "method") == "solver") {
    made.sentences.push_back(fmt::format("The solver proved it equal to the program: {}.", text(proof, "argument")));
  } else if (tests > 0) {
    made.sentences.push_back(fmt::format(
        "It is equal to the program. {} over finite fields {} it; a graph that differs would pass with a probability "
        "of at most {:.2g} ({:.0e} was asked for).",
        counted(tests, "random test"), tests == 1 ? "shows" : "show", number(proof, "error_bound"),
        number(proof, "delta")));
    made.sentences.push_back(sentence("The bound is by " + text(proof, "argument")));
  } else {
    made.sentences.push_back(sentence("No test was needed: " + text(proof, "argument")));
  }
  made.sentences.push_back(truth(proof, "full_shape")
                               ? "All of this holds at the program's own shapes."
                               : "Some of this was shown at smaller shapes, which the line above names.");
  if (number(first, "f32_error") > 0) {
    made.sentences.push_back(fmt::format(
        "Rounding is measured, not proved: on random inputs the largest relative error is {:.1e} in float32 and {:.1e} "
        "in the program's own types.",
        number(first, "f32_error"), number(first, "own_type_error")));
  }
  if (const std::string check = text(report, "whole_check"); !check.empty())
    made.sentences.push_back(sentence("Of the whole program: " + check));
  if (const int64_t unproved = whole(proof, "unproved"); unproved > 0) {
    made.sentences.push_back(fmt::format("{} that would be cheaper {} turned down, the cheapest because {}.",
                                         counted(unproved, "graph"), unproved == 1 ? "was" : "were",
                                         text(proof, "unproved_reason")));
  }
  return made;
}

Paragraph measured(const Json& report) {
  const Json& profile = at(report, {"profile"});
  Paragraph made{"What was measured", {}};
  if (!truth(profile, "measured")) {
    const std::string reason = text(profile, "reason");
    made.sentences.push_back(sentence("Nothing: " + (reason.empty() ? "the report does not say why" : reason)));
    made.sentences.push_back(
        "All times are the cost model's estimates. On a machine with a GPU, strata optimize measures.");
    return made;
  }
  const std::string summary = text(profile, "summary");
  made.sentences.push_back(
      sentence(summary.empty() ? "Candidates were run on " + text(profile, "device") : "On " + summary));
  if (const std::string ranking = text(profile, "ranking"); !ranking.empty())
    made.sentences.push_back(sentence(capitalised(ranking)));
  return made;
}

Paragraph left_out(const Json& report) {
  const Json& search = at(report, {"search"});
  Paragraph made{"What was not tried", {}};
  const std::string left = text(search, "left_out");
  // One sentence a reason; of programs of several parts one a part, with its reasons.
  const std::string_view between = left.starts_with("part of ") ? "; part of " : "; ";
  for (size_t begin = 0; begin < left.size();) {
    const size_t end = std::min(left.find(between, begin), left.size());
    made.sentences.push_back(sentence(capitalised(left.substr(begin, end - begin))));
    begin = end + 2;
  }
  if (left.empty()) made.sentences.push_back("Nothing within the limits of the search was left out.");
  made.sentences.push_back(
      "Graphs with more operators than the limits (--max-kernel-ops, --max-block-ops) were not tried.");
  return made;
}

}  // namespace

Explanation explain_search(const Json& report) {
  Explanation made{"search",
                   fmt::format("{} on {}", text(report, "program"), text(report, "target")),
                   sentence(text(report, "headline")),
                   {}};
  made.paragraphs = {searched(report), found(report),    why_faster(report),
                     proved(report),   measured(report), left_out(report)};
  return made;
}

}  // namespace strata

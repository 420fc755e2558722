#include "page/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "page/assets.h"

namespace strata::page {
namespace {

using testing::HasSubstr;
using testing::Not;

/// The relative luminance of a colour such as #1b1f24 (WCAG 2.2).
double luminance(std::string_view color) {
  EXPECT_EQ(color.size(), 7U) << color;
  double sum = 0;
  constexpr double kWeights[] = {0.2126, 0.7152, 0.0722};
  for (size_t n = 0; n < 3; ++n) {
    const double part = std::stoi(std::string(color.substr(1 + 2 * n, 2)), nullptr, 16) / 255.0;
    sum += kWeights[n] * (part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4));
  }
  return sum;
}

double contrast(std::string_view a, std::string_view b) {
  const double first = luminance(a), second = luminance(b);
  return (std::max(first, second) + 0.05) / (std::min(first, second) + 0.05);
}

TEST(Tokens, TextsAreLegibleInBothThemes) {
  EXPECT_NEAR(contrast("#000000", "#ffffff"), 21, 1e-9);
  EXPECT_NEAR(contrast("#777777", "#ffffff"), 4.478, 1e-3);
  struct Pair {
    std::string_view text, below;
    double least;
  };
  std::vector<Pair> pairs;
  for (const std::string_view text : {"--ink", "--soft", "--accent", "--good", "--bad"}) {
    for (const std::string_view below : {"--paper", "--panel"}) pairs.push_back({text, below, 4.5});
  }
  for (const std::string_view below : {"--tensor", "--operator", "--block", "--thread", "--mark"})
    pairs.push_back({"--ink", below, 4.5});
  for (const std::string_view below : {"--block", "--paper"}) pairs.push_back({"--accent", below, 4.5});
  pairs.push_back({"--soft", "--mark", 4.5});
  // What carries meaning without being text.
  for (const std::string_view line : {"--edge", "--block-line", "--thread-line"}) pairs.push_back({line, "--paper", 3});
  for (const Pair& pair : pairs) {
    EXPECT_GE(contrast(light_value(pair.text), light_value(pair.below)), pair.least)
        << pair.text << " on " << pair.below;
    EXPECT_GE(contrast(dark_value(pair.text), dark_value(pair.below)), pair.least)
        << pair.text << " on dark " << pair.below;
  }
}

TEST(Tokens, EveryOneThatIsUsedIsDefined) {
  for (const std::string_view sheet : {page_style(), graph_style(), timeline_style(), timeline_script()}) {
    for (size_t at = sheet.find("var(--"); at != std::string_view::npos; at = sheet.find("var(--", at + 1)) {
      const std::string name(sheet.substr(at + 4, sheet.find_first_of(",)", at) - at - 4));
      if (name == "--share" || name == "--before") continue;  // an element's own
      EXPECT_FALSE(light_value(name).empty()) << name;
    }
  }
  EXPECT_EQ(light_value("--nothing"), "");
  EXPECT_EQ(light_value("--ink"), "#1b1f24");
  EXPECT_EQ(dark_value("--ink"), "#e6e9ec");
  EXPECT_EQ(dark_value("--gap"), "1rem");
}

Page sample() {
  Page page{"search", "a <b>", {"sm_90a", "x & y"}, "It is \"fast\".", {{"one", "First", "<p>1</p>\n"}}};
  page.data = {{"data", R"({"a":"</script>"})"}};
  return page;
}

TEST(Page, IsOneFileWithLandmarks) {
  const std::string html = to_html(sample());
  for (const char* part : {"<html lang=\"en\">", "<title>a &lt;b&gt; · Strata search</title>", "<h1>a &lt;b&gt;</h1>",
                           "<li>x &amp; y</li>", "<nav aria-label=\"Sections\">", "<main id=\"content\"",
                           "<section id=\"one\" aria-labelledby=\"one-title\">", "<h2 id=\"one-title\">First</h2>",
                           "href=\"#content\"", R"({"a":"\u003c/script>"})"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  for (const char* part : {"http://", "https://", "src=", "@import", "url("}) EXPECT_THAT(html, Not(HasSubstr(part)));
  EXPECT_THAT(html, Not(HasSubstr(std::string(graph_script().substr(0, 40)))));
}

TEST(Table, NamesItsRowsAndColumns) {
  Table table{"Times <of> it", {{"kernel"}, {"µs", true}}, {{"a&b", {"2.00", 0.5}}, {"c"}}, 1};
  const std::string html = to_html(table);
  for (const char* part :
       {"<caption>Times &lt;of&gt; it</caption>", "<th scope=\"col\">kernel</th>",
        "<th scope=\"col\" class=\"n\">µs</th>", "<th scope=\"row\">a&amp;b</th>", "<td class=\"n bar\">2.00",
        "--share:0.5000", "<tr class=\"chosen\">", "class=\"sortable\""}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
}

TEST(Scatter, PlacesDotsAndSkipsWhatHasNoLogarithm) {
  const Scatter one{"t", "d", "x", "y", {{2, 4, "2 < 4", "best"}, {8, 8, "", ""}}};
  const std::string html = to_html(one);
  EXPECT_THAT(html, HasSubstr("<title id=\"scatter-title\">t</title>"));
  EXPECT_THAT(html, HasSubstr("class=\"dot best\""));
  EXPECT_THAT(html, HasSubstr("data-tip=\"2 &lt; 4\""));
  EXPECT_THAT(html, HasSubstr(">5</text>"));  // a tick
  EXPECT_EQ(to_html(Scatter{"t", "d", "x", "y", {{0, 1, "", ""}}}), "");
  EXPECT_EQ(to_html(Scatter{}), "");
}

TEST(Numbers, AreShort) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(57219), "57,219");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(bytes(12), "12 B");
  EXPECT_EQ(bytes(8554496), "8.55 MB");
  EXPECT_EQ(bytes(999960), "1.00 MB");
  EXPECT_EQ(time(4.327), "4.33 µs");
  EXPECT_EQ(time(0.05), "50.00 ns");
  EXPECT_EQ(time(0), "0.00 µs");
  EXPECT_EQ(time(12345), "12.35 ms");
  EXPECT_EQ(time(2.5e6), "2.50 s");
}

TEST(Lines, AreNumbered) {
  EXPECT_EQ(
      lines("a\n\n<b>", "cuda", 7),
      "<pre class=\"lines cuda\" style=\"--before:7\"><span>a</span><span> </span><span>&lt;b&gt;</span></pre>\n");
}

}  // namespace
}  // namespace strata::page

// The pages that people look at: reports of searches, modules and benchmarks, timelines. All are made of what is here,
// so that they look and work the same: one style sheet, one set of components. A page is one file, and asks no network
// for anything.
//
// Text is plain, and escaped here, unless a name says that it is markup.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::page {

struct Section {
  std::string id;  ///< of letters and hyphens: the end of its address
  std::string title;
  std::string markup;
};

struct Page {
  std::string kind;                ///< "search", "module"
  std::string title;               ///< the heading
  std::vector<std::string> facts;  ///< short ones, below the heading
  std::string lead;                ///< what it comes to, in a sentence
  std::vector<Section> sections;
  bool graphs = false;    ///< some section has a graph beside its source (graph.js)
  bool timeline = false;  ///< some section has a timeline (timeline.js)
  /// JSON for the scripts, by the id of its element.
  std::vector<std::pair<std::string, std::string>> data;
};

/// The text of the file.
std::string to_html(const Page& page);

struct Column {
  std::string name;
  bool number = false;  ///< at the right; sorts by value
};

struct Cell {
  Cell(std::string words = {}) : text(std::move(words)) {}  // NOLINT: text is a cell
  Cell(const char* words) : text(words) {}                  // NOLINT
  Cell(std::string words, double of_most) : text(std::move(words)), share(of_most) {}

  std::string text;
  double share = -1;        ///< from 0 to 1: a bar of this length below the text; less: no bar
  std::string_view tone{};  ///< "good" or "bad"; empty: neither
};

/// The first cell of a row is its heading.
struct Table {
  std::string caption;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  size_t chosen = SIZE_MAX;  ///< the row that is marked
  bool sortable = true;
};
std::string to_html(const Table& table);

/// A number that matters, with what it is and what to compare it with.
struct Figure {
  std::string name, value, note;
};
std::string to_html(const std::vector<Figure>& figures);

/// Points with both coordinates above 0, on logarithmic axes of one range, and the line where both are equal.
struct Scatter {
  struct Dot {
    double x = 0, y = 0;
    std::string says;         ///< of the pointer
    std::string_view tone{};  ///< "best", "given" or empty
  };
  std::string title, description;  ///< for who cannot see it
  std::string across, up;          ///< names of the axes, with units
  std::vector<Dot> dots;
};
std::string to_html(const Scatter& scatter);

std::string paragraph(std::string_view text);
std::string code(std::string_view text);
/// What is shown on demand.
std::string details(std::string_view summary, std::string_view text);
/// A source text with numbered lines. `before`: lines that are left out above.
std::string lines(std::string_view source, std::string_view name, size_t before = 0);

/// 57219 → "57,219".
std::string grouped(int64_t number);
/// "8.55 MB", in powers of 1000.
std::string bytes(double count);
/// From microseconds: "0.17 ns", "4.33 µs", "1.20 ms".
std::string time(double microseconds);

}  // namespace strata::page

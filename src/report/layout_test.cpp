#include "report/layout.h"

#include "report/shipped_graphs.h"
#include "support/random.h"

namespace strata {
namespace {

/// Rounding of coordinates; less than any distance that shows.
constexpr double kTouch = 0.01;

bool overlap(const Rectangle& a, const Rectangle& b) {
  return a.x + kTouch < b.x + b.width && b.x + kTouch < a.x + a.width && a.y + kTouch < b.y + b.height &&
         b.y + kTouch < a.y + a.height;
}

bool inside(const Rectangle& a, const Rectangle& b) {
  return a.x >= b.x && a.y >= b.y && a.x + a.width <= b.x + b.width && a.y + a.height <= b.y + b.height;
}

/// The rectangle that a piece of an edge stays in: pieces that are not upright are curves between their ends.
Rectangle reach(const Point& a, const Point& b) {
  // An upright line is as wide as it is drawn.
  return {std::min(a.x, b.x) - 0.6, std::min(a.y, b.y), std::abs(a.x - b.x) + 1.2, std::abs(a.y - b.y)};
}

struct Text {
  std::string words;
  Rectangle place;
};

std::vector<Text> texts_of(const DrawnBox& box) {
  std::vector<Text> texts;
  for (size_t i = 0; i < box.lines.size(); ++i) {
    const double width = kCharacter * static_cast<double>(columns(box.lines[i]));
    const bool loop = box.kind == DrawnBox::Kind::Loop;
    const double x = loop ? box.text.x : box.place.x + (box.place.width - width) / 2;
    const double y = loop ? box.text.y - kFontSize + 2 : box.place.y + 8 + kLine * static_cast<double>(i);
    texts.push_back({box.lines[i], {x, y, width, kFontSize}});
  }
  return texts;
}

bool ends_at(const Point& point, const Drawing& drawing, bool upper) {
  return std::any_of(drawing.boxes.begin(), drawing.boxes.end(), [&](const DrawnBox& box) {
    const Rectangle& r = box.place;
    return box.kind != DrawnBox::Kind::Loop && point.x > r.x && point.x < r.x + r.width &&
           std::abs(point.y - (upper ? r.y : r.y + r.height)) < kTouch;
  });
}

/// Everything that makes a drawing unreadable.
void check(const std::string& name, const Drawing& drawing) {
  const Rectangle sheet{0, 0, drawing.width, drawing.height};
  for (size_t i = 0; i < drawing.boxes.size(); ++i) {
    const DrawnBox& a = drawing.boxes[i];
    EXPECT_TRUE(inside(a.place, sheet)) << name << ": " << a.lines[0];
    for (size_t j = 0; j < i; ++j) {
      const DrawnBox& b = drawing.boxes[j];
      EXPECT_TRUE(!overlap(a.place, b.place) || inside(a.place, b.place) || inside(b.place, a.place))
          << name << ": " << a.lines[0] << " and " << b.lines[0];
    }
    for (const Text& text : texts_of(a)) {
      EXPECT_TRUE(inside(text.place, a.place)) << name << ": " << text.words;
      for (const DrawnBox& b : drawing.boxes) {
        const bool around = &b == &a || inside(a.place, b.place);
        // What lies in a box must leave its text free.
        const bool within = inside(b.place, a.place) && &b != &a;
        EXPECT_FALSE(overlap(text.place, b.place) && (within || !around))
            << name << ": '" << text.words << "' is covered by " << b.lines[0];
      }
      for (const DrawnEdge& edge : drawing.edges) {
        for (size_t n = 1; n < edge.points.size(); ++n) {
          EXPECT_FALSE(overlap(text.place, reach(edge.points[n - 1], edge.points[n])))
              << name << ": an edge runs through '" << text.words << "'";
        }
      }
    }
  }
  for (const DrawnEdge& edge : drawing.edges) {
    ASSERT_GE(edge.points.size(), 2U) << name;
    EXPECT_TRUE(ends_at(edge.points.front(), drawing, false)) << name;
    EXPECT_TRUE(ends_at(edge.points.back(), drawing, true)) << name;
    for (size_t n = 1; n < edge.points.size(); ++n) {
      const Rectangle piece = reach(edge.points[n - 1], edge.points[n]);
      EXPECT_GE(edge.points[n].y, edge.points[n - 1].y) << name;
      for (const DrawnBox& box : drawing.boxes) {
        if (box.kind == DrawnBox::Kind::Loop || box.depth < edge.depth) continue;
        EXPECT_FALSE(overlap(piece, box.place)) << name << ": an edge runs through " << box.lines[0];
      }
    }
  }
}

TEST(Layout, ShippedGraphsAreReadable) {
  for (const GraphPtr& graph : shipped_graphs()) check(graph->name(), lay_out(*graph));
}

/// Elementwise operators on random earlier values: edges over many layers, operands that are used twice, names of
/// different lengths, several outputs.
GraphPtr random_graph(uint64_t seed) {
  Random random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random.below(n)); };
  GraphBuilder builder(Level::Kernel, fmt::format("random_{}", seed));
  std::vector<TensorId> values;
  const TensorType type{DType::F16, {8, 16}};
  for (size_t i = 0, inputs = 1 + below(4); i < inputs; ++i)
    values.push_back(builder.input(std::string(1 + below(30), static_cast<char>('a' + i)), type).value());
  std::vector<bool> used(values.size());
  const auto take = [&] {
    const size_t i = below(values.size());
    used[i] = true;
    return values[i];
  };
  for (size_t i = 0, count = 2 + below(25); i < count; ++i) {
    const bool binary = below(2) == 0;
    const auto made = binary ? builder.add(OpKind::Add, {take(), take()}) : builder.add(OpKind::Exp, {take()});
    values.push_back(made.value());
    used.push_back(false);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (used[i]) continue;
    EXPECT_TRUE(builder.output(values[i]));
  }
  return builder.finish().value();
}

TEST(Layout, RandomGraphsAreReadable) {
  size_t passing = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Drawing drawing = lay_out(*random_graph(seed));
    check(fmt::format("seed {}", seed), drawing);
    for (const DrawnEdge& edge : drawing.edges) passing += edge.points.size() > 3 ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(passing, 500U);  // edges that pass a layer, without which this would show nothing
}

/// A loop with tiles of many inputs, so that edges stand close where the text of the loop is.
TEST(Layout, TextsOfLoopsAreFree) {
  for (int inputs = 1; inputs <= 7; ++inputs) {
    for (const int64_t loop : {2, 1 << 20}) {
      std::string head = "graph g {\n", read, tiles, sum = "t0";
      for (int i = 0; i < inputs; ++i) {
        head += fmt::format("input X{}: f16[4, {}]\n", i, 4 * loop);
        read += fmt::format("{}X{}", i > 0 ? ", " : "", i);
        tiles += fmt::format("t{0} = in_iter(X{0}, imap=[_], fmap=1)\n", i);
        if (i > 0) {
          tiles += fmt::format("s{0} = add({1}, t{0})\n", i, sum);
          sum = fmt::format("s{}", i);
        }
      }
      const auto graph =
          parse_graph(fmt::format("{}Z = block({}, grid=[1], loop={}) {{\n{}a = accum({}, kind=sum)\nZ = out_saver(a, "
                                  "omap=[_])\n}}\noutput Z\n}}",
                                  head, read, loop, tiles, sum));
      ASSERT_TRUE(graph) << graph.error().to_string();
      const Drawing drawing = lay_out(**graph);
      EXPECT_TRUE(std::any_of(drawing.boxes.begin(), drawing.boxes.end(),
                              [](const DrawnBox& box) { return box.kind == DrawnBox::Kind::Loop; }));
      check(fmt::format("{} inputs, loop {}", inputs, loop), drawing);
    }
  }
}

}  // namespace
}  // namespace strata

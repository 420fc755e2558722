#include "report/box_text.h"

#include "ir/text.h"
#include "page/page.h"

namespace strata {
namespace {

constexpr const char* kDimensions[] = {"x", "y", "z"};

/// Walks a graph in the order of the printer, and finds the line of each statement.
class LineFinder {
 public:
  explicit LineFinder(const Graph& graph) {
    std::string text = print(graph);
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      const size_t first = text.find_first_not_of(' ', at);
      lines_.push_back(text.substr(std::min(first, end), end - std::min(first, end)));
      at = end + 1;
    }
    for (const TensorId id : graph.inputs()) {
      const TensorInfo& input = graph.tensor(id);
      found_.inputs[id] =
          find(input.type.iota ? fmt::format("{} = iota(", input.name) : fmt::format("input {}:", input.name));
    }
    operations(graph);
    found_.output = find("output ");
  }
  TextLines take() { return std::move(found_); }

 private:
  /// The next line that begins so.
  int find(const std::string& begin) {
    while (next_ < lines_.size()) {
      if (lines_[next_++].starts_with(begin)) return static_cast<int>(next_);
    }
    return 0;
  }

  void operations(const Graph& graph) {
    for (const Operation& op : graph.operations()) {
      std::string names;
      for (const TensorId id : op.results) names += (names.empty() ? "" : ", ") + graph.tensor(id).name;
      const int line = find(fmt::format("{} = {}(", names, op.name()));
      found_.operations[&op] = line;
      if (!op.body) continue;
      found_.bodies[op.body.get()] = line;
      operations(*op.body);
    }
  }

  std::vector<std::string> lines_;
  size_t next_ = 0;
  TextLines found_;
};

std::string_view place_of(Level level) {
  return level == Level::Kernel ? "device memory" : level == Level::Block ? "shared memory or registers" : "registers";
}

std::string tensor_text(const Graph& graph, TensorId id) {
  return fmt::format("{}: {}", graph.tensor(id).name, to_string(graph.type(id)));
}

std::string size_text(const Graph& graph, TensorId id) {
  return fmt::format("{}, {} in {}", tensor_text(graph, id), page::bytes(static_cast<double>(graph.type(id).bytes())),
                     place_of(graph.tensor(id).level));
}

/// "32 of 4096 along dimension 1".
std::string part_of(int64_t dimension, const TensorType& part, const TensorType& whole) {
  const auto d = static_cast<size_t>(dimension);
  if (d >= part.shape.size() || d >= whole.shape.size()) return fmt::format("dimension {}", dimension);
  return fmt::format("{} of {} along dimension {}", part.shape[d], whole.shape[d], dimension);
}

/// What imap, fmap and omap of an iterator or a saver mean.
std::string maps_text(const Graph& graph, const Operation& op) {
  const LaunchShape& launch = graph.launch();
  const bool saves = op.kind == OpKind::OutSaver;
  const TensorType& tile = graph.type(saves ? op.operands[0] : op.results[0]);
  const TensorType& whole = graph.type(saves ? op.results[0] : op.operands[0]);
  std::string text;
  for (const char* name : {"imap", "omap"}) {
    const AttributeValue* const value = op.attributes.find(name);
    const auto* const map = value == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(value);
    if (map == nullptr) continue;
    for (size_t n = 0; n < map->size() && n < launch.grid.size(); ++n) {
      const std::string of = fmt::format("{} {}: of the {} blocks along grid {}, each ", name, to_string(*value),
                                         launch.grid[n], kDimensions[n]);
      text += (*map)[n] < 0 ? of + (saves ? "writes" : "reads") + " the same\n"
                            : of + (saves ? "writes " : "reads ") + part_of((*map)[n], tile, whole) + "\n";
    }
  }
  if (op.kind != OpKind::InIter || launch.loop <= 1) return text;
  const AttributeValue* const loop = op.attributes.find("fmap");
  const auto* const dimension = loop == nullptr ? nullptr : std::get_if<int64_t>(loop);
  return text + (dimension == nullptr ? fmt::format("no fmap: all {} iterations read the same tile\n", launch.loop)
                                      : fmt::format("fmap {}: of the {} iterations, each reads {}\n", *dimension,
                                                    launch.loop, part_of(*dimension, tile, whole)));
}

std::string operation_text(const Graph& graph, const Operation& op) {
  std::string text = std::string(op.name());
  for (const auto& [name, value] : op.attributes.entries()) text += fmt::format(" {}={}", name, to_string(value));
  text += "\n";
  if (op.body && op.body->level() == Level::Block) {
    const LaunchShape& launch = op.body->launch();
    int64_t blocks = 1;
    for (const int64_t size : launch.grid) blocks *= size;
    text += fmt::format("one kernel: grid {}, {} block{}", to_string(AttributeValue(launch.grid)), blocks,
                        blocks == 1 ? "" : "s");
    text += launch.loop > 1 ? fmt::format(", {} iterations each\n", launch.loop) : "\n";
  } else if (op.body) {
    text += fmt::format("one pass of {} threads; values between its operators stay in registers\n",
                        op.body->launch().threads);
  }
  for (const TensorId id : op.results) text += "makes " + size_text(graph, id) + "\n";
  std::vector<std::string> reads;
  for (const TensorId id : op.operands) reads.push_back(tensor_text(graph, id));
  if (!reads.empty()) text += fmt::format("reads {}\n", fmt::join(reads, "; "));
  if (op.kind == OpKind::InIter || op.kind == OpKind::OutSaver) text += maps_text(graph, op);
  return text;
}

}  // namespace

TextLines text_lines(const Graph& graph) { return LineFinder(graph).take(); }

std::string describe_box(const DrawnBox& box) {
  if (box.graph == nullptr) return {};
  std::string text;
  if (box.operation != nullptr) {
    text = operation_text(*box.graph, *box.operation);
  } else {
    const Graph& graph = *box.graph;
    const bool is_input = graph.tensor(box.tensor).producer < 0;
    const std::string_view what = graph.level() == Level::Kernel
                                      ? (is_input ? "input of the program" : "result of the program")
                                      : (is_input ? "operand" : "result");
    text = fmt::format("{}\n{}\n", what, size_text(graph, box.tensor));
  }
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace strata

#include "ir/sized_program.h"
#include "ir/text.h"

namespace strata {
namespace {

class Printer {
 public:
  /// With names for sizes where `sized`, whose graph this is, has some.
  explicit Printer(const SizedProgram* sized = nullptr) : sized_(sized) {}

  std::string run(const Graph& graph) {
    before(graph.comments().before);
    line(fmt::format("graph {} {{", graph.name()), graph.comments().behind);
    if (sized_ != nullptr) dims();
    body(graph);
    line("}", "");
    return std::move(text_);
  }

 private:
  void line(const std::string& code, const std::string& comment) {
    text_.append(static_cast<size_t>(2 * depth_), ' ');
    text_ += code;
    if (!comment.empty()) text_ += "  " + comment;
    text_ += '\n';
  }
  void before(const std::vector<std::string>& comments) {
    for (const std::string& comment : comments) {
      if (comment.empty()) {
        text_ += '\n';
      } else {
        line(comment, "");
      }
    }
  }

  void dims() {
    ++depth_;
    for (const SizedProgram::Dim& dim : sized_->dims) {
      before(dim.comments.before);
      line(fmt::format("dim {} = {}", dim.name, dim.size), dim.comments.behind);
    }
    --depth_;
  }

  static std::string joined(const std::vector<SizeExpr>& sizes) {
    std::string text;
    for (const SizeExpr& size : sizes) text += (text.empty() ? "" : ", ") + size.to_string();
    return text;
  }
  bool is_named(const Graph& graph) const { return sized_ != nullptr && sized_->graph.get() == &graph; }
  std::string type(const Graph& graph, TensorId id) const {
    if (!is_named(graph)) return to_string(graph.type(id));
    const TensorType& of = graph.type(id);
    const std::string text = fmt::format("{}[{}]", name_of(of.dtype), joined(sized_->shapes[static_cast<size_t>(id)]));
    if (!of.iota) return text;
    const std::string known = to_string(of);  // iota(…) : f32[16, 1]
    return known.substr(0, known.rfind(" : ")) + " : " + text;
  }
  std::string value(const Graph& graph, const Operation& op, const std::string& name,
                    const AttributeValue& value) const {
    if (!is_named(graph)) return to_string(value);
    const auto& named = sized_->attributes[static_cast<size_t>(&op - graph.operations().data())];
    const auto found = named.find(name);
    if (found == named.end()) return to_string(value);
    const std::string text = joined(found->second);
    return std::holds_alternative<std::vector<int64_t>>(value) ? "[" + text + "]" : text;
  }

  void body(const Graph& graph) {
    ++depth_;
    if (graph.level() == Level::Kernel) {
      for (size_t i = 0; i < graph.inputs().size(); ++i) {
        const TensorInfo& tensor = graph.tensor(graph.inputs()[i]);
        before(graph.input_comments()[i].before);
        const char* form = tensor.type.iota ? "{} = {}" : "input {}: {}";
        line(fmt::format(fmt::runtime(form), tensor.name, type(graph, graph.inputs()[i])),
             graph.input_comments()[i].behind);
      }
    }
    for (const Operation& op : graph.operations()) operation(graph, op);
    if (graph.level() == Level::Kernel) {
      before(graph.output_comments().before);
      line("output " + names(graph, graph.outputs()), graph.output_comments().behind);
    }
    before(graph.closing_comments());
    --depth_;
  }

  static std::string names(const Graph& graph, const std::vector<TensorId>& ids) {
    std::string text;
    for (TensorId id : ids) text += (text.empty() ? "" : ", ") + graph.tensor(id).name;
    return text;
  }

  void operation(const Graph& graph, const Operation& op) {
    before(op.comments.before);
    std::string code = fmt::format("{} = {}(", names(graph, op.results), op.name());
    bool first = true;
    const auto argument = [&](const std::string& text) {
      code += (first ? "" : ", ") + text;
      first = false;
    };
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const std::string& name = graph.tensor(op.operands[i]).name;
      const std::string& formal = op.body ? op.body->tensor(op.body->inputs()[i]).name : name;
      argument(formal == name ? name : formal + "=" + name);
    }
    if (!op.body) {
      for (const auto& [name, given] : op.attributes.entries()) argument(name + "=" + value(graph, op, name, given));
      line(code + ") : " + type(graph, op.results[0]), op.comments.behind);
      return;
    }
    const LaunchShape& launch = op.body->launch();
    if (op.body->level() == Level::Block) {
      argument("grid=" + to_string(launch.grid));
      if (launch.loop > 1) argument(fmt::format("loop={}", launch.loop));
    } else {
      argument(fmt::format("threads={}", launch.threads));
    }
    line(code + ") {", op.body->comments().behind);
    body(*op.body);
    line("}", op.comments.behind);
  }

  const SizedProgram* sized_;
  std::string text_;
  int depth_ = 0;
};

}  // namespace

std::string print(const Graph& graph) { return Printer().run(graph); }

std::string print(const SizedProgram& program) {
  return Printer(program.dims.empty() ? nullptr : &program).run(*program.graph);
}

}  // namespace strata

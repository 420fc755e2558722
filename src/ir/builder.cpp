#include <algorithm>

#include "ir/graph.h"

namespace strata {
namespace {

/// Elements of one tensor: more than any device holds, and few enough that counts of bytes and operations fit 63 bits.
constexpr int64_t kMostElements = int64_t{1} << 40;

std::string_view kind_name(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::Int:
      return "an integer";
    case AttributeKind::Rational:
      return "a number";
    case AttributeKind::IntList:
      return "a list of integers";
    case AttributeKind::Word:
      return "a word";
  }
  return "?";
}

bool has_kind(const AttributeValue& value, AttributeKind kind) {
  switch (kind) {
    case AttributeKind::Int:
      return std::holds_alternative<int64_t>(value);
    case AttributeKind::Rational:
      return std::holds_alternative<Rational>(value);
    case AttributeKind::IntList:
      return std::holds_alternative<std::vector<int64_t>>(value);
    case AttributeKind::Word:
      return std::holds_alternative<std::string>(value);
  }
  return false;
}

/// "matmul(A: f16[16, 64], B: f16[64, 8])", for messages.
std::string describe(const Graph& graph, std::string_view op, const std::vector<TensorId>& operands) {
  std::string text(op);
  text += "(";
  for (size_t i = 0; i < operands.size(); ++i) {
    const TensorInfo& tensor = graph.tensor(operands[i]);
    text += fmt::format("{}{}: {}", i ? ", " : "", tensor.name, to_string(tensor.type));
  }
  return text + ")";
}

/// What an operator is and takes: the remedy of whoever uses it wrongly.
std::string use_of(const OpDef& op) {
  std::vector<std::string> takes;
  if (op.traits.arity == OpTraits::kVariadic) {
    takes.emplace_back("2 or more operands");
  } else {
    takes.push_back(fmt::format("{} operand{}", op.traits.arity, op.traits.arity == 1 ? "" : "s"));
  }
  for (const AttributeSpec& spec : op.attributes) takes.push_back(fmt::format("{}= {}", spec.name, spec.help));
  return fmt::format("{} takes {}: {} (`strata ops` lists all)", op.traits.name, fmt::join(takes, "; "),
                     op.traits.summary);
}

tl::unexpected<Error> with_place(Error error, const SourceLocation& at) { return tl::unexpected(error.at(at)); }

}  // namespace

Result<void> check_attributes(const OpDef& op, const Attributes& attributes) {
  for (const auto& [name, value] : attributes.entries()) {
    const auto spec = std::find_if(op.attributes.begin(), op.attributes.end(),
                                   [&](const AttributeSpec& s) { return s.name == name; });
    if (spec == op.attributes.end()) {
      std::vector<std::string_view> known;
      for (const AttributeSpec& s : op.attributes) known.push_back(s.name);
      return invalid("{} has no attribute '{}'; it takes {}", op.traits.name, name,
                     known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
    }
    if (!has_kind(value, spec->kind)) {
      return invalid("{}={} of {} must be {}: {}", name, to_string(value), op.traits.name, kind_name(spec->kind),
                     spec->help);
    }
  }
  for (const AttributeSpec& spec : op.attributes) {
    if (spec.required && !attributes.has(spec.name)) {
      return invalid("{} needs {}=…: {}", op.traits.name, spec.name, spec.help);
    }
  }
  return {};
}

GraphBuilder::GraphBuilder(Level level, std::string name, LaunchShape launch) : graph_(new Graph) {
  graph_->level_ = level;
  graph_->name_ = std::move(name);
  graph_->launch_ = std::move(launch);
}

Result<TensorId> GraphBuilder::new_tensor(std::string name, TensorType type, Level level, int producer,
                                          const SourceLocation& at) {
  if (name.empty()) {
    for (size_t n = graph_->tensors_.size();; ++n) {
      name = fmt::format("t{}", n);
      if (!graph_->find_tensor(name)) break;
    }
  } else {
    // An out_saver's result carries the name its operator has outside; it may equal no other name in the graph.
    const auto taken = graph_->find_tensor(name);
    if (taken)
      return with_place(Error{ErrorCode::InvalidInput,
                              fmt::format("'{}' is defined twice", name),
                              "a tensor is defined once; give this one another name",
                              {}},
                        at);
  }
  for (int64_t size : type.shape) {
    if (size < 1) {
      return with_place(Error{ErrorCode::InvalidInput,
                              fmt::format("tensor '{}' has a dimension of size {}", name, size),
                              "every dimension must be at least 1",
                              {}},
                        at);
    }
  }
  if (type.shape.size() > kMaxRank) {
    return with_place(Error{ErrorCode::Unsupported,
                            fmt::format("tensor '{}' has {} dimensions", name, type.shape.size()),
                            fmt::format("at most {} are supported; merge some with reshape", kMaxRank),
                            {}},
                      at);
  }
  int64_t elements = 1;
  for (int64_t size : type.shape) {
    if (__builtin_mul_overflow(elements, size, &elements) || elements > kMostElements) {
      return with_place(
          Error{ErrorCode::Unsupported,
                fmt::format("tensor '{}' is {}, which has more than 2^40 elements", name, to_string(type)),
                "no device holds so many; make its shape smaller",
                {}},
          at);
    }
  }
  graph_->tensors_.push_back({std::move(name), std::move(type), level, producer});
  const auto id = static_cast<TensorId>(graph_->tensors_.size()) - 1;
  // Small graphs, of which a search makes millions, are looked through.
  constexpr size_t kSmall = 64;
  if (graph_->tensors_.size() > kSmall) {
    for (auto known = static_cast<TensorId>(graph_->by_name_.size()); known <= id; ++known)
      graph_->by_name_.emplace(graph_->tensor(known).name, known);
  }
  return id;
}

Result<TensorId> GraphBuilder::input(std::string name, TensorType type, SourceLocation at, Comments comments) {
  if (auto known = check_iota(type); !known) {
    Error error = known.error();
    error.message = fmt::format("{} = iota: {}", name, error.message);
    return with_place(std::move(error), at);
  }
  const Level lives = graph_->level_ == Level::Thread ? Level::Block : Level::Kernel;
  STRATA_TRY(const TensorId id, new_tensor(std::move(name), std::move(type), lives, -1, at));
  graph_->inputs_.push_back(id);
  graph_->input_comments_.push_back(std::move(comments));
  return id;
}

Result<TensorId> GraphBuilder::add(OpKind kind, std::vector<TensorId> operands, Attributes attributes, std::string name,
                                   SourceLocation at, Comments comments) {
  const OpDef& op = op_def(kind);
  const auto fail_with = [&](std::string_view message, std::string remedy) {
    return with_place(Error{ErrorCode::InvalidInput,
                            fmt::format("{}{}: {}", name.empty() ? "" : name + " = ",
                                        describe(*graph_, op.traits.name, operands), message),
                            std::move(remedy),
                            {}},
                      at);
  };
  // A search, whose graphs are in no text, fails often and reads no remedy.
  const auto usage = [&] { return at.known() ? use_of(op) : std::string(); };
  const auto fail = [&](std::string_view message) { return fail_with(message, usage()); };
  const auto fail_as = [&](const Error& error) {
    return fail_with(error.message, error.remedy.empty() ? usage() : error.remedy);
  };
  if (!op.traits.levels.contains(graph_->level_)) {
    return fail(fmt::format("this operator does not exist at {} level", name_of(graph_->level_)));
  }
  const bool variadic = op.traits.arity == OpTraits::kVariadic;
  if (variadic ? operands.size() < 2 : static_cast<int>(operands.size()) != op.traits.arity) {
    return fail(fmt::format("expected {} operands, found {}", variadic ? "2 or more" : std::to_string(op.traits.arity),
                            operands.size()));
  }
  if (auto checked = check_attributes(op, attributes); !checked) return fail_as(checked.error());
  const Level own = graph_->level_;
  for (TensorId operand : operands) {
    const bool is_input = graph_->tensor(operand).producer < 0;
    const Level lives = graph_->tensor(operand).level;
    if (kind == OpKind::InIter && !(is_input && own != Level::Kernel)) {
      return fail(fmt::format("in_iter reads inputs of the graph, and '{}' is not one", graph_->tensor(operand).name));
    }
    if (graph_->type(operand).iota && kind != OpKind::InIter && !op.traits.elementwise) {
      return fail_with(fmt::format("'{}' is an iota, which elementwise operators and block graphs alone read",
                                   graph_->tensor(operand).name),
                       "state the iota in the shape that is wanted");
    }
    if (kind != OpKind::InIter && lives != own) {
      return fail(fmt::format("'{}' lives at {} level; bring it in with in_iter", graph_->tensor(operand).name,
                              name_of(lives)));
    }
  }
  const std::vector<TensorType> types = graph_->types(operands);
  auto type = op.infer(graph_->scope(), types, attributes);
  if (!type) return fail_as(type.error());
  type->iota.reset();  // of operands; what an operator makes of them is computed like anything else
  const int index = static_cast<int>(graph_->operations_.size());
  const bool saver = kind == OpKind::OutSaver;
  const Level lives = saver && own == Level::Block ? Level::Kernel : saver && own == Level::Thread ? Level::Block : own;
  STRATA_TRY(const TensorId id, new_tensor(name, std::move(*type), lives, index, at));
  // Attributes in the table's order, so that equal operations print and hash alike.
  Attributes ordered;
  for (const AttributeSpec& spec : op.attributes) {
    if (const AttributeValue* value = attributes.find(spec.name)) ordered.set(spec.name, *value);
  }
  graph_->operations_.push_back(
      {kind, std::move(ordered), std::move(operands), {id}, nullptr, at, std::move(comments)});
  if (saver) graph_->outputs_.push_back(id);
  return id;
}

Result<std::vector<TensorId>> GraphBuilder::add(GraphPtr body, std::vector<TensorId> operands,
                                                std::vector<std::string> names, SourceLocation at, Comments comments) {
  const auto fail = [&](std::string message) {
    return with_place(Error{ErrorCode::InvalidInput,
                            fmt::format("{}: {}", describe(*graph_, name_of(body->level()), operands), message),
                            {},
                            {}},
                      at);
  };
  const bool fits = (graph_->level_ == Level::Kernel && body->level() == Level::Block) ||
                    (graph_->level_ == Level::Block && body->level() == Level::Thread);
  if (!fits) {
    return fail(fmt::format("a {} graph cannot stand in a {} graph", name_of(body->level()), name_of(graph_->level_)));
  }
  if (operands.size() != body->inputs().size()) {
    return fail(
        fmt::format("the graph has {} inputs, the operator {} operands", body->inputs().size(), operands.size()));
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    const TensorInfo& operand = graph_->tensor(operands[i]);
    const TensorType& formal = body->type(body->inputs()[i]);
    if (operand.type != formal) {
      return fail(fmt::format("operand '{}' is {}, the graph expects {}", operand.name, to_string(operand.type),
                              to_string(formal)));
    }
    if (operand.level != graph_->level_) {
      return fail(
          fmt::format("'{}' lives at {} level; bring it in with in_iter", operand.name, name_of(operand.level)));
    }
  }
  if (!names.empty() && names.size() != body->outputs().size()) {
    return fail(fmt::format("the graph has {} outputs for {} names", body->outputs().size(), names.size()));
  }
  const int index = static_cast<int>(graph_->operations_.size());
  std::vector<TensorId> results;
  for (size_t i = 0; i < body->outputs().size(); ++i) {
    STRATA_TRY(const TensorId id, new_tensor(names.empty() ? std::string() : names[i], body->type(body->outputs()[i]),
                                             graph_->level_, index, at));
    results.push_back(id);
  }
  graph_->operations_.push_back(
      {OpKind::GraphDefined, {}, std::move(operands), results, std::move(body), at, std::move(comments)});
  return results;
}

Result<void> GraphBuilder::output(TensorId id, SourceLocation at) {
  if (std::find(graph_->outputs_.begin(), graph_->outputs_.end(), id) != graph_->outputs_.end()) {
    return with_place(Error{ErrorCode::InvalidInput,
                            fmt::format("'{}' is an output twice", graph_->tensor(id).name),
                            "name it once",
                            {}},
                      at);
  }
  if (graph_->type(id).iota) {
    return with_place(
        Error{ErrorCode::InvalidInput,
              fmt::format("'{}' is an iota, which lies nowhere in memory, and no output", graph_->tensor(id).name),
              "output what an operator makes of it, such as add_constant with value=0",
              {}},
        at);
  }
  graph_->outputs_.push_back(id);
  return {};
}

void GraphBuilder::comment(Comments of_graph, Comments of_output, std::vector<std::string> closing) {
  graph_->comments_ = std::move(of_graph);
  graph_->output_comments_ = std::move(of_output);
  graph_->closing_comments_ = std::move(closing);
}

Result<GraphPtr> GraphBuilder::finish() {
  if (graph_->outputs_.empty()) {
    return with_remedy(invalid("the {} graph '{}' has no output", name_of(graph_->level_), graph_->name_),
                       graph_->level_ == Level::Kernel ? "end it with output NAME" : "end it with out_saver");
  }
  return GraphPtr(std::move(graph_));
}

}  // namespace strata

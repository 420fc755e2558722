#include <algorithm>
#include <charconv>

#include "ir/lexer.h"
#include "ir/sized_program.h"
#include "ir/text.h"
#include "support/read_file.h"
#include "support/spelling.h"

namespace strata {
namespace {

/// Attributes of graph-defined operators, read like those of the table's.
constexpr std::array kBlockAttributes{
    AttributeSpec{"grid", AttributeKind::IntList, true, "sizes of up to 3 grid dimensions"},
    AttributeSpec{"loop", AttributeKind::Int, false, "iterations of the for-loop; default 1: no loop"}};
constexpr std::array kThreadAttributes{
    AttributeSpec{"threads", AttributeKind::Int, true, "threads of the block, 1 … 1024"}};
/// Of an iota.
constexpr std::array kIotaAttributes{
    AttributeSpec{"dim", AttributeKind::Int, false, "the dimension along which elements count; default 0"},
    AttributeSpec{"start", AttributeKind::Rational, false, "the first of them; default 0"},
    AttributeSpec{"step", AttributeKind::Int, false, "from each to the next; default 1; 0 for a constant"}};

struct Argument {
  Token name;   ///< formal name or attribute; End where the argument is a plain operand
  Token value;  ///< the operand; for attributes the first token of the value
};

class Parser {
 public:
  Parser(TokenStream stream, std::shared_ptr<const std::string> file)
      : stream_(std::move(stream)), file_(std::move(file)) {}

  Result<SizedProgram> parse() {
    Comments comments = take_comments();
    STRATA_CHECK(expect("graph", "a program starts with: graph NAME {"));
    STRATA_TRY(const Token name, word("the program's name"));
    GraphBuilder builder(Level::Kernel, std::string(name.text));
    STRATA_CHECK(expect("{"));
    merge_behind(comments);
    STRATA_TRY(GraphPtr graph, body(builder, std::move(comments)));
    if (peek().kind != Token::Kind::End) return unexpected("the end of the file");
    program_.graph = std::move(graph);
    return std::move(program_);
  }

 private:
  // --- tokens ---
  const Token& peek(size_t ahead = 0) const {
    return stream_.tokens[std::min(next_ + ahead, stream_.tokens.size() - 1)];
  }
  bool at(std::string_view text, size_t ahead = 0) const { return peek(ahead).text == text; }
  Token take() { return stream_.tokens[std::min(next_++, stream_.tokens.size() - 1)]; }
  SourceLocation place(const Token& token) const { return {file_, token.line, token.column}; }

  tl::unexpected<Error> error(const Token& token, std::string message, std::string remedy = {}) const {
    return tl::unexpected(Error{ErrorCode::InvalidInput, std::move(message), std::move(remedy), place(token)});
  }
  tl::unexpected<Error> unexpected(std::string_view wanted, std::string remedy = {}) const {
    const std::string found =
        peek().kind == Token::Kind::End ? "the end of the file" : fmt::format("'{}'", peek().text);
    if (remedy.empty()) remedy = fmt::format("the form is: {}", form_);
    return error(peek(), fmt::format("expected {}, found {}", wanted, found), std::move(remedy));
  }
  Result<void> expect(std::string_view text, std::string remedy = {}) {
    if (!at(text)) return unexpected(fmt::format("'{}'", text), std::move(remedy));
    take();
    return {};
  }
  Result<Token> word(std::string_view what) {
    if (peek().kind != Token::Kind::Word || at("_")) return unexpected(what);
    return take();
  }
  Result<int64_t> integer(std::string_view what) {
    const Token token = peek();
    int64_t value = 0;
    const auto [end, status] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (token.kind != Token::Kind::Number || status != std::errc{} || end != token.text.data() + token.text.size()) {
      return unexpected(what);
    }
    take();
    return value;
  }

  // --- comments ---
  Comments take_comments() {
    Comments comments;
    while (comment_ < stream_.comments.size() && stream_.comments[comment_].line < peek().line) {
      comments.before.push_back(stream_.comments[comment_++].text);
    }
    return comments;
  }
  /// Comments inside a statement, or the opening of a graph, of several lines move after its end; blank lines there
  /// go, since beside one that follows they would print as two and be read as one.
  void merge_behind(Comments& comments) {
    while (comment_ < stream_.comments.size() && stream_.comments[comment_].line <= stream_.tokens[next_ - 1].line) {
      const std::string& text = stream_.comments[comment_++].text;
      if (text.empty()) continue;
      comments.behind += (comments.behind.empty() ? "" : " ") + text;
    }
  }

  // --- sizes ---
  bool has_dims() const { return !program_.dims.empty(); }

  /// NUMBER, DIM, or an expression in parentheses.
  Result<SizeExpr> size_factor(std::string_view what) {
    const Token token = peek();
    if (at("(")) {
      constexpr int kDeepest = 32;
      if (parentheses_ == kDeepest)
        return error(token, "parentheses are nested too deeply", "write the size without them");
      take();
      ++parentheses_;
      STRATA_TRY(SizeExpr inner, size_sum(what));
      --parentheses_;
      STRATA_CHECK(expect(")"));
      return inner;
    }
    if (token.kind == Token::Kind::Number) {
      const auto number = parse_rational(token.text);
      if (!number) return tl::unexpected(number.error().at(place(token)));
      take();
      return SizeExpr(*number);
    }
    if (token.kind != Token::Kind::Word || at("_")) return unexpected(what);
    if (program_.find_dim(token.text) == nullptr) {
      std::vector<std::string> names;
      for (const SizedProgram::Dim& dim : program_.dims) names.push_back(dim.name);
      return error(token, fmt::format("'{}' is no dim{}", token.text, did_you_mean(token.text, names)),
                   fmt::format("name the size above: dim {} = 16", token.text));
    }
    take();
    return SizeExpr::dim(std::string(token.text));
  }

  Result<SizeExpr> size_product(std::string_view what) {
    STRATA_TRY(SizeExpr product, size_factor(what));
    while (at("*") || at("/")) {
      const Token op = take();
      const Token operand = peek();
      STRATA_TRY(SizeExpr factor, size_factor(what));
      // Of a/2/4 the lexer makes a / (2/4).
      if (const size_t slash = operand.text.find('/'); op.text == "/" && slash != std::string_view::npos) {
        STRATA_TRY(const Rational parts, parse_rational(operand.text));
        STRATA_TRY(const Rational first, parse_rational(operand.text.substr(0, slash)));
        STRATA_TRY(const SizeExpr by, SizeExpr(first).times(SizeExpr(first)));
        STRATA_TRY(factor, by.divided_by(SizeExpr(parts)));
      }
      auto made = op.text == "*" ? product.times(factor) : product.divided_by(factor);
      if (!made) return tl::unexpected(made.error().at(place(operand)));
      product = std::move(*made);
    }
    return product;
  }

  Result<SizeExpr> size_sum(std::string_view what) {
    STRATA_TRY(SizeExpr sum, size_product(what));
    // "tokens -1" holds the number -1, which is added.
    const auto negative = [&] { return peek().kind == Token::Kind::Number && peek().text.front() == '-'; };
    while (at("+") || at("-") || negative()) {
      const bool minus = at("-");
      const Token operand = peek();
      if (!negative()) take();
      STRATA_TRY(const SizeExpr next, size_product(what));
      auto made = minus ? sum.minus(next) : sum.plus(next);
      if (!made) return tl::unexpected(made.error().at(place(operand)));
      sum = std::move(*made);
    }
    return sum;
  }

  /// A whole number, or in programs with dims an expression, which goes to `named` too.
  Result<int64_t> size(std::string_view what, std::vector<SizeExpr>& named) {
    if (!has_dims()) {
      if (peek().kind == Token::Kind::Word && !at("_"))
        return unexpected(what, fmt::format("write a number, or name a size above: dim {} = 16", peek().text));
      return integer(what);
    }
    const Token token = peek();
    STRATA_TRY(SizeExpr expression, size_sum(what));
    const auto number = expression.size(declared_);
    if (!number) return tl::unexpected(number.error().at(place(token)));
    named.push_back(std::move(expression));
    return *number;
  }

  // --- values ---
  Result<AttributeValue> value(const AttributeSpec& spec) {
    std::vector<SizeExpr> named;
    STRATA_TRY(AttributeValue made, value(spec, named));
    const auto is_named = [](const SizeExpr& size) { return !size.is_constant(); };
    if (std::any_of(named.begin(), named.end(), is_named)) named_attributes_[std::string(spec.name)] = std::move(named);
    return made;
  }

  Result<AttributeValue> value(const AttributeSpec& spec, std::vector<SizeExpr>& named) {
    switch (spec.kind) {
      case AttributeKind::Int: {
        if (at("_")) {
          take();
          return kReplicate;
        }
        STRATA_TRY(const int64_t number, size(fmt::format("an integer or _ for {}: {}", spec.name, spec.help), named));
        return number;
      }
      case AttributeKind::Rational: {
        if (has_dims()) {
          const Token token = peek();
          STRATA_TRY(SizeExpr expression, size_sum(fmt::format("a number for {}: {}", spec.name, spec.help)));
          const auto number = expression.evaluate(declared_);
          if (!number) return tl::unexpected(number.error().at(place(token)));
          named.push_back(std::move(expression));
          return *number;
        }
        if (peek().kind != Token::Kind::Number)
          return unexpected(fmt::format("a number for {}: {}", spec.name, spec.help));
        auto number = parse_rational(peek().text);
        if (!number) return tl::unexpected(number.error().at(place(peek())));
        take();
        return *number;
      }
      case AttributeKind::IntList: {
        STRATA_CHECK(expect("[", fmt::format("{} is a list: {}", spec.name, spec.help)));
        std::vector<int64_t> list;
        while (!at("]")) {
          if (!list.empty()) STRATA_CHECK(expect(","));
          if (at("_")) {
            take();
            list.push_back(kReplicate);
          } else {
            STRATA_TRY(const int64_t number, size(fmt::format("an integer or _ in {}", spec.name), named));
            list.push_back(number);
          }
        }
        take();
        return list;
      }
      case AttributeKind::Word: {
        STRATA_TRY(const Token token, word(fmt::format("a word for {}: {}", spec.name, spec.help)));
        return std::string(token.text);
      }
    }
    return unexpected("a value");
  }

  /// `named` gets an expression for each size where the program has dims.
  Result<TensorType> type(std::vector<SizeExpr>& named) {
    const Token name = peek();
    STRATA_TRY(const Token dtype_name, word("a type such as f16[16, 1024]"));
    auto dtype = parse_dtype(dtype_name.text);
    if (!dtype) return tl::unexpected(dtype.error().at(place(name)));
    STRATA_CHECK(expect("["));
    Shape shape;
    while (!at("]")) {
      if (!shape.empty()) STRATA_CHECK(expect(","));
      STRATA_TRY(shape.emplace_back(), size("a dimension's size", named));
    }
    take();
    return TensorType{*dtype, shape};
  }

  // --- statements ---
  Result<GraphPtr> body(GraphBuilder& builder, Comments of_graph) {
    Comments of_output;
    bool has_output = false;
    while (!at("}")) {
      if (peek().kind == Token::Kind::End) return unexpected("'}'", "a brace is not closed");
      Comments comments = take_comments();
      const bool kernel = builder.peek().level() == Level::Kernel;
      if (has_output) return unexpected("'}'", "output is the last statement");
      if (kernel && at("input") && peek(1).kind == Token::Kind::Word) {
        form_ = "input NAME: f16[16, 1024]";
        STRATA_CHECK(input(builder, std::move(comments)));
      } else if (kernel && at("dim") && peek(1).kind == Token::Kind::Word) {
        form_ = "dim NAME = 16";
        STRATA_CHECK(dim(std::move(comments)));
      } else if (kernel && at("output") && peek(1).kind == Token::Kind::Word) {
        form_ = "output NAME, NAME, …";
        STRATA_CHECK(outputs(builder));
        merge_behind(comments);
        of_output = std::move(comments);
        has_output = true;
      } else {
        form_ = "NAME = operator(OPERAND, …, attribute=value, …)";
        STRATA_CHECK(operation(builder, std::move(comments)));
      }
    }
    std::vector<std::string> closing = take_comments().before;
    while (!closing.empty() && closing.back().empty()) closing.pop_back();
    const Token brace = take();
    builder.comment(std::move(of_graph), std::move(of_output), std::move(closing));
    auto graph = builder.finish();
    if (!graph) return tl::unexpected(graph.error().at(place(brace)));
    return graph;
  }

  Result<void> dim(Comments comments) {
    take();
    STRATA_TRY(const Token name, word("a name"));
    STRATA_CHECK(expect("="));
    const Token number = peek();
    STRATA_TRY(const int64_t size, integer("the size for which the program is searched"));
    if (size < 1) return error(number, fmt::format("{}={} is below 1", name.text, size), "every size is at least 1");
    if (program_.find_dim(name.text) != nullptr)
      return error(name, fmt::format("the dim '{}' is named twice", name.text), "keep one");
    if (statements_ > 0)
      return error(name, fmt::format("the dim '{}' comes after an input or an operator", name.text),
                   "name sizes first");
    merge_behind(comments);
    program_.dims.push_back({std::string(name.text), size, place(name), std::move(comments)});
    declared_ = program_.declared();
    return {};
  }

  /// Of a tensor of a program with dims.
  void keep_sizes(TensorId id, std::vector<SizeExpr> sizes) {
    program_.shapes.resize(static_cast<size_t>(id) + 1);
    program_.shapes.back() = std::move(sizes);
  }

  Result<void> input(GraphBuilder& builder, Comments comments) {
    take();
    ++statements_;
    STRATA_TRY(const Token name, word("a name"));
    STRATA_CHECK(expect(":"));
    std::vector<SizeExpr> named;
    STRATA_TRY(TensorType of, type(named));
    merge_behind(comments);
    STRATA_TRY(const TensorId id,
               builder.input(std::string(name.text), std::move(of), place(name), std::move(comments)));
    if (has_dims()) keep_sizes(id, std::move(named));
    return {};
  }

  Result<void> outputs(GraphBuilder& builder) {
    take();
    for (;;) {
      STRATA_TRY(const Token name, word("the name of a tensor"));
      STRATA_TRY(const TensorId id, tensor(builder, name));
      STRATA_CHECK(builder.output(id, place(name)));
      if (!at(",")) return {};
      take();
    }
  }

  Result<TensorId> tensor(const GraphBuilder& builder, const Token& name) const {
    const auto id = builder.peek().find_tensor(name.text);
    if (!id) {
      const bool inside = builder.peek().level() != Level::Kernel;
      return error(name, fmt::format("'{}' is not defined here", name.text),
                   inside ? "inside a block or thread graph only its operands and earlier statements are visible"
                          : "define it by a statement above, or as an input");
    }
    return *id;
  }

  Result<void> operation(GraphBuilder& builder, Comments comments) {
    ++statements_;
    std::vector<Token> results;
    for (;;) {
      STRATA_TRY(const Token name, word("a statement: NAME = operator(…), input, or output"));
      results.push_back(name);
      if (!at(",")) break;
      take();
    }
    STRATA_CHECK(expect("="));
    STRATA_TRY(const Token op, word("an operator"));
    if (op.text == "block" || op.text == "thread") return graph_defined(builder, results, op, std::move(comments));
    if (op.text == "iota") return iota(builder, results, op, std::move(comments));
    const OpDef* def = find_op(op.text);
    if (def == nullptr) {
      std::vector<std::string> names{"block", "thread", "iota"};
      for (const OpDef* known : all_ops()) names.emplace_back(known->traits.name);
      return error(op, fmt::format("unknown operator '{}'{}", op.text, did_you_mean(op.text, names)),
                   "`strata ops` lists the operators");
    }
    if (results.size() != 1)
      return error(results[1], fmt::format("{} has one result", op.text), "name one tensor before the =");
    std::vector<TensorId> operands;
    Attributes attributes;
    named_attributes_.clear();
    STRATA_CHECK(arguments(builder, def->attributes, def->traits.name, operands, nullptr, attributes));
    SizedProgram::AttributeSizes named_attributes = std::move(named_attributes_);
    std::optional<TensorType> annotation;
    std::vector<SizeExpr> named;
    const Token annotated = peek(1);
    if (at(":")) {
      take();
      STRATA_TRY(annotation, type(named));
    }
    merge_behind(comments);
    STRATA_TRY(const TensorId id, builder.add(def->kind, operands, attributes, std::string(results[0].text),
                                              place(results[0]), std::move(comments)));
    if (annotation && *annotation != builder.type(id)) {
      return error(
          annotated,
          fmt::format("'{}' is {}, not {}", results[0].text, to_string(builder.type(id)), to_string(*annotation)),
          "correct the type, or leave it out");
    }
    if (!has_dims()) return {};
    std::vector<std::vector<SizeExpr>> of_operands;
    for (const TensorId operand : operands) of_operands.push_back(program_.shapes[static_cast<size_t>(operand)]);
    const Operation& added = builder.peek().operations().back();
    auto sizes = result_sizes(builder.peek(), added, of_operands, named_attributes);
    if (!sizes)
      return tl::unexpected(
          sizes.error().within(fmt::format("{} = {}", results[0].text, op.text)).at(place(results[0])));
    if (annotation && named != *sizes) {
      const auto shape = [](const std::vector<SizeExpr>& of) {
        std::string text;
        for (const SizeExpr& one : of) text += (text.empty() ? "" : ", ") + one.to_string();
        return "[" + text + "]";
      };
      return error(annotated, fmt::format("'{}' is {}, not {}", results[0].text, shape(*sizes), shape(named)),
                   "correct the type, or leave it out");
    }
    keep_sizes(id, std::move(*sizes));
    program_.attributes.push_back(std::move(named_attributes));
    return {};
  }

  /// An input whose elements are known. Its type has to be said: nothing else does.
  Result<void> iota(GraphBuilder& builder, const std::vector<Token>& results, const Token& op, Comments comments) {
    form_ = "NAME = iota(dim=0) : f32[16, 1]";
    if (builder.peek().level() != Level::Kernel) {
      return error(op, "iota stands in a kernel graph only",
                   "a block graph has it as an operand and reads its tiles by in_iter");
    }
    if (results.size() != 1) return error(results[1], "iota has one result", "name one tensor before the =");
    std::vector<TensorId> operands;
    Attributes attributes;
    named_attributes_.clear();
    STRATA_CHECK(arguments(builder, kIotaAttributes, op.text, operands, nullptr, attributes));
    if (!named_attributes_.empty()) {
      return error(op, fmt::format("an iota's {} depends on dims", named_attributes_.begin()->first),
                   "write a number; along a dimension whose size has a name an iota counts to its end");
    }
    if (!operands.empty()) return error(op, "iota takes no operands", "its attributes and its type say what it is");
    STRATA_CHECK(expect(":"));
    std::vector<SizeExpr> named;
    STRATA_TRY(TensorType of, type(named));
    Iota values;
    values.dim = attributes.integer_or("dim", values.dim);
    if (attributes.has("start")) values.start = attributes.rational("start");
    values.step = attributes.integer_or("step", values.step);
    of.iota = values;
    merge_behind(comments);
    STRATA_TRY(const TensorId id,
               builder.input(std::string(results[0].text), std::move(of), place(results[0]), std::move(comments)));
    if (has_dims()) keep_sizes(id, std::move(named));
    return {};
  }

  /// (a, b, formal=c, attribute=value): operands in order; formal names where `formals` is given.
  Result<void> arguments(const GraphBuilder& builder, std::span<const AttributeSpec> specs, std::string_view op,
                         std::vector<TensorId>& operands, std::vector<Token>* formals, Attributes& attributes) {
    STRATA_CHECK(expect("("));
    bool first = true;
    while (!at(")")) {
      if (!first) STRATA_CHECK(expect(","));
      first = false;
      STRATA_TRY(const Token name, word("an operand or an attribute"));
      if (!at("=")) {
        STRATA_TRY(const TensorId id, tensor(builder, name));
        operands.push_back(id);
        if (formals) formals->push_back(name);
        continue;
      }
      take();
      const auto spec =
          std::find_if(specs.begin(), specs.end(), [&](const AttributeSpec& s) { return s.name == name.text; });
      if (spec != specs.end()) {
        if (attributes.has(name.text)) return error(name, fmt::format("{} is given twice", name.text), "keep one");
        STRATA_TRY(AttributeValue parsed, value(*spec));
        attributes.set(name.text, std::move(parsed));
      } else if (formals) {
        STRATA_TRY(const Token operand, word("a tensor"));
        STRATA_TRY(const TensorId id, tensor(builder, operand));
        operands.push_back(id);
        formals->push_back(name);
      } else {
        std::vector<std::string_view> known;
        for (const AttributeSpec& s : specs) known.push_back(s.name);
        return error(name, fmt::format("{} has no attribute '{}'", op, name.text),
                     known.empty() ? "it takes operands only" : fmt::format("it takes {}", fmt::join(known, ", ")));
      }
    }
    take();
    return {};
  }

  Result<void> graph_defined(GraphBuilder& outer, const std::vector<Token>& results, const Token& op,
                             Comments comments) {
    const bool block = op.text == "block";
    const std::span<const AttributeSpec> specs =
        block ? std::span<const AttributeSpec>(kBlockAttributes) : std::span<const AttributeSpec>(kThreadAttributes);
    if (outer.peek().level() != (block ? Level::Kernel : Level::Block)) {
      return error(op, fmt::format("{}(…) {{ }} stands in a {} graph only", op.text, block ? "kernel" : "block"),
                   "kernel graphs hold block graphs, which hold thread graphs");
    }
    if (has_dims())
      return error(op, "a program with dims has operators only: a block graph is made for each size",
                   "write numbers for the sizes, and leave the dims out");
    std::vector<TensorId> operands;
    std::vector<Token> formals;
    Attributes attributes;
    STRATA_CHECK(arguments(outer, specs, op.text, operands, &formals, attributes));
    for (const AttributeSpec& spec : specs) {
      if (spec.required && !attributes.has(spec.name)) {
        return error(op, fmt::format("{} needs {}: {}", op.text, spec.name, spec.help),
                     fmt::format("add {}=…", spec.name));
      }
    }
    LaunchShape launch;
    if (block) {
      launch.grid = attributes.list("grid");
      launch.loop = attributes.integer_or("loop", 1);
      const bool sizes_fit =
          std::all_of(launch.grid.begin(), launch.grid.end(), [](int64_t size) { return size >= 1; });
      if (launch.grid.size() > 3 || !sizes_fit)
        return error(op, "grid needs up to 3 sizes of at least 1", "for example grid=[16, 4]");
      if (launch.loop < 1) return error(op, fmt::format("loop={} is below 1", launch.loop), "leave loop out for 1");
    } else {
      launch.threads = attributes.integer("threads");
    }
    GraphBuilder inner(block ? Level::Block : Level::Thread, {}, launch);
    for (size_t i = 0; i < operands.size(); ++i) {
      STRATA_CHECK(inner.input(std::string(formals[i].text), outer.type(operands[i]), place(formals[i])));
    }
    STRATA_CHECK(expect("{"));
    Comments opening;
    merge_behind(opening);
    STRATA_TRY(GraphPtr graph, body(inner, std::move(opening)));
    merge_behind(comments);
    std::vector<std::string> names;
    for (const Token& token : results) names.emplace_back(token.text);
    STRATA_CHECK(outer.add(std::move(graph), operands, std::move(names), place(results[0]), std::move(comments)));
    return {};
  }

  TokenStream stream_;
  std::shared_ptr<const std::string> file_;
  size_t next_ = 0;
  size_t comment_ = 0;
  std::string_view form_ = "graph NAME { statements }";  ///< of what is being read
  SizedProgram program_;
  DimSizes declared_;                              ///< of the dims so far
  int statements_ = 0;                             ///< inputs and operators
  int parentheses_ = 0;                            ///< that are open in the size that is being read
  SizedProgram::AttributeSizes named_attributes_;  ///< of the operator that is being read
};

}  // namespace

Result<SizedProgram> parse_program(std::string_view text, const std::string& file) {
  auto name = std::make_shared<const std::string>(file);
  STRATA_TRY(TokenStream stream, tokenize(text, name));
  return Parser(std::move(stream), name).parse();
}

Result<GraphPtr> parse_graph(std::string_view text, const std::string& file) {
  STRATA_TRY(SizedProgram program, parse_program(text, file));
  return program.graph;
}

Result<GraphPtr> load_graph(const std::string& path) {
  STRATA_TRY(const std::string text, read_file(path));
  return parse_graph(text, shown_path(path));
}

}  // namespace strata

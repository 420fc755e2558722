// The text form of indexing maps: printer and parser.
#include <fmt/format.h>

#include <cctype>

#include "indexing/indexing_map.h"

namespace strata::indexing {
namespace {

std::string names(const char* prefix, size_t count) {
  std::vector<std::string> result;
  for (size_t i = 0; i < count; ++i) result.push_back(fmt::format("{}{}", prefix, i));
  return fmt::format("{}", fmt::join(result, ", "));
}

std::string list(const std::vector<Expr>& exprs) {
  std::vector<std::string> result;
  for (const Expr& expr : exprs) result.push_back(to_string(expr));
  return fmt::format("{}", fmt::join(result, ", "));
}

}  // namespace

std::string to_string(const Constraint& constraint) {
  return to_string(constraint.expr) + " in " + to_string(constraint.bounds);
}

std::string to_string(const IndexingMap& map) {
  std::string text = "(" + names("d", map.dims.size()) + ")";
  if (!map.ranges.empty()) text += "[" + names("s", map.ranges.size()) + "]";
  if (!map.runtime.empty()) text += "{" + names("rt", map.runtime.size()) + "}";
  text += " -> (" + list(map.results) + ")";
  std::vector<std::string> domain;
  if (map.known_empty) domain.emplace_back("empty");
  for (size_t i = 0; i < map.dims.size(); ++i) domain.push_back(fmt::format("d{} in {}", i, to_string(map.dims[i])));
  for (size_t i = 0; i < map.ranges.size(); ++i) {
    domain.push_back(fmt::format("s{} in {}", i, to_string(map.ranges[i])));
  }
  for (size_t i = 0; i < map.runtime.size(); ++i) {
    const RuntimeVariable& variable = map.runtime[i];
    domain.push_back(fmt::format("rt{} = {}:{}[{}] in {}", i, variable.instruction, variable.operand,
                                 list(variable.element), to_string(variable.range)));
  }
  for (const Constraint& constraint : map.constraints) domain.push_back(to_string(constraint));
  if (!domain.empty()) text += fmt::format(", domain: {}", fmt::join(domain, ", "));
  return text;
}

namespace {

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  Result<IndexingMap> map() {
    STRATA_CHECK(expect("("));
    STRATA_TRY(const int dims, variables("d", ")"));
    int ranges = 0;
    int runtime = 0;
    if (accept("[")) {
      STRATA_TRY(ranges, variables("s", "]"));
    }
    if (accept("{")) {
      STRATA_TRY(runtime, variables("rt", "}"));
    }
    map_.dims.resize(static_cast<size_t>(dims));
    map_.ranges.resize(static_cast<size_t>(ranges));
    map_.runtime.resize(static_cast<size_t>(runtime));
    runtime_allowed_ = map_.runtime.size();
    STRATA_CHECK(expect("->"));
    STRATA_CHECK(expect("("));
    STRATA_TRY(map_.results, exprs(")"));
    STRATA_CHECK(domain());
    skip();
    if (at_ != text_.size()) return error("expected the end of the map");
    return std::move(map_);
  }

 private:
  Result<void> domain() {
    bool more = accept(",");
    if (more) STRATA_CHECK(expect("domain:"));
    if (more && accept_word("empty")) {
      map_.known_empty = true;
      more = accept(",");
    }
    for (size_t i = 0; i < map_.dims.size(); ++i) {
      STRATA_CHECK(variable_range(more, fmt::format("d{}", i), map_.dims[i]));
    }
    for (size_t i = 0; i < map_.ranges.size(); ++i) {
      STRATA_CHECK(variable_range(more, fmt::format("s{}", i), map_.ranges[i]));
    }
    for (size_t i = 0; i < map_.runtime.size(); ++i) {
      STRATA_CHECK(runtime_variable(more, i));
    }
    while (more) {
      Constraint constraint;
      STRATA_TRY(constraint.expr, sum());
      if (!accept_word("in")) return error("expected 'in' after the expression of a constraint");
      STRATA_TRY(constraint.bounds, interval());
      map_.constraints.push_back(std::move(constraint));
      more = accept(",");
    }
    return {};
  }

  Result<void> variable_range(bool& more, const std::string& name, Interval& range) {
    if (!more || !accept_word(name)) return error("expected the range of {}", name);
    if (!accept_word("in")) return error("expected 'in' after {}", name);
    STRATA_TRY(range, interval());
    more = accept(",");
    return {};
  }

  Result<void> runtime_variable(bool& more, size_t i) {
    RuntimeVariable& variable = map_.runtime[i];
    if (!more || !accept_word(fmt::format("rt{}", i))) return error("expected the source and range of rt{}", i);
    STRATA_CHECK(expect("="));
    STRATA_TRY(variable.instruction, integer());
    STRATA_CHECK(expect(":"));
    STRATA_TRY(const int64_t operand, integer());
    if (operand < 0 || operand > INT32_MAX) return error("no operand has the number {}", operand);
    variable.operand = static_cast<int>(operand);
    STRATA_CHECK(expect("["));
    runtime_allowed_ = i;
    STRATA_TRY(variable.element, exprs("]"));
    runtime_allowed_ = map_.runtime.size();
    if (!accept_word("in")) return error("expected 'in' after the source of rt{}", i);
    STRATA_TRY(variable.range, interval());
    more = accept(",");
    return {};
  }

  Result<int> variables(const std::string& prefix, const char* close) {
    int count = 0;
    if (accept(close)) return count;
    do {
      if (!accept_word(fmt::format("{}{}", prefix, count))) return error("expected the variable {}{}", prefix, count);
      ++count;
    } while (accept(","));
    STRATA_CHECK(expect(close));
    return count;
  }

  Result<std::vector<Expr>> exprs(const char* close) {
    std::vector<Expr> result;
    if (accept(close)) return result;
    do {
      STRATA_TRY(Expr expr, sum());
      result.push_back(std::move(expr));
    } while (accept(","));
    STRATA_CHECK(expect(close));
    return result;
  }

  Result<Interval> interval() {
    Interval result;
    STRATA_CHECK(expect("["));
    STRATA_TRY(result.lo, integer());
    STRATA_CHECK(expect(","));
    STRATA_TRY(result.hi, integer());
    STRATA_CHECK(expect("]"));
    return result;
  }

  Result<Expr> sum() {
    STRATA_TRY(Expr result, product());
    for (;;) {
      if (accept("+")) {
        STRATA_TRY(const Expr next, product());
        result = result + next;
      } else if (looking_at("- 9223372036854775808")) {
        // The one number that has a sign of its own, for 2^63 is no int64_t.
        accept("-");
        accept("9223372036854775808");
        result = result + kLeast;
      } else if (accept("-")) {
        STRATA_TRY(const Expr next, product());
        result = result - next;
      } else {
        return result;
      }
    }
  }

  Result<Expr> product() {
    STRATA_TRY(Expr result, factor());
    for (;;) {
      if (accept("*")) {
        STRATA_TRY(const Expr next, factor());
        result = result * next;
      } else if (accept_word("floordiv")) {
        STRATA_TRY(const Expr next, factor());
        result = floor_div(result, next);
      } else if (accept_word("ceildiv")) {
        STRATA_TRY(const Expr next, factor());
        result = ceil_div(result, next);
      } else if (accept_word("mod")) {
        STRATA_TRY(const Expr next, factor());
        result = mod(result, next);
      } else {
        return result;
      }
    }
  }

  Result<Expr> factor() {
    if (++depth_ > kMaxDepth) return error("brackets and signs are nested more than {} deep", kMaxDepth);
    auto result = unguarded_factor();
    --depth_;
    return result;
  }

  Result<Expr> unguarded_factor() {
    skip();
    if (accept("(")) {
      STRATA_TRY(Expr result, sum());
      STRATA_CHECK(expect(")"));
      return result;
    }
    if (next_is_digit()) {
      STRATA_TRY(const int64_t value, integer());
      return Expr::constant(value);
    }
    if (looking_at("-")) {
      const size_t minus = at_;
      accept("-");
      skip();
      if (next_is_digit()) {
        at_ = minus;
        STRATA_TRY(const int64_t value, integer());
        return Expr::constant(value);
      }
      STRATA_TRY(const Expr operand, factor());
      return operand * -1;
    }
    if (accept_word("undefined")) return Expr::undefined();
    STRATA_TRY(const Expr runtime, variable("rt", ExprKind::Runtime, runtime_allowed_));
    if (runtime.is_variable()) return runtime;
    STRATA_TRY(const Expr dim, variable("d", ExprKind::Dimension, map_.dims.size()));
    if (dim.is_variable()) return dim;
    STRATA_TRY(const Expr range, variable("s", ExprKind::Range, map_.ranges.size()));
    if (range.is_variable()) return range;
    return error("expected a number, a variable or '('");
  }

  /// The variable of that prefix that stands here, or a constant if there is none.
  Result<Expr> variable(const std::string& prefix, ExprKind kind, size_t count) {
    const size_t digits = at_ + prefix.size();
    if (!looking_at(prefix.c_str()) || digits >= text_.size() || !is_digit(text_[digits])) return Expr();
    const size_t start = at_;
    at_ = digits;
    STRATA_TRY(const int64_t number, integer());
    if (number < static_cast<int64_t>(std::min<size_t>(count, kMaxVariables))) {
      return Expr::variable(kind, static_cast<int>(number));
    }
    at_ = start;
    return error("there is no variable {}{} here", prefix, number);
  }

  Result<int64_t> integer() {
    skip();
    const bool negative = accept("-");
    skip();
    if (!next_is_digit()) return error("expected a number");
    const uint64_t limit = negative ? uint64_t{1} << 63U : (uint64_t{1} << 63U) - 1;
    uint64_t value = 0;
    for (; next_is_digit(); ++at_) {
      const auto digit = static_cast<uint64_t>(text_[at_] - '0');
      if (value > (limit - digit) / 10) return error("the number does not fit into 64 bits");
      value = value * 10 + digit;
    }
    return static_cast<int64_t>(negative ? uint64_t{0} - value : value);
  }

  static bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
  bool next_is_digit() const { return at_ < text_.size() && is_digit(text_[at_]); }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool looking_at(const char* token) {
    skip();
    return text_.compare(at_, std::char_traits<char>::length(token), token) == 0;
  }
  bool accept(const char* token) {
    if (!looking_at(token)) return false;
    at_ += std::char_traits<char>::length(token);
    return true;
  }
  bool accept_word(const std::string& word) {
    if (!looking_at(word.c_str())) return false;
    const size_t end = at_ + word.size();
    if (end < text_.size() && std::isalnum(static_cast<unsigned char>(text_[end])) != 0) return false;
    at_ = end;
    return true;
  }
  Result<void> expect(const char* token) {
    if (!accept(token)) return error("expected '{}'", token);
    return {};
  }

  template <class... Args>
  tl::unexpected<Error> error(fmt::format_string<Args...> format, Args&&... args) {
    skip();
    SourceLocation location{std::make_shared<std::string>("indexing map"), 1, 1};
    for (size_t i = 0; i < at_; ++i) {
      location.column = text_[i] == '\n' ? 1 : location.column + 1;
      location.line += text_[i] == '\n' ? 1 : 0;
    }
    return tl::unexpected(
        Error{ErrorCode::InvalidInput, fmt::format(format, std::forward<Args>(args)...), {}, location});
  }

  static constexpr int kMaxDepth = 200;
  static constexpr size_t kMaxVariables = 1U << 20U;
  const std::string& text_;
  size_t at_ = 0;
  int depth_ = 0;
  size_t runtime_allowed_ = 0;  ///< the runtime variables with smaller numbers may be named
  IndexingMap map_;
};

}  // namespace

Result<IndexingMap> parse_indexing_map(const std::string& text) { return Parser(text).map(); }

}  // namespace strata::indexing

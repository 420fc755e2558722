#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "superopt/expr/normal_forms.h"

namespace strata {
namespace {

class Printer {
 public:
  explicit Printer(const NormalForms& forms) : forms_(forms) {}

  std::string sum(ExprId e) const {
    if (e == NormalForms::kOversized) return "<oversized>";
    std::vector<std::string> parts;
    for (const Term& term : forms_.terms(e)) {
      const std::string text = monomial(forms_.monomial(term.monomial));
      parts.push_back(term.count == 1 ? text : fmt::format("{} times {}", term.count, text));
    }
    std::ranges::sort(parts);  // the order of monomials depends on the order in which atoms were made
    return fmt::format("{}", fmt::join(parts, " + "));
  }

 private:
  std::string monomial(const Monomial& m) const {
    std::vector<std::string> factors;
    for (const Factor& f : m.atoms) {
      const std::string text = atom(forms_.atom(f.atom));
      factors.push_back(f.power == 1 ? text : fmt::format("{}^{}", text, f.power));
    }
    if (m.root != NormalForms::kOne) factors.push_back(fmt::format("sqrt({})", sum(m.root)));
    if (m.exponent != Monomial::kNoExponent) factors.push_back(fmt::format("exp({})", sum(m.exponent)));
    std::ranges::sort(factors);
    std::string text = factors.empty() ? "1" : fmt::format("{}", fmt::join(factors, "*"));
    if (m.extent != 1) text = fmt::format("sum({}, {})", m.extent, text);
    if (m.denominator != NormalForms::kOne) text += fmt::format(" / ({})", sum(m.denominator));
    return text;
  }

  std::string atom(const Atom& a) const {
    if (a.kind == Atom::Kind::Input) return a.name;
    if (a.kind == Atom::Kind::Constant) return fmt::format("({})", a.value.to_string());
    std::vector<std::string> arguments;
    for (const ExprId e : a.arguments) arguments.push_back(sum(e));
    if (a.name == "max") std::ranges::sort(arguments);
    const std::string parameter = a.parameter == 0 ? "" : fmt::format("[{}]", a.parameter);
    return fmt::format("{}{}({})", a.name, parameter, fmt::join(arguments, ", "));
  }

  const NormalForms& forms_;
};

}  // namespace

std::string NormalForms::to_string(ExprId e) const { return Printer(*this).sum(e); }

}  // namespace strata

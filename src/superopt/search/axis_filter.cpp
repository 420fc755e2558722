#include "superopt/search/axis_filter.h"

#include <algorithm>

#include "support/hash.h"

namespace strata {

AxisSet axis_set(const std::vector<int>& axes) {
  AxisSet set = 0;
  for (int axis : axes) {
    if (axis >= 0 && axis < 63) set |= AxisSet{1} << axis;
  }
  return set;
}

bool is_row_max(const NormalForms& forms, ExprId e) {
  if (e == NormalForms::kOversized) return false;
  const auto atom = forms.sole_atom(e);
  return atom && forms.atom(*atom).kind == Atom::Kind::Function && forms.atom(*atom).name == kRowMax;
}

bool relative_to(const NormalForms& forms, ExprId e, ExprId row_max) {
  const auto maximum = forms.sole_atom(row_max);
  if (!maximum || e == NormalForms::kOversized) return false;
  const auto in_exponent = [&](const Term& term) {
    const ExprId exponent = forms.monomial(term.monomial).exponent;
    if (exponent == Monomial::kNoExponent) return false;
    return std::ranges::any_of(forms.terms(exponent), [&](const Term& part) {
      return std::ranges::any_of(forms.monomial(part.monomial).atoms,
                                 [&](const Factor& factor) { return factor.atom == *maximum; });
    });
  };
  return std::ranges::all_of(forms.terms(e), in_exponent);
}

void AxisTracker::operand(ExprId e, AxisSet axes) {
  for (auto& [known, of_known] : axes_) {
    // Two operands of one expression: only what both have is certain.
    if (known == e) {
      of_known &= axes;
      return;
    }
  }
  axes_.emplace_back(e, axes);
}

AxisSet AxisTracker::axes(ExprId e) const {
  for (const auto& [known, of_known] : axes_) {
    if (known == e) return of_known;
  }
  return 0;
}

ExprId AxisTracker::join(ExprId result, std::initializer_list<ExprId> from) {
  AxisSet all = 0;
  for (ExprId e : from) all |= axes(e);
  operand(result, all);
  return result;
}

ExprId AxisTracker::function(std::string_view name, int64_t parameter, std::span<const ExprId> arguments,
                             bool commutative) {
  AxisSet all = 0;
  const bool reduces = name == "reduce_max";  // its argument has more axes than it
  for (ExprId e : arguments) {
    if (!reduces) bound(e);
    all |= axes(e);
  }
  const auto row_max = [&]() -> ExprId {
    if (arguments[0] == NormalForms::kOversized || is_row_max(forms_, arguments[0])) return arguments[0];
    return forms_.function(kRowMax, 0, arguments, false);
  };
  const ExprId result = reduces ? row_max() : forms_.function(name, parameter, arguments, commutative);
  operand(result, all);
  return result;
}

AxisFilter::AxisFilter(const Model& model, NormalForms& forms, SubexpressionOracle& oracle, bool products)
    : forms_(forms), oracle_(oracle), axes_(model.axes()) {
  if (products) find_products(model);
  parts_ = oracle.parts();
  // The sums themselves are made, though none of the terms that they become in the product is made alone.
  for (const auto& [product, factors] : products_) {
    for (const ExprId factor : factors) {
      if (std::find(parts_.begin(), parts_.end(), factor) == parts_.end()) parts_.push_back(factor);
    }
  }
  // Axes of the program's own values, and of what stands in its roots, exponents and denominators.
  auto& known = known_axes_;
  AxisSet of_bounds = 0;
  const Graph& graph = model.graph();
  for (size_t i = 0; i < graph.tensors().size(); ++i) {
    const ModelTensor& tensor = model.tensor(static_cast<TensorId>(i));
    known[tensor.expression] |= axis_set(tensor.axes);
    if (!is_row_max(forms, tensor.expression)) continue;
    const auto [it, fresh] = row_max_axes_.emplace(tensor.expression, axis_set(tensor.axes));
    if (!fresh) it->second &= axis_set(tensor.axes);
  }
  for (const Operation& op : graph.operations()) {
    AxisTracker tracker(forms);
    std::vector<ExprId> expressions;
    std::vector<TensorType> extents;
    for (TensorId id : op.operands) {
      const ModelTensor& tensor = model.tensor(id);
      tracker.operand(tensor.expression, axis_set(tensor.axes));
      expressions.push_back(tensor.expression);
      extents.push_back({graph.type(id).dtype, tensor.extents});
    }
    op_def(op.kind).expression(tracker, graph.scope(), expressions, extents, op.attributes);
    for (const auto& [e, axes] : tracker.bounds()) {
      known[e] |= axes;
      of_bounds |= axes;
    }
  }
  for (TensorId id : graph.inputs()) input_axes_[graph.tensor(id).name] = axis_set(model.tensor(id).axes);
  for (const ExprId part : parts_) {
    // A part that is no value of the program is a product of several roots, exponents or denominators.
    const auto it = known.find(part);
    part_axes_.push_back(it == known.end() ? of_bounds : it->second);
  }
  expansions_.resize(parts_.size());
  find_expansions();
}

AxisSet AxisFilter::axes_of_extent(int64_t extent) const {
  AxisSet set = 0;
  for (size_t a = 0; a < std::min<size_t>(axes_.size(), 63); ++a) {
    const Axis& axis = axes_[a];
    const bool divides =
        extent % axis.grid_extent == 0 || extent % axis.loop_extent == 0 || extent % axis.tile_extent == 0;
    if (axis.told() && divides) set |= AxisSet{1} << a;
  }
  return set;
}

AxisSet AxisFilter::axes_of(const Monomial& factor) const {
  AxisSet set = 0;
  const auto add = [&](ExprId e) {
    const auto it = known_axes_.find(e);
    if (it != known_axes_.end()) set |= it->second;
  };
  for (const Factor& f : factor.atoms) {
    const Atom& atom = forms_.atom(f.atom);
    if (atom.kind != Atom::Kind::Input) continue;  // of a function's axes some may be summed inside
    const auto it = input_axes_.find(atom.name);
    if (it != input_axes_.end()) set |= it->second;
  }
  if (factor.exponent != Monomial::kNoExponent) add(factor.exponent);
  // An axis that the multiplier itself sums over, all of it, is its own affair.
  for (size_t a = 0; a < std::min<size_t>(axes_.size(), 63); ++a) {
    if (factor.extent % axes_[a].extent() == 0) set &= ~(AxisSet{1} << a);
  }
  return set;
}

void AxisFilter::find_products(const Model& model) {
  for (const Operation& op : model.graph().operations()) {
    if (op.kind != OpKind::Sqr && op.kind != OpKind::Mul) continue;
    Product product{model.tensor(op.results[0]).expression, {}};
    for (TensorId id : op.operands) product.factors.push_back(model.tensor(id).expression);
    const bool of_sums = std::all_of(product.factors.begin(), product.factors.end(), [&](ExprId factor) {
      return factor != NormalForms::kOversized && forms_.terms(factor).size() > 1;
    });
    if (of_sums && product.whole != NormalForms::kOversized) products_.push_back(std::move(product));
  }
}

void AxisFilter::find_expansions() {
  for (size_t part = 0; part < expansions_.size(); ++part) {
    for (const auto& [product, factors] : products_) {
      if (parts_[part] == NormalForms::kOversized) continue;
      const auto whole = forms_.terms(parts_[part]);
      oracle_.any_multiplier(product, parts_[part], [&](MonomialId multiplier) {
        std::vector<size_t> numbers;
        for (const Term& term : forms_.terms(product)) {
          const auto image = forms_.multiply(multiplier, term.monomial);
          for (size_t i = 0; image && i < whole.size(); ++i) {
            if (whole[i].monomial == *image) numbers.push_back(i);
          }
        }
        if (numbers.size() == forms_.terms(product).size()) expansions_[part].push_back(std::move(numbers));
        return false;  // the next one
      });
    }
  }
}

bool AxisFilter::keeps_products(ExprId e, MonomialId multiplier, size_t part) {
  const auto whole = forms_.terms(parts_[part]);
  for (const std::vector<size_t>& terms : expansions_[part]) {
    size_t covered = 0;
    for (const Term& term : forms_.terms(e)) {
      const auto image = forms_.multiply(multiplier, term.monomial);
      covered +=
          std::any_of(terms.begin(), terms.end(), [&](size_t i) { return image && whole[i].monomial == *image; });
    }
    if (covered != 0 && covered != terms.size()) return false;
  }
  return true;
}

bool AxisFilter::fits_part(ExprId e, const Shape& summed, size_t part) {
  ExprId whole_sum = e;  // one axis at a time: the normal forms notice where the product of all extents is too large
  for (int64_t extent : summed) whole_sum = forms_.sum(extent, whole_sum);
  const ExprId whole = parts_[part];
  if (!oracle_.fits(whole_sum, whole)) return false;
  AxisSet reduced = 0;
  for (const Term& term : forms_.terms(e)) reduced |= axes_of_extent(forms_.monomial(term.monomial).extent);
  reduced &= ~part_axes_[part];  // an axis that the part has needs no other sum
  if (reduced == 0 && expansions_[part].empty()) return true;
  return oracle_.any_multiplier(whole_sum, whole, [&](MonomialId multiplier) {
    return (axes_of(forms_.monomial(multiplier)) & reduced) == 0 && keeps_products(whole_sum, multiplier, part);
  });
}

bool AxisFilter::fits(ExprId e, const std::vector<int>& axes, const Shape& extents) {
  if (oracle_.oversized()) return true;
  Hasher hasher;
  hasher.add(e).add_all(axes).add_all(extents);
  if (const auto it = known_.find(hasher.value()); it != known_.end()) return it->second;
  const auto maximum = row_max_axes_.find(e);
  if (maximum != row_max_axes_.end() && (maximum->second & ~axis_set(axes)) != 0) {
    known_.emplace(hasher.value(), false);
    return false;
  }
  bool found = oracle_.is_partial_function(e);
  for (size_t part = 0; part < part_axes_.size() && !found; ++part) {
    Shape summed;
    for (size_t d = 0; d < axes.size(); ++d) {
      const bool kept = axes[d] < 0 || axes[d] >= 63 || ((part_axes_[part] >> axes[d]) & 1);
      if (!kept) summed.push_back(extents[d]);
    }
    found = fits_part(e, summed, part);
  }
  known_.emplace(hasher.value(), found);
  return found;
}

bool AxisFilter::fits_bound(ExprId e, AxisSet axes) {
  if (oracle_.oversized()) return true;
  Hasher hasher;
  hasher.add(e).add(axes).add("bound");
  if (const auto it = known_.find(hasher.value()); it != known_.end()) return it->second;
  bool found = false;
  for (size_t part = 0; part < part_axes_.size() && !found; ++part) {
    found = (axes & ~part_axes_[part]) == 0 && oracle_.fits(e, parts_[part]);
  }
  known_.emplace(hasher.value(), found);
  return found;
}

}  // namespace strata

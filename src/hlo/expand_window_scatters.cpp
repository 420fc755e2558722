#include "hlo/expand_window_scatters.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "hlo/replace_instructions.h"
#include "hlo/scatter_places.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

using Integers = std::vector<int64_t>;

/// The elements of an array of integers that is made of constants.
std::optional<Integers> known_elements(const Computation& computation, InstructionId id) {
  const Instruction& it = computation[id];
  switch (it.opcode) {
    case Opcode::Constant: {
      const Literal& value = it.as<ConstantAttributes>().value;
      Integers elements;
      for (int64_t i = 0; i < value.shape().element_count(); ++i) elements.push_back(value.get_integer(i));
      return elements;
    }
    case Opcode::Broadcast: {
      if (computation.operand_shape(it, 0).element_count() != 1) return std::nullopt;
      const auto one = known_elements(computation, it.operands[0]);
      return one ? std::optional(Integers(static_cast<size_t>(it.shape.element_count()), one->front())) : std::nullopt;
    }
    case Opcode::Reshape:
      return known_elements(computation, it.operands[0]);
    case Opcode::Concatenate: {
      if (it.shape.rank() != 1) return std::nullopt;
      Integers all;
      for (const InstructionId operand : it.operands) {
        const auto some = known_elements(computation, operand);
        if (!some) return std::nullopt;
        all.insert(all.end(), some->begin(), some->end());
      }
      return all;
    }
    default:
      return std::nullopt;
  }
}

/// Where a scatter's one window lies, in the operand's dimensions.
struct Window {
  Integers starts, extents;
  bool inside = true;  ///< wholly, else nothing is updated
  bool large = false;  ///< it has half of the array or more
};

/// Nothing where there are several windows, or the place is not known; or where the window is small and combined with
/// what is there: a scatter does that in place.
std::optional<Window> window_of(const Module& module, const Computation& computation, const Instruction& it) {
  if (it.opcode != Opcode::Scatter || it.operands.size() != 3 || !it.shape.is_array()) return std::nullopt;
  const auto& how = it.as<ScatterAttributes>();
  const Shape& indices = computation.operand_shape(it, 1);
  const Shape& updates = computation.operand_shape(it, 2);
  const int64_t components = how.index_vector_dim < indices.rank() ? indices.dim(how.index_vector_dim) : 1;
  if (it.shape.element_count() == 0 || !how.input_batching_dims.empty() || indices.element_count() != components ||
      updates.element_count() == 0 || !it.shape.has_default_layout())
    return std::nullopt;
  for (const InstructionId id : it.operands) {
    if (!computation[id].shape.has_default_layout()) return std::nullopt;
  }
  const auto index = known_elements(computation, it.operands[1]);
  if (!index) return std::nullopt;
  const Integers& dims = it.shape.dims;
  Window window{Integers(dims.size(), 0), scatter_extents(how, dims.size(), updates.dims)};
  for (size_t i = 0; i < how.scatter_dims_to_operand_dims.size(); ++i)
    window.starts[static_cast<size_t>(how.scatter_dims_to_operand_dims[i])] = (*index)[i];
  for (size_t d = 0; d < dims.size(); ++d)
    window.inside &= window.starts[d] >= 0 && window.starts[d] <= dims[d] - window.extents[d];
  window.large = updates.element_count() * 2 >= it.shape.element_count();
  const Computation& called = module[it.called[0]];
  if (window.inside && !window.large && called.root != called.parameters[1]) return std::nullopt;
  return window;
}

std::string list(const Integers& of) { return fmt::format("{}", fmt::join(of, ",")); }

Replacement replacement(const Module& module, const Computation& computation, const Instruction& it,
                        const Window& window) {
  const Integers& dims = it.shape.dims;
  const std::string type(name(it.shape.type)), whole = list(dims), part = list(window.extents);
  std::string body =
      fmt::format("  x = {} parameter(0)\n  i = {} parameter(1)\n  u = {} parameter(2)\n", to_string(it.shape),
                  to_string(computation.operand_shape(it, 1)), to_string(computation.operand_shape(it, 2)));
  if (!window.inside) {
    body += fmt::format("  ROOT r = {} copy(x)\n", to_string(it.shape));
  } else if (window.large) {
    std::vector<std::string> pads;
    for (size_t d = 0; d < dims.size(); ++d)
      pads.push_back(fmt::format("{}_{}", window.starts[d], dims[d] - window.starts[d] - window.extents[d]));
    const TypeKind kind = hlo::kind(it.shape.type);
    const char* zero = kind == TypeKind::Pred ? "false" : kind == TypeKind::Complex ? "(0, 0)" : "0";
    body += fmt::format(
        "  w = {0}[{5}] reshape(u)\n  none = {0}[] constant({3})\n  b = {0}[{1}] pad(w, none), padding={2}\n  a = "
        "{0}[{1}] copy(x)\n  both = {0}[{1}] {4}\n  yes = pred[] constant(true)\n  no = pred[] constant(false)\n  "
        "ones = pred[{5}] broadcast(yes), dimensions={{}}\n  hit = pred[{1}] pad(ones, no), padding={2}\n  ROOT r = "
        "{0}[{1}] select(hit, both, x)\n",
        type, whole, fmt::join(pads, "x"), zero, scatter_combination(module[it.called[0]]), part);
  } else {
    std::vector<std::string> places;
    body += fmt::format("  w = {}[{}] reshape(u)\n", type, part);
    for (size_t d = 0; d < dims.size(); ++d) {
      body += fmt::format("  s{} = s64[] constant({})\n", d, window.starts[d]);
      places.push_back(fmt::format("s{}", d));
    }
    body += fmt::format("  ROOT r = {}[{}] dynamic-update-slice(x, w, {})\n", type, whole, fmt::join(places, ", "));
  }
  return {fmt::format("HloModule m\nscatter {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n  ROOT r = {0}[] "
                      "copy(a)\n}}\nENTRY window-scatter {{\n{1}}}\n",
                      type, body),
          it.operands,
          {{"scatter", it.called[0]}}};
}

}  // namespace

bool has_window_scatters(const Module& module) {
  return std::any_of(module.computations.begin(), module.computations.end(), [&](const Computation& computation) {
    return std::any_of(computation.instructions.begin(), computation.instructions.end(),
                       [&](const Instruction& it) { return window_of(module, computation, it).has_value(); });
  });
}

Result<Module> expand_window_scatters(const Module& module) {
  return replace_instructions(module,
                              [&](const Computation& computation, const Instruction& it) -> std::optional<Replacement> {
                                const auto window = window_of(module, computation, it);
                                if (!window) return std::nullopt;
                                return replacement(module, computation, it, *window);
                              });
}

}  // namespace strata::hlo

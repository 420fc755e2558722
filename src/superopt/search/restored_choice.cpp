// Choices that come from a file: what the search makes itself is right by construction, these are not.
#include "ir/text.h"
#include "ir/validate.h"
#include "superopt/search/unit_search.h"

namespace strata {
namespace {

bool contains(const std::vector<int>& classes, int c) {
  return std::find(classes.begin(), classes.end(), c) != classes.end();
}

}  // namespace

tl::expected<KernelChoice, std::string> restored_choice(int result, const std::vector<int>& inputs,
                                                        const std::string& graph, const Unit& unit,
                                                        const SearchContext& context) {
  const auto wrong = [](std::string why) { return tl::unexpected(std::move(why)); };
  if (!contains(unit.targets, result)) return wrong(fmt::format("value {} is none that it makes", result));
  for (int input : inputs) {
    if (!contains(unit.inputs, input)) return wrong(fmt::format("value {} is none that it reads", input));
  }
  auto read = parse_graph(graph);
  if (!read) return wrong(read.error().message);
  const Graph& kernels = **read;
  if (kernels.inputs().size() != inputs.size() || kernels.outputs().size() != 1) {
    return wrong("its graph has other inputs or outputs");
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& type = context.value(inputs[i]).type;
    if (!type || kernels.type(kernels.inputs()[i]) != *type) return wrong("an input of its graph has another type");
  }
  const auto& made = context.value(result).type;
  if (!made || kernels.type(kernels.outputs()[0]).shape != made->shape) {
    return wrong("the output of its graph has another shape");
  }
  if (kernels.operations().empty()) return wrong("its graph has no kernel");
  for (const Operation& op : kernels.operations()) {
    if (!op.body) return wrong("its graph has a predefined operator");
  }
  // What is assembled takes the last kernel's result for the graph's.
  if (kernels.operations().back().results != kernels.outputs()) return wrong("its output is not its last result");
  if (auto legal = validate(kernels, *context.options.target); !legal) return wrong(legal.error().message);
  return KernelChoice{result, inputs, *read, nullptr, estimate_cost(kernels, *context.options.target).seconds};
}

}  // namespace strata

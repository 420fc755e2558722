#include <algorithm>
#include <map>
#include <set>

#include "superopt/partition/partition.h"

namespace strata {
namespace {

/// A name that is neither taken nor one of the program's.
std::string free_name(std::string wanted, const Graph& program, const GraphBuilder& builder) {
  while (program.find_tensor(wanted) || builder.peek().find_tensor(wanted)) wanted += "_";
  return wanted;
}

}  // namespace

Result<GraphPtr> compose(const Partition& partition, const std::vector<GraphPtr>& replacements) {
  const Graph& program = *partition.program;
  GraphBuilder builder(Level::Kernel, program.name());
  builder.comment(program.comments(), program.output_comments(), program.closing_comments());
  std::map<std::string, TensorId> made;  // the program's values, by name
  for (size_t i = 0; i < program.inputs().size(); ++i) {
    const TensorInfo& input = program.tensor(program.inputs()[i]);
    STRATA_TRY(made[input.name], builder.input(input.name, input.type, {}, program.input_comments()[i]));
  }
  for (size_t p = 0; p < partition.parts.size(); ++p) {
    const Part& part = partition.parts[p];
    const Graph& by = *replacements[p];
    if (by.outputs().size() != part.outputs.size()) {
      return invalid("a part with {} outputs is replaced by one with {}", part.outputs.size(), by.outputs().size());
    }
    std::vector<TensorId> ids(by.tensors().size(), -1);
    std::vector<std::string> names(by.tensors().size());
    for (TensorId id : by.inputs()) {
      const auto value = made.find(by.tensor(id).name);
      if (value == made.end()) return invalid("no value '{}' for a part", by.tensor(id).name);
      ids[static_cast<size_t>(id)] = value->second;
    }
    for (size_t o = 0; o < part.outputs.size(); ++o) {
      names[static_cast<size_t>(by.outputs()[o])] = program.tensor(part.outputs[o]).name;
    }
    for (const Operation& op : by.operations()) {
      std::vector<TensorId> operands;
      for (TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
      std::vector<std::string> results;
      for (TensorId id : op.results) {
        const std::string& name = names[static_cast<size_t>(id)];
        results.push_back(!name.empty() ? name : free_name(by.tensor(id).name, program, builder));
      }
      std::vector<TensorId> added;
      if (op.body) {
        STRATA_TRY(added, builder.add(op.body, std::move(operands), std::move(results), op.location, op.comments));
      } else {
        STRATA_TRY(const TensorId id, builder.add(op.kind, std::move(operands), op.attributes, std::move(results[0]),
                                                  op.location, op.comments));
        added = {id};
      }
      for (size_t r = 0; r < added.size(); ++r) ids[static_cast<size_t>(op.results[r])] = added[r];
    }
    for (size_t o = 0; o < part.outputs.size(); ++o) {
      made[program.tensor(part.outputs[o]).name] = ids[static_cast<size_t>(by.outputs()[o])];
    }
  }
  for (TensorId id : program.outputs()) STRATA_CHECK(builder.output(made[program.tensor(id).name]));
  return builder.finish();
}

}  // namespace strata

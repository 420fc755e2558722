// What tests of glue have in common: its module by HLO's interpreter.
#pragma once

#include <vector>

#include "compiler/glue.h"
#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "ops/tensor.h"

namespace strata::compiler {

/// The results of glue's module, whose parameters are f32, for values of all tensors of its graph. Errors: those of the
/// parser and of the interpreter.
inline Result<hlo::Literal> evaluate_glue(const Glue& made, const std::vector<Tensor<double>>& values) {
  STRATA_TRY(const hlo::ModulePtr module, hlo::parse_module(made.module));
  std::vector<hlo::Literal> arguments;
  for (const TensorId id : made.inputs) {
    const Tensor<double>& value = values[static_cast<size_t>(id)];
    hlo::Literal argument(hlo::array_shape(hlo::ElementType::F32, value.shape));
    for (int64_t i = 0; i < argument.shape().element_count(); ++i) argument.set<float>(i, static_cast<float>(value[i]));
    arguments.push_back(std::move(argument));
  }
  return hlo::evaluate(*module, arguments);
}

}  // namespace strata::compiler

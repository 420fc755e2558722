#include "superopt/verify/dependence.h"

#include <algorithm>

namespace strata {
namespace {

/// Adds to `marked` the bits in which the operands of an adding operator differ, through thread graphs too.
void walk(const Graph& graph, std::vector<unsigned>& depends, SizeDependence& marked) {
  for (const Operation& op : graph.operations()) {
    const auto of = [&](size_t i) { return depends[static_cast<size_t>(op.operands[i])]; };
    if (op.body) {
      std::vector<unsigned> inner(op.body->tensors().size(), 0);
      for (size_t i = 0; i < op.operands.size(); ++i) inner[static_cast<size_t>(op.body->inputs()[i])] = of(i);
      walk(*op.body, inner, marked);
      for (size_t i = 0; i < op.results.size(); ++i) {
        depends[static_cast<size_t>(op.results[i])] = inner[static_cast<size_t>(op.body->outputs()[i])];
      }
      continue;
    }
    unsigned result = 0;
    for (size_t i = 0; i < op.operands.size(); ++i) result |= of(i);
    const bool block = graph.level() == Level::Block;
    if (op.kind == OpKind::InIter && block) {
      const std::vector<int64_t>& imap = op.attributes.list("imap");
      for (size_t g = 0; g < imap.size(); ++g) result |= imap[g] == kReplicate ? 0 : 1U << g;
      if (op.attributes.integer_or("fmap", kReplicate) != kReplicate) result |= kLoopBit;
    } else if (op.kind == OpKind::OutSaver && block) {
      const std::vector<int64_t>& omap = op.attributes.list("omap");
      for (size_t g = 0; g < omap.size(); ++g) {
        if (omap[g] != kReplicate) marked.always |= ~result & 1U << g;
      }
    } else if (is_accumulator(op.kind)) {
      marked.always |= ~result & kLoopBit;
      result &= ~kLoopBit;
    } else if (const auto products = static_cast<size_t>(op_def(op.kind).traits.products); products > 1) {
      for (size_t i = 1; i < products; ++i) marked.where_reduced |= (of(0) | of(products)) ^ (of(i) | of(i + products));
    } else if (adds_operands(graph, op)) {
      if (op.kind == OpKind::AddConstant) marked.where_reduced |= of(0);
      for (size_t i = 1; i < op.operands.size(); ++i) marked.where_reduced |= of(0) ^ of(i);
    }
    depends[static_cast<size_t>(op.results[0])] = result;
  }
}

}  // namespace

bool adds_operands(const Graph& graph, const Operation& op) {
  const bool two = !op.body && op.operands.size() >= 2 && op.kind != OpKind::Mul && op.kind != OpKind::Div &&
                   op_def(op.kind).traits.products == 0 && op.kind != OpKind::AccumRescale;
  if (op.body || (!two && op.kind != OpKind::AddConstant)) return false;
  const auto reads = [&](const Operation& other) {
    return std::find(other.operands.begin(), other.operands.end(), op.results[0]) != other.operands.end();
  };
  const auto& outputs = graph.outputs();
  if (std::find(outputs.begin(), outputs.end(), op.results[0]) != outputs.end()) return true;
  return std::any_of(graph.operations().begin(), graph.operations().end(),
                     [&](const Operation& other) { return reads(other) && other.kind != OpKind::Exp; });
}

SizeDependence size_dependence(const Graph& graph) {
  SizeDependence marked;
  if (graph.level() != Level::Block) return marked;
  std::vector<unsigned> depends(graph.tensors().size(), 0);
  walk(graph, depends, marked);
  return marked;
}

}  // namespace strata

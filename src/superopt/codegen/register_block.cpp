#include "superopt/codegen/register_block.h"

#include <algorithm>

#include "superopt/codegen/running_reference.h"

namespace strata {

RegisterBlock::RegisterBlock(const Operation& op, std::string name, const OperandPlaces& strides,
                             const BlockSchedule& schedule, const Target& target)
    : body_(*op.body),
      name_(std::move(name)),
      strides_(strides),
      schedule_(schedule),
      target_(target),
      stages_(loop_stages(body_)),
      loop_(body_.launch().loop) {
  scope_ = NameScope({"warp",       "crew",     "group",        "part",          "ring",  "stage",          "iteration",
                      "ahead",      "rank",     "shared",       "partial",       "lefts", "copy_iteration", "i",
                      "block_x",    "block_y",  "block_z",      "strata_device", "page",  "Team",           "Math",
                      "slot",       "phase",    "share",        "split",         "piece", "first",          "previous",
                      "iterations", "gathered", "gathered_now", "Ring",          name_});
}

size_t RegisterBlock::input_number(TensorId id) const {
  const auto at = std::find(body_.inputs().begin(), body_.inputs().end(), id);
  return static_cast<size_t>(at - body_.inputs().begin());
}

void RegisterBlock::name_tensors() {
  for (TensorId id : body_.inputs()) names_[id] = scope_.add(body_.tensor(id).name);
  for (TensorId id : body_.outputs()) names_[id] = scope_.add(body_.tensor(id).name);
  for (size_t n = 0; n < body_.inputs().size(); ++n) {
    const TensorId id = body_.inputs()[n];
    if (strides_[n].front) fronts_[id] = scope_.add(body_.tensor(id).name + "_front");
  }
  for (const Operation& op : body_.operations()) {
    if (op.kind == OpKind::OutSaver) continue;
    for (TensorId id : op.results) names_[id] = scope_.add(body_.tensor(id).name);
  }
  for (const Operation& op : body_.operations()) {
    if (op.kind != OpKind::AccumRescale || references_.count(op.operands[1]) != 0) continue;
    references_[op.operands[1]] = scope_.add(names_[op.operands[1]] + "_scale");
    const Operation* made_by = producer(op.operands[1]);
    const bool reduced = made_by != nullptr && is_reduction(made_by->kind);
    if (reduced && runs_along(body_, op.operands[1])) running_.insert(op.operands[1]);
  }
}

std::string RegisterBlock::parameters(bool typed) const {
  std::string text;
  size_t number = 0;
  const auto add = [&](TensorId id, const char* qualifier, const std::string& name) {
    const std::string type =
        typed ? fmt::format("{}{}*", qualifier, storage_type(body_.type(id).dtype)) : fmt::format("T{}", number++);
    text += fmt::format("[[maybe_unused]] {} {}, ", type, name);
  };
  for (TensorId id : arguments_of(body_, body_.inputs())) add(id, "const ", names_.at(id));
  for (TensorId id : body_.outputs()) add(id, "", names_.at(id));
  for (TensorId id : body_.inputs()) {
    if (fronts_.count(id) > 0) add(id, "const ", fronts_.at(id));
  }
  return text;
}

std::string RegisterBlock::template_head(bool team) const {
  constexpr const char* kFunction = "static STRATA_DEVICE void ";
  if (!is_template_) return team ? kTeamFunction : kFunction;
  std::string text = team ? "template <class Team, class Math, class Ring" : "template <class Ring";
  const size_t count = arguments_of(body_, body_.inputs()).size() + body_.outputs().size();
  for (size_t n = 0; n < count; ++n) text += fmt::format(", class T{}", n);
  return text + ">\n" + kFunction;
}

std::string RegisterBlock::load_head(const std::string& maps, const std::string& ring) const {
  return fmt::format("{}{}_load({}{}\n    {},\n    {}) {{\n", template_head(false), name_, parameters(!is_template_),
                     maps, kBlockCoordinates, ring);
}

std::string RegisterBlock::team_head(const std::string& ring) const {
  return fmt::format("{}{}({}\n    {},\n    {}[[maybe_unused]] unsigned char* shared) {{\n", template_head(true), name_,
                     parameters(!is_template_), kBlockCoordinates, ring);
}

std::string RegisterBlock::pack_head() const {
  return fmt::format("{}{}_pack({}unsigned char* {},\n    {},\n    [[maybe_unused]] unsigned char* shared) {{\n",
                     kTeamFunction, name_, parameters(), kPackedConstants, kBlockCoordinates);
}

void RegisterBlock::declare(const Operation& op) {
  const TensorId id = op.results[0];
  if (op.kind == OpKind::Accum && op.attributes.word("kind") == "max") {
    if (references_.count(op.operands[0]) != 0) return;  // the rescaling's largest
    line(fmt::format("auto {} = strata_device::filled<{}>(strata_device::Taking::neutral());", names_[id],
                     tile_type(id)));
    return;
  }
  line(fmt::format("auto {} = strata_device::filled<{}>(0.0f);", names_[id], tile_type(id)));
}

Result<void> RegisterBlock::invariants() {
  for (size_t i = 0; i < body_.operations().size(); ++i) {
    const Operation& op = body_.operations()[i];
    const bool accumulates = !op.body && op_def(op.kind).traits.accumulates;
    const bool moves = op.kind == OpKind::InIter || op.kind == OpKind::OutSaver;
    if (stages_[i] != LoopStage::Body || accumulates || moves) continue;
    const bool fixed = std::all_of(op.operands.begin(), op.operands.end(),
                                   [&](TensorId id) { return invariant_.count(id) != 0 || stays(id); });
    if (!fixed) continue;
    STRATA_CHECK(operation(op));
    invariant_.insert(op.results.begin(), op.results.end());
  }
  return {};
}

double RegisterBlock::operations_of(const Operation& op) {
  if (op.body) {
    double operations = 0;
    for (const Operation& inner : op.body->operations()) {
      if (inner.kind != OpKind::InIter && inner.kind != OpKind::OutSaver) operations += operations_of(inner);
    }
    return operations;
  }
  switch (op.kind) {
    case OpKind::Exp:
    case OpKind::Div:
    case OpKind::Sqrt:
    case OpKind::Rsqrt:
      return 4;
    case OpKind::SiLU:
    case OpKind::Gelu:
      return 8;
    default:
      return 1;
  }
}

bool RegisterBlock::is_invariant(const Operation& op) const {
  return !op.results.empty() && invariant_.count(op.results[0]) != 0;
}

const Operation* RegisterBlock::only_accumulator(TensorId id) const {
  const Operation* user = nullptr;
  for (const Operation& op : body_.operations()) {
    if (std::find(op.operands.begin(), op.operands.end(), id) == op.operands.end()) continue;
    if (user != nullptr) return nullptr;
    user = &op;
  }
  if (user == nullptr || user->body) return nullptr;
  const bool sum = user->kind == OpKind::Accum && user->attributes.word("kind") == "sum";
  const bool rescaled =
      user->kind == OpKind::AccumRescale && user->operands[0] == id && running_.count(user->operands[1]) != 0;
  return sum || rescaled ? user : nullptr;
}

Result<void> RegisterBlock::operation(const Operation& op) {
  if (op.kind == OpKind::InIter) return {};
  line("// " + statement_text(body_, op));
  if (op.body) return thread_graph(op);
  const TensorId result = op.results[0];
  if (op_def(op.kind).cuda.form == CudaLowering::Form::Elementwise) {
    std::vector<Step> steps{{&op, {}, names_[result] + "_i"}};
    // An exponential takes a difference apart: its tile is then computed for others, or for nobody.
    const Operation* difference = op.kind == OpKind::Exp ? producer(op.operands[0]) : nullptr;
    if (difference != nullptr && !difference->body && difference->kind == OpKind::Sub) {
      steps.insert(steps.begin(), {difference, {}, "difference"});
      steps[1].operands = {"difference"};
    }
    std::vector<std::pair<TensorId, std::string>> operands;
    for (TensorId id : steps[0].op->operands) {
      steps[0].operands.push_back(fmt::format("x{}", operands.size()));
      operands.emplace_back(id, steps[0].operands.back());
    }
    elements(result, operands, steps, names_[result] + "_i");
    return {};
  }
  if (multiplies_matrices(op.kind)) return product(op);
  switch (op.kind) {
    case OpKind::OutSaver:
      return save(op);
    case OpKind::Sum:
    case OpKind::ReduceMax:
      return reduction(op);
    case OpKind::Accum:
      return accumulate(op);
    case OpKind::AccumRescale:
      return rescale(op);
    default:
      return unsupported("{} moves elements", op.name());
  }
}

Result<void> RegisterBlock::reduction(const Operation& op) {
  const TensorId result = op.results[0];
  STRATA_TRY(const bool columns, reduces_columns(op));
  const bool running = running_.count(result) != 0;
  const Operation* accumulator = op.kind == OpKind::Sum ? only_accumulator(result) : nullptr;
  const bool in_lane = accumulator != nullptr && !across_call(columns, "").empty();
  if (in_lane) deferred_[accumulator->results[0]] = columns;
  line(fmt::format("const auto {} = {};", running ? names_[result] + "_here" : names_[result],
                   reduce_call(op, columns, in_lane, value(op.operands[0], transposed(result)))));
  if (running) {
    const std::string& state = references_.at(result);
    line(fmt::format("{}.{}({}_here);", state, rescales_seldom() ? "follow" : "advance", names_[result]));
    line(fmt::format(
        "const auto& {} = {}.{}so far", names_[result], state,
        rescales_seldom() ? "reference;  // any will do: near the largest " : "largest;  // any will do: "));
  }
  return {};
}

void RegisterBlock::scale_before(const Operation& op, bool branch) {
  const TensorId id = op.results[0];
  const std::string type = tile_type(id);
  if (branch) line(fmt::format("if ({}.moved()) {{", references_.at(op.operands[1])));
  line("#pragma unroll");
  line(fmt::format(
      "{}for (int i = 0; i < {}::kRegisters; ++i) {}.v[i] *= {}.before.v[strata_device::broadcast<{}, {}>(i)];",
      branch ? "  " : "", type, names_[id], references_.at(op.operands[1]), tile_type(op.operands[1]), type));
  if (branch) line("}");
}

void RegisterBlock::settle_references() {
  if (!rescales_seldom()) return;
  for (const auto& [reference, state] : references_) {
    if (running_.count(reference) == 0) continue;
    line(fmt::format("{}.settle();", state));
    for (const Operation& op : body_.operations()) {
      if (op.kind == OpKind::AccumRescale && op.operands[1] == reference) scale_before(op, false);
    }
  }
}

Result<void> RegisterBlock::accumulate(const Operation& op) {
  const TensorId id = op.results[0];
  if (direct_.count(id) != 0) return {};
  const bool maximum = op.attributes.word("kind") == "max";
  if (maximum && references_.count(op.operands[0]) != 0) return {};
  const std::string from = value(op.operands[0], transposed(id));
  line("#pragma unroll");
  line(fmt::format("for (int i = 0; i < {}.kRegisters; ++i) {}.v[i] = strata_device::{}::combine({}.v[i], {}.v[i]);",
                   names_[id], names_[id], maximum ? "Taking" : "Adding", names_[id], from));
  return {};
}

Result<void> RegisterBlock::rescale(const Operation& op) {
  const TensorId id = op.results[0];
  if (direct_.count(id) != 0) return {};
  const TensorId reference = op.operands[1];
  const std::string& state = references_.at(reference);
  const bool running = running_.count(reference) != 0;
  const bool known = known_references_.count(reference) != 0;
  if (!running && advanced_.insert(reference).second) {
    line(fmt::format("{}.{}({});", state, known ? "weigh" : "advance", value(reference, transposed(id))));
  }
  const std::string from = value(op.operands[0], transposed(id));
  const std::string type = tile_type(id);
  const std::string factor = fmt::format("strata_device::broadcast<{}, {}>(i)", tile_type(reference), type);
  line("#pragma unroll");
  line(fmt::format("for (int i = 0; i < {0}::kRegisters; ++i) {{", type));
  line(fmt::format("  {0}.v[i] = {0}.v[i]{1} + {2}.v[i]{3};", names_[id],
                   known ? "" : fmt::format(" * {}.before.v[{}]", state, factor), from,
                   running ? "" : fmt::format(" * {}.now.v[{}]", state, factor)));
  line("}");
  return {};
}

std::vector<std::string> RegisterBlock::fused_expressions(const std::vector<Step>& steps, const std::string& last) {
  std::vector<std::string> expressions(steps.size());
  std::set<std::string> used{last};
  for (size_t n = steps.size(); n-- > 0;) {
    const Step& step = steps[n];
    if (used.count(step.variable) == 0) continue;
    const auto difference = std::find_if(steps.begin(), steps.end(), [&](const Step& other) {
      return step.op->kind == OpKind::Exp && other.op->kind == OpKind::Sub && other.variable == step.operands[0];
    });
    const bool fused = difference != steps.end();
    expressions[n] =
        fused ? fmt::format("Math::exponential_of_difference({}, {})", difference->operands[0], difference->operands[1])
              : elementwise_expression(*step.op, step.operands, DType::F32);
    const auto& operands = fused ? difference->operands : step.operands;
    used.insert(operands.begin(), operands.end());
  }
  return expressions;
}

const Operation* RegisterBlock::producer(TensorId id) const {
  const int number = body_.tensor(id).producer;
  return number < 0 ? nullptr : &body_.operations()[static_cast<size_t>(number)];
}

void RegisterBlock::elements(TensorId result, const std::vector<std::pair<TensorId, std::string>>& operands,
                             const std::vector<Step>& steps, const std::string& last) {
  const bool layout = transposed(result);
  std::vector<std::string> tiles;
  for (const auto& [id, variable] : operands) tiles.push_back(value(id, layout));
  const std::string type = tile_type(result);
  line(fmt::format("{} {};", type, names_[result]));
  line("#pragma unroll");
  line(fmt::format("for (int i = 0; i < {}::kRegisters; ++i) {{", type));
  for (size_t n = 0; n < operands.size(); ++n) {
    const auto& [id, variable] = operands[n];
    const bool whole = body_.type(id).shape == body_.type(result).shape;
    line(fmt::format(
        "  const float {} = {}.v[{}];", variable, tiles[n],
        whole ? "i" : fmt::format("strata_device::broadcast<{}, {}>(i)", tile_type(id, layout, after_), type)));
  }
  const std::vector<std::string> expressions = fused_expressions(steps, last);
  for (size_t n = 0; n < steps.size(); ++n) {
    if (!expressions[n].empty()) line(fmt::format("  const float {} = {};", steps[n].variable, expressions[n]));
  }
  line(fmt::format("  {}.v[i] = {};", names_[result], last));
  line("}");
}

Result<void> RegisterBlock::thread_graph(const Operation& op) {
  const Graph& graph = *op.body;
  for (size_t n = 0; n < graph.outputs().size(); ++n) {
    const Operation& saver = graph.operations()[static_cast<size_t>(graph.tensor(graph.outputs()[n]).producer)];
    std::vector<bool> needed(graph.tensors().size(), false);
    needed[static_cast<size_t>(saver.operands[0])] = true;
    for (size_t i = graph.operations().size(); i-- > 0;) {
      const Operation& inner = graph.operations()[i];
      if (!needed[static_cast<size_t>(inner.results[0])]) continue;
      for (TensorId id : inner.operands) needed[static_cast<size_t>(id)] = true;
    }
    std::set<std::string> outside;
    for (const auto& [id, name] : names_) outside.insert(name);
    for (const auto& [key, name] : values_) outside.insert(name);
    for (const auto& [id, name] : references_) outside.insert(name);
    NameScope inside(outside);
    std::map<TensorId, std::string> variables;
    std::vector<std::pair<TensorId, std::string>> operands;
    std::vector<Step> steps;
    for (const Operation& inner : graph.operations()) {
      const TensorId id = inner.results[0];
      if (!needed[static_cast<size_t>(id)] || inner.kind == OpKind::OutSaver) continue;
      variables[id] = inside.add(graph.tensor(id).name);
      if (inner.kind == OpKind::InIter) {
        const auto formal = std::find(graph.inputs().begin(), graph.inputs().end(), inner.operands[0]);
        operands.emplace_back(op.operands[static_cast<size_t>(formal - graph.inputs().begin())], variables[id]);
        continue;
      }
      std::vector<std::string> arguments;
      for (TensorId operand : inner.operands) arguments.push_back(variables.at(operand));
      steps.push_back({&inner, arguments, variables[id]});
    }
    elements(op.results[n], operands, steps, variables.at(saver.operands[0]));
  }
  return {};
}

void RegisterBlock::finish_reductions() {
  for (const auto& [id, columns] : deferred_) {
    line(fmt::format("{} = {};", names_[id], across_call(columns, names_[id])));
  }
}

bool RegisterBlock::is_largest_reference(const Operation& op) const {
  return op.kind == OpKind::Accum && op.attributes.word("kind") == "max" && references_.count(op.operands[0]) != 0;
}

void RegisterBlock::name_largest_references() {
  for (const Operation& op : body_.operations()) {
    if (!is_largest_reference(op)) continue;
    line(fmt::format("const auto& {} = {}.largest;", names_[op.results[0]], references_.at(op.operands[0])));
  }
}

}  // namespace strata

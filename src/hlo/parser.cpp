#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "hlo/input_output_alias.h"
#include "hlo/link.h"
#include "hlo/parse_parts.h"
#include "hlo/text.h"
#include "hlo/verify.h"
#include "support/read_file.h"

namespace strata::hlo {
namespace {

/// Larger arrays of starts are no dynamic slice's: arrays have fewer dimensions.
constexpr int64_t kMostStarts = 64;

class Parser {
 public:
  explicit Parser(Cursor cursor) : cursor_(cursor) {}

  Result<ModuleText> parse() {
    STRATA_CHECK(parse_header());
    std::optional<size_t> entry;
    while (!cursor_.done()) {
      if (skip_table()) continue;
      const size_t place = cursor_.offset();
      if (cursor_.accept("ENTRY")) {
        if (entry) return cursor_.error_at(place, "a module has two ENTRY computations");
        entry = parsed_.size();
      }
      STRATA_CHECK(parse_computation());
    }
    if (parsed_.empty()) return cursor_.error("the module has no computation", "write one: f { … ROOT … }");
    const size_t last = parsed_.size() - 1;
    STRATA_TRY(const std::shared_ptr<Module> module,
               link(cursor_, name_, std::move(parsed_), computations_, entry.value_or(last)));
    module->fusion = !entry;
    STRATA_CHECK(verify(*module));
    if (const Result<void> fits = verify(*module, aliases_); !fits)
      return cursor_.error_at(aliases_place_, fits.error().message);
    return ModuleText{module, std::move(aliases_)};
  }

 private:
  Result<void> parse_header() {
    name_ = "module";
    if (is_mlir())
      return cursor_.error("this is StableHLO, a text of MLIR, and no HLO",
                           "print it as HLO: docs/hlo.md says how; from JAX: jax.jit(f).lower(x).as_text(\"hlo\")");
    if (!cursor_.accept("HloModule")) return {};
    STRATA_TRY(name_, cursor_.name("the module's name"));
    // None of its attributes changes what the entry computation returns.
    STRATA_TRY(RawAttributeList attributes, RawAttributeList::parse(cursor_));
    const auto* aliases = attributes.take("input_output_alias");
    if (aliases == nullptr) return {};
    aliases_place_ = aliases->offset;
    return parse_aliases(cursor_.within(aliases->value));
  }

  /// What JAX prints where it is not asked for HLO: `module @jit_f attributes {…} {`, after lines of locations.
  [[nodiscard]] bool is_mlir() const {
    Cursor look = cursor_;
    return look.accept("#loc") || (look.accept("module") && (look.ahead("@") || look.ahead("attributes")));
  }

  /// { {0}: (1, {}, may-alias), {1,0}: (2, {0}) }
  Result<void> parse_aliases(Cursor value) {
    const auto parse_index = [&]() -> Result<std::vector<int64_t>> {
      std::vector<int64_t> index;
      STRATA_CHECK(value.expect("{"));
      while (!value.accept("}")) {
        if (!index.empty()) STRATA_CHECK(value.expect(","));
        STRATA_TRY(const int64_t number, value.integer("a number of a tuple's element"));
        index.push_back(number);
      }
      return index;
    };
    STRATA_CHECK(value.expect("{"));
    while (!value.accept("}")) {
      if (!aliases_.empty()) STRATA_CHECK(value.expect(","));
      InputOutputAlias alias;
      STRATA_TRY(alias.output, parse_index());
      STRATA_CHECK(value.expect(":"));
      STRATA_CHECK(value.expect("("));
      STRATA_TRY(alias.parameter, value.integer("a parameter's number"));
      STRATA_CHECK(value.expect(","));
      STRATA_TRY(alias.parameter_index, parse_index());
      if (value.accept(",")) {
        alias.must = value.accept("must-alias");
        if (!alias.must) STRATA_CHECK(value.expect("may-alias"));
      }
      STRATA_CHECK(value.expect(")"));
      aliases_.push_back(std::move(alias));
    }
    return {};
  }

  /// The tables of source places that newer texts have between the header and the computations.
  bool skip_table() {
    for (std::string_view title : {"FileNames", "FunctionNames", "FileLocations", "StackFrames"}) {
      if (!cursor_.accept(title)) continue;
      cursor_.skip_line();
      while (cursor_.peek() >= '0' && cursor_.peek() <= '9') cursor_.skip_line();
      return true;
    }
    return false;
  }

  Result<void> parse_computation() {
    ParsedComputation parsed;
    parsed.offset = cursor_.offset();
    STRATA_TRY(parsed.computation.name, cursor_.name("a computation"));
    if (!computations_.emplace(parsed.computation.name, parsed_.size()).second) {
      return cursor_.error_at(parsed.offset,
                              fmt::format("the computation '{}' is defined twice", parsed.computation.name));
    }
    // The signature repeats what the parameters and the root say; the result is checked against the root.
    std::optional<ParsedShape> result;
    size_t result_place = 0;
    if (cursor_.ahead("(")) STRATA_CHECK(cursor_.skip_balanced());
    if (cursor_.accept("->")) {
      result_place = cursor_.offset();
      STRATA_TRY(result, parse_shape(cursor_));
    }
    STRATA_CHECK(cursor_.expect("{"));
    instructions_.clear();
    tiled_.clear();
    std::optional<InstructionId> root;
    while (!cursor_.accept("}")) {
      if (cursor_.done()) return cursor_.expected(fmt::format("'}}' of '{}'", parsed.computation.name));
      const size_t place = cursor_.offset();
      const bool is_root = cursor_.accept("ROOT");
      if (is_root && root) return cursor_.error_at(place, fmt::format("'{}' has two ROOTs", parsed.computation.name));
      STRATA_TRY(const InstructionId id, parse_instruction(parsed));
      if (is_root) root = id;
    }
    Computation& computation = parsed.computation;
    if (computation.instructions.empty()) {
      return cursor_.error_at(parsed.offset, fmt::format("the computation '{}' is empty", computation.name));
    }
    computation.root = root.value_or(static_cast<InstructionId>(computation.instructions.size() - 1));
    name_anonymous(computation);
    STRATA_CHECK(number_parameters(parsed));
    if (result && !same_shape(result->shape, computation.root_instruction().shape)) {
      return cursor_.error_at(result_place, fmt::format("the root of '{}' is {}, not {}", computation.name,
                                                        to_string_without_layout(computation.root_instruction().shape),
                                                        to_string_without_layout(result->shape)));
    }
    // Older texts have attributes of the computation here.
    STRATA_CHECK(RawAttributeList::parse(cursor_));
    parsed_.push_back(std::move(parsed));
    return {};
  }

  Result<InstructionId> parse_instruction(ParsedComputation& parsed) {
    Instruction instruction;
    const size_t place = cursor_.offset();
    instruction.location = cursor_.location(place);
    STRATA_TRY(instruction.name, cursor_.name("an instruction"));
    STRATA_CHECK(cursor_.expect("="));
    const std::string name = instruction.name;
    std::optional<ParsedShape> stated;
    if (shape_ahead(cursor_)) {
      STRATA_TRY(stated, parse_shape(cursor_));
    }
    const size_t opcode_place = cursor_.offset();
    STRATA_TRY(const std::string_view opcode, cursor_.word("an operator"));
    STRATA_TRY(const InstructionId id,
               parse_call(parsed, std::move(instruction), std::move(stated), opcode, opcode_place, 0));
    if (!instructions_.emplace(name, id).second) {
      return cursor_.error_at(place, fmt::format("'{}' is defined twice", name));
    }
    return id;
  }

  /// What follows the operator of an instruction whose name and place are known. Within another instruction's operands
  /// (depth above 0) it has no attributes.
  Result<InstructionId> parse_call(ParsedComputation& parsed, Instruction instruction,
                                   std::optional<ParsedShape> stated, std::string_view opcode, size_t opcode_place,
                                   int depth) {
    constexpr int kMostNested = 200;
    if (depth > kMostNested) return cursor_.error_at(opcode_place, "operands are nested more than 200 deep");
    const auto known = opcode_named(opcode);
    if (!known) {
      return cursor_.error_at(opcode_place, fmt::format("unknown operator '{}'", opcode),
                              "docs/hlo.md lists the operators");
    }
    instruction.opcode = *known;
    const bool tiled = stated && stated->tiled;
    if (stated) {
      instruction.shape = std::move(stated->shape);
    } else if (!has_inferred_shape(*known)) {
      return cursor_.error_at(opcode_place, fmt::format("{} needs its shape before it", opcode));
    }
    STRATA_CHECK(cursor_.expect("("));
    std::vector<Shape> operand_shapes;
    if (*known == Opcode::Parameter) {
      STRATA_TRY(const int64_t number, cursor_.integer("the parameter's number"));
      instruction.attributes = ParameterAttributes{number};
      STRATA_CHECK(cursor_.expect(")"));
    } else if (*known == Opcode::Constant) {
      STRATA_TRY(ConstantAttributes constant, parse_constant(cursor_, instruction.shape));
      instruction.attributes = std::move(constant);
      STRATA_CHECK(cursor_.expect(")"));
    } else {
      STRATA_TRY(operand_shapes, parse_operands(parsed, instruction, depth));
    }
    STRATA_CHECK(check_tiles(instruction, tiled));
    // A comma after a nested instruction goes on with the next operand.
    RawAttributeList list;
    if (depth == 0) {
      STRATA_TRY(list, RawAttributeList::parse(cursor_));
    }
    STRATA_TRY(ParsedAttributes attributes, parse_attributes(cursor_, list, instruction, operand_shapes));
    if (*known != Opcode::Parameter && *known != Opcode::Constant) {
      instruction.attributes = std::move(attributes.attributes);
    }
    split_starts(parsed, instruction);
    if (!stated) STRATA_CHECK(infer_missing_shape(parsed.computation, instruction, attributes.called));
    return append(parsed, std::move(instruction), tiled, std::move(attributes.called));
  }

  InstructionId append(ParsedComputation& parsed, Instruction instruction, bool tiled = false,
                       std::vector<std::pair<std::string, size_t>> called = {}) {
    tiled_.push_back(tiled);
    parsed.called.push_back(std::move(called));
    parsed.computation.instructions.push_back(std::move(instruction));
    return static_cast<InstructionId>(parsed.computation.instructions.size()) - 1;
  }

  /// Older texts give the start of a dynamic slice as one array: its elements become operands of their own.
  void split_starts(ParsedComputation& parsed, Instruction& instruction) {
    if (instruction.opcode != Opcode::DynamicSlice && instruction.opcode != Opcode::DynamicUpdateSlice) return;
    const size_t arrays = instruction.opcode == Opcode::DynamicSlice ? 1 : 2;
    if (instruction.operands.size() != arrays + 1) return;
    const InstructionId starts = instruction.operands.back();
    const Shape shape = parsed.computation[starts].shape;
    if (!shape.is_array() || shape.rank() != 1 || shape.dims[0] > kMostStarts) return;
    instruction.operands.pop_back();
    for (int64_t d = 0; d < shape.dims[0]; ++d) {
      const InstructionId one = append(parsed, {"",
                                                Opcode::Slice,
                                                array_shape(shape.type, {1}),
                                                {starts},
                                                {},
                                                SliceAttributes{{d}, {d + 1}, {1}},
                                                instruction.location});
      instruction.operands.push_back(append(
          parsed, {"", Opcode::Reshape, array_shape(shape.type, {}), {one}, {}, NoAttributes{}, instruction.location}));
    }
  }

  /// Names for instructions that stand where they are used: those of their operators, as XLA has it.
  static void name_anonymous(Computation& computation) {
    std::unordered_set<std::string> taken;
    std::unordered_map<std::string, int> next;
    for (const Instruction& instruction : computation.instructions) taken.insert(instruction.name);
    for (Instruction& instruction : computation.instructions) {
      if (!instruction.name.empty()) continue;
      const std::string base = fmt::format("{}.anon", name(instruction.opcode));
      instruction.name = base;
      for (int& number = next[base]; !taken.insert(instruction.name).second;)
        instruction.name = fmt::format("{}.{}", base, ++number);
    }
  }

  /// Whether the operands, the attributes and the called computations say all of a result's shape.
  static bool has_inferred_shape(Opcode opcode) {
    switch (opcode) {
      case Opcode::Bitcast:
      case Opcode::BitcastConvert:
      case Opcode::Broadcast:
      case Opcode::Constant:
      case Opcode::Convert:
      case Opcode::Iota:
      case Opcode::Parameter:
      case Opcode::Reshape:
      case Opcode::RngBitGenerator:
        return false;
      default:
        return family(opcode) != Family::Unsupported;
    }
  }

  /// Parameters and root, all that the shape rules look at: computations are called more often than once.
  static Computation interface_of(const Computation& computation) {
    Computation result;
    result.name = computation.name;
    const auto add = [&](InstructionId id) {
      Instruction outside;
      outside.name = computation[id].name;
      outside.shape = computation[id].shape;
      result.instructions.push_back(std::move(outside));
      return static_cast<InstructionId>(result.instructions.size()) - 1;
    };
    for (const InstructionId id : computation.parameters) result.parameters.push_back(add(id));
    result.root = add(computation.root);
    return result;
  }

  /// For texts written by hand that leave shapes out.
  Result<void> infer_missing_shape(const Computation& computation, Instruction& instruction,
                                   const std::vector<std::pair<std::string, size_t>>& called) {
    Module callees;
    Instruction linked = instruction;
    for (const auto& [callee, place] : called) {
      const auto found = computations_.find(callee);
      if (found == computations_.end() || found->second >= parsed_.size()) {
        return cursor_.error_at(place, fmt::format("'{}' is not defined before this call", callee),
                                "state the shape of the call, or put the computation before it");
      }
      linked.called.push_back(static_cast<ComputationId>(callees.computations.size()));
      callees.computations.push_back(interface_of(parsed_[found->second].computation));
    }
    const bool contracts = family(instruction.opcode) == Family::Contraction && !instruction.operands.empty();
    if (contracts) linked.shape.type = computation[instruction.operands[0]].shape.type;
    auto shape = infer_shape(callees, computation, linked);
    if (!shape) return tl::unexpected(of_instruction(shape.error(), instruction));
    instruction.shape = std::move(*shape);
    return {};
  }

  Result<std::vector<Shape>> parse_operands(ParsedComputation& parsed, Instruction& instruction, int depth) {
    const Computation& computation = parsed.computation;
    std::vector<Shape> shapes;
    while (!cursor_.accept(")")) {
      if (!shapes.empty()) STRATA_CHECK(cursor_.expect(","));
      std::optional<ParsedShape> stated;
      const size_t shape_place = cursor_.offset();
      if (shape_ahead(cursor_)) {
        STRATA_TRY(stated, parse_shape(cursor_));
      }
      const size_t place = cursor_.offset();
      STRATA_TRY(const std::string name, cursor_.name("an operand"));
      if (cursor_.ahead("(")) {
        Instruction nested;
        nested.location = cursor_.location(place);
        STRATA_TRY(const InstructionId id,
                   parse_call(parsed, std::move(nested), std::move(stated), name, place, depth + 1));
        instruction.operands.push_back(id);
        shapes.push_back(computation[id].shape);
        continue;
      }
      const auto found = instructions_.find(name);
      if (found == instructions_.end()) {
        return cursor_.error_at(place, fmt::format("'{}' is not defined here", name),
                                "instructions stand before those that use them");
      }
      const Shape& shape = computation[found->second].shape;
      if (stated && !same_shape(stated->shape, shape)) {
        return cursor_.error_at(shape_place, fmt::format("'{}' is {}, not {}", name, to_string_without_layout(shape),
                                                         to_string_without_layout(stated->shape)));
      }
      instruction.operands.push_back(found->second);
      shapes.push_back(shape);
    }
    return shapes;
  }

  /// A bitcast keeps the memory, whose order tiles change in a way that shapes do not tell.
  Result<void> check_tiles(const Instruction& instruction, bool tiled) {
    if (instruction.opcode != Opcode::Bitcast) return {};
    for (InstructionId operand : instruction.operands) tiled |= tiled_[static_cast<size_t>(operand)];
    if (!tiled) return {};
    Error error{ErrorCode::Unsupported, "a bitcast of a tiled layout is not supported",
                "print the module before layouts are assigned", instruction.location};
    return tl::unexpected(std::move(error));
  }

  Result<void> number_parameters(ParsedComputation& parsed) {
    Computation& computation = parsed.computation;
    std::vector<std::optional<InstructionId>> by_number(computation.instructions.size());
    size_t count = 0;
    for (size_t i = 0; i < computation.instructions.size(); ++i) {
      const Instruction& instruction = computation.instructions[i];
      if (instruction.opcode != Opcode::Parameter) continue;
      const int64_t number = instruction.as<ParameterAttributes>().number;
      const bool inside = number >= 0 && number < static_cast<int64_t>(by_number.size());
      if (!inside || by_number[static_cast<size_t>(number)]) {
        return tl::unexpected(Error{ErrorCode::InvalidInput,
                                    fmt::format("parameter number {} is {}", number, inside ? "taken" : "out of range"),
                                    "parameters are numbered 0, 1, 2, …", instruction.location});
      }
      by_number[static_cast<size_t>(number)] = static_cast<InstructionId>(i);
      ++count;
    }
    for (size_t number = 0; number < count; ++number) {
      if (!by_number[number]) {
        return cursor_.error_at(parsed.offset, fmt::format("'{}' has {} parameters and none has number {}",
                                                           computation.name, count, number));
      }
      computation.parameters.push_back(*by_number[number]);
    }
    return {};
  }

  Cursor cursor_;
  std::string name_;
  InputOutputAliases aliases_;
  size_t aliases_place_ = 0;
  std::vector<ParsedComputation> parsed_;
  std::unordered_map<std::string, size_t> computations_;
  std::unordered_map<std::string, InstructionId> instructions_;  ///< of the computation at hand
  std::vector<bool> tiled_;
};

}  // namespace

Result<ModuleText> parse_module_text(std::string_view text, const std::string& file) {
  const SourceText source(text, file);
  return Parser(Cursor(source)).parse();
}

Result<ModulePtr> parse_module(std::string_view text, const std::string& file) {
  STRATA_TRY(ModuleText parsed, parse_module_text(text, file));
  return parsed.module;
}

Result<ModulePtr> load_module(const std::string& path) {
  STRATA_TRY(const std::string text, read_file(path));
  return parse_module(text, shown_path(path));
}

Result<Literal> parse_value(std::string_view text, const std::string& file) {
  const SourceText source(text, file);
  Cursor cursor(source);
  STRATA_TRY(const ParsedShape shape, parse_shape(cursor));
  STRATA_TRY(Literal value, parse_literal(cursor, shape.shape));
  if (!cursor.done()) return cursor.expected("the end of the value");
  return value;
}

}  // namespace strata::hlo

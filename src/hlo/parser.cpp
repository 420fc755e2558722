#include <algorithm>
#include <optional>
#include <unordered_map>

#include "hlo/parse_parts.h"
#include "hlo/text.h"
#include "hlo/verify.h"
#include "support/read_file.h"

namespace strata::hlo {
namespace {

/// A computation as it stands in the text, with its calls by name.
struct ParsedComputation {
  Computation computation;
  std::vector<std::vector<std::pair<std::string, size_t>>> called;  ///< of each instruction
  size_t offset = 0;                                                ///< of its name
};

class Parser {
 public:
  explicit Parser(Cursor cursor) : cursor_(cursor) {}

  Result<ModulePtr> parse() {
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
    return link(entry.value_or(parsed_.size() - 1), !entry);
  }

 private:
  Result<void> parse_header() {
    name_ = "module";
    if (!cursor_.accept("HloModule")) return {};
    STRATA_TRY(name_, cursor_.name("the module's name"));
    // None of its attributes changes what the entry computation returns.
    STRATA_CHECK(RawAttributeList::parse(cursor_));
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
      if (cursor_.accept("ROOT")) {
        if (root) return cursor_.error_at(place, fmt::format("'{}' has two ROOTs", parsed.computation.name));
        root = static_cast<InstructionId>(parsed.computation.instructions.size());
      }
      STRATA_CHECK(parse_instruction(parsed));
    }
    Computation& computation = parsed.computation;
    if (computation.instructions.empty()) {
      return cursor_.error_at(parsed.offset, fmt::format("the computation '{}' is empty", computation.name));
    }
    computation.root = root.value_or(static_cast<InstructionId>(computation.instructions.size() - 1));
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

  Result<void> parse_instruction(ParsedComputation& parsed) {
    Instruction instruction;
    const size_t place = cursor_.offset();
    instruction.location = cursor_.location(place);
    STRATA_TRY(instruction.name, cursor_.name("an instruction"));
    STRATA_CHECK(cursor_.expect("="));
    ParsedShape shape;
    const bool states_shape = shape_ahead(cursor_);
    if (states_shape) {
      STRATA_TRY(shape, parse_shape(cursor_));
      instruction.shape = std::move(shape.shape);
    }
    const size_t opcode_place = cursor_.offset();
    STRATA_TRY(const std::string_view opcode, cursor_.word("an operator"));
    const auto known = opcode_named(opcode);
    if (!known) {
      return cursor_.error_at(opcode_place, fmt::format("unknown operator '{}'", opcode),
                              "docs/hlo.md lists the operators");
    }
    instruction.opcode = *known;
    if (!states_shape && !has_inferred_shape(*known)) {
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
      STRATA_TRY(operand_shapes, parse_operands(parsed.computation, instruction));
    }
    STRATA_CHECK(check_tiles(instruction, shape.tiled));
    STRATA_TRY(RawAttributeList list, RawAttributeList::parse(cursor_));
    STRATA_TRY(ParsedAttributes attributes, parse_attributes(cursor_, list, instruction, operand_shapes));
    if (*known != Opcode::Parameter && *known != Opcode::Constant) {
      instruction.attributes = std::move(attributes.attributes);
    }
    if (!states_shape) STRATA_CHECK(infer_missing_shape(parsed.computation, instruction, attributes.called));
    const auto id = static_cast<InstructionId>(parsed.computation.instructions.size());
    if (!instructions_.emplace(instruction.name, id).second) {
      return cursor_.error_at(place, fmt::format("'{}' is defined twice", instruction.name));
    }
    tiled_.push_back(shape.tiled);
    parsed.called.push_back(std::move(attributes.called));
    parsed.computation.instructions.push_back(std::move(instruction));
    return {};
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
        return false;
      default:
        return family(opcode) != Family::Unsupported;
    }
  }

  /// For texts written by hand that leave shapes out.
  Result<void> infer_missing_shape(const Computation& computation, Instruction& instruction,
                                   const std::vector<std::pair<std::string, size_t>>& called) {
    // The rules look at the called computations' parameters and roots.
    Module callees;
    Instruction linked = instruction;
    for (const auto& [callee, place] : called) {
      const auto found = computations_.find(callee);
      if (found == computations_.end() || found->second >= parsed_.size()) {
        return cursor_.error_at(place, fmt::format("'{}' is not defined before this call", callee),
                                "state the shape of the call, or put the computation before it");
      }
      linked.called.push_back(static_cast<ComputationId>(callees.computations.size()));
      callees.computations.push_back(parsed_[found->second].computation);
    }
    const bool contracts = family(instruction.opcode) == Family::Contraction && !instruction.operands.empty();
    if (contracts) linked.shape.type = computation[instruction.operands[0]].shape.type;
    auto shape = infer_shape(callees, computation, linked);
    if (!shape) {
      return tl::unexpected(shape.error()
                                .within(fmt::format("{} = {}", instruction.name, name(instruction.opcode)))
                                .at(instruction.location));
    }
    instruction.shape = std::move(*shape);
    return {};
  }

  Result<std::vector<Shape>> parse_operands(const Computation& computation, Instruction& instruction) {
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

  /// Puts called computations before their callers, and ids in the place of names.
  Result<ModulePtr> link(size_t entry, bool fusion) {
    enum class State : uint8_t { New, Open, Done };
    std::vector<State> states(parsed_.size());
    std::vector<ComputationId> ids(parsed_.size());
    auto module = std::make_shared<Module>();
    module->name = name_;
    struct Frame {
      size_t computation, instruction = 0, call = 0;
    };
    for (size_t start = 0; start < parsed_.size(); ++start) {
      if (states[start] != State::New) continue;
      std::vector<Frame> stack{{start}};
      states[start] = State::Open;
      while (!stack.empty()) {
        Frame& frame = stack.back();
        ParsedComputation& parsed = parsed_[frame.computation];
        if (frame.instruction == parsed.called.size()) {
          states[frame.computation] = State::Done;
          ids[frame.computation] = static_cast<ComputationId>(module->computations.size());
          module->computations.push_back(std::move(parsed.computation));
          stack.pop_back();
          continue;
        }
        const auto& calls = parsed.called[frame.instruction];
        if (frame.call == calls.size()) {
          ++frame.instruction;
          frame.call = 0;
          continue;
        }
        const auto& [callee_name, place] = calls[frame.call];
        const auto found = computations_.find(callee_name);
        if (found == computations_.end()) {
          return cursor_.error_at(place, fmt::format("there is no computation '{}'", callee_name));
        }
        const size_t callee = found->second;
        if (states[callee] == State::Open) {
          return cursor_.error_at(place, fmt::format("'{}' calls itself", callee_name));
        }
        if (states[callee] == State::Done) {
          parsed.computation.instructions[frame.instruction].called.push_back(ids[callee]);
          ++frame.call;
        } else {
          states[callee] = State::Open;
          stack.push_back({callee});
        }
      }
    }
    STRATA_CHECK(check_depth(*module));
    module->entry = ids[entry];
    module->fusion = fusion;
    STRATA_CHECK(verify(*module));
    return module;
  }

  /// Calls in calls are verified and run recursively.
  static Result<void> check_depth(const Module& module) {
    constexpr int kMaxCalls = 200;
    std::vector<int> depths;
    for (const Computation& computation : module.computations) {
      int depth = 0;
      for (const Instruction& instruction : computation.instructions) {
        for (ComputationId callee : instruction.called) {
          depth = std::max(depth, depths[static_cast<size_t>(callee)] + 1);
        }
        if (depth > kMaxCalls) {
          return tl::unexpected(Error{ErrorCode::Unsupported,
                                      fmt::format("calls are nested more than {} deep", kMaxCalls),
                                      {},
                                      instruction.location});
        }
      }
      depths.push_back(depth);
    }
    return {};
  }

  Cursor cursor_;
  std::string name_;
  std::vector<ParsedComputation> parsed_;
  std::unordered_map<std::string, size_t> computations_;
  std::unordered_map<std::string, InstructionId> instructions_;  ///< of the computation at hand
  std::vector<bool> tiled_;
};

}  // namespace

Result<ModulePtr> parse_module(std::string_view text, const std::string& file) {
  const SourceText source(text, file);
  return Parser(Cursor(source)).parse();
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

bool looks_like_module(std::string_view text) {
  const SourceText source(text, "");
  Cursor cursor(source);
  if (cursor.ahead("HloModule") || cursor.ahead("ENTRY") || cursor.ahead("%")) return true;
  // "name {" or "name (parameters) -> …": the first computation of a module without a header.
  return cursor.word("a name").has_value() && (cursor.ahead("{") || cursor.ahead("("));
}

}  // namespace strata::hlo

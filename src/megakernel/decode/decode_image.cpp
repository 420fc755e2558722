#include "megakernel/decode/decode_image.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "megakernel/decode/attention_body.h"
#include "megakernel/decode/caller_step.h"
#include "megakernel/decode/decode_sizes.h"
#include "megakernel/tasks/device/strata_sequence.h"
#include "megakernel/tgraph/decompose.h"

namespace strata::megakernel {
namespace {

constexpr int64_t kWordBytes = 16;    // a tagged word, with
constexpr int64_t kDataBytes = 8;     // of data
constexpr int64_t kElementBytes = 2;  // bfloat16
constexpr int64_t kPlace = 1024;      // what tiles in scratch memory are aligned to
constexpr int64_t kTeam = 256;        // threads that compute
constexpr int64_t kDrawScratchBytes = 8192;
constexpr int64_t kLogitRanks = int64_t{1} << 16;  // kRanks of tasks/device/strata_draw.h
constexpr const char* kTeamType = "BlockTeam<256, 0, 1>";

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

class DecodeImageBuilder {
 public:
  DecodeImageBuilder(const ModelConfig& config, const DecoderShape& shape, const Machine& machine, const Target& target,
                     const PromptRows& rows)
      : own_(config),
        c_(task_sizes(config, machine.workers, machine.rates)),
        shape_(shape),
        machine_(machine),
        target_(target),
        rows_(rows),
        tasks_{.workers = machine.workers, .splits = rows.splits, .keys = rows.keys, .rates = machine.rates} {}

  Result<DecodeImage> run() {
    STRATA_CHECK(check());
    made_.operators.name = "decode";
    made_.sizes = c_;
    made_.floor_bytes = matrix_bytes();
    tokens_ = buffer({"tokens", DecodeBuffer::Kind::Tokens, shape_.batch * 4, ""});
    cosines_ = buffer({"cosines", DecodeBuffer::Kind::Cosines, shape_.capacity * c_.head_dim * kElementBytes, ""});
    sines_ = buffer({"sines", DecodeBuffer::Kind::Sines, shape_.capacity * c_.head_dim * kElementBytes, ""});
    embed();
    for (layer_ = 0; layer_ < c_.num_hidden_layers; ++layer_) {
      STRATA_CHECK(generated(DecoderPart::NormQkv));
      STRATA_CHECK(attention());
      STRATA_CHECK(generated(DecoderPart::OutputProjection));
      STRATA_CHECK(generated(DecoderPart::GatedUp));
      STRATA_CHECK(generated(DecoderPart::Down));
      names_["X"] = names_.at("Y");
    }
    layer_ = -1;
    if (is_prompt()) {
      end_of_rows();
      return std::move(made_);
    }
    STRATA_CHECK(generated(DecoderPart::Head));
    sample();
    return std::move(made_);
  }

 private:
  bool is_prompt() const { return rows_.each > 1; }

  /// Of the model's own matrices that a step multiplies by: all but the embeddings, which are the head too where it is
  /// tied.
  int64_t matrix_bytes() const {
    int64_t elements = is_prompt() ? 0 : own_.vocab_size * own_.hidden_size;
    for (const WeightSpec& spec : weight_specs(own_))
      if (spec.shape.size() == 2 && spec.name.starts_with("model.layers.")) elements += spec.elements();
    return elements * kElementBytes;
  }

  Result<void> check() const {
    if (rows_.each < 1 || kLeastKeys % rows_.each != 0 || shape_.batch % rows_.each != 0)
      return with_remedy(invalid("{} rows of a batch, {} of each sequence", shape_.batch, rows_.each),
                         fmt::format("give a divisor of {} and of the batch", kLeastKeys));
    if (shape_.dtype != DType::BF16)
      return with_remedy(unsupported("tasks of a decode step compute in bf16"), "give a model in bfloat16");
    return check_task_sizes(c_, shape_.batch);
  }

  // ---- Tensors and memory

  int buffer(DecodeBuffer made) {
    made_.buffers.push_back(std::move(made));
    return static_cast<int>(made_.buffers.size()) - 1;
  }
  int weight_buffer(const std::string& name, int64_t elements) {
    const auto [at, added] = weights_.try_emplace(name, 0);
    if (added) at->second = buffer({name, DecodeBuffer::Kind::Weight, elements * kElementBytes, name});
    return at->second;
  }
  std::string in_layer(const std::string& name) const { return layer_ < 0 ? name : fmt::format("{}.{}", name, layer_); }
  std::string weight_name(const std::string& name) const {
    return layer_ < 0 || name.starts_with("model.") ? name : layer_weight(layer_, name);
  }

  int tensor(const std::string& name, std::vector<int64_t> shape, TensorClass kind, int64_t element_bytes) {
    StepTensor& made = made_.operators.tensors.emplace_back();
    made.name = name;
    made.shape = std::move(shape);
    made.kind = kind;
    made.element_bytes = element_bytes;
    return static_cast<int>(made_.operators.tensors.size()) - 1;
  }
  /// Whether an activation lies in memory as it is, without tags. So do those that a task reads all of, where that is
  /// much: tags double the bytes, and each word goes through a register on its way, so few are on their way at once.
  bool is_untagged(const std::string& name, const std::vector<int64_t>& shape) const {
    constexpr std::array<std::string_view, 5> kMultiplied{"X", "Y", "Hidden", "Mixed", "Gated"};
    return std::find(kMultiplied.begin(), kMultiplied.end(), name) != kMultiplied.end() &&
           product(shape) * kElementBytes > machine_.tagged_bytes;
  }
  /// An activation and its memory, under the name that it has in parts; `per_word` elements in each tagged word.
  void activation(const std::string& name, const std::vector<int64_t>& shape, int64_t element_bytes, int64_t per_word) {
    const std::string own = in_layer(name);
    names_[name] = tensor(own, shape, TensorClass::Activation, element_bytes);
    if (is_untagged(name, shape)) {
      made_.operators.tensors.back().untagged = true;
      words_[names_[name]] = buffer({own, DecodeBuffer::Kind::Memory, product(shape) * element_bytes, ""});
      return;
    }
    const int64_t rows = product(shape) / shape.back();
    words_[names_[name]] =
        buffer({own, DecodeBuffer::Kind::Words, rows * ceil_div(shape.back(), per_word) * kWordBytes, ""});
  }
  int words_of(const std::string& name) const { return words_.at(names_.at(name)); }
  /// An activation of 16 bits, argument `number` of an operator, where tasks read it and where they write it.
  std::string read_text(const std::string& name, size_t number) const {
    const bool untagged = made_.operators.tensors[static_cast<size_t>(names_.at(name))].untagged;
    return fmt::format(fmt::runtime(untagged ? "argument<const bf16>(d, {})" : "words<bf16>(d, side, {})"), number);
  }
  std::string written_text(const std::string& name, size_t number) const {
    const bool untagged = made_.operators.tensors[static_cast<size_t>(names_.at(name))].untagged;
    return fmt::format(fmt::runtime(untagged ? "memory_out<bf16>(d, {})" : "words_out<bf16>(d, side, {})"), number);
  }

  const std::vector<int64_t>& shape_of(int t) const { return made_.operators.tensors[static_cast<size_t>(t)].shape; }

  // ---- Operators written by hand

  /// What tasks touch of a tensor, by dimension: as much as coordinate `by` of the grid divides it into, or all (−1).
  Access tile(int t, bool writes, const std::vector<int64_t>& grid, const std::vector<int>& by) const {
    Access access;
    access.tensor = t;
    access.region.writes = writes;
    access.region.coordinates = static_cast<int>(grid.size());
    access.region.map.dims = indexing::positions(grid);
    for (size_t d = 0; d < by.size(); ++d) {
      const int64_t size = shape_of(t)[d];
      const int64_t parts = by[d] < 0 ? 1 : grid[static_cast<size_t>(by[d])];
      const auto range = indexing::Expr::range(static_cast<int>(d));
      const int64_t each = ceil_div(size, parts);
      access.region.map.ranges.push_back(indexing::below(each));
      access.region.map.results.push_back(by[d] < 0 ? range : indexing::Expr::dim(by[d]) * each + range);
      if (each * parts != size)
        access.region.map.constraints.push_back({access.region.map.results.back(), indexing::below(size)});
    }
    return access;
  }
  /// What a task of attention reads of keys or values [rows, columns]: of its head, all rows of its sequence.
  Access of_sequence(int t, const std::vector<int64_t>& grid) const {
    Access access = tile(t, false, grid, {2, 1});
    if (!is_prompt()) return access;
    access.region.map.ranges[0] = indexing::below(rows_.each);
    access.region.map.results[0] =
        floor_div(indexing::Expr::dim(2), rows_.each) * rows_.each + indexing::Expr::range(0);
    return access;
  }
  Operator& hand_written(const std::string& function, std::vector<int64_t> grid, std::vector<int> arguments) {
    Operator& op = made_.operators.operators.emplace_back();
    op.name = in_layer(function);
    op.function = function;
    op.grid = std::move(grid);
    made_.arguments.push_back(std::move(arguments));
    return op;
  }

  void embed() {
    const int table = tensor("embeddings", {own_.vocab_size, c_.hidden_size}, TensorClass::History, kElementBytes);
    layer_ = -1;
    activation("X", {shape_.batch, c_.hidden_size}, kElementBytes, kDataBytes / kElementBytes);
    const std::string name = "model.embed_tokens.weight";
    Operator& op = hand_written("embed", {shape_.batch},
                                {tokens_, weight_buffer(name, own_.vocab_size * c_.hidden_size), words_of("X")});
    op.reads = {tile(table, false, op.grid, {-1, -1})};
    op.writes = {tile(names_.at("X"), true, op.grid, {0, -1})};
    made_.bodies["embed"] = {
        "embed", "",
        fmt::format("      const int b = static_cast<int>(d.record.coordinates[0]);\n"
                    "      embed<{}, {}>(argument<const bf16>(d, 1), argument<const int>(d, 0)[b],\n"
                    "          {} + b * {});\n",
                    kTeamType, c_.hidden_size, written_text("X", 2), c_.hidden_size)};
  }

  /// The next tokens: the largest logit of each part of a row, what follows from these for each sequence, and the end
  /// of the step. One sequence's token ends the step itself.
  void sample() {
    // A part is what some of the head's tasks make, so that each of them has one reader.
    const Operator& head = made_.operators.operators.back();
    const int64_t tasks = product(head.grid), columns = c_.vocab_size / tasks;
    const int64_t each = std::max<int64_t>(tasks / machine_.workers, 1), parts = ceil_div(tasks, each);
    const int sequences = buffer({"sequences", DecodeBuffer::Kind::Sequences,
                                  shape_.batch * static_cast<int64_t>(sizeof(strata_device::SequenceOptions)), ""});
    const int counts = buffer(
        {"counts", DecodeBuffer::Kind::Counts, shape_.batch * kLogitRanks * static_cast<int64_t>(sizeof(int)), ""});
    activation("Best", {shape_.batch, parts, 2}, 4, 2);
    // Rows and parts are those of all columns that the head computes; not all of these are logits.
    const std::string logits_text = own_.vocab_size == c_.vocab_size ? "" : fmt::format(", {}", own_.vocab_size);
    // A part adds to any of the counts. To the plan it writes a share of them, which has the same dependences.
    const int shares =
        tensor("counts", {shape_.batch, parts, ceil_div(kLogitRanks, parts)}, TensorClass::Activation, 4);
    Operator& first =
        hand_written("best_of_part", {parts, shape_.batch}, {words_of("Logits"), words_of("Best"), sequences, counts});
    Access logits = tile(names_.at("Logits"), false, first.grid, {1, -1});
    indexing::IndexingMap& map = logits.region.map;
    map.ranges[1] = indexing::below(each * columns);
    map.results[1] = indexing::Expr::dim(0) * (each * columns) + indexing::Expr::range(1);
    if (parts * each != tasks) map.constraints = {{map.results[1], indexing::below(c_.vocab_size)}};
    first.reads = {logits};
    first.writes = {tile(names_.at("Best"), true, first.grid, {1, 0, -1}), tile(shares, true, first.grid, {1, 0, -1})};
    made_.bodies["best_of_part"] = {
        "the largest logit of a part", "",
        fmt::format("      const int part = static_cast<int>(d.record.coordinates[0]);\n"
                    "      const int b = static_cast<int>(d.record.coordinates[1]);\n"
                    "      const bool counts = has_limits(argument<const SequenceOptions>(d, 2)[b]);\n"
                    "      unsigned* const of_rank = argument<unsigned>(d, 3) + b * kRanks;\n"
                    "      best_of_part<{0}{5}>(words<bf16>(d, side, 0) + static_cast<int64>(b) * {1}, b,\n"
                    "          part * {2}, part + 1 < {3} ? (part + 1) * {2} : {4}, words_out<float>(d, side, 1),\n"
                    "          2 * (b * {3} + part), side.scratch(), [&](bf16 logit) {{\n"
                    "            if (counts) add_relaxed(of_rank[rank_of(logit)], 1);\n          }});\n",
                    kTeamType, c_.vocab_size, each * columns / 4, parts, c_.vocab_size / 4, logits_text)};

    const bool alone = shape_.batch == 1;
    const int stop = buffer({"stop", DecodeBuffer::Kind::Stop, sizeof(strata_device::StopTokens), ""});
    const int next = tensor("next", {shape_.batch}, TensorClass::Activation, 4);
    if (!alone) activation("Token", {shape_.batch, 1}, 4, 1);
    Operator& each_row =
        hand_written("sample", {shape_.batch}, {words_of("Best"), sequences, words_of("Logits"), counts});
    // It also reads the row's logits and leaves zeros in the counts. The order through Best and the counts has both: to
    // the plan they would be hand-offs of their own, of a whole row, and so by counters.
    each_row.reads = {tile(names_.at("Best"), false, each_row.grid, {0, -1, -1}),
                      tile(shares, false, each_row.grid, {0, -1, -1})};
    each_row.writes = {alone ? tile(next, true, each_row.grid, {-1})
                             : tile(names_.at("Token"), true, each_row.grid, {0, -1})};
    each_row.cost.scratch_bytes = kDrawScratchBytes;
    std::vector<int>& arguments = made_.arguments.back();
    const auto end = [&](std::vector<int>& of, const std::string& token) {
      const size_t at = of.size();
      of.insert(of.end(), {sequences, stop, tokens_});
      return fmt::format(
          "      if ({0}::warp() == 0) {{\n"
          "        end_of_step<{1}>(side, {2}, argument<int>(d, {5}),\n"
          "            argument<SequenceOptions>(d, {3}), *argument<const StopTokens>(d, {4}));\n      }}\n",
          kTeamType, shape_.batch, token, at, at + 1, at + 2);
    };
    std::string text = fmt::format(
        "      const int b = static_cast<int>(d.record.coordinates[0]);\n"
        "      const SequenceOptions& options = argument<const SequenceOptions>(d, 1)[b];\n"
        "      const Candidate best = best_of<{1}>(words<float>(d, side, 0), b * {1});\n"
        "      int token = best.index;\n"
        "      if (options.inverse_temperature != 0) {{\n"
        "        static_assert(sizeof(DrawScratch<{0}>) <= {2}, \"scratch memory of a draw\");\n"
        "        token = drawn_token<{0}{5}>(words<bf16>(d, side, 2) + static_cast<int64>(b) * {3}, {4}, best, "
        "options,\n"
        "            static_cast<unsigned>(side.position(b) + 1), static_cast<unsigned>(b),\n"
        "            argument<unsigned>(d, 3) + b * kRanks, *reinterpret_cast<DrawScratch<{0}>*>(side.scratch()));\n"
        "      }}\n",
        kTeamType, parts, kDrawScratchBytes, c_.vocab_size, c_.vocab_size / 4, logits_text);
    if (alone) {
      text += end(arguments, "token");
    } else {
      text += fmt::format("      if ({0}::rank() == 0) words_out<float, 1>(d, side, {1}).put(b, token, 0);\n",
                          kTeamType, arguments.size());
      arguments.push_back(words_of("Token"));
    }
    made_.bodies["sample"] = {"a sequence's next token", "", text};
    if (alone) return;

    Operator& last = hand_written("end", {1}, {words_of("Token")});
    last.reads = {tile(names_.at("Token"), false, last.grid, {-1, -1})};
    last.writes = {tile(next, true, last.grid, {-1})};
    std::vector<int>& of_last = made_.arguments.back();
    made_.bodies["end"] = {"the end of the step", "",
                           end(of_last, fmt::format("token_of_lane<{}>(words<float, 1>(d, side, 0))", shape_.batch))};
  }

  /// The end of a step that makes no token: when the last layer's results are there.
  void end_of_rows() {
    const int next = tensor("next", {1}, TensorClass::Activation, 4);
    Operator& last = hand_written("end_of_rows", {1}, {words_of("X")});
    last.reads = {tile(names_.at("X"), false, last.grid, {-1, -1})};
    last.writes = {tile(next, true, last.grid, {-1})};
    // Words must be looked for: a task that a counter does not hold back waits for nothing else.
    const int64_t words = shape_.batch * c_.hidden_size / (kDataBytes / kElementBytes);
    const bool untagged = made_.operators.tensors[static_cast<size_t>(names_.at("X"))].untagged;
    made_.bodies["end_of_rows"] = {
        "the end of a step of prompts", "",
        untagged ? ""
                 : fmt::format("      const auto x = words<bf16>(d, side, 0);\n"
                               "      gather_words(side, {}, static_cast<int>({}::rank()), {},\n"
                               "          [&](int n) -> auto& {{ return x.at(n * {}); }}, [](int, const "
                               "unsigned(&)[2]) {{}});\n",
                               words, kTeamType, kTeam, kDataBytes / kElementBytes)};
  }

  // ---- Generated operators

  /// The operator of a graph in the step's: its tensors are those of the layer.
  Result<Operator*> add_operator(const DecodeOperator& op) {
    STRATA_TRY(const OperatorGraph one, decompose(*op.graph, machine_));
    Operator made = one.operators.back();
    for (std::vector<Access>* accesses : {&made.reads, &made.writes}) {
      for (Access& access : *accesses) {
        const StepTensor& from = one.tensors[static_cast<size_t>(access.tensor)];
        const auto known = names_.find(from.name);
        access.tensor = known != names_.end()
                            ? known->second
                            : tensor(in_layer(from.name), from.shape, TensorClass::Constant, from.element_bytes);
      }
    }
    made.name = in_layer(op.name);
    made.function = op.name;
    made_.operators.operators.push_back(std::move(made));
    return &made_.operators.operators.back();
  }

  /// Those of a part, the same in all layers.
  Result<const DecodeOperators*> operators_of(DecoderPart part) {
    const auto [at, added] = operators_.try_emplace(part);
    if (added) {
      STRATA_TRY(at->second, decode_operators(c_, shape_, part, tasks_));
    }
    return &at->second;
  }

  /// Code of an operator, the same in all layers. `beside`: bytes of scratch memory that it leaves.
  Result<const TaskCode*> code_of(const DecodeOperator& op, int64_t beside = 0) {
    const auto [at, added] = made_.codes.try_emplace(op.name);
    if (added) {
      STRATA_TRY(at->second, fitting_task_code(*op.graph, op.operation(), op.schedule, op.name, target_,
                                               tasks_.scratch_bytes - beside));
      made_.functions += at->second.text + pack_kernel(at->second, op.operation());
    }
    return &at->second;
  }

  /// The input of the graph whose memory an operand is.
  static size_t input_of(const DecodeOperator& op, TensorId operand) {
    const auto& inputs = op.graph->inputs();
    const TensorId memory = memory_view(*op.graph, operand).memory;
    return static_cast<size_t>(std::find(inputs.begin(), inputs.end(), memory) - inputs.begin());
  }

  void declare_results(const DecodeOperator& op) {
    for (TensorId id : op.operation().results) {
      const TensorInfo& info = op.graph->tensor(id);
      const int64_t bytes = size_of(info.type.dtype);
      const bool alone = info.type.shape.back() == 1;  // neighbours may be other tasks'
      activation(info.name, info.type.shape, bytes, alone ? 1 : kDataBytes / bytes);
    }
  }
  std::string out_text(const DecodeOperator& op, TensorId id, size_t number) const {
    const TensorType& type = op.graph->type(id);
    if (type.dtype != DType::F32) return written_text(op.graph->tensor(id).name, number);
    return fmt::format("words_out<float{}>(d, side, {})", type.shape.back() == 1 ? ", 1" : "", number);
  }

  int packed_buffer(const DecodeOperator& op, const TaskCode& code, DecodeBuffer::Kind kind) {
    return buffer({in_layer(op.name) + ".packed", kind, code.packing.bytes, ""});
  }

  static void set_cost(Operator& op, const TaskCode& code) {
    op.cost.stages = code.iterations;
    op.cost.stage_bytes = code.stage_bytes;
    op.cost.scratch_bytes = code.scratch_bytes();
  }

  /// A part that is one product: activations from other tasks, gains as they are, matrices packed.
  Result<void> generated(DecoderPart part) {
    STRATA_TRY(const DecodeOperators* operators, operators_of(part));
    const DecodeOperator& op = operators->operators.front();
    STRATA_TRY(const TaskCode* code, code_of(op));
    declare_results(op);
    STRATA_TRY(Operator* const made, add_operator(op));
    set_cost(*made, *code);
    TaskCall call;
    std::vector<int> arguments;
    PackJob job{op.name + "_pack_kernel", op.operation().body->launch().grid, {}, 0};
    const auto add = [&](int of, const std::string& text) {
      call.tensors.push_back(text);
      arguments.push_back(of);
    };
    for (size_t n = 0; n < op.operation().operands.size(); ++n) {
      const TensorId operand = op.operation().operands[n];
      const size_t input = input_of(op, operand);
      const TensorInfo& info = op.graph->tensor(op.graph->inputs()[input]);
      const DecoderInput& role = op.inputs[input];
      const size_t number = arguments.size();
      job.weights.emplace_back();
      if ((op.schedule.packed >> n & 1) != 0) {
        job.weights.back() = {weight_name(role.weight), info.type.shape};
        call.tensors.push_back("static_cast<const bf16*>(nullptr)");
      } else if (role.role == InputRole::Weight) {
        add(weight_buffer(weight_name(role.weight), info.type.elements()),
            fmt::format("argument<const bf16>(d, {})", number));
      } else {
        add(words_of(info.name), read_text(info.name, number));
      }
    }
    for (TensorId id : op.operation().results) {
      add(words_of(op.graph->tensor(id).name), out_text(op, id, arguments.size()));
      job.weights.emplace_back();
    }
    job.buffer = packed_buffer(op, *code, DecodeBuffer::Kind::Packed);
    call.packed = fmt::format("argument<const unsigned char>(d, {})", arguments.size());
    call.iterations = fmt::format("{}", code->iterations);
    arguments.push_back(job.buffer);
    made_.arguments.push_back(std::move(arguments));
    made_.packing.push_back(std::move(job));
    if (!made_.bodies.contains(op.name)) {
      TaskCall load = call;
      for (std::string& text : load.tensors) text = "0";
      load.ring = "run";
      made_.bodies[op.name] = {op.name, load_call(*code, load), compute_call(*code, call)};
    }
    return {};
  }

  Result<void> attention() {
    STRATA_TRY(const DecodeOperators* operators, operators_of(DecoderPart::Attention));
    const DecodeOperator& op = operators->operators.front();
    STRATA_TRY(const TaskCode* code, code_of(op, ceil_div(op.stage_bytes(), kPlace) * kPlace));
    const bool splits = operators->operators.size() > 1;
    declare_results(op);
    const std::vector<int64_t>& grid = op.operation().body->launch().grid;
    const int cache = tensor(in_layer("cache"), {grid[0], grid[1], grid[2], code->iterations}, TensorClass::History,
                             code->stage_bytes);
    made_.splits = grid[0];
    made_.keys = shape_.capacity / (grid[0] * code->iterations);
    const bool norms = c_.family == ModelFamily::Qwen3;
    std::vector<int> arguments{words_of("Q"), words_of("K"), words_of("V"), cosines_, sines_};
    for (const char* name : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"})
      arguments.push_back(norms ? weight_buffer(weight_name(name), c_.head_dim) : cosines_);
    const int packed = packed_buffer(op, *code, DecodeBuffer::Kind::Cache);
    arguments.push_back(packed);
    std::vector<std::string> outs;
    for (TensorId id : op.operation().results) {
      outs.push_back(out_text(op, id, arguments.size()));
      arguments.push_back(words_of(op.graph->tensor(id).name));
    }
    Operator& made = hand_written("attention", grid, std::move(arguments));
    set_cost(made, *code);
    made.cost.constant_bytes = code->iterations * code->stage_bytes;
    made.cost.scratch_bytes = own_tile_place(*code) + code->stage_bytes;
    made.reads = {tile(names_.at("Q"), false, grid, {2, 1}), of_sequence(names_.at("K"), grid),
                  of_sequence(names_.at("V"), grid), tile(cache, false, grid, {0, 1, 2, -1})};
    for (TensorId id : op.operation().results) {
      const int t = names_.at(op.graph->tensor(id).name);
      made.writes.push_back(tile(t, true, grid, {2, 1, splits ? 0 : -1, -1}));
    }
    made.writes.push_back(tile(cache, true, grid, {0, 1, 2, -1}));
    if (!made_.bodies.contains("attention")) {
      const AttentionTask task{c_, op, *code, shape_.capacity, rows_.each, std::move(outs)};
      made_.bodies["attention"] = attention_body(task);
      if (!is_prompt()) {
        made_.functions += caller_kernels(task, c_.vocab_size);
        made_.caller_kernels = {kCallerRowsKernel, kCallerLogitsKernel};
      }
    }
    if (splits) STRATA_CHECK(combine(operators->operators.back(), grid));
    return {};
  }

  Result<void> combine(const DecodeOperator& op, const std::vector<int64_t>& grid) {
    declare_results(op);
    STRATA_CHECK(add_operator(op));
    Operator& made = made_.operators.operators.back();
    made.cost = {.seconds = 0.3e-6};
    made_.arguments.push_back({words_of("PartMax"), words_of("PartSum"), words_of("PartMixed"), words_of("Mixed")});
    const int64_t parts = op.operation().body->launch().grid[0];
    // A task has the same columns of all query heads of a key-value head.
    const int64_t columns = c_.head_dim / parts;
    made_.bodies["combine"] = {
        "combine", "",
        fmt::format(
            "      merge_splits<{}, {}, {}, {}, {}, bf16>(words<float, 1>(d, side, 0), words<float, 1>(d, side, 1),\n"
            "          words<float>(d, side, 2), {},\n"
            "          static_cast<int>(d.record.coordinates[1] + {} * d.record.coordinates[2]),\n"
            "          static_cast<int>(d.record.coordinates[0]));\n",
            kTeamType, grid[0], c_.group(), c_.head_dim, columns, written_text("Mixed", 3), c_.num_key_value_heads)};
    return {};
  }

  const ModelConfig& own_;
  const ModelConfig c_;  ///< with the sizes that tasks compute with
  const DecoderShape& shape_;
  const Machine& machine_;
  const Target& target_;
  const PromptRows rows_;
  const DecodeTasks tasks_;
  DecodeImage made_;
  int64_t layer_ = -1;
  int tokens_ = 0, cosines_ = 0, sines_ = 0;
  std::map<DecoderPart, DecodeOperators> operators_;
  std::map<std::string, int> names_;    ///< tensors of the layer, by their names in parts
  std::map<std::string, int> weights_;  ///< buffers
  std::map<int, int> words_;            ///< buffers of activations, by tensor
};

}  // namespace

Result<DecodeImage> decode_image(const ModelConfig& config, const DecoderShape& shape, const Machine& machine,
                                 const Target& target, const PromptRows& rows) {
  return DecodeImageBuilder(config, shape, machine, target, rows).run();
}

}  // namespace strata::megakernel

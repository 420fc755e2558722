// µGraphs: immutable values at three levels (Mirage, OSDI'25, section 2).
//
//   kernel graph   inputs and results live in device memory; an operator is predefined (a row of the
//                  operator table) or graph-defined: it carries a block graph
//   block graph    runs once for every point of a grid and, in each block, `loop` times. in_iter brings tiles of
//                  its inputs to shared memory, accum carries values out of the loop, out_saver writes results.
//                  An operator that depends on no accumulator and reaches one is in the loop body; the rest
//                  runs after it
//   thread graph   a chain of elementwise operators whose values stay in registers: thread t of the block
//                  computes elements t, t + threads, … of every tensor
//
// In text (docs/text-format.md), a kernel graph with one graph-defined operator:
//
//   graph scaled_product {
//     input A: f16[16, 64]
//     input B: f16[64, 256]
//     C = block(A, B, grid=[4], loop=2) {
//       a = in_iter(A, imap=[_], fmap=1) : f16[16, 32]
//       b = in_iter(B, imap=[1], fmap=0) : f16[32, 64]
//       p = matmul(a, b) : f16[16, 64]
//       s = accum(p, kind=sum) : f16[16, 64]
//       C = out_saver(s, omap=[1]) : f16[16, 256]
//     }
//     output C
//   }
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/op_def.h"

namespace strata {

class Graph;
using GraphPtr = std::shared_ptr<const Graph>;

/// Index of a tensor within its graph.
using TensorId = int;

/// Comments of a statement, kept by the text format: lines before it ("" is a blank line) and one after it.
struct Comments {
  std::vector<std::string> before;
  std::string behind;
};

struct TensorInfo {
  std::string name;
  TensorType type;
  /// Where it lives: device memory (Kernel), shared memory (Block) or registers (Thread).
  Level level = Level::Kernel;
  /// Index of the operation that makes it; −1 for a graph's input.
  int producer = -1;
};

struct Operation {
  OpKind kind = OpKind::GraphDefined;
  Attributes attributes;
  std::vector<TensorId> operands;
  std::vector<TensorId> results;  ///< one, or as many as `body` has outputs
  GraphPtr body;                  ///< set where kind is GraphDefined: a graph one level below
  SourceLocation location{};
  Comments comments{};

  /// "matmul", or "block" or "thread" for graph-defined operators.
  std::string_view name() const;
};

/// The launch shape of a block graph, or of a thread graph's threads.
struct LaunchShape {
  std::vector<int64_t> grid;  ///< up to 3 sizes, x first
  int64_t loop = 1;           ///< for-loop iterations; 1 means there is no loop
  int64_t threads = 0;        ///< threads a block; thread graphs only

  friend bool operator==(const LaunchShape&, const LaunchShape&) = default;
};

/// An immutable graph; make one with GraphBuilder. Operations are in an order in which they can be executed.
class Graph {
 public:
  Level level() const { return level_; }
  const std::string& name() const { return name_; }
  const LaunchShape& launch() const { return launch_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::vector<Operation>& operations() const { return operations_; }
  /// Kernel graphs: the program's inputs. Below: formal names of the operator's operands, which live one
  /// level above and are read by in_iter alone.
  const std::vector<TensorId>& inputs() const { return inputs_; }
  const std::vector<TensorId>& outputs() const { return outputs_; }
  /// The inputs that whoever runs the program gives: all but iotas.
  std::vector<TensorId> arguments() const;
  const Comments& comments() const { return comments_; }
  const std::vector<Comments>& input_comments() const { return input_comments_; }
  const std::vector<std::string>& closing_comments() const { return closing_comments_; }
  const Comments& output_comments() const { return output_comments_; }

  const TensorInfo& tensor(TensorId id) const { return tensors_[static_cast<size_t>(id)]; }
  const TensorType& type(TensorId id) const { return tensor(id).type; }
  std::vector<TensorType> types(const std::vector<TensorId>& ids) const;
  OpScope scope() const { return {level_, launch_.grid, launch_.loop}; }
  std::optional<TensorId> find_tensor(std::string_view name) const;

  /// Structure without names, comments and places: equal for graphs that differ in those alone.
  uint64_t structural_hash() const;

 private:
  friend class GraphBuilder;
  Graph() = default;

  Level level_ = Level::Kernel;
  std::string name_;
  LaunchShape launch_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string, TensorId> by_name_;  ///< of large graphs; of others empty
  std::vector<Operation> operations_;
  std::vector<TensorId> inputs_;
  std::vector<TensorId> outputs_;
  Comments comments_;
  std::vector<Comments> input_comments_;
  Comments output_comments_;
  std::vector<std::string> closing_comments_;
};

/// Structural equality, as structural_hash understands it.
bool same_structure(const Graph& a, const Graph& b);

/// For each operation of a block graph, whether it runs inside the for-loop (stage Body) or after it. An
/// operation is after the loop if it depends on an accumulator; accumulators count as Body. Where loop is 1
/// and there is no accumulator, everything is Body. Out savers that depend on no accumulator are Body.
enum class LoopStage : uint8_t { Body, After };
std::vector<LoopStage> loop_stages(const Graph& block_graph);

/// Builds a graph statement by statement, checking each against the operator table as it comes.
class GraphBuilder {
 public:
  explicit GraphBuilder(Level level, std::string name = {}, LaunchShape launch = {});

  /// A new input. Its name must be new in this graph.
  Result<TensorId> input(std::string name, TensorType type, SourceLocation at = {}, Comments comments = {});
  /// An operator of the table. Error, naming operator, tensor and place, where operands or attributes do not fit.
  Result<TensorId> add(OpKind kind, std::vector<TensorId> operands, Attributes attributes = {}, std::string name = {},
                       SourceLocation at = {}, Comments comments = {});
  /// A graph-defined operator; one result for each output of `body`. Empty names are made up.
  Result<std::vector<TensorId>> add(GraphPtr body, std::vector<TensorId> operands, std::vector<std::string> names = {},
                                    SourceLocation at = {}, Comments comments = {});
  /// Kernel graphs; below, the results of out_saver are the outputs, in order.
  Result<void> output(TensorId id, SourceLocation at = {});
  void comment(Comments of_graph, Comments of_output, std::vector<std::string> closing);

  const Graph& peek() const { return *graph_; }
  TensorType type(TensorId id) const { return graph_->type(id); }

  /// The graph. Error where it has no output.
  Result<GraphPtr> finish();

 private:
  Result<TensorId> new_tensor(std::string name, TensorType type, Level level, int producer, const SourceLocation& at);

  std::shared_ptr<Graph> graph_;
};

/// Checks and completes attributes against an operator's table row: unknown, missing or wrongly typed ones are errors.
Result<void> check_attributes(const OpDef& op, const Attributes& attributes);

}  // namespace strata

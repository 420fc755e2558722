// Operator graphs for tests: random ones, a decode layer, and what they ask for by trying all elements.
#pragma once

#include <bitset>
#include <cassert>
#include <set>

#include "indexing/enumerate.h"
#include "indexing/random_maps.h"
#include "megakernel/tgraph/precedence.h"
#include "support/random.h"

namespace strata::megakernel {

/// Of each stage of a random operator's tasks.
inline constexpr int64_t kTestStageBytes = 4096;

inline Access access(int tensor, bool writes, indexing::IndexingMap map) {
  Access made;
  made.tensor = tensor;
  made.region.writes = writes;
  made.region.coordinates = static_cast<int>(map.dims.size());
  made.region.map = std::move(map);
  return made;
}

/// Along each dimension of a tensor: the coordinate of the grid that it is divided by, or -1 where a task touches all.
inline Access tile(int tensor, bool writes, const std::vector<int64_t>& shape, const std::vector<int64_t>& grid,
                   const std::vector<int>& by) {
  indexing::IndexingMap map;
  map.dims = indexing::positions(grid);
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto range = indexing::Expr::range(static_cast<int>(d));
    const int64_t size = by[d] < 0 ? shape[d] : shape[d] / grid[static_cast<size_t>(by[d])];
    map.ranges.push_back(indexing::below(size));
    map.results.push_back(by[d] < 0 ? range : indexing::Expr::dim(by[d]) * size + range);
  }
  return access(tensor, writes, std::move(map));
}

/// Any region of a tensor that tasks of a grid may read: whole, tiles in any order, windows, several tasks the same.
inline Access random_read(Random& random, int tensor, const std::vector<int64_t>& shape,
                          const std::vector<int64_t>& grid) {
  using indexing::Expr;
  indexing::IndexingMap map;
  map.dims = indexing::positions(grid);
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto range = Expr::range(static_cast<int>(map.ranges.size()));
    const auto g = random.below(grid.size());
    const Expr at = Expr::dim(static_cast<int>(g));
    const uint64_t kind = random.below(6);
    const int64_t half = indexing::ceil_div(grid[g], 2);
    if (kind <= 1 && shape[d] % grid[g] == 0) {
      map.ranges.push_back(indexing::below(shape[d] / grid[g]));
      const Expr part = kind == 0 ? at : Expr::constant(grid[g] - 1) - at;
      map.results.push_back(part * (shape[d] / grid[g]) + range);
    } else if (kind == 2 && shape[d] % half == 0) {
      map.ranges.push_back(indexing::below(shape[d] / half));
      map.results.push_back(floor_div(at, 2) * (shape[d] / half) + range);
    } else if (kind == 3 && shape[d] % half == 0) {
      map.ranges.push_back(indexing::below(shape[d] / half));
      map.results.push_back(mod(at, half) * (shape[d] / half) + range);
    } else if (kind == 4) {
      const int64_t step = indexing::ceil_div(shape[d], grid[g]);
      map.ranges.push_back(indexing::below(step + 2));
      map.results.push_back(at * step + range - 1);
      map.constraints.push_back({map.results.back(), indexing::below(shape[d])});
    } else {
      map.ranges.push_back(indexing::below(shape[d]));
      map.results.push_back(range);
    }
  }
  return access(tensor, false, std::move(map));
}

struct RandomGraphOptions {
  int operators = 6;
  bool updates = true;         ///< operators that write tensors that there are, and tensors that share memory
  bool data_dependent = true;  ///< some operators
};

/// A valid operator graph of few tasks.
inline OperatorGraph random_operator_graph(Random& random, const RandomGraphOptions& options = {}) {
  static constexpr int64_t kSizes[] = {1, 2, 3, 4, 6, 8};
  OperatorGraph graph;
  graph.name = "random";
  const auto size = [&] { return kSizes[random.below(std::size(kSizes))]; };
  const auto tensor = [&](TensorClass kind, const std::vector<int64_t>& shape) {
    const int number = static_cast<int>(graph.tensors.size());
    StepTensor& made = graph.tensors.emplace_back();
    made.name = "t" + std::to_string(number);
    made.shape = shape;
    made.kind = kind;
    return number;
  };
  const auto shape_of = [&](int t) { return graph.tensors[static_cast<size_t>(t)].shape; };
  const int weights = tensor(TensorClass::Constant, {size(), size()});
  std::vector<int> readable{weights}, updatable;
  if (options.updates) updatable.push_back(tensor(TensorClass::History, {size(), size()}));
  const auto count = 1 + random.below(static_cast<uint64_t>(options.operators));
  for (uint64_t o = 0; o < count; ++o) {
    Operator op;
    op.name = "op" + std::to_string(o);
    op.function = "f" + std::to_string(random.below(3));
    op.grid = {size()};
    if (random.below(2) == 0) op.grid.push_back(1 + static_cast<int64_t>(random.below(3)));
    op.data_dependent = options.data_dependent && random.below(6) == 0;
    const auto stages = static_cast<int64_t>(random.below(4));
    op.cost = {stages * kTestStageBytes, 1e-6 * static_cast<double>(random.below(4)), stages,
               stages > 0 ? kTestStageBytes : 0, 64 * static_cast<int64_t>(random.below(3))};
    for (uint64_t n = 1 + random.below(3); n > 0; --n) {
      // Rather what was written last, so that chains are long.
      const size_t back = std::min<size_t>(random.below(4), readable.size() - 1);
      const int from = readable[readable.size() - 1 - back];
      op.reads.push_back(random_read(random, from, shape_of(from), op.grid));
    }
    std::vector<int> by;
    for (size_t g = 0; g < op.grid.size(); ++g) by.push_back(static_cast<int>(g));
    if (options.updates && !updatable.empty() && random.below(4) == 0) {
      // In place: each task reads and writes its own tile.
      const int target = updatable[random.below(updatable.size())];
      const std::vector<int64_t> shape = shape_of(target);
      op.grid = {shape[0], shape[1]};
      op.reads.clear();
      const int from = readable.back();
      if (from != target) op.reads.push_back(random_read(random, from, shape_of(from), op.grid));
      bool written = graph.tensors[static_cast<size_t>(target)].kind == TensorClass::Activation;
      for (const Operator& before : graph.operators) {
        for (const Access& write : before.writes) written = written || write.tensor == target;
      }
      const bool history = graph.tensors[static_cast<size_t>(target)].kind == TensorClass::History;
      if (!history || !written) op.reads.push_back(tile(target, false, shape, op.grid, {0, 1}));
      op.writes.push_back(tile(target, true, shape, op.grid, {0, 1}));
      graph.operators.push_back(std::move(op));
      continue;
    }
    std::vector<int64_t> shape;
    for (int64_t parts : op.grid) shape.push_back(parts * (1 + static_cast<int64_t>(random.below(3))));
    if (shape.size() == 1) {
      shape.push_back(size());
      by.push_back(-1);
    }
    const int made = tensor(TensorClass::Activation, shape);
    if (options.updates && random.below(4) == 0) {
      // Over a tensor that this operator does not read, and that nobody reads from here on.
      const int buffer = static_cast<int>(random.below(2));
      const auto shares = [&](int t) { return graph.tensors[static_cast<size_t>(t)].buffer == buffer; };
      if (std::none_of(op.reads.begin(), op.reads.end(), [&](const Access& read) { return shares(read.tensor); })) {
        std::erase_if(readable, shares);
        std::erase_if(updatable, shares);
        graph.tensors.back().buffer = buffer;
      }
    }
    op.writes.push_back(tile(made, true, shape, op.grid, by));
    readable.push_back(made);
    if (*indexing::element_count(shape) <= 32) updatable.push_back(made);
    graph.operators.push_back(std::move(op));
  }
  return graph;
}

/// Which tasks come before which, as a matrix; tasks are numbered like those of a task graph without empty tasks.
inline constexpr size_t kMostTestTasks = 2048;
using Relation = std::vector<std::bitset<kMostTestTasks>>;

inline void close(Relation& before) {
  assert(before.size() <= kMostTestTasks);
  for (size_t k = 0; k < before.size(); ++k) {
    for (auto& row : before) {
      if (row[k]) row |= before[k];
    }
  }
}

struct Required {
  Relation any;    ///< [before][after]: they must be in this order
  Relation reads;  ///< [before][after]: the second reads what the first writes
};

/// By trying all elements.
inline Required required_order(const OperatorGraph& graph) {
  using Elements = std::set<std::vector<int64_t>>;
  struct Touched {
    int tensor;
    std::vector<Elements> by_block;
  };
  std::vector<std::vector<Touched>> reads, writes;
  std::vector<size_t> base{0};
  for (const Operator& op : graph.operators) {
    const auto count = static_cast<size_t>(*indexing::element_count(op.grid));
    const auto elements = [&](const std::vector<Access>& accesses) {
      std::vector<Touched> all;
      for (const Access& one : accesses) {
        Touched touched{one.tensor, std::vector<Elements>(count)};
        for_each_point(one.region.map, [&](const indexing::Point& point) {
          const auto number = number_of({point.dims.begin(), point.dims.end()}, op.grid);
          touched.by_block[static_cast<size_t>(number)].insert(*evaluate(one.region.map, point));
          return true;
        });
        all.push_back(std::move(touched));
      }
      return all;
    };
    reads.push_back(elements(op.reads));
    writes.push_back(elements(op.writes));
    base.push_back(base.back() + count);
  }
  const size_t count = base.back();
  Required required{Relation(count), Relation(count)};
  for (size_t a = 0; a < graph.operators.size(); ++a) {
    for (size_t b = a + 1; b < graph.operators.size(); ++b) {
      const auto compare = [&](const std::vector<Touched>& before, const std::vector<Touched>& after, bool data) {
        for (const Touched& first : before) {
          for (const Touched& second : after) {
            const StepTensor& s = graph.tensors[static_cast<size_t>(first.tensor)];
            const StepTensor& t = graph.tensors[static_cast<size_t>(second.tensor)];
            const bool same = first.tensor == second.tensor;
            if (!same && (data || s.buffer < 0 || s.buffer != t.buffer)) continue;
            for (size_t i = 0; i < first.by_block.size(); ++i) {
              for (size_t j = 0; j < second.by_block.size(); ++j) {
                const bool meet = std::any_of(first.by_block[i].begin(), first.by_block[i].end(),
                                              [&](const auto& e) { return second.by_block[j].contains(e); });
                if (!meet && (same || s.shape == t.shape)) continue;
                required.any[base[a] + i][base[b] + j] = true;
                if (data) required.reads[base[a] + i][base[b] + j] = true;
              }
            }
          }
        }
      };
      compare(writes[a], reads[b], true);
      compare(reads[a], writes[b], false);
      compare(writes[a], writes[b], false);
    }
  }
  return required;
}

/// What a task graph says of its first `count` tasks.
inline Relation order_of(const TaskGraph& graph, size_t count) {
  const TaskNumbers numbers(graph);
  Relation before(static_cast<size_t>(numbers.count()));
  for (const TaskEvent& event : graph.events) {
    for (int in : numbers.tasks_of(event.in)) {
      for (int out : numbers.tasks_of(event.out)) before[static_cast<size_t>(in)][static_cast<size_t>(out)] = true;
    }
  }
  close(before);
  before.resize(count);
  for (auto& row : before) {
    for (size_t extra = count; extra < static_cast<size_t>(numbers.count()); ++extra) row.reset(extra);
  }
  return before;
}

/// Sizes of a model's layer, and how its decode step is divided into tasks.
struct DecodeLayers {
  int64_t layers = 1;
  int64_t batch = 1;
  int64_t hidden = 2048;
  int64_t kv_heads = 8;
  int64_t group = 4;  ///< query heads of a key-value head
  int64_t head = 64;
  int64_t inner = 8192;
  int64_t positions = 576;
  int64_t splits = 16;
  int64_t tasks = 128;
};

/// Decode layers of a Llama-like model of 16-bit weights (megakernel-design, section 2), after the look-up of
/// embeddings: [norm + QKV] -> [attention] -> [combine] -> [O + residual] -> [norm + gate/up] -> [down + residual]. The
/// rows of Q, K and V lie together by key-value head, so that each of these depends on its own part alone.
inline OperatorGraph decode_layers(const DecodeLayers& model) {
  OperatorGraph graph;
  graph.name = "decode";
  const auto tensor = [&](const std::string& name, const std::vector<int64_t>& shape, TensorClass kind) {
    StepTensor& made = graph.tensors.emplace_back();
    made.name = name;
    made.shape = shape;
    made.kind = kind;
    return static_cast<int>(graph.tensors.size()) - 1;
  };
  const auto read = [&](Operator& op, int t, const std::vector<int>& by) {
    op.reads.push_back(tile(t, false, graph.tensors[static_cast<size_t>(t)].shape, op.grid, by));
  };
  const auto write = [&](Operator& op, int t, const std::vector<int>& by) {
    op.writes.push_back(tile(t, true, graph.tensors[static_cast<size_t>(t)].shape, op.grid, by));
  };
  const auto cost = [](int64_t bytes, double seconds) {
    return TaskCost{bytes, seconds, (bytes + 8191) / 8192, bytes > 0 ? 8192 : 0, 16384};
  };
  const int64_t batch = model.batch, heads = model.kv_heads, tasks = model.tasks;
  const int64_t per_head = (model.group + 2) * model.head;
  constexpr double kFixed = 0.9e-6;
  const int table = tensor("embeddings", {model.hidden}, TensorClass::Constant);
  int x = tensor("x", {batch, model.hidden}, TensorClass::Activation);
  Operator embed{"embed", "embed", {batch}, {}, {}, false, cost(model.hidden * 2, kFixed)};
  read(embed, table, {-1});
  write(embed, x, {0, -1});
  graph.operators.push_back(embed);
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const auto name = [&](const char* what) { return fmt::format("{}.{}", what, layer); };
    const int qkv = tensor(name("qkv"), {batch, heads, per_head}, TensorClass::Activation);
    const int weights_qkv = tensor(name("w_qkv"), {heads, per_head, model.hidden}, TensorClass::Constant);
    Operator project{name("qkv"), "norm_qkv", {heads, tasks / heads}, {}, {}, false, {}};
    project.cost = cost(heads * per_head * model.hidden * 2 / tasks, kFixed);
    read(project, x, {-1, -1});
    read(project, weights_qkv, {0, 1, -1});
    write(project, qkv, {-1, 0, 1});
    graph.operators.push_back(project);

    const int cache = tensor(name("cache"), {batch, heads, model.positions, 2 * model.head}, TensorClass::History);
    const int partial =
        tensor(name("partial"), {batch, heads, model.splits, model.group * (model.head + 2)}, TensorClass::Activation);
    Operator attention{name("attention"), "attention", {batch, heads, model.splits}, {}, {}, false, {}};
    attention.cost = cost(model.positions / model.splits * 4 * model.head, kFixed);
    read(attention, qkv, {0, 1, -1});
    read(attention, cache, {0, 1, 2, -1});
    write(attention, partial, {0, 1, 2, -1});
    graph.operators.push_back(attention);

    const int attended = tensor(name("attended"), {batch, heads, model.group * model.head}, TensorClass::Activation);
    Operator combine{name("combine"), "combine", {batch, heads}, {}, {}, false, cost(0, kFixed / 2)};
    read(combine, partial, {0, 1, -1, -1});
    write(combine, attended, {0, 1, -1});
    graph.operators.push_back(combine);

    const auto product = [&](const char* what, const char* function, int from, int64_t width, int64_t outputs,
                             int64_t rows, int residual) {
      const int to = tensor(name(what), {batch, outputs}, TensorClass::Activation);
      const int weights = tensor(name("w_") + "." + what, {rows, width}, TensorClass::Constant);
      Operator op{name(what), function, {tasks}, {}, {}, false, cost(rows * width * 2 / tasks, kFixed)};
      const std::vector<int> whole(graph.tensors[static_cast<size_t>(from)].shape.size(), -1);
      read(op, from, whole);
      read(op, weights, {0, -1});
      if (residual >= 0) read(op, residual, {-1, 0});
      write(op, to, {-1, 0});
      graph.operators.push_back(op);
      return to;
    };
    const int y =
        product("o", "product_residual", attended, heads * model.group * model.head, model.hidden, model.hidden, x);
    const int act = product("gate_up", "norm_gate_up", y, model.hidden, model.inner, 2 * model.inner, -1);
    x = product("down", "product_residual", act, model.inner, model.hidden, model.hidden, y);
  }
  return graph;
}

}  // namespace strata::megakernel

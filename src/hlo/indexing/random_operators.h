// Random HLO modules of one operator on small arrays of s32, as text, for tests of their maps.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>

#include "indexing/random_maps.h"

namespace strata::indexing {

using Dims = std::vector<int64_t>;

/// Builds one module: parameters are added as they are needed.
struct OperatorSample {
  std::vector<std::string> lines;
  std::vector<int64_t> least, greatest;  ///< for each parameter the values that make sense in it
  std::vector<bool> exact;               ///< for each whether its maps say what is read, and not what may be
  std::string root;

  static std::string type(const Dims& dims) { return fmt::format("s32[{}]", fmt::join(dims, ",")); }
  std::string parameter(const std::string& shape, bool is_exact = true, int64_t lo = 1, int64_t hi = 1000) {
    const std::string name = fmt::format("p{}", least.size());
    lines.push_back(fmt::format("  {} = {} parameter({})", name, shape, least.size()));
    least.push_back(lo);
    greatest.push_back(hi);
    exact.push_back(is_exact);
    return name;
  }
  std::string parameter(const Dims& dims) { return parameter(type(dims)); }
  void set_root(const std::string& shape, const std::string& operation) {
    root = fmt::format("  ROOT r = {} {}", shape, operation);
  }
  std::string text() const {
    return fmt::format(
        "HloModule sample\nsum {{\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  ROOT c = s32[] add(a, b)\n}}\n"
        "ENTRY main {{\n{}\n{}\n}}\n",
        fmt::join(lines, "\n"), root);
  }
};

inline Dims random_dims(Random& random, int64_t rank, int64_t greatest = 5) {
  Dims dims;
  for (int64_t i = 0; i < rank; ++i) dims.push_back(random_between(random, 1, greatest));
  return dims;
}

/// Now and then without elements.
inline Dims random_dims_or_none(Random& random, int64_t rank) {
  Dims dims = random_dims(random, rank);
  if (rank > 0 && random.below(8) == 0) dims[random.below(dims.size())] = 0;
  return dims;
}

inline Dims random_permutation(Random& random, int64_t rank) {
  Dims order;
  for (int64_t i = 0; i < rank; ++i) {
    order.insert(order.begin() + random_between(random, 0, i), i);
  }
  return order;
}

inline bool is_in(const Dims& list, int64_t x) { return std::find(list.begin(), list.end(), x) != list.end(); }

/// Some of 0 … n - 1, ascending.
inline Dims random_subset(Random& random, int64_t n, int64_t size) {
  Dims all = random_permutation(random, n);
  all.resize(static_cast<size_t>(size));
  std::sort(all.begin(), all.end());
  return all;
}

inline std::string braces(const Dims& list) { return fmt::format("{{{}}}", fmt::join(list, ",")); }

/// Those of `dims` that are not at `places`.
inline Dims without(const Dims& dims, const Dims& places) {
  Dims result;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!is_in(places, static_cast<int64_t>(i))) result.push_back(dims[i]);
  }
  return result;
}

/// A window over one dimension and how many places it has; size 0 if there is none.
struct SampleWindow {
  int64_t size, stride, low, high, lhs, rhs, places;
  static SampleWindow random(Random& random, int64_t extent) {
    SampleWindow w{};
    w.size = random_between(random, 1, 3);
    w.stride = random_between(random, 1, 2);
    w.low = random_between(random, -1, 2);
    w.high = random_between(random, -1, 2);
    w.lhs = random_between(random, 1, 2);
    w.rhs = random_between(random, 1, 2);
    const int64_t padded = (extent - 1) * w.lhs + 1 + w.low + w.high;
    const int64_t span = (w.size - 1) * w.rhs + 1;
    w.places = padded < span ? 0 : (padded - span) / w.stride + 1;
    return w;
  }
  static std::string text(const std::vector<SampleWindow>& windows) {
    std::vector<std::string> size, stride, pad, lhs, rhs;
    for (const SampleWindow& w : windows) {
      size.push_back(fmt::format("{}", w.size));
      stride.push_back(fmt::format("{}", w.stride));
      pad.push_back(fmt::format("{}_{}", w.low, w.high));
      lhs.push_back(fmt::format("{}", w.lhs));
      rhs.push_back(fmt::format("{}", w.rhs));
    }
    return fmt::format("window={{size={} stride={} pad={} lhs_dilate={} rhs_dilate={}}}", fmt::join(size, "x"),
                       fmt::join(stride, "x"), fmt::join(pad, "x"), fmt::join(lhs, "x"), fmt::join(rhs, "x"));
  }
};

using Sampler = std::function<void(Random&, OperatorSample&)>;

inline void sample_pad(Random& random, OperatorSample& s) {
  const Dims dims = random_dims(random, random_between(random, 1, 3));
  std::vector<std::string> padding;
  Dims result;
  for (const int64_t extent : dims) {
    const int64_t interior = random_between(random, 0, 2);
    const int64_t low = random_between(random, -2, 3);
    const int64_t inner = extent + (extent - 1) * interior;
    const int64_t high = std::max(random_between(random, -2, 3), -inner - low);
    padding.push_back(fmt::format("{}_{}_{}", low, high, interior));
    result.push_back(inner + low + high);
  }
  const std::string operand = s.parameter(dims);
  s.set_root(OperatorSample::type(result),
             fmt::format("pad({}, {}), padding={}", operand, s.parameter("s32[]", false), fmt::join(padding, "x")));
}

inline void sample_slice(Random& random, OperatorSample& s) {
  const Dims dims = random_dims(random, random_between(random, 1, 3), 7);
  std::vector<std::string> slices;
  Dims result;
  for (const int64_t extent : dims) {
    const int64_t start = random_between(random, 0, extent - 1);
    const int64_t limit = random_between(random, start, extent);
    const int64_t stride = random_between(random, 1, 3);
    slices.push_back(fmt::format("[{}:{}:{}]", start, limit, stride));
    result.push_back(ceil_div(limit - start, stride));
  }
  s.set_root(OperatorSample::type(result),
             fmt::format("slice({}), slice={{{}}}", s.parameter(dims), fmt::join(slices, ", ")));
}

inline void sample_concatenate(Random& random, OperatorSample& s) {
  Dims dims = random_dims(random, random_between(random, 1, 3), 4);
  const auto d = random.below(dims.size());
  std::vector<std::string> operands;
  int64_t total = 0;
  for (int64_t n = random_between(random, 1, 3); n > 0; --n) {
    dims[d] = random_between(random, 0, 4);
    total += dims[d];
    operands.push_back(s.parameter(dims));
  }
  dims[d] = total;
  s.set_root(OperatorSample::type(dims),
             fmt::format("concatenate({}), dimensions={{{}}}", fmt::join(operands, ", "), d));
}

inline void sample_dynamic_slice(Random& random, OperatorSample& s) {
  const Dims dims = random_dims(random, random_between(random, 1, 3));
  std::vector<std::string> operands{s.parameter(dims)};
  Dims result;
  for (const int64_t extent : dims) {
    result.push_back(random_between(random, 1, extent));
    operands.push_back(s.parameter("s32[]", false, -2, 6));
  }
  s.set_root(OperatorSample::type(result),
             fmt::format("dynamic-slice({}), dynamic_slice_sizes={}", fmt::join(operands, ", "), braces(result)));
}

inline void sample_dynamic_update_slice(Random& random, OperatorSample& s) {
  const Dims dims = random_dims(random, random_between(random, 1, 3));
  Dims update;
  for (const int64_t extent : dims) update.push_back(random_between(random, 1, extent));
  std::vector<std::string> operands{s.parameter(OperatorSample::type(dims), false)};
  operands.push_back(s.parameter(update));
  for (size_t i = 0; i < dims.size(); ++i) operands.push_back(s.parameter("s32[]", false, -2, 6));
  s.set_root(OperatorSample::type(dims), fmt::format("dynamic-update-slice({})", fmt::join(operands, ", ")));
}

/// Attributes that gather and scatter share. `window` has an entry for each dimension of the operand; the batch
/// dimensions and the others of the result or of the updates are `batch` and `offset`.
struct SampleIndexing {
  Dims operand, window, collapsed, batching, indices_batching, start_map, indices, batch;
  int64_t vector_dim = 0;
  Dims offset_dims, result;

  static SampleIndexing random(Random& random) {
    SampleIndexing g;
    g.operand = random_dims(random, random_between(random, 1, 3));
    const auto rank = static_cast<int64_t>(g.operand.size());
    Dims free = random_permutation(random, rank);
    if (rank > 1 && random.below(3) == 0) {
      g.batching.push_back(free.back());
      free.pop_back();
    }
    g.start_map = free;
    g.start_map.resize(static_cast<size_t>(random_between(random, 1, static_cast<int64_t>(free.size()))));
    g.batch = random_dims(random, random_between(random, 0, 2), 3);
    if (!g.batching.empty()) {
      g.batch.insert(g.batch.begin() + random_between(random, 0, static_cast<int64_t>(g.batch.size())),
                     g.operand[static_cast<size_t>(g.batching[0])]);
    }
    g.vector_dim = random_between(random, 0, static_cast<int64_t>(g.batch.size()));
    g.indices = g.batch;
    const bool implicit = g.start_map.size() == 1 && random.below(2) == 0;
    if (implicit) {
      g.vector_dim = static_cast<int64_t>(g.batch.size());
    } else {
      g.indices.insert(g.indices.begin() + g.vector_dim, static_cast<int64_t>(g.start_map.size()));
    }
    if (!g.batching.empty()) {
      int64_t place = 0;
      while (g.indices[static_cast<size_t>(place)] != g.operand[static_cast<size_t>(g.batching[0])] ||
             (place == g.vector_dim && !implicit)) {
        ++place;
      }
      g.indices_batching.push_back(place);
    }
    Dims offsets;
    for (int64_t d = 0; d < rank; ++d) {
      const bool batched = is_in(g.batching, d);
      const int64_t size = batched ? 1 : random_between(random, 1, g.operand[static_cast<size_t>(d)]);
      g.window.push_back(size);
      if (batched) continue;
      if (size == 1 && random.below(2) == 0) {
        g.collapsed.push_back(d);
      } else {
        offsets.push_back(size);
      }
    }
    const auto result_rank = static_cast<int64_t>(g.batch.size() + offsets.size());
    g.offset_dims = random_subset(random, result_rank, static_cast<int64_t>(offsets.size()));
    size_t next_batch = 0;
    size_t next_offset = 0;
    for (int64_t d = 0; d < result_rank; ++d) {
      g.result.push_back(is_in(g.offset_dims, d) ? offsets[next_offset++] : g.batch[next_batch++]);
    }
    return g;
  }
};

inline void sample_gather(Random& random, OperatorSample& s) {
  const SampleIndexing g = SampleIndexing::random(random);
  const std::string operand = s.parameter(g.operand);
  const std::string indices = s.parameter(OperatorSample::type(g.indices), false, -2, 6);
  s.set_root(
      OperatorSample::type(g.result),
      fmt::format(
          "gather({}, {}), offset_dims={}, collapsed_slice_dims={}, start_index_map={}, operand_batching_dims={},"
          " start_indices_batching_dims={}, index_vector_dim={}, slice_sizes={}",
          operand, indices, braces(g.offset_dims), braces(g.collapsed), braces(g.start_map), braces(g.batching),
          braces(g.indices_batching), g.vector_dim, braces(g.window)));
}

inline void sample_scatter(Random& random, OperatorSample& s) {
  const SampleIndexing g = SampleIndexing::random(random);
  const std::string operand = s.parameter(g.operand);
  const std::string indices = s.parameter(OperatorSample::type(g.indices), false, -2, 6);
  s.set_root(OperatorSample::type(g.operand),
             fmt::format(
                 "scatter({}, {}, {}), update_window_dims={}, inserted_window_dims={}, scatter_dims_to_operand_dims={},"
                 " input_batching_dims={}, scatter_indices_batching_dims={}, index_vector_dim={}, to_apply=sum",
                 operand, indices, s.parameter(g.result), braces(g.offset_dims), braces(g.collapsed),
                 braces(g.start_map), braces(g.batching), braces(g.indices_batching), g.vector_dim));
}

inline void sample_reduce_window(Random& random, OperatorSample& s) {
  const Dims dims = random_dims(random, random_between(random, 1, 2));
  std::vector<SampleWindow> windows;
  Dims result;
  for (const int64_t extent : dims) {
    windows.push_back(SampleWindow::random(random, extent));
    result.push_back(windows.back().places);
  }
  const std::string operand = s.parameter(dims);
  s.set_root(OperatorSample::type(result), fmt::format("reduce-window({}, {}), {}, to_apply=sum", operand,
                                                       s.parameter(Dims{}), SampleWindow::text(windows)));
}

inline void sample_dot(Random& random, OperatorSample& s) {
  const Dims batch = random_dims(random, random_between(random, 0, 1), 3);
  const Dims contracted = random_dims(random, random_between(random, 0, 2), 3);
  Dims result = batch;
  std::array<std::array<Dims, 2>, 2> places;
  std::array<std::string, 2> operands;
  for (size_t side = 0; side < 2; ++side) {
    const Dims free = random_dims(random, random_between(random, 0, 1), 3);
    result.insert(result.end(), free.begin(), free.end());
    Dims all = batch;
    all.insert(all.end(), contracted.begin(), contracted.end());
    all.insert(all.end(), free.begin(), free.end());
    const Dims order = random_permutation(random, static_cast<int64_t>(all.size()));
    Dims dims(all.size());
    for (size_t i = 0; i < all.size(); ++i) dims[static_cast<size_t>(order[i])] = all[i];
    const auto middle = order.begin() + static_cast<std::ptrdiff_t>(batch.size());
    places[side] = {Dims(order.begin(), middle), Dims(middle, middle + static_cast<std::ptrdiff_t>(contracted.size()))};
    operands[side] = s.parameter(dims);
  }
  s.set_root(OperatorSample::type(result),
             fmt::format("dot({}, {}), lhs_batch_dims={}, lhs_contracting_dims={}, rhs_batch_dims={}, "
                         "rhs_contracting_dims={}",
                         operands[0], operands[1], braces(places[0][0]), braces(places[0][1]), braces(places[1][0]),
                         braces(places[1][1])));
}

inline void sample_convolution(Random& random, OperatorSample& s) {
  const int64_t extent = random_between(random, 1, 5);
  const SampleWindow w = SampleWindow::random(random, extent);
  const int64_t kind = random_between(random, 0, 2);
  const int64_t groups = kind == 0 ? 1 : 2;
  const int64_t inner = random_between(random, 1, 2);
  const int64_t features = groups * random_between(random, 1, 2);
  const int64_t batch = random_between(random, 1, 2);
  const Dims input{batch * (kind == 2 ? groups : 1), inner * (kind == 1 ? groups : 1), extent};
  const std::string lhs = s.parameter(input);
  const std::string rhs = s.parameter(Dims{w.size, inner, features});
  std::string window = SampleWindow::text({w});
  if (random.below(2) == 0) window.insert(window.size() - 1, " rhs_reversal=1");
  s.set_root(
      OperatorSample::type({w.places, features, batch}),
      fmt::format("convolution({}, {}), {}, dim_labels=bf0_0io->0fb, feature_group_count={}, batch_group_count={}", lhs,
                  rhs, window, kind == 1 ? groups : 1, kind == 2 ? groups : 1));
}

/// Samples of operators by name.
inline std::map<std::string, Sampler> samplers() {
  using Type = OperatorSample;
  std::map<std::string, Sampler> all;
  all["pad"] = sample_pad;
  all["slice"] = sample_slice;
  all["concatenate"] = sample_concatenate;
  all["dynamic_slice"] = sample_dynamic_slice;
  all["dynamic_update_slice"] = sample_dynamic_update_slice;
  all["gather"] = sample_gather;
  all["scatter"] = sample_scatter;
  all["reduce_window"] = sample_reduce_window;
  all["dot"] = sample_dot;
  all["convolution"] = sample_convolution;
  all["add"] = [](Random& random, OperatorSample& s) {
    const Dims dims = random_dims_or_none(random, random_between(random, 0, 3));
    const std::string a = s.parameter(dims);
    s.set_root(Type::type(dims), fmt::format("add({}, {})", a, s.parameter(dims)));
  };
  all["clamp"] = [](Random& random, OperatorSample& s) {
    const Dims dims = random_dims(random, 2);
    const std::string low = s.parameter("s32[]", false);
    const std::string x = s.parameter(Type::type(dims), false);
    s.set_root(Type::type(dims), fmt::format("clamp({}, {}, {})", low, x, s.parameter("s32[]", false)));
  };
  all["broadcast"] = [](Random& random, OperatorSample& s) {
    const Dims dims = random_dims_or_none(random, random_between(random, 0, 3));
    const auto rank = static_cast<int64_t>(dims.size());
    const Dims places = random_subset(random, rank, random_between(random, 0, rank));
    Dims operand;
    for (const int64_t place : places) operand.push_back(dims[static_cast<size_t>(place)]);
    s.set_root(Type::type(dims), fmt::format("broadcast({}), dimensions={}", s.parameter(operand), braces(places)));
  };
  all["transpose"] = [](Random& random, OperatorSample& s) {
    const Dims dims = random_dims_or_none(random, random_between(random, 0, 4));
    const Dims order = random_permutation(random, static_cast<int64_t>(dims.size()));
    Dims result;
    for (const int64_t d : order) result.push_back(dims[static_cast<size_t>(d)]);
    s.set_root(Type::type(result), fmt::format("transpose({}), dimensions={}", s.parameter(dims), braces(order)));
  };
  all["reverse"] = [](Random& random, OperatorSample& s) {
    const Dims dims = random_dims_or_none(random, random_between(random, 1, 3));
    const auto rank = static_cast<int64_t>(dims.size());
    const Dims reversed = random_subset(random, rank, random_between(random, 0, rank));
    s.set_root(Type::type(dims), fmt::format("reverse({}), dimensions={}", s.parameter(dims), braces(reversed)));
  };
  all["reshape"] = [](Random& random, OperatorSample& s) {
    const int64_t count = random_between(random, 1, 60);
    const std::string operand = s.parameter(random_factors(random, count));
    s.set_root(Type::type(random_factors(random, count)), fmt::format("reshape({})", operand));
  };
  all["bitcast"] = [](Random& random, OperatorSample& s) {
    const int64_t count = random_between(random, 1, 60);
    const auto laid_out = [&] {
      const Dims dims = random_factors(random, count);
      const Dims layout = random_permutation(random, static_cast<int64_t>(dims.size()));
      return Type::type(dims) + (dims.empty() ? "" : braces(layout));
    };
    const std::string operand = s.parameter(laid_out());
    s.set_root(laid_out(), fmt::format("bitcast({})", operand));
  };
  all["reduce"] = [](Random& random, OperatorSample& s) {
    const Dims dims = random_dims_or_none(random, random_between(random, 1, 3));
    const auto rank = static_cast<int64_t>(dims.size());
    const Dims reduced = random_subset(random, rank, random_between(random, 0, rank));
    const std::string operand = s.parameter(dims);
    s.set_root(Type::type(without(dims, reduced)), fmt::format("reduce({}, {}), dimensions={}, to_apply=sum", operand,
                                                               s.parameter(Dims{}), braces(reduced)));
  };
  all["map"] = [](Random& random, OperatorSample& s) {
    const Dims dims = random_dims(random, 2);
    const std::string a = s.parameter(dims);
    s.set_root(Type::type(dims), fmt::format("map({}, {}), dimensions={{0,1}}, to_apply=sum", a, s.parameter(dims)));
  };
  return all;
}

}  // namespace strata::indexing

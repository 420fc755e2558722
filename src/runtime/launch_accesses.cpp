#include "runtime/launch_accesses.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "indexing/simplify.h"
#include "ops/tensor.h"
#include "runtime/memory_layout.h"

namespace strata {
namespace {

constexpr const char* kRemedy = "the list of steps is not the one that was written: make the program anew";

/// The buffers of a manifest by name, and what lies where.
class Buffers {
 public:
  static Result<Buffers> of(const LaunchManifest& manifest) {
    STRATA_TRY(std::vector<size_t> roots, memory_roots(manifest));
    return Buffers(manifest, std::move(roots));
  }

  /// Null where there is none of that name.
  const GpuBuffer* find(const std::string& name) const {
    const auto known = numbers_.find(name);
    return known == numbers_.end() ? nullptr : &manifest_.buffers[known->second];
  }
  /// The one in whose memory it lies.
  const GpuBuffer* root(const std::string& name) const {
    const auto known = numbers_.find(name);
    return known == numbers_.end() ? nullptr : &manifest_.buffers[roots_[known->second]];
  }

 private:
  Buffers(const LaunchManifest& manifest, std::vector<size_t> roots) : manifest_(manifest), roots_(std::move(roots)) {
    for (size_t i = 0; i < manifest.buffers.size(); ++i) numbers_[manifest.buffers[i].name] = i;
  }

  const LaunchManifest& manifest_;
  std::vector<size_t> roots_;
  std::map<std::string, size_t> numbers_;
};

/// What a step names: buffers that it reads, then those that it writes.
struct Touched {
  std::vector<std::string> reads, writes;
};

bool accumulates(const GpuLaunch& launch) { return launch.product() != nullptr && launch.product()->accumulates; }

/// Without what is in a loop. Of a launch of which nothing is known: writes are all arguments that it may write.
Touched touched_by(const GpuStep& step, const Buffers& buffers) {
  Touched touched;
  const auto may_write = [&](const std::vector<std::string>& arguments) {
    for (const std::string& name : arguments) {
      const GpuBuffer* buffer = buffers.find(name);
      if (buffer != nullptr && buffer->role != BufferRole::Input && buffer->role != BufferRole::Constant)
        touched.writes.push_back(name);
    }
  };
  if (const GpuLaunch* launch = step.launch()) {
    if (launch->library) {
      const auto results = static_cast<std::ptrdiff_t>(results_of(*launch->library));
      touched.reads = launch->arguments;
      touched.writes.assign(touched.reads.end() - results, touched.reads.end());
      if (!accumulates(*launch)) touched.reads.resize(touched.reads.size() - touched.writes.size());
    } else if (launch->classes.empty()) {
      may_write(launch->arguments);
    } else {
      for (const GpuAccess& access : launch->accesses) {
        const std::string& name = launch->arguments[access.argument];
        const bool own = std::find(touched.writes.begin(), touched.writes.end(), name) != touched.writes.end();
        if (access.writes) {
          touched.writes.push_back(name);
        } else if (!own) {
          touched.reads.push_back(name);
        }
      }
    }
  } else if (const auto* copy = std::get_if<GpuCopy>(&step.work)) {
    touched = {{copy->from}, {copy->to}};
  } else if (const auto* fill = std::get_if<GpuFill>(&step.work)) {
    touched.writes = {fill->to};
  } else if (const HostStep* host = step.host()) {
    may_write(host->arguments);
  } else if (const GpuLoop* loop = step.loop()) {
    for (const GpuLoop::Value& value : loop->values) {
      if (value.initial != value.result) touched.reads.push_back(value.initial);
      for (const std::string& name : {value.result, value.spare}) {
        if (!name.empty()) touched.writes.push_back(name);
      }
    }
    touched.writes.insert(touched.writes.end(), loop->scratch.begin(), loop->scratch.end());
  }
  return touched;
}

/// The names of buffers whose memory some step writes.
std::set<std::string> written_roots(const LaunchManifest& manifest, const Buffers& buffers) {
  std::set<std::string> written;
  for_each_step(manifest.steps, [&](const GpuStep& step) {
    for (const std::string& name : touched_by(step, buffers).writes) {
      if (const GpuBuffer* root = buffers.root(name)) written.insert(root->name);
    }
  });
  return written;
}

/// Which buffer has what of the memory that several share, while steps are gone through in order.
class Order {
 public:
  explicit Order(const Buffers& buffers) : buffers_(buffers) {}

  Result<void> run(const std::vector<GpuStep>& steps) {
    for (const GpuStep& step : steps) {
      const Touched touched = touched_by(step, buffers_);
      for (const std::string& name : touched.reads) STRATA_CHECK(read(step, name));
      for (const std::string& name : touched.writes) write(name);
      const GpuLoop* loop = step.loop();
      if (loop == nullptr) continue;
      STRATA_CHECK(run(loop->condition));
      STRATA_CHECK(run(loop->body));
      for (const GpuLoop::Value& value : loop->values) {
        if (!value.result.empty()) STRATA_CHECK(read(step, value.result));
      }
    }
    return {};
  }

 private:
  struct Piece {
    int64_t begin, end;
    std::string owner;
  };

  /// Whether the buffer has something from the beginning, or lies where a loop says.
  static bool is_given(const GpuBuffer& root) {
    return root.role == BufferRole::Input || root.role == BufferRole::Counters || root.role == BufferRole::Constant ||
           root.role == BufferRole::Carried;
  }

  void write(const std::string& name) {
    const GpuBuffer* root = buffers_.root(name);
    if (root == nullptr || is_given(*root)) return;
    if (!root->offset) {
      written_.insert(root->name);
      return;
    }
    const int64_t begin = *root->offset, end = begin + root->type.bytes();
    std::vector<Piece> left;
    for (Piece& piece : pieces_) {
      if (piece.begin < begin) left.push_back({piece.begin, std::min(piece.end, begin), piece.owner});
      if (piece.end > end) left.push_back({std::max(piece.begin, end), piece.end, piece.owner});
    }
    left.push_back({begin, end, root->name});
    pieces_ = std::move(left);
  }

  Result<void> read(const GpuStep& step, const std::string& name) const {
    const GpuBuffer* root = buffers_.root(name);
    if (root == nullptr || is_given(*root) || root->type.bytes() == 0) return {};
    const auto never = [&]() -> Result<void> {
      return with_remedy(invalid("step '{}' reads '{}', which no step before it writes", name_of(step), name), kRemedy);
    };
    if (!root->offset) return written_.count(root->name) > 0 ? Result<void>() : never();
    const int64_t begin = *root->offset, end = begin + root->type.bytes();
    int64_t own = 0;
    const Piece* other = nullptr;
    for (const Piece& piece : pieces_) {
      const int64_t bytes = std::min(piece.end, end) - std::max(piece.begin, begin);
      if (bytes <= 0) continue;
      if (piece.owner == root->name) {
        own += bytes;
      } else {
        other = &piece;
      }
    }
    if (own == end - begin) return {};
    if (other == nullptr) return never();
    return with_remedy(invalid("step '{}' reads '{}' after a step has written '{}', which has its memory",
                               name_of(step), name, other->owner),
                       kRemedy);
  }

  const Buffers& buffers_;
  std::set<std::string> written_;  ///< of those with memory of their own
  std::vector<Piece> pieces_;      ///< of the memory that others share
};

/// Whether the map's index lies in the shape at a corner of its domain: of the first block or the last, with what it
/// loops over at its least or its most.
bool leaves_at(const indexing::IndexingMap& map, const Shape& shape, bool last_block, bool most) {
  const auto values = [](const std::vector<indexing::Interval>& ranges, bool upper) {
    std::vector<int64_t> all;
    for (const indexing::Interval& range : ranges) all.push_back(upper ? range.hi : range.lo);
    return all;
  };
  if (!map.runtime.empty()) return false;
  const std::vector<int64_t> dims = values(map.dims, last_block), ranges = values(map.ranges, most);
  const indexing::Point point{dims, ranges, {}};
  if (!indexing::in_domain(map, point)) return false;
  const auto index = indexing::evaluate(map, point);
  if (!index) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if ((*index)[d] < 0 || (*index)[d] >= shape[d]) return true;
  }
  return false;
}

Result<void> check_map(const GpuLaunch& launch, const GpuAccess& access, const GpuBuffer& buffer) {
  const auto refuse = [&](const std::string& why) {
    return with_remedy(invalid("kernel '{}' {} '{}' by {}, which {}", launch.kernel, access.writes ? "writes" : "reads",
                               buffer.name, indexing::to_string(access.map), why),
                       kRemedy);
  };
  if (access.map.dims.size() != 1 || access.map.dims[0].lo < 0 || access.map.dims[0].hi >= launch.grid[0])
    return refuse(fmt::format("takes other blocks than the grid's {}", launch.grid[0]));
  if (access.map.results.size() != buffer.type.shape.size())
    return refuse(fmt::format("is no index of {}", to_string(buffer.type)));
  for (const bool last : {false, true}) {
    for (const bool most : {false, true}) {
      if (leaves_at(access.map, buffer.type.shape, last, most))
        return refuse(fmt::format("leaves {}", to_string(buffer.type)));
    }
  }
  return {};
}

Result<void> check_launch(const GpuLaunch& launch, const Buffers& buffers, const std::set<std::string>& written) {
  if (launch.classes.empty()) {
    if (!launch.accesses.empty())
      return invalid("kernel '{}' has accesses, but no classes of arguments", launch.kernel);
    return {};
  }
  if (launch.classes.size() != launch.arguments.size())
    return invalid("kernel '{}' has {} arguments, and classes of {}", launch.kernel, launch.arguments.size(),
                   launch.classes.size());
  for (const GpuAccess& access : launch.accesses) {
    const GpuBuffer* buffer = buffers.find(launch.arguments[access.argument]);
    if (buffer != nullptr) STRATA_CHECK(check_map(launch, access, *buffer));
  }
  for (size_t i = 0; i < launch.classes.size(); ++i) {
    const GpuBuffer* root = buffers.root(launch.arguments[i]);
    if (launch.classes[i] != ArgumentClass::Constant || root == nullptr) continue;
    const bool given = root->role == BufferRole::Constant || root->role == BufferRole::Input;
    if (given && written.count(root->name) == 0) continue;
    return with_remedy(invalid("kernel '{}' has '{}' as a constant, which {}", launch.kernel, launch.arguments[i],
                               given ? "a step writes" : "is made in the run"),
                       kRemedy);
  }
  return {};
}

}  // namespace

indexing::IndexingMap of_same_memory(indexing::IndexingMap map, const ArrayType& from, const ArrayType& to) {
  if (from.shape == to.shape && from.minor_to_major == to.minor_to_major) return map;
  // The sizes from the outermost dimension in memory on, and which dimension each is.
  const auto in_memory = [](const ArrayType& type) {
    std::vector<size_t> dims(type.shape.size());
    std::iota(dims.begin(), dims.end(), size_t{0});
    if (!type.minor_to_major.empty()) dims.assign(type.minor_to_major.rbegin(), type.minor_to_major.rend());
    return dims;
  };
  const auto sizes_of = [](const ArrayType& type, const std::vector<size_t>& dims) {
    Shape sizes;
    for (const size_t d : dims) sizes.push_back(type.shape[d]);
    return sizes;
  };
  const std::vector<size_t> before = in_memory(from), after = in_memory(to);
  std::vector<indexing::Expr> index;
  for (const size_t d : before) index.push_back(map.results[d]);
  const indexing::Expr position = indexing::linearize(index, row_major_strides(sizes_of(from, before)));
  const std::vector<indexing::Expr> there = indexing::delinearize(position, sizes_of(to, after));
  map.results.resize(after.size());
  for (size_t i = 0; i < after.size(); ++i) map.results[after[i]] = there[i];
  return simplify(map);
}

void classify_arguments(LaunchManifest& manifest, const std::function<bool(const GpuLaunch&)>& known) {
  const Result<Buffers> buffers = Buffers::of(manifest);
  if (!buffers) return;  // which check_accesses says
  // What is known is said first: other launches are taken to write what they may.
  for_each_step(manifest.steps, [&](GpuStep& step) {
    GpuLaunch* launch = step.launch();
    if (launch != nullptr && !launch->library && known(*launch))
      launch->classes.assign(launch->arguments.size(), ArgumentClass::Activation);
  });
  const std::set<std::string> written = written_roots(manifest, *buffers);
  for_each_step(manifest.steps, [&](GpuStep& step) {
    GpuLaunch* launch = step.launch();
    if (launch == nullptr || launch->classes.empty()) return;
    for (size_t i = 0; i < launch->arguments.size(); ++i) {
      const GpuBuffer* root = buffers->root(launch->arguments[i]);
      if (root == nullptr) continue;
      const bool is_written = written.count(root->name) > 0;
      if (root->role == BufferRole::Constant || (root->role == BufferRole::Input && !is_written))
        launch->classes[i] = ArgumentClass::Constant;
      if (root->role == BufferRole::Counters || root->role == BufferRole::Carried ||
          (root->role == BufferRole::Input && is_written))
        launch->classes[i] = ArgumentClass::State;
    }
  });
}

Result<void> check_accesses(const LaunchManifest& manifest) {
  STRATA_TRY(const Buffers buffers, Buffers::of(manifest));
  const std::set<std::string> written = written_roots(manifest, buffers);
  Result<void> checked;
  for_each_step(manifest.steps, [&](const GpuStep& step) {
    if (checked && step.launch() != nullptr) checked = check_launch(*step.launch(), buffers, written);
  });
  STRATA_CHECK(checked);
  return Order(buffers).run(manifest.steps);
}

}  // namespace strata

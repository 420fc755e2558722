// What the rows of a scatter are.
#include <numeric>

#include "emitters/kinds/in_place.h"
#include "emitters/kinds/scatter/rows.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;
using indexing::Expr;
using indexing::IndexingMap;
using indexing::Interval;

/// Where `value` is in the list; -1 if it is not.
int64_t place_in(const std::vector<int64_t>& list, int64_t value) {
  const auto found = std::find(list.begin(), list.end(), value);
  return found == list.end() ? -1 : found - list.begin();
}

/// The numbers of dimensions in the order in which they lie in memory, outermost first.
std::vector<int64_t> outermost_first(const hlo::Shape& shape) {
  return {shape.minor_to_major.rbegin(), shape.minor_to_major.rend()};
}

/// The largest power of two that divides it, 1024 at most.
int64_t power_of_two_in(int64_t value) { return value == 0 ? 1 : std::min<int64_t>(value & -value, 1024); }

class Analysis {
 public:
  Analysis(const hlo::Computation& computation, InstructionId scatter)
      : computation_(computation),
        it_(computation[scatter]),
        attributes_(it_.as<hlo::ScatterAttributes>()),
        output_(it_.shape.is_tuple() ? it_.shape.elements[0] : it_.shape) {
    const size_t arrays = it_.operands.size() / 2;
    result_.scatter = scatter;
    result_.indices = it_.operands[arrays];
    for (size_t i = 0; i < arrays; ++i) {
      result_.operands.push_back(it_.operands[i]);
      result_.updates.push_back(it_.operands[arrays + 1 + i]);
    }
  }

  Result<ScatterRows> run() {
    STRATA_CHECK(check_arrays());
    find_windows();
    STRATA_CHECK(find_dimensions());
    make_starts();
    make_row_maps();
    make_update_maps();
    return std::move(result_);
  }

 private:
  const hlo::Shape& updates() const { return computation_[result_.updates[0]].shape; }

  Result<void> check_arrays() const {
    for (const hlo::Shape& shape :
         it_.shape.is_tuple() ? it_.shape.elements.list() : std::vector<hlo::Shape>{it_.shape}) {
      if (shape.minor_to_major != output_.minor_to_major) return unsupported("results do not lie alike");
    }
    std::vector<InstructionId> read = result_.operands;
    read.insert(read.end(), result_.updates.begin(), result_.updates.end());
    read.push_back(result_.indices);
    for (const InstructionId id : read) {
      if (computation_[id].opcode == hlo::Opcode::GetTupleElement) {
        return unsupported("{} is an element of a tuple", computation_[id].name);
      }
    }
    return {};
  }

  /// The updates' dimensions: of windows, or of their numbers.
  void find_windows() {
    result_.count = result_.window = result_.rows = 1;
    for (int64_t d = 0; d < updates().rank(); ++d) {
      const bool window = place_in(attributes_.update_window_dims, d) >= 0;
      (window ? result_.window : result_.count) *= updates().dim(d);
      if (!window) batch_extents_.push_back(updates().dim(d));
    }
  }

  /// The operand's dimensions: of rows, or of their elements.
  Result<void> find_dimensions() {
    const auto& a = attributes_;
    dims_.resize(output_.dims.size());
    size_t window = 0;
    for (int64_t d = 0; d < output_.rank(); ++d) {
      Dimension& dim = dims_[static_cast<size_t>(d)];
      dim.batching = place_in(a.input_batching_dims, d);
      dim.start = place_in(a.scatter_dims_to_operand_dims, d);
      if (dim.batching < 0 && place_in(a.inserted_window_dims, d) < 0) dim.update_dim = a.update_window_dims[window++];
      dim.window = dim.update_dim < 0 ? 1 : updates().dim(dim.update_dim);
      dim.of_row = dim.batching >= 0 || (dim.start >= 0 && dim.window == 1);
      if (dim.of_row) {
        result_.rows *= output_.dim(d);
      } else if (dim.start >= 0 && dim.window != output_.dim(d)) {
        return unsupported("windows may overlap in dimension {}", d);
      }
    }
    return {};
  }

  /// The window's number as the index among numbers.
  std::vector<Expr> batch(const Expr& number) const { return indexing::delinearize(number, batch_extents_); }
  const Expr& batch_coordinate(const std::vector<Expr>& batch, int64_t indices_dim) const {
    return batch[static_cast<size_t>(indices_dim > attributes_.index_vector_dim ? indices_dim - 1 : indices_dim)];
  }

  void make_starts() {
    const hlo::Shape& indices = computation_[result_.indices].shape;
    for (size_t i = 0; i < attributes_.scatter_dims_to_operand_dims.size(); ++i) {
      IndexingMap map = indexing::identity_map({result_.count});
      map.results = batch(Expr::dim(0));
      if (attributes_.index_vector_dim < indices.rank()) {
        map.results.insert(map.results.begin() + attributes_.index_vector_dim, Expr::constant(static_cast<int64_t>(i)));
      }
      result_.starts.push_back(indexing::simplify(map, indexing::UnusedVariables::Keep));
    }
  }

  /// `fits`, `row` and `row_of_output`.
  void make_row_maps() {
    const Interval any = values_of_index(computation_[result_.indices].shape.type);
    result_.fits = indexing::identity_map({result_.count});
    result_.fits.results.clear();
    result_.fits.dims.resize(1 + result_.starts.size(), any);
    result_.row = result_.fits;
    result_.row_of_output = indexing::identity_map(output_.dims);
    Expr row, of_output;
    for (const int64_t d : outermost_first(output_)) {
      const Dimension& dim = dims_[static_cast<size_t>(d)];
      if (dim.start >= 0) {
        const int number = 1 + static_cast<int>(dim.start);
        const Interval fits{0, output_.dim(d) - dim.window};
        result_.fits.constraints.push_back({Expr::dim(number), fits});
        result_.row.dims[static_cast<size_t>(number)] = fits;
      }
      if (!dim.of_row) continue;
      const Expr place =
          dim.batching >= 0
              ? batch_coordinate(batch(Expr::dim(0)),
                                 attributes_.scatter_indices_batching_dims[static_cast<size_t>(dim.batching)])
              : Expr::dim(1 + static_cast<int>(dim.start));
      row = row * output_.dim(d) + place;
      of_output = of_output * output_.dim(d) + Expr::dim(static_cast<int>(d));
    }
    result_.row.results = {row};
    result_.row = indexing::simplify(result_.row, indexing::UnusedVariables::Keep);
    result_.row_of_output.results = {of_output};
    make_output_of_row();
  }

  /// `output_of_row`, and whether rows lie one after the other.
  void make_output_of_row() {
    std::vector<int64_t> rows, elements, extents_of_rows, extents_of_elements;
    for (const int64_t d : outermost_first(output_)) {
      const bool of_row = dims_[static_cast<size_t>(d)].of_row;
      (of_row ? rows : elements).push_back(d);
      (of_row ? extents_of_rows : extents_of_elements).push_back(output_.dim(d));
      if (of_row && output_.dim(d) > 1 && result_.width > 1) result_.rows_are_outermost = false;
      if (!of_row) result_.width *= output_.dim(d);
    }
    result_.output_of_row = indexing::identity_map({result_.rows, result_.width});
    result_.output_of_row.results.assign(output_.dims.size(), Expr());
    const std::vector<Expr> of_row = indexing::delinearize(Expr::dim(0), extents_of_rows);
    const std::vector<Expr> of_element = indexing::delinearize(Expr::dim(1), extents_of_elements);
    for (size_t i = 0; i < rows.size(); ++i) result_.output_of_row.results[static_cast<size_t>(rows[i])] = of_row[i];
    for (size_t i = 0; i < elements.size(); ++i) {
      result_.output_of_row.results[static_cast<size_t>(elements[i])] = of_element[i];
    }
    result_.output_of_row = indexing::simplify(result_.output_of_row, indexing::UnusedVariables::Keep);
  }

  void make_update_maps() {
    result_.covered = indexing::identity_map(output_.dims);
    result_.covered.results.clear();
    result_.update_of_output = indexing::identity_map(output_.dims);
    result_.update_of_output.dims.push_back(indexing::below(std::max<int64_t>(result_.count, 1)));
    result_.update_of_element = indexing::identity_map({result_.window, result_.count});
    std::vector<Expr> of_output(updates().dims.size()), of_element(updates().dims.size());
    fill_batch(of_output, Expr::dim(static_cast<int>(output_.rank())));
    fill_batch(of_element, Expr::dim(1));
    for (size_t d = 0; d < dims_.size(); ++d) {
      const Dimension& dim = dims_[d];
      const Expr place = dim.of_row ? Expr() : Expr::dim(static_cast<int>(d));
      if (!dim.of_row && dim.window < output_.dims[d]) {
        result_.covered.constraints.push_back({place, {0, dim.window - 1}});
        result_.update_of_output.dims[d] = {0, dim.window - 1};
      }
      if (dim.update_dim >= 0) of_output[static_cast<size_t>(dim.update_dim)] = place;
    }
    // Elements of a window are numbered as the updates lie.
    std::vector<int64_t> extents, numbers;
    for (const int64_t d : outermost_first(updates())) {
      if (place_in(attributes_.update_window_dims, d) < 0) continue;
      extents.push_back(updates().dim(d));
      numbers.push_back(d);
    }
    const std::vector<Expr> digits = indexing::delinearize(Expr::dim(0), extents);
    Expr element;
    for (size_t i = 0; i < numbers.size(); ++i) {
      of_element[static_cast<size_t>(numbers[i])] = digits[i];
      element = element * extents[i] + of_output[static_cast<size_t>(numbers[i])];
    }
    result_.element_of_output = result_.covered;
    result_.element_of_output.constraints.clear();
    result_.element_of_output.dims.assign(result_.update_of_output.dims.begin(),
                                          result_.update_of_output.dims.end() - 1);
    result_.element_of_output.results = {element};
    result_.update_of_output.results = std::move(of_output);
    result_.update_of_element.results = std::move(of_element);
    result_.update_of_output = indexing::simplify(result_.update_of_output, indexing::UnusedVariables::Keep);
    result_.update_of_element = indexing::simplify(result_.update_of_element, indexing::UnusedVariables::Keep);
    find_runs();
  }

  void fill_batch(std::vector<Expr>& index, const Expr& number) const {
    const std::vector<Expr> digits = batch(number);
    size_t next = 0;
    for (int64_t d = 0; d < updates().rank(); ++d) {
      if (place_in(attributes_.update_window_dims, d) < 0) index[static_cast<size_t>(d)] = digits[next++];
    }
  }

  void find_runs() {
    for (const int64_t d : output_.minor_to_major) {
      const Dimension& dim = dims_[static_cast<size_t>(d)];
      if (dim.of_row && output_.dim(d) > 1) break;
      result_.output_run *= power_of_two_in(std::gcd(output_.dim(d), dim.window));
      if (dim.window != output_.dim(d)) break;
    }
    for (const int64_t d : updates().minor_to_major) {
      if (place_in(attributes_.update_window_dims, d) < 0) break;
      result_.update_run *= power_of_two_in(updates().dim(d));
    }
  }

  struct Dimension {
    int64_t batching = -1;    ///< among the batching dimensions
    int64_t start = -1;       ///< which start index is for it
    int64_t update_dim = -1;  ///< the updates' dimension that runs along it
    int64_t window = 1;       ///< elements of a window
    bool of_row = false;
  };

  const hlo::Computation& computation_;
  const hlo::Instruction& it_;
  const hlo::ScatterAttributes& attributes_;
  const hlo::Shape& output_;
  ScatterRows result_;
  std::vector<Dimension> dims_;
  std::vector<int64_t> batch_extents_;
};

}  // namespace

Result<ScatterRows> scatter_rows(const Fusion& fusion) {
  return Analysis(fusion.computation(), fusion.computation().root).run();
}

}  // namespace strata::emitters

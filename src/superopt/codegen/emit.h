// What the emitters of block functions and of kernels for predefined operators share.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "block/regions.h"
#include "ir/graph.h"
#include "superopt/codegen/block_memory.h"
#include "superopt/codegen/operand_place.h"

namespace strata {

/// Names of a C++ scope: those of a graph's tensors, changed where C++ or the scope has them already.
class NameScope {
 public:
  explicit NameScope(std::set<std::string> taken = {}) : taken_(std::move(taken)) {}
  std::string add(const std::string& wanted);

 private:
  std::set<std::string> taken_;
};

/// "strata_device::f16", "float", …: the type of stored elements.
std::string storage_type(DType type);
/// "float", or "double" for f64: the type in which a tensor of that type is computed.
std::string compute_type(DType type);
/// "strata_device::Dims<16, 64>".
std::string dims(const std::vector<int64_t>& sizes);

/// The C++ expression of an elementwise operator over variables of the compute type. It names the policy Math
/// (device/strata_cuda.h).
std::string elementwise_expression(const Operation& op, const std::vector<std::string>& operands, DType type);

/// A statement that calls the device library for an operator of the table that is neither elementwise nor structural.
/// `team` is a type of the device library or of the text; `operands` and `result` are pointers.
std::string library_call(const Graph& graph, const Operation& op, const std::string& team,
                         const std::vector<std::string>& operands, const std::string& result);

/// A loop over the elements of `shape` that defines one variable a chain's operator and stores the last to `result`.
/// For each operand: the pointer, the variable, the shape.
struct ElementOperand {
  std::string pointer;
  std::string variable;
  Shape shape;
  std::optional<Iota> iota = {};  ///< has no pointer: its elements are computed
};
struct ElementStep {
  const Operation* op;
  std::vector<std::string> operands;
  std::string variable;
};
std::string element_loop(const std::string& team, const Shape& shape, DType type,
                         const std::vector<ElementOperand>& operands, const std::vector<ElementStep>& steps,
                         const std::string& value, const std::string& result, const std::string& indent);

/// The same for one operator of a graph; `pointers` are its operands', of iotas anything.
std::string elementwise_loop(const Graph& graph, const Operation& op, const std::string& team,
                             const std::vector<std::string>& pointers, const std::string& result, NameScope scope,
                             const std::string& indent);

/// The statement as the text format writes it, without comments: for the generated source's comments.
std::string statement_text(const Graph& graph, const Operation& op);

/// The first index of a block's tile along dimension d of the tensor, as an expression of block_x, block_y, block_z and
/// `iteration`.
std::string tile_start(const AccessRegion& region, size_t d);
/// Of that index, the piece of a fold in which it lies, and what it is there.
std::string tile_piece(const AccessRegion& region, const Fold& fold);
std::string tile_in_piece(const AccessRegion& region, const Fold& fold);
/// Where the tile begins in a tensor that lies so, in elements. Of one with a front: in what is left of it, where
/// `in_front` is false (before_seam).
std::string tile_base(const AccessRegion& region, const OperandPlace& place, bool in_front = false);
/// Whether a tile of a tensor with a front lies in that, as an expression.
std::string before_seam(const AccessRegion& region, const Front& front);

/// Whether an operator of a block graph reads tiles of an iota, which are computed.
bool is_counted(const Graph& body, const Operation& op);
/// Those of an operator's operands, or a body's inputs, that are in memory: what functions and kernels are given.
std::vector<TensorId> arguments_of(const Graph& graph, const std::vector<TensorId>& ids);
/// The element of an iota at an index along its dimension, in the compute type of `type`.
std::string counted_text(const Iota& iota, const std::string& index, DType type);
/// Of an element of a tensor, row-major, the index along one dimension.
std::string index_along(const Shape& shape, size_t dim, const std::string& element);

/// For each tensor of a kernel graph, whether all inputs that it depends on have 16 bits.
std::vector<bool> from_half_precision(const Graph& graph);

/// The head of a block function's text, up to its name.
constexpr const char* kBlockCoordinates =
    "[[maybe_unused]] long long block_x, [[maybe_unused]] long long block_y, [[maybe_unused]] long long block_z";
constexpr const char* kTeamFunction = "template <class Team, class Math>\nstatic STRATA_DEVICE void ";
/// The type of a team of a block's first threads.
std::string team_text(int64_t threads, int barrier);
/// A block function (block_code.h).
/// `strides` are those of the operands in device memory, `memory` is where the block's tensors lie.
std::string emit_block_function(const Operation& op, const std::string& name, const OperandPlaces& strides,
                                const BlockMemory& memory);

/// The device library's text.
std::string_view device_library();
/// What block functions in registers use, after that: tiles, then rows.
std::string_view device_registers();
/// What block functions use whose tiles TMA brings, after that.
std::string_view device_bulk();
/// What kernels use in whose launch the next one runs as well, after that.
std::string_view device_handover();
/// What runs kernels on the host, to stand in front of a generated source.
std::string_view host_library();

}  // namespace strata

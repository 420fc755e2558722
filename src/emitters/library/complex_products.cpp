#include "emitters/library/complex_products.h"

#include <map>

#include "hlo/entry_rewriter.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using hlo::Shape;

/// Multiplications and additions of floats in a complex term.
constexpr double kOperationsOfTerm = 8;

class Splitter : hlo::EntryRewriter {
 public:
  Splitter(const hlo::Module& module, const Target& target) : EntryRewriter(module), target_(target) {}

  hlo::Module run() {
    find_products();
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      if (it.opcode == Opcode::Real || it.opcode == Opcode::Imag) {
        const auto known = products_.find(it.operands[0]);
        if (known == products_.end()) return std::nullopt;
        return in_layout(it.opcode == Opcode::Real ? known->second.real : known->second.imaginary, it);
      }
      const auto id = static_cast<InstructionId>(&it - from_.instructions.data());
      const auto product = products_.find(id);
      if (product == products_.end() || !product->second.is_read()) return std::nullopt;
      return in_layout(split(it, copy, product->second), it);
    });
  }

 private:
  /// What is read of a product, and what computes it when it has been reached.
  struct Product {
    bool reads_real = false, reads_imaginary = false, reads_both = false;
    InstructionId real = 0, imaginary = 0;
    bool is_read() const { return reads_real || reads_imaginary || reads_both; }
  };

  bool is_split(const Instruction& it) const {
    if (it.opcode != Opcode::Dot || !hlo::is_complex(it.shape.type)) return false;
    const Shape& lhs = from_.operand_shape(it, 0);
    const Shape& rhs = from_.operand_shape(it, 1);
    // The products are of one type; operands of two are rare, and stay.
    if (lhs.type != it.shape.type || rhs.type != it.shape.type) return false;
    int64_t terms = 1;
    for (const int64_t d : it.as<hlo::DotAttributes>().lhs_contracting) terms *= lhs.dim(d);
    return static_cast<double>(terms) * kOperationsOfTerm / (target_.rates.scalar_rate / 2) >=
           hlo::byte_width(it.shape.type) / target_.rates.memory_bandwidth;
  }

  void find_products() {
    for (size_t n = 0; n < from_.instructions.size(); ++n) {
      const Instruction& it = from_.instructions[n];
      if (is_split(it)) products_[static_cast<InstructionId>(n)];
      for (const InstructionId operand : it.operands) {
        const auto known = products_.find(operand);
        if (known == products_.end()) continue;
        bool& reads = it.opcode == Opcode::Real   ? known->second.reads_real
                      : it.opcode == Opcode::Imag ? known->second.reads_imaginary
                                                  : known->second.reads_both;
        reads = true;
      }
    }
    if (const auto root = products_.find(from_.root); root != products_.end()) root->second.reads_both = true;
  }

  static Shape part_shape(const Shape& of) { return hlo::array_shape(hlo::part_type(of.type), of.dims); }
  /// A part of a new instruction's value.
  InstructionId part(InstructionId id, Opcode opcode) {
    const Instruction& it = entry_[id];
    if (it.opcode == Opcode::Complex) return it.operands[opcode == Opcode::Real ? 0 : 1];
    if (is_real(id)) {  // its imaginary part is not asked for
      const InstructionId from = it.operands[0];
      const Shape to = part_shape(it.shape);
      return shape(from).type == to.type ? from : add(it.name + ".part", Opcode::Convert, to, {from});
    }
    return add(it.name + (opcode == Opcode::Real ? ".real" : ".imaginary"), opcode, part_shape(it.shape), {id});
  }
  bool is_real(InstructionId id) const {
    return entry_[id].opcode == Opcode::Convert && !hlo::is_complex(shape(entry_[id].operands[0]).type);
  }

  /// Two arrays one after the other, along a dimension.
  InstructionId joined(const std::string& name, InstructionId first, InstructionId second, int64_t dimension) {
    std::vector<int64_t> dims = shape(first).dims;
    dims[static_cast<size_t>(dimension)] *= 2;
    const Shape to = hlo::array_shape(shape(first).type, dims);
    return add(name, Opcode::Concatenate, to, {first, second}, hlo::DimensionsAttributes{{dimension}});
  }

  /// A part, or a whole product, in the order in memory of what it stands for, which a bitcast may read. Of a product
  /// that is read by parts alone nobody reads what this makes.
  InstructionId in_layout(InstructionId id, const Instruction& of) {
    const bool same = shape(id).minor_to_major == of.shape.minor_to_major || shape(id).type != of.shape.type;
    return same ? id : add(of.name + ".copy", Opcode::Copy, of.shape, {id});
  }

  InstructionId split(const Instruction& it, const Instruction& copy, Product& product) {
    const auto& attributes = it.as<hlo::DotAttributes>();
    const InstructionId lhs = copy.operands[0], rhs = copy.operands[1];
    const bool real = product.reads_real || product.reads_both;
    const bool imaginary = product.reads_imaginary || product.reads_both;
    const auto dot = [&](const char* which, InstructionId a, InstructionId b) {
      return add(it.name + which, Opcode::Dot, part_shape(it.shape), {a, b}, attributes);
    };
    InstructionId last = 0;
    if (is_real(lhs) || is_real(rhs)) {
      const auto of = [&](InstructionId id, Opcode opcode) { return part(id, is_real(id) ? Opcode::Real : opcode); };
      if (real) last = product.real = dot(".real", of(lhs, Opcode::Real), of(rhs, Opcode::Real));
      if (imaginary) {
        const bool both = is_real(lhs) && is_real(rhs);
        product.imaginary =
            both ? zeros(part_shape(it.shape)) : dot(".imaginary", of(lhs, Opcode::Imag), of(rhs, Opcode::Imag));
        last = product.imaginary;
      }
    } else {
      const int64_t left = attributes.lhs_contracting[0], right = attributes.rhs_contracting[0];
      const InstructionId of_left = joined(it.name + ".left", part(lhs, Opcode::Real), part(lhs, Opcode::Imag), left);
      const InstructionId c = part(rhs, Opcode::Real), d = part(rhs, Opcode::Imag);
      if (real) {
        const InstructionId negative = add(it.name + ".negative", Opcode::Negate, shape(d), {d});
        last = product.real = dot(".real", of_left, joined(it.name + ".right", c, negative, right));
      }
      if (imaginary) last = product.imaginary = dot(".imaginary", of_left, joined(it.name + ".turned", d, c, right));
    }
    if (!product.reads_both) return last;
    return add(it.name + ".whole", Opcode::Complex, it.shape, {product.real, product.imaginary});
  }

  InstructionId zeros(const Shape& of) {
    return add("zeros", Opcode::Broadcast, of, {zero(of.type)}, hlo::DimensionsAttributes{});
  }

  const Target& target_;
  std::map<InstructionId, Product> products_;  ///< by instruction of the old entry
};

}  // namespace

hlo::Module split_complex_products(const hlo::Module& module, const Target& target) {
  return Splitter(module, target).run();
}

}  // namespace strata::emitters

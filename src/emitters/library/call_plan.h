// For calls.cpp: how one product or convolution becomes a call.
#pragma once

#include <optional>

#include "emitters/kinds/memory_views.h"
#include "emitters/library/calls.h"
#include "hlo/users.h"
#include "machine/target.h"

namespace strata::emitters {

using hlo::only_user;
using hlo::Users;
using hlo::users_of;

struct CallPlan {
  /// An argument: an array, or a transpose of it that has to be made.
  struct Operand {
    hlo::InstructionId memory = 0;
    std::vector<int64_t> permutation;  ///< where not empty: the transpose, which takes the operand's place
    int64_t copied_bytes = 0;          ///< of an array that has to be made because another one lies in another order
  };

  LibraryWork work;
  hlo::InstructionId contraction = 0;  ///< the product, convolution or transform
  std::vector<Operand> operands;       ///< its two, or one
  bool swapped = false;                ///< the work is the transposed product: of the second operand by the first
  hlo::Attributes attributes;          ///< its attributes on operands that are transposed
  std::optional<hlo::InstructionId> scale, bias;
  hlo::InstructionId result = 0;  ///< whose value is computed: the contraction's, or of what comes behind it
  /// Where not empty, what is computed is the contraction (and what comes behind it) of this shape, and the result its
  /// transpose by this.
  std::vector<int64_t> result_permutation;
  hlo::Shape result_shape;
};

/// The value of a scalar constant or a broadcast of one, of a float type, or complex without an imaginary part.
std::optional<double> constant_value(const hlo::Computation& computation, hlo::InstructionId id);
/// The type as the libraries name it.
std::optional<DType> library_type(hlo::ElementType type);

/// Whether a product lies as HLO says and has elements, of types that the library may take.
bool is_for_library(const hlo::Computation& computation, hlo::InstructionId dot);
/// Error (Unsupported): why no library computes it.
Result<CallPlan> plan_product(const hlo::Computation& computation, const Users& users, hlo::InstructionId dot);
/// With channels last or first, whichever is faster where it is not said.
Result<CallPlan> plan_convolution(const hlo::Computation& computation, const Users& users,
                                  hlo::InstructionId convolution, const Target& target,
                                  std::optional<bool> channels_last = {});

Result<CallPlan> plan_transform(const hlo::Computation& computation, const Users& users, hlo::InstructionId fft);

/// Whether a convolution has the form of a gradient of filters: windows, which are the result's gradient, are larger
/// than what comes out, the filters, and the images that are summed over lie outside their channels in memory.
bool is_filter_gradient(const hlo::ConvolutionAttributes& attributes, const hlo::Shape& lhs, const hlo::Shape& result);
/// Whether it has the form of a gradient of images where the filters moved on by more than one element: it dilates its
/// operand, and its filters are reversed.
bool is_image_gradient(const hlo::ConvolutionAttributes& attributes);
/// The convolution that one of these is a gradient of, if its sizes are such that cuDNN knows them from the others; of
/// no element type.
std::optional<Convolution> gradient_of(const hlo::ConvolutionAttributes& attributes, const hlo::Shape& lhs,
                                       const hlo::Shape& rhs, const hlo::Shape& result);

/// If the value goes through relu and nowhere else, what relu makes of it.
std::optional<hlo::InstructionId> relu_of(const hlo::Computation& computation, const Users& users,
                                          hlo::InstructionId id);
/// The same for gelu in its form with tanh.
std::optional<hlo::InstructionId> gelu_of(const hlo::Computation& computation, const Users& users,
                                          hlo::InstructionId id);

/// Of a kernel that computes each of so many results, sums of so many terms, by itself.
double loop_microseconds(double results, double terms, int64_t bytes_of_term, const Target& target);
/// Terms of each result of a product or a convolution; those between dilated elements count.
double terms_of_result(const hlo::Computation& computation, const hlo::Instruction& it);
/// Of the faster of the emitters' kernels for a convolution: loops, or strips (kinds/window).
double convolution_kernel_microseconds(const hlo::Computation& computation, const hlo::Instruction& it,
                                       const Target& target);

}  // namespace strata::emitters

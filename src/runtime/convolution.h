// A convolution that cuDNN computes, as a launch of a program: what best.launch.json says of it, and running it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/types.h"
#include "runtime/cudnn.h"
#include "runtime/prepared_work.h"

namespace strata {

/// Which of a convolution's three tensors is computed: its result, or what gradients of images and filters are.
enum class ConvolutionPart : uint8_t { Result, Images, Filters };
/// "result", "images", "filters".
std::string_view name_of(ConvolutionPart part);
Result<ConvolutionPart> parse_convolution_part(std::string_view name);

/// What a convolution does along one spatial dimension, in elements.
struct ConvolutionDimension {
  int64_t size = 1;  ///< of the image
  int64_t filter = 1;
  int64_t stride = 1;
  int64_t padding = 0;   ///< zeros at each end of the image
  int64_t dilation = 1;  ///< from one element of a filter to the next

  /// Size of the result; 0 where the filter does not fit.
  int64_t result() const {
    const int64_t room = size + 2 * padding - (filter - 1) * dilation - 1;
    return room < 0 ? 0 : room / stride + 1;
  }
  friend bool operator==(const ConvolutionDimension&, const ConvolutionDimension&) = default;
};

/// conv2d of src/ops, or of three spatial dimensions, or in groups: X[images, channels, sizes…] by W[filters,
/// channels / groups, filters' sizes…], of one element type: f16, bf16 or f32. Filters in the order of the groups whose
/// channels they read. Sums are taken in float32. All three tensors are row-major, or all have their channels last in
/// memory: X lies as [images, sizes…, channels].
///
/// Of the parts Images and Filters the result Y is an operand, and X or W what is computed: each element is the sum of
/// all elements of Y that it had a part in, times what it was multiplied by there.
struct Convolution {
  DType type = DType::F16;
  int64_t images = 1, channels = 1, filters = 1, groups = 1;
  std::vector<ConvolutionDimension> spatial{2, ConvolutionDimension{}};  ///< two (height, width) or three (depth first)
  bool channels_last = false;
  bool tf32 = false;  ///< of f32: operands may be rounded to TF32, which has f32's exponents and 11 significant bits
  bool relu = false;  ///< max(0, Y) is stored; of the part Result
  ConvolutionPart part = ConvolutionPart::Result;
  int64_t algorithm = 0;  ///< place among those of the library that round no more than this, its best guess first

  /// Shapes of the tensors, channels first.
  std::vector<int64_t> images_shape() const;
  std::vector<int64_t> filters_shape() const;
  std::vector<int64_t> result_shape() const;
  /// X, W, Y; of the part Images Y, W, X; of Filters X, Y, W.
  static constexpr size_t arguments() { return 3; }
  friend bool operator==(const Convolution&, const Convolution&) = default;
};

/// "f16 8×64×56×56 by 64×64×3×3, padding 1, algorithm 2" (and what else is not the default; "stride 1×2×2" where
/// dimensions differ).
std::string describe(const Convolution& convolution);

/// What a launch of the manifest says that is a convolution.
constexpr std::string_view kConvolutionLibrary = "cudnn";
/// Bytes of device memory that a convolution may use while it runs.
constexpr int64_t kConvolutionWorkspace = int64_t{256} << 20;
/// Algorithms that each of the library's two heuristics is asked for.
constexpr int kMostConvolutionAlgorithms = 64;

/// The library in the current context.
class ConvolutionLibrary {
 public:
  /// Error (Environment) where cuDNN is missing, (Unsupported) where it does not start.
  static Result<std::unique_ptr<ConvolutionLibrary>> open();
  ~ConvolutionLibrary();
  ConvolutionLibrary(const ConvolutionLibrary&) = delete;
  ConvolutionLibrary& operator=(const ConvolutionLibrary&) = delete;

  const Cudnn& functions() const { return cudnn_; }
  Cudnn::Handle handle() const { return handle_; }

  /// Of what the heuristics propose for a convolution, whatever its algorithm, in order: whether it can be run here. It
  /// takes milliseconds to find out, so it is kept: as far as it is known.
  std::vector<bool> known(const Convolution& of) const;
  void know(const Convolution& of, std::vector<bool> usable) const;

 private:
  ConvolutionLibrary() = default;

  Cudnn cudnn_{};
  Cudnn::Handle handle_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<Convolution, std::vector<bool>>> known_;
};

/// Chooses the algorithm. Error (Unsupported) where the library has none of this number for the convolution.
Result<std::unique_ptr<PreparedWork>> prepare(const ConvolutionLibrary& library, const Convolution& convolution);

}  // namespace strata

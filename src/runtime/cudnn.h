// The part of cuDNN's C interface that Strata uses, its backend interface (graphs of operations), opened at run time.
// Constants are those of the library's own header, cudnn_graph.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/cuda_driver.h"

namespace strata {

/// Functions return 0, or an error that check() names. Everything is a descriptor with attributes: made, filled,
/// finalized.
struct Cudnn {
  using Handle = struct CudnnHandleTag*;
  using Descriptor = void*;

  // Kinds of descriptors.
  static constexpr int kPointwise = 0, kConvolution = 1, kEngine = 2, kEngineConfig = 3, kEngineHeuristic = 4,
                       kPlan = 5, kForwardOperation = 10, kFiltersOperation = 11, kImagesOperation = 12,
                       kPointwiseOperation = 13, kGraph = 15, kArguments = 16, kTensor = 17;
  // Types of attributes.
  static constexpr int kHandleType = 0, kDataType = 1, kBoolean = 2, kInt64 = 3, kFloat = 4, kPointer = 6,
                       kConvolutionModeType = 7, kHeuristicModeType = 8, kNumericalNoteType = 11,
                       kPointwiseModeType = 14, kDescriptorType = 15;
  // Attributes, by kind of descriptor.
  static constexpr int kPointwiseMode = 0, kPointwiseType = 1;
  static constexpr int kComputeType = 100, kConvolutionMode = 101, kDilations = 102, kStrides = 103,
                       kPaddingBehind = 104, kPaddingBefore = 105, kSpatialDimensions = 106;
  static constexpr int kHeuristicMode = 200, kHeuristicGraph = 201, kHeuristicResults = 202;
  static constexpr int kConfiguredEngine = 300;
  static constexpr int kPlanHandle = 400, kPlanConfig = 401, kPlanWorkspace = 402;
  static constexpr int kForwardAlpha = 700, kForwardBeta = 701, kForwardConvolution = 702, kForwardW = 703,
                       kForwardX = 704, kForwardY = 705;
  /// Of the operations that compute images and filters the attributes follow each other as those of the forward one do.
  static constexpr int kImagesAlpha = 706, kFiltersAlpha = 712;
  static constexpr int kPointwiseOf = 750, kPointwiseX = 751, kPointwiseY = 753;
  static constexpr int kGraphHandle = 800, kGraphOperations = 801;
  static constexpr int kTensorAlignment = 900, kTensorType = 901, kTensorSizes = 902, kTensorStrides = 903,
                       kTensorName = 906, kTensorIsVirtual = 907;
  static constexpr int kArgumentNames = 1000, kArgumentPointers = 1001, kArgumentWorkspace = 1003;
  static constexpr int kNumericalNotes = 1303;
  // Values.
  static constexpr int kF32 = 0, kF16 = 2, kBF16 = 9;
  static constexpr int kCrossCorrelation = 1;  ///< filters are not mirrored
  static constexpr int kModeFallback = 2, kModeA = 3;
  static constexpr int kRelu = 100;
  // Notes on what an engine does to numbers.
  static constexpr int kTensorCores = 0, kConvertsInputs = 1, kReducedSums = 2, kWinograd6 = 7, kWinograd13 = 8;
  static constexpr int kMostNotes = 32;

  size_t (*version)();
  const char* (*error_string)(int);
  int (*create)(Handle*);
  int (*destroy)(Handle);
  int (*use_stream)(Handle, CudaStream);
  int (*create_descriptor)(int kind, Descriptor*);
  int (*destroy_descriptor)(Descriptor);
  int (*finalize)(Descriptor);
  int (*set_attribute)(Descriptor, int attribute, int type, int64_t count, const void* values);
  /// Descriptors that it returns are made by the caller.
  int (*get_attribute)(Descriptor, int attribute, int type, int64_t wanted, int64_t* found, void* values);
  int (*execute)(Handle, Descriptor plan, Descriptor arguments);

  /// Error (Unsupported) "WHAT: cuDNN: CUDNN_STATUS_…" unless `status` is 0.
  Result<void> check(int status, std::string_view what) const;
};

/// $STRATA_CUDNN, else the CUDA toolkit's, a Python environment's or the system's. Error (Environment, with a remedy)
/// where it is missing.
Result<Cudnn> open_cudnn();
/// "9.15.1". Error (Environment) where it is missing.
Result<std::string> cudnn_version();

}  // namespace strata

// One artifact for several sizes of a program: which of its entries serves some inputs, and how they are padded for it
// (docs/sizes.md).
#pragma once

#include "ir/padding.h"
#include "ops/tensor.h"

namespace strata {

struct SizeTable {
  struct Entry {
    DimSizes sizes;
    std::string folder;  ///< within the table's; "." where it is the only one
    double seconds = 0;  ///< estimated
    std::string origin;  ///< where its kernels come from, in words
  };
  SizedProgram program;
  std::vector<Entry> entries;
};

/// The file of a table in its folder.
constexpr const char* kSizeTable = "sizes.json";

std::string print(const SizeTable& table);
/// Error (InvalidInput) where the text is none; folders are names and no paths.
Result<SizeTable> parse_size_table(const std::string& text, const std::string& file);

struct SizeDispatch {
  size_t entry = 0;
  DimSizes sizes;                                   ///< of the inputs
  std::vector<std::pair<std::string, Fill>> fills;  ///< dims that are padded to the entry's size, in this order
};

/// The entry of these sizes, or of those to which they can be padded the one with the lowest estimate. Error where the
/// sizes are beyond the table, or padding would change the results, with the reason.
Result<SizeDispatch> dispatch(const SizeTable& table, const DimSizes& sizes);
/// "tokens=16; tokens=8": the sizes of the entries, those nearest the declared ones first.
std::string entries_of(const SizeTable& table);
/// "tokens=5 as 8, padded with the last slice"; empty where nothing is padded.
std::string describe(const SizeTable& table, const SizeDispatch& dispatch);

/// An input, a tensor of the program's graph, as the entry takes it.
Result<Tensor<double>> padded(const SizeTable& table, const SizeDispatch& dispatch, TensorId input,
                              Tensor<double> tensor);
/// A result of the entry's kernels, cut to the sizes of the inputs.
Result<Tensor<double>> cut(const SizeTable& table, const SizeDispatch& dispatch, TensorId output,
                           const Tensor<double>& tensor);

}  // namespace strata

// What the kernels that find out which updates go to each row have in common: they change temporaries alone.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "emitters/kinds/scatter/rows.h"

namespace strata::emitters {

class IndexKernel {
 protected:
  /// Kernel number `launch`, which only reads the temporaries of these numbers.
  IndexKernel(const RowsEmission& emission, size_t launch, std::vector<size_t> only_read)
      : emission_(emission),
        plan_(emission.plan),
        kernel_(emission.kernel(launch, std::move(only_read))),
        builder_(kernel_.builder()),
        launch_(emission.decision.launches[launch]),
        temporaries_(kernel_.temporaries()) {}

  /// The temporaries become what `body` makes of them where the condition holds.
  void change_if(mlir::Value condition, llvm::function_ref<void(mlir::ImplicitLocOpBuilder&)> body) {
    const Values before = temporaries_;
    temporaries_ = if_holds(builder_, condition, before, [&](mlir::ImplicitLocOpBuilder& inside) {
      body(inside);
      return temporaries_;
    });
  }

  /// Ends the kernel; what went wrong while it was written, if anything did.
  Result<void> finish() {
    if (error_) return tl::unexpected(std::move(*error_));
    kernel_.finish(kernel_.outputs(), temporaries_);
    return {};
  }

  const RowsEmission& emission_;
  const ScatterRowsPlan& plan_;
  Kernel kernel_;
  mlir::ImplicitLocOpBuilder& builder_;
  const Launch& launch_;
  Values temporaries_;
  std::optional<Error> error_;
};

}  // namespace strata::emitters

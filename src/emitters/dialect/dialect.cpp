#include "emitters/dialect/atomic_fetch.h"

#include <llvm/ADT/TypeSwitch.h>
#include <mlir/IR/DialectImplementation.h>

#include "emitters/dialect/strata_dialect.cpp.inc"
#include "emitters/dialect/strata_enums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "emitters/dialect/strata_attributes.cpp.inc"

namespace strata::emitters {

void StrataDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "emitters/dialect/strata_attributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "emitters/dialect/strata_operations.cpp.inc"
      >();
  addOperations<AtomicFetchOp>();
}

mlir::Attribute MapAttr::parse(mlir::AsmParser& parser, mlir::Type) {
  std::string text;
  llvm::SMLoc place;
  if (parser.parseLess() || parser.getCurrentLocation(&place) || parser.parseString(&text) || parser.parseGreater()) {
    return {};
  }
  auto map = indexing::parse_indexing_map(text);
  if (!map) {
    parser.emitError(place, map.error().message);
    return {};
  }
  return MapAttr::get(parser.getContext(), *std::move(map));
}

void MapAttr::print(mlir::AsmPrinter& printer) const { printer << "<\"" << indexing::to_string(getMap()) << "\">"; }

}  // namespace strata::emitters

// The kinds of TileLoads.
#pragma once

#include "superopt/codegen/tiles/loads.h"

namespace strata {

std::unique_ptr<TileLoads> copied_loads(const TileLoads::Block& block);

/// Error (Unsupported) with the reason where TMA cannot bring a tile, or no neighbours share tiles though they should.
Result<std::unique_ptr<TileLoads>> bulk_loads(const TileLoads::Block& block, NameScope& scope);

/// Error (Unsupported) with the reason where no constant could be packed.
Result<std::unique_ptr<TileLoads>> packed_loads(const TileLoads::Block& block, NameScope& scope);

}  // namespace strata

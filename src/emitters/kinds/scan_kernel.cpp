// The kernels of a scan: what threads have of a tile is scanned in registers, then lanes by shuffles, warps in shared
// memory and tiles by what is carried on.
#include "emitters/kinds/scan_code.h"

namespace strata::emitters {
namespace {

using namespace scan_code;

class ScanEmitter : ScanCode {
 public:
  ScanEmitter(const FusionFunctions& functions, const ScanPlan& plan, const std::vector<ScanHero>& heroes,
              Kernel& kernel, const Launch& launch, bool totals)
      : ScanCode(functions, plan, heroes, kernel, launch, totals) {}

  Result<void> run() {
    Builder& builder = kernel_.builder();
    find_place(builder);
    if (tiling_.warps > 1) allocate(builder);
    Values carries = flat(initial_carries(builder));
    if (!is_totals_ && tiling_.chunks > 1) carries = flat(carries_of_chunk(builder, unflat(carries)));
    IndexingMap map;
    map.ranges = {below(tiling_.tiles)};
    Values inits(outputs_);
    llvm::append_range(inits, shared_);
    llvm::append_range(inits, carries);
    const size_t outputs = outputs_.size(), tiles = shared_.size();
    auto loop = create_loop(
        builder, map, {}, inits, std::nullopt, [&](Builder& inside, ValueRange ranges, ValueRange, ValueRange before) {
          outputs_ = Values(before.take_front(outputs));
          shared_ = Values(before.slice(outputs, tiles));
          const Values next = flat(scan_tile(inside, ranges[0], unflat(before.drop_front(outputs + tiles))));
          Values after(outputs_);
          llvm::append_range(after, shared_);
          llvm::append_range(after, next);
          return after;
        });
    if (error_) return tl::unexpected(std::move(*error_));
    const ValueRange results = loop.getResults();
    outputs_ = Values(results.take_front(outputs));
    Values temporaries(kernel_.temporaries());
    if (is_totals_) temporaries = written_totals(builder, unflat(results.drop_front(outputs + tiles)));
    if (error_) return tl::unexpected(std::move(*error_));
    kernel_.finish(outputs_, temporaries);
    return {};
  }

 private:
  // --- scans ---

  /// Scans the pieces that a thread of each warp has, each `lanes` pieces behind the one before, and what the carries
  /// say comes before them, which become the carries of what comes after. `along`: the slots of a piece follow each
  /// other in the scan, else they are columns.
  std::vector<std::vector<ScannedPiece>> scan(Builder& builder, const std::vector<Piece>& pieces, bool along,
                                              Value parity, std::vector<States>& carries) {
    std::vector<std::vector<ScannedPiece>> scanned(heroes_.size());
    std::vector<States> totals;
    for (size_t h = 0; h < heroes_.size(); ++h) {
      States total(columns());  // of the warp so far
      for (const Piece& one : pieces) {
        ScannedPiece& piece = scanned[h].emplace_back(scan_slots(builder, h, one, along));
        States all = along ? States{along_last(piece)} : piece.within;
        piece.before = scan_lanes(builder, heroes_[h], all);
        for (size_t c = 0; c < columns(); ++c) {
          piece.before[c] = combine(builder, heroes_[h], total[c], piece.before[c]);
          total[c] = combine(builder, heroes_[h], total[c], all[c]);
        }
      }
      totals.push_back(std::move(total));
    }
    const std::vector<States> before = scan_warps(builder, totals, parity, carries);
    for (size_t h = 0; h < heroes_.size(); ++h) {
      for (ScannedPiece& piece : scanned[h]) {
        for (size_t c = 0; c < columns(); ++c) {
          piece.before[c] = combine(builder, heroes_[h], before[h][c], piece.before[c]);
        }
      }
    }
    return scanned;
  }

  /// The state of all slots.
  const State& along_last(const ScannedPiece& piece) const {
    return tiling_.reverse ? piece.within.front() : piece.within.back();
  }

  ScannedPiece scan_slots(Builder& builder, size_t h, const Piece& piece, bool along) const {
    const ScanHero& hero = heroes_[h];
    ScannedPiece result;
    for (const Values& elements : piece.elements[h]) {
      result.within.push_back(state_of(builder, hero, piece.valid, elements));
    }
    const size_t count = result.within.size();
    for (size_t i = 1; along && i < count; ++i) {
      const size_t slot = tiling_.reverse ? count - 1 - i : i, previous = tiling_.reverse ? slot + 1 : slot - 1;
      result.within[slot] = combine(builder, hero, result.within[previous], result.within[slot]);
    }
    return result;
  }

  States shuffled(Builder& builder, const States& states, Value lane) const {
    Values values;
    for (const State& state : states) llvm::append_range(values, state);
    auto shuffle = builder.create<ShuffleIndexOp>(mlir::TypeRange(ValueRange(values).getTypes()), values, lane);
    States result;
    size_t next = 0;
    for (const State& state : states) {
      result.emplace_back(ValueRange(shuffle.getResults()).slice(next, state.size()));
      next += state.size();
    }
    return result;
  }

  /// What lanes before have, for each column; `states` become those of all lanes together.
  States scan_lanes(Builder& builder, const ScanHero& hero, States& states) const {
    if (tiling_.lanes == 1) return States(columns());
    for (const auto& [has, source] : lanes_before_) {
      const States others = shuffled(builder, states, source);
      for (size_t c = 0; c < columns(); ++c) {
        states[c] = select(builder, has, combine(builder, hero, others[c], states[c]), states[c]);
      }
    }
    States before = shuffled(builder, states, lanes_before_[0].second);
    for (State& state : before) {
      state = select(builder, lanes_before_[0].first, state, hero.accumulation.empty(builder));
    }
    states = shuffled(builder, states, last_lane_);
    return before;
  }

  void allocate(Builder& builder) {
    const int64_t width = tiling_.lines_of_warp() * tiling_.columns;
    for (const ScanHero& hero : heroes_) {
      for (const Value value : hero.accumulation.empty(builder)) {
        const auto type = mlir::RankedTensorType::get({2, tiling_.warps, width}, value.getType(),
                                                      SharedTileAttr::get(builder.getContext(), 0, 0));
        shared_.push_back(builder.create<AllocateSharedOp>(type));
      }
    }
  }

  /// The states before the thread's warp, for each hero and column: carries and what the warps before have. Two tiles
  /// take turns, so that there is one barrier for each: no warp writes what another may still read.
  std::vector<States> scan_warps(Builder& builder, const std::vector<States>& totals, Value parity,
                                 std::vector<States>& carries) {
    std::vector<States> before = carries;
    if (tiling_.warps == 1) {
      for (size_t h = 0; h < heroes_.size(); ++h) {
        for (size_t c = 0; c < columns(); ++c) {
          carries[h][c] = combine(builder, heroes_[h], carries[h][c], totals[h][c]);
        }
      }
      return before;
    }
    const Value warp = at_place(builder, warp_expr_);
    const Value first = compare(builder, CmpIPredicate::eq, lane_, index_constant(builder, 0));
    const auto place = [&](Value of_warp, size_t column) {
      const Value in_row = at(builder, Expr::dim(0) * tiling_.columns + static_cast<int64_t>(column),
                              {below(tiling_.lines_of_warp())}, other_);
      return Values{parity, of_warp, in_row};
    };
    size_t number = 0;
    for (size_t h = 0; h < heroes_.size(); ++h) {
      const size_t size = heroes_[h].accumulation.state_size();
      for (size_t c = 0; c < columns(); ++c) {
        for (size_t i = 0; i < size; ++i) {
          Value& tile = shared_[number + i];
          tile = builder.create<PredicatedInsertOp>(tile.getType(), first, totals[h][c][i], tile, place(warp, c));
        }
      }
      number += size;
    }
    auto synced = builder.create<SyncThreadsOp>(mlir::TypeRange(ValueRange(shared_).getTypes()), shared_);
    shared_ = Values(synced.getResults());
    for (int64_t w = 0; w < tiling_.warps; ++w) {
      const Value of_warp = index_constant(builder, w);
      const Value mine = w == 0 ? Value() : compare(builder, CmpIPredicate::eq, warp, of_warp);
      number = 0;
      for (size_t h = 0; h < heroes_.size(); ++h) {
        const size_t size = heroes_[h].accumulation.state_size();
        for (size_t c = 0; c < columns(); ++c) {
          if (mine) before[h][c] = select(builder, mine, carries[h][c], before[h][c]);
          State total;
          for (size_t i = 0; i < size; ++i) {
            total.push_back(builder.create<mlir::tensor::ExtractOp>(shared_[number + i], place(of_warp, c)));
          }
          carries[h][c] = combine(builder, heroes_[h], carries[h][c], total);
        }
        number += size;
      }
    }
    return before;
  }

  // --- tiles ---

  /// Scans a tile and writes its results; gives the carries after it.
  std::vector<States> scan_tile(Builder& builder, Value tile, std::vector<States> carries) {
    const int64_t covered = tiling_.chunks * tiling_.tiles * tiling_.tile();
    std::vector<Piece> pieces;
    std::vector<Value> vectors;
    for (int64_t u = 0; u < tiling_.unroll; ++u) {
      const Expr number =
          (((chunk_expr_ * tiling_.tiles + Expr::dim(2)) * tiling_.warps + warp_expr_) * tiling_.unroll + u) *
              tiling_.lanes +
          lane_expr_;
      Value vector = at_place(builder, number, tile);
      Value valid;
      if (covered > tiling_.vectors()) {
        // Threads behind the end read the last vector again: no load waits for a branch.
        valid = compare(builder, CmpIPredicate::slt, vector, index_constant(builder, tiling_.vectors()));
        vector = builder.create<arith::MinSIOp>(vector, index_constant(builder, tiling_.vectors() - 1));
      }
      if (tiling_.reverse) {
        vector = at(builder, Expr::constant(tiling_.vectors() - 1) - Expr::dim(0), {below(tiling_.vectors())}, vector);
      }
      vectors.push_back(vector);
      pieces.push_back(operands(builder, vector, valid));
    }
    const Value parity = at(builder, indexing::mod(Expr::dim(0), 2), {below(tiling_.tiles)}, tile);
    const auto scanned = scan(builder, pieces, tiling_.vector > 1, parity, carries);
    for (size_t u = 0; !is_totals_ && u < pieces.size(); ++u) write(builder, scanned, u, vectors[u], pieces[u].valid);
    return carries;
  }

  /// The results of a hero in all slots of a piece, of its arrays' types.
  std::vector<Values> results(Builder& builder, const ScanHero& hero, const ScannedPiece& piece) {
    const size_t first = hero.accumulation.flagged() ? 1 : 0;
    std::vector<Values> slots;
    for (size_t slot = 0; slot < piece.within.size(); ++slot) {
      const State& before = piece.before[piece.before.size() == 1 ? 0 : slot];
      const State state = combine(builder, hero, before, piece.within[slot]);
      if (!hero.begins_with_initial) {
        slots.push_back(hero.accumulation.result(builder, initial_values(builder, hero), state));
        continue;
      }
      Values& values = slots.emplace_back();
      for (size_t i = 0; i < arrays(hero); ++i) {
        values.push_back(narrowed(builder, state[first + i], hero.accumulation.types()[i]));
      }
    }
    return slots;
  }

  void write(Builder& builder, const std::vector<std::vector<ScannedPiece>>& scanned, size_t u, Value vector,
             Value valid) {
    Values packed = zeros(builder, all_types(), /*are_wide=*/false, slots());
    size_t next = 0;
    for (size_t h = 0; h < heroes_.size(); ++h) {
      const std::vector<Values> values = results(builder, heroes_[h], scanned[h][u]);
      for (size_t i = 0; i < arrays(heroes_[h]); ++i, ++next) {
        for (size_t slot = 0; slot < values.size(); ++slot) {
          packed[next] =
              slots() == 1
                  ? values[slot][i]
                  : builder.create<mlir::vector::InsertOp>(values[slot][i], packed[next], static_cast<int64_t>(slot))
                        .getResult();
        }
      }
    }
    Value condition = line_valid_;
    if (valid) condition = condition ? builder.create<arith::AndIOp>(condition, valid).getResult() : valid;
    outputs_ = if_holds(builder, condition, outputs_, [&](Builder& inside) {
      if (slots() == 1) return write_slot(inside, packed, vector, index_constant(inside, 0), outputs_);
      IndexingMap map;
      map.ranges = {below(slots())};
      auto loop = create_loop(inside, map, {}, outputs_, /*vector=*/0,
                              [&](Builder& innermost, ValueRange ranges, ValueRange, ValueRange before) {
                                Values values;
                                for (const Value all : packed) {
                                  values.push_back(innermost.create<mlir::vector::ExtractOp>(all, ranges[0]));
                                }
                                return write_slot(innermost, values, vector, ranges[0], Values(before));
                              });
      return Values(loop.getResults());
    });
  }

  /// Writes all outputs at an element: those that are computed of the heroes' values, and the others.
  Values write_slot(Builder& builder, const Values& values, Value vector, Value slot, Values outputs) {
    HeroValues heroes;
    size_t next = 0;
    for (const ScanHero& hero : heroes_) {
      for (size_t i = 0; i < arrays(hero); ++i) heroes[hero.id].push_back(values[next++]);
    }
    for (const bool with_heroes : {true, false}) {
      for (const int function : root_functions(plan_.split, with_heroes)) {
        const InstructionId result =
            functions_.partition().functions[static_cast<size_t>(function)].results[0].instruction;
        const hlo::Shape& shape = indexing::element_shape(functions_.computation()[result].shape, 0);
        const Values index = apply_map(builder, index_in(shape), {{line_, vector, slot}, {}, {}});
        outputs = write_outputs(builder, functions_, function, kernel_.inputs(), index,
                                functions_.injected(function, heroes), outputs);
      }
    }
    return outputs;
  }

  // --- chunks ---

  /// Where the total of a chunk is in its temporary.
  Value place_of_total(Builder& builder, Value chunk, Value column) {
    const Expr place = (Expr::dim(0) * tiling_.lines() + Expr::dim(1)) * tiling_.columns + Expr::dim(2);
    return at(builder, place, {below(tiling_.chunks - 1), below(tiling_.lines()), below(tiling_.columns)},
              {chunk, line_, column});
  }

  Values written_totals(Builder& builder, const std::vector<States>& carries) {
    Value condition = line_valid_;
    const auto require = [&](Value more) {
      condition = condition ? builder.create<arith::AndIOp>(condition, more).getResult() : more;
    };
    if (tiling_.lanes > 1) require(compare(builder, CmpIPredicate::eq, lane_, index_constant(builder, 0)));
    if (tiling_.warps > 1) {
      require(compare(builder, CmpIPredicate::eq, at_place(builder, warp_expr_), index_constant(builder, 0)));
    }
    const Values temporaries(kernel_.temporaries());
    return if_holds(builder, condition, temporaries, [&](Builder& inside) {
      Values after(temporaries);
      const Value chunk = at_place(inside, chunk_expr_);
      size_t next = 0;
      for (size_t h = 0; h < heroes_.size(); ++h) {
        const size_t first = heroes_[h].accumulation.flagged() ? 1 : 0;
        for (size_t i = 0; i < arrays(heroes_[h]); ++i, ++next) {
          for (size_t c = 0; c < columns(); ++c) {
            const Value place = place_of_total(inside, chunk, index_constant(inside, static_cast<int64_t>(c)));
            after[next] = inside.create<mlir::tensor::InsertOp>(carries[h][c][first + i], after[next], place);
          }
        }
      }
      return after;
    });
  }

  /// What comes before the block's chunk: the block scans the totals of the chunks before as it does a tile.
  std::vector<States> carries_of_chunk(Builder& builder, std::vector<States> carries) {
    const int64_t count = tiling_.chunks - 1;
    const int64_t unroll = indexing::ceil_div(count, tiling_.warps * tiling_.lanes);
    const Value chunk = at_place(builder, chunk_expr_);
    std::vector<Piece> pieces;
    for (int64_t u = 0; u < unroll; ++u) {
      const Expr number = (warp_expr_ * unroll + u) * tiling_.lanes + lane_expr_;
      Value other = at_place(builder, number);
      const Value valid = compare(builder, CmpIPredicate::slt, other, chunk);
      other = builder.create<arith::MinSIOp>(other, index_constant(builder, count - 1));
      pieces.push_back(piece(builder, tiling_.columns, valid, [&](Builder& inside, Value column) {
        Values totals;
        for (const Value temporary : kernel_.temporaries()) {
          totals.push_back(inside.create<mlir::tensor::ExtractOp>(temporary, place_of_total(inside, other, column)));
        }
        return totals;
      }));
    }
    // The first tile has the other half of shared memory.
    scan(builder, pieces, /*along=*/false, index_constant(builder, 1), carries);
    return carries;
  }
};

}  // namespace

int64_t scan_shared_bytes(const ScanPlan& plan) {
  const ScanTiling& tiling = plan.tiling;
  if (tiling.warps == 1) return 0;
  const hlo::Computation& computation = (*plan.split.module)[plan.split.computation];
  const int64_t elements = 2 * tiling.warps * tiling.lines_of_warp() * tiling.columns;
  int64_t bytes = 0;
  for (const InstructionId id : plan.split.heroes) {
    const hlo::Instruction& it = computation[id];
    const size_t count = it.operands.size() / 2;
    bytes += elements + 15;  // a flag
    for (size_t i = 0; i < count; ++i) {
      const hlo::ElementType type = indexing::element_shape(it.shape, static_cast<int>(i)).type;
      bytes += elements * hlo::byte_width(wide_type(type)) + 15;
    }
  }
  return bytes;
}

Result<void> emit_scan(FusionFunctions& functions, const ScanPlan& plan, const std::string& name,
                       const Decision& decision) {
  std::vector<ScanHero> heroes;
  for (const InstructionId id : plan.split.heroes) {
    STRATA_TRY(Accumulation accumulation, Accumulation::create(functions, id));
    const bool begins = !plan.tiling.reverse || accumulation.has_name();
    heroes.push_back({id, std::move(accumulation), begins});
  }
  for (size_t i = 0; i < decision.launches.size(); ++i) {
    const bool totals = i + 1 < decision.launches.size();
    std::vector<size_t> only_read;
    for (size_t n = 0; !totals && n < decision.temporaries.size(); ++n) only_read.push_back(n);
    Kernel kernel(functions, name, decision, i, only_read);
    STRATA_CHECK(ScanEmitter(functions, plan, heroes, kernel, decision.launches[i], totals).run());
  }
  return {};
}

}  // namespace strata::emitters

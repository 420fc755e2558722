// The dialect of the emitters: what a kernel does with tensors and indices before both become pointers and integers.
// Tensors are values until the last lowering: an operation that writes gives a new tensor. docs/emitters.md has the
// conventions that functions keep.

#ifndef STRATA_DIALECT_TD
#define STRATA_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def StrataDialect : Dialect {
  let name = "strata";
  let cppNamespace = "::strata::emitters";
  let summary = "Kernels over tensor values and indexing maps";
  let useDefaultAttributePrinterParser = 1;
}

//===- Attributes ------------------------------------------------------------------------------------------------===//

class StrataAttr<string name, string mnemonic_> : AttrDef<StrataDialect, name> { let mnemonic = mnemonic_; }

def MapAttr : StrataAttr<"Map", "map"> {
  let summary = "An indexing map (src/indexing)";
  let description = [{`#strata.map<"(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 7], s0 in [0, 3]">`}];
  // Given out by reference: it is compared and read far more often than made.
  let parameters = (ins AttrParameter<"::strata::indexing::IndexingMap", "the map",
                                      "const ::strata::indexing::IndexingMap&">:$map);
  let hasCustomAssemblyFormat = 1;
}

def SharedTileAttr : StrataAttr<"SharedTile", "shared"> {
  let summary = "How the elements of a tensor lie in shared memory: the encoding of its type";
  let description = [{
    `padding` elements follow each row of the last dimension. With `chunk` c > 0, a power of two, chunks of c elements
    stay together and the number of a chunk within its row is combined with the row's number by exclusive or: see
    indexing::SharedTile, whose address() this is.
  }];
  let parameters = (ins DefaultValuedParameter<"int64_t", "0">:$padding, DefaultValuedParameter<"int64_t", "0">:$chunk);
  let assemblyFormat = "(`<` struct($padding, $chunk)^ `>`)?";
}

// How an element is combined with what is there already. It stays a name until instructions are chosen, so that what
// hardware has an instruction for never becomes a loop of compare-and-swap. Signed and unsigned, and how NaN counts, are
// part of the name; `custom` has a region.
def Combiner : I32EnumAttr<"Combiner", "how two values are combined", [
    I32EnumAttrCase<"Custom", 0, "custom">, I32EnumAttrCase<"Add", 1, "add">, I32EnumAttrCase<"Mul", 2, "mul">,
    I32EnumAttrCase<"MinS", 3, "mins">, I32EnumAttrCase<"MaxS", 4, "maxs">, I32EnumAttrCase<"MinU", 5, "minu">,
    I32EnumAttrCase<"MaxU", 6, "maxu">, I32EnumAttrCase<"MinF", 7, "minf">, I32EnumAttrCase<"MaxF", 8, "maxf">,
    I32EnumAttrCase<"And", 9, "and">, I32EnumAttrCase<"Or", 10, "or">, I32EnumAttrCase<"Xor", 11, "xor">,
    I32EnumAttrCase<"Replace", 12, "replace">]> {
  let cppNamespace = "::strata::emitters";
}

//===- Operations ------------------------------------------------------------------------------------------------===//

class StrataOp<string mnemonic, list<Trait> traits = []> : Op<StrataDialect, mnemonic, traits>;

def YieldOp : StrataOp<"yield", [Pure, ReturnLike, Terminator, ParentOneOf<["LoopOp", "AtomicRmwOp"]>]> {
  let summary = "Ends the body of a loop or of an atomic update";
  let arguments = (ins Variadic<AnyType>:$values);
  let builders = [OpBuilder<(ins), "/* without values */">];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def ApplyIndexingOp : StrataOp<"apply_indexing", [Pure]> {
  let summary = "The results of an indexing map at its dimensions";
  let description = [{
    One operand a dimension of the map, one result a result of it. The map has dimensions only, no constraints: the
    ranges of its dimensions are facts about the operands, on which simplification and the width of integers rest.

        %i:2 = strata.apply_indexing #strata.map<"(d0) -> (d0 floordiv 8, d0 mod 8), domain: d0 in [0, 63]">(%thread)
  }];
  let arguments = (ins MapAttr:$map, Variadic<Index>:$dims);
  let results = (outs Variadic<Index>:$indices);
  let builders = [OpBuilder<(ins "const ::strata::indexing::IndexingMap&":$map, "::mlir::ValueRange":$dims)>];
  let assemblyFormat = [{ $map `(` $dims `)` attr-dict custom<IndexResults>(type($indices)) }];
  let hasFolder = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    const ::strata::indexing::IndexingMap& indexing_map() { return getMap().getMap(); }
  }];
}

def LoopOp : StrataOp<"loop", [AttrSizedOperandSegments, SingleBlockImplicitTerminator<"YieldOp">,
                              RecursiveMemoryEffects]> {
  let summary = "A loop nest over the range variables of an indexing map";
  let description = [{
    The body runs once for each point of the map's domain at the given dimensions, the last range variable fastest. Its
    arguments are the range variables, the map's results and the iteration arguments; it yields the next iteration
    arguments. Points that the constraints exclude are skipped. Range variable `vector`, where given, counts through
    elements that one thread accesses together: loads and stores over it may become vectors.

        %out = strata.loop (%block, %thread) in #map iter_args(%o = %init) -> tensor<64xf32> {vector = 1} {
        ^bb0(%s0: index, %s1: index, %i: index, %o: tensor<64xf32>): ... strata.yield %next : tensor<64xf32> }
  }];
  let arguments = (ins MapAttr:$map, Variadic<Index>:$dims, Variadic<AnyType>:$inits,
                       OptionalAttr<I64Attr>:$vector);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let builders = [OpBuilder<(ins "const ::strata::indexing::IndexingMap&":$map, "::mlir::ValueRange":$dims,
                                 "::mlir::ValueRange":$inits, "std::optional<int64_t>":$vector)>];
  let skipDefaultBuilders = 1;
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    const ::strata::indexing::IndexingMap& indexing_map() { return getMap().getMap(); }
    ::mlir::Block::BlockArgListType range_variables();
    ::mlir::Block::BlockArgListType map_results();
    ::mlir::Block::BlockArgListType iteration_arguments();
  }];
}

def PureCallOp : StrataOp<"pure_call", [Pure, DeclareOpInterfaceMethods<CallOpInterface>,
                                        DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A call without side effects, so that equal calls are one";
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<AnyType>:$operands);
  let results = (outs Variadic<AnyType>);
  let assemblyFormat = "$callee `(` $operands `)` attr-dict `:` functional-type($operands, results)";
}

def PredicatedInsertOp : StrataOp<"predicated_insert", [Pure, TypesMatchWith<"result is the tensor", "dest", "result", "$_self">]> {
  let summary = "The tensor with an element replaced if a condition holds";
  let arguments = (ins I1:$condition, AnyType:$value, AnyRankedTensor:$dest, Variadic<Index>:$indices);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$value `into` $dest `[` $indices `]` `if` $condition attr-dict `:` type($value) `,` type($dest)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def PredicatedExtractOp : StrataOp<"predicated_extract", [Pure, TypesMatchWith<"result is the fallback's type", "fallback", "result", "$_self">]> {
  let summary = "An element of a tensor if a condition holds, else another value; nothing is read then";
  let arguments = (ins I1:$condition, AnyType:$fallback, AnyRankedTensor:$source, Variadic<Index>:$indices);
  let results = (outs AnyType:$result);
  let assemblyFormat =
      "$source `[` $indices `]` `if` $condition `else` $fallback attr-dict `:` type($fallback) `,` type($source)";
  let hasVerifier = 1;
}

def AtomicRmwOp : StrataOp<"atomic_rmw", [Pure, TypesMatchWith<"result is the tensor", "dest", "result", "$_self">]> {
  let summary = "The tensor with an element combined with a value, in one step for all threads of the grid";
  let description = [{
    Of type pure: it makes a new tensor. `custom` has a region, (element, value) to the new element. Floats to be added
    may be a vector: of elements from the index on, which is a multiple of their number; each is atomic by itself.

        %t = strata.atomic_rmw add %v into %out[%i] : f32, tensor<64xf32>
  }];
  let arguments = (ins DefaultValuedAttr<Combiner, "Combiner::Custom">:$combiner, AnyType:$value, AnyRankedTensor:$dest,
                       Variadic<Index>:$indices);
  let results = (outs AnyRankedTensor:$result);
  let regions = (region MaxSizedRegion<1>:$body);
  let assemblyFormat = [{
    $combiner $value `into` $dest `[` $indices `]` attr-dict `:` type($value) `,` type($dest) ($body^)?
  }];
  let hasVerifier = 1;
}

def AllocateSharedOp : StrataOp<"allocate_shared", [MemoryEffects<[MemAlloc]>]> {
  let summary = "A tile of the block's shared memory";
  let description = [{Its elements are undefined at first. The encoding of the type says how they lie.}];
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def SyncThreadsOp : StrataOp<"sync_threads", [AllTypesMatch<["tensors", "results"]>]> {
  let summary = "The tensors as they are when all threads of the block have come here";
  let arguments = (ins Variadic<AnyRankedTensor>:$tensors);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = "$tensors attr-dict `:` type($tensors)";
}

def ShuffleReduceOp : StrataOp<"shuffle_reduce", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>, AllTypesMatch<["values", "results"]>]> {
  let summary = "Combines values across lanes of a warp";
  let description = [{
    Lane i combines its values with those of lane i + distance, then i + distance / 2, and so on to 1. `distance` is a
    power of two below 32; the first lane of each 2 · distance has the whole. All lanes of the warp must come here.
    The combiner takes all values of the lower lane, then all of the higher one.

        %s = strata.shuffle_reduce(%v) to 16 combiner = @add : f32
  }];
  let arguments = (ins Variadic<AnyType>:$values, I64Attr:$distance, FlatSymbolRefAttr:$combiner);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = "`(` $values `)` `to` $distance `combiner` `=` $combiner attr-dict `:` type($values)";
  let hasVerifier = 1;
}

def ShuffleIndexOp : StrataOp<"shuffle_index", [Pure, AllTypesMatch<["values", "results"]>]> {
  let summary = "The values that another lane of the warp has";
  let description = [{
    `lane` is from 0 to 31; each lane may ask for another one. All lanes of the warp must come here.

        %s = strata.shuffle_index(%v) from %lane : f32
  }];
  let arguments = (ins Variadic<AnyType>:$values, Index:$lane);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = "`(` $values `)` `from` $lane attr-dict `:` type($values)";
}

def WarpProductOp : StrataOp<"warp_product", [Pure, TypesMatchWith<"result is what it adds to", "sums", "result", "$_self">]> {
  let summary = "Adds the product of two matrices that the lanes of a warp hold: 16 by 16 and 16 by 8 of 16-bit floats, or 16 by 32 and 32 by 8 of i8";
  let description = [{
    PTX's mma.m16n8k16 with sums in f32. Lane l = 4 · g + t has of the first matrix rows g and g + 8, of the second and
    of the sums column g, or columns 2t and 2t + 1, as that instruction says:
    left: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1), (g, 2t + 8), (g, 2t + 9), (g + 8, 2t + 8), (g + 8, 2t + 9);
    right: (2t, g), (2t + 1, g), (2t + 8, g), (2t + 9, g);
    sums: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
    Of i8, which are signed, it is mma.m16n8k32 with sums in i32 that wrap: each pair of neighbours along the terms above
    is four of them, 4t to 4t + 3, and 16 takes the place of 8 there.
    `lane` is the thread's own. All lanes of the warp must come here.

        %s = strata.warp_product %a, %b into %c lane %l : vector<8xbf16>, vector<4xbf16>, vector<4xf32>
        %n = strata.warp_product %d, %e into %f lane %l : vector<16xi8>, vector<8xi8>, vector<4xi32>
  }];
  let arguments = (ins VectorOfLengthAndType<[8, 16], [BF16, F16, I8]>:$left,
                       VectorOfLengthAndType<[4, 8], [BF16, F16, I8]>:$right,
                       VectorOfLengthAndType<[4], [F32, I32]>:$sums, Index:$lane);
  let results = (outs VectorOfLengthAndType<[4], [F32, I32]>:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $left `,` $right `into` $sums `lane` $lane attr-dict `:` type($left) `,` type($right) `,` type($sums)
  }];
}

#endif

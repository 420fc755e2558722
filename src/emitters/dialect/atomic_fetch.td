// An atomic update whose old value is used. It is apart from the others because few files need it.

#ifndef STRATA_ATOMIC_FETCH_TD
#define STRATA_ATOMIC_FETCH_TD

include "emitters/dialect/strata_dialect.td"

def AtomicFetchOp : StrataOp<"atomic_fetch", [Pure,
    TypesMatchWith<"result is the tensor", "dest", "result", "$_self">,
    TypesMatchWith<"the old element is of the value's type", "value", "old", "$_self">]> {
  let summary = "atomic_rmw for integers, and the element as it was before";
  let description = [{
    The combiner is one that there is an instruction for; an element takes 32 or 64 bits.

        %old, %t = strata.atomic_fetch add %v into %out[%i] : i32, tensor<64xi32>
  }];
  let arguments = (ins Combiner:$combiner, AnyTypeOf<[I32, I64]>:$value, AnyRankedTensor:$dest,
                       Variadic<Index>:$indices);
  let results = (outs AnyType:$old, AnyRankedTensor:$result);
  let assemblyFormat = "$combiner $value `into` $dest `[` $indices `]` attr-dict `:` type($value) `,` type($dest)";
  let hasVerifier = 1;
}

#endif

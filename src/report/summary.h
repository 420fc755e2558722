// The sentences that the command line and the report share, so that both say the same of the same result.
#pragma once

#include <string>

#include "superopt/superoptimize.h"
#include "superopt/tune.h"

namespace strata {

/// How a proof was made, in words: what the result rests on. The one place that says so.
std::string describe_proof(const VerifyResult& proof);
/// The same in a few words, for lists.
std::string name_proof(const VerifyResult& proof);

/// The input with what it would run by, where libraries compute a part of it: "input (products by cuBLASLt)".
std::string describe_input(const Superoptimized& result);

/// One sentence: the result against the input as it would run, by times where both were measured, else by estimates.
std::string headline(const Superoptimized& result, const Profile& profile);

/// Where the first candidate is not the one of the least estimate, why; else empty.
std::string describe_order(const Superoptimized& result);

/// What a build without emitters makes worse than one with them; empty where that is nothing, or `passes` have them.
std::string describe_missing_emitters(const Superoptimized& result, const Passes& passes);

}  // namespace strata

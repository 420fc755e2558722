// Whether a text is one of HLO: a file of its own, since builds without HLO say of such texts that they are.
#include "hlo/cursor.h"
#include "hlo/text.h"

namespace strata::hlo {

bool looks_like_module(std::string_view text) {
  const SourceText source(text, "");
  Cursor cursor(source);
  if (cursor.ahead("HloModule") || cursor.ahead("ENTRY") || cursor.ahead("%")) return true;
  // "name {" or "name (parameters) -> …": the first computation of a module without a header.
  return cursor.word("a name").has_value() && (cursor.ahead("{") || cursor.ahead("("));
}

}  // namespace strata::hlo

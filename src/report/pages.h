// Reports as pages, from their JSON alone: what a folder or a file holds is enough to make its page again.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"
#include "report/json_access.h"
#include "report/words.h"

namespace strata {

/// A search's. `source`: best.cu, or empty.
std::string search_page(const Json& report, std::string_view source);
/// A module's.
std::string module_page(const Json& report);
/// A benchmark's.
std::string bench_page(const Json& report);

/// assets/glossary.html: the words of a search's page.
std::string_view search_glossary();

/// Markup of a graph beside its text and, where it is known, its code, which begins in line `first` of its file; each
/// marks the other (page/assets/graph.js). `id` is unique in the page.
std::string graph_beside_source(const Graph& graph, std::string_view id, std::string_view code, size_t first = 1);

}  // namespace strata

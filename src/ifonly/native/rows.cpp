// The row loops for one set of instructions (IFONLY_SET); compiled once for each.
#include <initializer_list>
#include <new>

#include "free_rows.hpp"
#include "intervals.hpp"
#include "multiplier_search.hpp"
#include "roots.hpp"

namespace ifonly::IFONLY_SET {

extern const Rows rows;
const Rows rows = {solve_free, roots, solve_box, open_search, search_rows};

} // namespace ifonly::IFONLY_SET

// The row loops for one set of instructions (IFONLY_SET); compiled once for each.
#include <initializer_list>
#include <new>

#include "free_rows.hpp"
#include "limited_rows.hpp"
#include "roots.hpp"

namespace ifonly::IFONLY_SET {

extern const Rows rows;
const Rows rows = {solve_free, roots, limits::solve_limited_one, limits::solve_limited};

} // namespace ifonly::IFONLY_SET

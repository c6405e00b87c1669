// The row loops for one set of instructions (IFONLY_SET); compiled once for each.
#include <initializer_list>
#include <new>

#include "free_rows.hpp"

namespace ifonly::IFONLY_SET {

extern const Rows rows;
const Rows rows = {answer_free, project_free};

} // namespace ifonly::IFONLY_SET

// The row loops for one set of instructions (IFONLY_SET); compiled once for each.
#include "few_and_rest.hpp"
#include "free_rows.hpp"
#include "sums.hpp"

namespace ifonly::IFONLY_SET {

extern const Rows rows;
const Rows rows = {answer_free, project_free, crowd::solve_crowd, passes::sum_up};

} // namespace ifonly::IFONLY_SET

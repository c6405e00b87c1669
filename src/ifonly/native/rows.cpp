// The row loops for one set of instructions (IFONLY_SET); compiled once for each.
#include "few_and_rest.hpp"
#include "free_rows.hpp"
#include "intervals.hpp"
#include "limited_rows.hpp"
#include "many_multipliers.hpp"
#include "sums.hpp"

namespace ifonly::IFONLY_SET {

extern const Rows rows;
const Rows rows = {
    .answer_free = answer_free,
    .project_free = project_free,
    .solve_rounds = few_and_rest::solve_rounds,
    .solve_few = few_and_rest::solve_few,
    .project_lean = project_lean,
    .combine_lean = combine_lean,
    .sum_up = passes::sum_up,
    .solve_box = solve_box,
    .open_search = open_search,
    .open_constrained = open_constrained,
    .search_rows = search_rows,
    .solve_limited_one = limits::solve_limited_one,
    .solve_limited = limits::solve_limited,
};

} // namespace ifonly::IFONLY_SET

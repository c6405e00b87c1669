// What is kept of a row with limits between its rounds: limited.cu goes over its features, newton.cu solves its problem over classes.
#pragma once

#include "numbers.hpp"

namespace ifonly::IFONLY_SET::limits {

constexpr int RIVALS = CLASSES - 1;

/** Where the features that are free stay free, and no others, margins are `bent` − gram q/λ. Vectors have a number for each rival. */
struct Kept {
    double q[RIVALS];
    double before[RIVALS], force[RIVALS]; // the last q that was not too far, and by how much ln q was below ln p, over the target's
    double margin[RIVALS], bent[RIVALS];  // of the source; of the free features alone
    double lam, slope, room;              // λ; that of D from `before` towards q; what rounding needs of the logit that is asked for
    double gram[RIVALS * RIVALS];         // of the free features
};

// A row is fresh, then open for a problem over classes, to which its q may be near, or has tried too long a step; what it is in the end
// is as in problem/status.py.
enum Status : signed char { LEFT = -1, EXACT = 0, CONVERGED = 1, FRESH = 10, OPEN = 11, NEAR_BY = 12, TRIED = 13 };

constexpr double ASTRAY = 8.0; // by how much λ changes where no λ reaches a goal as long as the same features are free

/** How far below a logit is near enough, beside `room`. */
IFONLY_HD double nearly(double logit) { return 8.0 * EPS * (magnitude(logit) + 1.0); }

} // namespace ifonly::IFONLY_SET::limits

// From a solved row to what is claimed of it: engines/rounding.py and engines/windows.py in one place, for any number type.
#pragma once

#include "newton.hpp"

namespace ifonly::IFONLY_SET {

constexpr double UNIT = 0.5 * EPS;
constexpr double HALF = 1e-7;         // of the terms: by no more is a distance off that is the root of a difference of squares
constexpr double LARGEST = 1e100;     // of ‖x̄‖: beyond, squares overflow
constexpr double TINY_SQUARE = 1e-280; // below, squares lose digits to underflow
constexpr double LEAST_P = 1e-290;    // below, the exponentials are at their end

/** What all rows with one target share: engines.rounding.Lengths and Rounding. */
struct Precision {
    int K;
    double gamma, coarse; // the relative error of a logit's sum; how many times more coarsely the user's estimator rounds
    double span;          // max‖ā_j‖
    double norm, terms, swing; // engines.rounding.Extent of a change with Σ|q|/λ = 1
    double logs = 0.0;         // problem.goals.in_logs
};

/** How large a source is: bounds on ‖x̄‖ and on the terms of its logits. */
template <class T> struct Sizes {
    T norm, terms;
};

template <class T> IFONLY_HD T swing_of(const Precision &of, const Sizes<T> &sizes) {
    return smaller(2.0 * sizes.terms, of.span * sizes.norm);
}

/** Where logit(1 − p_k) has to end, from what it has to be for the user: engines.windows.Window.of. */
template <class T> IFONLY_HD Goal<T> window_of(const Precision &of, const Sizes<T> &sizes, T size, T wanted) {
    const T margins = 2.0 * of.gamma * sizes.terms + 2.0 * UNIT * size, swing = UNIT * swing_of(of, sizes);
    const double ours = (2.0 * of.gamma + UNIT * (of.K + 4)) * of.swing;
    T coarse = T{} + of.coarse;
    if (of.logs > 0.0) coarse *= larger(T{} + 1.0, of.logs * (1.0 + exponential(-wanted))); // 1 + e^−wanted is 1/(1 − p)
    const T far = coarse * (of.span > 0.0 ? 2.0 * of.gamma * of.terms / of.span : 0.0); // terms are row_norm·span
    const T theirs = coarse * (UNIT * of.swing) + far * (HALF * of.norm);
    return {wanted, margins + (of.K + 4.0) * swing + coarse * (margins + swing), ours + theirs,
            8.0 * EPS * (magnitude(wanted) + 1.0), far};
}

/** A bound on ‖∇E‖ at the x that is handed out. */
template <class T, int N, bool GOAL, class Team>
IFONLY_HD T bound_of(const Solver<T, N, GOAL, Team> &solver, const Precision &of, const Sizes<T> &sizes, const double *lengths) {
    const auto &x = solver.x;
    T pull{}, apart{}, amount{};
    EACH(i) {
        pull += x.p[i] * lengths[i];
        apart += magnitude(x.r[i]) * lengths[i];
        amount += magnitude(x.q[i]);
    }
    pull = Team::sum(pull);
    apart = Team::sum(apart);
    const T change = Team::sum(amount) * solver.il, swing = of.swing * change;
    const T margin = 2.0 * of.gamma * (sizes.terms + swing) + 2.0 * UNIT * solver.size +
                     UNIT * (of.K + 4) * (swing_of(of, sizes) + swing);
    const T computed = smaller(apart, square_root(solver.lam * larger(solver.gg, T{})) + HALF * apart);
    // a probability is off by a factor of exp(2·margin); that less 1 is at most y(1 + y) for a small y, and loses no digits
    const T y = 2.0 * margin, off = select(y < 0.5, y * (1.0 + y), exponential(smaller(y, T{} + 300.0)));
    return computed + pull * (off + UNIT * (of.K + 8)) +
           solver.lam * UNIT * (of.K + 4.0) * (sizes.norm + of.norm * change);
}

} // namespace ifonly::IFONLY_SET

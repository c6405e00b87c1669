// Problems with limits on features one by one: what is claimed of an answer, for CPU and GPU.
#pragma once

#include "numbers.hpp"

namespace ifonly::IFONLY_SET::limits {

constexpr double TOO_LONG = 0.5; // of D's slope: an end of a step at which it is further below zero is too far
constexpr double SAME = 0.5e-10; // relative: half of what problem/checker.py allows

/** How a model rounds. */
struct Errors {
    double per_term, per_size, offset;                 // of `CostSpace.rounding`
    double sum_error, row_error, largest_b, mu_length; // `summation_error` of D + 2 and K + 6; max|b|; ‖μ‖
    double logs;                                       // problem.goals.in_logs

    /** How far a margin can be from ours when the user's own estimator evaluates it (`CostSpace.rounding`). */
    IFONLY_HD double rounding(double terms, double size) const { return per_term * (terms + offset) + per_size * size; }

    /** … and its probability, where that has to be as large as `prob`: so many times as much (problem.goals.coarser). */
    IFONLY_HD double coarser(double prob) const { return logs > 0.0 ? larger(1.0, logs / (1.0 - prob)) : 1.0; }
};

/** What is summed over the features of an answer, and over its rivals. */
struct Sums {
    double square, sparse, norm;    // Σt², Σμ|t|, ‖ξ‖² for the part ξ of the gradient that no limit takes up
    double terms;                   // the size of what logits are summed from
    double others, pull, pull_terms; // Σp_j, Σp_j‖b_j‖, Σp_j‖(|a_j| + |a_k|)/c‖
};

/** The numbers of an answer: `LimitedProblem.certificate` and `certified`, with the triangle inequality for the rivals' parts of the
 *  rounding. `prob` is 0 for a given λ. How much rounding there is in −ln p_k. */
IFONLY_HD double claim(const Errors &of, int K, double lam, double weight, double prob, double loss, const Sums &sums, double *numbers) {
    const double distance = square_root(sums.square), cost = 0.5 * distance * distance + sums.sparse;
    const double logit_error = 4.0 * (of.sum_error * sums.terms + EPS * of.largest_b), of_p = 2.0 * logit_error + (K + 8) * EPS;
    const double rounded = lam * of.sum_error * distance + 2.0 * EPS * weight * of.mu_length + sums.pull * of_p +
                           of.row_error * sums.pull_terms;
    const double grad_norm = square_root(sums.norm) + rounded;
    double gap = grad_norm * grad_norm / (2.0 * lam);
    const double objective = 0.5 * lam * distance * distance + weight * sums.sparse + loss;
    if (prob > 0.0) {
        const double of_goal = loss + logarithm(prob); // ≤ 0 where the goal is reached
        gap += larger(-of_goal, 0.0) + sums.others * logit_error + 4.0 * EPS * (loss - logarithm(prob));
        gap = smaller(gap / lam, cost);
    }
    const double found[] = {lam, distance, objective, grad_norm, cost, gap};
    for (int i = 0; i < 6; i++) numbers[i] = found[i];
    return sums.others * logit_error;
}

} // namespace ifonly::IFONLY_SET::limits

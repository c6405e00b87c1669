// φ(α, β), the root of t = 1/(1 + exp(αt + β)): theorem 4.2's one equation, as in engines/phi.py.
#pragma once

#include "numbers.hpp"

namespace ifonly::IFONLY_SET {

constexpr int EXACT_ROOT_STEPS = 6;

/** To a few ulp, for 1e-100 < α < 1e100 and |β| ≤ 300. */
template <class T> IFONLY_HD T root_of(T alpha, T beta) {
    const T log_alpha = logarithm(alpha);
    const T high = log_alpha - (larger(beta, T{}) + logarithm_of_one_more(exponential(-magnitude(beta))));
    const T drop = log_alpha - beta, far = larger(drop, T{} + 2.0), guess = logarithm(far - logarithm(far));
    T ell = smaller(select(drop > 2.0, guess, high), high); // ln(αt)
    for (int i = 0; i < EXACT_ROOT_STEPS; i++) {
        const T y = exponential(ell), over = y + beta, e = exponential(-magnitude(over));
        const T value = ell + larger(over, T{}) + logarithm_of_one_more(e) - log_alpha;
        ell -= value / (1.0 + y * select(over > 0.0, T{} + 1.0, e) / (1.0 + e));
    }
    T t = smaller(exponential(smaller(ell, high)) / alpha, T{} + 1.0);
    // the last step on the ratio t(1 + e^{αt + β}), which is 1 at the root
    const T y = alpha * t, most = larger(beta, T{});
    const T odds = exponential(most) * exponential(smaller(y + (beta - most), T{} + 700.0));
    return t - t * (t * (1.0 + odds) - 1.0) / (1.0 + y * (1.0 - t));
}

} // namespace ifonly::IFONLY_SET

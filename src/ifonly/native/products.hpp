// The two passes over A for a few rows at a time: what a source is in class space, and the source after its change. A is of any
// numbers, and all sums are in double precision.
#pragma once

#include "spans.hpp"

namespace ifonly::IFONLY_SET {

/** z[r][j] = a_j · x_r for X rows x_r and J rows of A. */
template <int X, int J, class S>
inline void dots(const double *const *x, const S *A, i64 D, double *const *z) {
    Lanes sum[X][J] = {};
    i64 d = 0;
    for (; d + WIDTH <= D; d += WIDTH) {
        Lanes at[X];
        for (int r = 0; r < X; r++) at[r] = load<Lanes>(x[r] + d);
        for (int j = 0; j < J; j++) {
            const Lanes a = read(A + j * D + d);
            for (int r = 0; r < X; r++) sum[r][j] += a * at[r];
        }
    }
    for (int r = 0; r < X; r++)
        for (int j = 0; j < J; j++) {
            double total = sum_of(sum[r][j]);
            for (i64 e = d; e < D; e++) total += A[j * D + e] * x[r][e];
            z[r][j] = total;
        }
}

template <int X, class S> inline void project_some(const double *const *x, const S *A, int R, i64 D, double *const *z) {
    constexpr int J = WIDTH == 8 ? 8 : 4;
    double *at[X];
    int j = 0;
    const auto some = [&](auto count) {
        for (int r = 0; r < X; r++) at[r] = z[r] + j;
        dots<X, count.value>(x, A + j * D, D, at);
        j += count.value;
    };
    while (j + J <= R) some(Count<J>{});
    if (J > 4 && j + 4 <= R) some(Count<4>{});
    if (j + 2 <= R) some(Count<2>{});
    if (j < R) some(Count<1>{});
    if (j < R) some(Count<1>{});
}

/** z_r = A x_r for some rows x_r of D numbers; A is (R, D). */
template <class S> inline void project(int rows, const double *const *x, const S *A, int R, i64 D, double *const *z) {
    int r = 0;
    for (; r + 2 <= rows; r += 2) project_some<2>(x + r, A, R, D, z + r);
    if (r < rows) project_some<1>(x + r, A, R, D, z + r);
}

/** ‖x‖². */
inline double square_of(const double *x, i64 D) {
    Lanes sum{};
    i64 d = 0;
    for (; d + WIDTH <= D; d += WIDTH) sum += load<Lanes>(x + d) * load<Lanes>(x + d);
    double total = sum_of(sum);
    for (; d < D; d++) total += x[d] * x[d];
    return total;
}

/** Σ_d |x_d| s_d. */
inline double weighed(const double *x, const double *sizes, i64 D) {
    Lanes sum{};
    i64 d = 0;
    for (; d + WIDTH <= D; d += WIDTH) sum += magnitude(load<Lanes>(x + d)) * load<Lanes>(sizes + d);
    double total = sum_of(sum);
    for (; d < D; d++) total += magnitude(x[d]) * sizes[d];
    return total;
}

/** change_r += Σ_j coef_r[j]·a_j for X rows, J rows of A. */
template <int X, int J, class S>
inline void combine_some(const double *const *coef, const S *A, i64 D, double *const *change, bool first) {
    i64 d = 0;
    for (; d + WIDTH <= D; d += WIDTH) {
        Lanes sum[X];
        for (int r = 0; r < X; r++) sum[r] = first ? Lanes{} : load<Lanes>(change[r] + d);
        for (int j = 0; j < J; j++) {
            const Lanes a = read(A + j * D + d);
            for (int r = 0; r < X; r++) sum[r] += coef[r][j] * a;
        }
        for (int r = 0; r < X; r++) store(change[r] + d, sum[r]);
    }
    for (; d < D; d++)
        for (int r = 0; r < X; r++) {
            double sum = first ? 0.0 : change[r][d];
            for (int j = 0; j < J; j++) sum += coef[r][j] * A[j * D + d];
            change[r][d] = sum;
        }
}

/** change_r = Aᵀ coef_r. */
template <int X, class S> inline void combine(const double *const *coef, const S *A, int R, i64 D, double *const *change) {
    const double *at[X];
    int j = 0;
    const auto some = [&](auto count) {
        for (int r = 0; r < X; r++) at[r] = coef[r] + j;
        combine_some<X, count.value>(at, A + j * D, D, change, j == 0);
        j += count.value;
    };
    while (j + 4 <= R) some(Count<4>{});
    if (j + 2 <= R) some(Count<2>{});
    if (j < R) some(Count<1>{});
}

/** z = A x, and change = Aᵀ coef, for A (R, D) in single precision. */
inline void project_lean(const float *A, int R, i64 D, const double *x, double *z) { project(1, &x, A, R, D, &z); }
inline void combine_lean(const float *A, int R, i64 D, const double *coef, double *change) { combine<1>(&coef, A, R, D, &change); }

} // namespace ifonly::IFONLY_SET

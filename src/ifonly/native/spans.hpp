// Long vectors in memory, one row's: sums and products over them, a vector of lanes at a time.
//
// A sum has one order for all lengths: it does not depend on threads, nor on what else is summed beside it.
#pragma once

#include <type_traits>

#include "numbers.hpp"

namespace ifonly::IFONLY_SET {

using Lanes = Doubles<WIDTH>;

template <class V, class Number> IFONLY_HD V load(const Number *at) {
    V v;
    __builtin_memcpy(&v, at, sizeof v);
    return v;
}
template <class V, class Number> IFONLY_HD void store(Number *at, V v) { __builtin_memcpy(at, &v, sizeof v); }

/** A vector of numbers in single or double precision, in double. */
template <class S> IFONLY_HD Lanes read(const S *at) {
    if constexpr (sizeof(S) == sizeof(double)) return load<Lanes>(at);
    else return exact(load<Floats<WIDTH>>(at));
}

/** Some numbers, and 0 in the other lanes. */
template <class V, class Number> IFONLY_HD V load_some(const Number *at, i64 count) {
    V v{};
    __builtin_memcpy(&v, at, count * sizeof(Number));
    return v;
}

/** The sum of the lanes, by halves. */
template <class V> IFONLY_HD auto sum_of(V v) {
    using Number = std::remove_cvref_t<decltype(v[0])>;
    constexpr int W = sizeof(V) / sizeof(Number);
    if constexpr (W == 2) return v[0] + v[1];
    else {
        typename VectorOf<Number, W / 2>::type halves[2];
        __builtin_memcpy(halves, &v, sizeof v);
        return sum_of(halves[0] + halves[1]);
    }
}

/** So many numbers as take whole vectors. */
IFONLY_HD i64 padded(i64 n) { return (n + 7) & ~7LL; }

// Over vectors whose length is a multiple of 8.

IFONLY_HD double dot(i64 n, const double *x, const double *y) {
    Lanes a{}, b{};
    i64 i = 0;
    for (; i + 2 * WIDTH <= n; i += 2 * WIDTH) {
        a += load<Lanes>(x + i) * load<Lanes>(y + i);
        b += load<Lanes>(x + i + WIDTH) * load<Lanes>(y + i + WIDTH);
    }
    for (; i < n; i += WIDTH) a += load<Lanes>(x + i) * load<Lanes>(y + i);
    return sum_of(a + b);
}

IFONLY_HD double sum(i64 n, const double *x) {
    Lanes a{};
    for (i64 i = 0; i < n; i += WIDTH) a += load<Lanes>(x + i);
    return sum_of(a);
}

IFONLY_HD double sum_of_sizes(i64 n, const double *x) {
    Lanes a{};
    for (i64 i = 0; i < n; i += WIDTH) a += magnitude(load<Lanes>(x + i));
    return sum_of(a);
}

IFONLY_HD double largest_of(Lanes v) {
    double top = v[0];
    for (int w = 1; w < WIDTH; w++) top = v[w] > top ? v[w] : top;
    return top;
}

IFONLY_HD double largest_size(i64 n, const double *x) {
    Lanes top{};
    for (i64 i = 0; i < n; i += WIDTH) top = larger(magnitude(load<Lanes>(x + i)), top);
    return largest_of(top);
}

} // namespace ifonly::IFONLY_SET

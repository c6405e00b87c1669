// Numbers that row loops are written in: one double, or a vector of lanes, one row each; float twins of both for rough work.
//
// A loop's text is a template of its number type T. What looks like a branch on a row is a `select` on a mask, and a loop goes
// on while `any` lane has to. With T = double (one row, or a thread of a GPU) a mask is a bool and nothing is lost.
#pragma once

#ifdef __AVX2__
#include <immintrin.h>
#endif

#ifdef __CUDACC__
#define IFONLY_HD __device__ __forceinline__
#else
#define IFONLY_HD inline __attribute__((always_inline))
#endif

#ifndef IFONLY_SET
#define IFONLY_SET baseline
#endif

namespace ifonly::IFONLY_SET {

using i64 = long long;

constexpr double EPS = 2.220446049250313e-16;
#ifdef __CUDACC__
#define INF __longlong_as_double(0x7ffLL << 52)
#else
constexpr double INF = __builtin_huge_val();
#endif

template <int n> struct Count { // a number that the compiler knows
    static constexpr int value = n;
};

// ---- one number ----

template <class T> struct Of; // what belongs to a number type: its mask, its integers, its rough twin, and how many rows it holds

template <> struct Of<double> {
    using Mask = bool;
    using Int = i64;
    using Rough = float;
    static constexpr int lanes = 1;
};
template <> struct Of<float> {
    using Mask = bool;
    using Int = int;
    using Rough = float;
    static constexpr int lanes = 1;
};

template <class T> using Mask = typename Of<T>::Mask;
template <class T> using Int = typename Of<T>::Int;
template <class T> using Rough = typename Of<T>::Rough;

IFONLY_HD bool any(bool mask) { return mask; }
IFONLY_HD bool all(bool mask) { return mask; }
IFONLY_HD bool no(bool mask) { return !mask; }
IFONLY_HD double select(bool mask, double a, double b) { return mask ? a : b; }
IFONLY_HD float select(bool mask, float a, float b) { return mask ? a : b; }
IFONLY_HD i64 select(bool mask, i64 a, i64 b) { return mask ? a : b; }
IFONLY_HD int select(bool mask, int a, int b) { return mask ? a : b; }
IFONLY_HD float rough(double a) { return float(a); }
IFONLY_HD double exact(float a) { return double(a); }

#ifdef __CUDACC__
IFONLY_HD double magnitude(double a) { return fabs(a); }
IFONLY_HD float magnitude(float a) { return fabsf(a); }
IFONLY_HD double square_root(double a) { return sqrt(a); }
#else
#define memcpy __builtin_memcpy
IFONLY_HD double magnitude(double a) { return __builtin_fabs(a); }
IFONLY_HD float magnitude(float a) { return __builtin_fabsf(a); }
IFONLY_HD double square_root(double a) { return __builtin_sqrt(a); }
#endif

template <class To, class From> IFONLY_HD To bits_of(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
#undef memcpy

template <class T> IFONLY_HD double lane(const T &a, int w) {
    if constexpr (Of<T>::lanes == 1) return double(a);
    else return double(a[w]);
}
template <class T> IFONLY_HD void set_lane(T &a, int w, double value) {
    if constexpr (Of<T>::lanes == 1) a = T(value);
    else a[w] = value;
}

// ---- a vector of lanes ----

#ifndef __CUDACC__

#if defined(__AVX512F__)
constexpr int WIDTH = 8;
#elif defined(__AVX2__)
constexpr int WIDTH = 4;
#else
constexpr int WIDTH = 2;
#endif

template <class Scalar, int W> struct VectorOf {
    typedef Scalar type __attribute__((vector_size(W * sizeof(Scalar))));
};
template <int W> using Doubles = typename VectorOf<double, W>::type;
template <int W> using Floats = typename VectorOf<float, W>::type;
template <int W> using Longs = typename VectorOf<i64, W>::type;
template <int W> using Ints = typename VectorOf<int, W>::type;

#define IFONLY_LANES(W)                                                                                                        \
    template <> struct Of<Doubles<W>> {                                                                                        \
        using Mask = Longs<W>;                                                                                                 \
        using Int = Longs<W>;                                                                                                  \
        using Rough = Floats<W>;                                                                                               \
        static constexpr int lanes = W;                                                                                        \
    };                                                                                                                         \
    template <> struct Of<Floats<W>> {                                                                                         \
        using Mask = Ints<W>;                                                                                                  \
        using Int = Ints<W>;                                                                                                   \
        using Rough = Floats<W>;                                                                                               \
        static constexpr int lanes = W;                                                                                        \
    };                                                                                                                         \
    IFONLY_HD bool any(Longs<W> mask) {                                                                                        \
        i64 seen = 0;                                                                                                          \
        for (int w = 0; w < W; w++) seen |= mask[w];                                                                           \
        return seen != 0;                                                                                                      \
    }                                                                                                                          \
    IFONLY_HD bool all(Longs<W> mask) {                                                                                        \
        i64 seen = -1;                                                                                                         \
        for (int w = 0; w < W; w++) seen &= mask[w];                                                                           \
        return seen != 0;                                                                                                      \
    }                                                                                                                          \
    IFONLY_HD Longs<W> no(Longs<W> mask) { return ~mask; }                                                                     \
    IFONLY_HD Doubles<W> select(Longs<W> mask, Doubles<W> a, Doubles<W> b) { return mask ? a : b; }                            \
    IFONLY_HD Floats<W> select(Ints<W> mask, Floats<W> a, Floats<W> b) { return mask ? a : b; }                                \
    IFONLY_HD Longs<W> select(Longs<W> mask, Longs<W> a, Longs<W> b) { return mask ? a : b; }                                  \
    IFONLY_HD Ints<W> select(Ints<W> mask, Ints<W> a, Ints<W> b) { return mask ? a : b; }                                      \
    IFONLY_HD Doubles<W> magnitude(Doubles<W> a) { return (Doubles<W>)((Longs<W>)a & 0x7fffffffffffffffLL); }                   \
    IFONLY_HD Floats<W> magnitude(Floats<W> a) { return (Floats<W>)((Ints<W>)a & 0x7fffffff); }                                 \
    IFONLY_HD Doubles<W> square_root(Doubles<W> a) {                                                                           \
        Doubles<W> root;                                                                                                       \
        for (int w = 0; w < W; w++) root[w] = __builtin_sqrt(a[w]);                                                            \
        return root;                                                                                                           \
    }

IFONLY_LANES(WIDTH)
#undef IFONLY_LANES

// By name: of the compiler's own conversion GCC 12 makes two of half a vector and puts them together.
#if defined(__AVX512F__)
IFONLY_HD Floats<8> rough(Doubles<8> a) { return Floats<8>(_mm512_cvtpd_ps(__m512d(a))); }
IFONLY_HD Doubles<8> exact(Floats<8> a) { return Doubles<8>(_mm512_cvtps_pd(__m256(a))); }
#elif defined(__AVX2__)
IFONLY_HD Floats<4> rough(Doubles<4> a) { return Floats<4>(_mm256_cvtpd_ps(__m256d(a))); }
IFONLY_HD Doubles<4> exact(Floats<4> a) { return Doubles<4>(_mm256_cvtps_pd(__m128(a))); }
#else
IFONLY_HD Floats<WIDTH> rough(Doubles<WIDTH> a) { return __builtin_convertvector(a, Floats<WIDTH>); }
IFONLY_HD Doubles<WIDTH> exact(Floats<WIDTH> a) { return __builtin_convertvector(a, Doubles<WIDTH>); }
#endif

#endif

// ---- functions of any of them, without branches ----

template <class T> IFONLY_HD T larger(T a, T b) { return select(a > b, a, b); }
template <class T> IFONLY_HD T smaller(T a, T b) { return select(a < b, a, b); }

/** 1/a for a ≥ 1. */
template <class T> IFONLY_HD T inverse_of(T a) { return 1.0 / a; }

/** √a for 0 ≤ a ≤ 1. */
template <class T> IFONLY_HD T root_of_share(T a) { return square_root(a); }

#ifdef __CUDA_ARCH__ // the machine's approximations, and two steps of Newton: some ten instructions, not fifty
template <> IFONLY_HD double inverse_of(double a) {
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(a));
    y = fma(y, fma(-a, y, 1.0), y);
    return fma(y, fma(-a, y, 1.0), y);
}
template <> IFONLY_HD double root_of_share(double a) {
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(a));
    y = fma(0.5 * y, fma(-a * y, y, 1.0), y);
    y = fma(0.5 * y, fma(-a * y, y, 1.0), y);
    return a > 1e-290 ? a * y : 0.0; // next to nothing is nothing
}
#endif

/** eᵃ to about an ulp for a ≤ 709; 0 below −708; NaN of NaN. */
template <class T> IFONLY_HD T exponential(T a) {
    const double magic = 6755399441055744.0; // 1.5·2⁵²: adding it rounds to an integer and leaves that in the low bits
    const T x = select(a < -708.0, T{} - 708.0, a), shifted = x * 1.4426950408889634 + magic, k = shifted - magic;
    const T r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10; // x − k ln 2
    T y = r * 1.6059043836821613e-10 + 2.08767569878681e-09;                           // 1/13!, 1/12!, …
    y = y * r + 2.505210838544172e-08;
    y = y * r + 2.755731922398589e-07;
    y = y * r + 2.7557319223985893e-06;
    y = y * r + 2.48015873015873e-05;
    y = y * r + 1.984126984126984e-04;
    y = y * r + 1.388888888888889e-03;
    y = y * r + 8.333333333333333e-03;
    y = y * r + 4.1666666666666664e-02;
    y = y * r + 1.6666666666666666e-01;
    y = y * r + 0.5;
    y = y * r + 1.0;
    y = y * r + 1.0;
    y *= bits_of<T>((bits_of<Int<T>>(shifted) + 1023LL) << 52);
    return select(a < -708.0, T{}, y);
}

/** ln a to a few ulp for normal a > 0. */
template <class T> IFONLY_HD T logarithm(T a) {
    const Int<T> bits = bits_of<Int<T>>(a);
    // subtracting the bits of √½ makes the exponent the one for which the mantissa lies in [√½, √2)
    const Int<T> k = (bits - 4604544271217802189LL) >> 52;
    const T m = bits_of<T>(bits - (k << 52));
    const T s = (m - 1.0) / (m + 1.0), z = s * s;
    T y = z * (1.0 / 21) + 1.0 / 19;
    y = y * z + 1.0 / 17;
    y = y * z + 1.0 / 15;
    y = y * z + 1.0 / 13;
    y = y * z + 1.0 / 11;
    y = y * z + 1.0 / 9;
    y = y * z + 1.0 / 7;
    y = y * z + 1.0 / 5;
    y = y * z + 1.0 / 3;
    y = y * z + 1.0;
    const T exponent = bits_of<T>(k + 4843621399236968448LL) - 6755399441055744.0; // through the low bits
    return (2.0 * s * y + exponent * 1.90821492927058770002e-10) + exponent * 6.93147180369123816490e-01;
}

/** ln(1 + a) to a few ulp for 0 ≤ a < ∞. */
template <class T> IFONLY_HD T logarithm_of_one_more(T a) {
    const T sum = 1.0 + a, lost = a - (sum - 1.0); // what the 1 swallowed (or, of a large a, the last digit of a)
    return logarithm(sum) + lost / sum;
}

/** eᵃ to some six digits for −87 ≤ a ≤ 88, and what is below as at −87. */
template <class R> IFONLY_HD R rough_exp(R a) {
    const R x = select(a < -87.0f, R{} - 87.0f, select(a > 88.0f, R{} + 88.0f, a)), shifted = x * 1.44269504f + 12582912.0f;
    const R k = shifted - 12582912.0f, r = x - k * 0.69314718f;
    R y = r * (1.0f / 120) + 1.0f / 24;
    y = y * r + 1.0f / 6;
    y = y * r + 0.5f;
    y = y * r + 1.0f;
    y = y * r + 1.0f;
    return y * bits_of<R>((bits_of<Int<R>>(shifted) << 23) + (127 << 23));
}

/** ln a to some six digits for normal a > 0. */
template <class R> IFONLY_HD R rough_log(R a) {
    const Int<R> bits = bits_of<Int<R>>(a), k = (bits - 1060439283) >> 23; // the bits of √½
    const R m = bits_of<R>(bits - (k << 23)), s = (m - 1.0f) / (m + 1.0f), z = s * s;
    R y = z * (1.0f / 7) + 1.0f / 5;
    y = y * z + 1.0f / 3;
    y = y * z + 1.0f;
    const R exponent = bits_of<R>(k + 1262485504) - 12582912.0f;
    return 2.0f * s * y + exponent * 0.69314718f;
}

#ifdef __CUDA_ARCH__
template <> IFONLY_HD float rough_exp(float a) { return __expf(a); }
template <> IFONLY_HD float rough_log(float a) { return __logf(a); }
#endif

} // namespace ifonly::IFONLY_SET

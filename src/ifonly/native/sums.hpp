// One pass over A for some points: logits, Σ e^z and Σ e^z a_j over some of the classes (engines/passes.py), each row of A read
// once for all points.
//
// A tile of rows stays in the cache while both products are made of it. Every number is summed in an order of its own: it does
// not depend on how many points there are.
#pragma once

#include "free_rows.hpp"
#include "rows.hpp"
#include "spans.hpp"

namespace ifonly::IFONLY_SET::passes {

constexpr int TILE = 64;       // rows that are worked on at a time
constexpr int FEW = 3, NEXT = 8; // up to so many points rows are read as they are, and so many at a time
#if defined(__AVX512F__)
constexpr int POINTS = 4, ROWS = 6, SPAN = 6; // of a block in registers: points, rows, and vectors along D
#else
constexpr int POINTS = 2, ROWS = 4, SPAN = 4;
#endif

/** A number of IEEE's half precision. */
struct Half {
    unsigned short bits;
};

template <class P> constexpr int LANES = WIDTH * int(sizeof(double) / sizeof(P));
template <class P> using Vector = typename VectorOf<P, LANES<P>>::type;

/** A vector of numbers, as another kind of number. */
template <class P, class S> IFONLY_HD Vector<P> read(const S *at) {
    if constexpr (sizeof(P) == sizeof(S)) return load<Vector<P>>(at);
    else return __builtin_convertvector((load<typename VectorOf<S, LANES<P>>::type>(at)), Vector<P>);
}

template <class P> IFONLY_HD P widened(P a) { return a; }
IFONLY_HD float widened(Half a) { // finite: the exponent is moved by a product, which does numbers below the normal ones too
    const float size = bits_of<float>((a.bits & 0x7fffu) << 13) * 0x1p112f;
    return bits_of<float>(bits_of<unsigned>(size) | ((a.bits & 0x8000u) << 16));
}

/** Numbers along D that stay in the nearest cache for all rows of a tile: a panel. */
template <class P> constexpr int PANEL = SPAN * LANES<P>;

/** Products of a tile for some points; rows of S, sums in P. */
template <class P, class S> struct Products {
    i64 length;           // D, in whole vectors
    const S *rows;        // the tile: rows that are `apart`, or (0) panel after panel
    i64 apart;
    const P *X;           // (N, length)
    double *z;            // (N, TILE)
    const P *e;           // (N, TILE)
    double *mean;         // (N, length)
    const char *next;     // what will be read after the tile, and how much of it
    i64 bytes;

    IFONLY_HD i64 width(i64 d) const { return length - d < PANEL<P> ? length - d : PANEL<P>; } // of the panel that begins at d
    IFONLY_HD i64 step(i64 d) const { return apart ? apart : width(d); }                      // from row to row there
    IFONLY_HD const S *panel(i64 d) const { return rows + (apart ? d : d * TILE); }

    template <int M, int R> IFONLY_HD void dots(i64 n, i64 r) const {
        Vector<P> sums[M][R] = {};
        for (i64 from = 0; from < length; from += PANEL<P>) {
            const i64 step = this->step(from), width = this->width(from);
            const S *row = panel(from) + r * step;
            const P *x = X + n * length + from;
            for (i64 d = 0; d < width; d += LANES<P>) {
                Vector<P> at[M];
                for (int i = 0; i < M; i++) at[i] = load<Vector<P>>(x + i * length + d);
                for (int j = 0; j < R; j++) {
                    const Vector<P> a = read<P>(row + j * step + d);
                    for (int i = 0; i < M; i++) sums[i][j] += a * at[i];
                }
            }
        }
        for (int i = 0; i < M; i++)
            for (int j = 0; j < R; j++) z[(n + i) * TILE + r + j] = double(sum_of(sums[i][j]));
    }

    template <int M> void dots_of(i64 n, i64 from, i64 to) const {
        i64 r = from;
        for (; r + ROWS <= to; r += ROWS) dots<M, ROWS>(n, r);
        for (; r < to; r++) dots<M, 1>(n, r);
    }

    void all_dots(i64 N, i64 count) const {
        const i64 parts = ((count + ROWS - 1) / ROWS) * ((N + POINTS - 1) / POINTS), share = (bytes / parts + 64) & ~63LL;
        i64 fetched = 0;
        for (i64 r = 0; r < count; r += ROWS) { // rows that stay in the nearest cache for all points
            const i64 to = r + ROWS < count ? r + ROWS : count;
            for (i64 n = 0; n < N; n += POINTS) {
                for (const i64 end = fetched + share; fetched < end && fetched < bytes; fetched += 64)
                    __builtin_prefetch(next + fetched, 0, 2);
                if (n + POINTS <= N) dots_of<POINTS>(n, r, to);
                else
                    for (i64 i = n; i < N; i++) dots_of<1>(i, r, to);
            }
        }
    }

    /** mean += Σ e a over the rows listed, for M points and V vectors of the panel at d. */
    template <int M, int V> IFONLY_HD void add(i64 n, i64 d, i64 v, const int *list, int count) const {
        Vector<P> sums[M][V] = {};
        const i64 step = this->step(d);
        const S *from = panel(d) + v * LANES<P>;
        for (int i = 0; i < count; i++) {
            const S *row = from + list[i] * step;
            Vector<P> a[V];
            for (int j = 0; j < V; j++) a[j] = read<P>(row + j * LANES<P>);
            for (int m = 0; m < M; m++) {
                const P weight = e[(n + m) * TILE + list[i]];
                for (int j = 0; j < V; j++) sums[m][j] += a[j] * weight;
            }
        }
        for (int m = 0; m < M; m++)
            for (int j = 0; j < V; j++) {
                double *to = mean + (n + m) * length + d + (v + j) * LANES<P>;
                if constexpr (sizeof(P) == sizeof(double)) store(to, load<Lanes>(to) + sums[m][j]);
                else {
                    Floats<WIDTH> halves[2];
                    __builtin_memcpy(halves, &sums[m][j], sizeof halves);
                    for (int h = 0; h < 2; h++) store(to + h * WIDTH, load<Lanes>(to + h * WIDTH) + exact(halves[h]));
                }
            }
    }

    template <int M> void add_of(i64 n, i64 d, const int *list, int count) const {
        if (width(d) == PANEL<P>) return add<M, SPAN>(n, d, 0, list, count);
        for (i64 v = 0; v * LANES<P> < width(d); v++) add<M, 1>(n, d, v, list, count);
    }

    void add_all(i64 N, const int *lists, const int *counts) const {
        for (i64 d = 0; d < length; d += PANEL<P>) {
            i64 n = 0, block = 0;
            for (; n + POINTS <= N; n += POINTS, block++) add_of<POINTS>(n, d, lists + block * TILE, counts[block]);
            for (; n < N; n++, block++) add_of<1>(n, d, lists + block * TILE, counts[block]);
        }
    }
};

template <class P, class S> struct Summing {
    const Pass &pass;
    const i64 N, D, length;
    const bool packs;
    P *X, *e, *packed;
    double *z, *mean;
    int *lists, *counts;
    i64 *skip;

    static i64 whole(i64 D) { return (D + LANES<P> - 1) / LANES<P> * LANES<P>; }

    static i64 room(const Pass &pass) { // in bytes
        const i64 N = pass.N, length = whole(pass.D);
        return 8 * (N * length * 2 + 2 * N * TILE + TILE * length + 2 * N + N) + 4 * (N + 1) * TILE + 64 * 8;
    }

    Summing(const Pass &pass, char *memory)
        : pass(pass), N(pass.N), D(pass.D), length(whole(pass.D)),
          packs(D != length || N > FEW || sizeof(S) == sizeof(Half) || sizeof(S) > sizeof(P)) {
        const auto take = [&](auto *&to, i64 count) {
            to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(memory);
            memory += (count * i64(sizeof(*to)) + 63) & ~63LL;
        };
        take(X, N * length);
        take(e, N * TILE);
        take(packed, TILE * length);
        take(z, N * TILE);
        take(mean, N * length);
        take(skip, N);
        take(counts, N);
        take(lists, N * TILE);
        for (i64 n = 0; n < N; n++) {
            for (i64 d = 0; d < length; d++) {
                X[n * length + d] = d < D ? P(pass.X[n * D + d]) : P(0);
                mean[n * length + d] = 0.0;
            }
            pass.top[n] = -INF;
            pass.mass[n] = 0.0;
            skip[n] = pass.outside_at[n];
            while (skip[n] < pass.outside_at[n + 1] && pass.outside[skip[n]] < pass.first) skip[n]++;
        }
        for (i64 i = 0; i < N * TILE; i++) {
            e[i] = P(0);
            z[i] = 0.0;
        }
    }

    /** The logits of a tile as weights relative to the largest so far. */
    void weigh(i64 n, i64 from, int count) {
        double *here = z + n * TILE, *logits = pass.logits + n * pass.K + from;
        for (int r = 0; r < count; r++) logits[r] = here[r] += pass.b[from + r];
        const int whole = int(padded(count));
        for (int r = count; r < whole; r++) here[r] = -INF;
        for (; skip[n] < pass.outside_at[n + 1] && pass.outside[skip[n]] < from + count; skip[n]++)
            here[pass.outside[skip[n]] - from] = -INF;
        Lanes most = Lanes{} - INF, total{};
        for (int r = 0; r < whole; r += WIDTH) most = larger(load<Lanes>(here + r), most);
        const double top = largest_of(most);
        if (top > pass.top[n]) {
            const double scale = exponential(pass.top[n] - top);
            if (pass.mass[n] > 0.0)
                for (i64 d = 0; d < length; d += WIDTH) store(mean + n * length + d, load<Lanes>(mean + n * length + d) * scale);
            pass.mass[n] *= scale;
            pass.top[n] = top;
        }
        P *weights = e + n * TILE;
        if (!(pass.top[n] > -INF)) {
            for (int r = 0; r < whole; r++) weights[r] = P(0);
            return;
        }
        for (int r = 0; r < whole; r += WIDTH) {
            const Lanes below = load<Lanes>(here + r) - pass.top[n];
            const Lanes weight = select(below > pass.nothing, exponential(below), Lanes{});
            total += weight;
            for (int w = 0; w < WIDTH; w++) weights[r + w] = P(weight[w]);
        }
        pass.mass[n] += sum_of(total);
    }

    /** The rows that have a weight at one of these points. */
    int list(i64 n, i64 points, int count, int *to) const {
        int found = 0;
        for (int r = 0; r < count; r++) {
            bool some = false;
            for (i64 i = n; i < n + points; i++) some |= e[i * TILE + r] != P(0);
            to[found] = r;
            found += some;
        }
        return found;
    }

    template <class T> void tile(const T *rows, i64 apart, i64 from, int count) {
        const i64 after = pass.last - from - count, ahead = pass.apart != D || !packs ? 0 : after < TILE ? after : TILE;
        const char *next = static_cast<const char *>(pass.A) + (from + count) * pass.apart * i64(sizeof(S));
        const Products<P, T> products = {length, rows, apart, X, z, e, mean, next, ahead * D * i64(sizeof(S))};
        products.all_dots(N, count);
        for (i64 n = 0; n < N; n++) weigh(n, from, count);
        i64 n = 0, block = 0;
        for (; n + POINTS <= N; n += POINTS, block++) counts[block] = list(n, POINTS, count, lists + block * TILE);
        for (; n < N; n++, block++) counts[block] = list(n, 1, count, lists + block * TILE);
        products.add_all(N, lists, counts);
    }

    /** Rows as numbers P, panel after panel. */
    void pack(const S *rows, int count) {
        for (int r = 0; r < count; r++)
            for (i64 from = 0; from < length; from += PANEL<P>) {
                const i64 width = length - from < PANEL<P> ? length - from : PANEL<P>, known = D - from < width ? D - from : width;
                P *to = packed + from * TILE + r * width;
                const S *row = rows + r * pass.apart + from;
                for (i64 d = 0; d < known; d++) to[d] = P(widened(row[d]));
                for (i64 d = known; d < width; d++) to[d] = P(0);
            }
    }

    void run() {
        const i64 step = packs ? TILE : NEXT;
        for (i64 from = pass.first; from < pass.last; from += step) {
            const int count = int(pass.last - from < step ? pass.last - from : step);
            const S *rows = static_cast<const S *>(pass.A) + from * pass.apart;
            if (packs) {
                pack(rows, count);
                tile(packed, 0, from, count);
            } else if constexpr (sizeof(S) != sizeof(Half) && sizeof(S) <= sizeof(P)) tile(rows, pass.apart, from, count);
        }
        for (i64 n = 0; n < N; n++)
            for (i64 d = 0; d < D; d++) pass.mean[n * D + d] = mean[n * length + d];
    }
};

template <class P, class S> void sum_with(const Pass &pass) {
    const Memory memory(Summing<P, S>::room(pass));
    Summing<P, S>(pass, memory.as<char>()).run();
}

inline void sum_up(const Pass &pass) {
    switch (pass.kind) {
    case 2: return pass.rough ? sum_with<float, Half>(pass) : sum_with<double, Half>(pass);
    case 4: return pass.rough ? sum_with<float, float>(pass) : sum_with<double, float>(pass);
    default: return pass.rough ? sum_with<float, double>(pass) : sum_with<double, double>(pass);
    }
}

} // namespace ifonly::IFONLY_SET::passes

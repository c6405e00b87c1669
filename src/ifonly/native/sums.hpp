// One pass over A for some points: logits, Σ e^z and Σ e^z a_j over some of the classes (engines/passes.py), each row of A read
// once for all points.
//
// A tile of rows stays in the cache while both products are made of it.
#pragma once

#include "many_points.hpp"

namespace ifonly::IFONLY_SET::passes {

constexpr int TILE = 64;       // rows that are worked on at a time
constexpr int MANY = 8;        // from so many points on as many_points.hpp does it
constexpr int FEW = 3, NEXT = 24; // up to so many points rows are read as they are, and so many at a time: whole blocks
#if defined(__AVX512F__)
constexpr int POINTS = 4, ROWS = 6, SPAN = 6; // of a block in registers: points, rows, and vectors along D
#else
constexpr int POINTS = 4, ROWS = 2, SPAN = 2;
#endif

/** Numbers along D that stay in the nearest cache for all rows of a tile: a panel. */
constexpr int PANEL = SPAN * WIDTH;

/** Products of a tile for some points; S is what numbers its rows are of. */
template <class S> struct Products {
    i64 length;           // D, in whole vectors
    const S *rows;        // the tile: rows that are `apart`, or (0) panel after panel
    i64 apart;
    const double *X;           // (N, length)
    double *z;            // (N, TILE)
    const double *e;           // (N, TILE)
    double *mean;         // (N, length)
    const char *next;     // what will be read after the tile, and how much of it
    i64 bytes;

    IFONLY_HD i64 width(i64 d) const { return length - d < PANEL ? length - d : PANEL; } // of the panel that begins at d
    IFONLY_HD i64 step(i64 d) const { return apart ? apart : width(d); }                      // from row to row there
    IFONLY_HD const S *panel(i64 d) const { return rows + (apart ? d : d * TILE); }

    template <int M, int R> IFONLY_HD void dots(i64 n, i64 r) const {
        Lanes sums[M][R] = {};
        for (i64 from = 0; from < length; from += PANEL) {
            const i64 step = this->step(from), width = this->width(from);
            const S *row = panel(from) + r * step;
            const double *x = X + n * length + from;
            for (i64 d = 0; d < width; d += WIDTH) {
                Lanes at[M];
                for (int i = 0; i < M; i++) at[i] = load<Lanes>(x + i * length + d);
                for (int j = 0; j < R; j++) {
                    const Lanes a = read(row + j * step + d);
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
                switch (N - n) {
                case 1: dots_of<1>(n, r, to); break;
                case 2: dots_of<2>(n, r, to); break;
                case 3: dots_of<3>(n, r, to); break;
                default: dots_of<POINTS>(n, r, to);
                }
            }
        }
    }

    /** mean += Σ e a over the rows listed, for M points and V vectors of the panel at d. */
    template <int M, int V> IFONLY_HD void add(i64 n, i64 d, i64 v, const int *list, int count) const {
        Lanes sums[M][V] = {};
        const i64 step = this->step(d);
        const S *from = panel(d) + v * WIDTH;
        for (int i = 0; i < count; i++) {
            const S *row = from + list[i] * step;
            Lanes a[V];
            for (int j = 0; j < V; j++) a[j] = read(row + j * WIDTH);
            for (int m = 0; m < M; m++) {
                const double weight = e[(n + m) * TILE + list[i]];
                for (int j = 0; j < V; j++) sums[m][j] += a[j] * weight;
            }
        }
        for (int m = 0; m < M; m++)
            for (int j = 0; j < V; j++) {
                double *to = mean + (n + m) * length + d + (v + j) * WIDTH;
                store(to, load<Lanes>(to) + sums[m][j]);
            }
    }

    template <int M> void add_of(i64 n, i64 d, const int *list, int count) const {
        if (width(d) == PANEL) return add<M, SPAN>(n, d, 0, list, count);
        for (i64 v = 0; v * WIDTH < width(d); v++) add<M, 1>(n, d, v, list, count);
    }

    void add_all(i64 N, const int *lists, const int *counts) const {
        for (i64 d = 0; d < length; d += PANEL) {
            for (i64 n = 0, block = 0; n < N; n += POINTS, block++) {
                const int *list = lists + block * TILE, count = counts[block];
                switch (N - n) {
                case 1: add_of<1>(n, d, list, count); break;
                case 2: add_of<2>(n, d, list, count); break;
                case 3: add_of<3>(n, d, list, count); break;
                default: add_of<POINTS>(n, d, list, count);
                }
            }
        }
    }
};

template <class S> struct Summing {
    const Pass &pass;
    const i64 N, D, length;
    const bool packs;
    double *X, *e, *packed;
    double *z, *mean;
    int *lists, *counts;
    i64 *skip;

    static i64 whole(i64 D) { return (D + WIDTH - 1) / WIDTH * WIDTH; }

    static i64 room(const Pass &pass) { // in bytes
        const i64 N = pass.N, length = whole(pass.D);
        return 8 * (N * length * 2 + 2 * N * TILE + TILE * length + 2 * N + N) + 4 * (N + 1) * TILE + 64 * 8;
    }

    Summing(const Pass &pass, char *memory)
        : pass(pass), N(pass.N), D(pass.D), length(whole(pass.D)),
          packs(D != length || N > FEW || sizeof(S) == sizeof(Half)) {
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
                X[n * length + d] = d < D ? pass.X[n * D + d] : 0.0;
                mean[n * length + d] = 0.0;
            }
            pass.top[n] = -INF;
            pass.mass[n] = 0.0;
            skip[n] = pass.outside_at[n];
            while (skip[n] < pass.outside_at[n + 1] && pass.outside[skip[n]] < pass.first) skip[n]++;
        }
        for (i64 i = 0; i < N * TILE; i++) {
            e[i] = 0.0;
            z[i] = 0.0;
        }
    }

    /** The logits of a tile as weights relative to the largest so far. */
    void weigh(i64 n, i64 from, int count) {
        double *here = z + n * TILE, *logits = static_cast<double *>(pass.logits) + n * pass.K + from;
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
        double *weights = e + n * TILE;
        if (!(pass.top[n] > -INF)) {
            for (int r = 0; r < whole; r++) weights[r] = 0.0;
            return;
        }
        for (int r = 0; r < whole; r += WIDTH) {
            const Lanes below = load<Lanes>(here + r) - pass.top[n];
            const Lanes weight = select(below > pass.nothing, exponential(below), Lanes{});
            total += weight;
            store(weights + r, weight);
        }
        pass.mass[n] += sum_of(total);
    }

    /** The rows that have a weight at one of these points. */
    int list(i64 n, i64 points, int count, int *to) const {
        int found = 0;
        for (int r = 0; r < count; r++) {
            bool some = false;
            for (i64 i = n; i < n + points; i++) some |= e[i * TILE + r] != 0.0;
            to[found] = r;
            found += some;
        }
        return found;
    }

    i64 step() const { return packs ? TILE : NEXT; } // rows at a time

    template <class T> void tile(const T *rows, i64 apart, i64 from, int count) {
        const i64 after = pass.last - from - count, ahead = pass.apart != D ? 0 : after < step() ? after : step();
        const char *next = static_cast<const char *>(pass.A) + (from + count) * pass.apart * i64(sizeof(S));
        const Products<T> products = {length, rows, apart, X, z, e, mean, next, ahead * D * i64(sizeof(S))};
        products.all_dots(N, count);
        for (i64 n = 0; n < N; n++) weigh(n, from, count);
        for (i64 n = 0, block = 0; n < N; n += POINTS, block++)
            counts[block] = list(n, N - n < POINTS ? N - n : POINTS, count, lists + block * TILE);
        products.add_all(N, lists, counts);
    }

    /** Rows in double precision, panel after panel. */
    void pack(const S *rows, int count) {
        for (int r = 0; r < count; r++)
            for (i64 from = 0; from < length; from += PANEL) {
                const i64 width = length - from < PANEL ? length - from : PANEL, known = D - from < width ? D - from : width;
                double *to = packed + from * TILE + r * width;
                const S *row = rows + r * pass.apart + from;
                for (i64 d = 0; d < known; d++) to[d] = widened(row[d]);
                for (i64 d = known; d < width; d++) to[d] = 0.0;
            }
    }

    void run() {
        const i64 step = this->step();
        for (i64 from = pass.first; from < pass.last; from += step) {
            const int count = int(pass.last - from < step ? pass.last - from : step);
            const S *rows = static_cast<const S *>(pass.A) + from * pass.apart;
            if (packs) {
                pack(rows, count);
                tile(packed, 0, from, count);
            } else if constexpr (sizeof(S) != sizeof(Half)) tile(rows, pass.apart, from, count);
        }
        for (i64 n = 0; n < N; n++)
            for (i64 d = 0; d < D; d++) pass.mean[n * D + d] = mean[n * length + d];
    }
};

template <class S> void sum_with(const Pass &pass) {
    const Memory memory(Summing<S>::room(pass));
    Summing<S>(pass, memory.as<char>()).run();
}

inline void sum_up(const Pass &pass) {
    const auto sum = [&](auto number) {
        using S = decltype(number);
        if (pass.single) return sum_up_many<float, S>(pass);
        pass.N < MANY ? sum_with<S>(pass) : sum_up_many<double, S>(pass);
    };
    if (pass.kind == 2) return sum(Half{});
    pass.kind == 4 ? sum(0.0f) : sum(0.0);
}

} // namespace ifonly::IFONLY_SET::passes

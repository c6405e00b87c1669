// One pass over A for many points, in single or double precision: what sums.hpp does for few, as blocks of matrix products.
//
// Points are lanes: of a tile of rows, as they are, both products take one number at a time and the same number of all points
// of a group, so that nothing has to be transposed but the points, once. A tile's sums are added up in double precision.
#pragma once

#include "memory.hpp"
#include "rows.hpp"
#include "spans.hpp"

namespace ifonly::IFONLY_SET::passes {

#if defined(__AVX512F__)
constexpr int BLOCK = 12; // rows, or numbers of a row, whose sums for a group of points are in registers
#else
constexpr int BLOCK = 6;
#endif
constexpr int LONG = 144; // numbers of a row that are added up in one sum: 4 of these lose less than one of 576

/** A number of IEEE's half precision. */
struct Half {
    unsigned short bits;
};

IFONLY_HD double widened(double a) { return a; }
IFONLY_HD double widened(float a) { return double(a); }
IFONLY_HD double widened(Half a) { // finite: the exponent is moved by a product, which does numbers below the normal ones too
    const float size = bits_of<float>((a.bits & 0x7fffu) << 13) * 0x1p112f;
    return double(bits_of<float>(bits_of<unsigned>(size) | ((a.bits & 0x8000u) << 16)));
}

/** eᵃ to about an ulp of single precision for −87 ≤ a ≤ 0. */
template <class V, class I> IFONLY_HD V single_exp(V a) {
    const V shifted = a * 1.44269504f + 12582912.0f, k = shifted - 12582912.0f;
    const V r = (a - k * 0.693359375f) + k * 2.12194440e-4f; // ln 2 in two parts
    V y = r * (1.0f / 5040) + 1.0f / 720;
    y = y * r + 1.0f / 120;
    y = y * r + 1.0f / 24;
    y = y * r + 1.0f / 6;
    y = y * r + 0.5f;
    y = y * r + 1.0f;
    y = y * r + 1.0f;
    return y * bits_of<V>((bits_of<I>(shifted) << 23) + (127 << 23));
}

/** eᵃ − 1 to about an ulp of single precision for |a| ≤ 0.1. */
template <class V> IFONLY_HD V single_change(V a) {
    V y = a * (1.0f / 720) + 1.0f / 120;
    y = y * a + 1.0f / 24;
    y = y * a + 1.0f / 6;
    y = y * a + 0.5f;
    return y * a * a + a;
}

/** T is what is worked in, S what numbers A has. */
template <class T, class S> struct Group {
    static constexpr bool single = sizeof(T) == sizeof(float);
    static constexpr int LANES = 8 * WIDTH / int(sizeof(T)), POINTS = 2 * LANES, TILE = 132;
    using V = typename VectorOf<T, LANES>::type;
    using I = typename VectorOf<std::conditional_t<single, int, i64>, LANES>::type;
    static constexpr T LEAST = single ? T(-1e30) : T(-1e300); // stands for −∞ in differences

    const Pass &pass;
    const i64 N, D, length, groups;
    T *X, *packed;        // points: group, number, lane; a tile
    const T *rows;        // the tile, and how far its rows are apart
    i64 apart;
    T *z, *known;         // of a tile and a group: logits, then weights; weights that are known
    T *top, *own;         // of each point, and whether its logits have biases: 0 where changes are summed up
    double *mass, *mean;  // as X
    i64 *skip;

    Group(const Pass &pass, Pieces &pieces)
        : pass(pass), N(pass.N), D(pass.D), length((D + BLOCK - 1) / BLOCK * BLOCK), groups((N + POINTS - 1) / POINTS) {
        const i64 all = groups * POINTS;
        pieces.lend(X, all * length);
        pieces.lend(packed, TILE * length);
        pieces.lend(z, TILE * POINTS);
        pieces.lend(known, TILE * POINTS);
        pieces.lend(top, all);
        pieces.lend(own, all);
        pieces.lend(mass, all);
        pieces.lend(mean, all * length);
        pieces.lend(skip, N);
    }

    void begin() {
        for (i64 n = 0; n < groups * POINTS; n++) {
            const bool changes = n < pass.changes;
            top[n] = changes ? T(INF) : LEAST; // none of a change is above it
            own[n] = changes ? T(0) : T(1);
        }
        for (i64 n = 0; n < N; n++) {
            for (i64 d = 0; d < D; d++) X[(n / POINTS * length + d) * POINTS + n % POINTS] = T(pass.X[n * D + d]);
            skip[n] = pass.outside_at[n];
            while (skip[n] < pass.outside_at[n + 1] && pass.outside[skip[n]] < pass.first) skip[n]++;
        }
    }

    /** The tile that begins there: as it is, or where that will not do (whole blocks of T are needed) a copy. */
    void read(i64 from, int count) {
        const S *at = static_cast<const S *>(pass.A) + from * pass.apart;
        if constexpr (std::is_same_v<S, T>)
            if (D == length && count == TILE) {
                rows = at;
                apart = pass.apart;
                return;
            }
        for (int r = 0; r < count; r++)
            for (i64 d = 0; d < D; d++) packed[r * length + d] = T(widened(at[r * pass.apart + d]));
        rows = packed;
        apart = length;
    }

    /** sums += Σ_i number[i·across + j·along] · lanes[i], for `count` i and BLOCK j. */
    template <int M>
    static IFONLY_HD void multiply(const T *numbers, i64 across, i64 along, const T *lanes, int count, V (&sums)[BLOCK][M]) {
        for (int i = 0; i < count; i++) {
            V at[M];
            for (int v = 0; v < M; v++) at[v] = load<V>(lanes + i * POINTS + v * LANES);
#pragma GCC unroll 12
            for (int j = 0; j < BLOCK; j++)
                for (int v = 0; v < M; v++) sums[j][v] += numbers[i * across + j * along] * at[v];
        }
    }

    /** Logits of BLOCK rows. */
    template <int M> void dots(const T *x, int r) {
        for (i64 from = 0; from < length; from += LONG) {
            V sums[BLOCK][M] = {};
            const i64 to = from + LONG < length ? from + LONG : length;
            multiply(rows + r * apart + from, 1, apart, x + from * POINTS, int(to - from), sums);
            for (int j = 0; j < BLOCK; j++)
                for (int v = 0; v < M; v++) {
                    T *at = z + (r + j) * POINTS + v * LANES;
                    store(at, from ? load<V>(at) + sums[j][v] : sums[j][v]);
                }
        }
    }

    /** mean += Σ e a over the rows of the tile. */
    template <int M> void add(double *to, int count) {
        for (i64 c = 0; c < length; c += BLOCK) {
            V sums[BLOCK][M] = {};
            multiply(rows + c, apart, 1, z, count, sums);
            for (int j = 0; j < BLOCK; j++)
                for (int v = 0; v < M; v++) {
                    T lanes[LANES];
                    store(lanes, sums[j][v]);
                    double *at = to + (c + j) * POINTS + v * LANES;
                    for (int w = 0; w < LANES; w += WIDTH) store(at + w, load<Lanes>(at + w) + wide(lanes + w));
                }
        }
    }

    static IFONLY_HD Lanes wide(const T *at) {
        if constexpr (single) return exact(load<Floats<WIDTH>>(at));
        else return load<Lanes>(at);
    }

    /** Logits with their biases, and written down; −∞ of classes that are none of a point's rivals. */
    void place(i64 group, i64 from, int count) {
        const i64 first = group * POINTS, last = first + POINTS < N ? first + POINTS : N;
        const V own[2] = {load<V>(this->own + first), load<V>(this->own + first + LANES)};
        for (int r = 0; r < count; r++) {
            const T bias = T(pass.b[from + r]);
            for (int v = 0; v < 2; v++) store(z + r * POINTS + v * LANES, load<V>(z + r * POINTS + v * LANES) + bias * own[v]);
        }
        for (i64 n = first; n < last; n++) {
            if (n < pass.changes) {
                const float *weights = pass.known[n] + from;
                for (int r = 0; r < count; r++) known[r * POINTS + n - first] = T(weights[r]);
                continue;
            }
            T *logits = static_cast<T *>(pass.logits) + (n - pass.changes) * pass.K + from;
            for (int r = 0; r < count; r++) logits[r] = z[r * POINTS + n - first];
            for (; skip[n] < pass.outside_at[n + 1] && pass.outside[skip[n]] < from + count; skip[n]++)
                z[(pass.outside[skip[n]] - from) * POINTS + n - first] = T(-INF);
        }
    }

    /** Logits as weights relative to the largest so far, or changes of weights that are known. */
    void weigh(i64 group, int count, int vectors) {
        for (int v = 0; v < vectors; v++) {
            const i64 at = group * POINTS + v * LANES;
            T *z = this->z + v * LANES, *known = this->known + v * LANES;
            const V before = load<V>(top + at);
            const I changed = load<V>(own + at) == T(0);
            V most = before, total{};
            for (int r = 0; r < count; r++) {
                const V here = load<V>(z + r * POINTS);
                most = here > most ? here : most;
            }
            store(top + at, most);
            rescale(at, before, most, group, v);
            const bool changes = single && at < pass.changes, weights = at + LANES > pass.changes;
            for (int r = 0; r < count; r++) {
                const V here = load<V>(z + r * POINTS), below = here - most;
                V e{};
                if (weights) e = below > T(pass.nothing) ? exp_of(below) : e;
                if (changes) e = changed ? single_change(here) * load<V>(known + r * POINTS) : e;
                total += e;
                store(z + r * POINTS, e);
            }
            T lanes[LANES];
            store(lanes, total);
            for (int w = 0; w < LANES; w += WIDTH) store(mass + at + w, load<Lanes>(mass + at + w) + wide(lanes + w));
        }
    }

    static IFONLY_HD V exp_of(V a) {
        if constexpr (single) return single_exp<V, I>(a > T(-87) ? a : V{} - T(87));
        else return exponential(a);
    }

    /** What was summed up so far, relative to a larger logit. */
    void rescale(i64 at, V before, V now, i64 group, int v) {
        const I risen = now > before;
        bool any = false;
        double scale[LANES];
        for (int w = 0; w < LANES; w++) {
            any |= risen[w] != 0;
            scale[w] = risen[w] ? exponential(double(before[w]) - double(now[w])) : 1.0;
        }
        if (!any) return;
        for (int w = 0; w < LANES; w++) mass[at + w] *= scale[w];
        double *to = mean + group * length * POINTS + v * LANES;
        for (i64 d = 0; d < length; d++)
            for (int w = 0; w < LANES; w += WIDTH)
                store(to + d * POINTS + w, load<Lanes>(to + d * POINTS + w) * load<Lanes>(scale + w));
    }

    /** Into the cache: of BLOCK rows that will be packed next, a group's share. */
    void fetch(i64 group, i64 row) const {
        for (const i64 end = row + BLOCK < pass.last ? row + BLOCK : pass.last; row < end; row++) {
            const char *at = reinterpret_cast<const char *>(static_cast<const S *>(pass.A) + row * pass.apart);
            const i64 bytes = D * i64(sizeof(S)), to = bytes * (group + 1) / groups;
            for (i64 i = bytes * group / groups & ~63LL; i < to; i += 64) __builtin_prefetch(at + i, 0, 2);
        }
    }

    /** A tile, for a group of M vectors. */
    template <int M> void sum(i64 group, i64 from, int count) {
        for (int r = 0; r < count; r += BLOCK) {
            fetch(group, from + TILE + r);
            dots<M>(X + group * length * POINTS, r);
        }
        place(group, from, count);
        weigh(group, count, M);
        add<M>(mean + group * length * POINTS, count);
    }

    void run() {
        begin();
        for (i64 from = pass.first; from < pass.last; from += TILE) {
            const int count = int(pass.last - from < TILE ? pass.last - from : TILE);
            read(from, count);
            for (i64 g = 0; g < groups; g++) N - g * POINTS > LANES ? sum<2>(g, from, count) : sum<1>(g, from, count);
        }
        for (i64 n = 0; n < N; n++) {
            pass.top[n] = top[n] > LEAST ? double(top[n]) : -INF;
            pass.mass[n] = mass[n];
            for (i64 d = 0; d < D; d++) pass.mean[n * D + d] = mean[(n / POINTS * length + d) * POINTS + n % POINTS];
        }
    }
};

template <class T, class S> void sum_up_many(const Pass &pass) {
    std::unique_ptr<Group<T, S>> group;
    const auto memory = laid_out([&](Pieces &pieces) { group = std::make_unique<Group<T, S>>(pass, pieces); });
    group->run();
}

} // namespace ifonly::IFONLY_SET::passes

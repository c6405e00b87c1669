// Newton's matrix of a row that has a warp to itself, in the registers of that warp: tiles of 8 × 8, as the float64 matrix units
// hold them. For newton.cu with teams of 32.
//
// Lane 4g + c has columns 2c and 2c + 1 of row g of every tile. The order of a sum is free: these two are, as they are, its
// numbers of either factor in the product A Bᵀ of two tiles, which is two products m8n8k4. Nothing goes from lane to lane.
#pragma once

#if TEAM == 32
namespace ifonly::IFONLY_SET {

template <int N> struct Tiles {
    struct Tile {
        double a, b; // the two columns of this lane
    };
    static constexpr int SIDE = (N + 7) / 8;
    Tile tiles[SIDE * (SIDE + 1) / 2]; // M; then L, where LLᵀ = M, with the inverses of its diagonal tiles in their places

    static __device__ __forceinline__ constexpr int at(int i, int j) { return i * (i + 1) / 2 + j; }
    static __device__ __forceinline__ int row() { return int(threadIdx.x % 32 / 4); }
    static __device__ __forceinline__ int pair() { return int(threadIdx.x % 4); }
    static __device__ __forceinline__ double from(double a, int lane) { return __shfl_sync(~0u, a, lane); }

    /** C += A Bᵀ. */
    static __device__ __forceinline__ void add_product(Tile &c, Tile a, Tile b) {
        add_product(c, a.a, b.a);
        add_product(c, a.b, b.b);
    }
    static __device__ __forceinline__ void add_product(Tile &c, double a, double b) {
#ifdef __CUDA_ARCH__
        asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+d"(c.a), "+d"(c.b) : "d"(a), "d"(b));
#else
        for (int k = 0; k < 4; k++) {
            const double mine = from(a, 4 * row() + k);
            c.a += mine * from(b, 8 * pair() + k);
            c.b += mine * from(b, 8 * pair() + 4 + k);
        }
#endif
    }

    /** L⁻¹ of a tile T = LLᵀ: what takes T's columns away one by one is done to I too. Pivots are ≥ 1 but for rounding. */
    static __device__ __noinline__ Tile inverse_root(Tile t) {
        Tile inverse{row() == 2 * pair() ? 1.0 : 0.0, row() == 2 * pair() + 1 ? 1.0 : 0.0};
        double own = 1.0;
#pragma unroll 2
        for (int j = 0; j < 8; j++) {
            const double column = j % 2 ? t.b : t.a, mine = from(column, 4 * row() + j / 2);
            const double pivot = larger(from(column, 4 * j + j / 2), 1.0), factor = row() > j ? mine * inverse_of(pivot) : 0.0;
            t.a -= factor * from(t.a, 4 * j + pair());
            t.b -= factor * from(t.b, 4 * j + pair());
            inverse.a -= factor * from(inverse.a, 4 * j + pair());
            inverse.b -= factor * from(inverse.b, 4 * j + pair());
            if (row() == j) own = pivot;
        }
        own = root_of_share(inverse_of(own));
        return {inverse.a * own, inverse.b * own};
    }

    /** M, whose entries `entry` gives, factorised. */
    template <class Entry> __device__ __forceinline__ void factorise(Entry entry) {
#pragma unroll
        for (int i = 0; i < SIDE; i++)
#pragma unroll
            for (int j = 0; j <= i; j++) {
                const int a = 8 * i + row(), b = 8 * j + 2 * pair();
                tiles[at(i, j)] = {a < N && b < N ? entry(a, b) : a == b ? 1.0 : 0.0,
                                   a < N && b + 1 < N ? entry(a, b + 1) : a == b + 1 ? 1.0 : 0.0};
            }
#pragma unroll
        for (int k = 0; k < SIDE; k++) {
            const Tile inverse = tiles[at(k, k)] = inverse_root(tiles[at(k, k)]);
#pragma unroll
            for (int i = k + 1; i < SIDE; i++) {
                Tile product{0.0, 0.0};
                add_product(product, tiles[at(i, k)], inverse);
                tiles[at(i, k)] = product;
                const Tile minus{-product.a, -product.b};
#pragma unroll
                for (int j = k + 1; j <= i; j++) add_product(tiles[at(i, j)], minus, tiles[at(j, k)]);
            }
        }
    }

    /** Of what each lane has: the sum over the columns of its row, or over the rows of its two columns. */
    static __device__ __forceinline__ double over_columns(double a) {
        a += __shfl_xor_sync(~0u, a, 1);
        return a + __shfl_xor_sync(~0u, a, 2);
    }
    static __device__ __forceinline__ Tile over_rows(Tile t) {
#pragma unroll
        for (int other = 4; other < 32; other *= 2) {
            t.a += __shfl_xor_sync(~0u, t.a, other);
            t.b += __shfl_xor_sync(~0u, t.b, other);
        }
        return t;
    }
    static __device__ __forceinline__ Tile of_columns(double of_row) { return {from(of_row, 8 * pair()), from(of_row, 8 * pair() + 4)}; }
    static __device__ __forceinline__ double of_row(Tile of_columns) {
        const double even = from(of_columns.a, row() / 2), odd = from(of_columns.b, row() / 2);
        return row() % 2 ? odd : even;
    }

    /** x = M⁻¹ x, for x in shared memory. */
    __device__ __forceinline__ void solve(double *x) const {
        double y[SIDE], sums[SIDE] = {};
#pragma unroll
        for (int k = 0; k < SIDE; k++) { // L y = x
            const Tile inverse = tiles[at(k, k)];
            const Tile left = of_columns((8 * k + row() < N ? x[8 * k + row()] : 0.0) - over_columns(sums[k]));
            y[k] = over_columns(inverse.a * left.a + inverse.b * left.b);
            const Tile found = of_columns(y[k]);
#pragma unroll
            for (int i = k + 1; i < SIDE; i++) sums[i] += tiles[at(i, k)].a * found.a + tiles[at(i, k)].b * found.b;
        }
        __syncwarp();
#pragma unroll
        for (int k = SIDE - 1; k >= 0; k--) { // Lᵀ x = y
            const Tile inverse = tiles[at(k, k)];
            Tile sum{0.0, 0.0};
#pragma unroll
            for (int i = k + 1; i < SIDE; i++) {
                sum.a += tiles[at(i, k)].a * y[i];
                sum.b += tiles[at(i, k)].b * y[i];
            }
            const double left = y[k] - of_row(over_rows(sum));
            y[k] = of_row(over_rows({inverse.a * left, inverse.b * left}));
            if (pair() == 0 && 8 * k + row() < N) x[8 * k + row()] = y[k];
        }
        __syncwarp();
    }
};

} // namespace ifonly::IFONLY_SET
#endif

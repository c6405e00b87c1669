// Limits on features one by one, for many rows on a GPU: semismooth.hpp and limited_rows.hpp, where a warp has a row to itself.
//
// A lane has one class (so K ≤ 32), and every 32nd feature. The classes' rows in units of cost are in the shared memory of a block,
// if they fit, for all targets: a pull of the rivals is Σ_j q_j (a_j − a_k) = Σ_j w_j a_j with w_k = −Σ q_j. Vectors of classes have 0
// for the target, or what completes the others to 0, where rivals alone are meant. Rows are taken one after the other.
//
// Compiled once per number of classes and kind of question, by native/cuda.py, which puts the headers before it and defines
//     CLASSES, FEATURES  K and D
//     WARPS              of a block
//     SOURCE             the type of the sources
//     AIMS               whether a probability is asked for (1), or λ is given (0)
//     SOFT, COSTED, DIRECTED, SCALED, PLAIN   whether there is an ℓ1 part; a unit's cost that is not 1; more than bounds; a scaler; and
//                        whether the rows in units of cost are the classifier's own
//     STAGED             whether they, and sources, go to shared memory

namespace ifonly::IFONLY_SET::limits {

constexpr int K = CLASSES;
constexpr int PITCH = K | 1;                     // of matrices of classes: neighbours are in different banks
constexpr int ENTRIES = K * (K + 1) / 2;         // of a Gram matrix
constexpr int EACH_LANE = (ENTRIES + 31) / 32;   // of them
constexpr int EIGHTS = (K + 7) / 8;
// Of the start; with a goal λ is yet to be found, and a better start for the first guess of it saves no iteration.
constexpr int START_PAIRS = AIMS ? 1 : PAIRS, START_STEPS = AIMS ? 2 : PAIR_STEPS;
constexpr int FULL = K <= 2 ? 2 : K <= 4 ? 4 : K <= 8 ? 8 : K <= 16 ? 16 : 32; // classes, and some that are none
constexpr int D = FEATURES, TILES = (D + 31) / 32, COUNT = 32 * TILES;
constexpr int WIDE = COUNT + 4; // from one class's row to the next: four features of four classes are in different banks
constexpr int ANEW = 80;        // changed features with more of which a Gram matrix is sooner made anew
constexpr int GRAM = 0, ROWS = GRAM + K * PITCH, LO = ROWS + K * WIDE, HI = LO + COUNT; // where they are in shared memory
constexpr int KEPT = STAGED ? HI + COUNT : ROWS;                                        // of a block; then come those of the warps
constexpr int ROOM = (STAGED ? COUNT : 0) + 2 * K * PITCH + 32 + (3 * TILES + 1) / 2 + ANEW / 4;

extern __shared__ double memory[];

// With many classes loops within loops are not unrolled: it would take a minute to compile them.
#if CLASSES <= 16
#define EVERY _Pragma("unroll")
#define SOME _Pragma("unroll 4")
#else
#define EVERY _Pragma("unroll 1")
#define SOME _Pragma("unroll 1")
#endif

// What is called, and not copied to where it is called: a GPU waits for code that is not in its cache.
#define CALLED __noinline__

struct Warp {
    static __device__ __forceinline__ int lane() { return int(threadIdx.x % 32); }
    static __device__ __forceinline__ void sync() { __syncwarp(); }
    static __device__ __forceinline__ double from(double a, int lane) { return __shfl_sync(~0u, a, lane); }
    static __device__ __forceinline__ unsigned votes(bool yes) { return __ballot_sync(~0u, yes); }
    static __device__ CALLED double sum(double a) { // the same bits in all
        for (int other = 16; other; other /= 2) a += __shfl_xor_sync(~0u, a, other);
        return a;
    }
    static __device__ CALLED double largest(double a) {
        for (int other = 16; other; other /= 2) a = larger(a, __shfl_xor_sync(~0u, a, other));
        return a;
    }
};

#ifdef __CUDA_ARCH__
/** 1/√a for normal a > 0. */
__device__ __forceinline__ double inverse_root(double a) {
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(a));
    y = fma(0.5 * y, fma(-a * y, y, 1.0), y);
    return fma(0.5 * y, fma(-a * y, y, 1.0), y);
}
#else
inline double inverse_root(double a) { return 1.0 / square_root(a); }
#endif

/** C += A Aᵀ of a tile of 8 × 8, where this lane has one number of A and of the same with some left out, and two of C. */
__device__ __forceinline__ void add_product(double &c0, double &c1, double a, double b) {
#ifdef __CUDA_ARCH__
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+d"(c0), "+d"(c1) : "d"(a), "d"(b));
#else
    for (int k = 0; k < 4; k++) {
        const double row = Warp::from(a, Warp::lane() / 4 * 4 + k);
        c0 += row * Warp::from(b, Warp::lane() % 4 * 8 + k);
        c1 += row * Warp::from(b, Warp::lane() % 4 * 8 + 4 + k);
    }
#endif
}

/** The warps that share a scheduler. They go from one iteration to the next together, and so are at about the same code: a GPU waits for
 *  code more than for anything else here. */
struct Group {
    static __device__ __forceinline__ bool any(bool open) { // of them, the same for all
#ifdef __CUDA_ARCH__
        const int group = int(threadIdx.x / 32 % 4), threads = 32 * ((WARPS - group + 3) / 4);
        int found;
        asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %3, 0; bar.red.or.pred q, %1, %2, p; selp.s32 %0, 1, 0, q; }"
                     : "=r"(found)
                     : "r"(1 + group), "r"(threads), "r"(int(open))
                     : "memory");
        return found;
#else
        return open;
#endif
    }

    /** Calls one() until it says that it is done; an idle warp waits for the others. */
    template <class One> static __device__ __forceinline__ void repeat(bool idle, One one) {
        for (bool open = !idle; any(open);)
            if (open) open = one();
    }
};

/** What all rows share. Arrays of features are filled up with 0 to whole tiles of 32. */
struct Space {
    const double *A;         // (K, WIDE) in units of cost
    const double *weights;   // (K, WIDE) the classifier's own
    const double *b;         // (K)
    const double *shift, *scale, *sizes, *c, *mu, *lo, *hi; // (features)
    const signed char *way;  // (features) bits: only rises, only falls, stays
    const double *lengths, *squares, *terms_length; // (K, K): ‖a_j − a_k‖, its square over what may move; ‖(|a_j| + |a_k|)/c‖
    Errors errors;

    __device__ __forceinline__ double a(int j, int d) const { return STAGED ? memory[ROWS + j * WIDE + d] : A[j * WIDE + d]; }
    __device__ __forceinline__ double least(int d) const { return STAGED ? memory[LO + d] : lo[d]; }
    __device__ __forceinline__ double most(int d) const { return STAGED ? memory[HI + d] : hi[d]; }
};

/** The features of one source. */
struct Features {
    const Space &all;
    const SOURCE *source;
    int own; // where in shared memory it is
    int lane;
    double il, weight; // 1/λ, and what μ is multiplied with

    struct Feature {
        double least, most; // in the user's units
        double lo, hi;      // how far it may go, in units of cost
    };

    __device__ __forceinline__ double value(int d) const { return STAGED ? memory[own + d] : d < D ? double(source[d]) : 0.0; }

    __device__ __forceinline__ Feature feature(int d, double value) const {
        Feature f{all.least(d), all.most(d), 0.0, 0.0};
        if (DIRECTED) {
            const int way = all.way[d];
            if (way & 1) f.least = larger(f.least, value);
            if (way & 2) f.most = smaller(f.most, value);
            if (way & 4) f.least = f.most = value;
        }
        f.lo = f.least - value;
        f.hi = f.most - value;
        if (COSTED) {
            f.lo *= all.c[d];
            f.hi *= all.c[d];
        }
        return f;
    }

    /** The answer of a feature to a pull, and whether it is free. */
    __device__ __forceinline__ double answer(double u, int d, const Feature &f, bool &free) const {
        double y = -u * il;
        if (SOFT) {
            const double over = larger(magnitude(u) - weight * all.mu[d], 0.0) * il;
            y = u > 0.0 ? -over : over;
        }
        const double t = smaller(larger(y, f.lo), f.hi);
        free = t > f.lo && t < f.hi;
        if (SOFT) free = free && (t != 0.0 || all.mu[d] == 0.0);
        return t;
    }
};

/** The sums of all lanes, of each class where its lane is: half of the classes go to half of the lanes, again and again. */
__device__ __forceinline__ double own_of(double *sums, int lane) { // (FULL)
#pragma unroll
    for (int half = FULL / 2; half; half /= 2) {
        const bool upper = lane & half;
#pragma unroll
        for (int i = 0; i < half; i++) {
            const double kept = upper ? sums[i + half] : sums[i], given = upper ? sums[i] : sums[i + half];
            sums[i] = kept + __shfl_xor_sync(~0u, given, half);
        }
    }
#pragma unroll
    for (int other = FULL; other < 32; other *= 2) sums[0] += __shfl_xor_sync(~0u, sums[0], other);
    return sums[0];
}

/** Σ_d a_d t_d of this lane's class where the classes pull with `vector`; which features are then free. */
__device__ CALLED double moved_by(Features of, const double *vector, unsigned *free_bits) {
    double w[K], sum[FULL] = {};
#pragma unroll
    for (int j = 0; j < K; j++) w[j] = vector[j];
#pragma unroll 2
    for (int tile = 0; tile < TILES; tile++) {
        const int d = 32 * tile + of.lane;
        double a[K], u = 0.0;
#pragma unroll
        for (int j = 0; j < K; j++) {
            a[j] = of.all.a(j, d);
            u += w[j] * a[j];
        }
        bool free;
        const double t = of.answer(u, d, of.feature(d, of.value(d)), free);
        const unsigned bits = Warp::votes(free);
        if (of.lane == 0) free_bits[tile] = bits;
#pragma unroll
        for (int j = 0; j < K; j++) sum[j] += a[j] * t;
    }
    return own_of(sum, of.lane);
}

struct Both {
    double a, b;
};

/** ln p and p of margins, which are 0 for the target. */
__device__ CALLED Both log_softmax(double s) {
    const bool is_class = Warp::lane() < K;
    const double top = Warp::largest(is_class ? s : -INF), e = is_class ? exponential(s - top) : 0.0, total = Warp::sum(e);
    return {is_class ? s - (top + logarithm(total)) : 0.0, e / total};
}

/** ln q, normalised, and no lower than it can be. */
__device__ CALLED double normalised(double lq) {
    const bool is_class = Warp::lane() < K;
    const double top = Warp::largest(is_class ? lq : -INF), total = Warp::sum(is_class ? exponential(lq - top) : 0.0);
    return is_class ? larger(lq - (top + logarithm(total)), LOW) : 0.0;
}

/** The logit of 1 − p_k at margins s; this rival's share of 1 − p_k. */
__device__ CALLED Both logit_of(double s, bool rival) {
    const double top = Warp::largest(rival ? s : -INF), e = rival ? exponential(s - top) : 0.0, total = Warp::sum(e);
    return {top + logarithm(total), e / total};
}


/** How far rival j's margin moves where it has this share and another one has another; and how fast it falls with the share. */
__device__ CALLED Both moved_alone(Features of, int k, int j, double share, int other, double others_share) {
    double sum = 0.0, square = 0.0;
#pragma unroll 2
    for (int tile = 0; tile < TILES; tile++) {
        const int d = 32 * tile + of.lane;
        const double away = of.all.a(k, d), b = of.all.a(j, d) - away, u = share * b + others_share * (of.all.a(other, d) - away);
        bool free;
        sum += b * of.answer(u, d, of.feature(d, of.value(d)), free);
        if (free) square += b * b;
    }
    return {Warp::sum(sum), Warp::sum(square) * of.il};
}

struct Point { // a q and what follows from it: numbers of this lane's class
    double lq, q, lp, p, s;
    double gap;     // E(t(q)) − D(q)
    unsigned *free; // (tiles) the features that are free to move, as bits
};

/** One problem. */
struct Row {
    const Space &all;
    const int lane;
    int k = 0;
    bool rival = false;
    const bool is_class;
    const SOURCE *source = nullptr;
    const int own;                 // where in shared memory it is
    double *G, *L, *vector;  // (K, PITCH) rivals' Gram matrix of the free features; factor, column after column; (32)
    unsigned *known;         // (tiles) the features that are in it
    unsigned short *changed; // (ANEW)
    double g[EACH_LANE];     // this lane's entries of the classes' Gram matrix
    int entry[EACH_LANE];    // which they are: row and column
    Point at, next;
    double lam = 1.0, weight = 1.0, margin = 0.0, length = 0.0, size = 0.0; // size: the largest of the rivals' lengths
    double M[K];             // the row of this lane's class
    double inverse = 0.0, c = 0.0, v = 0.0, r = 0.0, dq = 0.0, ds = 0.0, ahead = 0.0, along_q = 0.0, along_s = 0.0;
    int n_iter = 0;

    __device__ __forceinline__ Row(const Space &space, int room) : all(space), lane(Warp::lane()), is_class(lane < K), own(room) {
        G = memory + room + (STAGED ? COUNT : 0);
        L = G + K * PITCH;
        vector = L + K * PITCH;
        at.free = reinterpret_cast<unsigned *>(vector + 32);
        next.free = at.free + TILES;
        known = next.free + TILES;
        changed = reinterpret_cast<unsigned short *>(known + TILES);
        for (int m = 0; m < EACH_LANE; m++) {
            int i = 0, e = lane + 32 * m;
            if (e >= ENTRIES) e = 0; // counted twice, and written twice
            while (e > i) e -= ++i;
            entry[m] = i << 8 | e;
        }
    }

    __device__ __forceinline__ Features features() const { return {all, source, own, lane, 1.0 / lam, weight}; }

    // ---- vectors of classes ----

    /** A number of each class, to be read by all. */
    __device__ __forceinline__ void spread(double a) {
        Warp::sync();
        vector[lane] = a;
        Warp::sync();
    }

    /** The rivals' part of a vector, and for the target what makes the sum 0. */
    __device__ __forceinline__ double completed(double a) const {
        const double part = rival ? a : 0.0, sum = Warp::sum(part);
        return lane == k ? -sum : part;
    }

    // ---- a point ----

    /** x.free and x.s of x.q. */
    __device__ __forceinline__ void sweep(Point &x) {
        spread(completed(x.q));
        const double moved = moved_by(features(), vector, x.free), with_target = Warp::from(moved, k);
        x.s = rival ? margin + (moved - with_target) : 0.0;
        Warp::sync();
    }

    /** x.lp and x.p of x.s. */
    __device__ __forceinline__ void follow(Point &x) {
        const Both found = log_softmax(x.s);
        x.lp = found.a;
        x.p = found.b;
    }

    /** All that follows from x.lq. */
    __device__ __forceinline__ void evaluate(Point &x) {
        x.q = is_class ? exponential(x.lq) : 0.0;
        sweep(x);
        follow(x);
        x.gap = Warp::sum(is_class ? x.q * (x.lq - x.lp) - x.q + x.p : 0.0);
    }

    /** ‖Bᵀ(p − q)‖, which bounds the gradient of E. */
    __device__ __forceinline__ double residual(const Point &x) {
        const double apart = completed(x.p - x.q);
        spread(apart);
        double sum = 0.0;
        if (is_class)
            for (int j = 0; j < K; j++) sum += vector[j] * memory[GRAM + j * PITCH + lane];
        const double square = Warp::sum(apart * sum);
        return square_root(square < 0.0 ? 0.0 : square); // NaN stays NaN
    }

    /** How much rounding there is in a point's logit: features answer to sums of terms that may cancel, divided by λ. */
    __device__ __forceinline__ double noise(const Point &x) {
        const double share = logit_of(x.s, rival).b;
        double total = 0.0;
        for (int tile = 0; tile < TILES; tile++) {
            const int d = 32 * tile + lane;
            double of_q = SOFT ? weight * all.mu[d] : 0.0, felt = 0.0;
            for (int j = 0; j < K; j++) {
                const double row = magnitude(all.a(j, d) - all.a(k, d));
                of_q += Warp::from(rival ? x.q : 0.0, j) * row;
                felt += Warp::from(share, j) * row;
            }
            if (x.free[tile] >> lane & 1) total += of_q * felt;
        }
        return EPS / lam * Warp::sum(total);
    }

    // ---- Newton ----

    /** The features that are free at a point and not in g, or the other way round, the latter with the highest bit; how
     *  many they are, of which ANEW are listed. */
    __device__ __forceinline__ int list_changes(const Point &x) {
        int count = 0;
        for (int tile = 0; tile < TILES; tile++) {
            const unsigned now = x.free[tile], odd = now ^ known[tile];
            const int place = count + __popc(odd & ((1u << lane) - 1));
            if (odd >> lane & 1 && place < ANEW) changed[place] = (unsigned short)((32 * tile + lane) | (now >> lane & 1 ? 0 : 1 << 15));
            count += __popc(odd);
        }
        return count;
    }

    /** No features are in g. */
    __device__ __forceinline__ void forget_gram() {
        Warp::sync();
        for (int tile = lane; tile < TILES; tile += 32) known[tile] = 0;
        for (int i = lane; i < K * PITCH; i += 32) G[i] = 0.0; // with an ℓ1 part it may be that no feature is free at first
#pragma unroll
        for (int m = 0; m < EACH_LANE; m++) g[m] = 0.0;
        Warp::sync();
    }

    /** The classes' Gram matrix of the features that are free at a point, anew, into L. */
    __device__ __forceinline__ void make_gram(const Point &x) {
        double c[EIGHTS * (EIGHTS + 1)] = {};
        const int first = lane / 4 < K ? lane / 4 : 0;
        for (int tile = 0; tile < TILES; tile++) {
            const unsigned bits = x.free[tile];
            for (int some = 0; some < 32; some += 4) {
                if (!(bits >> some & 15)) continue;
                const int d = 32 * tile + some + lane % 4;
                const bool free = bits >> (some + lane % 4) & 1;
                double a[EIGHTS], b[EIGHTS];
#pragma unroll
                for (int m = 0; m < EIGHTS; m++) {
                    a[m] = all.a(8 * m + lane / 4 < K ? 8 * m + lane / 4 : first, d);
                    b[m] = free ? a[m] : 0.0;
                }
#pragma unroll
                for (int m = 0, at = 0; m < EIGHTS; m++)
#pragma unroll
                    for (int n = 0; n <= m; n++, at += 2) add_product(c[at], c[at + 1], a[m], b[n]);
            }
        }
#pragma unroll
        for (int m = 0, at = 0; m < EIGHTS; m++)
#pragma unroll
            for (int n = 0; n <= m; n++, at += 2) {
                const int i = 8 * m + lane / 4, j = 8 * n + 2 * (lane % 4);
                if (i < K && j <= i) L[i * PITCH + j] = L[j * PITCH + i] = c[at];
                if (i < K && j + 1 <= i) L[i * PITCH + j + 1] = L[(j + 1) * PITCH + i] = c[at + 1];
            }
        Warp::sync();
#pragma unroll
        for (int m = 0; m < EACH_LANE; m++) g[m] = L[(entry[m] >> 8) * PITCH + (entry[m] & 255)];
    }

    /** G over the features that are free at a point. */
    __device__ __forceinline__ void bring_gram(const Point &x) {
        const int count = list_changes(x);
        if (count == 0) return;
        Warp::sync();
        if (count > ANEW) make_gram(x);
        else {
            SOME for (int a = 0; a < count; a++) {
                const int coded = changed[a], d = coded & 0x7fff;
#pragma unroll
                for (int m = 0; m < EACH_LANE; m++) {
                    const double row = all.a(entry[m] >> 8, d);
                    g[m] += (coded >> 15 ? -row : row) * all.a(entry[m] & 255, d);
                }
            }
#pragma unroll
            for (int m = 0; m < EACH_LANE; m++) {
                const int i = entry[m] >> 8, j = entry[m] & 255;
                L[i * PITCH + j] = L[j * PITCH + i] = g[m];
            }
        }
        for (int tile = lane; tile < TILES; tile += 32) known[tile] = x.free[tile];
        Warp::sync();
        if (is_class) {
            const double mine = L[k * PITCH + lane] - L[k * PITCH + k];
            for (int j = 0; j < K; j++) G[j * PITCH + lane] = (L[j * PITCH + lane] - L[j * PITCH + k]) - mine;
        }
        Warp::sync();
    }

    /** G a, for a that is 0 for the target. */
    __device__ __forceinline__ double times(double a) {
        spread(a);
        double sum = 0.0;
        if (is_class)
#pragma unroll
            for (int j = 0; j < K; j++) sum += vector[j] * G[j * PITCH + lane];
        return rival ? sum : 0.0;
    }

    /** v and c, with S = RRᵀ and R = diag(v)(I − c v vᵀ); the vector that M = λI + RᵀGR is made from. */
    __device__ __forceinline__ double take_means(const Point &x) {
        const double apart = x.lp - x.lq;
        const bool near = magnitude(apart) < NEAR;
        const double mean = !is_class ? 0.0 : near ? 0.5 * (x.p + x.q) : (x.p - x.q) / apart;
        const double total = Warp::sum(mean);
        c = 1.0 / total / (1.0 + square_root(Warp::from(mean, k) / total));
        v = rival ? square_root(mean) : 0.0;
        const double moved = times(rival ? mean : 0.0) * v, half = 0.5 * c * c * Warp::sum(v * moved);
        return c * moved - half * v;
    }

    /** M + `added`·I = LLᵀ from M without λ, diag(v) G diag(v) − v gᵀ − g vᵀ, whose trace it is; false where that is not definite.
     *  The target's row of it is that of λI. */
    __device__ __forceinline__ bool factorise(double part, double added, double &trace) {
        double diagonal = 0.0;
        spread(v);
        EVERY for (int j = 0; j < K; j++) M[j] = is_class ? v * G[j * PITCH + lane] * vector[j] - part * vector[j] : 0.0;
        spread(part);
        EVERY for (int j = 0; j < K; j++) {
            M[j] -= v * vector[j];
            if (lane == j) diagonal = M[j];
        }
        trace = Warp::sum(diagonal);
        EVERY for (int j = 0; j < K; j++) {
            const double pivot = Warp::from(M[j], j) + added;
            if (!(pivot > 0.0)) return false;
            const double root = inverse_root(pivot);
            if (lane == j) inverse = root;
            M[j] *= root;
            if (is_class) L[j * PITCH + lane] = M[j];
            Warp::sync();
            EVERY for (int i = j + 1; i < K; i++) M[i] -= M[j] * L[j * PITCH + i];
        }
        return true;
    }

    /** M, factorised. Where λ is lost beside the rest of it, it is made larger; false where even that is no help. */
    __device__ __forceinline__ bool definite(double part) {
        double trace, more = 0.0;
        for (int rise = 0; rise < MAX_RISES; rise++) {
            if (factorise(part, lam + more, trace)) return true;
            more = rise ? 10.0 * more : 4.0 * EPS * (trace + (K - 1) * lam);
        }
        return false;
    }

    /** R M⁻¹Rᵀa. */
    __device__ __forceinline__ double through(double a) {
        a *= v;
        a -= c * Warp::sum(v * a) * v;
        EVERY for (int j = 0; j < K; j++) {
            if (lane == j) a *= inverse;
            const double y = Warp::from(a, j);
            if (lane > j) a -= M[j] * y;
        }
        EVERY for (int j = K - 1; j >= 0; j--) {
            if (lane == j) a *= inverse;
            const double y = Warp::from(a, j);
            if (lane < j) a -= L[lane * PITCH + j] * y;
        }
        if (!rival) a = 0.0;
        return v * (a - c * Warp::sum(v * a) * v);
    }

    /** Δq = r − R M⁻¹RᵀG r over all classes, and the margins' change −GΔq/λ; false where there is no step. */
    __device__ __forceinline__ bool step() {
        bring_gram(at);
        if (!definite(take_means(at))) return false;
        r = rival ? at.p - at.q : 0.0;
        dq = r - through(times(r));
        ds = -times(dq) / lam;
        dq = completed(dq);
        return !Warp::votes(!(magnitude(dq) < INF));
    }

    /** D's slope along the step at a point. */
    __device__ __forceinline__ double slope_at(const Point &x) const { return Warp::sum(is_class ? (x.lp - x.lq) * dq : 0.0); }

    /** next.lq: the logarithm of q + αΔq; what would fall too far follows that of the predicted p, in `ahead`. */
    __device__ __forceinline__ void go_along(double alpha) {
        const double q = at.q + alpha * dq, low = smaller(at.lq + alpha * (ahead - at.lq), at.lq + LOG_SHRINK);
        next.lq = normalised(q < SHRINK * at.q || !(q > 0.0) ? low : logarithm(q));
    }

    __device__ __forceinline__ void accept() {
        const Point before = at;
        at = next;
        next = before;
    }

    __device__ __forceinline__ double largest_margin(const Point &x) const { return Warp::largest(rival ? magnitude(x.s) : 0.0); }
    __device__ __forceinline__ double rivals_mass(const Point &x) const { return Warp::sum(rival ? x.p : 0.0); }

    /** From `at`, which is evaluated, until `tol` or where rounding stops it. */
    __device__ __forceinline__ bool newton(bool idle, double tol, int max_iter) {
        double off = idle ? 0.0 : residual(at), least = INF;
        int stalled = 0, budget = EVALUATIONS;
        bool found = false;
        Group::repeat(idle, [&] {
            // 1. How far off.
            const double mass = rivals_mass(at), gap = at.gap, rounding = 4.0 * EPS * size * mass * (1.0 + largest_margin(at));
            found = off <= larger(tol, rounding) || stalled >= 2;
            if (found || budget <= 0 || n_iter >= max_iter) return false;
            least = smaller(least, gap);
            // 2. The step.
            if (!step()) return false;
            ahead = log_softmax(is_class ? ds + at.s : 0.0).a;
            const double slope = slope_at(at);
            found = !(slope > 0.0); // q is p to the last digit
            if (found) return false;
            // 3. How far along it: until D's slope is not far below zero.
            go_far_enough(slope, least, budget);
            n_iter++;
            // 4. Rounding: the residual no longer falls, though the step was a full one and small.
            const double still = residual(next);
            bool noisy = false;
            if (still >= 0.5 * off) {
                noisy = gap <= 1e-13 * (1.0 - Warp::from(at.lp, k));
                noisy = noisy || (next.gap >= 0.5 * gap && off <= 8.0 * size * mass * noise(at));
            }
            stalled = noisy ? stalled + 1 : 0;
            if (!(noisy && still > off)) {
                accept();
                off = still;
            }
            return true;
        });
        return found;
    }

    /** next: so far along the step that D's slope is not far below zero. */
    __device__ __forceinline__ void go_far_enough(double slope, double least, int &budget) {
        double alpha = 1.0;
        for (int trial = 0; trial < MAX_TRIALS; trial++) {
            go_along(alpha);
            evaluate(next);
            budget--;
            const double end = slope_at(next);
            if (end >= -TOO_LONG * slope || next.gap < 0.5 * least) break;
            alpha *= smaller(larger(slope / (slope - end), 0.1), 0.8);
        }
    }

    // ---- a probability ----

    /** Margins and q as they change with ln λ, where M is factorised: into `along_s` and `along_q`. */
    __device__ __forceinline__ void change_with_lam() {
        const double moved = times(rival ? at.q / lam : 0.0); // what free features do to the margins for fixed q
        const double through_moved = through(moved);
        along_s = moved - times(through_moved);
        along_q = completed(through_moved * lam);
    }

    /** From `at`, which is evaluated, to the λ at which the logit of 1 − p_k is `aim`, up to `width` (or what rounding leaves).
     *
     *  Newton on q and ln λ together, once q is near the answer for a λ; λ multiplies the whole cost. What this does not settle
     *  in a few evaluations is left. `arrived()` says whether the answer will do, or else changes `aim` and `width`.
     */
    template <class Arrived> __device__ __forceinline__ bool reach(bool idle, const double &aim, const double &width, Arrived arrived) {
        double least = INF, low = 0.0, high = INF;
        int budget = EVALUATIONS, chases = CHASES;
        bool found = false;
        Group::repeat(idle, [&] {
            const double off = residual(at), mass = rivals_mass(at);
            double miss = logit_of(at.s, rival).a - aim;
            const bool settled = off <= 4.0 * EPS * size * mass * (1.0 + largest_margin(at));
            if (settled && magnitude(miss) <= width) {
                found = arrived();
                if (found || --chases <= 0) return false;
                miss = logit_of(at.s, rival).a - aim;
                least = INF;
                low = 0.0;
                high = INF;
                budget = EVALUATIONS;
            }
            if (budget <= 0) return false;
            if (off <= SURE * size * mass * smaller(1.0, magnitude(miss))) { // the answer for this λ misses on the same side
                if (miss > 0.0) high = smaller(high, lam);
                else low = larger(low, lam);
            }
            if (!step()) return false;
            ds = rival ? ds + at.s : 0.0;
            double change = 0.0;
            if (at.gap <= JOINT) {
                change_with_lam();
                const Both found_there = logit_of(ds, rival);
                const double wanted = aim - found_there.a, slope = Warp::sum(found_there.b * along_s);
                change = slope > FLAT_LOGIT ? wanted / slope : wanted > 0.0 ? LONGEST : -LONGEST;
                change = larger(smaller(change, LONGEST), -LONGEST);
                const double there = lam * exponential(change);
                if (!(low < there && there < high)) {
                    if (!(low > 0.0 && high < INF)) return false; // rounding, or out of reach
                    if (high - low <= NARROW * high) return false;
                    change = 0.5 * logarithm(low / lam * (high / lam));
                }
                ds += change * along_s;
            }
            ahead = log_softmax(ds).a;
            n_iter++;
            double slope = INF; // one evaluation is enough where λ changes
            if (change != 0.0) {
                dq += change * along_q;
                lam *= exponential(change);
                weight = lam;
                least = INF;
            } else {
                least = smaller(least, at.gap);
                slope = slope_at(at);
                if (!(slope > 0.0)) return false;
            }
            go_far_enough(slope, least, budget);
            if (change != 0.0) least = next.gap;
            accept();
            return true;
        });
        return found;
    }

    // ---- a start ----

    /** at.lq near the answer: the rival furthest from balance is balanced alone, a few times. */
    __device__ __forceinline__ void start(bool within) {
        double q = 0.0, total = 0.0;
        int first = k; // the rival that has a share, or the target, which has no effect
        at.q = 0.0;
        at.s = margin;
        if (!within) sweep(at);
        static_assert(PAIRS == 2); // of three, the second could not be told by `first` alone
        for (int turn = 0; turn < (K - 1 < START_PAIRS ? K - 1 : START_PAIRS); turn++) {
            follow(at);
            // its part of the gap, q ln(q/p) − q + p
            const double wrong = rival ? at.p - q + (q > 0.0 ? q * (logarithm(q) - at.lp) : 0.0) : -1.0;
            const double miss = Warp::largest(wrong);
            if (!(miss >= PAIR_GAP)) break;
            const int j = __ffs(Warp::votes(wrong == miss)) - 1, other = first == j ? k : first;
            const double before = Warp::from(q, j), others_share = total - before, room = larger(1.0 - others_share, 1e-12);
            // the logit of q_j's share, by Newton in a bracket: a start needs two digits
            double low = -FAR_LOGIT, high = FAR_LOGIT, middle = 0.0;
            const double alone = Warp::from(margin, j);
            for (int i = 0; i < START_STEPS; i++) {
                const double part = 1.0 / (1.0 + exponential(-middle)), share = room * part;
                const Both found = moved_alone(features(), k, j, share, other, other == k ? 0.0 : others_share);
                const double over = alone + found.a - middle;
                (over > 0.0 ? low : high) = middle;
                double new_middle = middle + over / (1.0 + found.b * share * (1.0 - part));
                if (!(low < new_middle && new_middle < high)) new_middle = 0.5 * (low + high);
                const double moved = magnitude(new_middle - middle);
                middle = new_middle;
                if (moved < PAIR_TOL) break;
            }
            const double share = room / (1.0 + exponential(-middle));
            total += share - before;
            if (lane == j) q = share;
            first = j;
            at.q = q;
            sweep(at);
        }
        follow(at);
        double lq = q > 0.0 ? logarithm(larger(q, 1e-300)) : smaller(at.lp, -3.0);
        if (lane == k) lq = logarithm(larger(1.0 - total, 1e-15));
        at.lq = normalised(lq);
    }

    /** λ of the problem with the rival alone that is hardest to beat (`semismooth._first_lam`). */
    __device__ __forceinline__ double first_lam(double logit) const {
        const double own_square = is_class ? all.squares[k * K + lane] : 0.0;
        const bool counts = rival && own_square > 0.0;
        const double gap = margin - logit, far = counts ? gap / square_root(own_square) : -INF;
        const double farthest = Warp::largest(far), nearest = Warp::largest(counts ? gap : -INF);
        // where each alone is beaten, that which is least so
        const unsigned chosen = Warp::votes(counts && (farthest > 0.0 ? far == farthest : gap == nearest));
        if (!chosen) return 1.0;
        const int j = __ffs(chosen) - 1;
        const double ahead_by = larger(Warp::from(gap, j), 1e-3);
        const double found = Warp::from(own_square, j) / ahead_by / (1.0 + exponential(smaller(-logit, 700.0)));
        return found > 0.0 && found < INF ? found : 1.0;
    }
};

// ---- from a source to an answer ----

struct Question { // per row: class index, and λ or `needed_logit` and the probability; tol 0 is to the last digit
    const int *target;
    const double *wanted, *prob;
    double tol;
    int max_iter;
    double least_value, rel_gap; // what EXACT means
};

struct Answers { // columns of `Results`; a row that is not settled has status LEFT
    double *x;
    i64 stride;
    double *proba, *numbers; // (M, K), (M, 6): λ, distance, objective, ‖ξ‖, cost, gap
    int *n_iter;
    signed char *status;
};

enum Status : signed char { LEFT = -1, EXACT = 0, CONVERGED = 1 };

struct Loop {
    Row &row;
    const Space &all;
    double *x;            // where its answer goes
    double z = 0.0, terms = 0.0, p = 0.0; // of this lane's class: score and probability; the size of what logits are summed from

    /** The classes' scores at points that `at(d)` gives, and `terms`. */
    template <class At> __device__ __forceinline__ void score(At at) {
        double sum[FULL] = {}, size = 0.0;
        for (int tile = 0; tile < TILES; tile++) {
            const int d = 32 * tile + row.lane;
            double seen = at(d);
            if (SCALED) seen = (seen - all.shift[d]) / all.scale[d];
            size += all.sizes[d] * magnitude(seen);
#pragma unroll
            for (int j = 0; j < K; j++) sum[j] += (PLAIN ? all.a(j, d) : all.weights[j * WIDE + d]) * seen;
        }
        terms = Warp::sum(size);
        z = own_of(sum, row.lane);
        z = row.is_class ? z + all.b[row.lane] : 0.0;
    }

    /** The source, and whether it is within its limits; false where limits contradict each other, or the source. */
    __device__ __forceinline__ bool load(bool &within) {
        double square = 0.0; // of the way into the limits
        bool wrong = false, outside = false;
        const Features features = row.features();
        Warp::sync();
        score([&](int d) {
            const double v = d < D ? double(row.source[d]) : 0.0;
            if (STAGED) memory[row.own + d] = v;
            const Features::Feature f = features.feature(d, v);
            const bool out = v < all.least(d) || v > all.most(d);
            wrong = wrong || f.least > f.most || !(magnitude(v) < INF) || (DIRECTED && (all.way[d] & 4) && out);
            outside = outside || out;
            const double way = larger(f.lo, 0.0) + larger(-f.hi, 0.0);
            square += way * way;
            return v;
        });
        Warp::sync();
        within = !Warp::votes(outside);
        return !Warp::votes(wrong || !(magnitude(z) < INF)) && magnitude(Warp::sum(square)) < INF;
    }

    /** The x of row.at.q: what stays is the source's, a bound is the bound; and its scores. */
    __device__ __forceinline__ void place() {
        row.spread(row.completed(row.at.q));
        double w[K];
#pragma unroll
        for (int j = 0; j < K; j++) w[j] = row.vector[j];
        const Features features = row.features();
        score([&](int d) {
            double u = 0.0;
#pragma unroll
            for (int j = 0; j < K; j++) u += w[j] * all.a(j, d);
            const double v = features.value(d);
            const Features::Feature f = features.feature(d, v);
            bool free;
            const double t = features.answer(u, d, f, free);
            double point = smaller(larger(v + (COSTED ? t / all.c[d] : t), f.least), f.most) + 0.0;
            if (t == f.hi) point = f.most;
            if (t == f.lo) point = f.least;
            if (t == 0.0) point = v;
            if (d < D) x[d] = point;
            return point;
        });
    }

    /** Probabilities from z; −ln p_k to full precision. */
    __device__ __forceinline__ double probabilities() {
        const double above = z - Warp::from(z, row.k), top = Warp::largest(row.is_class ? above : 0.0);
        const double e = row.is_class ? exponential(above - top) : 0.0, others = Warp::sum(row.rival ? e : 0.0);
        const double total = others + Warp::from(e, row.k);
        p = e / total;
        return top == 0.0 ? logarithm_of_one_more(others) : top + logarithm(total);
    }

    __device__ __forceinline__ double logit_here() const { return logit_of(z - Warp::from(z, row.k), row.rival).a; }

    /** `claim` of x, whose scores are in z. */
    __device__ __forceinline__ double judge(double lam, double weight, double prob, double *numbers) {
        const double loss = probabilities();
        row.spread(row.completed(p));
        const Features features = row.features();
        double w[K], square = 0.0, sparse = 0.0, norm = 0.0;
#pragma unroll
        for (int j = 0; j < K; j++) w[j] = row.vector[j];
        for (int tile = 0; tile < TILES; tile++) {
            const int d = 32 * tile + row.lane;
            double pull = 0.0;
#pragma unroll
            for (int j = 0; j < K; j++) pull += w[j] * all.a(j, d);
            const double v = features.value(d), point = d < D ? x[d] : 0.0, t = (point - v) * (COSTED ? all.c[d] : 1.0);
            const Features::Feature f = features.feature(d, v);
            const double mu = SOFT ? all.mu[d] : 0.0, g = lam * t + pull, bend = weight * mu;
            const double least = point <= f.least ? -INF : g + (t > 0.0 ? bend : -bend);
            const double most = point >= f.most ? INF : g + (t < 0.0 ? -bend : bend);
            const double xi = smaller(larger(0.0, least), most);
            square += t * t;
            sparse += mu * magnitude(t);
            norm += xi * xi;
        }
        const double own_p = row.rival ? p : 0.0, terms_length = row.is_class ? all.terms_length[row.k * K + row.lane] : 0.0;
        const Sums sums{Warp::sum(square), Warp::sum(sparse), Warp::sum(norm), terms, Warp::sum(own_p), Warp::sum(own_p * row.length),
                        Warp::sum(own_p * terms_length)};
        return claim(all.errors, K, lam, weight, prob, loss, sums, numbers);
    }

    __device__ __forceinline__ bool weighed(bool idle, double lam, bool within, const Question &question, double *numbers) {
        if (!idle) {
            row.lam = lam;
            row.weight = 1.0;
            row.start(within);
            row.evaluate(row.at);
        }
        if (!row.newton(idle, question.tol, question.max_iter)) return false;
        place();
        // whoever computes E in another order is to find the same number
        return judge(lam, 1.0, 0.0, numbers) <= SAME * (1.0 + magnitude(numbers[2]));
    }

    __device__ __forceinline__ bool reached(bool idle, double logit, double prob, bool within, double *numbers) {
        const double size = Warp::largest(magnitude(row.margin)), wide = 8.0 * EPS * (magnitude(logit) + 1.0);
        double room = all.errors.rounding(terms, size);
        const bool stays = !idle && logit_here() <= logit - room;
        if (stays && within) {
            for (int d = row.lane; d < D; d += 32) x[d] = row.features().value(d);
            const double loss = probabilities(), found[] = {INF, 0.0, loss, 0.0, 0.0, 0.0};
            for (int i = 0; i < 6; i++) numbers[i] = found[i];
        }
        idle = idle || stays;
        if (!idle) {
            row.lam = row.weight = row.first_lam(logit);
            row.start(within);
            row.evaluate(row.at);
        }
        double width = room + wide, aim = logit - room - 0.5 * width, close = 0.25 * width;
        const bool found = row.reach(idle, aim, close, [&] {
            place();
            const double now = all.errors.rounding(terms, size), over = logit_here() - (logit - now);
            if (over <= 0.0) return true;
            room = larger(now, room) + over;
            width = room + wide;
            aim = logit - room - 0.5 * width;
            close = 0.25 * width;
            return false;
        });
        if (found) judge(row.lam, row.lam, prob, numbers);
        return found || (stays && within);
    }

    /** The row from source to answer; where there is none, this warp only keeps company. */
    __device__ __forceinline__ void run(bool none, i64 m, const Question &question, const Answers &out) {
        row.k = none ? 0 : question.target[m];
        row.rival = row.is_class && row.lane != row.k;
        bool within = false, settled;
        double numbers[6] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
        const bool idle = none || !load(within);
        if (!idle) {
            row.forget_gram();
            row.n_iter = 0;
            const double above = z - Warp::from(z, row.k);
            row.margin = row.rival ? above : 0.0;
            row.length = row.rival ? all.lengths[row.k * K + row.lane] : 0.0;
            row.size = Warp::largest(row.length);
        }
        const double wanted = none ? 1.0 : question.wanted[m];
        if (AIMS) settled = reached(idle, wanted, none ? 0.5 : question.prob[m], within, numbers);
        else settled = weighed(idle, wanted, within, question, numbers);
        if (none) return;
        for (int a = 1; a < 6; a++) settled = settled && magnitude(numbers[a]) < INF;
        const bool loose = !AIMS && question.tol > 0.0;
        const double value = AIMS ? numbers[4] : larger(magnitude(numbers[2]), question.least_value);
        settled = settled && (loose || numbers[5] <= question.rel_gap * value);
        if (row.is_class) out.proba[m * K + row.lane] = p;
        if (row.lane < 6) {
            double mine = numbers[0];
            for (int a = 1; a < 6; a++)
                if (row.lane == a) mine = numbers[a];
            out.numbers[6 * m + row.lane] = mine;
        }
        if (row.lane == 0) {
            out.n_iter[m] = row.n_iter;
            out.status[m] = !settled ? LEFT : loose ? CONVERGED : EXACT;
        }
    }
};

/** `each` are the seven arrays of features in `Space`, `pairs` the three of pairs of classes, `errors` is `Errors`. */
extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
limited(i64 rows, const SOURCE *X, i64 stride, const double *A, const double *weights, const double *b, const double *each,
        const signed char *way, const double *gram, const double *pairs, const double *errors, const int *target, const double *wanted,
        const double *prob, double tol, int max_iter, double least_value, double rel_gap, double *x, i64 x_stride, double *proba,
        double *numbers, int *n_iter, signed char *status) {
    const Space space{A,
                      weights,
                      b,
                      each,
                      each + COUNT,
                      each + 2 * COUNT,
                      each + 3 * COUNT,
                      each + 4 * COUNT,
                      each + 5 * COUNT,
                      each + 6 * COUNT,
                      way,
                      pairs,
                      pairs + K * K,
                      pairs + 2 * K * K,
                      {errors[0], errors[1], errors[2], errors[3], errors[4], errors[5], errors[6]}};
    const Question question{target, wanted, prob, tol, max_iter, least_value, rel_gap};
    const Answers answers{x, x_stride, proba, numbers, n_iter, status};
    const auto stage = [&](int to, const double *from, int length) {
        for (int i = threadIdx.x; i < length; i += blockDim.x) memory[to + i] = from[i];
    };
    stage(GRAM, gram, K * PITCH);
    if (STAGED) {
        stage(ROWS, space.A, K * WIDE);
        stage(LO, space.lo, COUNT);
        stage(HI, space.hi, COUNT);
    }
    __syncthreads();
    Row row(space, KEPT + int(threadIdx.x / 32) * ROOM);
    for (i64 first = i64(blockIdx.x) * WARPS; first < rows; first += i64(gridDim.x) * WARPS) {
        const i64 m = first + threadIdx.x / 32;
        row.source = X + m * stride;
        Loop loop{row, space, answers.x + m * answers.stride};
        loop.run(m >= rows, m, question, answers);
    }
}

} // namespace ifonly::IFONLY_SET::limits

// Limits on features one by one, for many rows on a GPU: what is done over features. The mathematics is that of engines/semismooth.py.
//
// A row goes in rounds. Where it is known which features are free to move, its problem is one over classes like that without limits,
// and newton.cu solves it (`step`); a sweep over the features then tells which are free at that q (`sweep`). That is the semismooth
// Newton method with the softmax taken as it is, not as its tangent: a row of MNIST within [0, 1] takes 4 rounds, and took 7
// iterations after a start as long as they were. The first problem is that without limits.
//
// A warp has a row to itself, a lane one class (so K ≤ 32) and every 32nd feature. The classes' rows in units of cost are in the
// shared memory of a block, if they fit, for all targets: a pull of the rivals is Σ_j q_j (a_j − a_k) = Σ_j w_j a_j with
// w_k = −Σ q_j. Vectors of classes have 0 for the target, or what completes the others to 0, where rivals alone are meant.
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
constexpr int PITCH = K | 1; // of matrices of classes: neighbours are in different banks
constexpr int EIGHTS = (K + 7) / 8;
constexpr int FULL = K <= 2 ? 2 : K <= 4 ? 4 : K <= 8 ? 8 : K <= 16 ? 16 : 32; // classes, and some that are none
constexpr int D = FEATURES, TILES = (D + 31) / 32, COUNT = 32 * TILES;
constexpr int WIDE = COUNT + 4; // from one class's row to the next: four features of four classes are in different banks
constexpr int LISTED = COUNT < 1024 ? COUNT : 1024; // features of which changes are listed at a time: a word of bits for each lane
constexpr int GRAM = 0, ROWS = GRAM + K * PITCH, LO = ROWS + K * WIDE, HI = LO + COUNT; // where they are in shared memory
constexpr int KEPT = STAGED ? HI + COUNT : ROWS;                                        // of a block; then come those of the warps
constexpr int ROOM = (STAGED ? COUNT : 0) + K * PITCH + 32 + (TILES + 1) / 2 + LISTED / 4;
constexpr int AT_ONCE = TILES <= 32 ? TILES : 8; // numbers of a source that a lane asks for before it waits
constexpr double LEAST_Q = 1e-300; // of which there is a logarithm
constexpr double GAIN = 1e-13;     // of 1 − ln p_k: what D's slope is but rounding below
constexpr double SETTLED = 1e-10;  // of the largest residual that there can be: where the same features are free as before, rounding

extern __shared__ double memory[];

struct Warp {
    static __device__ __forceinline__ int lane() { return int(threadIdx.x % 32); }
    static __device__ __forceinline__ void sync() { __syncwarp(); }
    static __device__ __forceinline__ double from(double a, int lane) { return __shfl_sync(~0u, a, lane); }
    static __device__ __forceinline__ unsigned votes(bool yes) { return __ballot_sync(~0u, yes); }
    static __device__ __forceinline__ double sum(double a) { // the same bits in all
        for (int other = 16; other; other /= 2) a += __shfl_xor_sync(~0u, a, other);
        return a;
    }
    static __device__ __forceinline__ double largest(double a) {
        for (int other = 16; other; other /= 2) a = larger(a, __shfl_xor_sync(~0u, a, other));
        return a;
    }
};

/** C += A Bᵀ of tiles of 8 × 8, where this lane has one number of A and of B, and two of C. */
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

/** What all rows share. Arrays of features are filled up with 0 to whole tiles of 32. */
struct Space {
    const double *A;         // (K, WIDE) in units of cost
    const double *weights;   // (K, WIDE) the classifier's own
    const double *b;         // (K)
    const double *shift, *scale, *sizes, *c, *mu, *lo, *hi; // (features)
    const signed char *way;  // (features) bits: only rises, only falls, stays
    const unsigned *moving;  // (tiles) the features that may move, as bits
    const double *grams;     // (K, RIVALS, RIVALS) of the rivals of each target, over those
    const double *lengths, *terms_length; // (K, K): ‖a_j − a_k‖; ‖(|a_j| + |a_k|)/c‖
    Errors errors;

    __device__ __forceinline__ const double *row(int j) const { return (STAGED ? memory + ROWS : A) + j * WIDE; }
    __device__ __forceinline__ double a(int j, int d) const { return row(j)[d]; }
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
        const bool above = y > f.lo;
        const double least = above ? y : f.lo;
        const bool below = least < f.hi;
        const double t = below ? least : f.hi;
        free = above && below;
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
__device__ __forceinline__ double moved_by(Features of, const double *vector, unsigned *free_bits) {
    double w[K], sum[FULL] = {};
#pragma unroll
    for (int j = 0; j < K; j++) w[j] = vector[j];
#pragma unroll 1
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
__device__ __forceinline__ Both log_softmax(double s) {
    const bool is_class = Warp::lane() < K;
    const double top = Warp::largest(is_class ? s : -INF), e = is_class ? exponential(s - top) : 0.0, total = Warp::sum(e);
    return {is_class ? s - (top + logarithm(total)) : 0.0, e / total};
}

/** The logit of 1 − p_k at margins s. */
__device__ __forceinline__ double logit_of(double s, bool rival) {
    const double top = Warp::largest(rival ? s : -INF);
    return top + logarithm(Warp::sum(rival ? exponential(s - top) : 0.0));
}

/** What a Gram matrix is made from: one of some features, or of none. */
struct Origin {
    const unsigned *known; // (tiles)
    const double *gram;

    __device__ __forceinline__ unsigned tile(int at) const { return known ? known[at] : 0; }
};

/** The row that a warp is at. */
struct Row {
    const Space &all;
    const int lane;
    const bool is_class;
    const int own;           // where in shared memory its source is
    double *G, *vector;      // (K, PITCH) Gram matrix of the classes over features that changed; (32)
    unsigned *free;          // (tiles) the features that are free at q, as bits
    unsigned short *changed; // (LISTED)
    const SOURCE *source = nullptr;
    Kept *kept = nullptr;
    unsigned *bits = nullptr; // (tiles) the features that are in kept->gram
    Origin from{}; // what the next one is made from
    int k = 0;
    bool rival = false;
    double lam = 1.0, weight = 1.0, size = 0.0; // size: the largest of the rivals' lengths
    double margin = 0.0, length = 0.0, q = 0.0, s = 0.0, lp = 0.0, p = 0.0; // numbers of this lane's class

    __device__ __forceinline__ Row(const Space &space, int room) : all(space), lane(Warp::lane()), is_class(lane < K), own(room) {
        G = memory + room + (STAGED ? COUNT : 0);
        vector = G + K * PITCH;
        free = reinterpret_cast<unsigned *>(vector + 32);
        changed = reinterpret_cast<unsigned short *>(free + TILES);
    }

    __device__ __forceinline__ Features features() const { return {all, source, own, lane, 1.0 / lam, weight}; }
    __device__ __forceinline__ int rival_of(int j) const { return j - (j > k); } // of class j, which is not the target
    __device__ __forceinline__ double own_of_rivals(const double *vector) const { return rival ? vector[rival_of(lane)] : 0.0; }

    /** Another row, whose source is set. */
    __device__ __forceinline__ void take(int target) {
        k = target;
        rival = is_class && lane != k;
        Warp::sync();
        if (STAGED)
#pragma unroll AT_ONCE
            for (int d = lane; d < COUNT; d += 32) memory[own + d] = d < D ? double(source[d]) : 0.0;
        length = rival ? all.lengths[k * K + lane] : 0.0;
        size = Warp::largest(length);
    }

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

    /** Which features are free at q; s, lp and p. */
    __device__ __forceinline__ void sweep() {
        spread(completed(q));
        const double moved = moved_by(features(), vector, free), with_target = Warp::from(moved, k);
        s = rival ? margin + (moved - with_target) : 0.0;
        const Both found = log_softmax(s);
        lp = found.a;
        p = found.b;
        Warp::sync();
    }

    /** By how much ln q is below ln p, over the target's. */
    __device__ __forceinline__ double force() const {
        const double rest = 1.0 - Warp::sum(q), above = is_class ? lp - logarithm(larger(lane == k ? rest : q, LEAST_Q)) : 0.0;
        return above - Warp::from(above, k);
    }

    /** Whether the same features are free as in the last problem; in the first all were that may move. */
    __device__ __forceinline__ bool unchanged(bool first) {
        from = first ? Origin{all.moving, all.grams + k * RIVALS * RIVALS} : Origin{bits, kept->gram};
        int changed = 0, now = 0;
        for (int tile = lane; tile < TILES; tile += 32) {
            changed += __popc(free[tile] ^ from.tile(tile));
            now += __popc(free[tile]);
        }
        if (Warp::sum(double(changed - now)) > 0.0) from = {nullptr, nullptr};
        return !Warp::votes(changed != 0);
    }

    /** ‖Bᵀ(p − q)‖, which bounds the gradient of E. */
    __device__ __forceinline__ double residual() {
        const double apart = completed(p - q);
        spread(apart);
        double sum = 0.0;
        if (is_class)
            for (int j = 0; j < K; j++) sum += vector[j] * memory[GRAM + j * PITCH + lane];
        const double square = Warp::sum(apart * sum);
        return square_root(square < 0.0 ? 0.0 : square); // NaN stays NaN
    }

    // ---- the Gram matrix ----

    /** Of 32 tiles of features those that are free and were not, or the other way round, the latter with the highest bit; how many. */
    __device__ __forceinline__ int list_changes(int start) {
        const int tile = start + lane;
        const unsigned now = tile < TILES ? free[tile] : 0, odd = tile < TILES ? now ^ from.tile(tile) : 0;
        int place = __popc(odd);
        for (int step = 1; step < 32; step *= 2) {
            const int before = __shfl_up_sync(~0u, place, step);
            if (lane >= step) place += before;
        }
        const int count = __shfl_sync(~0u, place, 31);
        place -= __popc(odd);
        Warp::sync();
        for (unsigned rest = odd; rest; rest &= rest - 1) {
            const int bit = __ffs(int(rest)) - 1;
            changed[place++] = (unsigned short)((32 * lane + bit) | (now >> bit & 1 ? 0 : 1 << 15));
        }
        Warp::sync();
        return count;
    }

    /** G: what the features that changed add, by the matrix units, four at a time. */
    __device__ __forceinline__ void make_gram() {
        double c[EIGHTS * (EIGHTS + 1)] = {};
        const double *rows[EIGHTS];
#pragma unroll
        for (int m = 0; m < EIGHTS; m++) rows[m] = all.row(8 * m + lane / 4 < K ? 8 * m + lane / 4 : 0);
        const auto add = [&](int start, int coded, bool is) {
            const int d = 32 * start + (coded & 1023);
            double a[EIGHTS], b[EIGHTS];
#pragma unroll
            for (int m = 0; m < EIGHTS; m++) {
                a[m] = rows[m][d];
                b[m] = is ? bits_of<double>(bits_of<i64>(a[m]) ^ i64(coded >> 15) << 63) : 0.0; // with its sign
            }
#pragma unroll
            for (int m = 0, at = 0; m < EIGHTS; m++)
#pragma unroll
                for (int n = 0; n <= m; n++, at += 2) add_product(c[at], c[at + 1], a[m], b[n]);
        };
        for (int start = 0; start < TILES; start += 32) {
            const int count = list_changes(start), own = lane % 4;
            int at = 0;
#pragma unroll 4
            for (; at + 4 <= count; at += 4) add(start, changed[at + own], true);
            if (at < count) add(start, at + own < count ? changed[at + own] : 0, at + own < count);
        }
#pragma unroll
        for (int m = 0, at = 0; m < EIGHTS; m++)
#pragma unroll
            for (int n = 0; n <= m; n++, at += 2) {
                const int i = 8 * m + lane / 4, j = 8 * n + 2 * (lane % 4);
                if (i < K && j <= i) G[i * PITCH + j] = G[j * PITCH + i] = c[at];
                if (i < K && j + 1 <= i) G[i * PITCH + j + 1] = G[(j + 1) * PITCH + i] = c[at + 1];
            }
    }

    /** The problem over classes where those features are free that are free at q. */
    __device__ __forceinline__ void keep(double strength) {
        make_gram();
        for (int tile = lane; tile < TILES; tile += 32) bits[tile] = free[tile];
        spread(rival ? q : 0.0);
        if (rival) {
            const int mine = rival_of(lane);
            const double away = G[k * PITCH + lane] - G[k * PITCH + k];
            double g[RIVALS], sum = 0.0;
#pragma unroll
            for (int i = 0; i < RIVALS; i++) g[i] = from.gram ? from.gram[i * RIVALS + mine] : 0.0;
#pragma unroll
            for (int i = 0; i < RIVALS; i++) {
                const int j = i + (i >= k);
                g[i] += (G[j * PITCH + lane] - G[j * PITCH + k]) - away;
                sum += vector[j] * g[i];
                kept->gram[i * RIVALS + mine] = g[i];
            }
            kept->bent[mine] = s + sum / lam;
            kept->force[mine] = strength;
        }
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

struct Answers { // columns of `Results`; a row that is not settled has status LEFT in the end
    double *x;
    i64 stride;
    double *proba, *numbers; // (M, K), (M, 6): λ, distance, objective, ‖ξ‖, cost, gap
    int *n_iter;
    signed char *status;
};

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

    /** The source's scores, and whether it is within its limits; false where limits contradict each other, or the source. */
    __device__ __forceinline__ bool look_at(bool &within) {
        double square = 0.0; // of the way into the limits
        bool wrong = false, outside = false;
        const Features features = row.features();
        score([&](int d) {
            const double v = features.value(d);
            const Features::Feature f = features.feature(d, v);
            const bool out = v < all.least(d) || v > all.most(d);
            wrong = wrong || f.least > f.most || !(magnitude(v) < INF) || (DIRECTED && (all.way[d] & 4) && out);
            outside = outside || out;
            const double way = larger(f.lo, 0.0) + larger(-f.hi, 0.0);
            square += way * way;
            return v;
        });
        within = !Warp::votes(outside);
        return !Warp::votes(wrong || !(magnitude(z) < INF)) && magnitude(Warp::sum(square)) < INF;
    }

    /** The x of row.q: what stays is the source's, a bound is the bound; and its scores. */
    __device__ __forceinline__ void place() {
        row.spread(row.completed(row.q));
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
            if (t == 0.0) point = smaller(larger(v, f.least), f.most); // a way into the limits may be too short for a t
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

    __device__ __forceinline__ double logit_here() const { return logit_of(z - Warp::from(z, row.k), row.rival); }

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

    /** Columns of an answer, or of what is no answer. */
    __device__ __forceinline__ void hand_out(i64 m, bool settled, const Question &question, const Answers &out, const double *numbers) {
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
        if (row.lane == 0) out.status[m] = !settled ? LEFT : loose ? CONVERGED : EXACT;
    }

    __device__ __forceinline__ double coarser(i64 m, const Question &question) const {
        return AIMS ? all.errors.coarser(question.prob[m]) : 1.0;
    }

    /** What is known of row m before its first round; a source that will do is the answer. */
    __device__ __forceinline__ void begin(i64 m, const Question &question, const Answers &out) {
        bool within = false, stays = false;
        const bool right = look_at(within);
        const double above = z - Warp::from(z, row.k), margin = row.rival ? above : 0.0;
        const double room = coarser(m, question) * all.errors.rounding(terms, Warp::largest(magnitude(margin)));
        if (AIMS) stays = right && logit_here() <= question.wanted[m] - room;
        if (row.rival) row.kept->margin[row.rival_of(row.lane)] = row.kept->bent[row.rival_of(row.lane)] = margin;
        if (row.lane == 0) {
            row.kept->room = room;
            out.n_iter[m] = 0;
            out.status[m] = right && !stays ? FRESH : LEFT;
        }
        if (!(stays && within)) return;
        for (int d = row.lane; d < D; d += 32) x[d] = row.features().value(d);
        const double numbers[] = {INF, 0.0, probabilities(), 0.0, 0.0, 0.0};
        hand_out(m, true, question, out, numbers);
    }

    /** The answer of row.q; false where a probability is missed by some roundings, for which there is more room then. */
    __device__ __forceinline__ bool finish(i64 m, const Question &question, const Answers &out) {
        place();
        if (AIMS) {
            const double now = coarser(m, question) * all.errors.rounding(terms, Warp::largest(magnitude(row.margin)));
            const double over = logit_here() - (question.wanted[m] - now);
            if (!(over <= 0.0)) {
                if (row.lane == 0) row.kept->room = larger(now, row.kept->room) + over;
                return false;
            }
        }
        double numbers[6];
        const double rounded = judge(row.lam, row.weight, AIMS ? question.prob[m] : 0.0, numbers);
        // whoever computes E in another order is to find the same number
        hand_out(m, AIMS || rounded <= SAME * (1.0 + magnitude(numbers[2])), question, out, numbers);
        return true;
    }

    /** A round of row m, whose q the problem over classes has given. */
    __device__ __forceinline__ void round(i64 m, const Question &question, const Answers &out) {
        Kept &kept = *row.kept;
        const int rounds = out.n_iter[m] + 1;
        const bool first = rounds == 1, last = rounds >= question.max_iter;
        Warp::sync();
        if (row.lane == 0) out.n_iter[m] = rounds;
        row.lam = kept.lam;
        row.weight = AIMS ? row.lam : 1.0;
        row.margin = row.own_of_rivals(kept.margin);
        row.q = row.own_of_rivals(kept.q);
        // 1. Which features are free, and where that leads.
        row.sweep();
        // 2. Done where q is p to rounding, or there was nothing to gain any more: then the answer, if it will do.
        const bool weighs = !AIMS && !first;
        const double mass = Warp::sum(row.rival ? row.p : 0.0), largest = Warp::largest(row.rival ? magnitude(row.s) : 0.0);
        const double share = row.unchanged(first) ? SETTLED : 4.0 * EPS * (1.0 + largest), slope = weighs ? kept.slope : 0.0;
        const bool gains = !weighs || slope > GAIN * (1.0 - Warp::from(row.lp, row.k));
        const bool done = !gains || row.residual() <= larger(question.tol, share * row.size * mass);
        if (done && finish(m, question, out)) return;
        if (row.lane == 0) out.status[m] = last ? LEFT : first ? OPEN : NEAR_BY;
        // 3. Where it went so far that D's slope is far below zero, some of the way back.
        const double before = weighs ? row.own_of_rivals(kept.before) : row.q, strength = row.force();
        const double end = Warp::sum(row.rival ? strength * (row.q - before) : 0.0);
        if (end < -TOO_LONG * slope) {
            const double part = larger(slope / (slope - end), 0.1);
            if (row.rival) kept.q[row.rival_of(row.lane)] = before + part * (row.q - before);
            if (row.lane == 0) {
                kept.slope = part * slope;
                if (!last) out.status[m] = TRIED;
            }
            return;
        }
        // 4. Else the next problem.
        row.keep(strength);
    }
};

/** One round of the rows that are listed, or what comes before the first, of all. `each` are the seven arrays of features in `Space`,
 *  `pairs` the two of pairs of classes, `errors` is `Errors`. */
extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
limited(i64 count, const i64 *rows, Kept *kept, unsigned *bits, const SOURCE *X, i64 stride, const double *A, const double *weights,
        const double *b, const double *each, const signed char *way, const unsigned *moving, const double *grams, const double *gram,
        const double *pairs, const double *errors, const int *target, const double *wanted, const double *prob, double tol, int max_iter, double least_value, double rel_gap,
        double *x, i64 x_stride, double *proba, double *numbers, int *n_iter, signed char *status) {
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
                      moving,
                      grams,
                      pairs,
                      pairs + K * K,
                      {errors[0], errors[1], errors[2], errors[3], errors[4], errors[5], errors[6], errors[7]}};
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
    for (i64 i = i64(blockIdx.x) * WARPS + threadIdx.x / 32; i < count; i += i64(gridDim.x) * WARPS) {
        const i64 m = rows ? rows[i] : i;
        if (rows && status[m] == LEFT) continue; // its problem over classes has no answer
        row.source = X + m * stride;
        row.kept = kept + m;
        row.bits = bits + m * TILES;
        row.take(target[m]);
        Loop loop{row, space, answers.x + m * answers.stride};
        if (rows) loop.round(m, question, answers);
        else loop.begin(m, question, answers);
    }
}

} // namespace ifonly::IFONLY_SET::limits

// Class-space Newton for many rows on a GPU: the row solver of newton.hpp, and who does the work.
//
// A row belongs to a team of TEAM threads. With TEAM = 1 all loops are unrolled, and what is known of a row lives in the registers
// of its thread, as far as they go; a larger team keeps it in shared memory, and its thread r has the rivals r, r + TEAM, ….
//
// Compiled once per number of classes, by native/cuda.py, which puts the headers before it and defines
//     CLASSES, TEAM    K and the threads per row
//     AIMS             whether a probability is asked for (1), or λ is given (0)
//     PAIRS            steps of the start
//     THREADS, BLOCKS  of a block, and blocks that have to fit on a multiprocessor
//     SOLVE, ANSWER, BEGIN or STEP  which of the entries is wanted: with all loops unrolled, each takes seconds to compile

namespace ifonly::IFONLY_SET {

constexpr int K = CLASSES;
constexpr int N = K - 1;             // rivals of the target
constexpr int ROWS = K == 2 ? 1 : K; // rows that a change is made of: A itself, or a₂ − a₁
constexpr int GRAM = N * N | 1;      // from one target's Ḡ to the next; odd, so that threads with different targets meet other banks
constexpr int REACH = 4;             // of Lengths: span, norm, terms, swing

// ---- a team ----

#if TEAM == 1
struct Team : Alone { // else all of Ḡ is taken into registers before the loop, and spilled
    static __device__ __forceinline__ double load(const double *at) { return *(const volatile double *)at; }
};
#else
struct Team {
#if TEAM == 32
    using Factor = Tiles<CLASSES - 1>;
#else
    struct Factor {};
#endif
    static constexpr int size = TEAM;
    static constexpr int within = TEAM < 32 ? TEAM : 32; // threads of a team in one warp

    static __device__ __forceinline__ int rank() { return int(threadIdx.x % TEAM); }
    static __device__ __forceinline__ unsigned mates() {
        return within == 32 ? ~0u : ((1u << within % 32) - 1) << threadIdx.x % 32 / within * within;
    }
    static __device__ __forceinline__ void sync() {
        if (TEAM > 32) __syncthreads();
        else __syncwarp(mates());
    }
    template <class Number, class Join> static __device__ __forceinline__ Number joined(Number a, Join join) { // the same bits in all
        for (int other = within / 2; other; other /= 2) a = join(a, __shfl_xor_sync(mates(), a, other));
        if (TEAM > 32) {
            __shared__ Number each[TEAM / 32 + 1];
            __syncthreads();
            if (threadIdx.x % 32 == 0) each[threadIdx.x / 32] = a;
            __syncthreads();
            a = each[0];
            for (int warp = 1; warp < TEAM / 32; warp++) a = join(a, each[warp]);
        }
        return a;
    }
    template <class Number> static __device__ __forceinline__ Number sum(Number a) {
        return joined(a, [](Number x, Number y) { return x + y; });
    }
    template <class Number> static __device__ __forceinline__ Number largest(Number a) {
        return joined(a, [](Number x, Number y) { return larger(x, y); });
    }
    static __device__ __forceinline__ double load(const double *at) {
        return __ldg(at); // never written: such reads need not wait for writes to shared memory
    }
};
#endif

using RowSolver = Solver<double, N, AIMS != 0, Team>;

constexpr int USED = 13 * N + (TEAM == 32 ? 1 : N * (N + 1) / 2) + (3 * N + 1) / 2; // numbers in Vectors
struct Own : Vectors<double, N> {
    double pad[(TEAM % 16 + 16 - USED % 16) % 16 + 1]; // so that the teams of a warp meet different banks
};

// ---- one row ----

/** Margins of one target in, `engines.newton.Solved` out. `numbers` is (B, 5). */
__device__ __forceinline__ void solve_row(Own &x, long long b, const double *G, const double *margins, const double *lam,
                                          const double *goals, double tol, int max_iter, double *q, double *p, double *numbers,
                                          int *n_iter, bool *done) {
    RowSolver solver(x, G);
    EACH(i) x.s[i] = margins[b * N + i];
    if (AIMS) solver.goal = {goals[4 * b], goals[4 * b + 1], goals[4 * b + 2], goals[4 * b + 3]};
    solver.begin(AIMS ? 0.0 : lam[b], PAIRS);
    solver.tol = tol;
    if (!solver.active) solver.evaluate();
    solver.go(max_iter, [](bool) { return true; }, [] { return false; });
    EACH(i) {
        q[b * N + i] = x.q[i];
        p[b * N + i] = x.p[i];
    }
    if (Team::rank() == 0) {
        numbers[5 * b] = solver.lam;
        numbers[5 * b + 1] = solver.p_target;
        numbers[5 * b + 2] = solver.E;
        numbers[5 * b + 3] = square_root(solver.lam * larger(solver.gg, 0.0));
        numbers[5 * b + 4] = larger(solver.quad, 0.0) * solver.lam;
        n_iter[b] = int(solver.iterations);
        done[b] = solver.done;
    }
}

struct Model { // of the classifier
    const double *b;       // (K) biases
    const double *grams;   // (K, GRAM) Ḡ of every target
    const double *lengths; // (K, N) ‖ā_j‖ of every target
    const double *reach;   // (K, REACH) engines.rounding.Lengths of every target
    double gamma, coarse, bias; // engines.rounding.Rounding
    double logs;                // problem.goals.in_logs
};

struct Question { // per row: class index, and λ or the logit of `needed_logit`; tol 0 is to the last digit
    const int *target;
    const double *wanted;
    double tol;
    int max_iter;
};

struct Answers { // columns of `Results`; a row that is not solved has status LEFT
    double *coef, *proba;
    double *numbers; // (B, 4): λ, distance, objective, bound on ‖∇E‖
    int *n_iter;
    signed char *status;
};

enum Status : signed char { LEFT = -1, EXACT = 0, CONVERGED = 1, INVALID = 4 };

struct Sources { // (slices, B, ROWS + 2): parts of X rowsᵀ, of ‖x‖² and of Σ_d |x_d| max_j|a_jd|, from passes.cu
    const double *parts;
    int slices;
    long long B;

    __device__ __forceinline__ double operator()(long long b, int j) const {
        double total = 0.0;
        for (int slice = 0; slice < slices; slice++) total += parts[(slice * B + b) * (ROWS + 2) + j];
        return total;
    }
};

/** Row b from what is known of its source to a whole answer with its certificate: free_rows.hpp for a team. */
__device__ __forceinline__ void answer_row(Own &x, long long b, const Model &model, const Question &question,
                                           const Sources &sources, const float *start, const Answers &out) {
    const int k = question.target[b];
    const double *lengths = model.lengths + k * N, *reach = model.reach + k * REACH;
    const Precision precision = {K, model.gamma, model.coarse, reach[0], reach[1], reach[2], reach[3], model.logs};
    RowSolver solver(x, model.grams + k * GRAM);

    // 1. Margins over the target; a row that is not finite, or too large, has none.
    double check = 0.0, most = 0.0;
    const double own = K == 2 ? 0.0 : sources(b, k) + model.b[k];
    EACH(i) {
        const int j = i + (i >= k);
        if (K > 2) x.s[i] = sources(b, j) + model.b[j] - own;
        else x.s[i] = (k == 0 ? 1.0 : -1.0) * (sources(b, 0) + (model.b[1] - model.b[0]));
    }
    EACH(i) {
        check += x.s[i] - x.s[i];
        most = larger(most, magnitude(x.s[i]));
    }
    most = Team::largest(most);
    const double norm = square_root(larger(sources(b, ROWS), TINY_SQUARE));
    const bool valid = Team::sum(check) == 0.0 && norm <= LARGEST;
    const Sizes<double> sizes = {norm, sources(b, ROWS + 1) + model.bias * (UNIT / model.gamma)};

    // 2. Solve; with a goal only if the row is not there already.
    bool stay = false;
    double bound = 0.0;
    if (valid && AIMS) {
        solver.goal = window_of(precision, sizes, most, question.wanted[b]);
        EACH(i) x.q[i] = 0.0;
        solver.evaluate();
        stay = solver.logit <= solver.goal.logit - solver.goal.slack;
    }
    if (valid && !stay) {
        const auto certified = [&](bool) {
            bound = bound_of(solver, precision, sizes, lengths);
            return bound <= question.tol;
        };
        solver.begin(question.wanted[b], PAIRS, start ? start + b * N : nullptr);
        solver.tol = AIMS ? 0.0 : question.tol;
        solver.go(question.max_iter, certified, [] { return false; });
        bound = bound_of(solver, precision, sizes, lengths);
    }

    // 3. What is handed out.
    const double nothing = INF - INF, scale = stay ? 0.0 : solver.il;
    const bool done = solver.done && magnitude(solver.quad) < INF && solver.p_target > LEAST_P;
    double *coef = out.coef + b * ROWS, *proba = out.proba + b * K, q_sum = 0.0;
    EACH(i) {
        const int j = i + (i >= k);
        proba[j] = valid ? x.p[i] : nothing;
        q_sum += x.q[i];
        if (K > 2) coef[j] = valid ? -x.q[i] * scale : nothing;
        else coef[0] = valid ? (k == 0 ? -x.q[i] : x.q[i]) * scale : nothing;
    }
    q_sum = Team::sum(q_sum);
    if (Team::rank() == 0) {
        proba[k] = valid ? solver.p_target : nothing;
        if (K > 2) coef[k] = valid ? q_sum * scale : nothing;
        out.numbers[4 * b] = !valid ? nothing : stay ? INF : solver.lam;
        out.numbers[4 * b + 1] = !valid ? nothing : stay ? 0.0 : square_root(larger(solver.quad, 0.0) * solver.il);
        out.numbers[4 * b + 2] = valid ? solver.E : nothing;
        out.numbers[4 * b + 3] = !valid ? nothing : stay ? 0.0 : bound;
        out.n_iter[b] = valid && !stay && K > 2 ? int(solver.iterations) : 0; // of two classes the start is the answer
        out.status[b] = !valid ? INVALID : stay ? EXACT : !done ? LEFT : bound <= question.tol ? CONVERGED : EXACT;
    }
}

// ---- entries ----

extern __shared__ double memory[]; // of single threads the matrices Ḡ, of teams their Own

/** Ḡ from shared memory, for single threads. */
__device__ __forceinline__ const double *staged(const double *G, [[maybe_unused]] int length) {
#if TEAM == 1
    for (int i = threadIdx.x; i < length; i += blockDim.x) memory[i] = G[i];
    __syncthreads();
    return memory;
#else
    return G;
#endif
}

#define OWN_ROW                                                                                                                \
    const long long b = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / TEAM;                                             \
    if (b >= B) return;                                                                                                        \
    OWN_VECTORS
#if TEAM == 1
#define OWN_VECTORS Own x;
#else
#define OWN_VECTORS Own &x = reinterpret_cast<Own *>(memory)[threadIdx.x / TEAM];
#endif

#ifdef SOLVE
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
solve(long long B, const double *G, const double *margins, const double *lam, const double *goals, double tol, int max_iter,
      double *q, double *p, double *numbers, int *n_iter, bool *done) {
    G = staged(G, N * N);
    OWN_ROW
    solve_row(x, b, G, margins, lam, goals, tol, max_iter, q, p, numbers, n_iter, done);
}
#endif

#ifdef BEGIN
constexpr int PULLS = (K + 3) / 4 * 4; // from one class's row of their Gram matrix to the next

/** The start of a row: `Solver::start` over all classes, of which the target's share and margin stay 0. */
struct Start {
    const float *gram; // (K, PULLS) of the classes' rows, moved to their mean
    int k;
    float scale = 1.0f, q[PULLS] = {}, s[PULLS] = {}; // margins; beyond K no number matters

    __device__ __forceinline__ float square(int j) const { return gram[j * PULLS + j] - 2.0f * gram[j * PULLS + k] + gram[k * PULLS + k]; }

    /** `Solver::first_lam`. */
    __device__ __forceinline__ float first_lam(float top) const {
        float farthest = -1.0f, own = 0.0f, gap = 0.0f;
#pragma unroll
        for (int j = 0; j < K; j++) {
            const float pull = square(j), ahead = larger(s[j] - top, 0.0f), far = ahead * rsqrtf(pull);
            const bool more = j != k && pull > 0.0f && far > farthest;
            farthest = more ? far : farthest;
            own = more ? pull : own;
            gap = more ? ahead : gap;
        }
        return own / (1.0f + rough_exp(-top)) / larger(gap, 0.1f);
    }

    /** The rival that is most wrong has the share that it would have alone. */
    __device__ __forceinline__ void turn() {
        float e[K], top = 0.0f, total = 0.0f, worst = -1.0f, old = 0.0f, margin = 0.0f;
        int j = 0;
#pragma unroll
        for (int i = 0; i < K; i++) top = larger(top, s[i]);
#pragma unroll
        for (int i = 0; i < K; i++) total += e[i] = rough_exp(s[i] - top);
        const float share = 1.0f / total;
#pragma unroll
        for (int i = 0; i < K; i++) {
            const float wrong = magnitude(e[i] * share - q[i]);
            const bool more = wrong > worst && i != k;
            worst = more ? wrong : worst;
            old = more ? q[i] : old;
            margin = more ? s[i] : margin;
            j = more ? i : j;
        }
        const float h = smaller(larger(square(j) * scale, 1e-30f), 1e30f), now = RowSolver::root(h, margin + h * old);
        const float change = (now - old) * scale, across = gram[j * PULLS + k] - gram[k * PULLS + k];
        const auto *row = reinterpret_cast<const float4 *>(gram + j * PULLS), *target = reinterpret_cast<const float4 *>(gram + k * PULLS);
#pragma unroll
        for (int i = 0; i < PULLS / 4; i++) {
            const float4 a = row[i], b = target[i];
            s[4 * i] -= change * (a.x - b.x - across);
            s[4 * i + 1] -= change * (a.y - b.y - across);
            s[4 * i + 2] -= change * (a.z - b.z - across);
            s[4 * i + 3] -= change * (a.w - b.w - across);
        }
#pragma unroll
        for (int i = 0; i < K; i++) q[i] = i == j ? now : q[i];
    }
};

/** Starts (B, N), each by a thread of its own: turn follows turn, and a warp would wait in each. */
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
begin(long long B, const double *biases, const float *pulls, const int *target, const double *wanted, const double *parts, int slices,
      float *found) {
    __shared__ __align__(16) float gram[K * PULLS];
    for (int i = threadIdx.x; i < K * PULLS; i += blockDim.x) gram[i] = pulls[i];
    __syncthreads();
    const long long b = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= B) return;
    const Sources sources{parts, slices, B};
    Start start{gram, target[b]};
    const double own = sources(b, start.k) + biases[start.k];
#pragma unroll
    for (int j = 0; j < K; j++) start.s[j] = float(sources(b, j) + biases[j] - own);
    const float lam = AIMS ? start.first_lam(float(wanted[b])) : float(wanted[b]);
    start.scale = smaller(1.0f / (lam > 0.0f ? lam : 1.0f), 1e30f);
    for (int turn = 0; turn < PAIRS; turn++) start.turn();
#pragma unroll
    for (int j = 0; j < K; j++)
        if (j != start.k) found[b * N + j - (j > start.k)] = start.q[j] >= 0.0f && start.q[j] <= 1.0f ? start.q[j] : 0.0f;
}
#endif

#ifdef ANSWER
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
answer(long long B, const double *biases, const double *grams, const double *lengths, const double *reach, double gamma,
       double coarse, double bias, double logs, const int *target, const double *wanted, double tol, int max_iter, const double *parts,
       int slices, const float *start, double *coef, double *proba, double *numbers, int *n_iter, signed char *status) {
    grams = staged(grams, K * GRAM);
    OWN_ROW
    answer_row(x, b, {biases, grams, lengths, reach, gamma, coarse, bias, logs}, {target, wanted, tol, max_iter}, {parts, slices, B}, start,
               {coef, proba, numbers, n_iter, status});
}
#endif

#ifdef STEP
/** With limits: the problems over classes of the rows that are listed, where the features that are free stay so (limited.cu). */
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
step(long long B, const long long *rows, const double *grams, const int *target, const double *wanted, int max_iter, limits::Kept *kept,
     signed char *status) {
    const auto gram_of = [&](long long m) { return status[m] == limits::FRESH ? grams + target[m] * N * N : kept[m].gram; };
#if TEAM == 1 // in shared memory, where a warp brings those of its threads
    const int width = int(blockDim.x < 32 ? blockDim.x : 32);
    for (int mate = int(threadIdx.x) / width * width, last = mate + width; mate < last; mate++) {
        const long long b = (long long)blockIdx.x * blockDim.x + mate;
        const double *from = gram_of(rows[b < B ? b : B - 1]);
        for (int i = int(threadIdx.x) % width; i < N * N; i += width) memory[mate * GRAM + i] = from[i];
    }
    __syncthreads();
#endif
    OWN_ROW
    const long long m = rows[b];
    if (status[m] == limits::TRIED) return; // it goes back on the way to its last q
    limits::Kept &row = kept[m];
    const bool fresh = status[m] == limits::FRESH; // all features that may move are free
    RowSolver solver(x, TEAM == 1 ? memory + threadIdx.x * GRAM : gram_of(m));
    EACH(i) {
        x.s[i] = row.bent[i];
        x.q[i] = fresh ? 0.0 : row.q[i];
    }
    if (AIMS) solver.goal = {wanted[m], row.room, 0.0, limits::nearly(wanted[m])};
    if (fresh) solver.begin(wanted[m], PAIRS);
    else {
        solver.begin_from(row.lam);
        if (status[m] == limits::OPEN) solver.start(PAIRS);
    }
    solver.go(max_iter, [](bool) { return true; }, [] { return false; });
    // With λ as given, whatever lowers E is a step. A goal may be out of reach for these features: others are free with another λ.
    const bool astray = AIMS && !solver.done;
    double slope = 0.0;
    EACH(i) {
        const double before = fresh ? x.q[i] : row.q[i], q = astray ? before : x.q[i];
        slope += fresh ? 0.0 : row.force[i] * (q - before);
        row.before[i] = before;
        row.q[i] = q;
    }
    slope = Team::sum(slope);
    if (Team::rank() == 0) {
        row.lam = !astray ? solver.lam : solver.lam < row.lam ? row.lam / limits::ASTRAY : row.lam * limits::ASTRAY;
        row.slope = slope;
        status[m] = fresh && astray ? limits::LEFT : limits::OPEN;
    }
}
#endif

} // namespace ifonly::IFONLY_SET

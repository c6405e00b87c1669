/* The two passes over the sources around the class-space Newton, on Hopper's copy engine and float64 tensor cores.
 *
 * Both are to move memory as fast as a copy does; all else follows from that. A block keeps a slice of A, WIDTH features of all
 * its rows, in shared memory for good. The sources stream past it, eight rows of that slice at a time: the copy engine brings
 * them into a slot, some slots ahead, in pieces of some kilobytes, a group of warps shares the slot's features among its warps
 * while the other group has the next slot, and in `move` the copy engine takes the result away. One more warp does nothing but
 * tell the copy engine what to do. (Threads that read and write rows themselves, 64 or 128 bytes of each at a time, reached
 * four fifths of a copy's speed.)
 *
 * In both passes thread 4g + c has features 2c and 2c + 1 of row g. In `project` they are, since the order of a sum is free,
 * its two numbers of the right factor in the product m16n8k8 of 16 classes by 8 features with 8 features by 8 rows. In `move`
 * they are its two numbers of the result in the product m8n8k4, which starts as x and becomes x + Σ coef·a.
 *
 * Compiled by kernels/cuda.py, which defines
 *     ROWS              rows that a change is made of: K, or 1 for K = 2
 *     SOURCE, ANSWER    types of a source's and of an answer's numbers
 *     WIDTH, SLOTS      features of a slice, a multiple of 8; slots of eight rows, a multiple of GROUPS
 */

#define DEVICE __device__ __forceinline__

constexpr int WARPS = 4, GROUPS = 2, TILE = 8;              // warps that share a tile, groups of them per block, rows of a tile
static_assert(SLOTS % GROUPS == 0, "a barrier tells a phase from the one after it, so a slot must always be the same group's");
constexpr int THREADS = 32 * (WARPS * GROUPS + 1);
// Nine warps are three on one of a multiprocessor's four parts, each with 16 384 registers: with 80 for each of their threads a warp of
// newton.cu, which has all 256, fits beside them. With 90 none did, and the Newton problems waited for the pass to end.
#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 4)
#define SHARING __maxnreg__(80)
#else
#define SHARING __launch_bounds__(THREADS, 1)
#endif
constexpr int WIDE = (ROWS + 15) / 16, DEEP = (ROWS + 3) / 4; // tiles of 16 classes, steps of four
constexpr int NUMBERS = ROWS + 2;                           // per row and slice, of `project`: Σax, Σx², Σ|x|·size

/** At least n, and r more than a multiple of m: rows so far apart meet different banks. */
constexpr int apart(int n, int r, int m) { return n + ((r - n) % m + m) % m; }

constexpr int PITCH = apart(WIDTH, 8, 128 / sizeof(SOURCE)); // of a slot's rows
constexpr int PROJECT_PITCH = apart(WIDTH, 8, 16);           // of A's rows, read 16 bytes by a thread …
constexpr int MOVE_PITCH = apart(WIDTH, 4, 16);              // … or 8
constexpr int PROJECT_KEPT = (ROWS + 1) * PROJECT_PITCH, MOVE_KEPT = apart(ROWS * MOVE_PITCH, 0, 16);

// This thread's group (the last is the warp for the copy engine), its warp in it, its row and pair of features in a product.
#define GROUP int(threadIdx.x / (32 * WARPS))
#define WARP int(threadIdx.x / 32 % WARPS)
#define ROW int(threadIdx.x % 32 / 4)
#define PAIR int(threadIdx.x % 4)
#define LANE int(threadIdx.x % 32)

DEVICE void meet() { asm volatile("bar.sync %0, %1;" ::"r"(GROUP + 1), "n"(32 * WARPS) : "memory"); } // the group

DEVICE unsigned address(const void *shared) { return __cvta_generic_to_shared(shared); }

/** Between what threads and what the copy engine do to shared memory. */
DEVICE void fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/** c += a b, m8n8k4. */
DEVICE void multiply(double &c0, double &c1, double a, double b) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c0), "+d"(c1)
        : "d"(a), "d"(b));
}

/** c += a b, m16n8k8. */
DEVICE void multiply(double (&c)[4], double2 low, double2 high, double2 b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(low.x), "d"(high.x), "d"(low.y), "d"(high.y), "d"(b.x), "d"(b.y));
}

/** Who does what: a block has one slice of the features, and every so manieth tile of eight rows. */
struct Share {
    int from, width;        // features
    long long tile, stride; // the first tile, and how far it is to the next

    DEVICE Share(int D, int slices) {
        const int slice = blockIdx.x % slices;
        from = slice * WIDTH;
        width = min(WIDTH, D - from);
        tile = blockIdx.x / slices;
        stride = gridDim.x / slices;
    }
};

/** Slots in shared memory that the copy engine fills with tiles of the sources, and the barriers that say how far they are. */
struct Slots {
    SOURCE *memory;
    unsigned long long *full, *done; // of each slot: the copy engine has filled it, the group has done with it
    const SOURCE *X;
    long long stride, B;
    Share share;

    DEVICE SOURCE *slot(int n) const { return memory + n % SLOTS * TILE * PITCH; }
    DEVICE long long first(int n) const { return (share.tile + n * share.stride) * TILE; } // row of the block's n-th tile
    DEVICE int rows(int n) const { return int(max(min(B - first(n), (long long)TILE), 0LL)); }

    DEVICE void prepare() const {
        if (threadIdx.x == 0)
            for (int i = 0; i < SLOTS; i++) {
                asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(full + i)) : "memory");
                asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(done + i)), "n"(WARPS) : "memory");
            }
        fence();
        __syncthreads();
    }

    static DEVICE void wait(unsigned long long *barriers, int n) { // for the n-th tile
        asm volatile("{\n.reg .pred there;\n"
                     "again: mbarrier.try_wait.parity.shared::cta.b64 there, [%0], %1;\n"
                     "@!there bra again;\n}" ::"r"(address(barriers + n % SLOTS)),
                     "r"(n / SLOTS & 1)
                     : "memory");
    }

    /** This warp has done with the tile. */
    DEVICE void release(int n) const {
        __syncwarp();
        if (LANE == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(done + n % SLOTS)) : "memory");
    }

    /** Begin to fill a slot; called by a warp, each of its threads has a row. */
    DEVICE void fetch(int n) const {
        const int bytes = share.width * sizeof(SOURCE);
        const unsigned barrier = address(full + n % SLOTS);
        if (LANE == 0 && rows(n))
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(rows(n) * bytes)
                         : "memory");
        __syncwarp();
        if (LANE < rows(n))
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                             address(slot(n) + LANE * PITCH)),
                         "l"(X + (first(n) + LANE) * stride + share.from), "r"(bytes), "r"(barrier)
                         : "memory");
    }

    /** Begin to empty a slot, which holds answers; called likewise. */
    DEVICE void store(int n, ANSWER *out, long long out_stride) const {
        if (LANE < rows(n))
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                             out + (first(n) + LANE) * out_stride + share.from),
                         "r"(address(slot(n) + LANE * PITCH)), "r"(int(share.width * sizeof(ANSWER)))
                         : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }

    /** This thread's pair of features in step s of eight. */
    DEVICE SOURCE *pair(int n, int s) const { return slot(n) + ROW * PITCH + 8 * s + 2 * PAIR; }
};

struct alignas(2 * sizeof(SOURCE)) Two {
    SOURCE x, y;
};

DEVICE double2 both(const SOURCE *pair) {
    const Two two = *reinterpret_cast<const Two *>(pair);
    return {double(two.x), double(two.y)};
}

/** The block's slice of A, or of any rows of D features, 0 beyond its end. */
template <int HELD, int APART> DEVICE void keep(double *to, const double *A, int D, const Share &share) {
#pragma unroll 8
    for (int i = threadIdx.x; i < HELD * APART; i += THREADS) {
        const int d = i % APART;
        to[i] = d < share.width ? A[(long long)(i / APART) * D + share.from + d] : 0.0;
    }
}

extern __shared__ __align__(128) double memory[];

/** Parts of Z = X Aᵀ, ‖x‖² and Σ_d |x_d| max_j|a_jd|, (slices, B, NUMBERS): the first pass, `Sources.project`. */
extern "C" __global__ void SHARING
    project(long long B, const SOURCE *X, long long stride, int D, const double *A, const double *sizes, int slices,
            double *parts) {
    __shared__ unsigned long long full[SLOTS], done[SLOTS];
    __shared__ double sums[GROUPS][2][WARPS][TILE][16 * WIDE + 2]; // of each warp, for its group's tile and the one before
    const Share share(D, slices);
    double *a = memory, *size = a + ROWS * PROJECT_PITCH;
    const Slots slots{reinterpret_cast<SOURCE *>(memory + PROJECT_KEPT), full, done, X, stride, B, share};
    keep<ROWS, PROJECT_PITCH>(a, A, D, share);
    keep<1, PROJECT_PITCH>(size, sizes, D, share);
    for (int i = threadIdx.x; i < SLOTS * TILE * PITCH; i += THREADS) slots.memory[i] = 0; // beyond a slice's end they stay so
    slots.prepare();

    if (GROUP == GROUPS) {
        for (int n = 0; slots.rows(n); n++) {
            if (n >= SLOTS) slots.wait(done, n - SLOTS);
            slots.fetch(n);
        }
        return;
    }
    for (int n = GROUP; slots.rows(n); n += GROUPS) {
        double z[WIDE][4] = {}, square = 0.0, term = 0.0;
        slots.wait(full, n);
#pragma unroll 4
        for (int s = WARP; s < (share.width + 7) / 8; s += WARPS) {
            const double2 x = both(slots.pair(n, s)), most = *reinterpret_cast<double2 *>(size + 8 * s + 2 * PAIR);
#pragma unroll
            for (int t = 0; t < WIDE; t++) { // of classes that there are not, any numbers do: nobody reads them
                double2 w[2];
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const int j = min(16 * t + 8 * half + ROW, ROWS - 1);
                    w[half] = *reinterpret_cast<double2 *>(a + j * PROJECT_PITCH + 8 * s + 2 * PAIR);
                }
                multiply(z[t], w[0], w[1], x);
            }
            square += x.x * x.x + x.y * x.y;
            term += fabs(x.x) * most.x + fabs(x.y) * most.y;
        }
        slots.release(n);
        for (int other = 1; other < 4; other *= 2) {
            square += __shfl_xor_sync(~0u, square, other);
            term += __shfl_xor_sync(~0u, term, other);
        }
        auto &each = sums[GROUP][n / GROUPS % 2];
        double(*own)[16 * WIDE + 2] = each[WARP];
#pragma unroll
        for (int t = 0; t < WIDE; t++)
#pragma unroll
            for (int i = 0; i < 4; i++) own[2 * PAIR + i % 2][16 * t + i / 2 * 8 + ROW] = z[t][i]; // here ROW is a class
        if (PAIR == 0) own[ROW][16 * WIDE] = square, own[ROW][16 * WIDE + 1] = term;
        meet();
        for (int i = threadIdx.x % (32 * WARPS); i < slots.rows(n) * NUMBERS; i += 32 * WARPS) {
            const int row = i / NUMBERS, j = i % NUMBERS;
            double total = 0.0;
            for (int w = 0; w < WARPS; w++) total += each[w][row][j < ROWS ? j : 16 * WIDE + j - ROWS];
            parts[(blockIdx.x % slices * B + slots.first(n) + row) * NUMBERS + j] = total;
        }
    }
}

/** out = X + coef A: the second and last pass, `Sources.move`. */
extern "C" __global__ void SHARING
    move(long long B, const SOURCE *X, long long stride, int D, const double *A, const double *coef, int slices, ANSWER *out,
         long long out_stride) {
    constexpr bool IN_PLACE = sizeof(SOURCE) == sizeof(ANSWER); // else threads write the result themselves
    __shared__ unsigned long long full[SLOTS], done[SLOTS];
    const Share share(D, slices);
    double *a = memory;
    const Slots slots{reinterpret_cast<SOURCE *>(memory + MOVE_KEPT), full, done, X, stride, B, share};
    keep<ROWS, MOVE_PITCH>(a, A, D, share);
    slots.prepare();

    if (GROUP == GROUPS) {
        for (int n = 0; n < SLOTS - 1; n++) slots.fetch(n);
        for (int n = 0; slots.rows(n); n++) {
            slots.wait(done, n);
            if (IN_PLACE) {
                slots.store(n, out, out_stride);
                asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory"); // the tile before is out of its slot …
                __syncwarp();
            }
            slots.fetch(n + SLOTS - 1); // … which is the next to be filled
        }
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        return;
    }
    double y[DEEP], next[DEEP]; // coefficients of this tile's rows and of the next one's
    auto ahead = [&](int n) {
        const long long b = slots.first(n) + ROW;
#pragma unroll
        for (int t = 0; t < DEEP; t++) next[t] = 4 * t + PAIR < ROWS && b < B ? coef[b * ROWS + 4 * t + PAIR] : 0.0;
    };
    ahead(GROUP);
    for (int n = GROUP; slots.rows(n); n += GROUPS) {
#pragma unroll
        for (int t = 0; t < DEEP; t++) y[t] = next[t];
        ahead(n + GROUPS);
        slots.wait(full, n);
#pragma unroll 4
        for (int s = WARP; s < (share.width + 7) / 8; s += WARPS) {
            SOURCE *pair = slots.pair(n, s);
            double2 x = both(pair);
#pragma unroll
            for (int t = 0; t < DEEP; t++) multiply(x.x, x.y, y[t], a[min(4 * t + PAIR, ROWS - 1) * MOVE_PITCH + 8 * s + ROW]);
            const int d = 8 * s + 2 * PAIR;
            if (IN_PLACE) *reinterpret_cast<Two *>(pair) = {SOURCE(x.x), SOURCE(x.y)};
            else if (ROW < slots.rows(n) && d < share.width) { // of an even number
                ANSWER *to = out + (slots.first(n) + ROW) * out_stride + share.from + d;
                to[0] = x.x;
                to[1] = x.y;
            }
        }
        fence(); // before the copy engine takes what was written
        slots.release(n);
    }
}

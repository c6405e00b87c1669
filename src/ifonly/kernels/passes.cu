/* The two passes over the sources around the class-space Newton, on Hopper's copy engine and float64 tensor cores.
 *
 * Both are to move memory as fast as a copy does; all else follows from that. A block keeps a slice of A, WIDTH features of all
 * its rows, in shared memory for good. The sources stream past it, eight rows of that slice at a time: the copy engine brings
 * them into a slot, some slots ahead, in pieces of some kilobytes, a group of warps shares the slot's features among its warps
 * while the other group has the next slot, and in `move` the copy engine takes the result away. (Threads that read and write rows
 * themselves, 64 or 128 bytes of each at a time, reached four fifths of a copy's speed.)
 *
 * In m8n8k4, thread 4g + c holds row g, column c of the left factor and row g, columns 2c and 2c + 1 of the result. Since the
 * order of a sum is free, both passes let that thread have features 2c and 2c + 1 of row g: in `project` they are columns of the
 * left factor in two products, in `move` they are the result, which starts as x and becomes x + Σ coef·a.
 *
 * Compiled by kernels/cuda.py, which defines
 *     ROWS              rows that a change is made of: K, or 1 for K = 2
 *     SOURCE, ANSWER    types of a source's and of an answer's numbers
 *     WIDTH, SLOTS      features of a slice, a multiple of 8; slots of eight rows
 */

#define DEVICE __device__ __forceinline__

constexpr int WARPS = 4, GROUPS = 2, TILE = 8;              // warps that share a tile, groups of them per block, rows of a tile
constexpr int WIDE = (ROWS + 7) / 8, DEEP = (ROWS + 3) / 4; // tiles of eight classes, steps of four
constexpr int NUMBERS = ROWS + 2;                           // per row and slice, of `project`: Σax, Σx², Σ|x|·size

/** At least n, and r more than a multiple of m: rows so far apart meet different banks. */
constexpr int apart(int n, int r, int m) { return n + ((r - n) % m + m) % m; }

constexpr int PITCH = apart(WIDTH, 8, 128 / sizeof(SOURCE)); // of a slot's rows
constexpr int PROJECT_PITCH = apart(WIDTH, 8, 16);           // of A's rows, read 16 bytes by a thread …
constexpr int MOVE_PITCH = apart(WIDTH, 4, 16);              // … or 8
constexpr int PROJECT_KEPT = (ROWS + 1) * PROJECT_PITCH, MOVE_KEPT = apart(ROWS * MOVE_PITCH, 0, 16);

// This thread's group, its warp in it, its row and its pair of features in a product, and whether it speaks for the group.
#define GROUP int(threadIdx.x / (32 * WARPS))
#define WARP int(threadIdx.x / 32 % WARPS)
#define ROW int(threadIdx.x % 32 / 4)
#define PAIR int(threadIdx.x % 4)
#define LEADER (threadIdx.x % (32 * WARPS) == 0)

DEVICE void meet() { asm volatile("bar.sync %0, %1;" ::"r"(GROUP + 1), "n"(32 * WARPS) : "memory"); } // the group

DEVICE unsigned address(const void *shared) { return __cvta_generic_to_shared(shared); }

/** Between what threads and what the copy engine do to shared memory. */
DEVICE void fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

DEVICE void multiply(double &c0, double &c1, double a, double b) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+d"(c0), "+d"(c1) : "d"(a), "d"(b));
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

/** Slots in shared memory that the copy engine fills with tiles of the sources; called by one thread, but for `wait`. */
struct Slots {
    SOURCE *memory;
    unsigned long long *full; // barriers, one per slot
    const SOURCE *X;
    long long stride, B;
    Share share;

    DEVICE SOURCE *slot(int n) const { return memory + n % SLOTS * TILE * PITCH; }

    DEVICE void prepare() const {
        for (int i = 0; i < SLOTS; i++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(full + i)) : "memory");
        fence();
    }

    DEVICE long long first(int n) const { return (share.tile + n * share.stride) * TILE; } // row of the block's n-th tile

    DEVICE void fetch(int n) const {
        const int rows = int(min(B - first(n), (long long)TILE)), bytes = share.width * sizeof(SOURCE);
        if (rows <= 0) return;
        const unsigned barrier = address(full + n % SLOTS);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(rows * bytes) : "memory");
        for (int i = 0; i < rows; i++)
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                             address(slot(n) + i * PITCH)),
                         "l"(X + (first(n) + i) * stride + share.from), "r"(bytes), "r"(barrier)
                         : "memory");
    }

    DEVICE void wait(int n) const {
        asm volatile("{\n.reg .pred arrived;\n"
                     "again: mbarrier.try_wait.parity.shared::cta.b64 arrived, [%0], %1;\n"
                     "@!arrived bra again;\n}" ::"r"(address(full + n % SLOTS)),
                     "r"(n / SLOTS & 1)
                     : "memory");
    }

    /** This thread's pair of features in step s of eight. */
    DEVICE SOURCE *pair(int n, int s) const { return slot(n) + ROW * PITCH + 8 * s + 2 * PAIR; }
};

/** The block's slice of A, or of any rows of D features, 0 beyond its end. */
template <int HELD, int APART> DEVICE void keep(double *to, const double *A, int D, const Share &share) {
#pragma unroll 8
    for (int i = threadIdx.x; i < HELD * APART; i += 32 * WARPS * GROUPS) {
        const int d = i % APART;
        to[i] = d < share.width ? A[(long long)(i / APART) * D + share.from + d] : 0.0;
    }
}

extern __shared__ __align__(128) double memory[];

/** Parts of Z = X Aᵀ, ‖x‖² and Σ_d |x_d| max_j|a_jd|, (slices, B, NUMBERS): the first pass, `Sources.project`. */
extern "C" __global__ void __launch_bounds__(32 * WARPS * GROUPS, 2)
    project(long long B, const SOURCE *X, long long stride, int D, const double *A, const double *sizes, int slices,
            double *parts) {
    __shared__ unsigned long long full[SLOTS];
    __shared__ double sums[GROUPS][2][WARPS][TILE][8 * WIDE + 2]; // of each warp, for its group's tile and the one before
    const Share share(D, slices);
    double *a = memory, *size = a + ROWS * PROJECT_PITCH;
    const Slots slots{reinterpret_cast<SOURCE *>(memory + PROJECT_KEPT), full, X, stride, B, share};
    keep<ROWS, PROJECT_PITCH>(a, A, D, share);
    keep<1, PROJECT_PITCH>(size, sizes, D, share);
    for (int i = threadIdx.x; i < SLOTS * TILE * PITCH; i += blockDim.x) slots.memory[i] = 0; // beyond a slice's end they stay so
    fence();
    if (threadIdx.x == 0) slots.prepare();
    __syncthreads();
    if (threadIdx.x == 0)
        for (int n = 0; n < SLOTS; n++) slots.fetch(n);

    for (int n = GROUP; slots.first(n) < B; n += GROUPS) {
        double z[WIDE][4] = {}, square = 0.0, term = 0.0;
        slots.wait(n);
#pragma unroll 4
        for (int s = WARP; s < (share.width + 7) / 8; s += WARPS) {
            const SOURCE *pair = slots.pair(n, s);
            const double x0 = pair[0], x1 = pair[1];
            const double2 most = *reinterpret_cast<double2 *>(size + 8 * s + 2 * PAIR);
#pragma unroll
            for (int t = 0; t < WIDE; t++) { // of classes that there are not, any numbers do: nobody reads them
                const double *at = a + min(8 * t + ROW, ROWS - 1) * PROJECT_PITCH + 8 * s + 2 * PAIR;
                const double2 w = *reinterpret_cast<const double2 *>(at);
                multiply(z[t][0], z[t][1], x0, w.x);
                multiply(z[t][2], z[t][3], x1, w.y);
            }
            square += x0 * x0 + x1 * x1;
            term += fabs(x0) * most.x + fabs(x1) * most.y;
        }
        for (int other = 1; other < 4; other *= 2) {
            square += __shfl_xor_sync(~0u, square, other);
            term += __shfl_xor_sync(~0u, term, other);
        }
        auto &each = sums[GROUP][n / GROUPS % 2];
        double *own = each[WARP][ROW];
#pragma unroll
        for (int t = 0; t < WIDE; t++)
#pragma unroll
            for (int i = 0; i < 2; i++) own[8 * t + 2 * PAIR + i] = z[t][i] + z[t][i + 2];
        if (PAIR == 0) own[8 * WIDE] = square, own[8 * WIDE + 1] = term;
        meet();
        if (LEADER) slots.fetch(n + SLOTS);
        for (int i = threadIdx.x % (32 * WARPS); i < TILE * NUMBERS; i += 32 * WARPS) {
            const int row = i / NUMBERS, j = i % NUMBERS;
            double total = 0.0;
            for (int w = 0; w < WARPS; w++) total += each[w][row][j < ROWS ? j : 8 * WIDE + j - ROWS];
            const long long b = slots.first(n) + row;
            if (b < B) parts[(blockIdx.x % slices * B + b) * NUMBERS + j] = total;
        }
    }
}

/** out = X + coef A: the second and last pass, `Sources.move`. */
extern "C" __global__ void __launch_bounds__(32 * WARPS * GROUPS, 2)
    move(long long B, const SOURCE *X, long long stride, int D, const double *A, const double *coef, int slices, ANSWER *out,
         long long out_stride) {
    constexpr bool IN_PLACE = sizeof(SOURCE) == sizeof(ANSWER); // else threads write the result themselves
    __shared__ unsigned long long full[SLOTS];
    const Share share(D, slices);
    double *a = memory;
    const Slots slots{reinterpret_cast<SOURCE *>(memory + MOVE_KEPT), full, X, stride, B, share};
    keep<ROWS, MOVE_PITCH>(a, A, D, share);
    if (threadIdx.x == 0) slots.prepare();
    __syncthreads();
    if (threadIdx.x == 0)
        for (int n = 0; n < SLOTS - GROUPS; n++) slots.fetch(n);

    double y[DEEP], next[DEEP]; // coefficients of this tile's rows and of the next one's
    auto ahead = [&](int n) {
        const long long b = slots.first(n) + ROW;
#pragma unroll
        for (int t = 0; t < DEEP; t++) next[t] = 4 * t + PAIR < ROWS && b < B ? coef[b * ROWS + 4 * t + PAIR] : 0.0;
    };
    ahead(GROUP);
    for (int n = GROUP; slots.first(n) < B; n += GROUPS) {
#pragma unroll
        for (int t = 0; t < DEEP; t++) y[t] = next[t];
        ahead(n + GROUPS);
        slots.wait(n);
        const long long b = slots.first(n) + ROW;
#pragma unroll 4
        for (int s = WARP; s < (share.width + 7) / 8; s += WARPS) {
            SOURCE *pair = slots.pair(n, s);
            double x0 = pair[0], x1 = pair[1];
#pragma unroll
            for (int t = 0; t < DEEP; t++) multiply(x0, x1, y[t], a[min(4 * t + PAIR, ROWS - 1) * MOVE_PITCH + 8 * s + ROW]);
            const int d = 8 * s + 2 * PAIR;
            if (IN_PLACE) pair[0] = x0, pair[1] = x1;
            else if (b < B && d < share.width) { // of an even number
                ANSWER *to = out + b * out_stride + share.from + d;
                to[0] = x0;
                to[1] = x1;
            }
        }
        fence();
        meet();
        if (LEADER) {
            if (IN_PLACE) {
                const int rows = int(min(B - slots.first(n), (long long)TILE)), bytes = share.width * sizeof(ANSWER);
                for (int i = 0; i < rows; i++)
                    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                                     out + (slots.first(n) + i) * out_stride + share.from),
                                 "r"(address(slots.slot(n) + i * PITCH)), "r"(bytes)
                                 : "memory");
                asm volatile("cp.async.bulk.commit_group;" ::: "memory");
                asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory"); // the group's tile before is out of its slot …
            }
            slots.fetch(n + SLOTS - GROUPS); // … which is the next to be filled
        }
    }
    if (LEADER) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

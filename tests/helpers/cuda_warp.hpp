// A warp on the host, so that limited.cu and newton.cu run without a GPU: 32 lanes that take turns, and change at everything they do
// together.
#include <cmath>
#include <cstring>
#include <ucontext.h>
#include <vector>
using namespace std;

#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)

constexpr unsigned LANES = 32;
struct Place {
    unsigned x = 0;
} threadIdx, blockIdx, blockDim{LANES}, gridDim{1};

namespace turns {
ucontext_t lanes[LANES], home;
bool ended[LANES];
unsigned long long slots[2][LANES];
unsigned round_of[LANES];
void (*body)();

inline void next() { // the lane after this one; all are at the same point, or ended
    const unsigned own = threadIdx.x;
    unsigned other = (own + 1) % LANES;
    while (ended[other] && other != own) other = (other + 1) % LANES;
    if (other == own) return;
    threadIdx.x = other;
    swapcontext(&lanes[own], &lanes[other]);
    threadIdx.x = own;
}

inline const unsigned long long *shared(unsigned long long value) { // what every lane brings
    const unsigned own = threadIdx.x, round = round_of[own]++ % 2;
    slots[round][own] = value;
    next();
    return slots[round];
}

inline void lane() {
    body();
    const unsigned own = threadIdx.x;
    ended[own] = true;
    for (unsigned other = 0; other < LANES; other++)
        if (!ended[other]) {
            threadIdx.x = other;
            setcontext(&lanes[other]);
        }
    setcontext(&home);
}

inline void run(void (*work)()) {
    static vector<char> stacks(LANES << 18);
    body = work;
    for (unsigned own = 0; own < LANES; own++) {
        ended[own] = false;
        round_of[own] = 0;
        getcontext(&lanes[own]);
        lanes[own].uc_stack.ss_sp = stacks.data() + (size_t(own) << 18);
        lanes[own].uc_stack.ss_size = 1 << 18;
        makecontext(&lanes[own], lane, 0);
    }
    threadIdx.x = 0;
    swapcontext(&home, &lanes[0]);
}
} // namespace turns

inline void __syncwarp(unsigned = 0) { turns::shared(0); }
inline void __syncthreads() { turns::shared(0); }
template <class T> T __shfl_sync(unsigned, T a, int from) {
    unsigned long long bits = 0;
    memcpy(&bits, &a, sizeof a);
    memcpy(&a, turns::shared(bits) + from, sizeof a);
    return a;
}
template <class T> T __shfl_up_sync(unsigned, T a, unsigned by) { return __shfl_sync(0, a, int(threadIdx.x >= by ? threadIdx.x - by : threadIdx.x)); }
template <class T> T __shfl_xor_sync(unsigned, T a, int other) { return __shfl_sync(0, a, int(threadIdx.x) ^ other); }
inline unsigned __ballot_sync(unsigned, bool yes) {
    unsigned bits = 0;
    const unsigned long long *each = turns::shared(yes);
    for (unsigned i = 0; i < LANES; i++) bits |= unsigned(each[i]) << i;
    return bits;
}
template <class T> T __ldg(const T *at) { return *at; }
inline int __popc(unsigned a) { return __builtin_popcount(a); }
inline int __ffs(unsigned a) { return __builtin_ffs(int(a)); }
inline double __longlong_as_double(long long bits) {
    double a;
    memcpy(&a, &bits, sizeof a);
    return a;
}

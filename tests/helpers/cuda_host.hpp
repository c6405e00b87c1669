// What CUDA has and C++ has not, so that newton.cu compiles for the host: one thread, which is every thread in turn.
#include <cmath>
#include <cstring>
using namespace std;

#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct Place {
    unsigned x = 0;
};
extern "C" {
Place threadIdx, blockIdx, blockDim{1};
}

inline double __longlong_as_double(long long bits) {
    double a;
    memcpy(&a, &bits, sizeof a);
    return a;
}
inline void __syncthreads() {}
inline float rsqrtf(float a) { return 1.0f / sqrtf(a); }
struct float4 {
    float x, y, z, w;
};

// The binding: arrays in, arrays out, without the interpreter's lock; and which set of instructions runs.
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "rows.hpp"

namespace nb = nanobind;
using namespace ifonly;

template <class Number, int ndim> using Array = nb::ndarray<Number, nb::ndim<ndim>, nb::c_contig, nb::device::cpu>;
using In1 = Array<const double, 1>;
using In2 = Array<const double, 2>;
using Out1 = Array<double, 1>;
using Out2 = Array<double, 2>;

namespace {

struct Set {
    const char *name;
    const Rows *rows;
    bool runs;
};

std::vector<Set> sets() {
    std::vector<Set> all = {{"baseline", &baseline::rows, true}};
#ifdef IFONLY_HAS_avx2
    __builtin_cpu_init();
    all.push_back({"avx2", &avx2::rows, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")});
#endif
#ifdef IFONLY_HAS_avx512
    all.push_back({"avx512", &avx512::rows,
                   __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")});
#endif
    return all;
}

Set chosen = {nullptr, nullptr, false};

void use(const std::string &name) {
    for (const Set &set : sets())
        if (set.runs && name == set.name) {
            chosen = set;
            return;
        }
    throw std::invalid_argument("this machine has no " + name);
}

void same(size_t a, size_t b) {
    if (a != b) throw std::invalid_argument("arrays of different lengths");
}

} // namespace

NB_MODULE(_rows, m) {
    for (const Set &set : sets())
        if (set.runs) chosen = set;

    m.def("sets", [] {
        std::vector<std::string> names;
        for (const Set &set : sets())
            if (set.runs) names.push_back(set.name);
        return names;
    });
    m.def("active", [] { return std::string(chosen.name); });
    m.def("use", &use);

    m.def("solve_free", [](In2 G, In2 margins, In1 lam, In2 goals, double tol, int max_iter, int pairs, Out2 q, Out2 p,
                           Out2 numbers, Array<int64_t, 1> n_iter, Array<bool, 1> done) {
        const size_t B = margins.shape(0), n = margins.shape(1);
        for (size_t length : {G.shape(0), G.shape(1), q.shape(1), p.shape(1)}) same(length, n);
        for (size_t length : {q.shape(0), p.shape(0), numbers.shape(1), n_iter.shape(0), done.shape(0)}) same(length, B);
        same(numbers.shape(0), 5);
        const bool aims = goals.shape(0) > 0;
        same(aims ? goals.shape(0) : lam.shape(0), B);
        if (aims) same(goals.shape(1), 4);
        const FreeRows rows = {i64(B), int(n), G.data(), margins.data(), lam.data(), aims ? goals.data() : nullptr, tol,
                               max_iter, pairs, q.data(), p.data(), numbers.data(), reinterpret_cast<i64 *>(n_iter.data()), done.data()};
        nb::gil_scoped_release release;
        chosen.rows->solve_free(rows);
    });
    m.def("roots", [](In1 alpha, In1 beta, Out1 t) {
        same(alpha.shape(0), beta.shape(0));
        same(alpha.shape(0), t.shape(0));
        nb::gil_scoped_release release;
        chosen.rows->roots(i64(alpha.shape(0)), alpha.data(), beta.data(), t.data());
    });
    m.def("solve_crowd", [](In2 G, i64 k, In1 margins, double size, double lam, In1 window, i64 few, double share, i64 max_iter,
                            bool warm, Out2 state, Out1 numbers) {
        const size_t K = margins.shape(0);
        for (size_t length : {G.shape(0), G.shape(1), state.shape(1)}) same(length, K);
        same(state.shape(0), 3);
        same(numbers.shape(0), 5);
        const bool aims = window.shape(0) > 0;
        if (aims) same(window.shape(0), 4);
        if (K < 3 || k < 0 || k >= i64(K) || few < 1 || !(share > 0.0)) throw std::invalid_argument("no crowd");
        const CrowdRow row = {i64(K), k, G.data(), margins.data(), size, lam, aims ? window.data() : nullptr, few, share,
                              max_iter, warm, state.data(), numbers.data()};
        nb::gil_scoped_release release;
        chosen.rows->solve_crowd(row);
    });
    m.def("sum_up", [](nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu> A, In1 b, In2 X, Array<const int64_t, 1> outside,
                       Array<const int64_t, 1> outside_at, i64 first, i64 last, double nothing, Out2 logits, Out1 top,
                       Out1 mass, Out2 mean) {
        const size_t K = A.shape(0), D = A.shape(1), N = X.shape(0);
        const size_t bytes = A.itemsize();
        if (A.dtype().code != uint8_t(nb::dlpack::dtype_code::Float) || (bytes != 2 && bytes != 4 && bytes != 8))
            throw std::invalid_argument("A must be of floating-point numbers");
        if (A.stride(1) != 1 || A.stride(0) < 0) throw std::invalid_argument("the rows of A must be contiguous");
        for (size_t length : {b.shape(0), logits.shape(1)}) same(length, K);
        for (size_t length : {X.shape(1), mean.shape(1)}) same(length, D);
        for (size_t length : {logits.shape(0), top.shape(0), mass.shape(0), mean.shape(0)}) same(length, N);
        same(outside_at.shape(0), N + 1);
        same(size_t(outside_at.data()[N]), outside.shape(0));
        if (first < 0 || first > last || last > i64(K)) throw std::invalid_argument("no such classes");
        const Pass pass = {i64(K), i64(D), i64(N), first, last, A.data(), A.stride(0), int(bytes), b.data(), X.data(),
                           reinterpret_cast<const i64 *>(outside.data()), reinterpret_cast<const i64 *>(outside_at.data()), nothing,
                           logits.data(), top.data(), mass.data(), mean.data()};
        nb::gil_scoped_release release;
        chosen.rows->sum_up(pass);
    });
}

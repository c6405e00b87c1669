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
    m.def("solve_limited_one", [](In2 B, In1 margins, In1 mu, In1 lo, In1 hi, double lam, double weight, double tol, int max_iter,
                                  int most_now, bool begin, Out1 lq, Out1 course, Out1 t, Array<bool, 1> free, Out1 s,
                                  Out2 classes, Out1 slope) {
        const size_t n = B.shape(0), D = B.shape(1);
        same(margins.shape(0), n);
        same(s.shape(0), n);
        for (size_t length : {mu.shape(0), lo.shape(0), hi.shape(0), t.shape(0), free.shape(0)}) same(length, D);
        for (size_t length : {lq.shape(0), classes.shape(1)}) same(length, n + 1);
        same(classes.shape(0), 3);
        same(course.shape(0), 5);
        const LimitedProblem problem = {int(n), i64(D), B.data(), margins.data(), mu.data(), lo.data(), hi.data(), lam, weight, tol,
                                        max_iter, most_now, begin, lq.data(), course.data(), t.data(), free.data(), s.data(),
                                        classes.data(), slope.shape(0) ? slope.data() : nullptr};
        nb::gil_scoped_release release;
        chosen.rows->solve_limited_one(problem);
    });
    m.def("solve_limited", [](In2 X, Array<const int64_t, 1> index, int k, In2 A, In1 b, In2 scaling, In1 sizes, In2 B, In2 each,
                              Array<const int64_t, 1> way, In2 rivals, In1 constants, In1 lam, In2 goals, double tol, int max_iter,
                              Out2 x, Out2 proba, Out2 numbers, Array<int64_t, 1> n_iter, Array<int8_t, 1> ended) {
        const size_t D = X.shape(1), K = A.shape(0), M = index.shape(0);
        for (size_t length : {A.shape(1), sizes.shape(0), B.shape(1), each.shape(1), way.shape(0), x.shape(1)}) same(length, D);
        same(x.shape(0), X.shape(0));
        for (size_t length : {b.shape(0), B.shape(0) + 1, rivals.shape(1) + 1, proba.shape(1)}) same(length, K);
        for (size_t length : {proba.shape(0), numbers.shape(0), n_iter.shape(0), ended.shape(0)}) same(length, M);
        same(each.shape(0), 4);
        same(rivals.shape(0), 2);
        same(constants.shape(0), 7);
        same(numbers.shape(1), 6);
        const bool aims = goals.shape(0) > 0, scaled = scaling.shape(0) > 0;
        if (aims) same(goals.shape(0), 2);
        same(aims ? goals.shape(1) : lam.shape(0), M);
        if (scaled) same(scaling.shape(0), 2), same(scaling.shape(1), D);
        for (size_t i = 0; i < M; i++)
            if (index.data()[i] < 0 || size_t(index.data()[i]) >= X.shape(0)) throw std::invalid_argument("no such row");
        if (k < 0 || size_t(k) >= K) throw std::invalid_argument("no such class");
        const double *of = each.data(), *with = constants.data();
        const LimitedRows rows = {i64(M), int(K), k, i64(D), X.data(), reinterpret_cast<const i64 *>(index.data()), A.data(), b.data(),
                                  scaled ? scaling.data() : nullptr, scaled ? scaling.data() + D : nullptr, sizes.data(), B.data(),
                                  of, of + D, of + 2 * D, of + 3 * D, reinterpret_cast<const i64 *>(way.data()), rivals.data(),
                                  rivals.data() + (K - 1), with[0], with[1], with[2], with[3], with[4], with[5], with[6],
                                  aims ? nullptr : lam.data(), aims ? goals.data() : nullptr, aims ? goals.data() + M : nullptr, tol,
                                  max_iter, x.data(), proba.data(), numbers.data(), reinterpret_cast<i64 *>(n_iter.data()),
                                  reinterpret_cast<signed char *>(ended.data())};
        nb::gil_scoped_release release;
        chosen.rows->solve_limited(rows);
    });
}

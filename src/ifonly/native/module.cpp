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
    m.def("solve_box", [](In2 X, Array<const int64_t, 1> targets, In1 logits, In1 probs, In2 features, In1 shared, bool hard,
                          Out2 x, Array<int8_t, 1> ended, Out2 numbers) {
        const size_t N = X.shape(0), D = X.shape(1);
        for (size_t length : {targets.shape(0), logits.shape(0), probs.shape(0), x.shape(0), ended.shape(0), numbers.shape(0)})
            same(length, N);
        for (size_t length : {features.shape(1), x.shape(1)}) same(length, D);
        same(features.shape(0), 13);
        same(shared.shape(0), 6);
        same(numbers.shape(1), BOX_NUMBERS);
        const double *with = shared.data();
        const BoxRows rows = {i64(N), i64(D), X.data(), reinterpret_cast<const i64 *>(targets.data()), logits.data(),
                              probs.data(), features.data(), with, with[2], with[3], with[4], with[5], hard, x.data(),
                              reinterpret_cast<signed char *>(ended.data()), numbers.data()};
        nb::gil_scoped_release release;
        chosen.rows->solve_box(rows);
    });
}

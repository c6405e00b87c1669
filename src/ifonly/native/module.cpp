// The binding: arrays in, arrays out, without the interpreter's lock; and which set of instructions runs.
#include <cstring>
#include <memory>
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

using Flags1 = Array<const bool, 1>;
using Flags2 = Array<const bool, 2>;
using Whole1 = Array<const int64_t, 1>;

void check_groups(const Whole1 &first, size_t m) {
    const int64_t *begin = first.data();
    const size_t groups = first.shape(0) - 1;
    bool good = first.shape(0) > 0 && begin[0] == 0 && begin[groups] == int64_t(m);
    for (size_t j = 0; good && j < groups; j++) good = begin[j] < begin[j + 1];
    if (!good) throw std::invalid_argument("groups must have options, one after the other");
}

/** A search for one source, with what it was begun with. */
class OwnSearch {
    std::vector<double> og, oc;
    std::vector<char> moves;
    std::vector<i64> first;
    size_t n;
    std::unique_ptr<Search> search;

  public:
    OwnSearch(In1 g, In1 mu, In1 step, In1 anchor, Flags1 at_rest, In1 gains, In1 costs, Flags1 changes, Whole1 begins, In1 lo,
              In1 hi, double need, int64_t cap, int64_t room) {
        const size_t m = gains.shape(0);
        n = g.shape(0);
        for (size_t length : {mu.shape(0), step.shape(0), anchor.shape(0), at_rest.shape(0), lo.shape(0), hi.shape(0)})
            same(length, n);
        for (size_t length : {costs.shape(0), changes.shape(0)}) same(length, m);
        check_groups(begins, m);
        og.assign(gains.data(), gains.data() + m);
        oc.assign(costs.data(), costs.data() + m);
        moves.assign(changes.data(), changes.data() + m);
        first.assign(begins.data(), begins.data() + begins.shape(0));
        const i64 groups = i64(first.size()) - 1;
        search.reset(chosen.rows->open_search(i64(n), groups, i64(m)));
        search->begin({i64(n), groups, i64(m), g.data(), mu.data(), step.data(), anchor.data(), at_rest.data(), og.data(),
                       oc.data(), reinterpret_cast<const bool *>(moves.data()), first.data(), lo.data(), hi.data(), need, cap,
                       room});
    }

    int expand(double rel_gap, int64_t nodes) {
        nb::gil_scoped_release release;
        return search->expand(rel_gap, nodes);
    }

    void answer(Out1 t, Array<int64_t, 1> choice) const {
        same(t.shape(0), n);
        same(choice.shape(0), first.size() - 1);
        search->answer(t.data(), reinterpret_cast<i64 *>(choice.data()));
    }

    void record(Out2 log) const {
        same(log.shape(0), size_t(search->count));
        same(log.shape(1), 6);
        search->record(log.data());
    }

    const Search &now() const { return *search; }
};

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
    nb::class_<OwnSearch>(m, "Search")
        .def(nb::init<In1, In1, In1, In1, Flags1, In1, In1, Flags1, Whole1, In1, In1, double, int64_t, int64_t>())
        .def("expand", &OwnSearch::expand)
        .def("answer", &OwnSearch::answer)
        .def("record", &OwnSearch::record)
        .def_prop_ro("cost", [](const OwnSearch &own) { return own.now().cost; })
        .def_prop_ro("w", [](const OwnSearch &own) { return own.now().w; })
        .def_prop_ro("solved", [](const OwnSearch &own) { return own.now().solved; })
        .def_prop_ro("count", [](const OwnSearch &own) { return own.now().count; })
        .def_prop_ro("bound", [](const OwnSearch &own) { return own.now().bound(); });
    m.def("search_rows", [](In1 need, In1 g, In1 mu, In1 step, In2 anchor, Flags2 at_rest, In2 og, In2 oc, Flags2 moves,
                            Whole1 first, In2 lo, In2 hi, int64_t cap, double gap, int64_t nodes, Out2 t,
                            Array<int64_t, 2> choice, Out2 numbers) {
        const size_t N = need.shape(0), n = g.shape(0), m = og.shape(1), groups = first.shape(0) - 1;
        for (size_t length : {anchor.shape(0), at_rest.shape(0), og.shape(0), oc.shape(0), moves.shape(0), lo.shape(0),
                              hi.shape(0), t.shape(0), choice.shape(0), numbers.shape(0)})
            same(length, N);
        for (size_t length : {mu.shape(0), step.shape(0), anchor.shape(1), at_rest.shape(1), lo.shape(1), hi.shape(1), t.shape(1)})
            same(length, n);
        for (size_t length : {oc.shape(1), moves.shape(1)}) same(length, m);
        same(choice.shape(1), groups);
        same(numbers.shape(1), 5);
        check_groups(first, m);
        const SearchItems items = {i64(n), i64(groups), i64(m), g.data(), mu.data(), step.data(), anchor.data(), at_rest.data(),
                                   og.data(), oc.data(), moves.data(), reinterpret_cast<const i64 *>(first.data()), lo.data(),
                                   hi.data(), 0.0, cap, 2 * nodes + 1};
        const SearchRows rows = {i64(N), items, need.data(), gap, nodes, t.data(), reinterpret_cast<i64 *>(choice.data()),
                                 numbers.data()};
        nb::gil_scoped_release release;
        chosen.rows->search_rows(rows);
    });
}

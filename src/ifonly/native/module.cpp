// The binding: arrays in, arrays out, without the interpreter's lock; and which set of instructions runs.
#include <optional>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "rows.hpp"

namespace nb = nanobind;
using namespace nb::literals;
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

/** Numbers that are handed out as an array. */
struct Kept {
    double *at;
    size_t length;
    nb::capsule owner;

    explicit Kept(size_t length)
        : at(new double[length]), length(length), owner(at, [](void *p) noexcept { delete[] static_cast<double *>(p); }) {}
    nb::ndarray<nb::numpy, double, nb::ndim<1>> array() const { return {at, {length}, owner}; }
};

/** FreeTarget with the arrays it points to. */
class Target {
    nb::dict arrays;
    FreeTarget of{};

    template <int ndim> Array<const double, ndim> array(const char *name) const {
        return nb::cast<Array<const double, ndim>>(arrays[name]);
    }
    double number(const char *name) const { return nb::cast<double>(arrays[name]); }

  public:
    /** `given` has the fields of FreeTarget by name; shift and scale may be None. */
    Target(nb::dict given, int k) : arrays(given) {
        const In2 basis = array<2>("basis"), gram = array<2>("gram");
        const In1 b = array<1>("b"), lengths = array<1>("lengths"), columns = array<1>("columns");
        const size_t K = b.shape(0), D = basis.shape(1);
        same(basis.shape(0), K == 2 ? 1 : K);
        for (size_t length : {gram.shape(0), gram.shape(1), lengths.shape(0)}) same(length, K - 1);
        same(columns.shape(0), D);
        if (k < 0 || size_t(k) >= K) throw std::invalid_argument("no such class");
        of.K = int(K), of.k = k, of.R = int(basis.shape(0)), of.D = i64(D);
        of.basis = basis.data(), of.b = b.data(), of.G = gram.data(), of.lengths = lengths.data(), of.columns = columns.data();
        if (!arrays["shift"].is_none()) {
            const In1 shift = array<1>("shift"), scale = array<1>("scale");
            same(shift.shape(0), D);
            same(scale.shape(0), D);
            of.shift = shift.data(), of.scale = scale.data();
        }
        of.gamma = number("gamma"), of.coarse = number("coarse"), of.bias = number("bias"), of.span = number("span");
        of.norm = number("norm"), of.terms = number("terms"), of.swing = number("swing"), of.row_norm = number("row_norm");
        of.logs = number("logs"), of.offset_norm = number("offset_norm"), of.offset_size = number("offset_size");
    }

    using Some1 = std::optional<In1>;
    using Some2 = std::optional<In2>;

    /** Rows `index` of a table X (N, D), or of Z (N, R) with its sizes (2, N). */
    void answer(Array<const int64_t, 1> index, nb::object X, Some2 Z, Some2 sizes, In1 wanted, bool goal, bool alone, double tol,
                int max_iter, int pairs, Out2 coef, Out2 proba, Out1 lam, Out1 distance, Out1 objective, Out1 grad_norm,
                Array<int64_t, 1> n_iter, Array<int8_t, 1> status, nb::object out) const {
        FreeRows rows{};
        const size_t N = coef.shape(0);
        rows.rows = i64(index.shape(0)), rows.index = reinterpret_cast<const i64 *>(index.data()), rows.N = i64(N);
        const int64_t *which = index.data();
        for (size_t i = 0; i < index.shape(0); i++)
            if (which[i] < 0 || size_t(which[i]) >= N) throw std::invalid_argument("no such row");
        for (size_t length : {proba.shape(0), lam.shape(0), distance.shape(0), objective.shape(0), grad_norm.shape(0),
                              n_iter.shape(0), status.shape(0), wanted.shape(0)})
            same(length, N);
        same(coef.shape(1), size_t(of.R));
        same(proba.shape(1), size_t(of.K));
        if (Z) {
            if (!sizes || !out.is_none()) throw std::invalid_argument("Z takes its sizes, and gives no x");
            same(Z->shape(0), N);
            same(Z->shape(1), size_t(of.R));
            same(sizes->shape(0), 2);
            same(sizes->shape(1), N);
            rows.Z = Z->data(), rows.sizes = sizes->data();
        } else
            rows.pitch = point<const double, const float>(X, N, rows.X, rows.X4);
        if (!out.is_none()) rows.out_pitch = point<double, float>(out, N, rows.out, rows.out4);
        rows.wanted = wanted.data(), rows.goal = goal, rows.alone = alone, rows.tol = tol, rows.max_iter = max_iter;
        rows.pairs = pairs, rows.coef = coef.data(), rows.proba = proba.data(), rows.lam = lam.data();
        rows.distance = distance.data(), rows.objective = objective.data(), rows.grad_norm = grad_norm.data();
        rows.n_iter = reinterpret_cast<i64 *>(n_iter.data()), rows.status = reinterpret_cast<signed char *>(status.data());
        nb::gil_scoped_release release;
        chosen.rows->answer_free(of, rows);
    }

    /** One source (1, D) in class space: z, and bounds on ‖x̄‖ and on its logits' terms. */
    nb::tuple project(nb::object X) const {
        FreeRows rows{};
        rows.pitch = point<const double, const float>(X, 1, rows.X, rows.X4);
        const Kept z(of.R);
        double sizes[2];
        chosen.rows->project_free(of, rows, z.at, sizes);
        return nb::make_tuple(z.array(), sizes[0], sizes[1]);
    }

    /** One source (1, D), or what `project` says of it: status, and of one that is solved λ, distance, E, the bound on ‖∇E‖,
     *  iterations, probabilities and coefficients. */
    nb::tuple one(nb::object X, Some1 z, double norm, double terms, double wanted, bool goal, double tol, int max_iter,
                  int pairs) const {
        FreeRows rows{};
        const i64 index = 0;
        const double sizes[2] = {norm, terms};
        double lam, distance, objective, grad_norm;
        i64 n_iter = 0;
        signed char status = 0;
        const Kept coef(of.R), proba(of.K);
        rows.rows = rows.N = 1, rows.index = &index, rows.wanted = &wanted, rows.goal = goal, rows.alone = true, rows.tol = tol;
        rows.max_iter = max_iter, rows.pairs = pairs, rows.coef = coef.at, rows.proba = proba.at, rows.lam = &lam;
        rows.distance = &distance, rows.objective = &objective, rows.grad_norm = &grad_norm, rows.n_iter = &n_iter;
        rows.status = &status;
        if (z) {
            same(z->shape(0), size_t(of.R));
            rows.Z = z->data(), rows.sizes = sizes;
        } else
            rows.pitch = point<const double, const float>(X, 1, rows.X, rows.X4);
        {
            nb::gil_scoped_release release;
            chosen.rows->answer_free(of, rows);
        }
        if (status < 0 || status == 4) return nb::make_tuple(int(status));
        return nb::make_tuple(int(status), lam, distance, objective, grad_norm, n_iter, proba.array(), coef.array());
    }

  private:
    /** Where a table (N, D) of doubles or floats lies, and how far its rows are apart; each row in one piece. */
    template <class Double, class Float> i64 point(nb::handle given, size_t N, Double *&doubles, Float *&floats) const {
        const auto rowwise = [&](const auto &table) {
            same(table.shape(0), N);
            same(table.shape(1), size_t(of.D));
            if (of.D > 1 && table.stride(1) != 1) throw std::invalid_argument("rows have to be in one piece");
            return i64(table.stride(0));
        };
        nb::ndarray<Double, nb::ndim<2>, nb::device::cpu> wide;
        if (nb::try_cast(given, wide, false)) {
            doubles = wide.data();
            return rowwise(wide);
        }
        const auto narrow = nb::cast<nb::ndarray<Float, nb::ndim<2>, nb::device::cpu>>(given, false);
        floats = narrow.data();
        return rowwise(narrow);
    }
};

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
    std::vector<double> og, oc, values;
    std::vector<char> moves;
    std::vector<i64> first, starts;
    size_t n, rows_count = 1;
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

    /** With several constraints. */
    OwnSearch(In1 mu, In1 step, In1 anchor, Flags1 at_rest, In1 costs, Flags1 changes, Whole1 begins, In1 lo, In1 hi, In2 rows,
              In2 options, In1 needs, In1 slips, Flags1 equal, In1 start, int64_t rivals, double weight, int64_t cap, int64_t room) {
        const size_t m = costs.shape(0);
        n = mu.shape(0), rows_count = rows.shape(0);
        for (size_t length : {step.shape(0), anchor.shape(0), at_rest.shape(0), lo.shape(0), hi.shape(0), rows.shape(1)})
            same(length, n);
        for (size_t length : {changes.shape(0), options.shape(1)}) same(length, m);
        for (size_t length : {options.shape(0), needs.shape(0), slips.shape(0), equal.shape(0), start.shape(0)})
            same(length, rows_count);
        if (rivals < 0 || size_t(rivals) > rows_count) throw std::invalid_argument("rivals are rows");
        check_groups(begins, m);
        oc.assign(costs.data(), costs.data() + m);
        moves.assign(changes.data(), changes.data() + m);
        first.assign(begins.data(), begins.data() + begins.shape(0));
        const i64 groups = i64(first.size()) - 1;
        // What items gain is in the constraints: what stands for it here is read, and made anew before it is used.
        const SearchItems items = {i64(n), groups, i64(m), mu.data(), mu.data(), step.data(), anchor.data(), at_rest.data(), oc.data(),
                                   oc.data(), reinterpret_cast<const bool *>(moves.data()), first.data(), lo.data(), hi.data(), 0.0,
                                   cap, room};
        search.reset(chosen.rows->open_constrained(items, {i64(rows_count), rivals, weight, rows.data(), options.data(), needs.data(),
                                                           slips.data(), equal.data(), start.data()}));
    }

    /** Before it is expanded: the values of features at uneven distances, each one's in order. */
    void give_values(In1 of_all, Whole1 begins) {
        same(begins.shape(0), n + 1);
        bool good = begins.data()[0] == 0 && begins.data()[n] == int64_t(of_all.shape(0));
        for (size_t d = 0; good && d < n; d++) good = begins.data()[d] <= begins.data()[d + 1];
        if (!good) throw std::invalid_argument("values must be one feature's after the other's");
        values.assign(of_all.data(), of_all.data() + of_all.shape(0));
        starts.assign(begins.data(), begins.data() + n + 1);
        search->give_values(values.data(), starts.data());
    }

    int expand(double rel_gap, int64_t nodes, double seconds) {
        nb::gil_scoped_release release;
        return search->expand(rel_gap, nodes, seconds);
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

    void multipliers(Out2 to) const {
        same(to.shape(0), size_t(search->count));
        same(to.shape(1), rows_count);
        search->multipliers(to.data());
    }

    const Search &now() const { return *search; }
};

} // namespace

NB_MODULE(_rows, m) {
    nb::set_leak_warnings(false); // models that live as long as the interpreter keep what was prepared for them
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

    nb::class_<Target>(m, "FreeTarget")
        .def(nb::init<nb::dict, int>())
        .def("answer", &Target::answer, "index"_a, "X"_a.none(), "Z"_a.none(), "sizes"_a.none(), "wanted"_a, "goal"_a, "alone"_a,
             "tol"_a, "max_iter"_a, "pairs"_a, "coef"_a, "proba"_a, "lam"_a, "distance"_a, "objective"_a, "grad_norm"_a,
             "n_iter"_a, "status"_a, "out"_a.none())
        .def("project", &Target::project, "X"_a)
        .def("one", &Target::one, "X"_a.none(), "z"_a.none(), "norm"_a, "terms"_a, "wanted"_a, "goal"_a, "tol"_a, "max_iter"_a,
             "pairs"_a);
    m.def("solve_rounds", [](In2 G, i64 k, In1 margins, double size, double lam, In1 window, i64 few, double share, i64 max_iter,
                            bool warm, Out2 state, Out1 numbers) {
        const size_t K = margins.shape(0);
        for (size_t length : {G.shape(0), G.shape(1), state.shape(1)}) same(length, K);
        same(state.shape(0), 3);
        same(numbers.shape(0), 5);
        const bool aims = window.shape(0) > 0;
        if (aims) same(window.shape(0), 4);
        if (K < 3 || k < 0 || k >= i64(K) || few < 1 || !(share > 0.0)) throw std::invalid_argument("too few rivals");
        const RoundsRow row = {i64(K), k, G.data(), margins.data(), size, lam, aims ? window.data() : nullptr, few, share,
                              max_iter, warm, state.data(), numbers.data()};
        nb::gil_scoped_release release;
        chosen.rows->solve_rounds(row);
    });
    m.def("solve_few", [](nb::ndarray<const double, nb::ndim<2>, nb::device::cpu> gram, In1 margins, double lam, double close, bool begin,
                          Out1 q) {
        const size_t n = margins.shape(0);
        for (size_t length : {gram.shape(0), gram.shape(1), q.shape(0)}) same(length, n);
        if (n < 1 || gram.stride(1) != 1 || gram.stride(0) < i64(n)) throw std::invalid_argument("no rivals, or no rows of them");
        nb::gil_scoped_release release;
        return chosen.rows->solve_few(i64(n), gram.data(), gram.stride(0), margins.data(), lam, close, begin, q.data());
    });
    m.def("project_lean", [](Array<const float, 2> A, In1 x, Out1 z) {
        same(x.shape(0), A.shape(1));
        same(z.shape(0), A.shape(0));
        nb::gil_scoped_release release;
        chosen.rows->project_lean(A.data(), int(A.shape(0)), i64(A.shape(1)), x.data(), z.data());
    });
    m.def("combine_lean", [](Array<const float, 2> A, In1 coef, Out1 change) {
        same(coef.shape(0), A.shape(0));
        same(change.shape(0), A.shape(1));
        nb::gil_scoped_release release;
        chosen.rows->combine_lean(A.data(), int(A.shape(0)), i64(A.shape(1)), coef.data(), change.data());
    });
    m.def("sum_up", [](nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu> A, In1 b, In2 X, Array<const int64_t, 1> outside,
                       Array<const int64_t, 1> outside_at, i64 first, i64 last, double nothing,
                       const std::vector<Array<const float, 1>> &known, nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu> logits,
                       Out1 top, Out1 mass, Out2 mean) {
        const size_t K = A.shape(0), D = A.shape(1), N = X.shape(0);
        const size_t bytes = A.itemsize();
        if (A.dtype().code != uint8_t(nb::dlpack::dtype_code::Float) || (bytes != 2 && bytes != 4 && bytes != 8))
            throw std::invalid_argument("A must be of floating-point numbers");
        if (A.stride(1) != 1 || A.stride(0) < 0) throw std::invalid_argument("the rows of A must be contiguous");
        for (size_t length : {b.shape(0), logits.shape(1)}) same(length, K);
        for (size_t length : {X.shape(1), mean.shape(1)}) same(length, D);
        for (size_t length : {logits.shape(0) + known.size(), top.shape(0), mass.shape(0), mean.shape(0)}) same(length, N);
        const bool single = logits.dtype() == nb::dtype<float>();
        if (!single && (logits.dtype() != nb::dtype<double>() || !known.empty()))
            throw std::invalid_argument("logits must be float64, or float32 for sums in single precision");
        std::vector<const float *> weights;
        for (const auto &each : known) {
            same(each.shape(0), K);
            weights.push_back(each.data());
        }
        same(outside_at.shape(0), N + 1);
        same(size_t(outside_at.data()[N]), outside.shape(0));
        if (first < 0 || first > last || last > i64(K)) throw std::invalid_argument("no such classes");
        const Pass pass = {i64(K), i64(D), i64(N), first, last, A.data(), A.stride(0), int(bytes), b.data(), X.data(),
                           reinterpret_cast<const i64 *>(outside.data()), reinterpret_cast<const i64 *>(outside_at.data()), nothing,
                           single, i64(known.size()), weights.data(), logits.data(), top.data(), mass.data(), mean.data()};
        nb::gil_scoped_release release;
        chosen.rows->sum_up(pass);
    });
    m.def("solve_box", [](In2 X, Array<const int64_t, 1> targets, In1 logits, In1 probs, In2 features, In1 shared, bool hard,
                          Out2 x, Array<int8_t, 1> ended, Out2 numbers) {
        const size_t N = X.shape(0), D = X.shape(1);
        for (size_t length : {targets.shape(0), logits.shape(0), probs.shape(0), x.shape(0), ended.shape(0), numbers.shape(0)})
            same(length, N);
        for (size_t length : {features.shape(1), x.shape(1)}) same(length, D);
        same(features.shape(0), 13);
        same(shared.shape(0), 7);
        same(numbers.shape(1), BOX_NUMBERS);
        const double *with = shared.data();
        const BoxRows rows = {i64(N), i64(D), X.data(), reinterpret_cast<const i64 *>(targets.data()), logits.data(),
                              probs.data(), features.data(), with, with[2], with[3], with[4], with[5], with[6], hard,
                              x.data(),
                              reinterpret_cast<signed char *>(ended.data()), numbers.data()};
        nb::gil_scoped_release release;
        chosen.rows->solve_box(rows);
    });
    nb::class_<OwnSearch>(m, "Search")
        .def(nb::init<In1, In1, In1, In1, Flags1, In1, In1, Flags1, Whole1, In1, In1, double, int64_t, int64_t>())
        .def(nb::init<In1, In1, In1, Flags1, In1, Flags1, Whole1, In1, In1, In2, In2, In1, In1, Flags1, In1, int64_t, double,
                      int64_t, int64_t>())
        .def("give_values", &OwnSearch::give_values)
        .def("expand", &OwnSearch::expand)
        .def("multipliers", &OwnSearch::multipliers)
        .def("answer", &OwnSearch::answer)
        .def("record", &OwnSearch::record)
        .def_prop_ro("cost", [](const OwnSearch &own) { return own.now().cost; })
        .def_prop_ro("w", [](const OwnSearch &own) { return own.now().w; })
        .def_prop_ro("solved", [](const OwnSearch &own) { return own.now().solved; })
        .def_prop_ro("count", [](const OwnSearch &own) { return own.now().count; })
        .def_prop_ro("bound", [](const OwnSearch &own) { return own.now().bound(); });
    m.def("search_rows", [](In1 need, In1 harder, In1 g, In1 mu, In1 step, In2 anchor, Flags2 at_rest, In2 og, In2 oc, Flags2 moves,
                            Whole1 first, In2 lo, In2 hi, int64_t cap, double gap, int64_t nodes, Out2 t,
                            Array<int64_t, 2> choice, Out2 numbers) {
        const size_t N = need.shape(0), n = g.shape(0), m = og.shape(1), groups = first.shape(0) - 1;
        for (size_t length : {harder.shape(0), anchor.shape(0), at_rest.shape(0), og.shape(0), oc.shape(0), moves.shape(0),
                              lo.shape(0), hi.shape(0), t.shape(0), choice.shape(0), numbers.shape(0)})
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
        const SearchRows rows = {i64(N), items, need.data(), harder.data(), gap, nodes, t.data(),
                                 reinterpret_cast<i64 *>(choice.data()), numbers.data()};
        nb::gil_scoped_release release;
        chosen.rows->search_rows(rows);
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
        same(constants.shape(0), 8);
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
                                  rivals.data() + (K - 1), with[0], with[1], with[2], with[3], with[4], with[5], with[6], with[7],
                                  aims ? nullptr : lam.data(), aims ? goals.data() : nullptr, aims ? goals.data() + M : nullptr, tol,
                                  max_iter, x.data(), proba.data(), numbers.data(), reinterpret_cast<i64 *>(n_iter.data()),
                                  reinterpret_cast<signed char *>(ended.data())};
        nb::gil_scoped_release release;
        chosen.rows->solve_limited(rows);
    });
}

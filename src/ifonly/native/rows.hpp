// The entries of the row loops: one table of functions for each set of instructions that they were compiled for.
#pragma once

namespace ifonly {

using i64 = long long;

/** Free rows with the same target. */
struct FreeRows {
    i64 B;
    int n;                 // rivals
    const double *G;       // (n, n) Ḡ
    const double *margins; // (B, n)
    const double *lam;     // (B), without goals
    const double *goals;   // (B, 4) `engines.windows.Window`, or null
    double tol;            // 0: to the last digit
    int max_iter, pairs;
    double *q, *p;    // (B, n)
    double *numbers;  // (5, B): λ, p_k, E, ‖∇E‖, qᵀḠq
    i64 *n_iter;      // (B)
    bool *done;       // (B)
};

/** Two classes and nothing but intervals (native/intervals.py). */
struct BoxRows {
    i64 N, D;
    const double *X;                // (N, D)
    const i64 *targets;             // (N): a class, or −1 for the one that is not predicted
    const double *logits, *probs;   // (N): where the rival's margin has to be, and the probability that is asked for
    const double *features;         // (13, D) `intervals.FEATURES`
    const double *intercepts;       // (2)
    double length, offset;          // ‖g‖, and what intercepts and a scaler's shifts add to the terms
    double per_term, per_size;      // rounding of a margin, per unit of the terms in it and of the margin at the source
    bool hard;                      // scores are to be ahead by a margin, and probabilities do not matter
    double *x;                      // (N, D)
    signed char *ended;             // (N): 0 left to others, 1 invalid, 2 reached, 3 out of reach
    double *numbers;                // (N, BOX_NUMBERS), NaN where there are none
};
/** What is found out about such a row; `intervals.COLUMNS`. */
enum { TARGET, P_TARGET, P_RIVAL, LAM, DISTANCE, OBJECTIVE, GRAD_NORM, COST, BOUND, GAP, MULTIPLIER, BEST, BOX_NUMBERS };

/** What may move, for one source (`multiplier_search.Items`), and what is asked of it; kept by whoever hands it over. */
struct SearchItems {
    i64 n, groups, m;                      // features, groups of options, options
    const double *g, *mu, *step, *anchor;  // (n)
    const bool *at_rest;                   // (n)
    const double *og, *oc;                 // (m)
    const bool *moves;                     // (m)
    const i64 *first;                      // (groups + 1)
    const double *lo, *hi;                 // (n)
    double need;
    i64 cap, room; // how many items may move; how many nodes may be kept
};

/** Branch and bound with one multiplier for one source; `begin` is called before anything else. */
struct Search {
    enum State { OPEN, DONE, FULL }; // FULL: there is no room for more nodes
    double cost, w;                  // of the best that is known, infinite where nothing is
    i64 solved, count;               // nodes that were solved, and that there are

    virtual ~Search() = default;
    virtual void begin(const SearchItems &) = 0;
    virtual State expand(double rel_gap, i64 nodes) = 0; // solve so many nodes; DONE where nothing is left that could be better
    virtual double bound() const = 0;
    virtual void answer(double *t, i64 *choice) const = 0; // (n), (groups)
    virtual void record(double *log) const = 0;            // (count, 6) `multiplier_search.LOG`
};

/** The same for N sources. */
struct SearchRows {
    i64 N;
    SearchItems first; // of the first source; what depends on the source is followed by that of the others
    const double *need; // (N)
    double gap;
    i64 nodes;
    double *t;       // (N, n)
    i64 *choice;     // (N, groups)
    double *numbers; // (N, 5): cost, w, nodes, bound, and whether the search came to its end
};

struct Rows {
    void (*solve_free)(const FreeRows &);
    void (*roots)(i64 B, const double *alpha, const double *beta, double *t);
    void (*solve_box)(const BoxRows &);
    Search *(*open_search)(i64 n, i64 groups, i64 m);
    void (*search_rows)(const SearchRows &);
};

namespace baseline {
extern const Rows rows;
}
namespace avx2 {
extern const Rows rows;
}
namespace avx512 {
extern const Rows rows;
}

} // namespace ifonly

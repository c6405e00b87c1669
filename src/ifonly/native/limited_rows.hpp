// From sources to certified answers within limits on features one by one, row after row: what engines/semismooth_newton.py does
// for one source. Rows that this does not settle are left to it.
#pragma once

#include "semismooth.hpp"

namespace ifonly::IFONLY_SET::limits {

enum RowEnded : signed char { LEFT = 0, DONE = 1, STAYS = 2 };

/** Weights of all classes in blocks of features, and what else is needed to go from a source to an answer and back. */
struct Space {
    const LimitedRows &rows;
    i64 blocks, tiles;
    V *A;                                      // [blocks][K][TILES]
    V *shift, *scale, *sizes, *c, *per_c;      // [tiles]
    V *lo, *hi, *rise, *fall;                  // [tiles]: limits; 0 where a feature may only rise (fall), else −∞ (∞)
    Longs<WIDTH> *frozen;                      // [tiles]
    bool directed = false;                     // whether there is more than lo and hi

    Space(const LimitedRows &rows, Pieces &pieces) : rows(rows) {
        blocks = whole(rows.D, BLOCK) / BLOCK;
        tiles = blocks * TILES;
        A = pieces.take<V>(tiles * rows.K);
        for (V **vector : {&shift, &scale, &sizes, &c, &per_c, &lo, &hi, &rise, &fall}) *vector = pieces.take<V>(tiles);
        frozen = pieces.take<Longs<WIDTH>>(tiles);
    }

    void put() {
        double *packed = reinterpret_cast<double *>(A);
        for (i64 k = 0; k < blocks; k++)
            for (int j = 0; j < rows.K; j++)
                for (int i = 0; i < BLOCK; i++) {
                    const i64 d = k * BLOCK + i;
                    packed[(k * rows.K + j) * BLOCK + i] = d < rows.D ? rows.A[j * rows.D + d] : 0.0;
                }
        const auto spread = [&](V *to, const double *from, double beyond) {
            double *each = reinterpret_cast<double *>(to);
            for (i64 d = 0; d < tiles * WIDTH; d++) each[d] = d < rows.D && from ? from[d] : beyond;
        };
        spread(shift, rows.shift, 0.0);
        spread(scale, rows.scale, 1.0);
        spread(sizes, rows.sizes, 0.0);
        spread(c, rows.c, 1.0);
        spread(lo, rows.lo, 0.0);
        spread(hi, rows.hi, 0.0);
        for (i64 d = 0; d < tiles * WIDTH; d++) {
            const i64 tile = d / WIDTH, w = d % WIDTH;
            const i64 way = d < rows.D ? rows.way[d] : 0;
            rise[tile][w] = way & 1 ? 0.0 : -INF;
            fall[tile][w] = way & 2 ? 0.0 : INF;
            frozen[tile][w] = way & 4 ? -1 : 0;
            directed |= way != 0;
            per_c[tile][w] = 1.0 / c[tile][w];
        }
    }
};

struct LimitedLoop {
    const LimitedRows &rows;
    const Space &space;
    Row &row;
    V *own, *low, *high, *x; // [tiles] in the user's units
    V *class_sums;           // [K]
    double *z, *p;           // [K]
    double terms = 0.0;      // the size of what logits are summed from
    const Errors errors;

    LimitedLoop(const LimitedRows &rows, const Space &space, Row &row, Pieces &pieces)
        : rows(rows), space(space), row(row), errors{rows.per_term, rows.per_size, rows.offset, rows.sum_error, rows.row_error,
                                                     rows.largest_b, rows.mu_length, rows.logs} {
        for (V **vector : {&own, &low, &high, &x}) *vector = pieces.take<V>(space.tiles);
        class_sums = pieces.take<V>(rows.K);
        z = pieces.take<double>(rows.K);
        p = pieces.take<double>(rows.K);
    }

    /** z = the classes' scores at a point, and `terms`. */
    void score(const V *point) {
        const int K = rows.K;
        V size{};
        for (int j = 0; j < K; j++) class_sums[j] = V{};
        for (i64 k = 0; k < space.blocks; k++) {
            const V *A = space.A + k * K * TILES;
            V seen[TILES];
            for (int i = 0; i < TILES; i++) {
                const i64 tile = k * TILES + i;
                seen[i] = rows.scale ? (point[tile] - space.shift[tile]) / space.scale[tile] : point[tile];
                size += space.sizes[tile] * magnitude(seen[i]);
            }
            for (int j = 0; j < K; j++) {
                V sum = class_sums[j];
                for (int i = 0; i < TILES; i++) sum += A[j * TILES + i] * seen[i];
                class_sums[j] = sum;
            }
        }
        for (int j = 0; j < K; j++) z[j] = sum_of(class_sums[j]) + rows.b[j];
        terms = sum_of(size);
    }

    double rounding(double size, double prob) const { return errors.coarser(prob) * errors.rounding(terms, size); }

    /** The source, and how far each feature may go; false where limits contradict each other, or the source. */
    bool load(const double *source, bool &within) {
        double *to = reinterpret_cast<double *>(own);
        __builtin_memcpy(to, source, size_t(rows.D) * sizeof(double));
        for (i64 d = rows.D; d < space.tiles * WIDTH; d++) to[d] = 0.0;
        V square{}; // of the way into the limits
        Longs<WIDTH> wrong{}, outside{};
        for (i64 tile = 0; tile < space.tiles; tile++) {
            const V v = own[tile], c = space.c[tile];
            V least = space.lo[tile], most = space.hi[tile];
            const Longs<WIDTH> out = (v < least) | (v > most);
            if (space.directed) {
                const Longs<WIDTH> still = space.frozen[tile];
                least = select(still, v, larger(least, v + space.rise[tile]));
                most = select(still, v, smaller(most, v + space.fall[tile]));
                wrong |= still & out;
            }
            wrong |= (least > most) | ~(magnitude(v) < INF);
            outside |= out;
            low[tile] = least;
            high[tile] = most;
            const V a = (least - v) * c, z = (most - v) * c, way = larger(a, V{}) + larger(-z, V{});
            row.lo[tile] = a;
            row.hi[tile] = z;
            square += way * way;
        }
        row.within = within = !bits_on(outside);
        return !bits_on(wrong) && magnitude(sum_of(square)) < INF;
    }

    /** The x of row.at.t: what stays is the source's, a bound is the bound. */
    void place() {
        for (i64 tile = 0; tile < space.tiles; tile++) {
            const V t = row.at.t[tile], v = own[tile], least = low[tile], most = high[tile];
            V point = smaller(larger(v + t * space.per_c[tile], least), most) + 0.0;
            point = select(t == row.hi[tile], most, point);
            point = select(t == row.lo[tile], least, point);
            x[tile] = select(t == 0.0, smaller(larger(v, least), most), point); // a way into the limits may be too short for a t
        }
    }

    double margin_of_source() const { // the largest, by size
        double most = 0.0;
        for (int j = 0; j < row.b.n; j++) most = larger(most, magnitude(row.margins[j]));
        return most;
    }

    /** The logit of 1 − p_k from z. */
    double logit_here() const {
        double top = -INF, total = 0.0;
        for (int j = 0; j < rows.K; j++)
            if (j != rows.k) top = larger(top, z[j] - z[rows.k]);
        for (int j = 0; j < rows.K; j++)
            if (j != rows.k) total += __builtin_exp(z[j] - z[rows.k] - top);
        return top + __builtin_log(total);
    }

    /** Probabilities from z; −ln p_k to full precision. */
    double probabilities() {
        const int K = rows.K, k = rows.k;
        double top = 0.0, others = 0.0;
        for (int j = 0; j < K; j++) top = larger(top, z[j] - z[k]);
        for (int j = 0; j < K; j++) {
            p[j] = __builtin_exp(z[j] - z[k] - top);
            if (j != k) others += p[j];
        }
        const double total = others + p[k];
        for (int j = 0; j < K; j++) p[j] /= total;
        return top == 0.0 ? __builtin_log1p(others) : top + __builtin_log(total);
    }

    /** The numbers of x, which is within its limits and whose scores are in z: `LimitedProblem.certificate` and `certified`.
     *  How much rounding there is in −ln p_k. */
    double judge(double lam, double weight, double prob, double *numbers) {
        const int n = row.b.n;
        const double loss = probabilities();
        V square{}, sparse{}, norm{};
        for (i64 k = 0; k < space.blocks; k++) {
            const V *B = row.b.rows + k * n * TILES;
            V pull[TILES] = {};
            for (int j = 0; j < n; j++) {
                const V own_p = all_of(p[j < rows.k ? j : j + 1]);
                for (int i = 0; i < TILES; i++) pull[i] += own_p * B[j * TILES + i];
            }
            for (int i = 0; i < TILES; i++) {
                const i64 tile = k * TILES + i;
                const V t = (x[tile] - own[tile]) * space.c[tile], g = lam * t + pull[i], bend = weight * row.b.mu[tile];
                const V least = select(x[tile] <= low[tile], all_of(-INF), g + select(t > 0.0, bend, -bend));
                const V most = select(x[tile] >= high[tile], all_of(INF), g + select(t < 0.0, -bend, bend));
                const V xi = smaller(larger(V{}, least), most);
                square += t * t;
                sparse += row.b.mu[tile] * magnitude(t);
                norm += xi * xi;
            }
        }
        Sums sums{sum_of(square), sum_of(sparse), sum_of(norm), terms, 0.0, 0.0, 0.0};
        for (int j = 0; j < n; j++) {
            const double own_p = p[j < rows.k ? j : j + 1];
            sums.others += own_p;
            sums.pull += own_p * row.b.lengths[j];
            sums.pull_terms += own_p * rows.terms_length[j];
        }
        return claim(errors, rows.K, lam, weight, prob, loss, sums, numbers);
    }

    RowEnded weighed(double lam, double *numbers) {
        row.lam = lam;
        row.weight = 1.0;
        row.start();
        row.evaluate(row.at);
        Course course;
        course.budget = EVALUATIONS;
        if (row.newton(rows.tol, rows.max_iter, rows.max_iter, course) != Ended::FOUND) return LEFT;
        place();
        score(x);
        // whoever computes E in another order is to find the same number
        return judge(lam, 1.0, 0.0, numbers) <= SAME * (1.0 + magnitude(numbers[2])) ? DONE : LEFT;
    }

    RowEnded reached(double logit, double prob, bool within, double *numbers) {
        const double size = margin_of_source(), wide = 8.0 * EPS * (magnitude(logit) + 1.0);
        double room = rounding(size, prob);
        if (logit_here() <= logit - room) {
            if (!within) return LEFT;
            for (i64 tile = 0; tile < space.tiles; tile++) x[tile] = own[tile];
            const double loss = probabilities(), found[] = {INF, 0.0, loss, 0.0, 0.0, 0.0};
            for (int i = 0; i < 6; i++) numbers[i] = found[i];
            return STAYS;
        }
        row.lam = row.weight = first_lam(logit);
        row.start();
        row.evaluate(row.at);
        for (int chase = 0; chase < CHASES; chase++) {
            const double width = room + wide;
            if (!row.reach(logit - room - 0.5 * width, 0.25 * width, EVALUATIONS)) return LEFT;
            place();
            score(x);
            const double now = rounding(size, prob), over = logit_here() - (logit - now);
            if (over <= 0.0) {
                judge(row.lam, row.lam, prob, numbers);
                return DONE;
            }
            room = larger(now, room) + over;
        }
        return LEFT;
    }

    /** λ of the problem with the rival alone that is hardest to beat (`semismooth._first_lam`). */
    double first_lam(double logit) const {
        double farthest = 0.0, nearest = -INF, square = 0.0, ahead = 1.0;
        for (int j = 0; j < row.b.n; j++) {
            if (!(rows.squares[j] > 0.0)) continue;
            const double gap = row.margins[j] - logit, far = gap / square_root(rows.squares[j]);
            if (far > farthest || (farthest == 0.0 && gap > nearest)) { // where each alone is beaten, that which is least so
                farthest = larger(far, 0.0);
                nearest = gap;
                square = rows.squares[j];
                ahead = larger(gap, 1e-3);
            }
        }
        const double lam = square / ahead / (1.0 + __builtin_exp(smaller(-logit, 700.0)));
        return lam > 0.0 && lam < INF ? lam : 1.0;
    }

    void run() {
        for (i64 m = 0; m < rows.M; m++) {
            const i64 i = rows.index[m];
            double *numbers = rows.numbers + 6 * m;
            rows.ended[m] = LEFT;
            bool within;
            if (!load(rows.X + i * rows.D, within)) continue;
            score(own);
            bool finite = true;
            for (int j = 0; j < rows.K; j++) finite &= magnitude(z[j]) < INF;
            if (!finite) continue;
            row.forget();
            for (int j = 0; j < row.b.n; j++) row.margins[j] = z[j < rows.k ? j : j + 1] - z[rows.k];
            const RowEnded ended = rows.lam ? weighed(rows.lam[m], numbers) : reached(rows.logits[m], rows.probs[m], within, numbers);
            if (ended == LEFT) continue;
            finite = true;
            for (int a = 1; a < 6; a++) finite &= magnitude(numbers[a]) < INF;
            if (!finite) continue;
            __builtin_memcpy(rows.x + i * rows.D, x, size_t(rows.D) * sizeof(double));
            for (int j = 0; j < rows.K; j++) rows.proba[m * rows.K + j] = p[j];
            rows.n_iter[m] = row.n_iter;
            rows.ended[m] = ended;
        }
    }
};

inline void solve_limited(const LimitedRows &rows) {
    Pieces count{nullptr};
    {
        const Rivals rivals(rows.K - 1, rows.D, count);
        Row row(rivals, count);
        const Space space(rows, count);
        const LimitedLoop loop(rows, space, row, count);
    }
    const Memory memory(count.used);
    Pieces pieces{memory.as<char>()};
    Rivals rivals(rows.K - 1, rows.D, pieces);
    Row row(rivals, pieces);
    Space space(rows, pieces);
    LimitedLoop loop(rows, space, row, pieces);
    rivals.put(rows.B, rows.mu);
    space.put();
    loop.run();
}

} // namespace ifonly::IFONLY_SET::limits

// Several constraints, and branch and bound on top of them: linear rules, a margin over several rivals, a probability among
// several classes.
//
// Multipliers y make one constraint of all of them, Σ_d (yᵀG)_d t_d ≥ y·need + H(y), which every point that meets them all meets
// too (H is the entropy of the rivals' part, where these are classes of a softmax). How far that one carries, w·y for the best w,
// is known from multiplier_search.hpp, with all choices as they are: grids, options, no more than so many changes. What is left is
// to turn y. D is concave in y, smooth where features move freely, with edges where choices flip: a Newton step with the curvature
// of the features that can move, shorter where D does not rise, and w anew. A few such steps are made in a node, from the y of the
// node that it is a part of; whatever y comes out, the bound holds.
//
// Where the classifier is weighed against the cost, in place of a goal, what is minimised has `weight`·ln Σ e^s besides, s over all
// classes. The rivals are then all classes, and their multipliers add up to the weight: there is no w to find, and D is searched along
// Newton's step.
#pragma once

#include "multiplier_search.hpp"

namespace ifonly::IFONLY_SET {

class ManyMultipliers final : public OneMultiplier {
    static constexpr int FIRST_STEPS = 40, STEPS = 3, LAST_STEPS = 60; // at the root, in a node, where all is decided
    static constexpr int TRIALS = 6, TURNS = 8; // of a step, each shorter than the last; of choosing what falls as far as it may
    static constexpr double WORTH = 0.02;       // of what is left of the gap: a step that raises D by less is the last one
    static constexpr double SHRINK = 0.1;       // a rival's multiplier falls at most to this share of itself …
    static constexpr double GROW = 100.0;       // … and rises at most by so many times all of theirs: beyond, H is no guide
    static constexpr int LOOKS = 8;             // along a step, where the loss is weighed
    static constexpr double NEAR = 1e-6;        // logarithms that differ by less: their logarithmic mean is the mean
    static constexpr double RIDGE = 1e-10;      // of the length of a row: what is added to H, so that it has an inverse
    static constexpr double LEVEL = 1e-12;      // of the entropy's own curvature, likewise: it has none where all rise alike
    static constexpr double ENDLESS = 1e15;     // times the cost of one constraint alone: D has no end, but for rounding
    static constexpr double ROUNDINGS = 64.0;   // of all terms of D
    static constexpr double MET = 1e-9; // relative: by how much an answer may miss a constraint, that others will make exact

    /** The constraints on a part. */
    struct System {
        T *rows;       // [R][V]
        double *needs; // [R]
    };

    const i64 R, rivals; // constraints, and how many of them are rivals'
    const double weight; // of their loss; 0 where they are a constraint
    System whole, left_over;
    double *options, *gains_of_options;                         // [R][m], [m]
    double *slips, *lengths;                                    // [R]; lengths are squared
    double *y, *trial, *of_rest_y, *v, *means, *delta, *gained; // [R]
    double *H, *L;                                              // [R][R]
    bool *equal, *held;                                         // [R]
    i64 *index;                                                 // [R]
    T *free;                                                    // [V]
    Solution trials[4], rest_trials[4];
    std::unique_ptr<Memory> more;
    double *kept = nullptr; // [capacity][R] the multipliers of nodes
    double endless = 0.0; // what D comes to where it has no end
    const Solution *also = nullptr; // the solution before the last

    void lay_more(Pieces &pieces) {
        for (System *system : {&whole, &left_over}) {
            pieces.lend(system->rows, R * V);
            pieces.lend(system->needs, R);
        }
        pieces.lend(options, R * m);
        pieces.lend(gains_of_options, m);
        for (double **a : {&slips, &lengths, &y, &trial, &of_rest_y, &v, &means, &delta, &gained}) pieces.lend(*a, R);
        for (double **a : {&H, &L}) pieces.lend(*a, R * R);
        for (bool **a : {&equal, &held}) pieces.lend(*a, R);
        pieces.lend(index, R);
        pieces.lend(free, V);
        for (Solution *solutions : {trials, rest_trials}) lay_solutions(solutions, pieces);
    }

    // ---- one constraint of several ----

    /** The constraint of y becomes that of the part. */
    void direct(Part &part, const System &system, const double *y) {
        double total = 0.0;
        need = 0.0;
        for (i64 d = 0; d < part.V; d++) part.g[d] = T{};
        for (i64 o = 0; o < m; o++) gains_of_options[o] = 0.0;
        for (i64 r = 0; r < R; r++) {
            need += y[r] * system.needs[r];
            if (r < rivals) total += y[r];
            if (y[r] == 0.0) continue;
            for (i64 d = 0; d < part.V; d++) part.g[d] += y[r] * system.rows[r * V + d];
            if (part.groups)
                for (i64 o = 0; o < m; o++) gains_of_options[o] += y[r] * options[r * m + o];
        }
        for (i64 r = 0; r < rivals; r++)
            if (y[r] > 0.0) need -= y[r] * __builtin_log(y[r] / total);
    }

    /** What a solution gains in each row. */
    void gains(const Part &part, const System &system, const Solution &at, double *to) const {
        for (i64 r = 0; r < R; r++) {
            T sum{};
            for (i64 d = 0; d < part.V; d++) sum += system.rows[r * V + d] * at.t[d];
            to[r] = sum_of(sum);
            for (i64 j = 0; j < part.groups; j++) to[r] += options[r * m + at.choice[j]];
        }
    }

    /** ln Σ e^s over the rivals: by how much their constraint is missed. */
    double miss_of(const double *s) const {
        double top = -INF, sum = 0.0;
        for (i64 r = 0; r < rivals; r++) top = larger(top, s[r]);
        for (i64 r = 0; r < rivals; r++) sum += __builtin_exp(s[r] - top);
        return top + __builtin_log(sum);
    }

    /** The same where the rows gain so much. */
    double rivals_miss(const System &system, const double *gained) const {
        for (i64 r = 0; r < rivals; r++) means[r] = system.needs[r] - gained[r];
        return miss_of(means);
    }

    /** Whether a point that gains so much meets all constraints; those of rules up to this share of what such a change can gain. */
    bool meets(const System &system, const double *gained, double part = 0.0, double change = 0.0) const {
        if (rivals && weight == 0.0 && !(rivals_miss(system, gained) <= part)) return false;
        for (i64 r = rivals; r < R; r++) {
            const double short_by = system.needs[r] - gained[r];
            const double most = slips[r] + part * (magnitude(system.needs[r]) + change * square_root(lengths[r]));
            if (!(short_by <= most) || (equal[r] && !(short_by >= -most))) return false;
        }
        return true;
    }

    /** A y that asks for what a solution lacks; false where it lacks nothing. */
    bool turn(const Part &part, const System &system, const Solution &at, double *y) {
        gains(part, system, at, gained);
        if (meets(system, gained)) return false;
        const double miss = rivals ? rivals_miss(system, gained) : 0.0;
        double length = 0.0;
        for (i64 r = 0; r < rivals; r++) {
            y[r] = __builtin_exp(larger(system.needs[r] - gained[r] - miss, -600.0)); // their shares
            length += y[r] * y[r] * lengths[r];
        }
        const double scale = larger(miss, 1e-3) / (length > 0.0 ? length : 1.0);
        for (i64 r = 0; r < rivals; r++) y[r] *= weight > 0.0 ? 0.0 : scale;
        for (i64 r = rivals; r < R; r++) {
            const double short_by = system.needs[r] - gained[r];
            y[r] = short_by > slips[r] || equal[r] ? short_by / lengths[r] : 0.0;
        }
        return true;
    }

    /** How much of the right solution there is in the mean of the two that meets the part's constraint with nothing to spare. */
    double share_of(const Maximum &found) const {
        const double low = found.left->gain, high = found.right->gain;
        return high > low ? smaller(larger((need - low) / (high - low), 0.0), 1.0) : 1.0;
    }

    /** D's derivative, into `v`: what that mean misses. And the logarithmic means of the rivals' multipliers and of what these would be
     *  if nothing else moved, into `means`: with them for the multipliers themselves in H, as in engines/semismooth.py, those that are
     *  far too small or too large come there in a step. */
    void differentiate(const Part &part, const System &system, const Maximum &found, double share, const double *y) {
        gains(part, system, *found.right, v);
        if (share < 1.0) {
            gains(part, system, *found.left, gained);
            for (i64 r = 0; r < R; r++) v[r] = share * v[r] + (1.0 - share) * gained[r];
        }
        double total = 0.0;
        for (i64 r = 0; r < rivals; r++) total += y[r];
        for (i64 r = 0; r < R; r++) v[r] = system.needs[r] - v[r];
        const double miss = rivals ? miss_of(v) : 0.0;
        for (i64 r = 0; r < rivals; r++) {
            const double own = __builtin_log(y[r] / total), there = larger(v[r] - miss, -600.0), off = there - own;
            means[r] = magnitude(off) < NEAR ? y[r] : (total * __builtin_exp(there) - y[r]) / off;
            v[r] -= own;
        }
    }

    /** How far a multiplier may fall. */
    double least(i64 r, const double *y) const { return r < rivals ? (SHRINK - 1.0) * y[r] : equal[r] ? -INF : -y[r]; }

    /** H: the curvature of the features that are free, and of the entropy. */
    void curve(const Part &part, const System &system, const Solution &at) {
        double total = 0.0;
        for (i64 r = 0; r < rivals; r++) total += means[r];
        for (i64 d = 0; d < part.V; d++) {
            const T pull = magnitude(part.g[d]);
            const M pulled = (pull > part.mu[d]) | ((pull == part.mu[d]) & (part.step[d] == 0.0));
            const M inside = (at.t[d] > part.lo[d]) & (at.t[d] < part.hi[d]) & pulled;
            const M stays = (part.state[d] == STAYS) & (part.at_rest[d] != 0.0);
            free[d] = select(inside & (at.moved[d] | ((part.step[d] > 0.0) & ~stays)), T{} + 1.0, T{});
        }
        for (i64 r = 0; r < R; r++)
            for (i64 q = 0; q <= r; q++) {
                const T *a = system.rows + r * V, *b = system.rows + q * V;
                T sum{};
                for (i64 d = 0; d < part.V; d++) sum += free[d] * a[d] * b[d];
                double h = sum_of(sum);
                if (r < rivals) h += (r == q ? (1.0 + LEVEL) / means[r] : 0.0) - (weight > 0.0 ? 0.0 : 1.0 / total);
                if (r == q) h = larger(h, least_curvature(part, system, r)) + RIDGE * lengths[r];
                H[r * R + q] = H[q * R + r] = h;
            }
    }

    /** A multiplier that moves nothing yet has no curvature: this much, and it goes as far as it takes for all that it can move to be at
     *  its end. */
    double least_curvature(const Part &part, const System &system, i64 r) const {
        T most{};
        for (i64 d = 0; d < part.V; d++) {
            const T row = magnitude(system.rows[r * V + d]), lo = part.lo[d], hi = part.hi[d];
            const T low = select(lo > -INF, -lo, T{}), end = larger(low, select(hi < INF, hi, T{}));
            const M stays = (free[d] > 0.0) | ~(hi - lo > 0.5 * part.step[d]) | ((part.state[d] == STAYS) & (part.at_rest[d] != 0.0));
            most = larger(most, select(stays | (row == 0.0), T{}, (end + part.mu[d] + magnitude(part.g[d])) / row));
        }
        double last = 0.0;
        for (int w = 0; w < W; w++) last = larger(last, most[w]);
        return last > 0.0 ? magnitude(v[r]) / last : 0.0;
    }

    /** Newton's step, into `delta`: where v·Δ − ½ΔᵀHΔ is largest, no multiplier falling too far; false where there is none. */
    bool newton(const double *y) {
        const i64 last = weight > 0.0 ? balanced() : -1;
        for (i64 r = 0; r < R; r++) held[r] = r == last || (!(v[r] > 0.0) && least(r, y) == 0.0);
        for (int turn = 0; turn < TURNS; turn++) {
            if (!solve_free(y, last)) return false;
            bool same = true;
            for (i64 r = 0; r < R; r++) {
                if (r == last) continue;
                double pull = v[r];
                for (i64 q = 0; q < R; q++) pull -= H[r * R + q] * delta[q];
                const bool now = held[r] ? !(pull > 0.0) : delta[r] < least(r, y);
                same &= now == held[r];
                held[r] = now;
            }
            if (same) break;
        }
        for (i64 r = 0; last >= 0 && r < rivals; r++)
            if (r != last) delta[last] -= delta[r];
        return true;
    }

    /** Make v and H those of multipliers of classes whose sum stays as it is: what others rise by, the class with most of it, which is
     *  returned, falls. */
    i64 balanced() {
        i64 last = 0;
        for (i64 r = 1; r < rivals; r++)
            if (means[r] > means[last]) last = r;
        for (i64 r = 0; r < rivals; r++)
            for (i64 q = 0; q < R && r != last; q++) H[r * R + q] -= H[last * R + q];
        for (i64 q = 0; q < rivals; q++)
            for (i64 r = 0; r < R && q != last; r++) H[r * R + q] -= H[r * R + last];
        for (i64 r = 0; r < rivals; r++) v[r] -= r == last ? 0.0 : v[last];
        v[last] = 0.0;
        return last;
    }

    /** The step that is best while those multipliers that are held fall as far as they may, and the `last` stays. */
    bool solve_free(const double *y, i64 last) {
        i64 rows = 0;
        for (i64 r = 0; r < R; r++) {
            if (held[r]) delta[r] = r == last ? 0.0 : least(r, y);
            else index[rows++] = r;
        }
        for (i64 i = 0; i < rows; i++) { // Cholesky's factors, and forward
            const i64 r = index[i];
            double *own = L + i * R, right = v[r];
            for (i64 q = 0; q < R; q++)
                if (held[q]) right -= H[r * R + q] * delta[q];
            for (i64 j = 0; j <= i; j++) {
                double sum = H[r * R + index[j]];
                for (i64 k = 0; k < j; k++) sum -= own[k] * L[j * R + k];
                if (j < i) own[j] = sum / L[j * R + j];
                else if (sum > 0.0) own[i] = square_root(sum);
                else return false;
            }
            for (i64 k = 0; k < i; k++) right -= own[k] * gained[k];
            gained[i] = right / own[i];
        }
        for (i64 i = rows - 1; i >= 0; i--) {
            double right = gained[i];
            for (i64 k = i + 1; k < rows; k++) right -= L[k * R + i] * gained[k];
            delta[index[i]] = gained[i] = right / L[i * R + i];
        }
        return true;
    }

    /** How much of the step to try first. */
    double first_length(const double *y) const {
        double total = 0.0, most = 0.0, length = 1.0;
        for (i64 r = 0; r < rivals; r++) {
            total += y[r], most = larger(most, delta[r]);
            if (delta[r] < least(r, y)) length = smaller(length, least(r, y) / delta[r]);
        }
        return most > GROW * total ? smaller(length, GROW * total / most) : length;
    }

    /** `trial` is y and so much of the step; false where nothing is left of it. */
    bool go_along(const double *y, double alpha) {
        double most = 0.0;
        for (i64 r = 0; r < R; r++) {
            trial[r] = larger(y[r] + alpha * delta[r], y[r] + least(r, y));
            most = larger(most, magnitude(trial[r]) * lengths[r]);
        }
        if (weight > 0.0) {
            double total = 0.0;
            for (i64 r = 0; r < rivals; r++) total += trial[r];
            for (i64 r = 0; r < rivals; r++) trial[r] *= weight / total;
        }
        return 0.0 < most && most < INF;
    }

    /** D's slope along the step, where `v` is its derivative. */
    double slope() const {
        double sum = 0.0;
        for (i64 r = 0; r < R; r++) sum += v[r] * delta[r];
        return sum;
    }

    /** Whether there is nothing where D comes to so much, but for rounding. */
    bool has_no_end(double bound) const { return !(bound < 0.5 * endless); }

    void scale(double *y, const double *from, double by) const {
        for (i64 r = 0; r < R; r++) y[r] = by * from[r];
    }

    /** The largest D along y, less what rounding may have added to it where rows nearly cancel. */
    Maximum tried(Part &part, const System &system, const double *y, Solution *solutions) {
        direct(part, system, y);
        Maximum found = maximise(part, 1.0, solutions);
        if (!found.reached) { // if not by rounding alone
            const Maximum at_rest = {0.0, 0.0, 1.0, found.left, found.left, true};
            const bool sure = found.w > rounding(part, system, y, at_rest);
            return sure ? found : Maximum{0.0, 0.0, 0.0, found.left, found.left, true};
        }
        if (found.bound > endless) { // D is concave and not negative at 0: a part of y will do, and rounds less
            found.best *= endless / found.bound;
            found.bound = endless;
            evaluate(found.best, part, *(found.left = found.right));
        }
        found.bound -= rounding(part, system, y, found);
        return found;
    }

    /** What rounding may have added to D. */
    double rounding(const Part &part, const System &system, const double *y, const Maximum &found) const {
        double terms = 0.0, slip = 0.0;
        for (i64 r = 0; r < R; r++) {
            if (y[r] == 0.0) continue;
            slip += magnitude(y[r]) * slips[r];
            T sum{};
            for (i64 d = 0; d < part.V; d++) {
                const T far = larger(magnitude(found.left->t[d]), magnitude(found.right->t[d]));
                sum += magnitude(system.rows[r * V + d]) * far;
            }
            double size = magnitude(system.needs[r]) + sum_of(sum);
            for (i64 j = 0; j < part.groups; j++)
                size += magnitude(options[r * m + found.left->choice[j]]) + magnitude(options[r * m + found.right->choice[j]]);
            terms += magnitude(y[r]) * size;
        }
        return found.best * (ROUNDINGS * EPS * terms + 4.0 * slip);
    }

    /** The largest D that so many steps lead to from y, and that y; `solutions` and `others` are room for four each. */
    Maximum ascend(Part &part, const System &system, double *y, int steps, double worth, double rel_gap, Solution *solutions,
                   Solution *others) {
        if (weight > 0.0) return ascend_weighed(part, system, y, steps, worth, rel_gap, solutions, others);
        also = nullptr;
        Maximum found = tried(part, system, y, solutions);
        if (found.reached && found.best == 0.0 && turn(part, system, *found.left, y)) found = tried(part, system, y, solutions);
        if (!found.reached) return found;
        double share = share_of(found);
        scale(y, y, found.best);
        if (found.best == 0.0) return found; // what is cheapest meets the constraint
        for (int i = 0; i < steps && !settled(found.bound, rel_gap) && !late(); i++) {
            const double before = found.bound, hope = cost < INF ? larger(cost - before, 1e-12 * cost) : larger(before, 1e-300);
            differentiate(part, system, found, share, y);
            curve(part, system, *found.right);
            if (!newton(y)) break;
            const double begin = slope();
            double alpha = first_length(y);
            for (int i = 0; i < TRIALS && found.bound == before; i++) {
                if (!go_along(y, alpha)) break;
                const Maximum next = tried(part, system, trial, others);
                also = next.right;
                if (next.reached && !(next.best > 0.0 && next.bound > before)) { // too far: where would D's slope be 0?
                    evaluate(1.0, part, *next.left);
                    differentiate(part, system, {next.bound, 1.0, 1.0, next.left, next.left, true}, 1.0, trial);
                    const double end = slope();
                    alpha *= end < 0.0 ? smaller(larger(begin / (begin - end), 1e-9), 0.7) : 0.3;
                    continue;
                }
                also = found.right;
                found = next;
                std::swap(solutions, others);
                scale(y, trial, next.reached ? next.best : 1.0);
                if (!next.reached) return found;
                share = share_of(found);
            }
            if (found.bound - before <= worth * hope || has_no_end(found.bound)) break;
        }
        if (found.bound > 2.0 * cost) { // again a part will do
            scale(y, y, 2.0 * cost / found.bound);
            found.bound = 2.0 * cost;
        }
        direct(part, system, y);
        return found;
    }

    // ---- a loss that is weighed ----

    /** Multipliers to begin with: the probabilities where nothing but the cost counts. */
    void begin_weighed(Part &part, const System &system, double *y, Solution &room) {
        for (i64 r = 0; r < R; r++) y[r] = 0.0;
        direct(part, system, y);
        evaluate(1.0, part, room);
        gains(part, system, room, gained);
        const double loss = rivals_miss(system, gained);
        for (i64 r = 0; r < rivals; r++) y[r] = weight * __builtin_exp(larger(system.needs[r] - gained[r] - loss, -600.0));
    }

    /** D at y. */
    Maximum weighed(Part &part, const System &system, const double *y, Solution &room) {
        direct(part, system, y);
        evaluate(1.0, part, room);
        Maximum found = {room.price + need, 1.0, 1.0, &room, &room, true};
        found.bound -= rounding(part, system, y, found);
        return found;
    }

    /** Where D is largest along the step from y, where it is `found` and has such a slope; `trial` is that point, and `share` says how much
     *  of the right of the two solutions there is in their mean along which D is level. `others` is room for four. */
    Maximum look_along(Part &part, const System &system, const double *y, const Maximum &found, double slope_low, double hope,
                       Solution *others, double &share) {
        double low = 0.0, high = first_length(y), best = 0.0, bound = found.bound, at_low = found.bound;
        Solution *left = others, *right = others + 1, *next = others + 2;
        copy(*left, *found.right);
        double at_high = 0.0, slope_high = 0.0;
        for (int look = 0; look < LOOKS; look++) {
            double length = high;
            if (look > 0) { // where the tangents meet, not too near to an end
                const double meet = (at_high - at_low + slope_low * low - slope_high * high) / (slope_low - slope_high);
                const double ceiling = at_low + slope_low * (meet - low), margin = 0.02 * (high - low);
                if (!(ceiling - bound > 1e-3 * hope)) break;
                length = smaller(larger(meet, low + margin), high - margin);
            }
            if (!go_along(y, length)) break;
            const Maximum here = weighed(part, system, trial, *next);
            differentiate(part, system, here, 1.0, trial);
            const double slope_here = slope();
            if (here.bound > bound) bound = here.bound, best = length;
            if (slope_here >= 0.0) {
                low = length, at_low = here.bound, slope_low = slope_here;
                std::swap(left, next);
                if (look == 0) break;
            } else {
                high = length, at_high = here.bound, slope_high = slope_here;
                std::swap(right, next);
            }
        }
        go_along(y, best);
        const bool one = slope_high >= 0.0;
        share = one ? 1.0 : slope_low / (slope_low - slope_high);
        return {bound, 1.0, 1.0, left, one ? left : right, true};
    }

    /** `ascend` where the loss is weighed. */
    Maximum ascend_weighed(Part &part, const System &system, double *y, int steps, double worth, double rel_gap, Solution *solutions,
                           Solution *others) {
        also = nullptr;
        double total = 0.0, share = 1.0;
        for (i64 r = 0; r < rivals; r++) total += y[r];
        if (!(total > 0.0)) begin_weighed(part, system, y, *solutions);
        Maximum found = weighed(part, system, y, *solutions);
        for (int i = 0; i < steps && !settled(found.bound, rel_gap) && !late(); i++) {
            const double before = found.bound, hope = cost < INF ? larger(cost - before, 1e-12 * cost) : larger(before, 1e-300);
            direct(part, system, y);
            differentiate(part, system, found, share, y);
            curve(part, system, *found.right);
            if (!newton(y)) break;
            double of_next = 1.0;
            const Maximum next = look_along(part, system, y, found, slope(), larger(worth, 1e-9) * hope, others, of_next);
            if (!(next.bound > before)) break;
            found = next, share = of_next;
            std::swap(solutions, others);
            __builtin_memcpy(y, trial, R * sizeof(double));
            if (found.bound - before <= worth * hope || has_no_end(found.bound)) break;
        }
        direct(part, system, y);
        return found;
    }

    void copy(Solution &to, const Solution &from) const {
        __builtin_memcpy(to.t, from.t, V * sizeof(T));
        __builtin_memcpy(to.moved, from.moved, V * sizeof(M));
        __builtin_memcpy(to.choice, from.choice, groups * sizeof(i64));
        __builtin_memcpy(to.group_moved, from.group_moved, groups);
        to.gain = from.gain, to.cost = from.cost, to.price = from.price, to.slope = from.slope;
    }

    /** Cut a node at a feature that would rather be between two of its values: that which is farthest from one; false where none is. */
    bool cut_between(i64 id, double bound, const Solution &b) {
        double far = 1e-9;
        i64 item = -1;
        for (i64 d = 0; d < n; d++) {
            const double step = at(node.step, d), off = magnitude(wanted(d) - at(b.t, d)) / (step > 0.0 ? step : 1.0);
            if (step > 0.0 && !(at(node.state, d) == STAYS && at(node.at_rest, d) != 0.0) && off > far) far = off, item = d;
        }
        if (item < 0) return false;
        const double t = at(b.t, item);
        const bool up = wanted(item) > t;
        if (up ? !is_above(item, t) : !is_below(item, t)) return false;
        Node &here = tree[id];
        here.item = item, here.kind = VALUE;
        here.below = up ? t : beside(item, t, false);
        here.above = up ? beside(item, t, true) : t;
        split(id, bound);
        return true;
    }

    /** Whether a feature on a grid has values above t, or below it: bounds are off the grid by a rounding. */
    bool is_above(i64 d, double t) const { return t + 0.5 * at(node.step, d) < at(node.hi, d); }
    bool is_below(i64 d, double t) const { return t - 0.5 * at(node.step, d) > at(node.lo, d); }

    /** Where a feature would be if it had no grid. */
    double wanted(i64 d) const {
        const double g = at(node.g, d), soft = larger(magnitude(g) - at(node.mu, d), 0.0);
        return smaller(larger(g < 0.0 ? -soft : soft, at(node.lo, d)), at(node.hi, d));
    }

    // ---- answers ----

    /** What a solution costs that gains so much. */
    double price_of(const Solution &found, const System &system, const double *gained) const {
        return weight > 0.0 ? found.cost + weight * rivals_miss(system, gained) : found.cost;
    }

    /** Keep a solution as it is, or the best that can be made of its decisions, if it meets all constraints and costs less. */
    void offer_all(const Solution &found) {
        bool open = false;
        for (i64 d = 0; d < V; d++) open |= any(found.moved[d] & (node.step[d] == 0.0) & (node.lo[d] < node.hi[d]));
        gains(node, whole, found, gained);
        if (!open) {
            const double price = price_of(found, whole, gained);
            if (price < cost && meets(whole, gained)) keep(found, price);
            return;
        }
        if (!keep_decisions(found)) return;
        rest.gain = 0.0;
        for (i64 r = 0; r < R; r++) {
            T *own = left_over.rows + r * V;
            left_over.needs[r] = whole.needs[r] - gained[r];
            for (i64 i = 0; i < rest.V * W; i++) put(own, i, i < rest.n ? at(whole.rows + r * V, place[i]) : 0.0);
            for (i64 i = 0; i < rest.n; i++) left_over.needs[r] += at(own, i) * at(found.t, place[i]);
            of_rest_y[r] = y[r];
        }
        const Maximum own = ascend(rest, left_over, of_rest_y, LAST_STEPS, 0.0, 0.0, of_rest, rest_trials);
        direct(node, whole, y);
        if (!own.reached || !(own.bound < cost)) return;
        gains(rest, left_over, *own.right, gained);
        if (!meets(left_over, gained, MET, square_root(2.0 * own.bound))) return;
        const double price = weight > 0.0 ? price_of(*own.right, left_over, gained) : own.bound;
        if (!(price < cost)) return;
        keep(found, price);
        for (i64 i = 0; i < rest.n; i++) put(best_t, place[i], at(own.right->t, i));
    }

    void keep(const Solution &found, double price) {
        cost = price;
        w = 1.0;
        __builtin_memcpy(best_t, found.t, V * sizeof(T));
        __builtin_memcpy(best_choice, found.choice, groups * sizeof(i64));
    }

    // ---- the tree ----

    /** Room for two more nodes, and their multipliers. */
    bool grow(i64 nodes_left) override {
        const i64 before = capacity;
        if (!OneMultiplier::grow(nodes_left)) return false;
        if (capacity == before) return true;
        void *larger_one = std::realloc(kept, capacity * R * sizeof(double));
        if (!larger_one) return false;
        kept = static_cast<double *>(larger_one);
        if (count == 0) __builtin_memcpy(kept, y, R * sizeof(double));
        return true;
    }

    void solve(i64 id, double known, double rel_gap) override {
        double *own = kept + id * R, bound = known;
        tree[id].w = 1.0;
        __builtin_memcpy(y, own, R * sizeof(double));
        if (is_full()) { // there is no point in it
            tree[id].above = INF;
            return;
        }
        for (bool long_way : {false, true}) { // where a few steps do not tell what to cut, as many as it takes
            // 1. The bound.
            const int steps = long_way ? LAST_STEPS : id == 0 ? FIRST_STEPS : STEPS;
            const Maximum found = ascend(node, whole, y, steps, long_way ? 0.0 : WORTH, rel_gap, of_node, trials);
            if (!found.reached) return close(id, found.w);
            if (found.bound > bound) {
                bound = tree[id].above = found.bound;
                __builtin_memcpy(own, y, R * sizeof(double));
            }
            if (settled(bound, rel_gap) || has_no_end(bound)) return drop(bound);
            // 2. Answers.
            const Solution *a = found.left, *b = found.right, *c = also;
            offer_all(*b);
            if (a != b) offer_all(*a);
            if (settled(bound, rel_gap)) return drop(bound);
            // 3. Two parts: where the two solutions differ, or those before; or else where it helps what is missed.
            i64 item = branch_item(node, *a, *b);
            if (item < 0 && c) item = branch_item(node, *(a = c), *b);
            if (item >= 0) {
                cut(id, item, bound, *a, *b);
                if (tree[id].kind == OPTIONS) {
                    tree[id].kind = ONE_OPTION;
                    tree[id].below = double(b->choice[item - n]);
                }
            } else if (!(weight > 0.0 && cut_between(id, bound, *b))) {
                if (!long_way) continue;
                if (!cut_anyhow(id, bound, *b)) {
                    if (!turn(node, whole, *b, y)) return drop(bound);
                    direct(node, whole, y);
                    const double top = most(node);
                    return top < need ? close(id, need - top) : drop(bound); // nothing is left to choose: is it not enough?
                }
            }
            for (i64 part = tree[id].first; part < tree[id].first + 2; part++)
                __builtin_memcpy(kept + part * R, own, R * sizeof(double));
            return;
        }
    }

    /** Whether more have to move than may. */
    bool is_full() const {
        i64 free = node.cap;
        for (i64 d = 0; d < n; d++) free -= at(node.at_rest, d) == 0.0 || at(node.state, d) == COUNTS;
        for (i64 j = 0; j < groups; j++) {
            bool rests = false;
            for (i64 o = first[j]; o < first[j + 1]; o++) rests |= node.allowed[o] && !moves[o];
            free -= !rests || node.group_state[j] == COUNTS;
        }
        return free < 0;
    }

    void drop(double bound) { cut_off = smaller(cut_off, bound); }

    /** No point of this node meets all constraints: `y` shows it, by so much. */
    void close(i64 id, double missed) {
        tree[id].w = INF;
        tree[id].below = missed;
        __builtin_memcpy(kept + id * R, y, R * sizeof(double));
    }

    /** Cut a node whose solutions agree, though they miss something: the choice that gains most there; false where there is none. */
    bool cut_anyhow(i64 id, double bound, const Solution &b) {
        gains(node, whole, b, gained);
        i64 worst = 0;
        double far = -INF;
        for (i64 r = weight > 0.0 && rivals < R ? rivals : 0; r < R; r++) {
            const double short_by = whole.needs[r] - gained[r], size = square_root(lengths[r]);
            const double off = (r >= rivals && equal[r] ? magnitude(short_by) : short_by) / size;
            if (off > far) far = off, worst = r;
        }
        const double way = whole.needs[worst] < gained[worst] ? -1.0 : 1.0;
        double best = -1.0;
        i64 item = -1;
        for (i64 d = 0; d < n; d++) {
            const double range = at(node.hi, d) - at(node.lo, d), state = at(node.state, d);
            const double help = magnitude(at(whole.rows + worst * V, d)) * smaller(range, 1e9);
            const bool open = state == UNDECIDED && at(node.at_rest, d) != 0.0 && node.cap < n + groups;
            if (state == STAYS && at(node.at_rest, d) != 0.0) continue;
            if (range > 0.5 * at(node.step, d) && (at(node.step, d) > 0.0 || open) && help > best) best = help, item = d;
        }
        for (i64 j = 0; j < groups; j++) {
            double low = INF, high = -INF;
            for (i64 o = first[j]; o < first[j + 1]; o++)
                if (node.allowed[o]) low = smaller(low, double(o)), high = larger(high, double(o));
            if (high > low && best < 0.0) best = 0.0, item = n + j;
        }
        if (item < 0) return false;
        Node &here = tree[id];
        here.item = item;
        here.below = here.above = 0.0;
        if (item >= n) {
            here.kind = ONE_OPTION;
            here.below = double(b.choice[item - n]);
        } else if (at(node.step, item) > 0.0) {
            const double t = at(b.t, item);
            const bool up = way * at(whole.rows + worst * V, item) > 0.0 ? is_above(item, t) : !is_below(item, t);
            here.kind = VALUE;
            here.below = up ? t : beside(item, t, false);
            here.above = up ? beside(item, t, true) : t;
        } else here.kind = MOVES;
        split(id, bound);
        return true;
    }

  public:
    ManyMultipliers(const SearchItems &items, const Constraints &constraints)
        : OneMultiplier(items.n, items.groups, items.m), R(constraints.count), rivals(constraints.rivals), weight(constraints.weight) {
        more = laid_out([&](Pieces &pieces) { lay_more(pieces); });
        begin(items);
        og = gains_of_options;
        for (i64 r = 0; r < R; r++) {
            double square = 0.0;
            for (i64 d = 0; d < n; d++) {
                const double g = constraints.rows[r * n + d];
                put(whole.rows + r * V, d, g);
                if (items.lo[d] < items.hi[d]) square += g * g;
            }
            for (i64 o = 0; o < m; o++) square += constraints.options[r * m + o] * constraints.options[r * m + o];
            lengths[r] = square > 0.0 ? square : 1.0;
            whole.needs[r] = constraints.needs[r];
            slips[r] = constraints.slips[r];
            equal[r] = constraints.equal[r];
            const double short_by = larger(equal[r] ? magnitude(whole.needs[r]) : whole.needs[r], 1e-3);
            endless = larger(endless, ENDLESS * 0.5 * short_by * short_by / lengths[r]);
        }
        __builtin_memcpy(options, constraints.options, R * m * sizeof(double));
        __builtin_memcpy(y, constraints.start, R * sizeof(double));
    }
    ~ManyMultipliers() override { std::free(kept); }

    void multipliers(double *to) const override { __builtin_memcpy(to, kept, count * R * sizeof(double)); }
};

inline Search *open_constrained(const SearchItems &items, const Constraints &constraints) {
    return new ManyMultipliers(items, constraints);
}

} // namespace ifonly::IFONLY_SET

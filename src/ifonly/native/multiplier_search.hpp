// One constraint, one multiplier, and branch and bound on top of it: native/one_multiplier.py says what is solved here.
//
// Features go through as vectors, filled up with features that do nothing. A node is kept as the cut that made it; what is left
// of the problem in it is worked out again from the cuts above it, so that a node takes bytes and not arrays. Arrays are asked
// for before a search begins; the tree grows between nodes, and a search that has no more room for it says so.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "intervals.hpp"

namespace ifonly::IFONLY_SET {

class OneMultiplier : public Search {
  protected:
    using T = Doubles<WIDTH>;
    using M = Longs<WIDTH>;
    static constexpr int W = WIDTH;
    static constexpr double UNDECIDED = 0.0, STAYS = 1.0, COUNTS = 2.0; // of an item
    static constexpr int MAX_STEPS = 200;    // of the search for w; six to twelve are usual
    static constexpr double SETTLED = 4e-16; // relative width at which the bracket of w is a point
    static constexpr double SHUT = 1e-13;    // relative: below, D has met its tangents and cannot be raised
    static constexpr i64 FIRST_NODES = 64;
    static constexpr i64 FEW = 24; // so many smallest numbers are found by insertion

    enum Kind { VALUE, MOVES, OPTIONS, ONE_OPTION }; // how a node was cut

    /** Every item's best answer to a multiplier. */
    struct Solution {
        T *t;
        M *moved;
        i64 *choice;
        bool *group_moved;
        double gain, cost, price, slope; // price = cost − w·gain
    };

    /** A problem, or what is left of it where some is decided. */
    struct Part {
        i64 n, V, groups, cap;
        bool grid; // some features have grids
        T *g, *mu, *step, *anchor, *at_rest, *lo, *hi, *state;
        double *group_state;
        bool *allowed;
        double gain, cost; // of what is decided
    };

    /** The largest D(w), the w that meets the need (or, where none does, by how much it is missed), the w of the bound; and the solutions
     *  on both sides. */
    struct Maximum {
        double bound, w, best;
        Solution *left, *right;
        bool reached;
    };

    struct Node {
        double w, below, above;
        i64 parent, item, kind, first;
    };
    struct Open {
        double bound;
        i64 id;
        bool operator<(const Open &other) const { return bound != other.bound ? bound > other.bound : id > other.id; }
    };

    const i64 n, V, groups, m;
    i64 room;
    double need = 0.0;
    const double *og = nullptr, *oc = nullptr; // of the source at hand; kept by whoever began it
    const bool *moves = nullptr;
    const i64 *first = nullptr;
    const double *values = nullptr; // of features at uneven distances, each one's in order
    const i64 *starts = nullptr;    // (n + 1) where they begin; null where there are none

    Part node, rest; // a node; and what is left of it where the decisions of a solution are kept
    T *root_lo, *root_hi, *root_at_rest, *best_t, *keys, *scratch;
    M *wishes;
    bool *root_allowed, *group_wishes;
    Solution of_node[4], of_rest[4];
    double *group_saved;
    i64 *resting, *place, *best_choice; // a group's option that is no change; where the features of `rest` are in the node

    Node *tree = nullptr;
    Open *heap = nullptr;
    i64 capacity = 0, opened = 0;
    double last_w = 1.0, cut_off = INF;
    double until = INF; // when it is to stop
    std::unique_ptr<Memory> memory;

    static i64 vectors(i64 count) { return (count + W - 1) / W; }
    static bool on(const M &mask, int w) { return mask[w] != 0; }
    static double at(const T *a, i64 d) { return a[d / W][d % W]; }
    static void put(T *a, i64 d, double value) { a[d / W][d % W] = value; }

    void lay_solutions(Solution *solutions, Pieces &pieces) {
        for (int i = 0; i < 4; i++) {
            pieces.lend(solutions[i].t, V);
            pieces.lend(solutions[i].moved, V);
            pieces.lend(solutions[i].choice, groups);
            pieces.lend(solutions[i].group_moved, groups);
        }
    }

    void lay(Pieces &pieces) {
        for (Part *part : {&node, &rest})
            for (T **a : {&part->g, &part->mu, &part->step, &part->anchor, &part->at_rest, &part->lo, &part->hi, &part->state})
                pieces.lend(*a, V);
        for (T **a : {&root_lo, &root_hi, &root_at_rest, &best_t}) pieces.lend(*a, V);
        for (T **a : {&keys, &scratch}) pieces.lend(*a, V + vectors(groups));
        for (Solution *solutions : {of_node, of_rest}) lay_solutions(solutions, pieces);
        for (bool **a : {&node.allowed, &root_allowed}) pieces.lend(*a, m);
        pieces.lend(wishes, V);
        pieces.lend(group_wishes, groups);
        for (double **a : {&node.group_state, &group_saved}) pieces.lend(*a, groups);
        for (i64 **a : {&resting, &best_choice}) pieces.lend(*a, groups);
        pieces.lend(place, n);
    }

    // ---- one multiplier ----

    /** Every item's best answer to the multiplier w. */
    void evaluate(double w, const Part &part, Solution &to) {
        const bool capped = part.cap < part.n + part.groups;
        T cost{}, gain{}, slope{};
        for (i64 v = 0; v < part.V; v++) {
            const T pulled = w * part.g[v], mu = part.mu[v], lo = part.lo[v], hi = part.hi[v], excess = magnitude(pulled) - mu;
            const T soft = larger(excess, T{});
            T t = smaller(larger(select(pulled < 0.0, -soft, soft), lo), hi);
            if (part.grid) t = on_grid(part, v, t, pulled);
            const M rests = part.at_rest[v] != 0.0, moved = (t != 0.0) | ~rests;
            to.t[v] = t;
            to.moved[v] = moved;
            if (capped) {
                const T value = 0.5 * t * t + mu * magnitude(t) - pulled * t;
                keys[v] = select(rests, value, T{} - INF);
            } else {
                cost += 0.5 * t * t + mu * magnitude(t);
                gain += part.g[v] * t;
                slope += select((t > lo) & (t < hi) & (part.step[v] == 0.0) & (excess > 0.0) & moved, part.g[v] * part.g[v], T{});
            }
        }
        for (i64 j = 0; j < part.groups; j++) choose(w, part, j, to);
        if (capped) {
            only_best(part, to);
            for (i64 v = 0; v < part.V; v++) {
                const T t = to.t[v] = select(to.moved[v], to.t[v], T{}), g = part.g[v], mu = part.mu[v];
                cost += 0.5 * t * t + mu * magnitude(t);
                gain += g * t;
                const M free = (t > part.lo[v]) & (t < part.hi[v]) & (part.step[v] == 0.0) & (magnitude(w * g) > mu);
                slope += select(free & to.moved[v], g * g, T{});
            }
        }
        to.cost = sum_of(cost) + part.cost;
        to.gain = sum_of(gain) + part.gain;
        for (i64 j = 0; j < part.groups; j++) {
            to.cost += oc[to.choice[j]];
            to.gain += og[to.choice[j]];
        }
        to.price = to.cost - w * to.gain;
        to.slope = sum_of(slope);
    }

    /** The last of a feature's values up to t, or the first of all. */
    const double *value_at(i64 d, double t) const {
        const double *low = values + starts[d], *high = values + starts[d + 1];
        while (high - low > 1) {
            const double *middle = low + (high - low) / 2;
            (*middle <= t ? low : high) = middle;
        }
        return low;
    }

    bool has_values(i64 d) const { return starts && d < n && starts[d] < starts[d + 1]; }

    /** The grid point above or below one. */
    double beside(i64 d, double t, bool up) const {
        if (has_values(d)) {
            const double *here = value_at(d, t);
            return up ? (here + 1 < values + starts[d + 1] ? here[1] : INF) : here > values + starts[d] ? here[-1] : -INF;
        }
        const double anchor = at(node.anchor, d), step = at(node.step, d);
        return anchor + (__builtin_rint((t - anchor) / step) + (up ? 1.0 : -1.0)) * step;
    }

    /** The two values around t, of features that have values; apart, so that those without do not pay for it. */
    [[gnu::noinline]] void to_values(i64 v, const T &t, const T &lo, const T &hi, T &below, T &above) const {
        for (int w = 0; w < W; w++) {
            const i64 d = v * W + w;
            if (!has_values(d)) continue;
            below[w] = smaller(larger(*value_at(d, t[w]), lo[w]), hi[w]);
            above[w] = smaller(beside(d, below[w], true), hi[w]);
        }
    }

    /** The better of the two grid points around t, where there is a grid. */
    T on_grid(const Part &part, i64 v, T t, T pulled) const {
        const T step = part.step[v], lo = part.lo[v], hi = part.hi[v], anchor = part.anchor[v], mu = part.mu[v];
        const M grid = (step > 0.0) & (lo < hi), rests = part.at_rest[v] != 0.0;
        if (!any(grid)) return t;
        const T steps = (t - anchor) / step;
        T whole;
        for (int w = 0; w < W; w++) whole[w] = __builtin_floor(steps[w]);
        T below = smaller(larger(anchor + whole * step, lo), hi), above = smaller(below + step, hi);
        if (starts) to_values(v, t, lo, hi, below, above);
        // the source stands for the grid point that it is up to rounding
        below = select(rests & (magnitude(below) < 0.5 * step), T{}, below);
        above = select(rests & (magnitude(above) < 0.5 * step), T{}, above);
        const T price_below = 0.5 * below * below + mu * magnitude(below) - pulled * below;
        const T price_above = 0.5 * above * above + mu * magnitude(above) - pulled * above;
        return select(grid, select(price_below <= price_above, below, above), t);
    }

    /** A group's best option. */
    void choose(double w, const Part &part, i64 j, Solution &to) {
        double best = INF;
        i64 choice = first[j], staying = -1;
        for (i64 o = first[j]; o < first[j + 1]; o++) {
            if (!moves[o]) staying = o;
            const double price = oc[o] - w * og[o];
            if (part.allowed[o] && price < best) {
                best = price;
                choice = o;
            }
        }
        const bool can_rest = staying >= 0 && part.allowed[staying];
        to.choice[j] = choice;
        to.group_moved[j] = moves[choice];
        resting[j] = staying;
        group_saved[j] = can_rest ? best - (oc[staying] - w * og[staying]) : -INF;
    }

    /** At most `cap` may move: those that save most. */
    void only_best(const Part &part, Solution &to) {
        const i64 G = vectors(part.groups);
        M counted_of{}, wishes_of{};
        for (i64 v = 0; v < part.V; v++) {
            const T saved = keys[v], state = part.state[v];
            const M stays = (state == STAYS) & (saved > -INF), counted = ~stays & ((state == COUNTS) | (saved == -INF));
            wishes[v] = ~stays & ~counted & to.moved[v];
            to.moved[v] &= ~stays;
            counted_of -= counted;
            wishes_of -= wishes[v];
            keys[v] = select(wishes[v] & (saved == saved), saved, T{} + INF);
        }
        i64 free = part.cap, wishing = 0;
        for (int w = 0; w < W; w++) free -= counted_of[w], wishing += wishes_of[w];
        for (i64 j = 0; j < G * W; j++) put(keys + part.V, j, INF);
        for (i64 j = 0; j < part.groups; j++) {
            const double state = part.group_state[j], saved = group_saved[j];
            const bool stays = state == STAYS && saved > -INF, counted = !stays && (state == COUNTS || saved == -INF);
            group_wishes[j] = !stays && !counted && to.group_moved[j];
            if (stays) to.group_moved[j] = false;
            free -= counted;
            wishing += group_wishes[j];
            if (group_wishes[j] && saved == saved) put(keys + part.V, j, saved);
        }
        if (wishing > free) {
            const double worst = free > 0 ? smallest(part.V + G, free) : -INF; // all that save more go, and as many with it as may
            i64 spare = free > 0 ? free : 0;
            M gone{};
            for (i64 v = 0; v < part.V; v++) {
                const M goes = wishes[v] & (keys[v] < worst);
                to.moved[v] = (to.moved[v] & ~wishes[v]) | goes;
                gone -= goes;
            }
            for (int w = 0; w < W; w++) spare -= gone[w];
            for (i64 j = 0; j < part.groups; j++)
                if (group_wishes[j]) spare -= to.group_moved[j] = at(keys + part.V, j) < worst;
            for (i64 v = 0; spare > 0 && v < part.V; v++) {
                const M equal = wishes[v] & (keys[v] == worst);
                if (any(equal))
                    for (int w = 0; w < W; w++)
                        if (on(equal, w) && spare > 0) {
                            to.moved[v][w] = -1;
                            spare--;
                        }
            }
            for (i64 j = 0; spare > 0 && j < part.groups; j++)
                if (group_wishes[j] && at(keys + part.V, j) == worst) {
                    to.group_moved[j] = true;
                    spare--;
                }
        }
        for (i64 j = 0; j < part.groups; j++)
            if (!to.group_moved[j] && resting[j] >= 0) to.choice[j] = resting[j];
    }

    /** The number of this rank, counted from 1, among the keys; these are never NaN. */
    double smallest(i64 count, i64 rank) {
        if (rank >= count * W) rank = count * W;
        if (rank <= FEW) {
            double held[FEW];
            for (i64 i = 0; i < rank; i++) held[i] = INF;
            for (i64 v = 0; v < count; v++) {
                if (!any(keys[v] < held[rank - 1])) continue;
                for (int w = 0; w < W; w++) {
                    const double key = keys[v][w];
                    if (!(key < held[rank - 1])) continue;
                    i64 i = rank - 1;
                    for (; i > 0 && held[i - 1] > key; i--) held[i] = held[i - 1];
                    held[i] = key;
                }
            }
            return held[rank - 1];
        }
        double *copy = reinterpret_cast<double *>(scratch);
        __builtin_memcpy(copy, keys, count * sizeof(T));
        // with a comparison of our own: std::nth_element<double *> would be one function for all sets of instructions
        std::nth_element(copy, copy + rank - 1, copy + count * W, [](double a, double b) { return a < b; });
        return copy[rank - 1];
    }

    /** The largest gain there is: the least need that cannot be met lies above it. */
    double most(const Part &part) {
        const i64 G = vectors(part.groups);
        T total{};
        M counted_of{};
        for (i64 v = 0; v < part.V; v++) {
            const T g = part.g[v], end = select(g > 0.0, part.hi[v], part.lo[v]), top = select(g == 0.0, T{}, g * end);
            const M rests = part.at_rest[v] != 0.0, counted = ~rests | (part.state[v] == COUNTS);
            total += select(rests, select(counted, larger(top, T{}), T{}), top);
            counted_of -= counted;
            keys[v] = -select(rests & (part.state[v] == UNDECIDED), larger(top, T{}), T{}); // what moving adds, negative
        }
        i64 free = part.cap;
        for (int w = 0; w < W; w++) free -= counted_of[w];
        double sum = part.gain + sum_of(total);
        for (i64 j = 0; j < G * W; j++) put(keys + part.V, j, 0.0);
        for (i64 j = 0; j < part.groups; j++) {
            double top = -INF, staying = -INF;
            for (i64 o = first[j]; o < first[j + 1]; o++) {
                if (!part.allowed[o]) continue;
                top = larger(top, og[o]);
                if (!moves[o]) staying = og[o];
            }
            if (staying == -INF || part.group_state[j] == COUNTS) {
                sum += top;
                free--;
            } else {
                sum += staying;
                if (part.group_state[j] == UNDECIDED) put(keys + part.V, j, staying - top);
            }
        }
        if (free <= 0) return free < 0 ? -INF : sum;
        const double least = free < part.n + part.groups ? smallest(part.V + G, free) : INF; // the best that may move
        i64 spare = free;
        for (i64 v = 0; v < part.V + G; v++)
            for (int w = 0; w < W; w++)
                if (keys[v][w] < least) {
                    sum -= keys[v][w];
                    spare--;
                }
        return least < 0.0 && spare > 0 ? sum - least * double(spare) : sum;
    }

    /** The item about which the two solutions differ most, or −1 where only intervals differ (D has no jump there). */
    i64 branch_item(const Part &part, const Solution &a, const Solution &b) {
        const bool capped = part.cap < part.n + part.groups;
        T most{};
        for (i64 v = 0; v < part.V; v++) {
            const M counted = (a.moved[v] != b.moved[v]) & (part.state[v] == UNDECIDED);
            const T apart = magnitude(a.t[v] - b.t[v]); // by a rounding: one is a bound, the other the grid point that it stands for
            const M cut = ((part.step[v] > 0.0) & (apart > 0.5 * part.step[v])) | (capped ? counted : M{});
            keys[v] = select(cut, magnitude(part.g[v]) * apart, T{});
            most = larger(keys[v], most);
        }
        double best = largest_of(most);
        i64 item = -1;
        for (i64 v = 0; best > 0.0 && item < 0 && v < part.V; v++)
            for (int w = W - 1; w >= 0; w--)
                if (keys[v][w] == best) item = v * W + w;
        for (i64 j = 0; j < part.groups; j++) {
            const double difference = magnitude(og[a.choice[j]] - og[b.choice[j]]);
            if (difference > best) {
                best = difference;
                item = part.n + j;
            }
        }
        return item;
    }

    /** The largest D(w); `solutions` is room for four. */
    Maximum maximise(const Part &part, double w, Solution *solutions) {
        Solution *left = solutions, *right = solutions + 1, *here = solutions + 2, *there = solutions + 3;
        evaluate(0.0, part, *left);
        if (left->gain >= need) return {left->cost, 0.0, 0.0, left, left, true};
        const double top = most(part);
        if (top < need) return {INF, need - top, INF, left, left, false};
        // 1. A multiplier that meets the need; each item is at its largest gain for some finite w.
        double a = 0.0, b = 0.0 < w && w < INF ? w : 1.0;
        evaluate(b, part, *right);
        while (right->gain < need) {
            std::swap(left, right);
            a = b;
            const double along = left->slope > 0.0 ? (need - left->gain) / left->slope : 0.0;
            b = smaller(larger(b + along, 2.0 * b), 1e16 * b);
            if (!(b <= 1e300)) return {INF, 0.0, INF, left, left, false};
            evaluate(b, part, *right);
        }
        // 2. Close in on the largest D: by Newton where the slope is a line, else where the two tangents meet.
        double at_a = left->price + a * need, at_b = right->price + b * need;
        double bound = larger(larger(at_a, at_b), 0.0), best = at_b >= at_a ? b : a;
        for (int i = 0; i < MAX_STEPS; i++) {
            if (b - a <= SETTLED * b || right->gain == need) break;
            at_a = left->price + a * need, at_b = right->price + b * need;
            const double shy = need - left->gain, over = right->gain - need;
            const double meet = (at_b - at_a + over * b + shy * a) / (shy + over); // of the tangents
            const double ceiling = at_a + shy * (meet - a);
            if (ceiling - bound <= SHUT * magnitude(ceiling) && branch_item(part, *left, *right) >= 0) break;
            double newton = right->slope > 0.0 ? b - over / right->slope : a;
            if (!(a < newton && newton < b)) newton = left->slope > 0.0 ? a + shy / left->slope : a;
            w = a < newton && newton < b ? newton : meet;
            if (!(a < w && w < b)) {
                w = 0.5 * (a + b);
                if (!(a < w && w < b)) break;
            }
            evaluate(w, part, *here);
            raise(*here, w, bound, best);
            if (here->gain >= need) {
                b = w;
                std::swap(right, here);
                continue;
            }
            if (w == newton) { // a line would have met the need: look just beyond it, and not as far as b
                const double along = right->slope > 0.0 ? (need - here->gain) / right->slope : 0.0;
                const double beyond = w + 2.0 * larger(along, SETTLED * w);
                if (beyond < b) {
                    evaluate(beyond, part, *there);
                    raise(*there, beyond, bound, best);
                    if (there->gain >= need) {
                        b = beyond;
                        std::swap(right, there);
                    }
                }
            }
            a = w;
            std::swap(left, here);
        }
        return {bound, b, best, left, right, true};
    }

    void raise(const Solution &at, double w, double &bound, double &best) const {
        const double here = at.price + w * need;
        if (here > bound) {
            bound = here;
            best = w;
        }
    }

    // ---- the tree ----

    /** Make the best of a solution's decisions, and keep it if nothing better is known. */
    void offer(const Solution &found, double w) {
        const bool decided = node.grid || groups > 0 || node.cap < n + groups;
        const Solution *answer = &found;
        if (decided) {
            if (!keep_decisions(found)) return;
            const Maximum own = maximise(rest, w, of_rest);
            if (!own.reached) return;
            if (own.w > 0.0) w = own.w;
            else if (w == 0.0 && solved > 1) w = last_w; // no interval is left to choose: the multiplier is that of a node before
            answer = own.right;
        }
        if (!(answer->gain >= need && answer->cost < cost)) return;
        cost = answer->cost;
        this->w = w;
        __builtin_memcpy(best_t, found.t, V * sizeof(T));
        if (decided)
            for (i64 i = 0; i < rest.n; i++) put(best_t, place[i], at(answer->t, i));
        __builtin_memcpy(best_choice, found.choice, groups * sizeof(i64));
    }

    /** `rest` becomes the node in which only the intervals of a solution's moved features are left; false where that is no use. */
    bool keep_decisions(const Solution &found) {
        rest.n = 0;
        T spent{}, gained{};
        for (i64 v = 0; v < V; v++) {
            const M free = found.moved[v] & (node.step[v] == 0.0);
            const T t = select(free, T{}, found.t[v]);
            spent += 0.5 * t * t + node.mu[v] * magnitude(t);
            gained += node.g[v] * t;
            if (!any(free)) continue;
            for (int w = 0; w < W; w++) {
                if (!on(free, w)) continue;
                const i64 i = rest.n++;
                place[i] = v * W + w;
                put(rest.g, i, node.g[v][w]);
                put(rest.mu, i, node.mu[v][w]);
                put(rest.at_rest, i, node.at_rest[v][w]);
                put(rest.lo, i, node.lo[v][w]);
                put(rest.hi, i, node.hi[v][w]);
                put(rest.state, i, COUNTS);
            }
        }
        rest.cost = sum_of(spent);
        rest.gain = sum_of(gained);
        for (i64 j = 0; j < groups; j++) {
            rest.cost += oc[found.choice[j]];
            rest.gain += og[found.choice[j]];
        }
        if (rest.cost >= cost) return false;
        rest.V = vectors(rest.n);
        rest.cap = rest.n;
        fill_up(rest);
        return true;
    }

    /** The last vector of a part, filled up with features that do nothing. */
    static void fill_up(Part &part) {
        for (i64 i = part.n; i < part.V * W; i++) {
            for (T *a : {part.g, part.mu, part.step, part.anchor, part.lo, part.hi}) put(a, i, 0.0);
            put(part.at_rest, i, 1.0);
            put(part.state, i, STAYS);
        }
    }

    /** What is left of the problem in a node. */
    void restore(i64 id) {
        __builtin_memcpy(node.lo, root_lo, V * sizeof(T));
        __builtin_memcpy(node.hi, root_hi, V * sizeof(T));
        __builtin_memcpy(node.at_rest, root_at_rest, V * sizeof(T));
        for (i64 v = 0; v < V; v++) node.state[v] = T{} + UNDECIDED;
        for (i64 i = n; i < V * W; i++) put(node.state, i, STAYS);
        for (i64 j = 0; j < groups; j++) node.group_state[j] = UNDECIDED;
        __builtin_memcpy(node.allowed, root_allowed, m);
        while (tree[id].parent >= 0) {
            const Node &cut = tree[tree[id].parent];
            const bool second = id != cut.first;
            const i64 item = cut.item, j = item - n;
            if (cut.kind == MOVES) {
                const double state = second ? COUNTS : STAYS;
                if (item < n) put(node.state, item, state);
                else node.group_state[j] = state;
            } else if (cut.kind == VALUE) {
                if (second) put(node.lo, item, larger(at(node.lo, item), cut.above));
                else put(node.hi, item, smaller(at(node.hi, item), cut.below));
                const double half = 0.5 * at(node.step, item);
                if (at(node.lo, item) > half || at(node.hi, item) < -half) put(node.at_rest, item, 0.0); // it has to move
            } else
                for (i64 o = first[j]; o < first[j + 1]; o++) {
                    const bool of_second = cut.kind == OPTIONS ? og[o] >= cut.below : double(o) != cut.below;
                    if (of_second != second) node.allowed[o] = false;
                }
            id = tree[id].parent;
        }
    }

    /** Room for two more nodes; false where there is none. */
    virtual bool grow(i64 nodes_left) {
        const i64 least = (count ? count : 1) + 2;
        if (least <= capacity) return true;
        i64 wanted = capacity ? 2 * capacity : FIRST_NODES;
        if (nodes_left <= wanted / 2 && wanted > least + 2 * nodes_left) wanted = least + 2 * nodes_left;
        if (wanted > room) wanted = room;
        if (wanted < least) return false;
        void *more = std::realloc(tree, wanted * sizeof(Node));
        if (!more) return false;
        tree = static_cast<Node *>(more);
        more = std::realloc(heap, wanted * sizeof(Open));
        if (!more) return false;
        heap = static_cast<Open *>(more);
        capacity = wanted;
        return true;
    }

    void open(double bound, i64 id) {
        heap[opened++] = {bound, id};
        std::push_heap(heap, heap + opened);
    }

    static double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

    bool late() const { return until < INF && now() > until; }

    bool settled(double bound, double rel_gap) const { return bound >= cost * (1.0 - rel_gap); }

    /** The node of an item is cut in two: the item as on the left, or as on the right. */
    void cut(i64 id, i64 item, double bound, const Solution &a, const Solution &b) {
        Node &here = tree[id];
        here.item = item;
        here.below = here.above = 0.0;
        const i64 j = item - n;
        const bool single = item < n, capped = node.cap < n + groups;
        const bool differs = single ? on(a.moved[item / W], item % W) != on(b.moved[item / W], item % W)
                                    : a.group_moved[j] != b.group_moved[j];
        if (capped && differs && (single ? at(node.state, item) : node.group_state[j]) == UNDECIDED) here.kind = MOVES;
        else if (single) {
            here.kind = VALUE;
            here.below = smaller(at(a.t, item), at(b.t, item));
            here.above = beside(item, here.below, true);
        } else {
            here.kind = OPTIONS;
            here.below = larger(og[a.choice[j]], og[b.choice[j]]); // the least gain of the second part
        }
        split(id, bound);
    }

    /** The two parts of a node that was cut are open; until they are solved they have its bound. */
    void split(i64 id, double bound) {
        tree[id].first = count;
        for (int side = 0; side < 2; side++) {
            tree[count] = {tree[id].w, -1.0, bound, id, -1, -1, -1};
            open(bound, count++);
        }
    }

    /** The node at hand: its bound, what its solutions give, and its two parts. */
    virtual void solve(i64 id, double known, double rel_gap) {
        // Its bound, and what its two solutions give.
        const Maximum found = maximise(node, last_w, of_node);
        if (found.bound > known || !found.reached) tree[id].w = found.best;
        if (!found.reached) {
            tree[id].below = found.w;
            return;
        }
        const double bound = tree[id].above = found.bound > known ? found.bound : known;
        if (found.w > 0.0) last_w = found.w;
        i64 item = -1;
        if (!settled(bound, rel_gap)) {
            offer(*found.right, found.w);
            item = branch_item(node, *found.left, *found.right);
        }
        if (item < 0) {
            cut_off = smaller(cut_off, bound);
            return;
        }
        offer(*found.left, found.w);
        cut(id, item, bound, *found.left, *found.right);
    }

  public:
    OneMultiplier(i64 n, i64 groups, i64 m) : n(n), V(vectors(n)), groups(groups), m(m) {
        memory = laid_out([&](Pieces &pieces) { lay(pieces); });
    }
    ~OneMultiplier() override {
        std::free(tree);
        std::free(heap);
    }
    OneMultiplier(const OneMultiplier &) = delete;

    void begin(const SearchItems &items) override {
        og = items.og, oc = items.oc, moves = items.moves, first = items.first;
        need = items.need, room = items.room;
        node.n = n, node.V = V, node.groups = groups, node.cap = items.cap;
        rest.groups = 0, rest.grid = false;
        node.gain = node.cost = 0.0;
        node.grid = false;
        for (i64 d = 0; d < n; d++) {
            put(node.g, d, items.g[d]);
            put(node.mu, d, items.mu[d]);
            put(node.step, d, items.step[d]);
            put(node.anchor, d, items.anchor[d]);
            put(root_lo, d, items.lo[d]);
            put(root_hi, d, items.hi[d]);
            put(node.at_rest, d, items.at_rest[d]);
            node.grid |= items.step[d] > 0.0;
        }
        fill_up(node);
        __builtin_memcpy(root_at_rest, node.at_rest, V * sizeof(T));
        for (i64 o = 0; o < m; o++) root_allowed[o] = is_finite(oc[o]);
        for (i64 v = 0; v < V; v++) best_t[v] = T{};
        for (i64 j = 0; j < groups; j++) best_choice[j] = first[j];
        cost = w = cut_off = INF;
        last_w = 1.0;
        solved = count = opened = 0;
    }

    void give_values(const double *values, const i64 *starts) override {
        this->values = values;
        this->starts = starts[n] > 0 ? starts : nullptr;
    }

    State expand(double rel_gap, i64 nodes, double seconds) override {
        until = seconds < INF ? now() + seconds : INF;
        for (i64 i = 0; i < nodes; i++) {
            if (i > 0 && late()) return OPEN;
            if (!grow(nodes - i)) return FULL;
            if (count == 0) {
                tree[0] = {-1.0, -1.0, 0.0, -1, -1, -1, -1};
                open(0.0, count++);
            }
            // 1. The most promising node; all others are worse than its bound.
            if (opened == 0 || settled(heap[0].bound, rel_gap)) return DONE;
            const auto [known, id] = heap[0];
            std::pop_heap(heap, heap + opened--);
            solved++;
            restore(id);
            solve(id, known, rel_gap);
        }
        return opened == 0 || settled(heap[0].bound, rel_gap) ? DONE : OPEN;
    }

    double bound() const override {
        const double open = opened ? heap[0].bound : count ? INF : 0.0;
        return smaller(cost, smaller(open, cut_off));
    }

    /** The same for a need that is smaller by so much (and rounding): 0 where a node that meets no need misses no more than that. */
    double bound(double less) const {
        double least = cost;
        less += (n + groups + 8) * EPS * magnitude(need);
        for (const Node *here = tree; here < tree + count; here++) {
            if (here->item >= 0) continue;
            if (here->w == INF && here->below <= less) return 0.0;
            if (here->w < INF) least = smaller(least, here->above - less * larger(here->w, 0.0));
        }
        return larger(least, 0.0);
    }

    void answer(double *t, i64 *choice) const override {
        __builtin_memcpy(t, best_t, n * sizeof(double));
        __builtin_memcpy(choice, best_choice, groups * sizeof(i64));
    }

    void record(double *log) const override {
        for (i64 id = 0; id < count; id++) {
            const Node &node = tree[id];
            for (double value : {node.w, double(node.item), double(node.kind), node.below, node.above, double(node.first)})
                *log++ = value;
        }
    }
};

inline Search *open_search(i64 n, i64 groups, i64 m) { return new OneMultiplier(n, groups, m); }

/** N sources one after the other, in the same memory. */
inline void search_rows(const SearchRows &rows) {
    SearchItems items = rows.first;
    const i64 n = items.n, groups = items.groups, m = items.m;
    OneMultiplier search(n, groups, m);
    for (i64 i = 0; i < rows.N; i++) {
        items.need = rows.need[i];
        search.begin(items);
        const bool done = search.expand(rows.gap, rows.nodes, INF) == Search::DONE;
        search.answer(rows.t + i * n, rows.choice + i * groups);
        const double found[] = {search.cost, search.w, double(search.count), search.bound(rows.harder[i]),
                                done ? 1.0 : 0.0};
        __builtin_memcpy(rows.numbers + 5 * i, found, sizeof found);
        for (const double **a : {&items.anchor, &items.lo, &items.hi}) *a += n;
        for (const double **a : {&items.og, &items.oc}) *a += m;
        items.at_rest += n;
        items.moves += m;
    }
}

} // namespace ifonly::IFONLY_SET

// From margins to class-space answers, row after row or a vector of rows at a time.
#pragma once

#include "newton.hpp"
#include "rows.hpp"

namespace ifonly::IFONLY_SET {

constexpr int MANY = 150; // rivals from which one row at a time, over the classes that matter in it, beats a vector of rows
constexpr double LEAST_P = 1e-290; // below, the exponentials are at their end

/** Memory for row loops, asked for once before they begin. */
struct Memory {
    void *at;
    explicit Memory(i64 bytes) : at(::operator new(bytes + 64)) {}
    ~Memory() { ::operator delete(at); }
    Memory(const Memory &) = delete;
    template <class T> T *as() const { return reinterpret_cast<T *>((reinterpret_cast<unsigned long long>(at) + 63) & ~63ULL); }
};

template <class T, bool GOAL> struct FreeLoop {
    static constexpr int W = Of<T>::lanes;
    using Work = Solver<T, 0, GOAL>;

    const FreeRows &rows;
    Vectors<T, 0> now, waiting;
    Work solver, stage; // rows that are being solved, and the next ones with their starts
    i64 row[W], loaded = 0;
    int ready = 0, taken = 0; // lanes of the stage that hold a row, and how many of them were taken

    FreeLoop(const FreeRows &rows, T *memory)
        : rows(rows), now(rows.n, memory), waiting(rows.n, memory + Vectors<T, 0>::room(rows.n)), solver(now, rows.G),
          stage(waiting, rows.G) {
        for (int w = 0; w < W; w++) row[w] = -1;
        for (int i = 0; i < rows.n; i++) now.s[i] = now.q[i] = T{};
    }

    void prepare() {
        ready = int(rows.B - loaded < W ? rows.B - loaded : W);
        taken = 0;
        T wanted{};
        for (int w = 0; w < W; w++) {
            const i64 b = loaded + (w < ready ? w : 0);
            for (int i = 0; i < rows.n; i++) set_lane(waiting.s[i], w, rows.margins[b * rows.n + i]);
            if constexpr (GOAL) {
                set_lane(stage.goal.logit, w, rows.goals[4 * b]);
                set_lane(stage.goal.slack, w, rows.goals[4 * b + 1]);
                set_lane(stage.goal.slope, w, rows.goals[4 * b + 2]);
                set_lane(stage.goal.least, w, rows.goals[4 * b + 3]);
            } else set_lane(wanted, w, rows.lam[b]);
        }
        stage.begin(wanted, rows.pairs);
    }

    void hand_out(int w) {
        const i64 b = row[w], B = rows.B;
        if (b < 0) return;
        for (int i = 0; i < rows.n; i++) {
            rows.q[b * rows.n + i] = lane(now.q[i], w);
            rows.p[b * rows.n + i] = lane(now.p[i], w);
        }
        const double lam = lane(solver.lam, w), gg = lane(solver.gg, w), quad = lane(solver.quad, w), p = lane(solver.p_target, w);
        rows.numbers[b] = lam;
        rows.numbers[B + b] = p;
        rows.numbers[2 * B + b] = lane(solver.E, w);
        rows.numbers[3 * B + b] = square_root(lam * larger(gg, 0.0));
        rows.numbers[4 * B + b] = larger(quad, 0.0) * lam;
        rows.n_iter[b] = i64(lane(solver.iterations, w));
        rows.done[b] = on(solver.done, w) && magnitude(quad) < INF && p > LEAST_P;
        row[w] = -1;
    }

    static bool on(const Mask<T> &mask, int w) {
        if constexpr (W == 1) return mask;
        else return mask[w] != 0;
    }

    /** One row of the stage into a lane. */
    void take(int w) {
        const int from = taken++;
        const auto copy = [&](T &to, const T &a) { set_lane(to, w, lane(a, from)); };
        for (int i = 0; i < rows.n; i++) {
            copy(now.s[i], waiting.s[i]);
            copy(now.q[i], waiting.q[i]);
        }
        copy(solver.lam, stage.lam);
        copy(solver.il, stage.il);
        copy(solver.size, stage.size);
        copy(solver.first, stage.first);
        copy(solver.low, stage.low);
        copy(solver.high, stage.high);
        copy(solver.iterations, stage.iterations);
        copy(solver.goal.logit, stage.goal.logit);
        copy(solver.goal.slack, stage.goal.slack);
        copy(solver.goal.slope, stage.goal.slope);
        copy(solver.goal.least, stage.goal.least);
        if constexpr (W == 1) {
            solver.active = stage.active;
            solver.done = false;
        } else {
            solver.active[w] = stage.active[from];
            solver.done[w] = 0;
        }
        row[w] = loaded++;
    }

    /** New rows into lanes that are free, when half of them are. */
    bool refill() {
        if (loaded == rows.B && taken == ready) return false;
        int idle = 0;
        for (int w = 0; w < W; w++) idle += !on(solver.active, w);
        if (2 * idle < W) return false;
        for (int w = 0; w < W; w++) {
            if (on(solver.active, w)) continue;
            hand_out(w);
            if (taken == ready) {
                if (loaded == rows.B) continue;
                prepare();
            }
            take(w);
        }
        return true;
    }

    void run() {
        while (refill() || any(solver.active)) solver.go(rows.tol, rows.max_iter, [this] { return refill(); });
        for (int w = 0; w < W; w++) hand_out(w);
    }
};

template <class T, bool GOAL> void run_free(const FreeRows &rows) {
    const Memory memory(2 * Vectors<T, 0>::room(rows.n) * i64(sizeof(T)));
    FreeLoop<T, GOAL>(rows, memory.as<T>()).run();
}

inline void solve_free(const FreeRows &rows) {
    using Lanes = Doubles<WIDTH>;
    const bool alone = rows.B == 1 || rows.n >= MANY;
    if (rows.goals) alone ? run_free<double, true>(rows) : run_free<Lanes, true>(rows);
    else alone ? run_free<double, false>(rows) : run_free<Lanes, false>(rows);
}

} // namespace ifonly::IFONLY_SET

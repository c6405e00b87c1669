"""`engines.rounds` compiled with Numba (extra ``fast``): the same rounds, loop for loop.

What differs: G is read in place, the factor of a small problem serves again where a step was short (`REUSE`), and no history is
kept. A problem that does not settle here goes to the original.

All of it but the exponential stands in this one file, because that is the one whose time Numba's cache on disk looks at; who
changes a constant that it imports has to touch it.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ifonly.engines import rounds as crowd
from ifonly.engines.coordinates import PAIRS
from ifonly.engines.newton import ARMIJO, CLOSE, ROUNDINGS, Outcome
from ifonly.engines.rounds import (
    DEPTH,
    FIRST_STEPS,
    LEAST_RATE,
    LONGEST_MOVE,
    MAX_HALVINGS,
    MAX_MOVES,
    MAX_ROUNDS,
    ROUGH,
    SLOW,
    SURE,
    TRUST,
    Crowd,
    Window,
    logit,
)
from ifonly.model.numerics import EPS
from ifonly.native.lanes import _OPTIONS, _exp

__all__ = ["solve_crowd"]

Floats = NDArray[np.float64]

REUSE = 1e-2  # a step that changed no margin by more leaves Newton's matrix as it was, but for as much
BISECTIONS = 60  # to find the strongest
MAX_STEPS = 30  # Newton steps on one small problem
ROOT_STEPS, ROOT_TOL = 12, 1e-3  # on the two-class equation inside the start
_CLOSE = CLOSE[2]
# Sums in any order, so that they are vectorised. Not for `_exp`, which would lose its meaning.
_SUMS = {"fastmath": {"contract", "nsz", "arcp", "reassoc"}, "error_model": "numpy"}


# ---- products and sums ----


@njit(**_SUMS)
def _dot(x, y):
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@njit(**_SUMS)
def _sum(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total


@njit(**_SUMS)
def _sum_of_sizes(x):
    total = 0.0
    for i in range(len(x)):
        total += abs(x[i])
    return total


@njit(**_SUMS)
def _largest(x):
    top = 0.0
    for i in range(len(x)):
        size = abs(x[i])
        top = size if size > top else top
    return top


@njit(**_SUMS)
def _product(G, k, v, out):
    """``out = Ḡv``, for v with 0 for the target; reads the lower half of G, four rows at a time.

    Tried and dropped: products in single precision. They take half the time, but more rounds.
    """
    K = len(v)
    total = 0.0
    for j in range(K):
        total += v[j]
        out[j] = 0.0
    v[k] = -total
    even = K - K % 4
    for i in range(0, even, 4):
        x0, x1, x2, x3 = v[i], v[i + 1], v[i + 2], v[i + 3]
        g0, g1, g2, g3 = G[i], G[i + 1], G[i + 2], G[i + 3]
        y0, y1, y2, y3 = 0.0, 0.0, 0.0, 0.0
        for j in range(i):
            y0 += g0[j] * v[j]
            y1 += g1[j] * v[j]
            y2 += g2[j] * v[j]
            y3 += g3[j] * v[j]
            out[j] += (g0[j] * x0 + g1[j] * x1) + (g2[j] * x2 + g3[j] * x3)
        out[i] += y0
        out[i + 1] += y1
        out[i + 2] += y2
        out[i + 3] += y3
        for a in range(i, i + 4):
            for j in range(i, i + 4):
                out[a] += G[a, j] * v[j]
    for i in range(even, K):
        for j in range(i):
            out[i] += G[i, j] * v[j]
            out[j] += G[i, j] * v[i]
        out[i] += G[i, i] * v[i]
    v[k] = 0.0
    own = out[k]
    for j in range(K):
        out[j] -= own


@njit(**_SUMS)
def _add_rows(G, k, index, n, weights, out):
    """``out += Σ weights_i Ḡ[index_i]``."""
    K = len(out)
    total = 0.0
    for a in range(n):
        total += weights[a]
    shift = total * G[k, k]
    for a in range(n):
        shift -= weights[a] * G[index[a], k]
    own = G[k]
    for j in range(K):
        out[j] += shift - total * own[j]
    even = n - n % 4
    for a in range(0, even, 4):
        g0, g1, g2, g3 = G[index[a]], G[index[a + 1]], G[index[a + 2]], G[index[a + 3]]
        x0, x1, x2, x3 = weights[a], weights[a + 1], weights[a + 2], weights[a + 3]
        for j in range(K):
            out[j] += (g0[j] * x0 + g1[j] * x1) + (g2[j] * x2 + g3[j] * x3)
    for a in range(even, n):
        row, x = G[index[a]], weights[a]
        for j in range(K):
            out[j] += row[j] * x
    out[k] = 0.0


@njit(**_OPTIONS)
def _softmax(s, u, p):
    """Probabilities of the rivals with margins ``s − u``, in p; Q, p_k and −ln p_k."""
    n = len(s)
    top = 0.0
    for j in range(n):
        p[j] = s[j] - u[j]
        top = max(top, p[j])
    for j in range(n):
        p[j] = _exp(p[j] - top)
    mass, e = _sum(p), math.exp(-top)
    total = mass + e
    for j in range(n):
        p[j] /= total
    return mass / total, e / total, top + math.log(total) if top > 0.0 else math.log1p(mass)


@njit(**_SUMS)
def _cholesky(M, n, least):
    """The factor of M in place of its lower half, with the reciprocals of its diagonal; pivots below ``least`` are rounding."""
    for i in range(n):
        row = M[i]
        for j in range(i):
            other = M[j]
            total = row[j]
            for a in range(j):
                total -= row[a] * other[a]
            row[j] = total * other[j]
        total = row[i]
        for a in range(i):
            total -= row[a] * row[a]
        row[i] = 1.0 / math.sqrt(max(total, least))


@njit(**_SUMS)
def _substitute(M, n, x):
    """``x = M⁻¹x`` with that factor."""
    for i in range(n):
        row = M[i]
        total = x[i]
        for a in range(i):
            total -= row[a] * x[a]
        x[i] = total * row[i]
    for i in range(n - 1, -1, -1):
        row = M[i]
        x[i] *= row[i]
        value = x[i]
        for a in range(i):
            x[a] -= row[a] * value


# ---- the small problem ----

# Rows of its vectors, and entries of its numbers.
_SBAR, _Q, _MOVED, _P, _R, _SLOPE, _V, _DIR, _DS, _BEND, _HB, _OLD, _TANGENT, _VECTORS = range(14)
_LAM, _C, _PT, _MASS, _E, _NUMBERS = range(6)


@njit(**_SUMS)
def _times(gram, x, factor, n, out):
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += gram[i, j] * x[j]
        out[i] = total * factor


@njit(**_OPTIONS)
def _evaluate(gram, vec, num, n):
    """Everything known of the point with coordinates ``vec[_Q]``."""
    il = 1.0 / num[_LAM]
    q, moved, p, r = vec[_Q, :n], vec[_MOVED, :n], vec[_P, :n], vec[_R, :n]
    _times(gram, q, il, n, moved)
    num[_MASS], num[_PT], loss = _softmax(vec[_SBAR, :n], moved, p)
    num[_E] = 0.5 * _dot(q, moved) + loss
    for i in range(n):
        r[i] = p[i] - q[i]
    _times(gram, r, il, n, vec[_SLOPE, :n])


@njit(**_SUMS)
def _factorise(gram, vec, num, M, n):
    """The factor of M, whose pivots are ≥ 1."""
    il = 1.0 / num[_LAM]
    c = 1.0 / (1.0 + math.sqrt(num[_PT]))
    num[_C] = c
    v, g, p = vec[_V, :n], vec[_OLD, :n], vec[_P, :n]
    for i in range(n):
        v[i] = math.sqrt(p[i])
        g[i] = vec[_MOVED, i] + vec[_SLOPE, i]  # H p
    shift = 0.5 * c * c * _dot(p, g)
    for i in range(n):
        g[i] = c * g[i] - shift
    for i in range(n):
        row = M[i]
        for j in range(i + 1):
            row[j] = v[i] * v[j] * (gram[i, j] * il - g[i] - g[j])
        row[i] += 1.0
    _cholesky(M, n, 1.0)


@njit(**_SUMS)
def _spread(M, vec, c, Hr, n, out):
    """``out = R M⁻¹ Rᵀ H r``, with p of the factor as v²."""
    v = vec[_V]
    total = 0.0
    for i in range(n):
        total += v[i] * v[i] * Hr[i]
    for i in range(n):
        out[i] = v[i] * (Hr[i] - c * total)
    _substitute(M, n, out)
    total = 0.0
    for i in range(n):
        out[i] *= v[i]
        total += out[i]
    for i in range(n):
        out[i] -= c * total * v[i] * v[i]


@njit(**_SUMS)
def _newton(gram, vec, num, M, n, fresh):
    """One step of third order from an evaluated point, which is evaluated again; how far it moves a margin, Newton's δ."""
    if fresh:
        _factorise(gram, vec, num, M, n)
    il, c = 1.0 / num[_LAM], num[_C]
    q, p, r, slope = vec[_Q, :n], vec[_P, :n], vec[_R, :n], vec[_SLOPE, :n]
    direction, ds, bend, Hb, old = vec[_DIR, :n], vec[_DS, :n], vec[_BEND, :n], vec[_HB, :n], vec[_OLD, :n]
    _spread(M, vec, c, slope, n, direction)
    for i in range(n):
        direction[i] = r[i] - direction[i]
    _times(gram, direction, il, n, ds)
    delta, decrease = _largest(ds), _dot(slope, direction)
    most = num[_E] + ROUNDINGS * EPS * (abs(num[_E]) + _largest(vec[_SBAR, :n]) * num[_MASS])
    for i in range(n):
        old[i] = q[i]
        q[i] += direction[i]
    if delta > _CLOSE:
        mean = _dot(p, ds)
        square = num[_PT] * mean * mean
        for i in range(n):
            square += p[i] * (ds[i] - mean) ** 2
        for i in range(n):
            bend[i] = 0.5 * p[i] * ((ds[i] - mean) ** 2 - square)
        _times(gram, bend, il, n, Hb)
        _spread(M, vec, c, Hb, n, ds)
        for i in range(n):
            q[i] += bend[i] - ds[i]
    _evaluate(gram, vec, num, n)
    step = 1.0
    for _ in range(MAX_HALVINGS):
        if num[_E] <= most - ARMIJO * step * decrease:
            break
        for i in range(n):
            q[i] = old[i] + step * direction[i]
        _evaluate(gram, vec, num, n)
        step *= 0.5
    return delta


@njit(**_SUMS)
def _start(gram, vec, num, n):
    """`coordinates.start_from_pairs`: coordinate descent on the rival that is most wrong."""
    il = 1.0 / num[_LAM]
    q, moved, p = vec[_Q, :n], vec[_MOVED, :n], vec[_P, :n]
    for i in range(n):
        q[i] = moved[i] = 0.0
    for _ in range(2 * PAIRS):
        _softmax(vec[_SBAR, :n], moved, p)
        j, worst = 0, -1.0
        for i in range(n):
            if abs(p[i] - q[i]) > worst:
                j, worst = i, abs(p[i] - q[i])
        h = gram[j, j] * il
        margin = vec[_SBAR, j] - moved[j] + h * q[j]
        x = _root(h, margin)
        change = (x - q[j]) * il
        q[j] = x
        for i in range(n):
            moved[i] += change * gram[j, i]


@njit(**_OPTIONS)
def _root(h, margin):
    """``t = 1/(1 + e^{ht − margin})``, to some digits: Newton in a bracket."""
    low, high = 0.0, 1.0
    t = 0.5 if h == 0.0 else min(max(margin / h, 0.0), 1.0)
    for _ in range(ROOT_STEPS):
        y = 1.0 / (1.0 + math.exp(min(h * t - margin, 700.0)))
        if t > y:
            high = t
        else:
            low = t
        new = t - (t - y) / (1.0 + h * y * (1.0 - y))
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - t) <= ROOT_TOL * new:
            return new
        t = new
    return t


@njit(**_OPTIONS)
def _solve_small(gram, vec, num, M, n, window, fresh, E):
    """`engines.rounds._solved`: ``vec[_Q]`` becomes a solution, near enough, and ``num[_LAM]`` its λ."""
    _evaluate(gram, vec, num, n)
    if len(window) == 0 and not fresh:  # so short a step that there is nothing to correct or to check
        _spread(M, vec, num[_C], vec[_SLOPE], n, vec[_DIR])
        for i in range(n):
            vec[_Q, i] += vec[_R, i] - vec[_DIR, i]
        return
    if len(window) == 0:
        steps = FIRST_STEPS if math.isinf(E) else 1
        for step in range(MAX_STEPS):
            delta = _newton(gram, vec, num, M, n, fresh)
            if (step + 1 >= steps and num[_E] <= E) or delta <= _CLOSE:
                break
        return
    low, high = 0.0, math.inf
    q, p, moved, tangent, Hb = vec[_Q, :n], vec[_P, :n], vec[_MOVED, :n], vec[_TANGENT, :n], vec[_HB, :n]
    for _ in range(MAX_MOVES):
        for step in range(MAX_STEPS):
            if _newton(gram, vec, num, M, n, fresh or step > 0) <= ROUGH:
                break
        lam = num[_LAM]
        _spread(M, vec, num[_C], moved, n, tangent)  # dq/d ln λ, one step stale
        _times(gram, tangent, 1.0 / lam, n, Hb)
        change, rate = 0.0, 0.0
        for i in range(n):
            change += q[i]
            rate += p[i] * (moved[i] - Hb[i])
        middle = window[0] - 1.5 * (window[1] + window[2] * change / lam) - 0.5 * window[3]
        miss = middle - (math.log(num[_MASS]) - math.log(num[_PT]))
        if miss < 0.0:
            high = lam
        else:
            low = lam
        move = miss * num[_MASS] / rate if rate > 0.0 else math.copysign(LONGEST_MOVE, miss)
        move = min(max(move, -LONGEST_MOVE), LONGEST_MOVE)
        if not low <= lam * math.exp(move) <= high:
            move = math.log(low / lam * math.sqrt(high / low))
        new = lam * math.exp(move)
        for i in range(n):  # along the tangent of q/λ, which is smoother than q
            q[i] = new / lam * (q[i] + move * (tangent[i] - q[i]))
        num[_LAM] = new
        if abs(move) < SURE:
            break
        _evaluate(gram, vec, num, n)


# ---- the rounds ----


@njit(**_SUMS)
def _combine(t, tu, D, U, m, d, p, pt, lam, error):
    """The best combination of a step with the last m ones, in place: `engines.rounds._combined`."""
    K = len(t)
    for j in range(K):
        D[m, j], U[m, j] = t[j], tu[j]
    M, x, mean = np.empty((m + 1, m + 1)), np.empty(m + 1), np.empty(m + 1)
    for a in range(m + 1):
        mean[a] = _dot(U[a], p)
        x[a] = 0.0
        for j in range(K):
            x[a] += U[a, j] * (p[j] - lam * d[j])
    for a in range(m + 1):
        for b in range(a + 1):
            total = pt * mean[a] * mean[b]
            for j in range(K):
                total += lam * D[a, j] * U[b, j] + p[j] * (U[a, j] - mean[a]) * (U[b, j] - mean[b])
            M[a, b] = M[b, a] = total
    for a in range(m + 1):
        if not M[a, a] > 0.0:
            return
    scale = np.empty(m + 1)
    for a in range(m + 1):
        scale[a] = 1.0 / math.sqrt(M[a, a])
    for a in range(m + 1):
        for b in range(m + 1):
            M[a, b] *= scale[a] * scale[b]
        M[a, a] += error
        x[a] *= scale[a]
    _cholesky(M, m + 1, error)
    _substitute(M, m + 1, x)
    for j in range(K):
        t[j] = tu[j] = 0.0
    for a in range(m + 1):
        weight = x[a] * scale[a]
        for j in range(K):
            t[j] += weight * D[a, j]
            tu[j] += weight * U[a, j]


@njit(**_OPTIONS)
def _choose(G, k, margins, u, p, strong, few, index, rest, gram, s):
    """The few: their number, indices and Gram matrix; ``rest`` is 1 for all others, and 0 for them and the target."""
    K = len(s)
    n, low, high = 0, math.inf, -math.inf
    for j in range(K):
        s[j], rest[j] = margins[j] - u[j], 1.0
        n += p[j] > strong
        low, high = min(low, s[j]) if j != k else low, max(high, s[j])
    rest[k], low = 0.0, low - abs(low) - 1.0
    n = min(max(n, few), K - 2)
    for _ in range(BISECTIONS):  # more than n are above low, and no more than n above high
        middle, count = 0.5 * (low + high), 0
        for j in range(K):
            count += s[j] > middle
        if count > n:
            low = middle
        else:
            high = middle
    count = 0
    for bound in (high, low):  # between the two are those that are equal but for rounding
        for j in range(K):
            if s[j] > bound and rest[j] == 1.0 and count < n:
                index[count], rest[j] = j, 0.0
                count += 1
    for a in range(n):
        for b in range(n):
            i, j = index[a], index[b]
            gram[a, b] = (G[i, j] - G[i, k]) - (G[j, k] - G[k, k])
    return n


@njit(**_SUMS)
def _strongest(p, rest):
    top = 0.0
    for j in range(len(p)):
        value = p[j] * rest[j]
        top = value if value > top else top
    return top


@njit(**_OPTIONS)
def _weigh(margins, u, rest, w):
    """The rest as one rival: its margin, and in w the weights of its row."""
    K = len(w)
    top = -math.inf
    for j in range(K):
        w[j] = margins[j] - u[j]
        top = max(top, w[j] if rest[j] > 0.0 else -math.inf)
    for j in range(K):
        w[j] = _exp(min(w[j] - top, 0.0)) * rest[j]
    total = _sum(w)
    for j in range(K):
        w[j] /= total
    return top + math.log(total)


@njit(cache=True, nogil=True, **_OPTIONS)
def _rounds(G, k, margins, size, lam, window, few, share, max_iter, warm, state):
    """`engines.rounds.solve_crowd`; ``state`` holds d, which is the start if ``warm``, and takes u = Ḡd and p.

    Gives λ, p_k, −ln p_k, the number of rounds, and whether they settled.
    """
    d, u, p = state[0], state[1], state[2]
    K = len(d)
    most = min(max(few, int(1 / share) + 1), K - 2) + 1
    gram, M, vec, num = np.empty((most, most)), np.empty((most, most)), np.empty((_VECTORS, most)), np.empty(_NUMBERS)
    index, rest, work = np.empty(most, np.int64), np.empty(K), np.zeros((7, K))
    w, pull, t, tu, d_new, u_new, p_new = work[0], work[1], work[2], work[3], work[4], work[5], work[6]
    D, U = np.zeros((DEPTH + 1, K)), np.zeros((DEPTH + 1, K))  # the last steps, and a place for the new one
    longest = 0.0
    for j in range(K):
        longest = max(longest, G[j, j])
    if warm:
        _product(G, k, d, u)
    mass, pt, loss = _softmax(margins, u, p)
    last, rate = math.inf, 0.0
    n = _choose(G, k, margins, u, p, share * mass, few, index, rest, gram, t)
    if not warm:  # 0. The few alone: nearer than the source, if E falls
        num[_LAM] = lam
        for a in range(n):
            vec[_SBAR, a] = margins[index[a]]
        _start(gram, vec, num, n)
        _solve_small(gram, vec, num, M, n, window, last > REUSE, math.inf)
        lam = num[_LAM]
        for a in range(n):
            vec[_Q, a] /= lam
            d_new[index[a]] = vec[_Q, a]
        _add_rows(G, k, index, n, vec[_Q], u_new)
        new_mass, new_pt, new_loss = _softmax(margins, u_new, p_new)
        if 0.5 * lam * _dot(d_new, u_new) + new_loss <= loss:
            mass, pt, loss = new_mass, new_pt, new_loss
            for j in range(K):
                d[j], u[j], p[j] = d_new[j], u_new[j], p_new[j]
    for turn in range(max_iter):
        # 1. The few, and the rest as one.
        outdated = _strongest(p, rest) > share * mass
        if outdated:
            n = _choose(G, k, margins, u, p, share * mass, few, index, rest, gram, t)
        margin = _weigh(margins, u, rest, w)
        _product(G, k, w, pull)

        # 2. The small problem's solution, as a step.
        square = _dot(d, u)
        reach = longest * _sum_of_sizes(d)
        least = ROUNDINGS * EPS * (size + 1.0) * min(1.0, _largest(u))
        noise = least + ROUNDINGS * EPS * reach
        num[_LAM] = lam
        for a in range(n):
            gram[a, n] = gram[n, a] = pull[index[a]]
            vec[_SBAR, a], vec[_Q, a] = margins[index[a]], lam * d[index[a]]
        gram[n, n] = _dot(w, pull)
        vec[_SBAR, n], vec[_Q, n] = margin + _dot(w, u), lam * _dot(d, rest)
        _solve_small(gram, vec, num, M, n + 1, window, outdated or last > REUSE, 0.5 * lam * square + loss)
        lam = num[_LAM]
        for a in range(n + 1):
            vec[_Q, a] /= lam
        for j in range(K):
            t[j] = vec[_Q, n] * w[j] - d[j]
            tu[j] = vec[_Q, n] * pull[j] - u[j]
        for a in range(n):
            t[index[a]] += vec[_Q, a]
        _add_rows(G, k, index, n, vec[_Q], tu)
        delta = _largest(tu)

        # 3. The best combination with the last steps.
        if noise < delta <= TRUST and turn > 0:
            _combine(t, tu, D, U, min(turn, DEPTH), d, p, pt, lam, noise / delta)

        # 4. E must fall.
        E = 0.5 * lam * square + loss
        length, new_mass, new_pt, new_loss = 2.0, mass, pt, math.inf
        for _ in range(MAX_HALVINGS):
            length *= 0.5
            for j in range(K):
                d_new[j], u_new[j] = d[j] + length * t[j], u[j] + length * tu[j]
            new_mass, new_pt, new_loss = _softmax(margins, u_new, p_new)
            if 0.5 * lam * _dot(d_new, u_new) + new_loss <= E + ROUNDINGS * EPS * (abs(E) + (size + reach) * mass):
                break
        else:
            return lam, pt, loss, turn, False
        for j in range(K):
            for a in range(DEPTH - 1, 0, -1):
                D[a, j], U[a, j] = D[a - 1, j], U[a - 1, j]
            D[0, j], U[0, j] = d_new[j] - d[j], u_new[j] - u[j]
            d[j], u[j], p[j] = d_new[j], u_new[j], p_new[j]
        mass, pt, loss = new_mass, new_pt, new_loss

        # 5. Nothing left to gain?
        before, rate = rate, max(delta / last, LEAST_RATE)
        nothing = delta * max(rate, before) <= least or (delta <= noise and rate > SLOW)
        if length == 1.0 and delta <= max(noise, _CLOSE) and nothing:
            return lam, pt, loss, turn + 1, True
        last = delta
    return lam, pt, loss, max_iter, False


def solve_crowd(
    space: Crowd, start: Floats | None = None, *, window: Window | None = None, max_iter: int = MAX_ROUNDS
) -> tuple[Crowd, Outcome]:
    """`engines.rounds.solve_crowd`, compiled."""
    k, K = space.k, len(space.G)
    margins, state = np.empty(K), np.zeros((3, K))
    margins[:k], margins[k], margins[k + 1 :] = space.margins[:k], -math.inf, space.margins[k:]
    if start is not None:
        state[0] = np.insert(start, k, 0.0)
    numbers = space.size, space.lam, np.array(window or ()), crowd.FEW, crowd.SHARE, min(max_iter, MAX_ROUNDS)
    lam, p_target, loss, rounds, done = _rounds(_read_only(space.G), k, margins, *numbers, start is not None, state)
    if window is not None:
        done = done and window.holds(logit(float(np.add.reduce(state[2])), p_target), float(state[0].sum()))
    if not done and max_iter >= MAX_ROUNDS:
        return crowd.solve_crowd(space, start, window=window, max_iter=max_iter)
    space = space.at(lam)
    return space, Outcome(space.end(state, p_target, loss), done, done, (), n_iter=rounds)


def _read_only(G: Floats) -> Floats:
    """G as a model keeps it: to Numba that is a type of its own, and one is enough to compile for."""
    G = np.ascontiguousarray(G).view()
    G.flags.writeable = False
    return G

/* The nearest input with the wanted probability, in class space.

   With s̄ the rivals' margins over the wanted class at the source and Ḡ the inner products of their rows, the answer is
   x = x̄ − Āᵀw with

       w = c·π,   π = softmax(s),   ln Σ e^s = level,   s = s̄ − Ḡw,   level = ln((1 − τ)/τ).

   Newton's method on (w, c), from the library's own answers at the two nearest knots. Its matrix is

       [ I + c·S·Ḡ   −π ]        S = diag(π) − π πᵀ
       [ −πᵀḠ         0 ]

   What is left of the two equations, measured as a distance in x, bounds how far x is from the exact answer. */

const MOST_STEPS = 40; // four or five are usual
const MOST_HALVINGS = 30;
const SETTLED = 1e-13; // relative to the length of the change: far below what is shown

export class Nearest {
  constructor({ margins, gram, knots }) {
    Object.assign(this, { margins, gram, knots, n: margins.length });
  }

  /** w, s, the length of the change, and a bound on how far it is from the exact answer. */
  at(level) {
    const n = this.n;
    const here = this.look(new Float64Array(n), 0, level);
    if (here.off <= 0) return { ...here, distance: 0, bound: 0 };
    const { w, bound } = this.between(level);
    let c = w.reduce((sum, v) => sum + v, 0);
    let now = this.look(w, c, level);
    for (let step = 0; step < MOST_STEPS; step++) {
      if (now.error <= SETTLED * now.distance) break;
      const turn = solve(this.matrix(now, c), [...now.rest.map((v) => -v), -now.off]);
      if (!turn) break;
      let length = 1;
      let next = null;
      for (let half = 0; half < MOST_HALVINGS; half++, length /= 2) {
        const tried = now.w.map((v, i) => v + length * turn[i]);
        next = this.look(tried, c + length * turn[n], level);
        if (next.error < now.error) break;
        next = null;
      }
      if (!next) break; // no digit left to gain
      c += length * turn[n];
      now = next;
    }
    return { ...now, bound: bound + now.error };
  }

  /** Everything there is to know of w and c. */
  look(w, c, level) {
    const g = this.times(w);
    const s = g.map((v, i) => this.margins[i] - v);
    const top = s.reduce((a, b) => Math.max(a, b), -Infinity);
    const e = s.map((v) => Math.exp(v - top));
    const sum = e.reduce((a, b) => a + b, 0);
    const pi = e.map((v) => v / sum);
    const rest = w.map((v, i) => v - c * pi[i]);
    const off = top + Math.log(sum) - level;
    const error = this.norm(rest) + Math.abs(off) / this.norm(pi);
    return { w, s, pi, rest, off, error, distance: this.norm(w, g) };
  }

  /** Ḡv. */
  times(v) {
    const { n, gram } = this;
    return Float64Array.from({ length: n }, (_, i) => {
      let sum = 0;
      for (let j = 0; j < n; j++) sum += gram[i * n + j] * v[j];
      return sum;
    });
  }

  /** ‖Āᵀv‖, with `g` = Ḡv. */
  norm(v, g = this.times(v)) {
    return Math.sqrt(Math.max(v.reduce((sum, a, i) => sum + a * g[i], 0), 0));
  }

  matrix({ pi }, c) {
    const { n, gram } = this;
    const pull = this.times(pi); // Ḡπ
    const rows = Array.from(pi, (p, i) => {
      const row = Float64Array.from({ length: n + 1 }, (_, j) => (j < n ? c * p * (gram[i * n + j] - pull[j]) : -p));
      row[i] += 1;
      return row;
    });
    return [...rows, Float64Array.from({ length: n + 1 }, (_, j) => (j < n ? -pull[j] : 0))];
  }

  /** Where to start: between the library's answers on either side, and how exact those are. */
  between(level) {
    const { level: levels, w, bound } = this.knots; // levels fall
    const n = this.n;
    let i = 0;
    while (i < levels.length - 2 && levels[i + 1] > level) i++;
    const j = Math.min(i + 1, levels.length - 1);
    const part = levels[i] > levels[j] ? Math.min(Math.max((levels[i] - level) / (levels[i] - levels[j]), 0), 1) : 1;
    const start = new Float64Array(n);
    for (let m = 0; m < n; m++) start[m] = (1 - part) * w[i * n + m] + part * w[j * n + m];
    return { w: start, bound: Math.max(bound[i], bound[j]) };
  }
}

/** Gaussian elimination with the largest pivot; null where there is none. */
function solve(rows, right) {
  const n = right.length;
  for (let i = 0; i < n; i++) {
    let best = i;
    for (let r = i + 1; r < n; r++) if (Math.abs(rows[r][i]) > Math.abs(rows[best][i])) best = r;
    if (!Math.abs(rows[best][i])) return null;
    [rows[i], rows[best]] = [rows[best], rows[i]];
    [right[i], right[best]] = [right[best], right[i]];
    for (let r = i + 1; r < n; r++) {
      const times = rows[r][i] / rows[i][i];
      if (!times) continue;
      for (let j = i; j < n; j++) rows[r][j] -= times * rows[i][j];
      right[r] -= times * right[i];
    }
  }
  const out = new Float64Array(n);
  for (let i = n - 1; i >= 0; i--) {
    let sum = right[i];
    for (let j = i + 1; j < n; j++) sum -= rows[i][j] * out[j];
    out[i] = sum / rows[i][i];
  }
  return out;
}

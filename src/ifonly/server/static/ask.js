/* Questions to the server, and their answers in order. */

const TOKEN = "ifonly.token";
const PATIENCE = 3; // times that a busy server is asked again
const LONGEST = 5; // seconds to wait in between at most

/** What the server would not answer, and why; `field` is the part of the question that it is about. */
export class Refusal extends Error {
  constructor(message, { field = null, status = 0 } = {}) {
    super(message);
    Object.assign(this, { field, status });
  }
}

let prompt = () => Promise.reject(new Refusal("This server asks for a token."));
let asking = null;

/** How a token is got from the person: a function of whether one has just been refused, that promises one. */
export function tokensFrom(ask) {
  prompt = ask;
}

async function send(path, options, tries = 0) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let reply;
  try {
    reply = await fetch(path, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal("The server does not answer.");
  }
  if (reply.ok) return reply;
  if (reply.status === 401) {
    // several requests may come back at once: one prompt is enough
    asking ??= prompt(token !== null).finally(() => {
      asking = null;
    });
    sessionStorage.setItem(TOKEN, await asking);
    return send(path, options, tries);
  }
  if (reply.status === 503 && tries < PATIENCE) {
    const seconds = Math.min(Number(reply.headers.get("Retry-After")) || 1, LONGEST);
    await new Promise((done) => setTimeout(done, 1000 * seconds));
    if (options.signal?.aborted) throw new DOMException("no longer wanted", "AbortError");
    return send(path, options, tries + 1);
  }
  const { error } = await reply.json().catch(() => ({}));
  const message = error?.message ?? `The server answers with ${reply.status}.`;
  throw new Refusal(message, { field: error?.field, status: reply.status });
}

export async function get(path, params = {}, signal) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== "" && value !== undefined));
  return (await send(`${path}?${query}`, { signal })).json();
}

const JSON_BODY = { "Content-Type": "application/json" };
const posted = (body, signal) => ({ method: "POST", headers: JSON_BODY, body: JSON.stringify(body), signal });

export async function post(path, body, signal) {
  return (await send(path, posted(body, signal))).json();
}

/** A file, saved under the name that the server gives it. */
export async function download(format, body, lang) {
  const query = new URLSearchParams({ format, ...(lang ? { lang } : {}) });
  const reply = await send(`v1/download?${query}`, posted(body));
  const name = /filename="([^"]+)"/.exec(reply.headers.get("Content-Disposition") ?? "")?.[1] ?? `ifonly.${format}`;
  const url = URL.createObjectURL(await reply.blob());
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
  return name;
}

/** One request on its way and the newest one waiting: as fast as the server answers, and never a queue.

    Questions with the same `base` differ in a number that is being dragged: an answer that is a little behind is still worth
    drawing. An answer to another question is not, and its request is given up. */
export class Line {
  #flying = null;
  #waiting = null;

  constructor(send, draw, fail) {
    Object.assign(this, { send, draw, fail });
  }

  /** `view` is handed back with the answer: what the person had before them when they asked. */
  ask(base, body, view) {
    if (this.#flying?.base !== base) this.drop();
    this.#waiting = { base, body, view };
    if (!this.#flying) this.#next();
  }

  /** Forget what is on its way, and what waits. */
  drop() {
    this.#flying?.control.abort();
    this.#flying = this.#waiting = null;
  }

  get idle() {
    return !this.#flying && !this.#waiting;
  }

  async #next() {
    const flight = { ...this.#waiting, control: new AbortController() };
    this.#waiting = null;
    this.#flying = flight;
    let reply = null;
    let problem = null;
    try {
      reply = await this.send(flight.body, flight.control.signal);
    } catch (error) {
      problem = error;
    }
    if (this.#flying !== flight) return; // stale
    this.#flying = null;
    const newer = this.#waiting !== null;
    if (newer) this.#next();
    if (!problem) this.draw(reply, flight);
    else if (!newer) this.fail(problem); // of a question that nobody asks any more nothing is said
  }
}

// Calls to the server: JSON in and out, problems as errors, and event streams by fetch, so that the token stays in a
// header. It is kept in this variable alone.

let token = "";

export function useToken(given) {
  token = given.trim();
}

/** What the server refused: `detail` for people, `errors` with pointers and carets. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `HTTP ${status}`);
    this.status = status;
    this.errors = Array.isArray(body.errors) ? body.errors : [];
  }
}

function headersOf(more = {}) {
  return token ? { ...more, authorization: `Bearer ${token}` } : more;
}

/** Make a call; return the JSON of its answer, null if it has none. */
export async function call(method, path, body) {
  const given =
    body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } };
  const answer = await fetch(path, { method, ...given, headers: headersOf(given.headers), cache: "no-store" });
  const text = await answer.text();
  let read = null;
  try {
    read = text ? JSON.parse(text) : null;
  } catch {
    read = { detail: text.slice(0, 200) };
  }
  if (!answer.ok) throw new Problem(answer.status, read || {});
  return read;
}

/** Return the text of an answer, of /metrics for instance. */
export async function textOf(path) {
  const answer = await fetch(path, { headers: headersOf(), cache: "no-store" });
  if (!answer.ok) throw new Problem(answer.status, await answer.json().catch(() => ({})));
  return answer.text();
}

/** Read an event stream until it is stopped, opening it again where it broke; `on.event(type, data, id)`. */
export function follow(path, on) {
  const stopping = new AbortController();
  let last = null;
  const run = async () => {
    for (let pause = 500; !stopping.signal.aborted; pause = Math.min(pause * 2, 10000)) {
      try {
        const more = { accept: "text/event-stream", ...(last ? { "last-event-id": last } : {}) };
        const answer = await fetch(path, { headers: headersOf(more), signal: stopping.signal, cache: "no-store" });
        if (!answer.ok) throw new Problem(answer.status, await answer.json().catch(() => ({})));
        on.open();
        pause = 250;
        for await (const event of eventsOf(answer.body)) {
          last = event.id || last;
          on.event(event.type, event.data);
        }
        on.closed("the server ended the stream");
      } catch (error) {
        if (stopping.signal.aborted) return;
        on.closed(error.message, error.status);
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  };
  run();
  return () => stopping.abort();
}

/** Yield the events of a text/event-stream. */
async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const event = eventOf(rest.slice(0, end).split("\n"));
      rest = rest.slice(end + 2);
      if (event) yield event;
    }
  }
}

function eventOf(lines) {
  const found = { id: "", type: "message", data: "" };
  for (const line of lines) {
    const at = line.indexOf(":");
    const [name, value] = [line.slice(0, at), line.slice(at + 1).replace(/^ /, "")];
    if (name === "data") found.data += found.data ? `\n${value}` : value;
    else if (name === "event") found.type = value;
    else if (name === "id") found.id = value;
  }
  return found.data ? { ...found, data: JSON.parse(found.data) } : null;
}

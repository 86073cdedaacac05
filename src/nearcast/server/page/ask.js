// Answers about one message or one subscription: who got it and why, who nearly did, what was delivered.

import { call } from "./api.js";
import { DeliveryLog, attemptList } from "./log.js";
import { estimateText } from "./subscribe.js";
import { badge, element, moment, shown } from "./text.js";

/** Events that are shown of a subscription, and how many steps of the hub are looked back for them. */
const MOST_EVENTS = 20;
const STEPS_BACK = [1000, 30000, Infinity];

export class AskPanel {
  constructor(panel, on) {
    this.panel = panel;
    this.on = on;
    this.log = new DeliveryLog(on);
    this.clear();
  }

  /** Show what to do, and what webhooks were sent. */
  clear() {
    this.shownTopk = null;
    this.panel.replaceChildren(
      element("p", { class: "quiet" }, "Click a message or a subscription on the map, or in the list of matches."),
      this.log.element,
    );
  }

  /** Bring what is shown up to date, now that the panel is looked at. */
  look() {
    if (this.log.element.isConnected) this.log.look();
  }

  /** Tell who got a message, and who nearly did; one of which only the id is known is fetched. */
  async message(known) {
    const what = element("p", {}, shown(textOf(known), 1000));
    const out = this.#begin("Message", what);
    await this.#tell(out, async () => {
      const given = known.geometry ? known : await call("GET", `/v1/messages?id=${encodeURIComponent(known.id)}`);
      what.replaceChildren(shown(textOf(given), 1000));
      const found = await call("POST", "/v1/explain", { message: given });
      const count = `${found.reached.length}${found.more ? " and more" : ""}`;
      out.append(
        element("h2", {}, `Got it (${count})`),
        this.#people(
          found.reached.map((id) => ({ id, reason: "" })),
          "Nobody.",
        ),
      );
      out.append(
        element("h2", {}, "Nearly"),
        this.#people(found.nearly.map(nearMiss), "Nobody that one thing alone keeps out."),
      );
      const attempts = await call("GET", `/v1/deliveries?message=${encodeURIComponent(given.id)}&limit=20`);
      out.append(element("h2", {}, "Attempts of webhooks"), attemptList(attempts.items, this.on));
    });
  }

  #people(rows, none) {
    if (!rows.length) return element("p", { class: "quiet" }, none);
    const list = element("ul", { class: "list" });
    for (const { id, reason } of rows) {
      const open = element("button", { class: "link", onclick: () => this.subscription(id) }, shown(id));
      list.append(element("li", {}, open, reason ? element("div", { class: "quiet" }, shown(reason)) : null));
    }
    return list;
  }

  /** Bring the list of a top-k up to date that is shown, when something was delivered to it. */
  delivered(id) {
    if (this.shownTopk !== id || this.panel.hidden) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.subscription(id), 500);
  }

  /** Tell what a subscription is, what it got lately, and how much it would get. */
  async subscription(id) {
    const path = `/v1/subscriptions/${encodeURIComponent(id)}`;
    const out = this.#begin("Subscription", element("p", {}, shown(id)));
    await this.#tell(out, async () => {
      const found = await call("GET", path);
      out.append(this.#facts(found), this.#actions(found, path));
      this.shownTopk = found.kind === "topk" ? found.id : null;
      if (this.shownTopk) await this.#list(out, path);
      const estimate = await call("POST", "/v1/estimate", { subscription: columns(found) }).catch(() => null);
      if (estimate) out.append(element("p", {}, estimateText(estimate)));
      if (found.subscriber) await this.#recent(out, found);
    });
  }

  #facts(found) {
    const names = ["kind", "query", "subscriber", "threshold", "text_weight", "k", "paused", "expires"];
    const rows = names.filter((each) => found[each] !== undefined && found[each] !== null && found[each] !== false);
    return element(
      "table",
      {},
      ...rows.map((each) =>
        element("tr", {}, element("th", { scope: "row" }, each), element("td", {}, shown(found[each]))),
      ),
    );
  }

  #actions(found, path) {
    const act = (name, work) =>
      element("button", { type: "button", onclick: () => work().catch((error) => this.on.failed(error)) }, name);
    const again = async (verb) => {
      await call("POST", `${path}:${verb}`);
      this.on.changed();
      await this.subscription(found.id);
    };
    return element(
      "div",
      { class: "row" },
      act("Edit", async () => this.on.edit(found)),
      act(found.paused ? "Resume" : "Pause", () => again(found.paused ? "resume" : "pause")),
      act("Delete", async () => {
        await call("DELETE", path);
        this.on.changed();
        this.clear();
        this.look();
      }),
    );
  }

  /** Show the list of a top-k as it stands. */
  async #list(out, path) {
    const { items } = await call("GET", `${path}/current`);
    const texts = await Promise.all(items.map((each, at) => (at < MOST_EVENTS ? this.#text(each.message_id) : null)));
    const rows = items.map((each, at) =>
      element(
        "li",
        {},
        element("span", { class: "badge" }, String(each.rank ?? "")),
        shown(texts[at] ?? each.message_id),
        element("span", { class: "quiet" }, ` ${Number(each.score).toFixed(3)}`),
      ),
    );
    out.append(element("h2", {}, "The list now"), element("ol", { class: "list", id: "topk-list" }, ...rows));
  }

  /** Return the text of a message, from the server if the page does not have it; null if it is not kept. */
  async #text(id) {
    const known = this.on.textOf(id);
    if (known) return known;
    return call("GET", `/v1/messages?id=${encodeURIComponent(id)}`).then(textOf, () => null);
  }

  async #recent(out, found) {
    const own = (await this.#events(found)).slice(-MOST_EVENTS).reverse();
    const rows = own.map((each) =>
      element(
        "li",
        {},
        badge(each.type.split(".").slice(1, -1).join(".")),
        shown(each.data.message?.properties?.text ?? each.subject),
        element("span", { class: "quiet" }, ` ${moment(each.time)}`),
      ),
    );
    out.append(
      element("h2", {}, "Recent deliveries"),
      rows.length ? element("ol", { class: "list" }, ...rows) : element("p", { class: "quiet" }, "None yet."),
    );
  }

  /** Return events of a subscription, the newest last: of the last steps of the hub, or of more if those are few. */
  async #events({ id, subscriber }) {
    const last = Number(this.on.end()?.split("-")[0] ?? 0);
    for (const back of STEPS_BACK) {
      const first = Math.max(0, last - back);
      const path = `/v1/subscribers/${encodeURIComponent(subscriber)}/events?cursor=${first}-0&limit=1000`;
      const { events } = await call("GET", path);
      const own = events.filter((each) => each.data?.subscription_id === id);
      if (own.length >= MOST_EVENTS || first === 0) return own;
    }
    return [];
  }

  #begin(title, what) {
    const back = element("button", { type: "button", onclick: () => this.#back() }, "Delivery log");
    const out = element("div", {}, element("div", { class: "beside" }, element("h2", {}, title), back), what);
    this.panel.replaceChildren(out);
    this.on.opened();
    return out;
  }

  #back() {
    this.clear();
    this.look();
    this.panel.focus();
  }

  async #tell(out, work) {
    try {
      await work();
    } catch (error) {
      out.append(element("p", { class: "error", role: "alert" }, error.message));
    }
  }
}

/** Return the words of a message, its id where they are not known. */
function textOf({ id, properties }) {
  return properties?.text ?? properties?.terms?.join(" ") ?? id;
}

/** Return a near miss as a row: whom, and what kept it out. */
function nearMiss(explanation) {
  const kept = explanation.steps.find((each) => each.passed === false);
  return { id: explanation.subscription_id, reason: kept?.detail ?? "" };
}

/** Return the columns of a stored subscription without what the server keeps beside them. */
function columns(found) {
  const { subscriber, labels, max_events: most, paused, version, ...rest } = found;
  return rest;
}

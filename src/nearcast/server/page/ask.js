// Answers about one message or one subscription: who got it and why, who nearly did, what was delivered.

import { call } from "./api.js";
import { estimateText } from "./subscribe.js";
import { badge, element, moment, shown } from "./text.js";

export class AskPanel {
  constructor(panel, on) {
    this.panel = panel;
    this.on = on;
    this.clear();
  }

  clear() {
    this.panel.replaceChildren(
      element("p", { class: "quiet" }, "Click a message or a subscription on the map, or in the list of matches."),
    );
  }

  /** Tell who got a message, and who nearly did; one of which only the id is known is fetched. */
  async message(known) {
    const what = element("p", {}, shown(textOf(known), 1000));
    const out = this.#begin("Message", what);
    await this.#tell(out, async () => {
      const given = known.geometry ? known : await call("GET", `/v1/messages/${encodeURIComponent(known.id)}`);
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
      out.append(element("h2", {}, "Attempts of webhooks"), this.#attempts(attempts.items));
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

  #attempts(items) {
    if (!items.length) return element("p", { class: "quiet" }, "None.");
    const rows = items.map((each) =>
      element(
        "tr",
        {},
        element("td", {}, moment(each.at)),
        element("td", {}, shown(each.subscriber)),
        element("td", {}, shown(each.reason)),
        element("td", {}, element("button", { onclick: () => this.#resend(each) }, "Resend")),
      ),
    );
    const heads = ["when", "whom", "what came", ""].map((each) => element("th", { scope: "col" }, each));
    return element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows));
  }

  async #resend(attempt) {
    await call("POST", "/v1/deliveries:resend", {
      subscriber: attempt.subscriber,
      delivery_id: attempt.delivery_id,
    }).catch((error) => this.on.failed(error));
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
      }),
    );
  }

  /** Show the list of a top-k as it stands. */
  async #list(out, path) {
    const { items } = await call("GET", `${path}/current`);
    const rows = items.map((each) =>
      element(
        "li",
        {},
        element("span", { class: "badge" }, String(each.rank ?? "")),
        shown(this.on.textOf(each.message_id)),
        element("span", { class: "quiet" }, ` ${Number(each.score).toFixed(3)}`),
      ),
    );
    out.append(element("h2", {}, "The list now"), element("ol", { class: "list", id: "topk-list" }, ...rows));
  }

  async #recent(out, found) {
    const page = await call(
      "GET",
      `/v1/subscribers/${encodeURIComponent(found.subscriber)}/events?cursor=0-0&limit=1000`,
    );
    const own = page.events
      .filter((each) => each.data?.subscription_id === found.id)
      .slice(-20)
      .reverse();
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

  #begin(title, what) {
    const out = element("div", {}, element("h2", {}, title), what);
    this.panel.replaceChildren(out);
    this.on.opened();
    return out;
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

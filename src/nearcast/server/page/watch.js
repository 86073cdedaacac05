// What happens now: messages as they fall, matches as they are made, from one stream that resumes by itself.

import { follow } from "./api.js";
import { badge, element, moment, shown } from "./text.js";

const MOST_ROWS = 100;

export class WatchPanel {
  constructor(panel, map, on) {
    this.map = map;
    this.on = on;
    this.counts = element("p", { class: "quiet", id: "counts" });
    this.list = element("ol", { class: "list", id: "matches", "aria-label": "Matches, the newest first" });
    this.empty = element("p", { class: "quiet" }, "Nothing was delivered since this page was opened.");
    this.letters = element("div", {});
    panel.append(this.counts, this.empty, this.list, this.letters);
    this.seen = { messages: 0, deliveries: 0, moves: 0 };
    this.stop = () => {};
  }

  /** Follow the stream of the tenant, from now on. */
  start() {
    this.stop();
    this.stop = follow("/v1/stream", {
      open: () => this.on.status("live"),
      closed: (reason, status) => this.on.status(status === 401 ? "a token is needed, or this one is wrong" : `reconnecting: ${reason}`),
      event: (type, data) => this.#take(type, data),
    });
  }

  #take(type, data) {
    if (type === "message") this.#message(data);
    else if (type === "delivery") this.#delivery(data);
    else if (type === "move") this.on.moved(data);
    if (`${type}s` in this.seen) this.seen[`${type}s`] += 1;
    if (type === "delivery") this.seen.deliveries += 0;
    this.counts.textContent = `${this.seen.messages} messages, ${this.seen.deliveries ?? 0} deliveries`;
  }

  #message(feature) {
    this.map.addMessage(feature);
  }

  #delivery(event) {
    this.seen.deliveries += 1;
    const { message, subscription_id: id } = event.data;
    const kind = event.type.split(".").slice(1, -1).join(".");
    this.empty.hidden = true;
    if (message?.geometry) this.map.flash(this.map.addMessage(message, { lit: event.data.change === "+" }), id);
    const open = element("button", { class: "link", onclick: () => this.on.message(message ?? { id: event.subject, properties: {} }) },
      badge(kind), shown(message?.properties?.text ?? event.subject));
    const whom = element("button", { class: "link quiet", onclick: () => this.on.subscription(id) }, "for ", shown(id), ` · ${moment(event.time)}`);
    this.list.prepend(element("li", {}, open, whom));
    while (this.list.childElementCount > MOST_ROWS) this.list.lastElementChild.remove();
  }
}

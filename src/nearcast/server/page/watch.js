// What happens now: messages as they fall, matches as they are made, from one stream that resumes by itself.

import { follow } from "./api.js";
import { badge, element, moment, shown } from "./text.js";

const MOST_ROWS = 100;
const HINT =
  "Nothing was delivered since this page was opened. To see something happen, draw a region under Subscribe, then " +
  "publish a message in it under Publish.";

export class WatchPanel {
  constructor(panel, map, on) {
    this.map = map;
    this.on = on;
    this.counts = element("p", { class: "quiet", id: "counts" });
    this.list = element("ol", { class: "list", id: "matches", "aria-label": "Matches, the newest first" });
    this.empty = element("p", { class: "quiet" }, HINT);
    panel.append(this.counts, this.empty, this.list);
    this.stop = () => {};
    /** Messages that were counted last, and samples of them that came since. */
    [this.messages, this.samples] = [0, 0];
  }

  /** Follow the stream of the tenant, from now on. */
  start() {
    this.stop();
    this.stop = follow("/v1/stream", {
      open: () => this.on.status("live"),
      closed: (reason, status) =>
        this.on.status(status === 401 ? "a token is needed, or this one is wrong" : `reconnecting: ${reason}`),
      event: (type, data) => this.#take(type, data),
    });
  }

  #take(type, data) {
    if (type === "message") {
      this.samples++;
      this.map.addMessage(data);
    } else if (type === "delivery") this.#delivery(data);
    else if (type === "move") this.on.changed();
    else if (type === "hub") this.on.hub(data);
    else if (type === "counts") this.#count(data);
  }

  /** Show the counts; messages of which no sample came are fetched with the rest of the map. */
  #count(now) {
    if (now.messages - this.messages > this.samples) this.on.changed();
    [this.messages, this.samples, this.end] = [now.messages, 0, now.cursor];
    const shown = ["messages", "deliveries", "moves"].map((each) => `${now[each].toLocaleString()} ${each}`);
    this.counts.textContent = `Since the server started: ${shown.join(", ")}.`;
  }

  #delivery(given) {
    const { type, subscription_id: id, message_id: messageId } = given;
    const known = this.map.message(messageId);
    const message = known?.message ?? given.message ?? { id: messageId };
    this.empty.hidden = true;
    if (known) {
      if (given.change === "+") this.map.messages.light(known);
      this.map.flash(known, given.subscription);
    }
    this.on.delivered(id);
    const open = element(
      "button",
      { class: "link", onclick: () => this.on.message(message) },
      badge(type),
      shown(message.properties?.text ?? messageId),
    );
    const now = new Date().toISOString();
    const whom = element(
      "button",
      { class: "link quiet", onclick: () => this.on.subscription(id) },
      "for ",
      shown(id),
      ` · ${moment(now)}`,
    );
    this.list.prepend(element("li", {}, open, whom));
    while (this.list.childElementCount > MOST_ROWS) this.list.lastElementChild.remove();
  }
}

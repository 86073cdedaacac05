// What webhooks were sent: the newest attempts with what came back, and the events that were given up.

import { call } from "./api.js";
import { element, moment, shown } from "./text.js";

const MOST = 50;

export class DeliveryLog {
  constructor(on) {
    this.on = on;
    this.attempts = element("div", { id: "attempts" });
    this.letters = element("div", { id: "dead-letters" });
    this.element = element(
      "section",
      { "aria-label": "Webhooks" },
      element("h2", {}, "Dead letters"),
      element("p", { class: "quiet" }, "Events that no receiver took, after all attempts."),
      this.letters,
      element("h2", {}, "Delivery log"),
      element("p", { class: "quiet" }, `The newest ${MOST} requests of webhooks, and what came back.`),
      this.attempts,
      element("div", { class: "row" }, element("button", { type: "button", onclick: () => this.look() }, "Look again")),
    );
  }

  /** Fetch both lists. */
  async look() {
    const [letters, attempts] = await Promise.all([
      call("GET", `/v1/dead-letters?limit=${MOST}`),
      call("GET", `/v1/deliveries?limit=${MOST}`),
    ]).catch((error) => {
      this.on.failed(error);
      return [{ items: [] }, { items: [] }];
    });
    const again = async (each) => {
      await call("POST", "/v1/dead-letters:resend", { numbers: [each.number] });
      await this.look();
    };
    this.letters.replaceChildren(resendList(letters.items, this.on, again));
    this.attempts.replaceChildren(attemptList(attempts.items, this.on));
  }
}

/** Return attempts as a list, each with a button that sends its event again. */
export function attemptList(items, on) {
  return resendList(items, on, (each) =>
    call("POST", "/v1/deliveries:resend", { subscriber: each.subscriber, delivery_id: each.delivery_id }),
  );
}

function resendList(items, on, resend) {
  if (!items.length) return element("p", { class: "quiet" }, "None.");
  return element("ol", { class: "list" }, ...items.map((each) => resendRow(each, on, resend)));
}

/** Return an event with what became of it, and a button that sends it again. */
function resendRow(given, on, resend) {
  const { message_id: message, subscriber, reason, at } = given;
  const send = async () => {
    try {
      await resend(given);
      button.replaceWith(element("span", { class: "quiet" }, "sent again"));
    } catch (error) {
      on.failed(error);
    }
  };
  const label = `Resend ${message ?? "the event"} to ${subscriber}`;
  const button = element("button", { type: "button", "aria-label": label, onclick: send }, "Resend");
  const what = element("div", {}, shown(message ?? "several"), " to ", shown(subscriber));
  const became = element("div", { class: "quiet" }, `${moment(at)}: `, shown(reason));
  return element("li", { class: "beside" }, element("div", {}, what, became), button);
}

// The form of a subscription: a region drawn or written, a query checked as it is typed, sliders with an estimate.

import { call } from "./api.js";
import { element, field } from "./text.js";

const WAIT_MS = 300;

export class SubscribeForm {
  constructor(panel, map, stored) {
    this.map = map;
    this.stored = stored;
    this.place = {};
    this.kind = element(
      "select",
      {},
      ...["within", "similar", "topk"].map((each) => element("option", { value: each }, each)),
    );
    this.query = element("textarea", { rows: 2, spellcheck: "false", "aria-describedby": "query-error" });
    this.error = element("p", { id: "query-error", class: "error", role: "alert" });
    this.id = element("input", { type: "text", placeholder: "made up unless given" });
    this.subscriber = element("input", { type: "text", value: "me" });
    this.weight = element("input", { type: "range", min: 0, max: 1, step: 0.05, value: 0.5 });
    this.threshold = element("input", { type: "range", min: 0.05, max: 1, step: 0.05, value: 0.6 });
    this.distance = element("input", { type: "number", min: 1, value: 2000 });
    this.k = element("input", { type: "number", min: 1, max: 1000, value: 10 });
    this.where = element("p", { class: "quiet" });
    this.estimate = element("p", { id: "estimate", role: "status" });
    this.weightField = field("Words against distance, 0 to 1", this.weight);
    this.weightField.append(element("p", { class: "quiet" }, "0: only nearness counts; 1: only words do."));
    this.thresholdField = field("Least score", this.threshold);
    this.distanceField = field("Nearness ends at, in metres", this.distance);
    this.kField = field("How many (k)", this.k);
    this.window = element("p", { class: "quiet", id: "window" });
    this.kField.append(this.window);
    this.coordinates = this.#coordinates();
    panel.append(this.#form());
    this.#changed();
  }

  #form() {
    const form = element("form", { onsubmit: (event) => this.#submit(event) });
    const save = element("button", { class: "main" }, "Subscribe");
    const draw = (kind) => element("button", { type: "button", onclick: () => this.#draw(kind) }, kind);
    this.drawButtons = element(
      "div",
      { class: "row", role: "group", "aria-label": "Draw on the map" },
      ...["Box", "Circle", "Polygon", "Point"].map(draw),
    );
    form.append(
      field("Kind", this.kind),
      field("Query", this.query),
      this.error,
      element("h2", {}, "Where"),
      this.drawButtons,
      this.where,
      this.coordinates,
      this.weightField,
      this.thresholdField,
      this.distanceField,
      this.kField,
      this.estimate,
      field("Id", this.id),
      field("Subscriber", this.subscriber),
      element(
        "div",
        { class: "row" },
        save,
        element("button", { type: "button", onclick: () => this.clear() }, "Clear"),
      ),
    );
    for (const each of [this.kind, this.query, this.weight, this.threshold, this.distance, this.k]) {
      each.addEventListener("input", () => this.#changed());
    }
    return form;
  }

  /** Say of which messages a top-k is the best: the server has one window for all. */
  useWindow(window) {
    const counted = /^\d+$/.test(window ?? "") ? `${Number(window).toLocaleString()} messages` : window;
    this.window.textContent = window
      ? `The best of the last ${counted}: the window of this server.`
      : "This server has no window, which top-k needs. Start it with: --set hub.window=1000";
  }

  /** Fields for a circle or a point, so that a place can be given without a mouse. */
  #coordinates() {
    const number = (name, value) =>
      element("input", { type: "number", step: "any", value, oninput: () => this.#written(), "data-name": name });
    this.written = { lon: number("lon", ""), lat: number("lat", ""), radius_m: number("radius_m", "") };
    const labels = { lon: "Longitude", lat: "Latitude", radius_m: "Radius in metres" };
    const fields = Object.entries(this.written).map(([name, input]) => field(labels[name], input));
    const centre = element("button", { type: "button", onclick: () => this.#useCentre() }, "Use the map's centre");
    return element(
      "details",
      {},
      element("summary", {}, "Write the place"),
      ...fields,
      element("div", { class: "row" }, centre),
    );
  }

  #useCentre() {
    const [lon, lat] = this.map.centre();
    this.written.lon.value = lon;
    this.written.lat.value = lat;
    this.written.radius_m.value ||= 800;
    this.#written();
  }

  #written() {
    const found = {};
    for (const [name, input] of Object.entries(this.written)) if (input.value !== "") found[name] = Number(input.value);
    this.place = found;
    this.map.showSketch(found);
    this.#changed();
  }

  #draw(kind) {
    this.where.textContent = "Draw on the map…";
    this.map.draw(kind, (columns) => {
      this.place = columns;
      for (const [name, input] of Object.entries(this.written)) input.value = columns[name] ?? "";
      this.#changed();
    });
  }

  /** Return the subscription as the form has it, in columns. */
  columns() {
    const kind = this.kind.value;
    const found = { kind, query: this.query.value, ...this.place };
    if (kind !== "within") {
      delete found.radius_m;
      Object.assign(found, { text_weight: Number(this.weight.value), max_distance_m: Number(this.distance.value) });
      if (kind === "similar") found.threshold = Number(this.threshold.value);
      else found.k = Number(this.k.value);
    }
    return found;
  }

  #changed() {
    const kind = this.kind.value;
    const isScored = kind !== "within";
    for (const each of [this.weightField, this.distanceField]) each.hidden = !isScored;
    this.thresholdField.hidden = kind !== "similar";
    this.kField.hidden = kind !== "topk";
    for (const each of this.drawButtons.children) each.hidden = isScored && each.textContent !== "Point";
    this.written.radius_m.parentElement.hidden = isScored;
    this.weightField.firstChild.textContent = `Words against distance, 0 to 1: ${this.weight.value}`;
    this.thresholdField.firstChild.textContent = `Least score, 0 to 1: ${this.threshold.value}`;
    this.where.textContent = this.#placeText(isScored);
    if (this.place.lon !== undefined) this.map.showSketch(isScored ? { ...this.place, radius_m: null } : this.place);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#check(), WAIT_MS);
  }

  #placeText(isScored) {
    if (!Object.keys(this.place).length) return isScored ? "Draw a point." : "Anywhere.";
    if (isScored && this.place.lon === undefined) return "Draw a point: this kind listens around one.";
    return described(isScored ? { ...this.place, radius_m: null } : this.place);
  }

  /** Ask the server whether the subscription can be stored, and how much it would get. */
  async #check() {
    if (!this.query.value.trim()) {
      this.#tell(null);
      this.estimate.textContent = "";
      return;
    }
    const asked = (this.asked = Symbol("asked"));
    try {
      const text = await this.#estimated();
      if (this.asked !== asked) return;
      this.#tell(null);
      this.estimate.textContent = text;
    } catch (error) {
      if (this.asked !== asked) return;
      const fresh = error.errors?.some((each) => each.pointer === "/sample");
      this.#tell(fresh ? null : error);
      this.estimate.textContent = fresh ? estimateText({ messages: 0 }) : "";
    }
  }

  /** Return what the subscription would get, in words; one that cannot be stored is an error. */
  async #estimated() {
    const columns = this.columns();
    if (columns.kind !== "topk") {
      return estimateText(await call("POST", "/v1/estimate", { subscription: { id: "estimate", ...columns } }));
    }
    await call("POST", "/v1/subscriptions?validateOnly=true", columns);
    return `It always has the best ${columns.k}, whatever comes.`;
  }

  #tell(error) {
    const caret = error?.errors?.find((each) => each.caret)?.caret;
    this.error.textContent = error ? [error.message, caret].filter(Boolean).join("\n") : "";
    this.query.setAttribute("aria-invalid", error ? "true" : "false");
  }

  async #submit(event) {
    event.preventDefault();
    const own = { subscriber: this.subscriber.value || undefined, id: this.id.value || undefined };
    try {
      const path = own.id ? `/v1/subscriptions/${encodeURIComponent(own.id)}` : "/v1/subscriptions";
      const kept = await call(own.id ? "PUT" : "POST", path, { ...this.columns(), ...own });
      this.#tell(null);
      this.clear();
      this.stored(kept);
    } catch (error) {
      this.#tell(error);
    }
  }

  /** Fill the form with a subscription, to be changed. */
  edit(given) {
    this.clear();
    this.kind.value = given.kind ?? "within";
    this.query.value = typeof given.query === "string" ? given.query : "";
    this.id.value = given.id;
    this.subscriber.value = given.subscriber ?? "";
    this.weight.value = given.text_weight ?? 0.5;
    this.threshold.value = given.threshold ?? 0.6;
    this.distance.value = given.max_distance_m ?? 2000;
    this.k.value = given.k ?? 10;
    const names = ["lon", "lat", "radius_m", "west", "south", "east", "north", "region"];
    this.place = Object.fromEntries(
      names.filter((each) => given[each] !== undefined).map((each) => [each, given[each]]),
    );
    for (const [name, input] of Object.entries(this.written)) input.value = this.place[name] ?? "";
    this.map.showSketch(this.place);
    this.#changed();
  }

  clear() {
    this.map.stopDrawing();
    this.map.sketch.clear();
    this.place = {};
    this.query.value = this.id.value = "";
    for (const input of Object.values(this.written)) input.value = "";
    this.#changed();
  }
}

function described(place) {
  if (place.region) return "A polygon.";
  if (place.west !== undefined) return `A box from ${place.west}, ${place.south} to ${place.east}, ${place.north}.`;
  return place.radius_m
    ? `A circle of ${place.radius_m} m around ${place.lon}, ${place.lat}.`
    : `At ${place.lon}, ${place.lat}.`;
}

export function estimateText(found) {
  if (!found.messages) return "No messages yet to estimate from.";
  const share = `${found.matches} of the last ${found.messages} messages`;
  if (found.per_day === null) return `Estimate: ${share}.`;
  const perDay = found.per_day < 10 ? Number(found.per_day.toFixed(1)) : Math.round(found.per_day);
  return `Estimate: about ${perDay.toLocaleString()} a day (${share}).`;
}

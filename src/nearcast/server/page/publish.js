// The form of a message: its text, and a place that is drawn or the map's centre.

import { call } from "./api.js";
import { element, field } from "./text.js";

export class PublishForm {
  constructor(panel, map) {
    this.map = map;
    this.text = element("textarea", { rows: 2 });
    this.lon = element("input", { type: "number", step: "any" });
    this.lat = element("input", { type: "number", step: "any" });
    this.minutes = element("input", { type: "number", min: 0, value: 10 });
    this.told = element("p", { role: "status" });
    const form = element("form", { onsubmit: (event) => this.#submit(event) });
    const draw = element("button", { type: "button", onclick: () => this.#draw() }, "Point on the map");
    const centre = element("button", { type: "button", onclick: () => this.#set(this.map.centre()) }, "Map's centre");
    form.append(
      field("Text", this.text),
      field("Longitude", this.lon),
      field("Latitude", this.lat),
      element("div", { class: "row" }, draw, centre),
      field("Lives for, in minutes", this.minutes),
      element("div", { class: "row" }, element("button", { class: "main" }, "Publish")),
      this.told,
    );
    panel.append(form);
  }

  #draw() {
    this.map.draw("Point", ({ lon, lat }) => this.#set([lon, lat]));
  }

  #set([lon, lat]) {
    this.lon.value = lon;
    this.lat.value = lat;
  }

  async #submit(event) {
    event.preventDefault();
    if (this.lon.value === "") this.#set(this.map.centre());
    const now = Date.now();
    const minutes = Number(this.minutes.value);
    const properties = { text: this.text.value };
    if (minutes > 0) properties.expires = new Date(now + minutes * 60e3).toISOString();
    const geometry = { type: "Point", coordinates: [Number(this.lon.value), Number(this.lat.value)] };
    try {
      const id = `page-${now.toString(36)}`;
      const found = await call("POST", "/v1/messages", { type: "Feature", id, geometry, properties });
      this.told.textContent = found.rejected?.length ? found.rejected[0].reason : "Published.";
      this.map.sketch.clear();
    } catch (error) {
      this.told.textContent = error.message;
    }
  }
}

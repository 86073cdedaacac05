// The page: a map and five panels over the API of the server.

import { call, useToken } from "./api.js";
import { AskPanel } from "./ask.js";
import { HealthPanel } from "./health.js";
import { WorldMap } from "./map.js";
import { PublishForm } from "./publish.js";
import { SubscribeForm } from "./subscribe.js";
import { WatchPanel } from "./watch.js";

const MAP_WAIT_MS = 250;
const byId = (id) => document.getElementById(id);
const tabs = [...document.querySelectorAll('[role="tab"]')];

/** Open a panel by its tab. */
function open(name, { focus = false } = {}) {
  for (const tab of tabs) {
    const isOpen = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", String(isOpen));
    tab.tabIndex = isOpen ? 0 : -1;
    byId(tab.getAttribute("aria-controls")).hidden = !isOpen;
    if (isOpen && focus) tab.focus();
  }
}

for (const [at, tab] of tabs.entries()) {
  tab.addEventListener("click", () => open(tab.id.slice(4)));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) open(tabs.at((at + step + tabs.length) % tabs.length).id.slice(4), { focus: true });
  });
}

const tell = (text) => {
  byId("status").textContent = text;
};

let timer;
/** Bring what the map shows up to date, a moment after the last change. */
function refresh() {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const { bbox, zoom } = map.seen();
    try {
      const found = await call("GET", `/v1/map?bbox=${bbox}&zoom=${zoom}`);
      map.showSubscriptions(found.features.filter((each) => each.properties.layer === "subscription"));
      for (const each of found.features) if (each.properties.layer === "message") map.addMessage(each);
    } catch (error) {
      tell(error.message);
    }
  }, MAP_WAIT_MS);
}

const map = new WorldMap("map", {
  moved: refresh,
  message: (given) => ask.message(given),
  subscription: (id) => ask.subscription(id),
});
const form = new SubscribeForm(byId("subscribe"), map, (kept) => {
  refresh();
  ask.subscription(kept.id);
});
new PublishForm(byId("publish"), map);
new HealthPanel(byId("health"));
const ask = new AskPanel(byId("ask"), {
  opened: () => open("ask"),
  textOf: (id) => map.message(id)?.get("message").properties.text ?? id,
  changed: refresh,
  failed: (error) => tell(error.message),
  edit: (given) => {
    form.edit(given);
    open("subscribe", { focus: true });
  },
});
const watch = new WatchPanel(byId("watch"), map, {
  status: tell,
  moved: refresh,
  delivered: (id) => ask.delivered(id),
  message: (given) => ask.message(given),
  subscription: (id) => ask.subscription(id),
});

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(byId("token").value);
  watch.start();
  refresh();
});

/** Look at the streets, else where most is going on: at the first subscription that has a place. */
async function begin() {
  const hasStreets = await map.drawLand();
  watch.start();
  const found = hasStreets ? null : await call("GET", "/v1/map?bbox=-180,-90,180,90&zoom=1").catch(() => null);
  const first = found?.features.find((each) => each.geometry);
  if (first) {
    const [lon, lat] = first.geometry.coordinates.flat(Infinity);
    map.goTo(lon, lat, 12);
  }
  document.documentElement.dataset.ready = "true";
}

begin().catch((error) => tell(error.message));

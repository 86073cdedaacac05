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

const plural = (n, one) => `${n.toLocaleString()} ${one}${n === 1 ? "" : "s"}`;

/** Say what of the part that is seen is not drawn one by one. */
function note({ cells, messages, counts, bounds }) {
  const told = [];
  if (cells.length) {
    told.push(`${plural(counts.subscriptions, "subscription")} here, counted in squares: zoom in to see each.`);
  }
  if (counts.messages > messages.id.length || counts.messages >= bounds.messages) {
    told.push(`Of the messages here, the newest ${messages.id.length.toLocaleString()} are shown.`);
  }
  byId("note").textContent = told.join(" ");
  byId("note").hidden = !told.length;
}

let [timer, looking, again] = [null, false, false];

/** Bring what the map shows up to date in a moment; one call at a time. */
function refresh() {
  if (looking) again = true;
  else timer ??= setTimeout(look, MAP_WAIT_MS);
}

async function look() {
  [timer, looking, again] = [null, true, false];
  const { bbox, zoom } = map.seen();
  try {
    const found = await call("GET", `/v1/map?bbox=${bbox}&zoom=${zoom}`);
    map.show(found);
    note(found);
  } catch (error) {
    tell(error.message);
  }
  looking = false;
  if (again) refresh();
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
  textOf: (id) => map.message(id)?.message?.properties.text ?? id,
  changed: refresh,
  failed: (error) => tell(error.message),
  edit: (given) => {
    form.edit(given);
    open("subscribe", { focus: true });
  },
});
const watch = new WatchPanel(byId("watch"), map, {
  status: tell,
  changed: refresh,
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

/** Look at the streets, else where most is going on. */
async function begin() {
  const hasStreets = await map.drawLand();
  watch.start();
  const place = hasStreets ? null : await busiest().catch(() => null);
  if (place) map.goTo(...place, 12);
  document.documentElement.dataset.ready = "true";
}

/** Return where the most subscriptions are: in the fullest cell of the fullest cell; null if none has a place. */
async function busiest() {
  for (let [bbox, zoom] = ["-180,-90,180,90", 1]; ; zoom += 4) {
    const found = await call("GET", `/v1/map?bbox=${bbox}&zoom=${zoom}`);
    const first = found.features.find((each) => each.geometry);
    if (first) return first.geometry.coordinates.flat(Infinity).slice(0, 2);
    if (!found.cells.length) return null;
    const [west, south, east, north] = found.cells.reduce((most, each) => (each[4] > most[4] ? each : most));
    if (zoom >= 9) return [(west + east) / 2, (south + north) / 2];
    bbox = [west, south, east, north].join(",");
  }
}

begin().catch((error) => tell(error.message));

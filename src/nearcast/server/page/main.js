// The page: a map and five panels over the API of the server.

import { call, useToken } from "./api.js";
import { AskPanel } from "./ask.js";
import { HealthPanel } from "./health.js";
import { WorldMap } from "./map.js";
import { PublishForm } from "./publish.js";
import { SubscribeForm } from "./subscribe.js";
import { WatchPanel } from "./watch.js";

const MAP_WAIT_MS = 250;
/** Degrees within which subscriptions are near each other: a town. */
const NEAR = 1;
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
  if (name === "ask") ask.look();
}

for (const [at, tab] of tabs.entries()) {
  tab.addEventListener("click", () => open(tab.id.slice(4)));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) open(tabs.at((at + step + tabs.length) % tabs.length).id.slice(4), { focus: true });
  });
}

/** Say how it stands with the server. */
const tell = (text) => {
  byId("status").textContent = text;
  byId("status").classList.toggle("wrong", text !== "live");
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
  textOf: (id) => map.message(id)?.message?.properties.text,
  changed: refresh,
  failed: (error) => tell(error.message),
  end: () => watch.end,
  edit: (given) => {
    form.edit(given);
    open("subscribe", { focus: true });
  },
});
const watch = new WatchPanel(byId("watch"), map, {
  status: tell,
  changed: refresh,
  hub: ({ window }) => form.useWindow(window),
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
  const bounds = hasStreets ? null : await busiest().catch(() => null);
  if (bounds) map.lookAt(bounds);
  document.documentElement.dataset.ready = "true";
}

/** Return where subscriptions are, as west, south, east, north: all of them where they are few and near each other, else
 * the first; of many, the fullest cell of the fullest cell. Null if none has a place. */
async function busiest() {
  for (let [bbox, zoom] = ["-180,-90,180,90", 1]; ; zoom += 4) {
    const found = await call("GET", `/v1/map?bbox=${bbox}&zoom=${zoom}`);
    const all = found.features.filter((each) => each.geometry).map((each) => map.boundsOf(each));
    const [west0, south0, east0, north0] = all.reduce(around, [180, 90, -180, -90]);
    if (all.length) return Math.max(east0 - west0, north0 - south0) < NEAR ? [west0, south0, east0, north0] : all[0];
    if (!found.cells.length) return null;
    const [west, south, east, north] = found.cells.reduce((most, each) => (each[4] > most[4] ? each : most));
    if (zoom >= 9) return [west, south, east, north];
    bbox = [west, south, east, north].join(",");
  }
}

const around = (a, b) => a.map((each, at) => (at < 2 ? Math.min(each, b[at]) : Math.max(each, b[at])));

begin().catch((error) => tell(error.message));

// Messages on the map: ten thousand dots on a canvas of their own, drawn from plain objects without a feature for each.
/* global ol */

import { colour } from "./colours.js";

/** As many as the server gives. */
const MOST = 10000;
/** Without an end of its own a message fades for so long. */
const LIFE_MS = 3600e3;
/** How long a new message is drawn larger. */
const NEW_MS = 3000;
/** A dot hides others within so many pixels, so that a crowd costs no more than it shows. */
const GRAIN = 3;
const STEPS = 5;
const PALEST = 0.35;
const RADIUS = { message: 4, match: 6 };
/** Where more than so many are in view, those that were not delivered are smaller. */
const MANY = 2000;
const SMALL = 2.5;
const { PI, ceil, floor, hypot, max, min, round } = Math;
const WORLD = 2 * PI * 6378137;

export class MessageDots {
  constructor() {
    /** In the order in which they came. */
    this.byId = new Map();
    /** The same in the order in which they are drawn; null when that is to be made anew. */
    this.order = null;
    /** How many were drawn last. */
    this.seen = 0;
    this.sprites = new Map();
    this.canvas = document.createElement("canvas");
    this.canvas.className = "dots";
    this.layer = new ol.layer.Layer({ render: (frame) => this.#render(frame) });
  }

  get size() {
    return this.byId.size;
  }

  get(id) {
    return this.byId.get(String(id));
  }

  /** Show messages, of which those that are known stay as they are; the oldest go when there are too many. */
  add(dots) {
    for (const dot of dots) {
      const known = this.get(dot.id);
      if (known) known.message ??= dot.message;
      else this.byId.set(String(dot.id), dot);
    }
    let surplus = this.byId.size - MOST;
    for (const id of this.byId.keys()) {
      if (surplus-- <= 0) break;
      this.byId.delete(id);
    }
    this.#changed();
  }

  /** Show messages in the columns of /v1/map beside those that are shown. */
  addColumns(columns) {
    this.add(dotsOf(columns, (id) => this.byId.has(String(id))));
  }

  #changed() {
    this.order = null;
    this.layer.changed();
  }

  /** Return the dots as they are drawn: those that were delivered first, then the others, the newest before. */
  #ordered() {
    if (!this.order) {
      const all = [...this.byId.values()].reverse();
      this.order = [...all.filter((each) => each.lit), ...all.filter((each) => !each.lit)];
    }
    return this.order;
  }

  /** Show that a message was delivered. */
  light(dot) {
    dot.lit = true;
    this.#changed();
  }

  /** Forget messages that have died; the others grow paler. */
  fade() {
    const now = Date.now();
    for (const [id, dot] of this.byId) if (dot.expires <= now) this.byId.delete(id);
    if (!document.hidden) this.#changed();
  }

  /** Draw all anew, in other colours. */
  recolour() {
    this.sprites.clear();
    this.layer.changed();
  }

  /** Return the message nearest to a coordinate of the map, within some pixels; null if there is none. */
  at([x, y], resolution, within = 9) {
    let [found, nearest] = [null, within * resolution];
    for (const dot of this.byId.values()) {
      const across = dot.x - x - WORLD * round((dot.x - x) / WORLD);
      const distance = hypot(across, dot.y - y);
      if (distance <= nearest) [found, nearest] = [dot, distance];
    }
    return found;
  }

  #render(frame) {
    const [width, height] = frame.size;
    const { center, resolution } = frame.viewState;
    const { canvas } = this;
    const ratio = frame.pixelRatio;
    if (canvas.width !== round(width * ratio) || canvas.height !== round(height * ratio)) {
      canvas.width = round(width * ratio);
      canvas.height = round(height * ratio);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    let drawn = 0;
    const [west, east] = [-1, 1].map((side) => center[0] + (side * width * resolution) / 2);
    for (let turn = round(west / WORLD); turn <= round(east / WORLD); turn++) {
      drawn += this.#draw(pen, width, height, center[0] - turn * WORLD, center[1], resolution, ratio);
    }
    canvas.dataset.drawn = drawn;
    this.seen = drawn;
    return canvas;
  }

  /** Draw one world, each dot where nothing is yet; return how many. */
  #draw(pen, width, height, x0, y0, resolution, ratio) {
    const now = Date.now();
    let drawn = 0;
    const across = ceil(width / GRAIN);
    const taken = new Uint8Array(across * ceil(height / GRAIN));
    for (const dot of this.#ordered()) {
      const x = (dot.x - x0) / resolution + width / 2;
      const y = (y0 - dot.y) / resolution + height / 2;
      if (dot.box) this.#outline(pen, dot, x, y, resolution);
      if (x < 0 || y < 0 || x >= width || y >= height) continue;
      const cell = floor(y / GRAIN) * across + floor(x / GRAIN);
      if (taken[cell]) continue;
      taken[cell] = 1;
      const { canvas, half } = this.#sprite(dot, now, ratio);
      pen.drawImage(canvas, x - half, y - half, 2 * half, 2 * half);
      drawn++;
    }
    return drawn;
  }

  #outline(pen, dot, x, y, resolution) {
    const [wide, high] = dot.box.map((each) => each / resolution);
    pen.strokeStyle = colour("message");
    pen.strokeRect(x - wide / 2, y - high / 2, wide, high);
  }

  /** Return the picture of a dot, made once for each look. */
  #sprite(dot, now, ratio) {
    const isNew = now - dot.born < NEW_MS;
    const step = stepOf(dot, now);
    const isSmall = !dot.lit && this.seen > MANY;
    const key = step * 8 + (isSmall ? 4 : 0) + (dot.lit ? 2 : 0) + (isNew ? 1 : 0) + ratio * 1000;
    let found = this.sprites.get(key);
    if (!found) {
      const kind = dot.lit ? "match" : "message";
      const radius = (isSmall ? SMALL : RADIUS[kind]) + (isNew ? 3 : 0);
      found = picture(colour(kind), radius, 1 - (step / STEPS) * (1 - PALEST), ratio);
      this.sprites.set(key, found);
    }
    return found;
  }
}

/** Return how far a message has faded: 0 when it is new, STEPS at its end. */
function stepOf(dot, now) {
  return round(STEPS * min(max((now - dot.born) / (dot.expires - dot.born), 0), 1));
}

function picture(fill, radius, strength, ratio) {
  const half = radius + 2;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = ceil(2 * half * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.globalAlpha = strength;
  pen.beginPath();
  pen.arc(half, half, radius, 0, 2 * PI);
  pen.fillStyle = fill;
  pen.fill();
  pen.lineWidth = 1;
  pen.strokeStyle = colour("ground");
  pen.stroke();
  return { canvas, half };
}

/** Return the dot of a message that is a GeoJSON Feature. */
export function dotOf(given) {
  const now = Date.now();
  const [west, south, east, north] = boundsOf(given.geometry);
  const expires = Date.parse(given.properties?.expires ?? "") || now + LIFE_MS;
  return { ...placed(west, south, east, north), id: given.id, born: now, expires, message: given };
}

/** Return the dots of messages in the columns of /v1/map that are not known, the oldest first. */
function dotsOf(columns, isKnown) {
  const now = Date.now();
  const boxes = new Map(columns.boxes.map(([row, ...box]) => [row, box]));
  const made = [];
  for (let row = columns.id.length - 1; row >= 0; row--) {
    const id = columns.id[row];
    if (isKnown(id)) continue;
    const born = now - 1000 * columns.age_s[row];
    const left = columns.left_s[row];
    const [lon, lat] = [columns.lon[row], columns.lat[row]];
    const expires = left === null ? born + LIFE_MS : now + 1000 * left;
    made.push({ ...placed(...(boxes.get(row) ?? [lon, lat, lon, lat])), id, born, expires });
  }
  return made;
}

/** Return where a rectangle is on the map, and how large unless it is a point. */
function placed(west, south, east, north) {
  const [x0, y0] = ol.proj.fromLonLat([west, south]);
  if (west === east && south === north) return { x: x0, y: y0 };
  const [x1, y1] = ol.proj.fromLonLat([east < west ? east + 360 : east, north]);
  return { x: (x0 + x1) / 2, y: (y0 + y1) / 2, box: [x1 - x0, y1 - y0] };
}

function boundsOf({ type, coordinates }) {
  if (type === "Point") return [coordinates[0], coordinates[1], coordinates[0], coordinates[1]];
  const all = coordinates.flat(Infinity);
  const [lons, lats] = [0, 1].map((odd) => all.filter((_, at) => at % 2 === odd));
  return [min(...lons), min(...lats), max(...lons), max(...lats)];
}

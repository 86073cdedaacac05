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
const { PI, ceil, floor, hypot, max, min, round } = Math;
const WORLD = 2 * PI * 6378137;

export class MessageDots {
  constructor() {
    this.byId = new Map();
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
    const surplus = this.byId.size - MOST;
    if (surplus > 0) {
      const oldest = [...this.byId].sort(([, a], [, b]) => a.born - b.born).slice(0, surplus);
      for (const [id] of oldest) this.byId.delete(id);
    }
    this.layer.changed();
  }

  /** Show that a message was delivered. */
  light(dot) {
    dot.lit = true;
    this.layer.changed();
  }

  /** Forget messages that have died; the others grow paler. */
  fade() {
    const now = Date.now();
    for (const [id, dot] of this.byId) if (dot.expires <= now) this.byId.delete(id);
    if (!document.hidden && this.size) this.layer.changed();
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
    const worlds = ceil((width * resolution) / WORLD / 2);
    for (let turn = -worlds; turn <= worlds; turn++) {
      drawn += this.#draw(pen, width, height, center[0] + turn * WORLD, center[1], resolution, ratio);
    }
    canvas.dataset.drawn = drawn;
    return canvas;
  }

  /** Draw one world: those that were delivered first, then the newest, each where nothing is yet; return how many. */
  #draw(pen, width, height, x0, y0, resolution, ratio) {
    const now = Date.now();
    let drawn = 0;
    const across = ceil(width / GRAIN);
    const taken = new Uint8Array(across * ceil(height / GRAIN));
    const dots = [...this.byId.values()];
    for (const lit of [true, false]) {
      for (let at = dots.length - 1; at >= 0; at--) {
        const dot = dots[at];
        if (Boolean(dot.lit) !== lit) continue;
        const x = (dot.x - x0) / resolution + width / 2;
        const y = (y0 - dot.y) / resolution + height / 2;
        if (dot.box) this.#outline(pen, dot, x, y, resolution);
        if (x < 0 || y < 0 || x >= width || y >= height) continue;
        const cell = floor(y / GRAIN) * across + floor(x / GRAIN);
        if (taken[cell]) continue;
        taken[cell] = 1;
        const sprite = this.#sprite(lit ? "match" : "message", strengthOf(dot, now), now - dot.born < NEW_MS, ratio);
        pen.drawImage(sprite.canvas, x - sprite.half, y - sprite.half, 2 * sprite.half, 2 * sprite.half);
        drawn++;
      }
    }
    return drawn;
  }

  #outline(pen, dot, x, y, resolution) {
    const [wide, high] = dot.box.map((each) => each / resolution);
    pen.strokeStyle = colour("message");
    pen.strokeRect(x - wide / 2, y - high / 2, wide, high);
  }

  /** Return the picture of a dot, made once for each look. */
  #sprite(kind, strength, isNew, ratio) {
    const key = `${kind}:${strength}:${isNew}:${ratio}`;
    if (!this.sprites.has(key)) this.sprites.set(key, picture(kind, strength, isNew, ratio));
    return this.sprites.get(key);
  }
}

/** Return how strong a message is drawn, in steps from 1 when it is new to palest at its end. */
function strengthOf(dot, now) {
  const spent = min(max((now - dot.born) / (dot.expires - dot.born), 0), 1);
  return 1 - (round(spent * STEPS) / STEPS) * (1 - PALEST);
}

function picture(kind, strength, isNew, ratio) {
  const radius = RADIUS[kind] + (isNew ? 3 : 0);
  const half = radius + 2;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = ceil(2 * half * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.globalAlpha = strength;
  pen.beginPath();
  pen.arc(half, half, radius, 0, 2 * PI);
  pen.fillStyle = colour(kind);
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

/** Return the dots of messages in the columns of /v1/map, the oldest first. */
export function dotsOf(columns) {
  const now = Date.now();
  const boxes = new Map(columns.boxes.map(([row, ...box]) => [row, box]));
  const made = columns.id.map((id, row) => {
    const born = now - 1000 * columns.age_s[row];
    const left = columns.left_s[row];
    const [lon, lat] = [columns.lon[row], columns.lat[row]];
    const expires = left === null ? born + LIFE_MS : now + 1000 * left;
    return { ...placed(...(boxes.get(row) ?? [lon, lat, lon, lat])), id, born, expires };
  });
  return made.reverse();
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

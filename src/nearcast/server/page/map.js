// The map: land from a file, subscriptions one by one or counted by cell, messages as dots, and what was clicked.
/* global ol */

import { CountCells } from "./cells.js";
import { colour } from "./colours.js";
import { MessageDots, dotOf } from "./dots.js";
import { landFeatures } from "./land.js";

const { fromLonLat, toLonLat, transformExtent } = ol.proj;
const KINDS = { within: [], similar: [8, 5], topk: [2, 4] };
const LINE_MS = 2500;
const quiet = matchMedia("(prefers-reduced-motion: reduce)");

const styles = new Map();

/** Return the style of a kind of feature, made once for each colour scheme. */
function styleOf(kind) {
  if (!styles.has(kind)) styles.set(kind, makeStyle(kind));
  return styles.get(kind);
}

function makeStyle(kind) {
  const [r, g, b] = ol.color.asArray(colour(kind));
  const stroke = new ol.style.Stroke({ color: [r, g, b, 1], width: 2, lineDash: KINDS[kind] });
  const fill = (share) => new ol.style.Fill({ color: [r, g, b, share] });
  if (kind in KINDS) {
    const border = new ol.style.Stroke({ color: [r, g, b, 1], width: 2 });
    const image = new ol.style.RegularShape({ points: 4, radius: 7, fill: fill(0.5), stroke: border });
    return new ol.style.Style({ stroke, fill: fill(0.08), image });
  }
  const image = new ol.style.Circle({ radius: 7, fill: fill(0.7), stroke });
  return new ol.style.Style({ image, stroke, fill: fill(0.2) });
}

/** Return the shape of a GeoJSON geometry in the map's projection; a point with a radius is a circle on the sphere. */
function shapeOf(geometry, radius) {
  if (geometry.type === "Point" && radius) {
    return ol.geom.Polygon.circular(geometry.coordinates, radius, 64).transform("EPSG:4326", "EPSG:3857");
  }
  return new ol.format.GeoJSON().readGeometry(geometry, { featureProjection: "EPSG:3857" });
}

export class WorldMap {
  constructor(target, on) {
    this.on = on;
    this.messages = new MessageDots();
    this.cells = new CountCells();
    this.subscriptions = new ol.source.Vector();
    this.flashes = new ol.source.Vector();
    this.sketch = new ol.source.Vector();
    this.drawing = null;
    this.land = new ol.layer.VectorImage({ source: new ol.source.Vector(), style: () => landStyle() });
    const layer = (source, style, kind = ol.layer.Vector) => new kind({ source, style, updateWhileInteracting: false });
    this.map = new ol.Map({
      target,
      layers: [
        this.land,
        layer(this.subscriptions, (each) => styleOf(each.get("kind")), ol.layer.VectorImage),
        this.cells.squares,
        this.messages.layer,
        this.cells.numbers,
        layer(this.flashes, (each) => styleOf(each.get("kind") ?? "match")),
        layer(this.sketch, () => styleOf("match")),
      ],
      view: new ol.View({ center: fromLonLat([10, 30]), zoom: 2, minZoom: 1 }),
      controls: ol.control.defaults.defaults({ attribution: false, rotate: false }),
    });
    for (const button of document.querySelectorAll(".ol-zoom button")) button.setAttribute("aria-label", button.title);
    this.map.on("moveend", () => on.moved());
    this.map.on("singleclick", (event) => this.#clicked(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#redraw());
    setInterval(() => this.messages.fade(), 1000);
  }

  /** Draw the land of a TopoJSON file; look at the streets of a GeoJSON file if the server has one, and tell so. */
  async drawLand() {
    const land = await (await fetch("/page/vendor/land.json")).json();
    this.land.getSource().addFeatures(landFeatures(land));
    const answer = await fetch("/page/overlay.geojson");
    if (answer.status !== 200) return false;
    const options = { featureProjection: "EPSG:3857" };
    const streets = new ol.source.Vector({
      features: new ol.format.GeoJSON().readFeatures(await answer.json(), options),
    });
    this.land.getSource().addFeatures(streets.getFeatures());
    if (!streets.isEmpty()) this.map.getView().fit(streets.getExtent(), { padding: [12, 12, 12, 12] });
    return !streets.isEmpty();
  }

  /** Return the part of the world that is seen, as west, south, east, north, and the zoom. */
  seen() {
    const extent = this.map.getView().calculateExtent(this.map.getSize());
    const [west, south, east, north] = transformExtent(extent, "EPSG:3857", "EPSG:4326");
    const wide = east - west >= 360;
    const bbox = [wide ? -180 : wrapped(west), Math.max(south, -90), wide ? 180 : wrapped(east), Math.min(north, 90)];
    return { bbox: bbox.map((each) => each.toFixed(5)).join(","), zoom: Math.round(this.map.getView().getZoom()) };
  }

  /** Show what /v1/map answered: these subscriptions or cells and no others, and messages beside those that are shown. */
  show(found) {
    const drawn = JSON.stringify([found.features, found.cells]);
    if (drawn !== this.drawn) {
      this.subscriptions.clear(true);
      this.subscriptions.addFeatures(found.features.filter((each) => each.geometry).map(subscriptionFeature));
      this.cells.show(found.cells);
      this.drawn = drawn;
    }
    this.messages.addColumns(found.messages);
  }

  /** Show a message where it fell. */
  addMessage(given) {
    this.messages.add([dotOf(given)]);
  }

  /** Return a message that is shown: `message` is its Feature, where that is known. */
  message(id) {
    return this.messages.get(id);
  }

  /** Draw a line from a message to a subscription for a moment, with the subscription if it is not shown. */
  flash(dot, given) {
    if (!given?.geometry || quiet.matches) return;
    const isShown = this.subscriptions.getFeatures().some((each) => each.get("id") === given.id);
    const target = subscriptionFeature(given);
    const end = ol.extent.getCenter(target.getGeometry().getExtent());
    const line = new ol.Feature(new ol.geom.LineString([[dot.x, dot.y], end]));
    const made = isShown ? [line] : [target, line];
    this.flashes.addFeatures(made);
    setTimeout(() => this.flashes.removeFeatures(made), LINE_MS);
  }

  /** Let the user draw: "Box", "Circle", "Polygon" or "Point"; the region is given in columns of a subscription. */
  draw(kind, done) {
    this.stopDrawing();
    const options =
      kind === "Box" ? { type: "Circle", geometryFunction: ol.interaction.Draw.createBox() } : { type: kind };
    this.drawing = new ol.interaction.Draw({ source: this.sketch, ...options });
    this.drawing.on("drawstart", () => this.sketch.clear());
    this.drawing.on("drawend", (event) => {
      const columns = columnsOf(kind, event.feature.getGeometry());
      setTimeout(() => this.stopDrawing());
      done(columns);
    });
    this.map.addInteraction(this.drawing);
  }

  stopDrawing() {
    if (this.drawing) this.map.removeInteraction(this.drawing);
    this.drawing = null;
  }

  /** Show a region that was written instead of drawn, in columns of a subscription. */
  showSketch(columns) {
    this.sketch.clear();
    const geometry = geometryOf(columns);
    if (geometry) this.sketch.addFeature(new ol.Feature(shapeOf(geometry, columns.radius_m)));
  }

  centre() {
    return toLonLat(this.map.getView().getCenter()).map((each) => Number(each.toFixed(6)));
  }

  /** Return west, south, east, north of a subscription's Feature. */
  boundsOf(given) {
    return transformExtent(subscriptionFeature(given).getGeometry().getExtent(), "EPSG:3857", "EPSG:4326");
  }

  /** Look at west, south, east, north, at most as near as streets are seen well. */
  lookAt(bounds) {
    const extent = transformExtent(bounds, "EPSG:4326", "EPSG:3857");
    this.map.getView().fit(extent, { padding: [40, 40, 40, 40], maxZoom: 13 });
  }

  #clicked(event) {
    if (this.drawing) return;
    const dot = this.messages.at(event.coordinate, this.map.getView().getResolution());
    if (dot) {
      this.on.message(dot.message ?? { id: dot.id });
      return;
    }
    const options = { hitTolerance: 4 };
    const found = this.map.forEachFeatureAtPixel(event.pixel, (each) => (each.get("what") ? each : undefined), options);
    if (found?.get("what") === "cell") this.#enter(found.getGeometry().getExtent());
    else if (found) this.on.subscription(found.get("id"));
  }

  /** Zoom into a cell, so that it fills the map. */
  #enter(extent) {
    this.map.getView().fit(extent, { duration: quiet.matches ? 0 : 250 });
  }

  #redraw() {
    styles.clear();
    this.messages.recolour();
    for (const layer of this.map.getLayers().getArray()) layer.changed();
  }
}

function landStyle() {
  const stroke = new ol.style.Stroke({ color: colour("shore"), width: 1 });
  return new ol.style.Style({ fill: new ol.style.Fill({ color: colour("land") }), stroke });
}

/** Return the feature of a subscription. */
function subscriptionFeature(given) {
  const { kind = "within", radius_m: radius } = given.properties;
  return new ol.Feature({ geometry: shapeOf(given.geometry, radius), kind, what: "subscription", id: given.id });
}

const wrapped = (lon) => ((((lon + 180) % 360) + 360) % 360) - 180;
const rounded = ([lon, lat]) => [Number(wrapped(lon).toFixed(6)), Number(lat.toFixed(6))];

/** Return what was drawn in columns of a subscription. */
function columnsOf(kind, geometry) {
  if (kind === "Circle") {
    const [lon, lat] = rounded(toLonLat(geometry.getCenter()));
    const edge = toLonLat(geometry.getLastCoordinate());
    return { lon, lat, radius_m: Math.max(1, Math.round(ol.sphere.getDistance([lon, lat], edge))) };
  }
  if (kind === "Point") {
    const [lon, lat] = rounded(toLonLat(geometry.getCoordinates()));
    return { lon, lat };
  }
  if (kind === "Box") {
    const [x0, y0, x1, y1] = geometry.getExtent();
    const [[west, south], [east, north]] = [rounded(toLonLat([x0, y0])), rounded(toLonLat([x1, y1]))];
    return { west, south, east, north };
  }
  const rings = geometry.getCoordinates().map((ring) => ring.map((each) => rounded(toLonLat(each))));
  return { region: { type: "Polygon", coordinates: rings } };
}

/** Return the GeoJSON of a place in columns of a subscription, null if it has none. */
export function geometryOf(columns) {
  const { lon, lat, west, south, east, north, region } = columns;
  if (region) return region;
  if (west !== undefined)
    return {
      type: "Polygon",
      coordinates: [
        [
          [west, south],
          [east, south],
          [east, north],
          [west, north],
          [west, south],
        ],
      ],
    };
  return lon === undefined || lon === "" ? null : { type: "Point", coordinates: [lon, lat] };
}

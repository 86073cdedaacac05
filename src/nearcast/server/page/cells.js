// Subscriptions that are too many to draw one by one: squares, darker where there are more, with their number.
/* global ol */

import { colour } from "./colours.js";

const SHADES = 4;

export class CountCells {
  constructor() {
    this.source = new ol.source.Vector();
    this.most = 1;
    const layer = (style) => new ol.layer.VectorImage({ source: this.source, style });
    this.squares = layer((each) => this.#square(each));
    /** Above the dots of messages, which would hide them. */
    this.numbers = layer((each) => numberStyle(each));
  }

  /** Show these cells, each as west, south, east, north and its number, and no others. */
  show(cells) {
    this.most = Math.max(1, ...cells.map((each) => each[4]));
    this.source.clear(true);
    this.source.addFeatures(cells.map(cellFeature));
  }

  #square(cell) {
    const shade = Math.ceil((SHADES * Math.log1p(cell.get("count"))) / Math.log1p(this.most)) / SHADES;
    const [r, g, b] = ol.color.asArray(colour("within"));
    return new ol.style.Style({
      fill: new ol.style.Fill({ color: [r, g, b, 0.35 * shade] }),
      stroke: new ol.style.Stroke({ color: [r, g, b, 0.6], width: 1 }),
    });
  }
}

function numberStyle(cell) {
  const text = new ol.style.Text({
    text: cell.get("count").toLocaleString(),
    font: '600 12px system-ui, "DejaVu Sans", sans-serif',
    fill: new ol.style.Fill({ color: colour("text") }),
    stroke: new ol.style.Stroke({ color: colour("ground"), width: 4 }),
    overflow: true,
  });
  return new ol.style.Style({ text });
}

function cellFeature([west, south, east, north, count]) {
  const extent = ol.proj.transformExtent([west, south, east, north], "EPSG:4326", "EPSG:3857");
  return new ol.Feature({ geometry: ol.geom.Polygon.fromExtent(extent), what: "cell", count });
}

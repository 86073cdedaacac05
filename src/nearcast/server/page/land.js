// Land of a TopoJSON file as features of the map; rings that cross the dateline go on beyond it instead of back.
/* global ol */

/** The southern end of the map; Mercator has no pole. */
const SOUTH = -85.06;

/** Return a ring whose neighbours are never more than half the world apart; one around the pole is closed below it. */
function unwrapped(ring) {
  let turn = 0;
  const found = ring.map(([lon, lat], at) => {
    const step = at ? lon - ring[at - 1][0] : 0;
    if (step > 180) turn -= 360;
    else if (step < -180) turn += 360;
    return [lon + turn, Math.max(lat, SOUTH)];
  });
  if (turn === 0) return found;
  const [first, last] = [found[0], found.at(-1)];
  return [...found, [last[0], SOUTH], [first[0], SOUTH], first];
}

function polygonsOf(geometry) {
  return geometry.getType() === "Polygon" ? [geometry.getCoordinates()] : geometry.getCoordinates();
}

/** Return the features of a TopoJSON object in the projection of the map. */
export function landFeatures(json) {
  const read = new ol.format.TopoJSON().readFeatures(json);
  return read.flatMap((feature) =>
    polygonsOf(feature.getGeometry()).map((rings) => {
      const polygon = new ol.geom.Polygon(rings.map(unwrapped));
      return new ol.Feature(polygon.transform("EPSG:4326", "EPSG:3857"));
    }),
  );
}

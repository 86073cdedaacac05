// Rates, lag and times of answers from /metrics, as small charts.

import { textOf } from "./api.js";
import { element } from "./text.js";

const EVERY_MS = 2000;
const POINTS = 60;

export class HealthPanel {
  constructor(panel) {
    this.panel = panel;
    this.before = null;
    this.charts = new Map();
    this.told = element("p", { class: "error", role: "alert" });
    panel.append(this.told);
    setInterval(() => this.#look(), EVERY_MS);
  }

  async #look() {
    if (this.panel.hidden || document.hidden) return;
    try {
      this.#show(readMetrics(await textOf("/metrics")), performance.now());
      this.told.textContent = "";
    } catch (error) {
      this.told.textContent = error.message;
    }
  }

  #show(now, time) {
    const { before } = this;
    this.before = { metrics: now, time };
    this.#chart("Subscriptions", now.sum("nearcast_subscriptions"));
    this.#chart("Messages that wait", now.sum("nearcast_waiting_messages"));
    if (!before) return;
    const seconds = (time - before.time) / 1000;
    const rate = (name) => (now.sum(name) - before.metrics.sum(name)) / seconds;
    this.#chart("Messages a second", rate("nearcast_published_total"));
    this.#chart("Events handed over a second", rate("nearcast_events_total"));
    this.#chart("Webhook requests a second", rate("nearcast_webhook_attempts_total"));
    for (const share of [0.5, 0.99]) {
      const within = quantile(now, before.metrics, "post_messages", share) * 1000;
      this.#chart(`Time to publish, p${share * 100}, at most ms`, within);
    }
  }

  #chart(title, value) {
    if (!this.charts.has(title)) {
      const canvas = element("canvas", { class: "chart", width: 360, height: 54, role: "img" });
      const label = element("h2", {}, title);
      this.panel.append(label, canvas);
      this.charts.set(title, { canvas, label, values: [] });
    }
    const chart = this.charts.get(title);
    if (Number.isFinite(value)) chart.values.push(value);
    chart.values = chart.values.slice(-POINTS);
    const last = chart.values.at(-1);
    const text = last === undefined ? "none yet" : Number(last.toFixed(last < 100 ? 1 : 0)).toLocaleString();
    chart.label.textContent = `${title}: ${text}`;
    chart.canvas.setAttribute("aria-label", chart.label.textContent);
    drawLine(chart.canvas, chart.values);
  }
}

function drawLine(canvas, values) {
  const pen = canvas.getContext("2d");
  const most = Math.max(...values, 1e-9);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--accent");
  pen.lineWidth = 2;
  pen.beginPath();
  const place = (value, at) => [
    4 + (at / (POINTS - 1)) * (canvas.width - 8),
    canvas.height - 4 - (value / most) * (canvas.height - 8),
  ];
  values.forEach((value, at) => pen.lineTo(...place(value, at)));
  pen.stroke();
  if (!values.length) return;
  const [x, y] = place(values.at(-1), values.length - 1);
  pen.fillStyle = pen.strokeStyle;
  pen.fillRect(x - 2, y - 2, 4, 4);
}

/** Read the text format of Prometheus. */
export function readMetrics(text) {
  const rows = [];
  for (const line of text.split("\n")) {
    const found = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (found) rows.push({ name: found[1], labels: found[2] ?? "", value: Number(found[3]) });
  }
  return {
    rows,
    sum: (name) => rows.filter((each) => each.name === name).reduce((total, each) => total + each.value, 0),
  };
}

/** Return a quantile of the answers of a route between two looks, from the buckets of its histogram. */
function quantile(now, before, route, share) {
  const buckets = (metrics) =>
    new Map(
      metrics.rows
        .filter((each) => each.name === "nearcast_request_seconds_bucket" && each.labels.includes(`route="${route}"`))
        .map((each) => [Number(/le="([^"]+)"/.exec(each.labels)[1].replace("+Inf", "Infinity")), each.value]),
    );
  const [later, earlier] = [buckets(now), buckets(before)];
  const counts = [...later]
    .map(([limit, value]) => [limit, value - (earlier.get(limit) ?? 0)])
    .sort((a, b) => a[0] - b[0]);
  const total = counts.at(-1)?.[1] ?? 0;
  if (!total) return NaN;
  return counts.find(([, value]) => value >= share * total)[0];
}

import { element, svgElement } from "./dom.js";
import { clock, number } from "./format.js";

export interface Series {
  readonly name: string;
  /** The class that gives it colour and pattern: lines never differ by colour only. */
  readonly kind: string;
  readonly values: readonly number[];
}

export interface ChartOptions {
  readonly id: string;
  readonly title: string;
  /** What the chart says, in a sentence. */
  readonly summary: string;
  /** The beginning of each part of the time, and the end of the last one. */
  readonly times: readonly Date[];
  readonly series: readonly Series[];
  readonly filled?: boolean;
}

const height = 180;
const margin = { top: 10, right: 12, bottom: 24, left: 44 };

/** Up to four steps of 1, 2 or 5 times a power of ten. */
function axisOf(most: number): { readonly top: number; readonly ticks: readonly number[] } {
  const rough = Math.max(most, 4) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough)!;
  const steps = Math.max(1, Math.ceil(most / step));
  return { top: step * steps, ticks: Array.from({ length: steps + 1 }, (_, index) => index * step) };
}

/** Lines over time with axes, a legend and, for everybody who wants numbers, a table. */
export function chart(options: ChartOptions): HTMLElement {
  const { id, title, summary, series, times } = options;
  return element(
    "figure",
    { class: "chart" },
    element(
      "figcaption",
      {},
      element("span", { class: "chart-title" }, title),
      series.length > 1 && legend(series),
    ),
    fitted((width) => drawing(options, width)),
    element("p", { class: "visually-hidden" }, summary),
    element(
      "details",
      { id: `${id}-table` },
      element("summary", { id: `${id}-summary` }, "As a table"),
      element(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": `${title}, as a table` },
        numbersTable(title, series, times),
      ),
    ),
  );
}

/** Draws again whenever its width changes, so that texts keep their size. */
function fitted(draw: (width: number) => SVGElement): HTMLElement {
  const box = element("div", { class: "drawing" });
  new ResizeObserver(([entry]) => {
    const width = Math.floor(entry!.contentRect.width);
    if (width > 0) box.replaceChildren(draw(width));
  }).observe(box);
  return box;
}

const legend = (series: readonly Series[]): HTMLElement =>
  element(
    "span",
    { class: "legend" },
    series.map(({ name, kind }) =>
      element(
        "span",
        {},
        svgElement(
          "svg",
          { viewBox: "0 0 24 8", width: 24, height: 8, "aria-hidden": "true" },
          svgElement("line", { class: `line ${kind}`, x1: 0, y1: 4, x2: 24, y2: 4 }),
        ),
        ` ${name}`,
      ),
    ),
  );

function drawing({ title, series, times, filled = false }: ChartOptions, width: number): SVGElement {
  const inner = { width: width - margin.left - margin.right, height: height - margin.top - margin.bottom };
  const points = series[0]?.values.length ?? 0;
  const { top, ticks } = axisOf(Math.max(0, ...series.flatMap(({ values }) => values)));
  const x = (index: number) => margin.left + (inner.width * (index + 0.5)) / Math.max(points, 1);
  const y = (value: number) => margin.top + inner.height * (1 - value / top);
  const path = (values: readonly number[]) =>
    values.map((value, index) => `${index === 0 ? "M" : "L"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`);
  const area = (values: readonly number[]) =>
    `${path(values).join("")}L${x(points - 1).toFixed(1)} ${y(0)}L${x(0).toFixed(1)} ${y(0)}Z`;
  return svgElement(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": title },
    ticks.map((value) => [
      svgElement("line", {
        class: "grid",
        x1: margin.left,
        x2: width - margin.right,
        y1: y(value),
        y2: y(value),
      }),
      svgElement(
        "text",
        { class: "tick", x: margin.left - 8, y: y(value) + 4, "text-anchor": "end" },
        compact(value),
      ),
    ]),
    timeLabels(times, width, inner.width),
    series.map(({ kind, values }) => [
      filled && points > 0 && svgElement("path", { class: `area ${kind}`, d: area(values) }),
      points > 0 && svgElement("path", { class: `line ${kind}`, d: path(values).join("") }),
    ]),
  );
}

const compact = (value: number): string =>
  value >= 10_000 ? new Intl.NumberFormat("en-GB", { notation: "compact" }).format(value) : number(value);

function timeLabels(times: readonly Date[], width: number, innerWidth: number): readonly SVGElement[] {
  const last = times.length - 1;
  const wanted = width < 420 ? 2 : 4;
  return Array.from({ length: wanted + 1 }, (_, index) => {
    const share = index / wanted;
    return svgElement(
      "text",
      {
        class: "tick",
        x: margin.left + innerWidth * share,
        y: height - 6,
        "text-anchor": index === 0 ? "start" : index === wanted ? "end" : "middle",
      },
      clock(times[Math.round(last * share)] ?? new Date()),
    );
  });
}

const numbersTable = (title: string, series: readonly Series[], times: readonly Date[]): HTMLElement =>
  element(
    "table",
    { class: "numbers" },
    element("caption", { class: "visually-hidden" }, title),
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        element("th", { scope: "col" }, "From"),
        series.map(({ name }) => element("th", { scope: "col" }, name)),
      ),
    ),
    element(
      "tbody",
      {},
      times.slice(0, -1).map((time, index) =>
        element(
          "tr",
          {},
          element("th", { scope: "row" }, clock(time)),
          series.map(({ values }) => element("td", {}, number(values[index] ?? 0))),
        ),
      ),
    ),
  );

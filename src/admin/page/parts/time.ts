import { element } from "../dom.js";
import { ago, moment } from "../format.js";

/** `5 min ago`, with the moment as its tooltip and for machines. */
export const when = (iso: string | null): Node | string =>
  iso === null ? "–" : element("time", { datetime: iso, title: moment(iso) }, ago(iso));

/** The moment itself. */
export const at = (iso: string): Node => element("time", { datetime: iso, title: ago(iso) }, moment(iso));

import { element } from "../dom.js";
import { linkTo, type Queue } from "../routes.js";
import { type Key, keyText } from "../wire.js";

export const messageLink = (queue: Queue, key: Key): HTMLElement =>
  element("a", { class: "key", href: linkTo("message", queue, { ...key }) }, keyText(key));

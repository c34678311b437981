import { element } from "../dom.js";
import { keyText } from "../key-text.js";
import { linkTo, type Queue } from "../routes.js";
import type { Key } from "../wire.js";

export const messageLink = (queue: Queue, key: Key): HTMLElement =>
  element("a", { class: "key", href: linkTo("message", queue, { ...key }) }, keyText(key));

import type { AnyHandler } from "./service-options.js";

/** The handler of an endpoint. Not what every object inherits: an endpoint may be named `toString`. */
export const handlerFor = (
  handlers: Readonly<Record<string, AnyHandler>> | undefined,
  endpoint: string,
): AnyHandler | undefined =>
  handlers !== undefined && Object.hasOwn(handlers, endpoint) ? handlers[endpoint] : undefined;

import { status } from "./dialect.js";

/** A row of a state table that the inbox shows as Seen: a message that was only seen, or a key that was released. */
export const isShownAsSeen = (s: string): string =>
  `(${s}.status = ${status.seen} or (${s}.status = ${status.leased} and ${s}.locked_until is null))`;

/**
 * The status of a row is one of the parameters. A key counts as seen when it was released, and else as held. The first
 * condition stands alone, so that a database can use an index for it.
 */
export function hasStatus(s: string, parameters: readonly string[]): string {
  const list = parameters.join(", ");
  const shown = `case when ${s}.locked_until is null then ${status.seen} else ${status.held} end`;
  return `(${s}.status in (${list}) and (${s}.status <> ${status.leased} or ${shown} in (${list})))`;
}

import { defined } from "../base/defined.js";
import type { NotifyQueue } from "../sql/dialect.js";
import type { ServiceParts } from "./service-parts.js";

/** The name of a service's outbox. */
export const outboxQueue = ({
  options,
  settings,
}: ServiceParts): NotifyQueue & { readonly table: string } => ({
  kind: "outbox",
  table: `${settings.table}_outbox`,
  ...defined({ schema: options.schema }),
});

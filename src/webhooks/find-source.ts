import { decoded } from "../base/decoded.js";
import { webhookPath } from "./schemes/webhook-path.js";
import type { ResolvedSource } from "./sources.js";

export interface FoundSource {
  readonly source?: ResolvedSource | undefined;
  /** `/webhooks/{source}` or `/webhooks/{source}/{tenant}`, without the prefix that a gateway adds. */
  readonly path: string;
}

/** Finds no source when the path names a tenant and the source does not read it from there. */
export function findSource(url: string, sources: ReadonlyMap<string, ResolvedSource>): FoundSource {
  const { path, source: encoded, tenant } = webhookPath(url);
  const source = sources.get(decoded(encoded) ?? "");
  const isFound = tenant === undefined || (source !== undefined && hasTenantInPath(source));
  return isFound ? { source, path } : { path };
}

const hasTenantInPath = ({ tenant }: ResolvedSource): boolean =>
  tenant.some((parts) => parts.some((part) => part.placeholder === "path"));

import { decoded } from "../base/decoded.js";
import type { AdminRoute } from "./admin-route.js";

/** What stands at a path: the routes by method, and the names in the path. */
export interface FoundRoutes {
  readonly byMethod: ReadonlyMap<string, AdminRoute>;
  readonly names: Readonly<Record<string, string>>;
}

const base = "/_oncebox";
/** The base in the document on messages between services, which has these paths and no others. */
const otherBase = "/_rf/";
const otherPaths = /^(health|(inbox|outbox)\/stats|outbox\/failed|outbox\/[^/]+\/retry)$/;

/** The part of the path behind the base, without the prefix that a gateway adds. Undefined where there is no base. */
export function pathBehindBase(path: string): string | undefined {
  const at = path.indexOf(`${base}/`);
  if (at >= 0) return path.slice(at + base.length + 1);
  if (path.endsWith(base)) return "";
  const other = path.indexOf(otherBase);
  const rest = path.slice(other + otherBase.length);
  return other >= 0 && otherPaths.test(rest) ? rest : undefined;
}

/** Returns undefined for a path that no route has, or that is not valid percent-encoding. */
export function routeFinder(routes: readonly AdminRoute[]): (path: string) => FoundRoutes | undefined {
  const paths = [...new Set(routes.map(({ path }) => path))].map((path) => ({
    pattern: patternOf(path),
    byMethod: new Map(routes.filter((route) => route.path === path).flatMap(byMethod)),
  }));
  return (path) => {
    for (const { pattern, byMethod: found } of paths) {
      const match = pattern.exec(path);
      if (match === null) continue;
      const names = Object.entries(match.groups ?? {}).map(([name, text]) => [name, decoded(text)] as const);
      if (names.some(([, text]) => text === undefined)) return undefined;
      return { byMethod: found, names: Object.fromEntries(names) as Record<string, string> };
    }
    return undefined;
  };
}

const patternOf = (path: string): RegExp =>
  new RegExp(`^${path.replace(/\{(\w+)\}$/, "(?<$1>.+)").replace(/\{(\w+)\}/g, "(?<$1>[^/]+)")}$`);

const byMethod = (route: AdminRoute): readonly (readonly [string, AdminRoute])[] =>
  (route.method === "GET" ? ["GET", "HEAD"] : ["POST"]).map((method) => [method, route]);

import type * as z from "zod/mini";
import { decoded, type PlainRequest } from "../base/plain-http.js";
import type { OperatedStores } from "../operators/operators-of.js";
import { checkFields, type Read, readFields } from "../service/http/read-fields.js";
import type { Answer } from "./responses.js";

/** What a route knows of the request beside its fields. */
export interface AdminCall {
  /** Who asks: the token's name, and the person if the request names one. */
  readonly by: string;
  readonly signal: AbortSignal;
}

interface RouteParts<Fields> {
  /** `{name}` stands for one part of the path, and at its end for the rest. */
  readonly path: string;
  readonly method: "GET" | "POST";
  /** Of the path's names and the query's; of a POST, the body's instead of the query's. */
  readonly request: z.ZodMiniType<Fields>;
}

/** On the queues of one database: the app's, or that of the tenant that `?tenant=` names. */
interface StoreRoute<Fields = unknown> extends RouteParts<Fields> {
  readonly on: "store";
  run(stores: OperatedStores, fields: Fields, call: AdminCall): Promise<Answer>;
}

/** On all that the app has. */
interface AppRoute<Fields = unknown> extends RouteParts<Fields> {
  readonly on: "app";
  run(fields: Fields, call: AdminCall): Promise<Answer>;
}

export type AdminRoute = StoreRoute | AppRoute;

/** Checks that `run` takes what the schema accepts. */
export const storeRoute = <Fields>(route: Omit<StoreRoute<Fields>, "on">): StoreRoute =>
  ({ on: "store", ...route }) as StoreRoute;
export const appRoute = <Fields>(route: Omit<AppRoute<Fields>, "on">): AppRoute =>
  ({ on: "app", ...route }) as AppRoute;

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

/** A body may hold a payload that was edited. Nothing is read of a request without a token. */
export const maxBodyBytes = 4 * 1024 * 1024;

export interface RequestFields {
  /** Of the path, the query and the body. */
  readonly fields: unknown;
  readonly tenant: string | undefined;
}

/** Returns what a request says, or what is wrong with it. */
export async function readRequest(
  request: PlainRequest,
  route: AdminRoute,
  { names }: Pick<FoundRoutes, "names">,
): Promise<Read<RequestFields>> {
  const query = readQuery(request);
  if ("refusal" in query) return query;
  const { tenant, ...rest } = query.value;
  const read =
    route.method === "GET"
      ? checkFields({ ...rest, ...names }, route)
      : await readPost(request, route, rest, names);
  return "refusal" in read ? read : { value: { fields: read.value, tenant } };
}

async function readPost(
  request: PlainRequest,
  route: AdminRoute,
  query: Readonly<Record<string, string>>,
  names: FoundRoutes["names"],
): Promise<Read<unknown>> {
  const unknown = Object.keys(query);
  if (unknown.length > 0) {
    const field = unknown[0]!.slice(0, 100).toWellFormed();
    const message = `There is no field "${field}" in the query.`;
    return { refusal: { code: "UnknownField", message, field, logged: { unknown: unknown.length } } };
  }
  return readFields(request, route, { maxBytes: maxBodyBytes, mayBeEmpty: true, names });
}

/** The parameters of a query. One that is given twice is refused: which of them was meant? */
function readQuery({ url }: PlainRequest): Read<Readonly<Record<string, string>>> {
  const start = url.indexOf("?");
  const query = new URLSearchParams(start < 0 ? "" : url.slice(start).split("#", 1)[0]);
  const fields: Record<string, string> = Object.create(null);
  for (const [field, value] of query) {
    if (field in fields) {
      const name = field.slice(0, 100).toWellFormed();
      const message = `${name} is given twice.`;
      return { refusal: { code: "InvalidField", message, field: name, logged: {} } };
    }
    fields[field] = value;
  }
  return { value: fields };
}

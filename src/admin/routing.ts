import type { AdminApiRoute } from "../http/admin-api.js";
import type { Answer } from "../http/admin-responses.js";
import { checkFields, type Read, readFields, readQuery, type Taker } from "../http/fields.js";
import { decoded, type PlainRequest } from "../http/plain.js";
import { type PathNames, pathFrom } from "../http/routes.js";
import type { OperatedStores } from "../operators/operators-of.js";

/** What a route knows of the request beside its fields. */
export interface AdminCall {
  /** Who asks: the token's name, and the person if the request names one. */
  readonly by: string;
  readonly signal: AbortSignal;
}

/** Its fields are the path's names and the query's; of a POST, the body's instead of the query's. */
type RouteParts<Fields> = AdminApiRoute & Taker<Fields>;

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

const base = "/_oncebox";

/**
 * The part of the path behind the base, without the prefix that a gateway adds. Undefined where there is no base, or the path
 * is not valid percent-encoding.
 */
export function pathBehindBase(path: string): string | undefined {
  if (decoded(path) === undefined) return undefined;
  const own = pathFrom(path, `${base}/`);
  if (own !== undefined) return own.slice(base.length + 1);
  return path.endsWith(base) ? "" : undefined;
}

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
  names: PathNames,
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
  names: PathNames,
): Promise<Read<unknown>> {
  const unknown = Object.keys(query);
  if (unknown.length > 0) {
    const field = unknown[0]!.slice(0, 100).toWellFormed();
    const message = `There is no field "${field}" in the query.`;
    return { refusal: { code: "UnknownField", message, field, logged: { unknown: unknown.length } } };
  }
  return readFields(request, route, { maxBytes: maxBodyBytes, mayBeEmpty: true, names });
}

import type { PlainRequest } from "../base/plain-http.js";
import { checkFields, type Read, readFields } from "../service/http/read-fields.js";
import type { AdminRoute } from "./admin-route.js";
import type { FoundRoutes } from "./find-route.js";
import { readQuery } from "./read-query.js";

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

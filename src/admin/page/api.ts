import { type Query, type Queue, searchOf } from "./routes.js";
import type * as wire from "./wire.js";

/** What the page remembers until the tab is closed. There are no cookies. */
const names = {
  token: "oncebox-token",
  by: "oncebox-by",
  tenant: "oncebox-tenant",
  sample: "oncebox-sample",
};

type SessionField = keyof typeof names;

export const remembered = (field: SessionField): string => sessionStorage.getItem(names[field]) ?? "";

export function remember(field: SessionField, value: string): void {
  if (value === "") sessionStorage.removeItem(names[field]);
  else sessionStorage.setItem(names[field], value);
}

export function forgetAll(): void {
  for (const field of Object.keys(names) as SessionField[]) remember(field, "");
}

/** Takes the token out of a link such as `#token=…&sample=…`, and out of the address and the history. */
export function takeFromAddress(): void {
  const given = new URLSearchParams(location.hash.slice(1));
  const token = given.get("token");
  if (token === null) return;
  remember("token", token);
  remember("sample", given.get("sample") ?? "");
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
}

/** The API is beside this script, whatever path the two are served at. */
const base = new URL("./", import.meta.url);

/** A response other than 2xx. Its message is for the reader. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    /** How long to wait before the next request, when the server says so. */
    readonly waitMs = 0,
  ) {
    super(message);
  }
}

let refused: (reason: string) => void = () => {};

/** Called when the server no longer accepts the token: it was changed, or has expired. */
export function onRefusedToken(call: (reason: string) => void): void {
  refused = call;
}

interface Call {
  readonly signal?: AbortSignal | undefined;
}

async function request<T>(method: "GET" | "POST", path: string, call: Call, body?: unknown): Promise<T> {
  const by = remembered("by");
  const response = await fetch(new URL(path, base), {
    method,
    headers: {
      authorization: `Bearer ${remembered("token")}`,
      ...(by === "" ? {} : { "x-oncebox-by": encodeURIComponent(by) }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    body: body === undefined ? null : JSON.stringify(body),
    signal: call.signal ?? null,
    credentials: "omit",
    cache: "no-store",
    redirect: "error",
    referrerPolicy: "no-referrer",
  });
  const text = await response.text();
  if (!response.ok) {
    const waitMs = Number(response.headers.get("retry-after") ?? 0) * 1_000;
    const error = new ApiError(response.status, problemOf(response.status, text), waitMs);
    if (error.status === 401) refused(error.message);
    throw error;
  }
  return JSON.parse(text) as T;
}

const byStatus: Readonly<Record<number, string>> = {
  401: "The token is not accepted.",
  404: "There is no such message.",
  429: "Too many requests. Wait a minute and try again.",
  503: "The database cannot be reached.",
};

function problemOf(status: number, text: string): string {
  if (status === 401) return byStatus[401]!;
  try {
    const { message } = (JSON.parse(text) as { error: { message: unknown } }).error;
    if (typeof message === "string" && message !== "") return message;
  } catch {
    // not the API's own response: a gateway's, say
  }
  return byStatus[status] ?? `The server answered with status ${status}.`;
}

const ofTenant = (query: Query = {}): string =>
  searchOf({ ...query, tenant: remembered("tenant") || undefined });
const get = <T>(path: string, call: Call = {}, query?: Query) =>
  request<T>("GET", `${path}${ofTenant(query)}`, call);
const post = <T>(path: string, body: unknown, call: Call = {}) =>
  request<T>("POST", `${path}${ofTenant()}`, call, body);

/** The fields of a filter, as they are in the address and in the API. */
const filterFields = ["topic", "source", "error", "errorGroup", "olderThanMs", "newerThanMs"] as const;
export type Filter = Readonly<Partial<Record<(typeof filterFields)[number], string>>>;

/** In a body, numbers are numbers. */
const bodyOf = ({ olderThanMs, newerThanMs, ...texts }: Filter) => ({
  ...texts,
  ...(olderThanMs === undefined ? {} : { olderThanMs: Number(olderThanMs) }),
  ...(newerThanMs === undefined ? {} : { newerThanMs: Number(newerThanMs) }),
});

export interface ControlTarget {
  readonly scope: wire.Control["scope"];
  readonly name: string | null;
}
const targetOf = ({ scope, name }: ControlTarget) => (scope === "queue" ? { all: true } : { [scope]: name });

export const api = {
  health: (call?: Call) => get<{ readonly status: string; readonly version: string }>("health", call),
  tenants: (query: { readonly after?: string }, call: Call = {}) =>
    request<wire.TenantPage>("GET", `tenants${searchOf(query)}`, call),
  stats: (queue: Queue, call?: Call) => get<wire.Stats>(`${queue}/stats`, call),
  activity: (queue: Queue, query: { sinceMs: number; buckets: number }, call?: Call) =>
    get<wire.Activity>(`${queue}/activity`, call, query),
  messages: (queue: Queue, query: Query, call?: Call) =>
    get<wire.MessagePage>(`${queue}/messages`, call, query),
  message: (queue: Queue, key: wire.Key, call?: Call & { readonly payload?: boolean }) =>
    get<wire.MessageWithAttempts>(`${queue}/message`, call, {
      ...key,
      payload: call?.payload ? "true" : undefined,
    }),
  groups: async (queue: Queue, filter: Filter, call?: Call) =>
    (await get<{ readonly groups: readonly wire.DeadGroup[] }>(`${queue}/dead/groups`, call, filter)).groups,
  countDead: async (queue: Queue, filter: Filter, call?: Call) =>
    (await get<{ readonly count: number }>(`${queue}/dead/count`, call, filter)).count,
  change: (queue: Queue, action: wire.BulkAction, keys: readonly wire.Key[]) =>
    post<wire.Settlement>(`${queue}/dead/${action}`, { keys }),
  edit: (queue: Queue, key: wire.Key, changes: Readonly<Record<string, unknown>>) =>
    post<{ readonly key: wire.Key }>(`${queue}/dead/edit`, { key, changes }),
  operations: async (queue: Queue, call?: Call) =>
    (await get<{ readonly operations: readonly wire.Operation[] }>(`${queue}/operations`, call)).operations,
  startOperation: (queue: Queue, action: wire.BulkAction, filter: Filter) =>
    post<wire.Operation>(`${queue}/operations`, { action, filter: bodyOf(filter) }),
  /** `resume`: it was interrupted, and who goes on with it is recorded. */
  continueOperation: (
    queue: Queue,
    id: string,
    batch: { readonly batchSize: number; readonly resume?: true },
    call?: Call,
  ) => post<wire.Operation>(`${queue}/operations/${encodeURIComponent(id)}/continue`, batch, call),
  partitions: async (queue: Queue, call?: Call) =>
    (await get<{ readonly partitions: readonly wire.BlockedPartition[] }>(`${queue}/partitions`, call))
      .partitions,
  unhandled: async (queue: Queue, call?: Call) =>
    (await get<{ readonly topics: readonly wire.UnhandledTopic[] }>(`${queue}/unhandled`, call)).topics,
  controls: async (queue: Queue, call?: Call) =>
    (await get<{ readonly controls: readonly wire.Control[] }>(`${queue}/controls`, call)).controls,
  pause: (queue: Queue, target: ControlTarget) => post(`${queue}/pause`, targetOf(target)),
  resume: (queue: Queue, target: ControlTarget) => post(`${queue}/resume`, targetOf(target)),
  /** Null takes a limit away. */
  limit: (queue: Queue, target: ControlTarget, perSecond: number | null) =>
    post(`${queue}/limit`, { ...targetOf(target), perSecond }),
  trace: async (id: string, call?: Call) =>
    (await get<{ readonly steps: readonly wire.TraceStep[] }>(`correlation/${encodeURIComponent(id)}`, call))
      .steps,
};

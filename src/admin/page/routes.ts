export const queues = ["inbox", "outbox"] as const;
export type Queue = (typeof queues)[number];
export const queueName: Readonly<Record<Queue, string>> = { inbox: "Inbox", outbox: "Outbox" };

export const viewNames = [
  "overview",
  "dead",
  "messages",
  "message",
  "trace",
  "partitions",
  "pauses",
  "tenants",
] as const;
export type ViewName = (typeof viewNames)[number];

/** What the part of the address behind `#` says. */
export interface Route {
  readonly view: ViewName;
  readonly queue: Queue;
  readonly query: Readonly<Record<string, string>>;
}

/** An address that names nothing is the overview. */
export function parseRoute(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [view, queue] = path.split("/");
  return {
    view: viewNames.find((name) => name === view) ?? "overview",
    queue: queues.find((name) => name === queue) ?? "inbox",
    query: Object.fromEntries(new URLSearchParams(search)),
  };
}

export type Query = Readonly<Record<string, string | number | undefined>>;

export function searchOf(query: Query): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const text = new URLSearchParams(
    Object.fromEntries(given.map(([name, value]) => [name, String(value)])),
  ).toString();
  return text === "" ? "" : `?${text}`;
}

export const linkTo = (view: ViewName, queue?: Queue, query: Query = {}): string =>
  `#/${view}${queue === undefined ? "" : `/${queue}`}${searchOf(query)}`;

const id = "0190a5c2-7d3e-7b1a-9c4f-2e8d6a1b3c5d";
const keys = { inbox: { source: "a", messageId: "1" }, outbox: { id } } as const;

export interface AdminRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: object;
  /** The status with a right token, on empty queues. */
  readonly status: number;
}

/** A right request for each route of a queue. */
const onQueue = (queue: "inbox" | "outbox"): readonly AdminRequest[] => [
  { method: "GET", path: `${queue}/stats`, status: 200 },
  { method: "GET", path: `${queue}/activity`, status: 200 },
  { method: "GET", path: `${queue}/partitions`, status: 200 },
  { method: "GET", path: `${queue}/unhandled`, status: 200 },
  { method: "GET", path: `${queue}/controls`, status: 200 },
  { method: "POST", path: `${queue}/pause`, body: { topic: "t" }, status: 200 },
  { method: "POST", path: `${queue}/resume`, body: { topic: "t" }, status: 200 },
  { method: "POST", path: `${queue}/limit`, body: { all: true, perSecond: null }, status: 200 },
  { method: "GET", path: `${queue}/messages`, status: 200 },
  { method: "GET", path: `${queue}/failed`, status: 200 },
  { method: "GET", path: `${queue}/message?${new URLSearchParams(keys[queue] as never)}`, status: 404 },
  { method: "GET", path: `${queue}/dead/groups`, status: 200 },
  { method: "GET", path: `${queue}/dead/count`, status: 200 },
  { method: "POST", path: `${queue}/dead/replay`, body: { keys: [keys[queue]] }, status: 200 },
  { method: "POST", path: `${queue}/dead/discard`, body: { keys: [keys[queue]] }, status: 200 },
  { method: "POST", path: `${queue}/dead/archive`, body: { keys: [keys[queue]] }, status: 200 },
  {
    method: "POST",
    path: `${queue}/dead/edit`,
    body: { key: keys[queue], changes: { topic: "t" } },
    status: 409,
  },
  { method: "GET", path: `${queue}/operations`, status: 200 },
  { method: "POST", path: `${queue}/operations`, body: { action: "replay", filter: {} }, status: 200 },
  { method: "POST", path: `${queue}/operations/${id}/continue`, body: {}, status: 409 },
];

/** A right request for every route. A test compares the list with the routes that there are. */
export const allRequests: readonly AdminRequest[] = [
  { method: "GET", path: "health", status: 200 },
  { method: "GET", path: "tenants", status: 200 },
  ...onQueue("inbox"),
  ...onQueue("outbox"),
  { method: "GET", path: "correlation/evt_1", status: 200 },
  { method: "POST", path: `outbox/${id}/retry`, status: 404 },
];

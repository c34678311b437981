import { type KeyObject, verify } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { listenOn } from "../loopback.js";

export interface Attempt {
  readonly guid: string;
  /** 200, or why the attempt failed; 0 where nothing answered. */
  readonly status: number;
  readonly at: Date;
}

export interface Refusal {
  /** 0 does not answer at all. */
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface GithubApiServer {
  readonly url: string;
  /** Methods and paths of all requests. */
  readonly requests: readonly string[];
  /** The guids that were asked for again, in order. */
  readonly redelivered: readonly string[];
  /** Answers the next request so, instead of doing what it asks for. */
  refuseNext(refusal: Refusal): void;
  close(): Promise<void>;
}

export interface GithubApiState {
  /** By the path of the deliveries; in any order. */
  readonly hooks: Readonly<Record<string, readonly Attempt[]>>;
  readonly token?: string;
  /** Of the GitHub App. */
  readonly publicKey?: KeyObject;
  /** The status that a redelivery gets. 200 by default. */
  readonly redeliveryStatus?: number;
  readonly now?: Date;
}

/** Beyond what a number of JavaScript can hold exactly. */
const firstId = 9_007_199_254_740_993n;

/** A server that speaks the part of GitHub's REST API that lists deliveries, page by page, and delivers again. */
export async function startGithubApi(state: GithubApiState): Promise<GithubApiServer> {
  const { redeliveryStatus = 200, now = new Date() } = state;
  const requests: string[] = [];
  const redelivered: string[] = [];
  const refusals: Refusal[] = [];
  let nextId = firstId;
  const hooks = new Map(
    Object.entries(state.hooks).map(([path, attempts]) => [
      path,
      attempts.map((one) => ({ ...one, id: String(nextId++), redelivery: false })),
    ]),
  );

  const list = (path: string, url: URL, response: ServerResponse) => {
    const newestFirst = hooks.get(path)!.toSorted((one, other) => other.at.getTime() - one.at.getTime());
    const size = Number(url.searchParams.get("per_page") ?? 30);
    const start = Number(url.searchParams.get("cursor")?.replace("v1_", "") ?? 0);
    const hasMore = start + size < newestFirst.length;
    const next = `<${url.origin}${path}?per_page=${size}&cursor=v1_${start + size}>; rel="next"`;
    const entries = newestFirst.slice(start, start + size).map(({ id, guid, status, at, redelivery }) => {
      const text = status === 200 ? "OK" : "failed";
      const fields = { guid, delivered_at: at.toISOString(), redelivery, status: text, status_code: status };
      return `{"id":${id},${JSON.stringify(fields).slice(1)}`; // JSON.stringify would round the id
    });
    response.writeHead(200, { "content-type": "application/json", ...(hasMore ? { link: next } : {}) });
    response.end(`[${entries.join(",")}]`);
  };

  const redeliver = (path: string, response: ServerResponse) => {
    const [, hook = "", id] = /^(.*)\/(\d+)\/attempts$/.exec(path) ?? [];
    const attempts = hooks.get(hook);
    const found = attempts?.find((one) => one.id === id);
    if (found === undefined) return refuse(response, { status: 404 });
    redelivered.push(found.guid);
    attempts!.push({ ...found, id: String(nextId++), status: redeliveryStatus, at: now, redelivery: true });
    response.writeHead(202).end("{}");
  };

  const server = createServer((request, response) => {
    const url = new URL(request.url!, `http://${request.headers.host}`);
    requests.push(`${request.method} ${url.pathname}`);
    const refusal = refusals.shift();
    if (refusal !== undefined) return refuse(response, refusal);
    if (!isAuthorized(request, url.pathname, state)) return refuse(response, { status: 401 });
    if (request.method === "POST") return redeliver(url.pathname, response);
    return hooks.has(url.pathname) ? list(url.pathname, url, response) : refuse(response, { status: 404 });
  });
  const { port } = await listenOn(server, { port: 0 });
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    redelivered,
    refuseNext: (refusal) => void refusals.push(refusal),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const refuse = (response: ServerResponse, { status, headers = {} }: Refusal): void => {
  if (status === 0) return;
  response.writeHead(status, { ...headers }).end('{"message":"refused"}');
};

/** An app's own webhook needs its JWT, and no other token. */
function isAuthorized({ headers }: IncomingMessage, path: string, state: GithubApiState): boolean {
  const token = headers.authorization?.replace(/^Bearer /, "") ?? "";
  if (!path.startsWith("/app/")) return token === state.token;
  const [head, claims, signature = ""] = token.split(".");
  const content = Buffer.from(`${head}.${claims}`);
  if (state.publicKey === undefined || claims === undefined) return false;
  if (!verify("sha256", content, state.publicKey, Buffer.from(signature, "base64url"))) return false;
  const { iss, iat, exp } = JSON.parse(Buffer.from(claims, "base64url").toString()) as Record<
    string,
    number | string
  >;
  return iss === "12345" && Number(exp) - Number(iat) <= 600;
}

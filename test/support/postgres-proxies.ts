import { connect, createServer, type Socket } from "node:net";
import { listenOn } from "./loopback.js";
import { openSockets } from "./open-sockets.js";

/** Between clients and a PostgreSQL server. */
interface PostgresProxy {
  /** The server's address, by way of the proxy. */
  readonly url: string;
  close(): Promise<void>;
}

interface WireCount {
  /** Statements that the server was asked to execute. */
  readonly statements: number;
  /** How often the client had to wait for the server. */
  readonly roundTrips: number;
}

export interface WireCounter extends PostgresProxy {
  /** What `work` cost. */
  count(work: () => Promise<unknown>): Promise<WireCount>;
}

/** A proxy that counts what goes over the wire. */
export async function startWireCounter(serverUrl: string): Promise<WireCounter> {
  let statements = 0;
  let roundTrips = 0;
  const proxy = await startPostgresProxy(serverUrl, (client, server) => {
    const read = frontendReader((type) => {
      if (type === "Q" || type === "E") statements++;
    });
    let isClientsTurn = true;
    client.on("data", (chunk) => {
      if (isClientsTurn) roundTrips++;
      isClientsTurn = false;
      read(chunk);
      server.write(chunk);
    });
    server.on("data", (chunk) => {
      isClientsTurn = true;
      client.write(chunk);
    });
    client.on("close", () => server.destroy());
    server.on("close", () => client.destroy());
  });
  return {
    ...proxy,
    async count(work) {
      const before = { statements, roundTrips };
      await work();
      return { statements: statements - before.statements, roundTrips: roundTrips - before.roundTrips };
    },
  };
}

/** `request`: the statement reaches the server late. `response`: it is executed at once, and its client hears of it late. */
export interface Delay {
  readonly of: "request" | "response";
  readonly ms: number;
}

/**
 * A proxy that delays some statements. What follows a delayed statement on its connection waits behind it; other
 * connections do not. A delayed statement reaches the server even if its client has died.
 */
export const startDelayingProxy = (
  serverUrl: string,
  delayOf: (statementText: string) => Delay | undefined,
): Promise<PostgresProxy> =>
  startPostgresProxy(serverUrl, (client, server) => {
    const requests = heldChannel(server);
    const responses = heldChannel(client);
    const read = frontendReader(
      onExecuted((text) => {
        const delay = delayOf(text);
        if (delay !== undefined) (delay.of === "request" ? requests : responses).hold(delay.ms);
      }),
    );
    client.on("data", (chunk) => {
      read(chunk);
      requests.pass(chunk);
    });
    server.on("data", responses.pass);
    client.setNoDelay(true).on("close", requests.end);
    server.setNoDelay(true).on("close", responses.end);
  });

async function startPostgresProxy(
  serverUrl: string,
  onConnection: (client: Socket, server: Socket) => void,
): Promise<PostgresProxy> {
  const target = new URL(serverUrl);
  const sockets = openSockets();
  const proxy = createServer((client) => {
    const server = connect(Number(target.port), target.hostname);
    onConnection(sockets.add(client), sockets.add(server));
  });
  const url = new URL(serverUrl);
  url.port = String((await listenOn(proxy, { port: 0 })).port);
  return {
    url: url.href,
    async close() {
      const closed = new Promise((resolve) => proxy.close(resolve));
      sockets.destroyAll();
      await closed;
    },
  };
}

/** Passes chunks on in order. */
function heldChannel(to: Socket) {
  let free = Promise.resolve();
  return {
    pass(chunk: Buffer): void {
      free = free.then(() => void to.write(chunk));
    },
    /** What is passed from now on waits so long. */
    hold(ms: number): void {
      free = free.then(() => new Promise((resolve) => void setTimeout(resolve, ms).unref()));
    },
    end(): void {
      free = free.then(() => void to.destroySoon());
    },
  };
}

/** Calls back with the text of each statement that is bound: a prepared one sends its text only once. */
function onExecuted(callback: (text: string) => void): (type: string, body: Buffer) => void {
  const prepared = new Map<string, string>();
  return (type, body) => {
    if (type !== "P" && type !== "B") return;
    const [first, second] = body.toString("latin1").split("\0", 2) as [string, string];
    if (type === "P") prepared.set(first, second);
    else callback(prepared.get(second) ?? "");
  };
}

/** Finds the messages in what a PostgreSQL client sends: a type and a length each, but for the first, which has no type. */
function frontendReader(onMessage: (type: string, body: Buffer) => void): (chunk: Buffer) => void {
  let rest = Buffer.alloc(0);
  let started = false;
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    for (;;) {
      const typeLength = started ? 1 : 0;
      if (rest.length < typeLength + 4) return;
      const end = typeLength + rest.readInt32BE(typeLength);
      if (rest.length < end) return;
      if (started) onMessage(String.fromCharCode(rest[0]!), rest.subarray(typeLength + 4, end));
      started = true;
      rest = rest.subarray(end);
    }
  };
}

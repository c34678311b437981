import { createServer, type Socket } from "node:net";
import { Aggregator, Query } from "mingo";
import { BSON, type Document } from "mongodb";
import { listenOn } from "../loopback.js";
import { openSockets } from "../open-sockets.js";

export interface MongoPeer {
  readonly url: string;
  /** The commands that arrived, without those that only keep the connection. */
  readonly commands: readonly Document[];
  /** The next upsert of a new document fails because the document exists, as when two upserts collide. */
  meetOnce(): void;
  stop(): Promise<void>;
}

/**
 * A peer of MongoDB's wire protocol for the real driver, with documents in memory, whose filters and pipelines mingo
 * evaluates. It shows what the store sends and what it makes of the answers. It is no proof of what a server does.
 */
export async function startMongoPeer(): Promise<MongoPeer> {
  const documents = new Map<string, Document>();
  const commands: Document[] = [];
  let meets = false;

  const findAndModify = ({ query, update, upsert }: Document): Document => {
    const found = [...documents.values()].find((one) => new Query(query).test(one));
    if (found === undefined && !upsert) return { value: null };
    if (found === undefined && meets) {
      meets = false;
      return { ok: 0, code: 11_000, codeName: "DuplicateKey", errmsg: "E11000 duplicate key error" };
    }
    const [changed] = new Aggregator(update).run([found ?? { _id: query._id }]) as Document[];
    documents.set(changed!._id, changed!);
    return { value: changed };
  };
  const cursor = (firstBatch: readonly object[]) => ({
    cursor: { firstBatch, id: BSON.Long.ZERO, ns: "x.y" },
  });
  const answers: Readonly<Record<string, (command: Document) => Document>> = {
    findAndModify,
    find: ({ filter }) => cursor([...documents.values()].filter((one) => new Query(filter).test(one))),
    aggregate: ({ pipeline }) => cursor(new Aggregator(pipeline).run([...documents.values()]) as object[]),
    createIndexes: () => ({}),
  };

  const answerTo = (command: Document): Document => {
    const [name = ""] = Object.keys(command);
    if (answers[name] === undefined) return { ...greeting, localTime: new Date(), ok: 1 };
    commands.push(command);
    return { ok: 1, ...answers[name](command) };
  };

  const sockets = openSockets();
  const server = createServer((socket) => readMessages(sockets.add(socket), answerTo));
  const { port } = await listenOn(server, { port: 0 });
  return {
    url: `mongodb://127.0.0.1:${port}/oncebox`,
    commands,
    meetOnce() {
      meets = true;
    },
    async stop() {
      const closed = new Promise((resolve) => server.close(resolve));
      sockets.destroyAll();
      await closed;
    },
  };
}

/** A single server of MongoDB 7. */
const greeting = {
  helloOk: true,
  isWritablePrimary: true,
  ismaster: true,
  maxBsonObjectSize: 16_777_216,
  maxMessageSizeBytes: 48_000_000,
  maxWriteBatchSize: 100_000,
  minWireVersion: 0,
  maxWireVersion: 21,
  readOnly: false,
};

const opQuery = 2004;
const headerBytes = 16;

function readMessages(socket: Socket, answerTo: (command: Document) => Document): void {
  let waiting = Buffer.alloc(0);
  socket.on("data", (chunk) => {
    waiting = Buffer.concat([waiting, chunk]);
    while (waiting.length >= headerBytes && waiting.length >= waiting.readInt32LE(0)) {
      const message = waiting.subarray(0, waiting.readInt32LE(0));
      waiting = waiting.subarray(message.length);
      const isQuery = message.readInt32LE(12) === opQuery; // the driver's first hello
      // OP_QUERY has flags, a name, two numbers and a document; OP_MSG has flags, the kind of section and a document
      const start = isQuery ? message.indexOf(0, headerBytes + 4) + 1 + 8 : headerBytes + 5;
      const body = BSON.serialize(answerTo(BSON.deserialize(message.subarray(start))));
      const before = isQuery ? Buffer.alloc(20) : Buffer.alloc(5);
      if (isQuery) before.writeInt32LE(1, 16); // one document
      const header = Buffer.alloc(headerBytes);
      header.writeInt32LE(headerBytes + before.length + body.length, 0);
      header.writeInt32LE(message.readInt32LE(4), 8);
      header.writeInt32LE(isQuery ? 1 : 2013, 12);
      socket.write(Buffer.concat([header, before, body]));
    }
  });
}

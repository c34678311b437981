import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { listen } from "../../src/messaging/index.js";
import { answerParent } from "../peers/answer-parent.js";
import { openBareStore } from "./bare-store.js";
import { openReceiver } from "./service.js";
import { monotonicMs, type ReceiverAnswer, type SideName } from "./two-processes.js";

// The receiving half of one side, in a process of its own. Whatever it is asked, it returns a ReceiverAnswer.
interface Receiver {
  readonly address: string;
  close(): Promise<void>;
}

const [side, url, schema, address] = process.argv.slice(2) as [SideName, string, string, string];
const startedAt: number[] = [];

async function service(): Promise<Receiver> {
  const { service, db } = await openReceiver(url, schema, () => void startedAt.push(monotonicMs()));
  const listener = await listen({ address, receiver: service.receiver });
  return {
    address: listener.address,
    async close() {
      await listener.close();
      await service.close();
      await db.close();
    },
  };
}

async function bare(): Promise<Receiver> {
  const store = await openBareStore(url, schema);
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    startedAt.push(monotonicMs());
    const { id, text } = JSON.parse(Buffer.concat(chunks).toString()) as { id: string; text: string };
    await store.insert(id, text);
    response.writeHead(200, { "content-type": "application/json" }).end('{"acknowledged":true}');
  });
  const { hostname } = new URL(address);
  await new Promise<void>((resolve) => server.listen(0, hostname, resolve));
  return {
    address: `http://${hostname}:${(server.address() as AddressInfo).port}/`,
    async close() {
      server.closeAllConnections();
      server.close();
      await store.close();
    },
  };
}

const receiver = await { oncebox: service, bare }[side]();

answerParent(
  async (): Promise<ReceiverAnswer> => ({ address: receiver.address, startedAt: startedAt.splice(0) }),
  () => receiver.close(),
);

import { randomBytes } from "node:crypto";
import type { AddressInfo, Server, Socket } from "node:net";
import rhea, { type Connection, type Delivery, type EventContext, type Message, type Sender } from "rhea";

export interface ServiceBusBroker {
  readonly connectionString: string;
  /** Messages in the queue that are not delivered, in order. */
  readonly waiting: readonly Message[];
  /** How many transfers senders made. A batch is one transfer. */
  transfers(): number;
  /** Refuses the next transfers, as a busy service does. */
  refuse(times: number): void;
  /** Takes the next transfers and never settles them. */
  ignore(times: number): void;
  stop(): Promise<void>;
}

/**
 * An AMQP 1.0 peer with one queue, for Microsoft's Service Bus SDK. It accepts any token, unpacks batches, locks delivered
 * messages, and delivers abandoned ones again.
 */
export async function startServiceBusBroker(): Promise<ServiceBusBroker> {
  const container = rhea.create_container({ autoaccept: false, autosettle: false });
  const waiting: Message[] = [];
  const consumers = new Set<Sender>();
  const tokenReplies = new Map<Connection, Sender>();
  const locked = new Map<unknown, Message>();
  let transfers = 0;
  let refusals = 0;
  let ignored = 0;

  const deliverAll = (): void => {
    for (const consumer of consumers) {
      while (waiting.length > 0 && consumer.sendable()) {
        const message = waiting.shift()!;
        const delivery = consumer.send(
          {
            ...message,
            message_annotations: {
              "x-opt-locked-until": new Date(Date.now() + 60_000),
              "x-opt-sequence-number": 1,
            },
          },
          randomBytes(16),
        );
        locked.set(delivery, message);
      }
    }
  };
  const isToken = (address: unknown): boolean => String(address) === "$cbs";

  container.on("sender_open", ({ sender, connection }: EventContext) => {
    const address = sender!.source?.address;
    sender!.set_source({ address });
    if (isToken(address)) tokenReplies.set(connection, sender!);
    else consumers.add(sender!);
  });
  container.on("sendable", deliverAll);
  container.on("sender_close", ({ sender }: EventContext) => void consumers.delete(sender!));
  container.on("receiver_open", ({ receiver }: EventContext) => {
    receiver!.set_target({ address: receiver!.target?.address } as never);
    // the SDK limits its batches by this size
    (
      receiver as unknown as { local: { attach: { max_message_size: number } } }
    ).local.attach.max_message_size = 262_144;
    receiver!.add_credit(1_000);
  });
  container.on("message", ({ message, delivery, receiver, connection }: EventContext) => {
    if (isToken(receiver!.target?.address)) {
      delivery!.accept();
      tokenReplies.get(connection)?.send({
        correlation_id: message!.message_id as string,
        application_properties: { "status-code": 202, "status-description": "Accepted" },
        body: "",
      } as Message);
      return;
    }
    transfers++;
    if (ignored > 0) {
      ignored--;
      return;
    }
    if (refusals > 0) {
      refusals--;
      delivery!.reject({ condition: "amqp:not-allowed", description: "refused" });
      return;
    }
    delivery!.accept();
    waiting.push(...unpacked(message!));
    deliverAll();
  });
  container.on("accepted", ({ delivery }: EventContext) => {
    locked.delete(delivery);
    settle(delivery!);
  });
  const again = ({ delivery }: EventContext): void => {
    const message = locked.get(delivery);
    locked.delete(delivery);
    settle(delivery!);
    if (message === undefined) return;
    waiting.push({ ...message, delivery_count: (message.delivery_count ?? 0) + 1 });
    deliverAll();
  };
  container.on("modified", again);
  container.on("released", again);
  for (const event of ["disconnected", "connection_error", "session_error", "error"])
    container.on(event, () => {});

  const sockets = new Set<Socket>();
  const server = container.listen({ port: 0, host: "127.0.0.1" }) as Server;
  server.on("connection", (socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    connectionString: `Endpoint=sb://127.0.0.1:${port};SharedAccessKeyName=test;SharedAccessKey=dGVzdA==;UseDevelopmentEmulator=true;`,
    waiting,
    transfers: () => transfers,
    refuse(times) {
      refusals = times;
    },
    ignore(times) {
      ignored = times;
    },
    async stop() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Settles with the outcome that the receiver chose: the receiver waits for it. */
const settle = (delivery: Delivery): void =>
  delivery.update(
    true,
    (delivery as unknown as { remote_state: { described(): never } }).remote_state.described(),
  );

/** Service Bus has a batch format of its own: a message whose data sections are messages. */
function unpacked(message: Message | Buffer): readonly Message[] {
  if (!Buffer.isBuffer(message)) return [message];
  const { content } = decoded(message).body as { content: Buffer | readonly Buffer[] };
  return (Buffer.isBuffer(content) ? [content] : content).map(decoded);
}

const decoded = (bytes: Buffer): Message => rhea.message.decode(bytes) as unknown as Message;

import { randomUUID } from "node:crypto";
import { inspect } from "node:util";
import { expect, onTestFinished } from "vitest";
import type { Envelope } from "../../../src/messaging/envelope.js";
import type { TransportResponse } from "../../../src/messaging/transports/transport.js";
import type { ContractReceiver, TransportHarness, TransportSetup } from "./harness.js";

/** Part of every payload of the suite. No error may show it. */
export const privateText = "4242-4242-4242-4242";

export function newMessage(payload: unknown = { card: privateText }): Envelope {
  return {
    messageId: randomUUID(),
    correlationId: randomUUID(),
    sourceServiceId: "orders",
    messageType: "Command",
    endpoint: "ReserveStock",
    payload,
    headers: { traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" },
  };
}

export const acknowledged = { acknowledged: true, duplicateDetected: false } as const;

export interface Started extends TransportSetup {
  /** What arrived, in this order. */
  readonly received: readonly Envelope[];
  send(message: Envelope, signal?: AbortSignal): Promise<TransportResponse>;
}

/** Opens a setup for one test, and closes it after the test. */
export async function start(harness: TransportHarness, receive: ContractReceiver): Promise<Started> {
  const received: Envelope[] = [];
  const setup = await harness.open((message, call) => {
    received.push(message);
    return receive(message, call);
  });
  onTestFinished(async () => {
    await setup.transport.close();
    await setup.close();
  });
  const send = (message: Envelope, signal: AbortSignal = new AbortController().signal) =>
    setup.transport.send(message, setup.destination, { signal });
  return { ...setup, received, send };
}

/** The error that a send rejects with. Fails the test where the send is acknowledged. */
export async function rejection(sending: Promise<TransportResponse>): Promise<unknown> {
  const end = await sending.then(
    (response) => ({ response }),
    (error: unknown) => ({ error }),
  );
  expect(end).toHaveProperty("error");
  return "error" in end ? end.error : undefined;
}

/** An error or a response says why, and shows no payload and no secret, however it is printed. */
export function expectPrivate(problem: unknown, { destination }: TransportSetup): void {
  const printed = inspect(problem, { depth: 20, showHidden: true });
  expect(printed).not.toContain(privateText);
  for (const secret of destination.secrets) expect(printed).not.toContain(secret);
}

/** Sends until it is acknowledged, as a dispatcher does. */
export async function sendUntilAcknowledged(
  { send }: Started,
  message: Envelope,
): Promise<TransportResponse> {
  let problem: unknown;
  for (let attempt = 0; attempt < 200; attempt++) {
    try {
      const response = await send(message);
      if (response.acknowledged) return response;
      problem = response;
    } catch (error) {
      problem = error;
    }
    await new Promise((resolve) => setTimeout(resolve, 25)); // a transport may wait before it connects again
  }
  throw new Error("The message was not acknowledged in 200 attempts.", { cause: problem });
}

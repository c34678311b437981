import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Envelope } from "../../../src/messaging/envelope.js";
import { loadGrpc } from "../../../src/messaging/transports/grpc-service.js";
import {
  type GrpcTransportOptions,
  grpcTransport,
} from "../../../src/messaging/transports/grpc-transport.js";
import { listen } from "../../../src/messaging/transports/listen.js";
import { gate } from "../../contract/support/gate.js";
import { newMessage, privateText } from "../../contract/transports/support.js";
import { tls } from "../../support/transport-harness.js";
import { acknowledgedText, closed, failureOf, sendTo } from "./transport-support.js";

const proto = fileURLToPath(new URL("../../../proto/rf-receiver.proto", import.meta.url));
const definition = loadSync(proto, { defaults: true });
const { RFReceiver } = grpc.loadPackageDefinition(definition) as unknown as {
  RFReceiver: grpc.ServiceClientConstructor;
};
/** The serialisers that proto-loader makes from the file in the package. */
const theirs = RFReceiver.service.Receive!;

const transport = (options: GrpcTransportOptions = {}) => closed(grpcTransport(options));

const ours = (await loadGrpc()).method;

const text = fc.string({ unit: "binary" }).filter((value) => value.isWellFormed());
const flags = { acknowledged: fc.boolean(), duplicateDetected: fc.boolean(), permanent: fc.boolean() };
const acknowledgement = fc.record({ ...flags, payload: text, error: text });
const wireMessage = fc.record({
  messageId: text,
  correlationId: text,
  sourceServiceId: text,
  messageType: text,
  endpoint: text,
  payload: fc.oneof(text, fc.constant("x".repeat(100_000))),
  headers: fc.dictionary(
    text.filter((name) => name !== "__proto__"),
    text,
    { noNullPrototype: true },
  ),
});

describe("the proto file and the service in the code", () => {
  it("MSG-06 MSG-09 have the same method, fields and numbers", () => {
    expect(ours.path).toBe(theirs.path);
    fc.assert(
      fc.property(wireMessage, (message) => {
        expect(theirs.requestDeserialize(ours.requestSerialize(message))).toEqual(message);
        expect(ours.requestDeserialize(theirs.requestSerialize(message))).toEqual(message);
      }),
    );
    fc.assert(
      fc.property(acknowledgement, (reply) => {
        expect(theirs.responseDeserialize(ours.responseSerialize(reply))).toEqual(reply);
        expect(ours.responseDeserialize(theirs.responseSerialize(reply))).toEqual(reply);
      }),
    );
  });
});

/** A receiver of ours by gRPC, until the test ends. */
async function serve(fetch: (request: Request) => Promise<Response>, options = {}) {
  const listener = await listen({ address: "grpc://127.0.0.1:0", fetch, stopMs: 1_000, ...options });
  onTestFinished(() => listener.close());
  return listener.address;
}

/** A receiver that another program made from the proto file. */
async function serveTheirs(receive: grpc.handleUnaryCall<Record<string, unknown>, object>) {
  const server = new grpc.Server();
  server.addService(RFReceiver.service, { Receive: receive });
  const port = await new Promise<number>((resolve, reject) => {
    const insecure = grpc.ServerCredentials.createInsecure();
    server.bindAsync("127.0.0.1:0", insecure, (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
  onTestFinished(() => server.forceShutdown());
  return `grpc://127.0.0.1:${port}/RFReceiver/Receive`;
}

type TheirReceive = (
  message: object,
  done: (error: grpc.ServiceError | null, reply: unknown) => void,
) => void;

/** Calls a receiver as a client that another program made from the proto file. */
async function callAsThem(
  address: string,
  message: object,
): Promise<{ reply: unknown; code: number | undefined }> {
  const client = new RFReceiver(new URL(address).host, grpc.credentials.createInsecure());
  try {
    return await new Promise((resolve) => {
      (client.Receive as TheirReceive).call(client, message, (error, reply) =>
        resolve({ reply, code: error?.code }),
      );
    });
  } finally {
    client.close();
  }
}

describe("gRPC with other programs", () => {
  it("MSG-09 MSG-19 a client that was made from the proto file reaches our receiver", async () => {
    const bodies: unknown[] = [];
    const address = await serve(async (request) => {
      bodies.push([request.method, new URL(request.url).pathname, await request.json()]);
      return Response.json({ acknowledged: true, duplicateDetected: true, payload: { reserved: 3 } });
    });
    expect(address).toMatch(/^grpc:\/\/127\.0\.0\.1:\d+\/RFReceiver\/Receive$/);
    const sent = {
      messageId: "1",
      sourceServiceId: "orders",
      messageType: "Command",
      endpoint: "ReserveStock",
    };
    const wire = { ...sent, payload: '{"sku":"A"}', headers: { "rf-version": "2.0" } };
    expect(await callAsThem(address, wire)).toEqual({
      reply: {
        acknowledged: true,
        duplicateDetected: true,
        payload: '{"reserved":3}',
        error: "",
        permanent: false,
      },
      code: undefined,
    });
    const body = { ...sent, correlationId: null, payload: { sku: "A" }, headers: { "rf-version": "2.0" } };
    expect(bodies).toEqual([["POST", "/_rf/receive", body]]);
  });

  it.each(["", " ", "{", '1,"endpoint":"Other"', '1},"endpoint":{', "undefined", "'x'"])(
    "MSG-08 MSG-18 a payload that would become other members is INVALID_ARGUMENT: %s",
    async (payload) => {
      let calls = 0;
      const address = await serve(async () => {
        calls++;
        return Response.json({ acknowledged: true, duplicateDetected: false });
      });
      const { code } = await callAsThem(address, { messageId: "1", payload });
      expect(code).toBe(grpc.status.INVALID_ARGUMENT);
      expect(calls).toBe(0);
    },
  );

  it.each([
    [400, grpc.status.INVALID_ARGUMENT],
    [401, grpc.status.UNAUTHENTICATED],
    [413, grpc.status.RESOURCE_EXHAUSTED],
    [404, grpc.status.INTERNAL],
    [503, grpc.status.RESOURCE_EXHAUSTED],
  ])("MSG-18 a receiver that returns %i by HTTP returns the status %i by gRPC", async (status, code) => {
    const address = await serve(async () => new Response(null, { status }));
    expect((await callAsThem(address, { payload: "1" })).code).toBe(code);
  });

  it("MSG-09 our transport reaches a receiver that was made from the proto file", async () => {
    const seen: unknown[] = [];
    const address = await serveTheirs(({ request }, reply) => {
      seen.push(request);
      reply(null, { acknowledged: true, payload: '{"reserved":3}' });
    });
    const message = newMessage({ sku: "A" });
    expect(await sendTo(transport(), address, message)).toEqual({
      acknowledged: true,
      duplicateDetected: false,
      payload: { reserved: 3 },
    });
    const headers = { ...message.headers, "rf-version": "2.0", "rf-hmac": expect.any(String) };
    expect(seen).toMatchObject([{ ...message, payload: '{"sku":"A"}', headers }]);
  });

  it.each([
    [grpc.status.UNAVAILABLE, "UNAVAILABLE"],
    [grpc.status.INTERNAL, "INTERNAL"],
    [grpc.status.RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED"], // a receiver with too much to do, not a message that is too large
    [grpc.status.UNIMPLEMENTED, "UNIMPLEMENTED"],
  ])("MSG-09 the status %i is a failure that is retried", async (code, name) => {
    const address = await serveTheirs((_, reply) => reply({ code, details: privateText }));
    const error = await failureOf(transport(), address, newMessage());
    expect(error.message).toContain(name);
    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain(privateText);
  });

  it("MSG-09 a response that is too large, or whose payload is not JSON, is a failure that is retried", async () => {
    let payload = JSON.stringify("x".repeat(10_000));
    const address = await serveTheirs((_, reply) => reply(null, { acknowledged: true, payload }));
    const error = await failureOf(transport({ maxResponseBytes: 1_000 }), address, newMessage());
    expect(error.message).toContain("RESOURCE_EXHAUSTED");
    payload = "{";
    expect((await failureOf(transport(), address, newMessage())).message).toContain("not an acknowledgement");
  });

  it("MSG-09 a receiver that does not respond is given up after timeoutMs, and its call is cancelled", async () => {
    const cancelled = gate();
    const address = await serveTheirs((call) => call.on("cancelled", () => cancelled.open()));
    const error = await failureOf(transport({ timeoutMs: 100 }), address, newMessage());
    expect(error.message).toContain("did not respond within 100 ms");
    await cancelled.promise;
  });

  it("MSG-09 a certificate that is not trusted is refused, and grpcs needs a certificate to listen", async () => {
    const fetch = async () => new Response(acknowledgedText);
    const address = await serve(fetch, { address: "grpcs://127.0.0.1:0", tls });
    expect((await failureOf(transport(), address, newMessage())).message).toContain("UNAVAILABLE");
    const message: Envelope = newMessage();
    const trusting = transport({ tls: { ca: tls.cert } });
    expect(await sendTo(trusting, address, message)).toMatchObject({ acknowledged: true });
    await expect(listen({ address: "grpcs://127.0.0.1:0", fetch })).rejects.toThrow(/needs tls/);
    await expect(listen({ address: "https://127.0.0.1:0", fetch })).rejects.toThrow(/needs tls/);
  });

  it("MSG-09 with ca, only a sender with a certificate that it signed is heard", async () => {
    let calls = 0;
    const fetch = async () => {
      calls++;
      return new Response(acknowledgedText);
    };
    const address = await serve(fetch, {
      address: "grpcs://127.0.0.1:0",
      tls: { ...tls, ca: tls.cert },
    });
    const stranger = transport({ tls: { ca: tls.cert } });
    expect((await failureOf(stranger, address, newMessage())).message).toContain("UNAVAILABLE");
    expect(calls).toBe(0);
    const known = transport({ tls: { ...tls, ca: tls.cert } });
    expect(await sendTo(known, address, newMessage())).toMatchObject({ acknowledged: true });
  });

  it("MSG-09 a message that is too large is refused for good, and is not handled", async () => {
    let calls = 0;
    const address = await serve(async () => {
      calls++;
      return new Response(acknowledgedText);
    });
    const large = newMessage("x".repeat(17 * 1_048_576));
    expect(await sendTo(transport(), address, large)).toMatchObject({ acknowledged: false, permanent: true });
    expect(calls).toBe(0);
    expect(await sendTo(transport(), address, newMessage())).toMatchObject({ acknowledged: true });
  }, 30_000);

  it("MSG-09 many messages at once on one connection all arrive", async () => {
    let calls = 0;
    const address = await serve(async () => {
      calls++;
      return new Response(acknowledgedText);
    });
    const one = transport();
    const payload = "x".repeat(20_000);
    const responses = await Promise.all(
      Array.from({ length: 300 }, () => sendTo(one, address, newMessage(payload))),
    );
    expect(responses.every(({ acknowledged }) => acknowledged)).toBe(true);
    expect(calls).toBe(300);
  }, 60_000);
});

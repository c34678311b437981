import { buffer } from "node:stream/consumers";
import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { openEnvelope } from "../../../src/messaging/open-envelope.js";
import { httpTransport } from "../../../src/messaging/transports/http-transport.js";
import { listen } from "../../../src/messaging/transports/listen.js";
import { gate } from "../../contract/support/gate.js";
import { newMessage, privateText } from "../../contract/transports/support.js";
import { tls } from "../../support/transport-harness.js";
import {
  acknowledgedText,
  closed,
  failureOf,
  sendTo,
  serveHttp,
  serveTcp,
  sharedSecret,
} from "./transport-support.js";

const http = (options = {}) => closed(httpTransport(options));
const message = newMessage();

describe("the HTTP transport", () => {
  it("MSG-18 posts the body as JSON to /_rf/receive, or to the path of the address", async () => {
    const requests: unknown[] = [];
    const { port } = await serveHttp(async (request, response) => {
      const opened = openEnvelope(await buffer(request), {
        serviceId: "inventory",
        secretsOf: () => [sharedSecret],
        now: new Date(),
      });
      requests.push([request.method, request.url, request.headers["content-type"], opened]);
      response.end(acknowledgedText);
    });
    const transport = http();
    const body = { kind: "opened", envelope: message };
    for (const path of ["", "/", "/own/receive?tenant=1"])
      await sendTo(transport, `http://127.0.0.1:${port}${path}`, message);
    expect(requests).toEqual([
      ["POST", "/_rf/receive", "application/json", body],
      ["POST", "/_rf/receive", "application/json", body],
      ["POST", "/own/receive?tenant=1", "application/json", body],
    ]);
  });

  it("MSG-09 one message after the other uses the same connection", async () => {
    let connections = 0;
    const { server, address } = await serveHttp((request, response) => {
      request.resume().on("end", () => response.end(acknowledgedText));
    });
    server.on("connection", () => connections++);
    const transport = http();
    for (let i = 0; i < 10; i++) await sendTo(transport, address, message);
    expect(connections).toBe(1);
  });

  it("MSG-09 no more than maxConnections are open", async () => {
    let open = 0;
    let most = 0;
    const { server, address } = await serveHttp((request, response) => {
      request.resume().on("end", () => response.end(acknowledgedText));
    });
    server.on("connection", (socket) => {
      most = Math.max(most, ++open);
      socket.on("close", () => open--);
    });
    const transport = http({ maxConnections: 3 });
    await Promise.all(Array.from({ length: 30 }, () => sendTo(transport, address, message)));
    expect(most).toBe(3);
  });

  it("MSG-09 a kept connection that the receiver has closed: the message is sent again at once, on a new one", async () => {
    let requests = 0;
    const { address } = await serveHttp((request, response) => {
      requests++;
      // the second request is on the kept connection
      request
        .resume()
        .on("end", () => (requests === 2 ? request.socket.destroy() : response.end(acknowledgedText)));
    });
    const transport = http();
    await sendTo(transport, address, message);
    expect(await sendTo(transport, address, message)).toMatchObject({ acknowledged: true });
    expect(requests).toBe(3);
  });

  it("MSG-09 a new connection that the receiver closes is a failure, and the message is left to its retries", async () => {
    let requests = 0;
    const { address } = await serveHttp((request) => {
      requests++;
      request.socket.destroy();
    });
    const error = await failureOf(http(), address, message);
    expect(error.message).toContain("ECONNRESET");
    expect(requests).toBe(1);
  });

  it("MSG-18 a redirect is not followed", async () => {
    let followed = 0;
    const other = await serveHttp((_, response) => {
      followed++;
      response.end(acknowledgedText);
    });
    const { address } = await serveHttp((_, response) => {
      response.writeHead(307, { location: other.address }).end();
    });
    expect((await failureOf(http(), address, message)).message).toMatch(
      /307, a redirect, which is not followed/,
    );
    expect(followed).toBe(0);
  });

  it.each([
    [202, acknowledgedText, /status 202/],
    [204, "", /status 204/],
    [403, "", /status 403/],
    [404, "no such page", /status 404/],
    [429, "", /status 429/],
    [500, "", /status 500/],
    [500, acknowledgedText, /status 500/],
    [502, "<html>bad gateway</html>", /status 502/],
    [200, "", /not an acknowledgement/],
    [200, "null", /not an acknowledgement/],
    [200, "[]", /not an acknowledgement/],
    [200, '"acknowledged"', /not an acknowledgement/],
    [200, "{}", /not an acknowledgement/],
    [200, '{"acknowledged":1}', /not an acknowledgement/],
    [200, '{"acknowledged":true,"duplicateDetected":"no"}', /not an acknowledgement/],
    [200, acknowledgedText.slice(0, -1), /not an acknowledgement/],
  ])("MSG-18 status %i with the body %j is a failure that is retried", async (status, body, text) => {
    const { address } = await serveHttp((_, response) => {
      response.writeHead(status).end(body);
    });
    expect((await failureOf(http(), address, message)).message).toMatch(text);
  });

  it("MSG-18 bytes that are not UTF-8 are no acknowledgement", async () => {
    const { address } = await serveHttp((_, response) => {
      response.end(
        Buffer.concat([Buffer.from('{"acknowledged":true,"x":"'), Buffer.from([0xff]), Buffer.from('"}')]),
      );
    });
    expect((await failureOf(http(), address, message)).message).toMatch(/not an acknowledgement/);
  });

  it("MSG-18 a 200 or a 503 that says why it did not process the message is passed on", async () => {
    for (const status of [200, 503]) {
      const { address } = await serveHttp((_, response) => {
        response.writeHead(status).end('{"acknowledged":false,"error":"the database is away"}');
      });
      const response = await sendTo(http(), address, message);
      expect(response).toMatchObject({ acknowledged: false, duplicateDetected: false });
      expect(response.error).toContain("the database is away");
    }
  });

  it("MSG-18 a receiver that refuses a message and never reads it does not hold the connection", async () => {
    const { address } = await serveTcp((socket) => {
      socket.once("data", () => socket.pause().write("HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n"));
    });
    const transport = http({ maxConnections: 1 });
    const large = newMessage("x".repeat(20_000_000));
    for (let i = 0; i < 3; i++) {
      expect(await sendTo(transport, address, large)).toMatchObject({ permanent: true });
    }
  });

  it("MSG-09 a response without an end is given up at its limit, and its connection ends", async () => {
    const ended = gate();
    const { address } = await serveHttp((_, response) => {
      const pour = () => {
        while (response.write("x".repeat(10_000)));
      };
      response.on("drain", pour).on("close", () => ended.open());
      pour();
    });
    const error = await failureOf(http({ maxResponseBytes: 100_000 }), address, message);
    expect(error.message).toContain("more than 100000 bytes");
    await ended.promise;
  });

  it("MSG-09 a receiver that does not respond is given up after timeoutMs, and its connection ends", async () => {
    const ended = gate();
    const { address } = await serveTcp((socket) => socket.resume().on("close", () => ended.open()));
    const error = await failureOf(http({ timeoutMs: 50 }), address, message);
    expect(error.message).toContain("did not respond within 50 ms");
    await ended.promise;
  });

  it("MSG-09 a response that never ends, byte by byte, is given up after timeoutMs", async () => {
    const { address } = await serveTcp((socket) => {
      socket.once("data", () => socket.write("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"));
      const drip = setInterval(() => socket.write(" "), 5);
      socket.on("close", () => clearInterval(drip));
    });
    const error = await failureOf(http({ timeoutMs: 100 }), address, message);
    expect(error.message).toContain("did not respond within 100 ms");
  });

  it("MSG-09 a response that is not HTTP is a failure whose error holds nothing of it", async () => {
    const { address } = await serveTcp((socket) => {
      socket.once("data", () => socket.end(`SSH-2.0 ${privateText}\r\n\r\n`));
    });
    const error = await failureOf(http(), address, message);
    expect(error.message).toContain("HPE_");
    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain(privateText);
  });

  it("MSG-09 a user and a password in the address are sent, and shown by no error", async () => {
    const seen: (string | undefined)[] = [];
    const { server, port } = await serveHttp((request, response) => {
      seen.push(request.headers.authorization);
      response.writeHead(401).end();
    });
    const address = `http://proxy:hunter%202@127.0.0.1:${port}/_rf/receive?key=hunter3`;
    const transport = http();
    const refused = await sendTo(transport, address, message);
    expect(seen).toEqual([`Basic ${Buffer.from("proxy:hunter 2").toString("base64")}`]);
    await new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    });
    const away = await failureOf(transport, address, message);
    expect(away.message).toContain("ECONNREFUSED");
    for (const problem of [refused, away])
      expect(inspect(problem, { depth: 20 })).not.toMatch(/hunter|proxy/);
  });

  it("MSG-09 a certificate that is not trusted is refused, and a client without the certificate that a receiver asks for, too", async () => {
    const fetch = async () => new Response(acknowledgedText);
    const listener = await listen({ address: "https://127.0.0.1:0", fetch, tls: { ...tls, ca: tls.cert } });
    try {
      expect((await failureOf(http(), listener.address, message)).message).toContain("SELF_SIGNED_CERT");
      await failureOf(http({ tls: { ca: tls.cert } }), listener.address, message);
      const known = http({ tls: { ...tls, ca: tls.cert } });
      expect(await sendTo(known, listener.address, message)).toMatchObject({ acknowledged: true });
    } finally {
      await listener.close();
    }
  });

  it("MSG-09 unknown and bad options are refused", () => {
    expect(() => http({ retries: 1 })).toThrow(/unknown option retries/);
    expect(() => http({ timeoutMs: 0 })).toThrow(/timeoutMs/);
    expect(() => http({ maxResponseBytes: 0 })).toThrow(/maxResponseBytes/);
    expect(() => http({ maxConnections: 1.5 })).toThrow(/maxConnections/);
    expect(() => http({ idleMs: -1 })).toThrow(/idleMs/);
    expect(() => http({ tls: { pfx: "" } })).toThrow(/unknown option pfx/);
  });
});

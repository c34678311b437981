import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import fastify from "fastify";
import { describe, expect, it, onTestFinished } from "vitest";
import { httpTransport } from "../../../src/messaging/transports/http-transport.js";
import { receiverMiddleware } from "../../../src/messaging/transports/listen.js";
import { type LogLine, recordingLogger } from "../../contract/support/recording-logger.js";
import { receiverRoute } from "../../contract/transports/receiver-route.js";
import { acknowledged, newMessage, privateText } from "../../contract/transports/support.js";
import { closed, failureOf, sendTo, serveHttp } from "./transport-support.js";

const echo = receiverRoute(async ({ payload }) => ({ ...acknowledged, payload }));
const middleware = receiverMiddleware({ fetch: echo, serves: (path) => path === "/_rf/receive" });
const transport = () => closed(httpTransport());
const send = (address: string) => sendTo(transport(), address, newMessage({ text: "ß" }));
const echoed = { ...acknowledged, payload: { text: "ß" } };

describe("the receiver as middleware", () => {
  it("MSG-09 in Express, before its parser, and other paths go on to the app", async () => {
    const app = express();
    app.use(middleware, express.json());
    app.post("/other", (request, response) => void response.json(request.body));
    const { address, port } = await serveHttp(app as RequestListener);
    expect(await send(address)).toEqual(echoed);
    const headers = { "content-type": "application/json" };
    const other = await fetch(`http://127.0.0.1:${port}/other`, { method: "POST", headers, body: '{"n":1}' });
    expect(await other.json()).toEqual({ n: 1 });
  });

  it("MSG-09 in Express, mounted at a path, and at a path of its own", async () => {
    const app = express();
    const paths: string[] = [];
    const seen = receiverMiddleware({
      fetch: (request) => {
        paths.push(new URL(request.url).pathname);
        return echo(request);
      },
      serves: (path) => path === "/own/receive",
    });
    app.use("/own", seen);
    const { address } = await serveHttp(app as RequestListener, "/own/receive");
    expect(await send(address)).toEqual(echoed);
    expect(paths).toEqual(["/own/receive"]);
  });

  it("MSG-08 in Express, after a parser that keeps the bytes; one that does not is an error that says what to do", async () => {
    const raw = express();
    raw.use(express.raw({ type: "*/*" }), middleware);
    expect(await send((await serveHttp(raw as RequestListener)).address)).toEqual(echoed);

    const parsed = express();
    const errors: Error[] = [];
    parsed.use(express.json(), middleware);
    parsed.use(
      (error: Error, _: express.Request, response: express.Response, _next: express.NextFunction) => {
        errors.push(error);
        response.status(500).end();
      },
    );
    const { address } = await serveHttp(parsed as RequestListener);
    expect((await failureOf(transport(), address, newMessage())).message).toContain("status 500");
    expect(errors).toMatchObject([{ message: expect.stringContaining("before express.json") }]);
    expect(errors[0]!.message).not.toContain(privateText);
  });

  it("MSG-09 in Fastify, as a hook", async () => {
    const app = fastify();
    app.addHook("onRequest", (request, reply, done) => middleware(request.raw, reply.raw, done));
    app.post("/other", async ({ body }) => body);
    onTestFinished(() => app.close());
    const address = await app.listen({ host: "127.0.0.1", port: 0 });
    expect(await send(address)).toEqual(echoed);
    expect((await app.inject({ method: "POST", url: "/other", payload: { n: 1 } })).json()).toEqual({ n: 1 });
  });

  it("MSG-18 in a server of Node; a receiver that throws is a 500 and one log line without its text", async () => {
    const lines: LogLine[] = [];
    const broken = receiverMiddleware({
      fetch: async () => {
        throw new Error(privateText);
      },
      serves: (path) => path === "/_rf/receive",
      logger: recordingLogger(lines),
    });
    const server = createServer((request, response) =>
      broken(request, response, () => response.writeHead(404).end()),
    );
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close().closeAllConnections());
    const { port } = server.address() as AddressInfo;
    expect((await failureOf(transport(), `http://127.0.0.1:${port}`, newMessage())).message).toContain(
      "status 500",
    );
    expect(lines).toEqual([{ level: "error", message: "receiving failed", fields: { error: "Error" } }]);
    expect((await fetch(`http://127.0.0.1:${port}/_rf/receiver`)).status).toBe(404);
  });

  it("MSG-09 unknown options, and what is no receiver, are refused", () => {
    const receiver = { fetch: echo, serves: () => true };
    expect(() => receiverMiddleware(receiver, { prefix: "/x" } as never)).toThrow(/unknown option prefix/);
    expect(() => receiverMiddleware(echo as never)).toThrow(/takes service.receiver/);
  });
});

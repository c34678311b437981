import { HttpRequest } from "@azure/functions";
import type { APIGatewayProxyEventV2 } from "aws-lambda";
import { expect, it } from "vitest";
import { lambdaHttp } from "../../../src/adapters/aws/middleware.js";
import { azureHttp } from "../../../src/adapters/azure/middleware.js";
import { migrate } from "../../../src/index.js";
import { idempotentHttp, transaction } from "../../../src/middleware/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";

/** A handler that counts its calls and responds with the request's path and body. */
async function counting() {
  const db = openSqlite({ file: ":memory:" });
  await migrate(db);
  let calls = 0;
  const handler = idempotentHttp(
    { transaction: transaction(db), scope: "all callers", subscriber: "api" },
    async (request) => {
      const { pathname, search } = new URL(request.url);
      calls++;
      return Response.json({ calls, at: pathname + search, body: await request.text() }, { status: 201 });
    },
  );
  return { handler, close: () => db.close() };
}

const lambdaEvent = (key: string, body: string) =>
  ({
    rawPath: "/orders",
    rawQueryString: "a=1",
    headers: { "idempotency-key": key, "content-type": "text/plain" },
    requestContext: { domainName: "shop.example", http: { method: "POST" } },
    body: Buffer.from(body).toString("base64"),
    isBase64Encoded: true,
  }) as unknown as APIGatewayProxyEventV2;

it("MID-03 idempotent HTTP behind Lambda's HTTP API: the second answer is the first, another body is 422", async () => {
  const { handler, close } = await counting();
  const lambda = lambdaHttp(handler);
  const first = await lambda(lambdaEvent('"k"', "ü"));
  expect(first).toMatchObject({ statusCode: 201, isBase64Encoded: false });
  expect(JSON.parse(first.body!)).toEqual({ calls: 1, at: "/orders?a=1", body: "ü" });
  expect(await lambda(lambdaEvent('"k"', "ü"))).toEqual(first);
  expect(await lambda(lambdaEvent('"k"', "other"))).toMatchObject({
    statusCode: 422,
    headers: { "content-type": "application/problem+json" },
  });
  await expect(lambda({} as never)).rejects.toThrow(/HTTP API/);
  await close();
});

it("bytes that are not text arrive unchanged behind Lambda, whatever content type the response has", async () => {
  const bytes = Buffer.from([0x00, 0xff, 0xfe, 0x80]);
  for (const type of [undefined, "text/plain; charset=iso-8859-1", "image/png"]) {
    const lambda = lambdaHttp(
      async () => new Response(bytes, { headers: type === undefined ? {} : { "content-type": type } }),
    );
    const { body, isBase64Encoded } = await lambda(lambdaEvent('"k"', "x"));
    expect(isBase64Encoded).toBe(true);
    expect(Buffer.from(body!, "base64")).toEqual(bytes);
  }
});

it("MID-03 idempotent HTTP as an Azure function: the second answer is the first", async () => {
  const { handler, close } = await counting();
  const azure = azureHttp(handler);
  const request = () =>
    new HttpRequest({
      method: "POST",
      url: "https://shop.example/orders?a=1",
      headers: { "idempotency-key": "k" },
      body: { string: "p" },
    });
  for (let i = 0; i < 2; i++) {
    const { status, body } = await azure(request());
    expect(status).toBe(201);
    expect(await new Response(body as ReadableStream).json()).toEqual({
      calls: 1,
      at: "/orders?a=1",
      body: "p",
    });
  }
  await close();
});

it("a method or a header that a web Request refuses is answered 400 behind Lambda, without a call of the handler", async () => {
  let calls = 0;
  const lambda = lambdaHttp(async () => {
    calls++;
    return new Response("ok");
  });
  const event = lambdaEvent('"k"', "x");
  const refused: APIGatewayProxyEventV2[] = [
    { ...event, headers: { ...event.headers, "x-name": "名" } },
    { ...event, headers: { ...event.headers, "x-lines": "a\nb" } },
    { ...event, headers: { ...event.headers, "not a name": "a" } },
    { ...event, cookies: ["a=\u2028"] },
    ...["TRACE", "CONNECT", "BAD METHOD"].map((method) => ({
      ...event,
      requestContext: { ...event.requestContext, http: { ...event.requestContext.http, method } },
    })),
  ];
  for (const one of refused)
    expect(await lambda(one)).toMatchObject({
      statusCode: 400,
      headers: { "content-type": "application/problem+json" },
    });
  expect(calls).toBe(0);
});

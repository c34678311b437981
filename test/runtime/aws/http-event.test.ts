import { describe, expect, it } from "vitest";
import {
  lambdaBudget,
  requestFromEvent,
  resultFromPlain,
  triggerOf,
} from "../../../src/adapters/aws/events.js";
import { readAwsSettings } from "../../../src/config/aws-settings.js";
import { httpEvent } from "./http-events.js";

describe("HTTP events of Lambda", () => {
  it("FUN-01 a body in base64 is decoded to the bytes that were sent", () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
    const body = Buffer.from(bytes).toString("base64");
    const request = requestFromEvent(httpEvent({ body, isBase64Encoded: true }));
    expect(request.body).toEqual(Buffer.from(bytes));
  });

  it("FUN-01 a text body keeps every character", () => {
    const body = '{"name":"Zoë 🦊\\u0000"}\r\n';
    expect(requestFromEvent(httpEvent({ body })).body).toEqual(Buffer.from(body));
  });

  it("FUN-01 headers, cookies, query and the stage's path are as they were sent", () => {
    const request = requestFromEvent(
      httpEvent({
        headers: { "x-forwarded-for": "192.0.2.1, 192.0.2.2", "Content-Type": "application/json" },
        cookies: ["a=1", "b=2"],
        rawPath: "/prod/webhooks/stripe",
        rawQueryString: "a=1&a=2&b=%2F+x&name=O'Brien&quoted=%27y%27",
        body: "{}",
      }),
    );
    expect(request.url).toBe(
      "https://api.example.com/prod/webhooks/stripe?a=1&a=2&b=%2F+x&name=O'Brien&quoted=%27y%27",
    );
    expect(request.method).toBe("POST");
    expect(request.headers.get("X-Forwarded-For")).toBe("192.0.2.1, 192.0.2.2");
    expect(request.headers.get("content-type")).toBe("application/json");
    expect(request.headers.get("cookie")).toBe("a=1; b=2");
    expect(request.headers.get("authorization")).toBeNull();
  });

  it("FUN-01 a decoded path with ? and # stays a path", () => {
    const request = requestFromEvent(httpEvent({ rawPath: "/webhooks/a?b#c d", rawQueryString: "q=1" }));
    expect(new URL(request.url).search).toBe("?q=1");
    expect(decodeURIComponent(new URL(request.url).pathname)).toBe("/webhooks/a?b#c d");
  });

  it("FUN-01 a request without a body has none, and an event of another kind is refused with a reason", () => {
    expect(requestFromEvent(httpEvent({ method: "GET" })).body).toBeNull();
    const { headers: _, ...bare } = httpEvent({}); // an event written by hand may lack headers
    expect(requestFromEvent(bare as never).headers.get("content-type")).toBeNull();
    const rest = { httpMethod: "POST", path: "/", requestContext: {} } as never;
    expect(() => requestFromEvent(rest)).toThrow(/payload format 2\.0/);
  });

  it("FUN-01 an answer has its status, headers and text in the result", () => {
    const headers = { "content-type": "application/json", "retry-after": "3" };
    expect(resultFromPlain({ status: 503, headers, body: '{"ok":"ü"}' })).toEqual({
      statusCode: 503,
      headers,
      body: '{"ok":"ü"}',
      isBase64Encoded: false,
    });
  });
});

describe("what starts the dispatch function", () => {
  it("FUN-06 tells schedules, wake-ups and queues apart", () => {
    expect(triggerOf({ source: "aws.events", "detail-type": "Scheduled Event" })).toBe("schedule");
    expect(triggerOf(undefined)).toBe("schedule");
    expect(triggerOf({ Records: [] })).toBe("schedule");
    expect(triggerOf({ oncebox: "wake-up" })).toBe("wake-up");
    expect(triggerOf({ Records: [{ eventSource: "aws:sqs", body: "anything" }] })).toBe("queue");
  });

  it("FUN-03 no time left is 0, even when Lambda returns a negative number", () => {
    let left = 1_500;
    const budget = lambdaBudget({ getRemainingTimeInMillis: () => left });
    expect(budget.remainingMs()).toBe(1_500);
    left = -20;
    expect(budget.remainingMs()).toBe(0);
    expect(budget.signal.aborted).toBe(false);
  });

  it("FUN-06 the settings name one way to wake, and a queue by its URL", () => {
    expect(readAwsSettings({ ONCEBOX_DISPATCH_FUNCTION: " dispatch " })).toEqual({
      dispatchFunction: "dispatch",
      wakeQueueUrl: undefined,
    });
    const queue = "https://sqs.us-east-1.amazonaws.com/0/wake";
    expect(() => readAwsSettings({ ONCEBOX_DISPATCH_FUNCTION: "d", ONCEBOX_WAKE_QUEUE_URL: queue })).toThrow(
      /Set only one of them/,
    );
    expect(() => readAwsSettings({ ONCEBOX_WAKE_QUEUE_URL: "wake" })).toThrow(/queue's URL/);
  });
});

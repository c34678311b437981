import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { PlainRequest } from "../../../src/http/plain.js";
import type { WebhookInbox, WebhookRouteOptions, WebhookScheme } from "../../../src/webhooks/index.js";
import { slack } from "../../../src/webhooks/presets/slack.js";
import { createWebhookReceiver } from "../../../src/webhooks/route.js";
import { checkScheme } from "../../../src/webhooks/schemes/check-scheme.js";
import { type LogLine, recordingLogger } from "../../contract/support/recording-logger.js";
import { now, reception, signed, withShortSecrets } from "./support.js";

/** Something that a step waits for until the test lets it go on. */
function held<T>(value: T) {
  let release = (): void => {};
  const promise = new Promise<T>((resolve) => {
    release = () => resolve(value);
  });
  return { promise, release: () => release() };
}

const certificate = readFileSync(new URL("../../support/tls/provider.crt", import.meta.url), "utf8");
const secret = "the secret of a source";
const verify = { kind: "token", token: "{header:x-token}" } as const;
const plain: WebhookScheme = { verify, messageId: "{json:id}", receiveMs: 2_000 };
const certified: WebhookScheme = {
  ...plain,
  verify: {
    kind: "signature",
    header: "x-signature",
    encoding: "base64",
    algorithm: "rsa-sha256",
    certificate: { url: "{header:x-certificate}", hosts: ["keys.example.com"], path: "/*.pem" },
    signed: "{secret}{body}",
  },
};
const headers = new Headers({
  "content-type": "application/json",
  "x-token": secret,
  "x-signature": Buffer.alloc(256).toString("base64"),
  "x-certificate": "https://keys.example.com/key.pem",
});

/** A source whose steps end when the test says so. */
async function slowSteps(scheme: WebhookScheme, options: Partial<WebhookRouteOptions> = {}) {
  const { inbox } = await reception({ sources: { x: { scheme: plain, secrets: secret } } });
  const logs: LogLine[] = [];
  const steps = {
    secrets: held(secret),
    body: held({ done: false, value: Buffer.from('{"id":"1"}') }),
    certificate: held(certificate),
    inbox: held<void>(undefined),
    storing: held<void>(undefined),
  };
  const slowInbox: WebhookInbox = {
    enqueue: inbox.enqueue,
    receive: async (message, call) => {
      await steps.storing.promise;
      return inbox.receive(message, call);
    },
  };
  const receive = createWebhookReceiver(
    {
      sources: withShortSecrets({ x: { scheme, secrets: () => steps.secrets.promise } }),
      inbox: () => steps.inbox.promise.then(() => slowInbox),
      fetchText: () => steps.certificate.promise,
      logger: recordingLogger(logs),
      clock: () => now,
      ...options,
    },
    checkScheme,
  );
  let reads = 0;
  const request: Omit<PlainRequest, "path"> = {
    method: "POST",
    url: "https://hooks.example.com/webhooks/x",
    headers,
    body: {
      getReader: () => ({
        read: async () => (reads++ === 0 ? steps.body.promise : { done: true }),
        cancel: async () => {},
      }),
    },
  };
  const state: { status?: number } = {};
  const answer = receive(request).then(({ status }) => {
    state.status = status;
  });
  return { steps, state, answer, logs, inbox };
}

describe("the time of a request", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  type Step = "secrets" | "body" | "certificate" | "inbox" | "storing";
  const ways: readonly (readonly [WebhookScheme, Step, Step, string])[] = [
    [plain, "secrets", "body", "reading the body"],
    [certified, "secrets", "certificate", "verifying"],
    [certified, "body", "certificate", "verifying"],
    [plain, "body", "inbox", "choosing the inbox"],
    [plain, "secrets", "storing", "storing"],
    [plain, "inbox", "storing", "storing"],
  ];
  it.each(ways)(
    "FUN-01 all steps share it (%#): two that take 1.5 s each are answered 503 after 2 s",
    async (scheme, first, second, step) => {
      const { steps, state, answer, logs } = await slowSteps(scheme);
      for (const [name, { release }] of Object.entries(steps))
        if (name !== first && name !== second) release();
      await vi.advanceTimersByTimeAsync(1_500);
      steps[first].release();
      await vi.advanceTimersByTimeAsync(499);
      expect(state.status).toBeUndefined();
      await vi.advanceTimersByTimeAsync(2);
      await answer;
      expect(state.status).toBe(503);
      expect(logs.at(-1)?.fields.reason).toContain(`a request, 2000 ms (receiveMs), was over: ${step}.`);
    },
  );

  it("FUN-01 a step that ends after the answer begins no other: nothing is stored", async () => {
    for (const late of ["secrets", "inbox"] as const) {
      const { steps, state, answer, inbox } = await slowSteps(plain);
      for (const [name, { release }] of Object.entries(steps)) if (name !== late) release();
      await vi.advanceTimersByTimeAsync(2_001);
      await answer;
      expect(state.status).toBe(503);
      steps[late].release();
      await vi.advanceTimersByTimeAsync(10_000);
      expect((await inbox.list()).messages, late).toEqual([]);
    }
  });

  it("FUN-01 the timer of a busy process is late: the clock keeps the next step from beginning", async () => {
    const { steps, state, answer, inbox } = await slowSteps(plain);
    for (const { release } of Object.values(steps)) release();
    vi.spyOn(performance, "now").mockReturnValue(performance.now() + 2_000); // and no timer has fired
    await answer;
    vi.mocked(performance.now).mockRestore();
    expect(state.status).toBe(503);
    expect((await inbox.list()).messages).toEqual([]);
  });

  it("FUN-01 FUN-06 a committed message is answered 200, although the wake-up would take longer", async () => {
    const { steps, state, answer, logs, inbox } = await slowSteps(plain, {
      afterEnqueue: () => new Promise(() => {}),
      afterEnqueueMs: 60_000,
    });
    for (const { release } of Object.values(steps)) release();
    await vi.advanceTimersByTimeAsync(2_001);
    await answer;
    expect(state.status).toBe(200);
    expect((await inbox.list()).messages).toHaveLength(1);
    expect(logs.filter(({ level }) => level === "warn")).toMatchObject([
      { message: "afterEnqueue failed; the message is safe" },
    ]);
  });

  it("FUN-01 a body that takes longer than bodyMs is 408, as long as the request has time", async () => {
    const { steps, state, answer } = await slowSteps(plain, { bodyMs: 500 });
    steps.secrets.release();
    await vi.advanceTimersByTimeAsync(501);
    await answer;
    expect(state.status).toBe(408);
  });

  it("FUN-02 when the secret store hangs, the previous secrets are used while there is time to use them", async () => {
    let time = now.getTime();
    let hangs = false;
    const { route } = await reception({
      clock: () => new Date(time),
      sources: { slack: { scheme: slack, secrets: () => (hangs ? new Promise(() => {}) : secret) } },
    });
    const send = () =>
      route(signed("slack", { secrets: secret, timestamp: new Date(time) })).then(({ status }) => status);
    expect(await send()).toBe(200);
    hangs = true;
    time += 300_000;
    const answer = send();
    await vi.advanceTimersByTimeAsync(slack.receiveMs / 2 + 1);
    expect(await answer).toBe(200);
  });
});

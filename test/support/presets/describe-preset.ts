import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type SignOptions, signWebhook, type WebhookScheme } from "../../../src/webhooks/index.js";
import { now, openPresetRoutes, type PresetRoute } from "./preset-route.js";
import type { PresetAnswer, PresetSample, ProviderEvent, StoredEvent } from "./preset-sample.js";

type Open = (secret?: string, clock?: Date) => PresetRoute;

/** The samples of each preset, so that none is without. */
export const describedSamples = new Map<WebhookScheme, readonly PresetSample[]>();

/** What must hold for every preset: the real route, a real inbox, and deliveries that are signed as the provider signs them. */
export function describePreset(name: string, preset: WebhookScheme, sample: PresetSample): void {
  describedSamples.set(preset, [...(describedSamples.get(preset) ?? []), sample]);
  describe(name, () => {
    let routes: Awaited<ReturnType<typeof openPresetRoutes>>;
    beforeAll(async () => {
      routes = await openPresetRoutes(name, preset, sample);
    });
    afterAll(() => routes?.close());
    const open: Open = (secret, clock) => routes.open(secret, clock);

    describeAccepted(sample, open);
    describeRefused(preset, sample, open);
    describeExamples(sample, open);
    if (sample.ours !== false) describeOurs(preset, sample, open, sample.ours);
  });
}

function describeAccepted(sample: PresetSample, open: Open): void {
  const { event, stored, retry = event, otherEvent, answer, cutAgain } = sample;

  it("FUN-01 FUN-02 a genuine delivery is stored with its id, topic and tenant", async () => {
    const route = open();
    await expectAnswer(await route.deliver(event), answer ?? {});
    await expectStored(route, stored);
  });

  const again = sample.neverDuplicate ? "a new message" : "a duplicate";
  it(`FUN-01 the same event again is ${again}, and another event is another message`, async () => {
    const route = open();
    await route.deliver(event);
    // A provider signs a retry again, with the time of the retry.
    const answered = await route.deliver(retry, { at: new Date(now.getTime() + 60_000) });
    expect(answered.ok, `refused: ${route.reason()}`).toBe(true);
    // not "conflict", which would mean that a field of the retry is taken for a change of the event
    expect(route.logged().outcome).toBe(sample.neverDuplicate ? "enqueued" : "duplicate");
    const expected = stored.length * (sample.neverDuplicate ? 2 : 1);
    expect((await route.messages()).map(({ messageId }) => messageId)).toHaveLength(expected);
    expect((await route.deliver(otherEvent)).ok, `refused: ${route.reason()}`).toBe(true);
    expect(route.logged().outcome).toBe("enqueued");
    expect((await route.messages()).length).toBeGreaterThan(expected);
  });

  if (cutAgain !== undefined)
    it("FUN-01 a batch that is cut differently when it is sent again adds only new events", async () => {
      const route = open();
      await route.deliver(event);
      for (const batch of cutAgain.batches) {
        expect((await route.deliver(batch)).ok, `refused: ${route.reason()}`).toBe(true);
        expect(route.logged()).not.toHaveProperty("conflict");
      }
      await expectStored(route, cutAgain.stored);
    });
}

function describeRefused(preset: WebhookScheme, sample: PresetSample, open: Open): void {
  const { event, otherSecret, tamper = addToBody } = sample;
  const expectRefused = async (route: PresetRoute, answer: Response) => {
    expect(answer.status, String(route.reason())).toBeGreaterThanOrEqual(400);
    expect(answer.status).toBeLessThan(404);
    expect(await route.messages()).toEqual([]);
  };

  it("FUN-02 another secret, and no signature at all, are refused", async () => {
    const route = open(otherSecret);
    await expectRefused(route, await route.deliver(event));
    await expectRefused(route, await route.send(event));
  });

  if (tamper !== "unnoticed")
    it("FUN-02 a changed body is refused", async () => {
      const route = open();
      await expectRefused(route, await route.deliver(event, { change: tamper }));
    });

  if (preset.verify.kind === "jwt")
    it("FUN-02 a delivery whose token is a day old is refused", async () => {
      const route = open();
      await expectRefused(route, await route.deliver(event, { at: new Date(now.getTime() - 86_400_000) }));
    });

  const { timestamp } = preset.verify as { timestamp?: { maxAgeMs?: number } };
  if (timestamp !== undefined)
    it.each(["past", "future"])("FUN-02 a delivery that was signed in the %s is refused", async (when) => {
      const route = open();
      const { maxAgeMs = 300_000 } = timestamp;
      const at = new Date(now.getTime() + (when === "past" ? -maxAgeMs - 1_000 : 301_000));
      await expectRefused(route, await route.deliver(event, { at }));
      expect(route.reason()).toBe(when === "past" ? "timestamp too old" : "timestamp too new");
    });
}

function describeExamples({ handshakes = [], examples = [] }: PresetSample, open: Open): void {
  it.each(handshakes)("FUN-01 answers the handshake: $title", async ({ answer, signed, ...event }) => {
    const route = open();
    const got = await (signed ? route.deliver(event) : route.send(event));
    await expectAnswer(got, answer);
    expect(await route.messages()).toEqual([]);
  });

  it.each(examples)("FUN-02 accepts the published example: $title", async (example) => {
    const { secret, at, stored = {}, ...event } = example;
    const route = open(secret, at);
    expect((await route.send(event)).ok, `refused: ${route.reason()}`).toBe(true);
    expect(await route.messages()).toMatchObject([expected(stored)]);
  });
}

/** `oncebox sign` makes a request that the route takes for a genuine one. */
function describeOurs(
  preset: WebhookScheme,
  { event, secret, signingSecret = secret }: PresetSample,
  open: Open,
  { headers: moreHeaders = {}, ...more }: Partial<SignOptions> = {},
): void {
  it("FUN-02 what we sign is accepted", async () => {
    const route = open();
    const url = event.query === undefined ? route.url : `${route.url}?${event.query}`;
    const { headers = {}, body } = event;
    const signed = signWebhook(preset, {
      url,
      body,
      secrets: signingSecret,
      timestamp: now,
      headers: { ...headers, ...moreHeaders },
      ...more,
    });
    const [, query] = signed.url.split("?");
    const sent = { headers: signed.headers, body: signed.body as string, ...(query ? { query } : {}) };
    expect((await route.send(sent)).ok, `refused: ${route.reason()}`).toBe(true);
  });
}

const addToBody = (sent: ProviderEvent): ProviderEvent => ({
  ...sent,
  body: /^\s*[[{]/.test(sent.body) ? `${sent.body} ` : `${sent.body}&tampered=1`,
});

async function expectAnswer(got: Response, { status = 200, text, json, headers = {} }: PresetAnswer) {
  const body = await got.text();
  expect(got.status, body).toBe(status);
  if (json !== undefined) expect(JSON.parse(body)).toEqual(json);
  if (text !== undefined) expect(body).toBe(text);
  for (const [name, value] of Object.entries(headers)) expect(got.headers.get(name), name).toBe(value);
}

async function expectStored(route: PresetRoute, events: readonly StoredEvent[]) {
  const messages = await route.messages();
  expect(messages, String(route.reason())).toHaveLength(events.length);
  const all = events.map((one) => expect.objectContaining({ tenant: undefined, ...expected(one) }));
  expect(messages).toEqual(expect.arrayContaining(all));
}

const expected = (stored: Partial<StoredEvent>): object =>
  Object.fromEntries(
    Object.entries(stored).map(([name, value]) => [
      name,
      value instanceof RegExp ? expect.stringMatching(value) : value,
    ]),
  );

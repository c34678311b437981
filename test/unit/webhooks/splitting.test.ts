import { describe, expect, it } from "vitest";
import type { WebhookScheme } from "../../../src/webhooks/index.js";
import { createDelivery, splitDelivery } from "../../../src/webhooks/schemes/delivery.js";
import { post, reception, signed } from "./support.js";

const secrets = "secret";
const verify = { kind: "signature", header: "x-s" } as const;

/** The payloads of the messages that one body becomes, sorted. */
async function payloadsOf(scheme: Partial<WebhookScheme>, body: string, type = "application/json") {
  const whole = { verify, ...scheme } as WebhookScheme;
  const { route, messages } = await reception({ sources: { custom: { scheme: whole, secrets } } });
  const response = await route(signed(whole, { secrets, body, headers: { "content-type": type } }));
  expect(response.status).toBe(200);
  return (await messages()).map(({ payload }) => payload).sort();
}

describe("deliveries of several events", () => {
  it("FUN-01 a list, a list in a field, lists of lists, and JSON in a form's field are split, and texts stay as they were sent", async () => {
    const exact = '{"id":12345678901234567890, "at":1.10}';
    expect(await payloadsOf({ split: "{json:}" }, `[${exact},{"id":2}]`)).toEqual([exact, '{"id":2}']);
    const quoted = '{"text":"a \\"]}, \\\\","n":[1,[2]]}';
    expect(await payloadsOf({ split: "{json:a.b}" }, `{"a":{"b":[${quoted} , {"id":2}]}}`)).toEqual([
      '{"id":2}',
      quoted,
    ]);
    const nested = '{"entry":[{"changes":[{"id":1},{"id":2}]},{"changes":[{"id":3}]}]}';
    expect(await payloadsOf({ split: "{json:entry.*.changes}" }, nested)).toEqual([
      '{"id":1}',
      '{"id":2}',
      '{"id":3}',
    ]);
    const form = new URLSearchParams({ mandrill_events: '[{"_id":"1"},{"_id":"2"}]' }).toString();
    expect(
      await payloadsOf({ split: "{form:mandrill_events}" }, form, "application/x-www-form-urlencoded"),
    ).toEqual(['{"_id":"1"}', '{"_id":"2"}']);
  });

  it("FUN-01 a body without the list is one message, and so is an entry without the inner list: nothing is dropped", async () => {
    expect(await payloadsOf({ split: "{json:}" }, '{"id":1}')).toEqual(['{"id":1}']);
    expect(await payloadsOf({ split: "{json:entry}" }, '{"other":1}')).toEqual(['{"other":1}']);
    const mixed = '{"entry":[{"changes":[{"id":1}]},{"messaging":[2]}]}';
    expect(await payloadsOf({ split: "{json:entry.*.changes}" }, mixed)).toEqual([
      '{"id":1}',
      '{"messaging":[2]}',
    ]);
    expect(await payloadsOf({ split: "{form:none}" }, "a=1", "text/plain")).toEqual(["a=1"]);
  });

  it("FUN-01 FUN-07 id, topic and tenant are each item's own, beside those of the whole body", async () => {
    const scheme: WebhookScheme = {
      verify,
      split: "{json:entry}",
      messageId: "{json:object}/{item:id}",
      topic: "{json:object}.{item:field}",
      tenant: "{item:page}",
    };
    const { route, messages, logs } = await reception({ sources: { custom: { scheme, secrets } } });
    const body =
      '{"object":"page","entry":[{"id":1,"field":"feed","page":"a"},{"id":2,"field":"likes","page":"b"}]}';
    const response = await route(signed(scheme, { secrets, body }));
    expect(await response.json()).toEqual({
      outcome: "enqueued",
      messages: [
        { messageId: "page/1", outcome: "enqueued" },
        { messageId: "page/2", outcome: "enqueued" },
      ],
    });
    const stored = await messages();
    expect(stored.map(({ topic }) => topic)).toEqual(["custom.page.feed", "custom.page.likes"]);
    expect(stored.map(({ headers }) => headers?.["oncebox-tenant"])).toEqual(["a", "b"]);
    expect(logs.find(({ message }) => message === "webhook")?.fields).toMatchObject({
      outcome: "enqueued",
      enqueued: 2,
    });
  });

  it("FUN-02 a token in the items proves each of them, and one wrong item refuses all", async () => {
    const scheme: WebhookScheme = {
      verify: { kind: "token", token: "{item:clientState}" },
      split: "{json:value}",
      messageId: "{item:id}",
    };
    const { route, messages } = await reception({ sources: { graph: { scheme, secrets } } });
    const send = async (...states: (string | undefined)[]) => {
      const value = states.map((clientState, id) => ({ id: `n${id}`, clientState }));
      return (await route(post("graph", { body: JSON.stringify({ value }) }))).status;
    };
    expect(await send(secrets, "another")).toBe(401);
    expect(await send(secrets, undefined)).toBe(401);
    expect(await send()).toBe(401); // nothing proves an empty list
    expect(await messages()).toEqual([]);
    expect(await send(secrets, secrets)).toBe(200);
    expect(await messages()).toHaveLength(2);
  });

  it("FUN-01 a split that is no list's path is refused", async () => {
    const of = (split: unknown) =>
      reception({ sources: { custom: { scheme: { verify, split } as never, secrets } } });
    for (const split of ["entry", "{header:x}", "{form:}", "{json:a}{json:b}", 5])
      await expect(of(split)).rejects.toThrow(/split must be/);
  });

  it("FUN-01 more events than a database stores while a provider waits are refused, and none is stored", async () => {
    const scheme: WebhookScheme = { verify, split: "{json:}" };
    const { route, messages, logs } = await reception({ sources: { custom: { scheme, secrets } } });
    const body = `[${"1,".repeat(5_000)}1]`;
    expect((await route(signed(scheme, { secrets, body }))).status).toBe(413);
    expect(logs.at(-1)!.fields.reason).toBe(
      "the delivery has more than 5000 events: let the sender send fewer at once, or leave out split",
    );
    expect(await messages()).toEqual([]);
  });

  it("FUN-02 of the items of an unproven delivery only as many are made as may be verified", () => {
    const body = Buffer.from(`[${"{},".repeat(5_000)}{}]`);
    const delivery = createDelivery({ method: "POST", url: "https://e.com/", headers: new Headers(), body });
    expect(splitDelivery(delivery, { field: undefined, path: [] }, 1_000)).toHaveLength(1_001);
    expect(splitDelivery(delivery, { field: undefined, path: [] })).toHaveLength(5_001);
  });
});

import { describe, expect, it } from "vitest";
import type { WebhookScheme } from "../../../src/webhooks/index.js";
import { now, post, reception, signed } from "./support.js";

const secrets = "secret";
const verify = { kind: "signature", header: "x-s" } as const;
const outcomeOf = async (response: Response): Promise<string> =>
  ((await response.json()) as { outcome: string }).outcome;

describe("the ids of events", () => {
  it("FUN-05 notifications that all look alike are never duplicates with {received}, even without a body", async () => {
    const { route, messages } = await reception({
      sources: {
        custom: { scheme: { verify, messageId: "{received}" }, secrets },
        push: {
          scheme: { verify: { kind: "token", token: "{header:x-token}" }, messageId: "{received}" },
          secrets,
        },
      },
    });
    const send = () => route(signed({ verify }, { secrets, body: '{"list_folder":{"accounts":["a"]}}' }));
    expect(await outcomeOf(await send())).toBe("enqueued");
    expect(await outcomeOf(await send())).toBe("enqueued");
    const empty = () =>
      route(post("push", { body: "", headers: { "x-token": secrets, "content-type": "x/y" } }));
    expect(await outcomeOf(await empty())).toBe("enqueued");
    expect(await outcomeOf(await empty())).toBe("enqueued");
    expect(new Set((await messages()).map(({ messageId }) => messageId)).size).toBe(4);
  });

  it("FUN-05 {window:…} makes one message of those with the same key within a time", async () => {
    const scheme: WebhookScheme = { verify, messageId: "{json:id}@{window:5m}" };
    let at = now;
    const { route, messages } = await reception({
      sources: { custom: { scheme, secrets } },
      clock: () => at,
    });
    const send = async (afterMs: number) => {
      at = new Date(now.getTime() + afterMs);
      return outcomeOf(await route(signed(scheme, { secrets, body: '{"id":"tr_1"}' })));
    };
    expect(await send(0)).toBe("enqueued");
    expect(await send(299_999)).toBe("duplicate");
    expect(await send(300_000)).toBe("enqueued");
    expect((await messages()).map(({ messageId }) => messageId)).toEqual([
      "tr_1@2030-01-01T00:00:00Z",
      "tr_1@2030-01-01T00:05:00Z",
    ]);
  });

  it("FUN-05 {hash}, and an id that is made of the content, leave out what differs between two deliveries", async () => {
    const byHash: WebhookScheme = {
      verify,
      messageId: "e-{hash}",
      volatileFields: ["events.*.attempt", "sent"],
    };
    const byDefault: WebhookScheme = { verify, volatileFields: ["attempt"] };
    const { route, messages } = await reception({
      sources: { custom: { scheme: byHash, secrets }, list: { scheme: byDefault, secrets } },
    });
    const hashed = (attempt: number, amount: string) => {
      const body = `{"sent":${attempt},"events":[{"amount":${amount},"attempt":${attempt}},{"attempt":1}]}`;
      return signed(byHash, { secrets, body });
    };
    expect(await outcomeOf(await route(hashed(1, "1")))).toBe("enqueued");
    expect(await outcomeOf(await route(hashed(2, "1")))).toBe("duplicate");
    // JSON rounds both of these numbers to the same one
    expect(await outcomeOf(await route(hashed(1, "9007199254740993")))).toBe("enqueued");
    expect(await outcomeOf(await route(hashed(1, "9007199254740992")))).toBe("enqueued");
    const inList = (attempt: number) =>
      signed(byDefault, { secrets, body: `[{"id":1,"attempt":${attempt}},{"attempt":${attempt}}]` }, "list");
    expect(await outcomeOf(await route(inList(1)))).toBe("enqueued");
    expect(await outcomeOf(await route(inList(2)))).toBe("duplicate");
    expect((await messages())[0]?.messageId).toMatch(/^e-[0-9a-f]{64}$/);
  });

  it("FUN-05 a key of two parts tells events apart that have the same id at two senders", async () => {
    const scheme: WebhookScheme = {
      verify: { ...verify, signed: "{header:x-hook}.{header:x-id}.{body}" },
      messageId: "{header:x-hook}/{header:x-id}",
    };
    const { route, messages } = await reception({ sources: { custom: { scheme, secrets } } });
    for (const hook of ["app", "repository"])
      await route(signed(scheme, { secrets, body: "{}", headers: { "x-hook": hook, "x-id": "1" } }));
    expect((await messages()).map(({ messageId }) => messageId)).toEqual(["app/1", "repository/1"]);
  });

  it("FUN-05 {received} and {window:…} are checked when the route is created", async () => {
    const of = (scheme: object) =>
      reception({ sources: { custom: { scheme: { verify, ...scheme }, secrets } } });
    await expect(of({ messageId: "{window:soon}" })).rejects.toThrow(/30s, 5m, 1h or 1d/);
    await expect(of({ topic: "{received}" })).rejects.toThrow(/topic has \{received\}/);
    await expect(of({ messageId: "{item:id}" })).rejects.toThrow(/messageId has \{item:id\}/);
    await expect(of({ messageId: "{json:id?}" })).rejects.toThrow(/optional in signed content only/);
  });
});

import { describe, expect, it } from "vitest";
import { exampleEvent, providerType } from "../../../src/cli/example-event.js";
import { loadPreset, presetNames } from "../../../src/webhooks/preset-names.js";
import { checkScheme } from "../../../src/webhooks/schemes/check-scheme.js";
import { createDelivery, splitDelivery } from "../../../src/webhooks/schemes/delivery.js";
import type { WebhookScheme } from "../../../src/webhooks/schemes/scheme.js";
import { fillFirst } from "../../../src/webhooks/schemes/template.js";
import { signWebhook } from "../../../src/webhooks/signing/sign-webhook.js";
import { schemes } from "../../support/presets/schemes.js";

/** The id and the topic that the route would read from the signed example. */
function readBack(scheme: WebhookScheme, id: string, topic: string) {
  const { body, headers } = exampleEvent(scheme, id, topic);
  const url = "http://localhost/webhooks/x";
  const signed = signWebhook(scheme, { url, body, headers, secrets: "c2VjcmV0", messageId: id, topic });
  const delivery = createDelivery({
    method: "POST",
    url: signed.url,
    headers: new Headers(signed.headers),
    body: Buffer.from(signed.body),
  });
  const checked = checkScheme(scheme, []);
  const [event] = splitDelivery(delivery, checked.split);
  return { id: fillFirst(checked.messageId, event!), topic: fillFirst(checked.topic, event!) };
}

describe("the example event of a source", () => {
  it.each(Object.entries(schemes).filter(([name]) => name !== "meta" && name !== "twilio"))(
    "ADD-07 FUN-11 has the id and the topic where the scheme %s reads them",
    (_name, scheme) => {
      expect(readBack(scheme, "evt_1", "order.placed")).toEqual({ id: "evt_1", topic: "order.placed" });
    },
  );

  it("ADD-07 FUN-11 is a form where the topic is in one", () => {
    expect(readBack(schemes.twilio, "evt_1", "message.sent")).toEqual({ id: "evt_1", topic: "message.sent" });
    expect(exampleEvent(schemes.twilio, "evt_1", "call.busy").body).toBe("CallStatus=busy");
  });

  it("ADD-07 FUN-11 has the id as a field of its own where the scheme reads none, so that no two examples are alike", () => {
    expect(exampleEvent(schemes.meta, "evt_1", "page").body).toBe(
      '{"object":"page","entry":[{"example_id":"evt_1"}]}',
    );
  });

  it("ADD-07 FUN-11 has only an id where the scheme cannot read the topic from it", () => {
    const verify = { kind: "token", token: "{header:x-token}" } as const;
    expect(exampleEvent({ verify }, "evt_1", "t")).toEqual({
      body: '{"id":"evt_1"}',
      headers: {},
    });
    const scheme: WebhookScheme = { verify, topic: "order.{json:status}" };
    expect(exampleEvent(scheme, "evt_1", "order.placed").body).toBe('{"id":"evt_1","status":"placed"}');
    expect(exampleEvent(scheme, "evt_1", "invoice.paid").body).toBe('{"id":"evt_1"}');
  });
});

describe("the example event of a provider", () => {
  const withoutKind = ["dropbox", "mollieclassic"];
  // their kinds are made of several values
  const inParts = ["asana", "linear", "plaid", "xero"];

  it.each(presetNames.filter((name) => ![...withoutKind, ...inParts].includes(name)))(
    "ADD-07 FUN-11 of %s is of a kind that its preset reads back",
    async (name) => {
      const scheme = await loadPreset(name);
      const { body, headers } = exampleEvent(scheme, "evt_1", providerType(name));
      const url = "http://localhost/webhooks/x";
      const delivery = createDelivery({
        method: "POST",
        url,
        headers: new Headers(headers),
        body: Buffer.from(body),
      });
      const checked = checkScheme(scheme, []);
      const [event] = splitDelivery(delivery, checked.split);
      expect(fillFirst(checked.topic, event!)).toBe(providerType(name));
    },
  );
});

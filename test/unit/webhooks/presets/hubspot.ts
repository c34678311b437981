import { expect, it } from "vitest";
import { signWebhook } from "../../../../src/webhooks/index.js";
import { hubspot } from "../../../../src/webhooks/presets/hubspot.js";
import { checkScheme } from "../../../../src/webhooks/schemes/check-scheme.js";
import { createDelivery } from "../../../../src/webhooks/schemes/delivery.js";
import { fetchText } from "../../../../src/webhooks/schemes/provider-keys.js";
import { createVerifier } from "../../../../src/webhooks/schemes/verifier.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";
import { openPresetRoutes } from "../../../support/presets/preset-route.js";
import type { PresetSample } from "../../../support/presets/preset-sample.js";

const created = {
  eventId: 1,
  subscriptionId: 12345,
  portalId: 62515,
  appId: 54321,
  occurredAt: 1564113600000,
  subscriptionType: "contact.creation",
  attemptNumber: 0,
  objectId: 123,
  changeSource: "CRM",
};
// the same eventId, which HubSpot allows
const changed = { ...created, subscriptionId: 12346, subscriptionType: "contact.propertyChange" };
const merged = { ...created, portalId: 62516, subscriptionType: "contact.merge" };

const storedOf = (event: typeof created) => ({
  messageId: `${event.portalId}/${event.subscriptionId}/${event.eventId}/${event.objectId}/${event.occurredAt}`,
  topic: event.subscriptionType,
  tenant: String(event.portalId),
});

const sample: PresetSample = {
  secret: "yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy",
  otherSecret: "zzzzzzzz-zzzz-zzzz-zzzz-zzzzzzzzzzzz",
  sign: ({ body, query }, { at, url, secret }) => {
    const target = query === undefined ? url : `${url}?${query}`;
    const text = `POST${target}${body}${at.getTime()}`;
    return {
      headers: {
        "x-hubspot-signature-v3": hmac(secret, text, "base64"),
        "x-hubspot-request-timestamp": String(at.getTime()),
      },
    };
  },
  event: { body: JSON.stringify([created, changed]) },
  retry: { body: JSON.stringify([created, changed].map((one) => ({ ...one, attemptNumber: 1 }))) },
  otherEvent: { body: JSON.stringify([{ ...created, occurredAt: 1564113600001 }]) },
  stored: [storedOf(created), storedOf(changed)],
  cutAgain: {
    batches: [
      { body: JSON.stringify([{ ...changed, attemptNumber: 1 }, merged]) },
      { body: JSON.stringify([{ ...created, attemptNumber: 2 }]) },
    ],
    stored: [storedOf(created), storedOf(changed), storedOf(merged)],
  },
};

describePreset("hubspot", hubspot, sample);

const decodedOf = (query: string) => query.replace("%3A", ":").replace("%2f", "/").replace("%28", "(");

it.each([
  ["as HubSpot's documentation says: some escapes decoded", decodedOf],
  ["as HubSpot's library does: as it is", (query: string) => query],
])("FUN-02 HubSpot: an address with escapes is signed %s", async (_what, written) => {
  const query = "from=a%3Ab%2fc%28d&q=%20%26%3D";
  const routes = await openPresetRoutes("hubspot-escapes", hubspot, sample);
  try {
    const route = routes.open();
    const at = "1893456000000";
    const body = JSON.stringify([created]);
    const text = `POST${route.url}?${written(query)}${body}${at}`;
    const headers = {
      "x-hubspot-signature-v3": hmac(sample.secret, text, "base64"),
      "x-hubspot-request-timestamp": at,
    };
    expect((await route.send({ body, query, headers })).status, String(route.reason())).toBe(200);
    expect((await route.send({ body, query: `${query}&x`, headers })).status).toBe(401);
  } finally {
    await routes.close();
  }
});

// of the tests of HubSpot's own libraries for Python and Ruby
it.each([
  ["hubspot-api-python", 1693657560000, "K36dawei4A+QBNolUOqo7s91KQDWQ5MXZ/QufNYuk/Y="],
  ["hubspot-api-ruby", 1700000300000, "RnbPH7+UMKVkbV32P8bz450N4M56aPmcru1+D3kSDtw="],
])(
  "FUN-02 HubSpot: the published example of %s is verified, and signed alike",
  async (_by, at, signature) => {
    const timestamp = new Date(at);
    const { url, headers, body } = signWebhook(hubspot, {
      url: "https://www.example.com/webhook_uri",
      body: "{'example_field':'example_value'}",
      secrets: sample.secret,
      timestamp,
    });
    expect(headers["x-hubspot-signature-v3"]).toBe(signature);
    const times = { clock: () => timestamp, pastMs: 300_000, futureMs: 300_000 };
    const secrets = { maxAgeMs: 300_000, onStale: () => {}, fetchMs: 5_000, allowShort: false };
    const verify = createVerifier(checkScheme(hubspot, []), sample.secret, {
      ...times,
      ...secrets,
      fetchText,
    });
    const delivery = (changed: string) =>
      createDelivery({
        method: "POST",
        url,
        headers: new Headers(headers),
        body: Buffer.from(body + changed),
      });
    expect(await verify(delivery(""))).toBeUndefined();
    expect(await verify(delivery(" "))).toBe("signature wrong");
  },
);

import { expect, it } from "vitest";
import { eventgrid } from "../../../../src/webhooks/presets/eventgrid.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { openPresetRoutes } from "../../../support/presets/preset-route.js";

const token = "a-token-of-your-own-123";
const created = { id: "1", source: "/blobs/a", type: "Blob.Created", specversion: "1.0", data: {} };
/** The same id at another source is another event. */
const elsewhere = { ...created, source: "/blobs/b" };
const deleted = { ...created, id: "2", type: "Blob.Deleted" };
/** Together with its source its id would be that of another event, if a slash were between them. */
const inner = { ...created, source: "/blobs", id: "a/1" };

const bodyOf = (...events: readonly object[]) => ({ body: JSON.stringify(events) });
const storedOf = ({ id, source, type }: typeof created) => ({ messageId: `${source} ${id}`, topic: type });
const sign = (_event: unknown, { secret }: { readonly secret: string }) => ({ query: `token=${secret}` });

const shared = { secret: token, otherSecret: "a-token-of-another-1234", sign, tamper: "unnoticed" } as const;

describePreset("eventgrid", eventgrid, {
  ...shared,
  event: bodyOf(created, elsewhere, inner),
  otherEvent: { body: JSON.stringify(deleted), headers: { "content-type": "application/cloudevents+json" } },
  stored: [storedOf(created), storedOf(elsewhere), storedOf(inner)],
  cutAgain: {
    batches: [bodyOf(elsewhere, deleted), { body: JSON.stringify(created) }],
    stored: [storedOf(created), storedOf(elsewhere), storedOf(inner), storedOf(deleted)],
  },
  handshakes: [
    {
      title: "subscription validation",
      ...bodyOf({
        id: "2d1781af-3a4c-4d7c-bd0c-e34b19da4e66",
        topic: "/subscriptions/x",
        eventType: "Microsoft.EventGrid.SubscriptionValidationEvent",
        data: { validationCode: "512d38b6-c7b8-40c8-89fe-f46f9e9622b6" },
      }),
      signed: true,
      answer: { json: { validationResponse: "512d38b6-c7b8-40c8-89fe-f46f9e9622b6" } },
    },
    {
      title: "CloudEvents' OPTIONS",
      method: "OPTIONS",
      body: "",
      headers: { "webhook-request-origin": "eventgrid.azure.net" },
      signed: true,
      answer: { headers: { "webhook-allowed-origin": "eventgrid.azure.net" } },
    },
  ],
});

const own = { id: "1", topic: "/subscriptions/x", subject: "/a", eventType: "Blob.Created", data: {} };

describePreset("eventgrid, its own schema", eventgrid, {
  ...shared,
  event: bodyOf(own, { ...own, topic: "/subscriptions/y" }),
  otherEvent: bodyOf({ ...own, id: "2" }),
  stored: [
    { messageId: "/subscriptions/x 1", topic: "Blob.Created" },
    { messageId: "/subscriptions/y 1", topic: "Blob.Created" },
  ],
});

it("FUN-01 Event Grid: events that come with a validation are stored, and the validation is answered", async () => {
  const validation = {
    id: "v",
    topic: "/subscriptions/x",
    eventType: "Microsoft.EventGrid.SubscriptionValidationEvent",
    data: { validationCode: "512d38b6" },
  };
  const routes = await openPresetRoutes("eventgrid-mixed", eventgrid, {
    ...shared,
    event: bodyOf(own),
    otherEvent: bodyOf(own),
    stored: [],
  });
  try {
    for (const batch of [bodyOf(validation, own), bodyOf(own, validation)]) {
      const route = routes.open();
      const answer = await route.deliver(batch);
      expect([answer.status, await answer.json()]).toEqual([200, { validationResponse: "512d38b6" }]);
      expect(await route.messages()).toMatchObject([
        { messageId: "/subscriptions/x 1", topic: "Blob.Created", payload: JSON.stringify(own) },
      ]);
    }
    const unanswerable = routes.open();
    const answer = await unanswerable.deliver(bodyOf({ ...validation, data: {} }, own));
    expect([answer.status, (await unanswerable.messages()).length]).toEqual([200, 1]);
  } finally {
    await routes.close();
  }
});

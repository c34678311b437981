import { xero } from "../../../../src/webhooks/presets/xero.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";

const contact = {
  resourceUrl: "https://api.xero.com/api.xro/2.0/Contacts/717f2bfc-c6d4-41fd-b238-3f2f0c0cf777",
  resourceId: "717f2bfc-c6d4-41fd-b238-3f2f0c0cf777",
  eventDateUtc: "2030-01-01T00:00:00.123",
  eventType: "Update",
  eventCategory: "CONTACT",
  tenantId: "c2cc9b6e-9458-4c7d-93cc-f02b81b0594f",
  tenantType: "ORGANISATION",
};
const invoice = { ...contact, eventCategory: "INVOICE" };
const other = { ...contact, tenantId: "d2cc9b6e-9458-4c7d-93cc-f02b81b0594f" };

const bodyOf = (...events: readonly object[]): string =>
  JSON.stringify({
    events,
    lastEventSequence: events.length,
    firstEventSequence: 1,
    entropy: "S0m3r4Nd0mt3xt",
  });

const storedOf = (event: typeof contact) => ({
  messageId: `${event.tenantId}/${event.eventCategory}/${event.eventType}/${event.resourceId}/${event.eventDateUtc}`,
  topic: `${event.eventCategory}.${event.eventType}`,
  tenant: event.tenantId,
});

describePreset("xero", xero, {
  secret: "s3cr3t/webhooks+key+of+the+app==",
  otherSecret: "t3cr3t/webhooks+key+of+the+app==",
  sign: ({ body }, { secret }) => ({
    headers: { "x-xero-signature": hmac(secret, body, "base64") },
  }),
  event: { body: bodyOf(contact, invoice) },
  otherEvent: { body: bodyOf({ ...contact, eventDateUtc: "2030-01-01T00:00:00.124" }) },
  stored: [storedOf(contact), storedOf(invoice)],
  cutAgain: {
    batches: [{ body: bodyOf(invoice, other) }],
    stored: [storedOf(contact), storedOf(invoice), storedOf(other)],
  },
  answer: { text: "" },
  handshakes: [
    { title: "intent to receive, rightly signed", body: bodyOf(), signed: true, answer: { text: "" } },
    {
      title: "intent to receive, wrongly signed",
      body: bodyOf(),
      headers: { "x-xero-signature": hmac("somebody else", bodyOf(), "base64") },
      answer: { status: 401, text: "" },
    },
  ],
});

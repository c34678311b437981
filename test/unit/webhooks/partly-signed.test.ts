import { describe, expect, it } from "vitest";
import { signWebhook, type WebhookScheme } from "../../../src/webhooks/index.js";
import { adyen } from "../../../src/webhooks/presets/adyen.js";
import { mailgun } from "../../../src/webhooks/presets/mailgun.js";
import { rsaCertificate, rsaSignature } from "../../support/presets/rsa-key.js";
import { address, now, post, reception, signed } from "./support.js";

const hexSecret = "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00";
const topicArn = "arn:aws:sns:us-west-2:123456789012:orders";

const item = {
  NotificationRequestItem: {
    pspReference: "7914073381342284",
    merchantAccountCode: "TestMerchant",
    merchantReference: "order-1",
    amount: { currency: "EUR", value: 1000 },
    eventCode: "AUTHORISATION",
    success: "true",
    additionalData: { shopperReference: "customer-1" },
  },
};
const outcomeOf = async (response: Response) => ((await response.json()) as { outcome: string }).outcome;
const fieldsOf = (headers: Readonly<Record<string, string>> | null): unknown =>
  JSON.parse(headers?.["oncebox-signed-fields"] ?? "null");

describe("deliveries of which a part is signed", () => {
  it("FUN-02 Adyen: a copy with other unsigned fields does not replace a waiting message, in a batch or alone", async () => {
    const { route, messages, logs } = await reception({
      sources: { adyen: { scheme: adyen, secrets: hexSecret } },
    });
    const { body } = signWebhook(adyen, {
      url: address("adyen"),
      secrets: hexSecret,
      body: JSON.stringify({ notificationItems: [item] }),
    });
    const copy = body.replace("customer-1", "customer-2");
    expect((await route(post("adyen", { body }))).status).toBe(200);
    expect((await route(post("adyen", { body: copy }))).status).toBe(200);
    const [stored, ...others] = await messages();
    expect(others).toEqual([]);
    expect(stored!.payload).toContain("customer-1");
    expect(logs.filter(({ fields }) => fields.outcome === "conflict")).not.toEqual([]);
    const signedFields = [
      "pspReference",
      "originalReference",
      "merchantAccountCode",
      "merchantReference",
      "amount.value",
      "amount.currency",
      "eventCode",
      "success",
    ].map((name) => `NotificationRequestItem.${name}`);
    expect(fieldsOf(stored!.headers)).toEqual(signedFields);
  });

  it("FUN-02 SNS: the attributes of a copy do not replace those of a waiting message, and the message says what is signed", async () => {
    const { route, messages } = await reception({
      sources: { sns: { secrets: topicArn } },
      fetchText: async () => rsaCertificate,
    });
    const send = async (id: string, subject: string | undefined, role: string) => {
      const text = `Message\nHello\nMessageId\n${id}\n${subject === undefined ? "" : `Subject\n${subject}\n`}Timestamp\n2030\nTopicArn\n${topicArn}\nType\nNotification\n`;
      const content = {
        ...{
          Type: "Notification",
          MessageId: id,
          TopicArn: topicArn,
          Subject: subject,
          Message: "Hello",
          Timestamp: "2030",
        },
        ...{ SignatureVersion: "2", Signature: rsaSignature(text) },
        SigningCertURL: "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-1.pem",
        MessageAttributes: { role: { Type: "String", Value: role } },
      };
      return outcomeOf(await route(post("sns", { body: JSON.stringify(content) })));
    };
    expect(await send("m-1", undefined, "guest")).toBe("enqueued");
    expect(await send("m-1", undefined, "guest")).toBe("duplicate");
    expect(await send("m-1", undefined, "admin")).toBe("conflict");
    expect(await send("m-2", "a subject", "guest")).toBe("enqueued");
    const [first, second] = await messages();
    expect(first!.payload).toContain('"guest"');
    const usual = ["Message", "MessageId", "Timestamp", "TopicArn", "Type"];
    expect(fieldsOf(first!.headers)).toEqual(usual);
    expect(fieldsOf(second!.headers)).toEqual([
      "Message",
      "MessageId",
      "Subject",
      "Timestamp",
      "TopicArn",
      "Type",
    ]);
  });

  it("FUN-02 nothing of the event is signed by Mailgun; what is signed as a whole says nothing, and its newest content counts", async () => {
    const whole: WebhookScheme = { verify: { kind: "signature", header: "x-s" }, messageId: "{json:id}" };
    const { route, messages } = await reception({
      sources: {
        mailgun: { scheme: mailgun, secrets: "secret" },
        custom: { scheme: whole, secrets: "secret" },
      },
    });
    await route(
      signed(
        mailgun,
        { secrets: "secret", body: '{"event-data":{"id":"1"},"signature":{"token":"t"}}' },
        "mailgun",
      ),
    );
    await route(signed(whole, { secrets: "secret", body: '{"id":"1","a":1}' }));
    expect(await outcomeOf(await route(signed(whole, { secrets: "secret", body: '{"id":"1","a":2}' })))).toBe(
      "conflict",
    );
    const all = await messages();
    const of = (source: string) => all.find((one) => one.source === source)!;
    expect(fieldsOf(of("mailgun").headers)).toEqual(["signature.timestamp", "signature.token"]);
    expect(of("custom").headers).not.toHaveProperty("oncebox-signed-fields");
    expect(of("custom").payload).toContain('"a":2');
    expect(now).toBeInstanceOf(Date);
  });
});

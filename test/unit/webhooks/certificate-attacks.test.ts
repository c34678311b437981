import { crc32 } from "node:zlib";
import { describe, expect, it } from "vitest";
import { rsaCertificate, rsaSignature } from "../../support/presets/rsa-key.js";
import { now, post, reception } from "./support.js";

const topic = "arn:aws:sns:us-west-2:123456789012:orders";
const host = "https://sns.us-west-2.amazonaws.com";
const certificateUrl = `${host}/SimpleNotificationService-f3ecfb7224c7233f.pem`;
const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

type Fields = Readonly<Record<string, string>>;

const signedKeys = [
  "Message",
  "MessageId",
  "Subject",
  "SubscribeURL",
  "Timestamp",
  "Token",
  "TopicArn",
  "Type",
];

/** As SNS signs it: the keys that the message has, sorted, each followed by its value. */
function notification(own: Fields = {}, url = certificateUrl): Fields {
  const message: Fields = {
    Type: "Notification",
    MessageId: "m-1",
    TopicArn: topic,
    Message: "Hello",
    Timestamp: "2030-01-01T00:00:00.000Z",
    ...own,
  };
  const text = signedKeys.map((key) => (key in message ? `${key}\n${message[key]}\n` : "")).join("");
  return { ...message, SignatureVersion: "2", Signature: rsaSignature(text), SigningCertURL: url };
}

async function openSns(topics: string | readonly string[] = topic) {
  let time = now.getTime();
  const fetched: string[] = [];
  const made = await reception({
    sources: { sns: { secrets: topics } },
    clock: () => new Date(time),
    async fetchText(url) {
      fetched.push(url);
      return rsaCertificate;
    },
  });
  await made.route.prepare();
  return {
    ...made,
    fetched,
    pass: (ms: number) => {
      time += ms;
    },
    send: async (fields: Fields) =>
      (
        await made.route(
          post("sns", { body: JSON.stringify(fields), headers: { "content-type": "text/plain" } }),
        )
      ).status,
  };
}

/** A certificate that SNS never had, with a signature that nobody made. */
const madeUp = (name: number): Fields => ({
  ...notification({}, `${host}/SimpleNotificationService-${name}.pem`),
  Signature: Buffer.alloc(256, 1).toString("base64"),
});

describe("strangers who name certificates", () => {
  it("FUN-02 nothing is fetched for another topic, region, path or algorithm, nor without a signature", async () => {
    const { send, fetched } = await openSns();
    const strangers: readonly Fields[] = [
      notification({ TopicArn: "arn:aws:sns:us-west-2:999999999999:orders" }),
      notification({ TopicArn: `${topic}2` }),
      notification({}, certificateUrl.replace("us-west-2", "eu-west-1")),
      notification({}, `${host}/another.pem`),
      notification({}, `${host}/SimpleNotificationService-1.pem/2.pem`),
      notification({}, `${host}/a/SimpleNotificationService-1.pem`),
      { ...notification(), SignatureVersion: "3" },
      { ...notification(), Signature: "" },
      { ...notification(), Signature: "no base64!" },
      { ...notification(), Message: "" },
    ];
    for (const one of strangers) expect(await send(one), JSON.stringify(one)).toBe(401);
    expect(fetched).toEqual([]);
    expect(await send(notification())).toBe(200);
  });

  it("FUN-02 certificates that verify nothing never evict one that has, nor use up its fetches", async () => {
    const { send, fetched, pass } = await openSns();
    expect(await send(notification())).toBe(200);
    for (let name = 0; name < 100; name++) {
      await send(madeUp(name));
      if (name % 25 === 24) pass(minuteMs);
    }
    expect(fetched.length).toBeGreaterThan(50); // the budget is one of each minute
    expect(await send(notification({ MessageId: "m-2" }))).toBe(200);
    expect(fetched.filter((url) => url === certificateUrl)).toHaveLength(1);
    pass(dayMs); // it has grown old, and is fetched once more
    for (let name = 100; name < 200; name++) await send(madeUp(name));
    expect(await send(notification({ MessageId: "m-3" }))).toBe(200);
    expect(fetched.filter((url) => url === certificateUrl)).toHaveLength(2);
  });

  it("FUN-02 an address that had no certificate is not fetched again at once", async () => {
    const made = await reception({
      sources: { sns: { secrets: topic } },
      async fetchText(url) {
        fetched.push(url);
        throw new Error("no such file");
      },
    });
    const fetched: string[] = [];
    for (let n = 0; n < 10; n++) {
      const body = JSON.stringify(madeUp(1));
      expect((await made.route(post("sns", { body }))).status).toBe(503);
    }
    expect(fetched).toHaveLength(1);
  });

  it("FUN-02 PayPal: only certificates of its own folder are fetched, and those that verify nothing take no other's place", async () => {
    let time = now.getTime();
    const fetched: string[] = [];
    const webhookId = "4JH86294D6297924G";
    const { route } = await reception({
      sources: { paypal: { secrets: webhookId } },
      clock: () => new Date(time),
      async fetchText(url) {
        fetched.push(url);
        return rsaCertificate;
      },
    });
    const certs = "https://api.paypal.com/v1/notifications/certs";
    const send = async (url: string, body = '{"id":"WH-1"}', isGenuine = false) => {
      const signed = `1|2030|${webhookId}|${crc32(body)}`;
      const headers = {
        "paypal-transmission-id": "1",
        "paypal-transmission-time": "2030",
        "paypal-transmission-sig": isGenuine ? rsaSignature(signed) : Buffer.alloc(256).toString("base64"),
        "paypal-cert-url": url,
      };
      return (await route(post("paypal", { body, headers }))).status;
    };
    for (const url of ["https://api.paypal.com/a.pem", `${certs}/a/b`, `${certs}/`, certs, `${certs}x/a`])
      expect(await send(url), url).toBe(401);
    expect(fetched).toEqual([]);
    expect(await send(`${certs}/CERT-right`, '{"id":"WH-1"}', true)).toBe(200);
    for (let name = 0; name < 100; name++) {
      await send(`${certs}/CERT-${name}`);
      if (name % 25 === 24) time += minuteMs;
    }
    expect(await send(`${certs}/CERT-right`, '{"id":"WH-2"}', true)).toBe(200);
    expect(fetched.filter((url) => url.endsWith("right"))).toHaveLength(1);
  });

  it("FUN-02 unknown keys of a JSON web token do not keep new ones from being fetched, nor fetch without end", async () => {
    const { generateKeyPairSync } = await import("node:crypto");
    const { exportJWK, SignJWT } = await import("jose");
    let time = now.getTime();
    let fetches = 0;
    const pairs = ["old", "new"].map((kid) => ({
      kid,
      ...generateKeyPairSync("ec", { namedCurve: "P-256" }),
    }));
    let published = pairs.slice(0, 1);
    const verify = {
      kind: "jwt",
      token: "{header:x-token}",
      algorithms: ["ES256"],
      jwksUrl: "https://provider.example/keys",
    } as const;
    const { route } = await reception({
      sources: { x: { scheme: { verify }, secrets: "https://hooks.example.com" } },
      clock: () => new Date(time),
      async fetchText() {
        fetches++;
        const keys = published.map(async ({ kid, publicKey }) => ({
          ...(await exportJWK(publicKey)),
          kid,
          alg: "ES256",
        }));
        return JSON.stringify({ keys: await Promise.all(keys) });
      },
    });
    const send = async (kid: string, key = pairs[0]!.privateKey) => {
      const token = await new SignJWT({ aud: "https://hooks.example.com", exp: time / 1_000 + 60 })
        .setProtectedHeader({ alg: "ES256", kid })
        .sign(key);
      return (await route(post("x", { body: `{"n":"${kid}${time}"}`, headers: { "x-token": token } })))
        .status;
    };
    expect(await send("old")).toBe(200);
    for (let n = 0; n < 100; n++) expect(await send(`made-up-${n}`)).toBe(401);
    expect(fetches).toBeLessThan(3);
    published = pairs;
    time += 10_000;
    expect(await send("new", pairs[1]!.privateKey)).toBe(200);
  });
});

describe("the hosts of SNS", () => {
  it.each([
    ["aws", "us-west-2", "sns.us-west-2.amazonaws.com"],
    ["aws", "ap-southeast-2", "sns.ap-southeast-2.amazonaws.com"],
    ["aws-us-gov", "us-gov-west-1", "sns.us-gov-west-1.amazonaws.com"],
    ["aws-cn", "cn-north-1", "sns.cn-north-1.amazonaws.com.cn"],
  ])("FUN-02 %s, %s: %s and no other", async (partition, region, right) => {
    const arn = `arn:${partition}:sns:${region}:123456789012:orders`;
    const { send, fetched } = await openSns([arn]);
    const at = (name: string) => `https://${name}/SimpleNotificationService-1.pem`;
    const wrong = [
      "sns.s3-external-1.amazonaws.com",
      "sns.s3-website-1.amazonaws.com",
      "sns.cn-s3-1.amazonaws.com.cn",
      "sns.us-east-1.amazonaws.com",
      "sns.cn-northwest-1.amazonaws.com.cn",
      `${right}.example.com`,
      `a.${right}`,
      right.endsWith(".cn") ? right.replace(/\.cn$/, "") : `${right}.cn`,
    ];
    for (const name of wrong) expect(await send(notification({ TopicArn: arn }, at(name))), name).toBe(401);
    expect(fetched).toEqual([]);
    expect(await send(notification({ TopicArn: arn }, at(right)))).toBe(200);
    const confirm = (name: string): Fields =>
      notification(
        {
          Type: "SubscriptionConfirmation",
          TopicArn: arn,
          Token: "1",
          SubscribeURL: `https://${name}/?Action=ConfirmSubscription`,
        },
        at(right),
      );
    for (const name of wrong) expect(await send(confirm(name)), name).toBe(400);
    expect(await send(confirm(right))).toBe(200);
    expect(fetched).toEqual([at(right), `https://${right}/?Action=ConfirmSubscription`]);
  });

  it("FUN-02 a secret that is no topic of SNS is refused when the route is created", async () => {
    for (const wrong of ["orders", "arn:aws:s3:::bucket", "arn:aws-other:sns:us-west-2:1:orders"])
      await expect(openSns(wrong), wrong).rejects.toThrow(/secrets\[0\] .*arn:aws:sns:/);
  });
});

describe("line breaks in what SNS signs", () => {
  it("FUN-02 only the message may have one: no border between two values can be moved", async () => {
    const { send, messages } = await openSns();
    const genuine = notification({ Subject: "s", Message: "line 1\nline 2" });
    expect(await send(genuine)).toBe(200);
    const { Subject: _, ...without } = genuine;
    const moved: readonly Fields[] = [
      { ...without, MessageId: "m-1\nSubject\ns" }, // the same bytes are signed
      notification({ Subject: "a\nb" }),
      notification({ MessageId: "m-1\n" }),
      notification({ Timestamp: "2030\n" }),
      notification({ Type: "Notification\nx" }),
    ];
    for (const one of moved) expect(await send(one), JSON.stringify(one)).toBe(401);
    expect((await messages()).map(({ messageId }) => messageId)).toEqual(["m-1"]);
  });
});

import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { WebhookScheme, WebhookSource } from "../../../src/webhooks/index.js";
import { altered, now, post, reception, secondsOf, signed } from "./support.js";

const stripeSecret = "whsec_one";
const sources: Record<string, WebhookSource> = {
  stripe: { scheme: "stripe", secrets: stripeSecret },
  github: { scheme: "github", secrets: "gh" },
  shopify: { scheme: "shopify", secrets: "shop" },
  slack: { scheme: "slack", secrets: "sl" },
  standard: { scheme: "standard", secrets: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" },
};
const secretOf = (source: string) => sources[source]!.secrets as string;
const signatureHeader: Record<string, string> = {
  stripe: "stripe-signature",
  github: "x-hub-signature-256",
  shopify: "x-shopify-hmac-sha256",
  slack: "x-slack-signature",
  standard: "webhook-signature",
};
type Known = "stripe" | "github" | "shopify" | "slack" | "standard";
const all = Object.keys(signatureHeader) as Known[];
const delivery = (source: Known, more: object = {}) =>
  signed(source, { secrets: secretOf(source), messageId: "m1", ...more });
const signatureOf = (source: Known, request: Request) => request.headers.get(signatureHeader[source]!)!;
const after = (ms: number) => new Date(now.getTime() + ms);

/** Sends them all and returns their statuses; nothing may be stored of what was refused. */
async function statuses(requests: readonly Request[], given = sources): Promise<number[]> {
  const { route, messages } = await reception({ sources: given });
  const found: number[] = [];
  for (const request of requests) found.push((await route(request)).status);
  if (!found.includes(200)) expect(await messages()).toEqual([]);
  return found;
}

describe("forged and damaged webhooks", () => {
  it("FUN-02 the deliveries that the attacks start from are accepted", async () => {
    expect(await statuses(all.map((source) => delivery(source)))).toEqual(all.map(() => 200));
  });

  it("FUN-01 FUN-02 a body that differs in one bit is refused, and nothing is stored", async () => {
    const body = '{"id":"evt_1","type":"ping","amount":1}';
    for (const source of all) {
      const request = delivery(source, { body });
      for (const at of [0, 20, body.length - 2]) {
        const bytes = Buffer.from(body);
        bytes[at]! ^= 1;
        expect(await statuses([altered(request, {}, bytes.toString("latin1"))]), source).toEqual([401]);
      }
      expect(await statuses([altered(request, {}, `${body}\n`), altered(request, {}, "")]), source).toEqual([
        401, 401,
      ]);
    }
  });

  it("FUN-02 a signature that is missing, empty, cut, too long, or written in another encoding is refused", async () => {
    for (const source of all) {
      const request = delivery(source);
      const header = signatureHeader[source]!;
      const value = signatureOf(source, request);
      const [, prefix = "", digest = ""] = /^(.*(?:=|,)(?=[^=])|)([\w+/]+=*)$/.exec(value)!;
      const isHex = /^[0-9a-f]{64}$/.test(digest);
      const other = isHex
        ? Buffer.from(digest, "hex").toString("base64")
        : Buffer.from(digest, "base64").toString("hex");
      const bad = [
        null,
        "",
        " ",
        prefix,
        value.slice(0, -2),
        `${value}00`,
        `${prefix}${other}`,
        `${prefix}${digest.slice(0, 32)}`,
      ];
      bad.push(isHex ? `${prefix}${digest.slice(0, -1)}g` : `${prefix}${digest.replace(/=+$/, "")}`);
      bad.push(`${prefix}${"0".repeat(64)}`, digest === value ? `sha256=${value}` : digest);
      const requests = bad.map((one) => altered(request.clone(), { [header]: one }));
      expect(await statuses(requests), source).toEqual(bad.map(() => 401));
    }
  });

  it("FUN-02 a signature by another secret, or by none, is refused", async () => {
    for (const source of all) {
      const secrets = source === "standard" ? "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" : "other";
      expect(await statuses([delivery(source, { secrets })]), source).toEqual([401]);
    }
    const empty = createHmac("sha256", "").update('{"id":1}').digest("hex");
    const request = post("github", {
      body: '{"id":1}',
      headers: { "x-hub-signature-256": `sha256=${empty}` },
    });
    expect(await statuses([request])).toEqual([401]);
  });

  it("FUN-02 a replayed delivery is refused outside of the tolerance, in the past and in the future", async () => {
    const late = 300_000;
    for (const source of ["stripe", "slack", "standard"] as const) {
      const at = (ms: number) => delivery(source, { timestamp: after(ms), messageId: `m${ms}` });
      expect(await statuses([at(-late), at(late)]), source).toEqual([200, 200]);
      expect(await statuses([at(-late - 1_000), at(late + 1_000), at(-86_400_000)]), source).toEqual([
        401, 401, 401,
      ]);
      const strict = { [source]: { ...sources[source]!, toleranceMs: 1_000 } };
      expect(await statuses([at(-2_000), at(2_000)], strict), source).toEqual([401, 401]);
    }
  });

  it("FUN-02 a timestamp that is changed, removed or not a number is refused", async () => {
    const old = after(-3_600_000);
    const fresh = String(secondsOf(now));
    const stripe = signatureOf("stripe", delivery("stripe", { timestamp: old }));
    const requests = [
      altered(delivery("stripe", { timestamp: old }), {
        "stripe-signature": stripe.replace(/t=\d+/, `t=${fresh}`),
      }),
      altered(delivery("stripe", { timestamp: old }), { "stripe-signature": `t=${fresh},${stripe}` }),
      altered(delivery("stripe", { timestamp: old }), { "stripe-signature": `${stripe},t=${fresh}` }),
      altered(delivery("stripe"), {
        "stripe-signature": signatureOf("stripe", delivery("stripe")).replace(/t=\d+,/, ""),
      }),
      // right in every way, but for a second time beside the signed one
      altered(delivery("stripe"), {
        "stripe-signature": `${signatureOf("stripe", delivery("stripe"))},t=${secondsOf(now) + 1}`,
      }),
      altered(delivery("slack", { timestamp: old }), { "x-slack-request-timestamp": fresh }),
      ...[
        null,
        "",
        "now",
        "1e9",
        "-1",
        `${fresh}.5`,
        `0x${fresh}`,
        "9".repeat(400),
        `${fresh}, ${fresh}`,
      ].map((value) => altered(delivery("slack"), { "x-slack-request-timestamp": value })),
      altered(delivery("standard"), { "webhook-timestamp": "NaN" }),
    ];
    expect(await statuses(requests)).toEqual(requests.map(() => 401));
  });

  it("FUN-02 one right signature in a list is enough, and signatures of other versions are ignored", async () => {
    const value = signatureOf("stripe", delivery("stripe"));
    const digest = /v1=(\w+)/.exec(value)![1]!;
    const stamp = `t=${secondsOf(now)}`;
    const withHeader = (header: string) => altered(delivery("stripe"), { "stripe-signature": header });
    const wrong = "0".repeat(64);
    expect(
      await statuses([
        withHeader(`${stamp},v1=${wrong},v1=${digest},v0=${wrong}`),
        withHeader(`v1=${digest},${stamp}`),
        withHeader(`${stamp}, v1=${digest}`),
      ]),
    ).toEqual([200, 200, 200]);
    expect(
      await statuses([
        withHeader(`${stamp},v0=${digest}`),
        withHeader(`${stamp},v1=${wrong},v1=${wrong}`),
        withHeader(`${stamp},v1==${digest}`),
        withHeader(`${stamp};v1=${digest}`),
      ]),
    ).toEqual([401, 401, 401, 401]);
    const standard = signatureOf("standard", delivery("standard"));
    const list = (header: string) => altered(delivery("standard"), { "webhook-signature": header });
    expect(await statuses([list(`v1,${wrong} ${standard} v2,xyz`)])).toEqual([200]);
    expect(
      await statuses([list(standard.replace("v1,", "v1a,")), list(standard.replace("v1,", "v2,"))]),
    ).toEqual([401, 401]);
  });

  it("FUN-02 a repeated header does not get a forged delivery accepted", async () => {
    const twice = (source: Known, name: string, first: string, second: string) => {
      const request = delivery(source);
      const headers = new Headers(request.headers);
      headers.set(name, first);
      headers.append(name, second);
      return new Request(request, { headers });
    };
    const right = (source: Known) => signatureOf(source, delivery(source));
    const wrong = `sha256=${"0".repeat(64)}`;
    expect(
      await statuses([
        twice("github", "x-hub-signature-256", right("github"), wrong),
        twice("github", "x-hub-signature-256", wrong, right("github")),
        twice("slack", "x-slack-signature", right("slack"), right("slack")),
        twice("standard", "webhook-id", "m1", "m2"),
        twice("standard", "webhook-id", "m1", "m1"),
      ]),
    ).toEqual([401, 401, 401, 401, 401]);
  });

  it("FUN-02 huge headers and endless lists are refused without verifying them", async () => {
    const stamp = `t=${secondsOf(now)}`;
    const right = /v1=\w+/.exec(signatureOf("stripe", delivery("stripe")))![0];
    const padding = `,v1=${"0".repeat(64)}`;
    const requests = [
      altered(delivery("stripe"), { "stripe-signature": `${stamp},${right}${padding.repeat(1_000)}` }),
      altered(delivery("stripe"), { "stripe-signature": `${stamp}${padding.repeat(50)},${right}` }),
      altered(delivery("standard"), {
        "webhook-signature": `${signatureOf("standard", delivery("standard"))}${" v1,AAAA".repeat(2_000)}`,
      }),
      altered(delivery("github"), { "x-hub-signature-256": `sha256=${"a".repeat(1_000_000)}` }),
      altered(delivery("slack"), { "x-slack-request-timestamp": "1".repeat(100_000) }),
    ];
    expect(await statuses(requests)).toEqual(requests.map(() => 401));
  });

  it("FUN-02 a form with too many fields is refused without parsing it", async () => {
    const twilio = { twilio: { scheme: "twilio", secrets: "tw" } as const };
    const fields = (count: number) =>
      Array.from({ length: count }, (_, field) => `${field.toString(36)}=`).join("&");
    const form = signed("twilio", {
      secrets: "tw",
      body: fields(1_000),
      headers: { "content-type": "application/x-www-form-urlencoded" },
    });
    const endless = altered(form.clone(), {}, fields(500_000)); // taken apart it would keep the process for an hour
    expect(await statuses([form, endless], twilio)).toEqual([200, 401]);
  });

  it("FUN-02 header names and hexadecimal digits are accepted in any case", async () => {
    const request = delivery("github");
    const shouted = signatureOf("github", request).replace(/[a-f]+$/g, (digits) => digits.toUpperCase());
    const headers = { "X-HUB-SIGNATURE-256": shouted, "X-GITHUB-DELIVERY": "m1" };
    expect(await statuses([post("github", { body: '{"id":"evt_1","type":"ping"}', headers })])).toEqual([
      200,
    ]);
  });

  it("FUN-02 during a rotation all secrets are valid, and afterwards only the new one", async () => {
    const rotating = (secrets: string[]) => ({ stripe: { scheme: "stripe", secrets } as const });
    const by = (secrets: string | string[], n = 1) =>
      signed("stripe", { secrets, body: `{"id":"evt_${n}"}` });
    expect(await statuses([by("old"), by("new", 2)], rotating(["new", "old"]))).toEqual([200, 200]);
    expect(await statuses([by(["old", "new"])], rotating(["new"]))).toEqual([200]);
    expect(await statuses([by("old")], rotating(["new"]))).toEqual([401]);
  });

  it("FUN-02 one source's secret is not valid for another source", async () => {
    const two = { a: { scheme: "github", secrets: "a" }, b: { scheme: "github", secrets: "b" } } as const;
    const request = (source: string, secrets: string) =>
      signed("github", { secrets, messageId: "m" }, source);
    expect(await statuses([request("b", "a"), request("a", "b")], two)).toEqual([401, 401]);
    expect(await statuses([request("a", "a"), request("b", "b")], two)).toEqual([200, 200]);
  });

  it("FUN-02 the answer has no reason, the log has it, and neither has a secret, a signature or the body", async () => {
    const { route, logs, counts } = await reception({ sources });
    const card = "4242-4242-4242-4242";
    const refused = altered(delivery("stripe"), {}, `{"card":"${card}"}`);
    const answer = await route(refused.clone());
    expect(await answer.json()).toEqual({ error: "unauthorized" });
    await route(delivery("stripe", { timestamp: after(-3_600_000) }));
    await route(delivery("stripe", { body: `{"id":"evt_2","card":"${card}"}` }));
    expect(logs.map(({ level, fields }) => [level, fields.reason])).toEqual([
      ["warn", "signature wrong"],
      ["warn", "timestamp too old"],
      ["info", undefined],
    ]);
    const written = JSON.stringify([logs, counts]);
    for (const secret of [card, stripeSecret, signatureOf("stripe", refused)])
      expect(written).not.toContain(secret);
    expect(counts.map(({ attributes }) => attributes)).toEqual([
      { source: "stripe", outcome: "unauthorized" },
      { source: "stripe", outcome: "unauthorized" },
      { source: "stripe", outcome: "enqueued" },
    ]);
  });
});

describe("a custom scheme", () => {
  const acme: WebhookScheme = {
    verify: {
      kind: "signature",
      header: "X-Acme-Signature",
      separator: ";",
      prefix: "s=",
      algorithm: "sha512",
      encoding: "base64url",
      secretEncoding: "hex",
      signed: "{header:x-acme-id}|{query:region}|{timestamp}|{body}",
      timestamp: { header: "X-Acme-Time", unit: "ms" },
    },
    messageId: "{header:x-acme-id}",
    topic: ["{json:kind}.{json:action}", "{json:kind}"],
  };
  const secrets = "00ff10";
  const url = "https://hooks.example.com/webhooks/acme?region=eu";
  const body = '{"kind":"invoice","action":"paid"}';
  const own = { acme: { scheme: acme, secrets } };

  it("FUN-02 defines headers, algorithm, encoding, signed content and timestamp", async () => {
    const { route, messages } = await reception({ sources: own });
    const key = Buffer.from(secrets, "hex");
    const content = `a-1|eu|${now.getTime()}|${body}`;
    const digest = createHmac("sha512", key).update(content).digest("base64url");
    const headers = {
      "x-acme-id": "a-1",
      "x-acme-time": String(now.getTime()),
      "x-acme-signature": `s=x;s=${digest}`,
    };
    expect((await route(post("acme", { body, headers, url }))).status).toBe(200);
    expect(await messages()).toMatchObject([{ messageId: "a-1", topic: "acme.invoice.paid" }]);
    const elsewhere = url.replace("eu", "us");
    expect((await route(post("acme", { body, headers, url: elsewhere }))).status).toBe(401);
    const later = { ...headers, "x-acme-time": String(now.getTime() + 1) };
    expect((await route(post("acme", { body, headers: later, url }))).status).toBe(401);
  });

  it("FUN-02 signs by the same rules, and survives JSON", async () => {
    const scheme = JSON.parse(JSON.stringify(acme)) as WebhookScheme;
    const { route } = await reception({ sources: { acme: { scheme, secrets } } });
    expect((await route(signed(scheme, { secrets, body, url, messageId: "a-2" }, "acme"))).status).toBe(200);
  });

  it("FUN-02 a token is accepted where the scheme reads it, and nowhere else", async () => {
    const gitlab: WebhookScheme = {
      verify: { kind: "token", token: "{header:x-gitlab-token}" },
      messageId: "{header:x-gitlab-event-uuid}",
    };
    const { route } = await reception({
      sources: { gitlab: { scheme: gitlab, secrets: ["new-token", "old-token"] } },
    });
    const send = async (token: Record<string, string>) =>
      (await route(post("gitlab", { body: "{}", headers: { "x-gitlab-event-uuid": "u", ...token } }))).status;
    expect(await send({ "x-gitlab-token": "new-token" })).toBe(200);
    expect(await send({ "x-gitlab-token": "old-token" })).toBe(200);
    for (const token of ["", "new", "new-token2", "new-token, new-token"]) {
      expect(await send({ "x-gitlab-token": token }), token).toBe(401);
    }
    expect(await send({})).toBe(401);
    expect((await route(signed(gitlab, { secrets: "new-token" }, "gitlab"))).status).toBe(200);
  });
});

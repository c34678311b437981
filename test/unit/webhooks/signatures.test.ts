import { createHmac, generateKeyPairSync, sign } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { WebhookScheme, WebhookSource } from "../../../src/webhooks/index.js";
import { createWebhookReceiver } from "../../../src/webhooks/route.js";
import { checkScheme } from "../../../src/webhooks/schemes/check-scheme.js";
import { anyInbox } from "../../support/presets/schemes.js";
import { now, post, reception } from "./support.js";

const secrets = "secret";
const hex = (content: string, secret = secrets) => createHmac("sha256", secret).update(content).digest("hex");
const body = '{"id":"evt_1","type":"ping"}';

/** Returns the statuses of the answers to these requests, each given as headers and a body. */
async function statuses(
  source: Omit<WebhookSource, "secrets"> & { readonly secrets?: string },
  ...requests: readonly { readonly headers?: Record<string, string>; readonly body?: string }[]
) {
  const { route } = await reception({ sources: { x: { secrets, ...source } } });
  const answers = [];
  for (const request of requests) answers.push((await route(post("x", { body, ...request }))).status);
  return answers;
}
const scheme = (verify: object, more: object = {}): { readonly scheme: WebhookScheme } => ({
  scheme: { verify: { kind: "signature", header: "x-s", ...verify }, ...more } as WebhookScheme,
});

describe("signatures that providers make", () => {
  it("FUN-02 each of several headers may have the signature, and a name may have alternatives", async () => {
    const both = scheme({ header: undefined, headers: ["x-primary", "x-secondary"] });
    delete (both.scheme.verify as { header?: unknown }).header;
    expect(
      await statuses(
        both,
        { headers: { "x-primary": hex(body, "another"), "x-secondary": hex(body) } },
        { headers: { "x-primary": hex(body) } },
        { headers: { "x-primary": hex("other"), "x-secondary": hex(body, "another") } },
        {},
      ),
    ).toEqual([200, 200, 401, 401]);
    const renamed = scheme({ header: "webhook-s|svix-s", signed: "{header:webhook-id|svix-id}.{body}" });
    expect(
      await statuses(
        renamed,
        { headers: { "webhook-id": "1", "webhook-s": hex(`1.${body}`) } },
        { headers: { "svix-id": "2", "svix-s": hex(`2.${body}`) } },
        { headers: { "svix-id": "2", "webhook-id": "3", "svix-s": hex(`2.${body}`) } }, // signed is the first of them
      ),
    ).toEqual([200, 200, 401]);
  });

  it("FUN-02 times are read in seconds, milliseconds and as ISO dates, from headers and from the body, and old ones refused", async () => {
    const at = (ms: number) => new Date(now.getTime() + ms);
    const iso = scheme({ signed: "{timestamp}{body}", timestamp: { header: "x-t", unit: "iso" } });
    const isoAt = (time: string) => ({ headers: { "x-t": time, "x-s": hex(time + body) } });
    expect(
      await statuses(
        iso,
        isoAt("2030-01-01T00:00:00.123456789Z"),
        isoAt("2030-01-01T02:00:00+02:00"),
        isoAt(at(-301_000).toISOString()),
        isoAt(at(301_000).toISOString()),
        isoAt("tomorrow"),
      ),
    ).toEqual([200, 200, 401, 401, 401]);
    const inBody = scheme({ timestamp: { json: "sentAt", unit: "ms" } });
    const sentAt = (ms: number, signedWith = secrets) => {
      const content = `{"sentAt":${at(ms).getTime()}}`;
      return { headers: { "x-s": hex(content, signedWith) }, body: content };
    };
    expect(await statuses(inBody, sentAt(0), sentAt(-301_000), sentAt(0, "another"))).toEqual([
      200, 401, 401,
    ]);
    const patient = scheme({ timestamp: { json: "sentAt", unit: "ms", maxAgeMs: 3_600_000 } });
    expect(await statuses(patient, sentAt(-3_599_000), sentAt(-3_601_000), sentAt(301_000))).toEqual([
      200, 401, 401,
    ]);
    expect(await statuses({ ...patient, toleranceMs: 1_000 }, sentAt(-2_000))).toEqual([401]);
    await expect(statuses(scheme({ timestamp: { header: "x-t" } }))).rejects.toThrow(/could be forged/);
  });

  it("FUN-02 FUN-05 a signature in the body counts, and an id that it does not cover gets the content's hash", async () => {
    const verify = {
      kind: "signature",
      signatureIn: "{json:signature.signature}",
      signed: "{json:signature.timestamp}{json:signature.token}",
      signsPart: true,
      timestamp: { json: "signature.timestamp" },
    } as const;
    const inBody: WebhookScheme = { verify, messageId: "{json:data.id}" };
    const { route, messages } = await reception({
      sources: {
        x: { scheme: inBody, secrets },
        y: { scheme: { verify, messageId: "{json:signature.token}" }, secrets },
      },
    });
    const seconds = now.getTime() / 1_000;
    const content = (token: string, signature = hex(`${seconds}${token}`), timestamp = seconds) =>
      JSON.stringify({ signature: { timestamp, token, signature }, data: { id: "e1" } });
    const send = async (source: string, text: string) => (await route(post(source, { body: text }))).status;
    expect(await send("x", content("t1"))).toBe(200);
    expect(await send("y", content("t1"))).toBe(200);
    expect(await send("x", content("t2", hex(`${seconds}t1`)))).toBe(401);
    expect(await send("x", content("t3", hex(`${seconds - 400}t3`), seconds - 400))).toBe(401);
    expect(await send("x", content("t4", "no signature"))).toBe(401);
    expect(await send("x", '{"data":{"id":"e1"}}')).toBe(401);
    expect(await send("x", `${" ".repeat(1_048_577)}${content("t1")}`)).toBe(401); // not parsed before it is believed
    expect((await messages()).map(({ messageId }) => messageId)).toEqual([
      expect.stringMatching(/^e1~[0-9a-f]{16}$/),
      "t1",
    ]);
  });

  it("FUN-02 each item may have its own signature, of values that may be missing", async () => {
    const perItem: WebhookScheme = {
      verify: {
        kind: "signature",
        signatureIn: "{item:hmac}",
        signed: "{item:ref}:{item:original?}:{item:amount}",
        signsPart: true,
        encoding: "base64",
        secretEncoding: "hex",
      },
      split: "{json:items}",
      messageId: "{item:ref}",
    };
    const key = "00112233445566778899aabbccddeeff";
    const item = (ref: string, signedAs = ref) => ({
      ref,
      amount: 5,
      hmac: createHmac("sha256", Buffer.from(key, "hex")).update(`${signedAs}::5`).digest("base64"),
    });
    const of = (...items: object[]) => ({ body: JSON.stringify({ items }) });
    expect(
      await statuses(
        { scheme: perItem, secrets: key },
        of(item("a"), item("b")),
        of(item("c"), item("d", "e")),
        of(),
        of({ ...item("a"), amount: 6 }),
        of({ ...item("a"), original: "x" }),
      ),
    ).toEqual([200, 401, 401, 401, 401]);
  });

  it("FUN-02 public keys for ECDSA and RSA are PEM or base64, and a key of another kind is refused", async () => {
    const ec = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const rsa = generateKeyPairSync("rsa", { modulusLength: 2_048 });
    const weak = generateKeyPairSync("rsa", { modulusLength: 1_024 });
    const pem = (pair: typeof rsa) => pair.publicKey.export({ type: "spki", format: "pem" }) as string;
    const der = ec.publicKey.export({ type: "spki", format: "der" }).toString("base64");
    const of = (algorithm: string) => scheme({ algorithm, encoding: "base64", signed: "{header:x-t}{body}" });
    const by = (digest: string, pair: typeof rsa, text = body) => ({
      headers: {
        "x-t": "1",
        "x-s": sign(digest, Buffer.from(`1${text}`), pair.privateKey).toString("base64"),
      },
    });
    expect(
      await statuses({ ...of("ecdsa-sha256"), secrets: der }, by("sha256", ec), by("sha256", ec, "other")),
    ).toEqual([200, 401]);
    expect(await statuses({ ...of("ecdsa-sha256"), secrets: pem(ec) }, by("sha256", ec))).toEqual([200]);
    expect(
      await statuses({ ...of("rsa-sha256"), secrets: pem(rsa) }, by("sha256", rsa), by("sha1", rsa)),
    ).toEqual([200, 401]);
    expect(await statuses({ ...of("rsa-sha1"), secrets: pem(rsa) }, by("sha1", rsa))).toEqual([200]);
    await expect(statuses({ ...of("rsa-sha256"), secrets: pem(ec) })).rejects.toThrow(
      /not a key for rsa-sha256/,
    );
    await expect(statuses({ ...of("rsa-sha256"), secrets: pem(weak) })).rejects.toThrow(/has 1024 bits/);
    await expect(statuses({ ...of("ecdsa-sha256"), secrets: "no key" })).rejects.toThrow(/not a key in PEM/);
  });

  it("FUN-02 the URL counts as it was received, with its apostrophe, and with or without the standard port", async () => {
    const signed = scheme({ signed: "{url}{body}" }).scheme;
    const { route } = await reception({ sources: { x: { scheme: signed, secrets } } });
    const send = async (called: string, received = called) => {
      const headers = { "x-s": hex(called + body) };
      return (await route(post("x", { body, headers, url: received }))).status;
    };
    const url = "https://hooks.example.com/webhooks/x?name=O'Brien&to=%2B1";
    expect(await send(url)).toBe(200);
    expect(await send(url.replace(".com", ".com:443"), url)).toBe(200);
    expect(await send(url.replace("'", "%27"))).toBe(200);
    expect(await send(url, url.replace("Brien", "Hara"))).toBe(401);
  });

  it("FUN-02 a URL that no Request has rewritten counts exactly as it was received, behind a gateway too", async () => {
    const signed = scheme({ signed: "{url}{body}" }).scheme;
    const sources = { x: { scheme: signed, secrets, allowShortSecrets: true } };
    // a Request would write the apostrophe and the quotation marks as escapes, of which the URL has one already
    const rest = `/webhooks/x?name=O'Brien&title="a"&quoted=%27b%27`;
    const forwarded = { "x-forwarded-proto": "https", "x-forwarded-host": "api.example.com" };
    const send = async (called: string, options: object = {}, headers: Record<string, string> = {}) => {
      const receive = createWebhookReceiver({ inbox: anyInbox, sources, ...options }, checkScheme);
      const request = {
        method: "POST",
        url: `http://10.0.0.7:8080${rest}`,
        headers: new Headers({ ...headers, "x-s": hex(called + body) }),
        body: Buffer.from(body),
      };
      return (await receive(request)).status;
    };
    expect(await send(`http://10.0.0.7:8080${rest}`)).toBe(200);
    expect(await send(`http://10.0.0.7:8080${rest}x`)).toBe(401);
    const publicUrl = "https://api.example.com/prod";
    expect(await send(`${publicUrl}${rest}`, { publicUrl })).toBe(200);
    expect(await send(`https://api.example.com${rest}`, { trustForwardedHeaders: true }, forwarded)).toBe(
      200,
    );
    expect(await send(`https://api.example.com${rest}`, {}, forwarded)).toBe(401);
  });

  it("FUN-02 a delivery by GET has its values in the query, which the signed URL covers", async () => {
    const byGet: WebhookScheme = {
      verify: { kind: "signature", header: "x-s", signed: "{url}{sortedForm}" },
      methods: ["POST", "GET"],
      messageId: "{form:CallSid}",
      topic: "call.{form:CallStatus}",
    };
    const { route, messages } = await reception({ sources: { x: { scheme: byGet, secrets } } });
    const url = "https://hooks.example.com/webhooks/x?CallSid=CA1&CallStatus=busy";
    const send = async (headers: Record<string, string>) =>
      (await route(new Request(url, { headers }))).status;
    expect(await send({ "x-s": hex(url) })).toBe(200);
    expect(await send({ "x-s": hex(`${url}x`) })).toBe(401);
    expect(await messages()).toMatchObject([
      { messageId: "CA1", topic: "x.call.busy", payload: "CallSid=CA1&CallStatus=busy" },
    ]);
  });
});

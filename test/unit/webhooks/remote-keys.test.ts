import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { exportJWK, SignJWT } from "jose";
import { describe, expect, it } from "vitest";
import type { WebhookRouteOptions, WebhookScheme } from "../../../src/webhooks/index.js";
import { listenOn } from "../../support/loopback.js";
import { now, post, reception } from "./support.js";

const tls = (name: string) => readFileSync(new URL(`../../support/tls/${name}`, import.meta.url), "utf8");
const certificate = tls("provider.crt");
const privateKey = tls("provider.key");

const ours = "arn:aws:sns:eu-west-1:1:orders";
const certificateUrl = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem";
const scheme: WebhookScheme = {
  verify: {
    kind: "signature",
    signatureIn: "{json:Signature}",
    encoding: "base64",
    certificate: {
      url: "{json:SigningCertURL}",
      hosts: [{ sender: "arn:aws:sns:{region}:*", host: "sns.{region}.amazonaws.com" }],
      path: "/SimpleNotificationService-*.pem",
    },
    algorithmBy: { value: "{json:SignatureVersion}", is: { "1": "rsa-sha1", "2": "rsa-sha256" } },
    sender: "{json:TopicArn}",
    signed: [
      "Message\n{json:Message}\nSubject\n{json:Subject}\nTopicArn\n{json:TopicArn}\n",
      "Message\n{json:Message}\nTopicArn\n{json:TopicArn}\n",
    ],
    signsPart: true,
  },
  messageId: "{json:Message}",
  handshakes: [
    {
      method: "POST",
      when: { "{json:Message}": "confirm" },
      answer: { confirm: "{json:SubscribeURL}" },
    },
  ],
};

describe("keys that providers publish", () => {
  interface Notification {
    readonly Message: string;
    readonly Subject?: string;
    readonly TopicArn?: string;
    readonly SigningCertURL?: string;
    readonly SubscribeURL?: string;
    readonly SignatureVersion?: string;
  }
  const notification = (own: Notification) => {
    const { Message, Subject, TopicArn = ours, SignatureVersion = "2" } = own;
    const subject = Subject === undefined ? "" : `Subject\n${Subject}\n`;
    const content = `Message\n${Message}\n${subject}TopicArn\n${TopicArn}\n`;
    const digest = SignatureVersion === "1" ? "sha1" : "sha256";
    const Signature = sign(digest, Buffer.from(content), privateKey).toString("base64");
    return { TopicArn, SigningCertURL: certificateUrl, SignatureVersion, Signature, ...own };
  };
  const routeWith = async (fetchText: WebhookRouteOptions["fetchText"], clock = () => now) => {
    const made = await reception({ sources: { x: { scheme, secrets: ours } }, fetchText: fetchText!, clock });
    const send = async (content: object) =>
      (await made.route(post("x", { body: JSON.stringify(content) }))).status;
    return { ...made, send };
  };

  it("FUN-02 a certificate is fetched once, only from the provider's hosts, and its key signs for one sender", async () => {
    const fetched: string[] = [];
    const { send, messages, logs } = await routeWith(async (url) => {
      fetched.push(url);
      return certificate;
    });
    expect(await send(notification({ Message: "a" }))).toBe(200);
    expect(await send(notification({ Message: "b", Subject: "s", SignatureVersion: "1" }))).toBe(200);
    expect(fetched).toEqual([certificateUrl]);
    const wrong = [
      { ...notification({ Message: "c" }), Message: "d" },
      { ...notification({ Message: "c" }), Subject: "added" }, // it would not be signed
      notification({ Message: "c", TopicArn: "arn:aws:sns:eu-west-1:2:foreign" }),
      notification({ Message: "c", SignatureVersion: "3" }),
      { ...notification({ Message: "c" }), Signature: undefined },
    ];
    for (const one of wrong) expect(await send(one), JSON.stringify(one)).toBe(401);
    const foreign = [
      "https://sns.example.com/a.pem",
      "https://sns.eu-west-1.amazonaws.com.example.com/a.pem",
      "https://example.com/sns.eu-west-1.amazonaws.com",
      "https://sns.eu-west-1.amazonaws.com:8443/a.pem",
      "https://sns.eu-west-1.amazonaws.com@example.com/a.pem",
      "http://sns.eu-west-1.amazonaws.com/a.pem",
      "file:///etc/hosts",
      `${certificateUrl}?again=1`,
      `${certificateUrl}#again`,
      certificateUrl.replace("/Simple", "/a/../Simple"),
    ];
    for (const SigningCertURL of foreign)
      expect(await send(notification({ Message: "c", SigningCertURL })), SigningCertURL).toBe(401);
    expect(fetched).toEqual([certificateUrl]);
    expect(await messages()).toHaveLength(2);
    expect(JSON.stringify(logs)).not.toContain(ours);
  });

  it("FUN-02 a certificate that cannot be fetched is 503, and not asked for without end", async () => {
    let fetches = 0;
    const { send } = await routeWith(async () => {
      fetches++;
      throw new Error("no network");
    });
    for (let index = 0; index < 40; index++)
      expect(await send(notification({ Message: `m${index}` }))).toBe(503);
    expect(fetches).toBe(1);
  });

  it("FUN-02 the log names the host whose keys cannot be fetched, as in a network without a way out", async () => {
    const server = createServer();
    const { port } = await listenOn(server, { port: 0 });
    server.close(); // nothing listens there now
    const verify = {
      kind: "jwt",
      token: "{header:x-token}",
      algorithms: ["RS256"],
      jwksUrl: `https://127.0.0.1:${port}/keys`,
    } as const;
    const { route, logs } = await reception({ sources: { x: { scheme: { verify }, secrets: ours } } });
    expect((await route(post("x", { body: "{}", headers: { "x-token": "a.b.c" } }))).status).toBe(503);
    expect(logs.at(-1)!.fields.reason).toBe(`127.0.0.1:${port} could not be reached: Error ECONNREFUSED.`);
  });

  it("FUN-02 deliveries that name other certificates do not keep a known one from being fetched again", async () => {
    let time = now.getTime();
    const { send } = await routeWith(
      async (url) => {
        if (url !== certificateUrl) throw new Error("no such file");
        return certificate;
      },
      () => new Date(time),
    );
    expect(await send(notification({ Message: "a" }))).toBe(200);
    time += 86_400_000;
    for (let index = 0; index < 40; index++) {
      const SigningCertURL = certificateUrl.replace("-1.pem", `-x${index}.pem`);
      expect(await send(notification({ Message: "b", SigningCertURL }))).toBe(503);
    }
    expect(await send(notification({ Message: "c" }))).toBe(200);
  });

  it("FUN-02 a subscription is confirmed at the provider's address, and at no other", async () => {
    const fetched: string[] = [];
    const { send, messages } = await routeWith(async (url) => {
      fetched.push(url);
      return certificate;
    });
    const SubscribeURL = "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=1";
    expect(await send(notification({ Message: "confirm", SubscribeURL }))).toBe(200);
    expect(await send(notification({ Message: "confirm", SubscribeURL: "https://example.com/" }))).toBe(400);
    expect(await send(notification({ Message: "confirm" }))).toBe(400);
    expect(fetched).toEqual([certificateUrl, SubscribeURL]);
    expect(await messages()).toEqual([]);
  });

  it("FUN-02 a certificate, a sender and {secret} are checked when the route is created", async () => {
    const of = (own: object) =>
      reception({
        sources: { x: { scheme: { verify: { ...scheme.verify, ...own } } as WebhookScheme, secrets: ours } },
      });
    const certificateAt = (hosts: unknown, path: unknown = "/certs/*") => ({
      certificate: { url: "{json:url}", hosts, path },
    });
    const named = { sender: "arn:{region}:*", host: "{region}.example.com" };
    await expect(of(certificateAt([]))).rejects.toThrow(/hosts is empty/);
    await expect(of(certificateAt(["*.com"]))).rejects.toThrow(/last two parts written out/);
    await expect(of(certificateAt([{ ...named, host: "{region}.com" }]))).rejects.toThrow(/written out/);
    await expect(of(certificateAt([{ ...named, host: "{a}.example.com" }]))).rejects.toThrow(/has \{a\}/);
    await expect(of({ ...certificateAt([named]), sender: undefined })).rejects.toThrow(
      /verify.sender is missing/,
    );
    await expect(of(certificateAt(["a.example.com"], "certs/*"))).rejects.toThrow(/begin with a slash/);
    await expect(of(certificateAt(["a.example.com"], "/*/a"))).rejects.toThrow(/after the last slash/);
    await expect(of(certificateAt(["a.example.com"], null))).rejects.toThrow(/path/);
    await expect(of({ algorithmBy: { value: "{json:v}", is: { "1": "sha256" } } })).rejects.toThrow(
      /needs an algorithm/,
    );
    await expect(of({ sender: "{json:Other}" })).rejects.toThrow(/sender is not signed/);
    await expect(of({ sender: undefined })).rejects.toThrow(/does not prove whose event/);
    await expect(of({ certificate: undefined })).rejects.toThrow(/sender needs verify.certificate/);
  });

  it("FUN-02 a JSON web token is verified with the provider's keys, for one audience, and with the body's hash", async () => {
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const other = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const jwks = JSON.stringify({
      keys: [{ ...(await exportJWK(pair.publicKey)), kid: "k1", alg: "ES256" }],
    });
    const verify = {
      kind: "jwt",
      token: "{header:authorization}",
      prefix: "Bearer ",
      algorithms: ["ES256"],
      issuer: "https://provider.example",
      bodyHash: "body_sha256",
    } as const;
    const audience = "https://hooks.example.com";
    const pem = pair.publicKey.export({ type: "spki", format: "pem" }) as string;
    const { route, messages } = await reception({
      sources: {
        published: {
          scheme: { verify: { ...verify, jwksUrl: "https://provider.example/keys" } },
          secrets: audience,
        },
        given: { scheme: { verify }, secrets: pem },
      },
      fetchText: async () => jwks,
    });
    const body = '{"id":1}';
    const hash = createHash("sha256").update(body).digest("hex");
    const claims = { iss: verify.issuer, aud: audience, body_sha256: hash, exp: now.getTime() / 1_000 + 60 };
    const send = async (own: object, key = pair.privateKey, source = "published") => {
      const token = await new SignJWT({ ...claims, ...own })
        .setProtectedHeader({ alg: "ES256", kid: "k1" })
        .sign(key);
      return (await route(post(source, { body, headers: { authorization: `Bearer ${token}` } }))).status;
    };
    expect(await send({})).toBe(200);
    expect(await send({}, pair.privateKey, "given")).toBe(200);
    expect(await send({ aud: "https://another.example" })).toBe(401);
    expect(await send({ iss: "https://another.example" })).toBe(401);
    expect(await send({ body_sha256: hash.replace(/^./, "x") })).toBe(401);
    expect(await send({ exp: now.getTime() / 1_000 - 301 })).toBe(401);
    expect(await send({ exp: undefined })).toBe(401); // neither an end nor a time
    expect(await send({ exp: undefined, iat: now.getTime() / 1_000 - 299 })).toBe(200);
    expect(await send({}, other.privateKey)).toBe(401);
    const unsigned = `${Buffer.from('{"alg":"none"}').toString("base64url")}.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.`;
    const forged = await route(post("given", { body, headers: { authorization: `Bearer ${unsigned}` } }));
    expect(forged.status).toBe(401);
    expect((await route(post("given", { body }))).status).toBe(401);
    expect(await messages()).toHaveLength(2);
  });
});

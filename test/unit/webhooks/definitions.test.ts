import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import {
  createWebhookRoute,
  signWebhook,
  type WebhookRouteOptions,
  type WebhookScheme,
} from "../../../src/webhooks/index.js";
import { anyInbox, type SchemeName, schemeNames, schemes } from "../../support/presets/schemes.js";
import { address, reception, signed } from "./support.js";

/** Sources with presets that are at hand are checked at once. A name is a preset that is loaded later. */
const withLoaded = (source: unknown): unknown => {
  const { scheme } = Object(source) as { scheme?: unknown };
  return typeof scheme === "string" && Object.hasOwn(schemes, scheme)
    ? { ...(source as object), scheme: schemes[scheme as SchemeName] }
    : source;
};
const define = (sources: unknown, more: object = {}) => {
  const loaded = Object.entries(Object(sources) as object).map(([name, one]) => [name, withLoaded(one)]);
  const all = typeof sources === "object" && sources !== null ? Object.fromEntries(loaded) : sources;
  return createWebhookRoute({ inbox: anyInbox, sources: all, ...more } as WebhookRouteOptions);
};
const scheme = (verify: object, more: object = {}) => ({
  own: {
    scheme: { verify: { kind: "signature", header: "x-s", ...verify }, ...more },
    secrets: "secret-of-16-bytes",
  },
});

const handshake = (own: object, verify: object = {}) =>
  scheme(verify, { handshakes: [{ method: "GET", when: {}, answer: {}, ...own }] });

describe("the definition of sources", () => {
  it("FUN-02 a missing or empty secret is refused when the route is created, for every scheme", () => {
    for (const name of schemeNames) {
      const token = name === "meta" ? { verifyToken: "v" } : {};
      for (const secrets of [
        undefined,
        null,
        "",
        "  ",
        [],
        [""],
        ["good", ""],
        ["good", undefined],
        [null],
        5,
      ]) {
        expect(
          () => define({ x: { scheme: name, secrets, ...token } }),
          `${name} ${JSON.stringify(secrets)}`,
        ).toThrow(InvalidArgumentError);
      }
    }
    expect(() => define({ x: { scheme: "meta", secrets: "s" } })).toThrow(/verifyToken is missing or empty/);
    const inObject = { scheme: "stripe", secrets: { env: "STRIPE_SECRET" } as never } as const;
    expect(() => define({ x: inObject })).toThrow(/secrets\[0\] is an object; give a text or a function/);
    expect(() => define({ x: { scheme: "meta", secrets: "s", verifyToken: "" } })).toThrow(/verifyToken/);
    expect(() => define({ x: { scheme: "stripe", secrets: "s", verifyToken: "v" } })).toThrow(
      /scheme uses none/,
    );
  });

  it("FUN-02 a secret that the scheme cannot use is refused without being quoted", () => {
    const bad = ["whsec_not!base64", "whpk_c2hvcnQ=", "whsk_c2hvcnQ=", "whsec_", "trailing-newline\n", "äöü"];
    for (const secrets of bad) {
      const attempt = () => define({ x: { scheme: "standard", secrets } });
      expect(attempt, secrets).toThrow(InvalidArgumentError);
      expect(attempt).toThrow(/^(?!.*(not!base64|c2hvcnQ|trailing-newline|äöü)).*x: secrets\[0\]/s);
    }
    expect(() => define({ x: { scheme: "stripe", secrets: "whsec_a\n" } })).toThrow(/white space/);
  });

  it("FUN-02 one error lists all problems of all sources", () => {
    const attempt = () =>
      define({
        a: { scheme: "strip", secrets: "s" },
        b: { scheme: "github", secrets: "", colour: "red", toleranceMs: -1, maxBodyBytes: 0.5 },
        "c/d": { scheme: "github", secrets: "s", topic: "{body}" },
      });
    for (const problem of [
      /a: the scheme "strip" is not known; known: /,
      /b: secrets\[0\] is missing/,
      /colour/,
      /toleranceMs/,
      /maxBodyBytes/,
      /c\/d: .*slash/,
      /topic has \{body\}/,
    ]) {
      expect(attempt).toThrow(problem);
    }
  });

  it("FUN-02 a scheme that would protect nothing is refused", () => {
    const unsafe: [object, RegExp][] = [
      [scheme({ signed: "{timestamp}", timestamp: { header: "x-t" } }), /does not contain the body/],
      [scheme({ signed: "{header:x-id}" }), /does not contain the body/],
      [scheme({ signed: [] }), /signed is empty/],
      [scheme({ signed: "{timestamp}{body}" }), /verify\.timestamp is missing/],
      [scheme({ timestamp: { header: "x-t" } }), /is not signed and could be forged/],
      [scheme({ bodyDigestQuery: "sha" }), /needs \{url\}/],
      [scheme({ signed: "{json:id}{body}" }), /has \{json:id\}/],
      [scheme({ signed: "{body" }), /brace/],
      [scheme({ algorithm: "md5" }), /algorithm must be one of/],
      [scheme({ encoding: "utf8" }), /encoding must be one of/],
      [scheme({ header: "no header" }), /must be a header name/],
      [scheme({ prefix: "" }), /prefix must be a non-empty/],
      [scheme({ keys: [] }), /keys is empty/],
      [scheme({ keys: [{ algorithm: "none" }] }), /algorithm must be one of/],
      [scheme({ kind: "none" }), /kind must be/],
      [{ own: { scheme: { verify: { kind: "token", token: [] } }, secrets: "s" } }, /token is missing/],
      [
        { own: { scheme: { verify: { kind: "token", token: "{json:token}" } }, secrets: "s" } },
        /has \{json:token\}/,
      ],
      [{ own: { scheme: {}, secrets: "s" } }, /kind must be/],
      [{ own: { scheme: null, secrets: "s" } }, /must be a preset/],
      [{ own: { secrets: "s" } }, /own: it has no scheme, and its name is not that of a preset/],
      [{ own: null }, /must be an object/],
      [{ own: { scheme: "constructor", secrets: "s" } }, /is not known/],
      [{}, /no source/],
    ];
    for (const [sources, problem] of unsafe) expect(() => define(sources), String(problem)).toThrow(problem);
  });

  it("FUN-02 a handshake that would trust an unverified body, or sign unverified content, is refused", () => {
    const posted = { method: "POST", when: { "{query:a}": "b" } };
    const answer = { text: "{hmac}", hmac: "{query:a}" };
    const unsafe: [object, RegExp][] = [
      [handshake({ unsigned: "no" }), /unsigned must be true/],
      [handshake({ unsigned: false }), /unsigned must be true/],
      [handshake({ unsigned: true, verifyToken: "{query:t}" }), /without a verifyToken/],
      [handshake({ ...posted, unsigned: true, when: { "{json:a}": "b" } }), /when has \{json:a\}/],
      [handshake({ ...posted, verifyToken: "{query:t}", answer: { text: "{form:a}" } }), /has \{form:a\}/],
      [handshake({ ...posted, verifyToken: "{json:t}" }), /verifyToken has \{json:t\}/],
      [handshake({ answer: { ...answer, hmac: "{body}" } }), /answer\.hmac has \{body\}/],
      [handshake({ answer: { ...answer, hmac: "{url}" } }), /answer\.hmac has \{url\}/],
      [handshake({ answer: { ...answer, hmac: "{hmac}" } }), /answer\.hmac has \{hmac\}/],
      [handshake({ answer }, { keys: [{ algorithm: "ed25519" }] }), /signatures are HMACs/],
      [
        handshake({ answer }, { kind: "token", token: "{query:t}", header: undefined }),
        /signatures are HMACs/,
      ],
    ];
    for (const [sources, problem] of unsafe) expect(() => define(sources), String(problem)).toThrow(problem);
    expect(() => define(handshake({ unsigned: true, answer }))).not.toThrow();
    expect(() => define(handshake({ ...posted, unsigned: true }))).not.toThrow();
  });

  it("FUN-01 mistakes in the other fields of a scheme are refused too", () => {
    const wrong: [object, RegExp][] = [
      [scheme({}, { messageId: "" }), /messageId must be a non-empty template/],
      [scheme({}, { messageId: "{header}" }), /has \{header\}/],
      [scheme({}, { tenant: [5] }), /tenant must be/],
      [scheme({}, { keepHeaders: ["x-s", "authorization"] }), /authorization may hold a secret/],
      [scheme({}, { keepHeaders: ["x-signature"] }), /may hold a secret/],
      [scheme({}, { keepHeaders: ["x-api-key", "x-gitlab-token"] }), /x-api-key.*x-gitlab-token/],
      [scheme({}, { keepHeaders: "x-a" }), /list of strings/],
      [scheme({}, { answer: { body: 1 } }), /answer\.body must be a string/],
      [scheme({}, { extra: 1 }), /unknown field extra/],
      [scheme({}, { handshakes: [{ method: "PUT", when: {}, answer: {} }] }), /method must be one of/],
      [scheme({}, { handshakes: [{ method: "GET", when: { "{x}": "1" }, answer: {} }] }), /has \{x\}/],
      [scheme({}, { handshakes: [{ method: "GET", when: {} }] }), /answer must be an object/],
      [handshake({ method: "POST" }), /handshakes\[0\]\.when is empty: every event/],
      [handshake({ when: null }), /when must be an object/],
      [handshake({ when: { "{query:a}": 1 } }), /when: \{query:a\} must be a string, or true/],
      [handshake({ when: { "{query:a}": "" } }), /must be a string, or true/],
      [handshake({ answer: { text: "a", json: {} } }), /text and json; give one/],
      [handshake({ answer: { json: { a: "{x}" } } }), /answer\.json has \{x\}/],
      [handshake({ answer: { headers: { "a b": "c" } } }), /a b is not a header name/],
      [
        handshake({ answer: { text: "{json:a}" } }),
        /answer\.text has \{json:a\}; .* \{header:…\}, \{query:…\}\.$/,
      ],
      [handshake({ answer: { text: "{hmac}" } }), /has \{hmac\}/],
    ];
    for (const [sources, problem] of wrong) expect(() => define(sources), String(problem)).toThrow(problem);
  });

  it("FUN-01 any wrong value in any field of a scheme is an InvalidArgumentError", () => {
    const junk = [null, 5, true, "", [], {}, [null], [5], "{", { a: null }];
    const paths = (value: unknown, path: string[] = []): string[][] =>
      typeof value === "object" && value !== null
        ? [path, ...Object.entries(value).flatMap(([key, inner]) => paths(inner, [...path, key]))]
        : [path];
    let refused = 0;
    for (const name of schemeNames) {
      for (const path of paths(schemes[name]).filter((one) => one.length > 0)) {
        for (const wrong of junk) {
          const copy = structuredClone(schemes[name]) as unknown as Record<string, unknown>;
          const at = path.slice(0, -1).reduce((inner, key) => inner[key] as Record<string, unknown>, copy);
          at[path.at(-1)!] = wrong;
          try {
            define({
              own: { scheme: copy, secrets: "c2VjcmV0", ...(name === "meta" ? { verifyToken: "v" } : {}) },
            });
          } catch (error) {
            expect(error, `${name} ${path.join(".")} ${JSON.stringify(wrong)}`).toBeInstanceOf(
              InvalidArgumentError,
            );
            refused++;
          }
        }
      }
    }
    expect(refused).toBeGreaterThan(500);
  });

  it("FUN-01 options of the route are checked", () => {
    const good = { x: { scheme: "stripe", secrets: "secret-of-16-bytes" } };
    expect(() => define(good)).not.toThrow();
    const wrong = [
      { inbox: undefined },
      { inbox: {} },
      { afterEnqueue: 5 },
      { afterEnqueueMs: 0 },
      { receiveMs: -1 },
      { secretsMaxAgeMs: Number.NaN },
      { toleranceMs: 0 },
      { maxBodyBytes: 0 },
      { publicUrl: "hooks.example.com" },
      { publicUrl: "https://hooks.example.com/?a=1" },
      { colour: "red" },
    ];
    for (const more of wrong)
      expect(() => define(good, more), JSON.stringify(more)).toThrow(/ONCEBOX|must be|unknown/);
  });

  it("FUN-02 every known scheme signs what it accepts, and is data that survives JSON", async () => {
    const keys: Partial<Record<string, string>> = { standard: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" };
    expect(schemeNames).toEqual(
      expect.arrayContaining(["stripe", "github", "shopify", "slack", "twilio", "standard"]),
    );
    for (const name of schemeNames) {
      const secrets = keys[name] ?? "secret";
      const verifyToken = name === "meta" ? { verifyToken: "v" } : {};
      const copy = JSON.parse(JSON.stringify(schemes[name])) as WebhookScheme;
      const { route, messages } = await reception({
        sources: {
          [name]: { scheme: name, secrets, ...verifyToken },
          copy: { scheme: copy, secrets, ...verifyToken },
        },
      });
      const options = { secrets, messageId: "m1", topic: "t1" };
      expect((await route(signed(name, options))).status, name).toBe(200);
      expect((await route(signed(copy, options, "copy"))).status, name).toBe(200);
      expect(await messages(), name).toHaveLength(2);
    }
  });

  it("FUN-02 signing reports what is missing", () => {
    const options = { url: address("x"), body: "{}", secrets: "s" };
    expect(() => signWebhook("nobody" as never, options)).toThrow(/must be a preset/);
    expect(() => signWebhook(schemes.stripe, { ...options, secrets: "" })).toThrow(/missing or empty/);
    expect(() => signWebhook(schemes.stripe, { ...options, secrets: [] })).toThrow(/secrets is empty/);
    expect(() => signWebhook(schemes.eventgrid, { ...options, secrets: [] })).toThrow(/secrets is empty/);
    expect(() => signWebhook(schemes.standard, { ...options, secrets: "whsec_c2VjcmV0" })).toThrow(
      /messageId or headers/,
    );
    const whpk = `whpk_${Buffer.alloc(32, 1).toString("base64")}`;
    expect(() => signWebhook(schemes.standard, { ...options, secrets: whpk, messageId: "m" })).toThrow(
      /public key cannot sign/,
    );
  });
});

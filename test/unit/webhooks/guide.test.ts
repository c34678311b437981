import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { omitUndefined } from "../../../src/base/defined.js";
import type { Handshake, WebhookScheme } from "../../../src/webhooks/index.js";
import { checkScheme } from "../../../src/webhooks/schemes/check-scheme.js";
import {
  placeholdersInSignedContent,
  placeholdersOfId,
  placeholdersOfTenant,
} from "../../../src/webhooks/schemes/template.js";
import { address, reception, signed } from "./support.js";

const guide = readFileSync(new URL("../../../docs/webhooks.md", import.meta.url), "utf8");

const hmacOfBody = { kind: "signature", header: "x-signature" } as const;
const inUrl = { kind: "token", token: "{query:token}" } as const;
const inHeader = { kind: "token", token: "{header:authorization}" } as const;
const base64 = { ...hmacOfBody, encoding: "base64" } as const;
const verifies: Record<string, WebhookScheme["verify"]> = {
  zoom: hmacOfBody,
  twitch: hmacOfBody,
  okta: inHeader,
  eventGrid: hmacOfBody,
  strava: inUrl,
  asana: hmacOfBody,
  smartsheet: hmacOfBody,
  x: base64,
  linkedin: hmacOfBody,
  dropbox: hmacOfBody,
  graph: hmacOfBody,
  trello: hmacOfBody,
  mailchimp: inUrl,
};
const hmac = (text: string, encoding: "hex" | "base64") =>
  createHmac("sha256", "s3cret").update(text).digest(encoding);

interface Asked {
  readonly request: {
    readonly method: string;
    readonly query?: string;
    readonly headers?: Record<string, string>;
    readonly body?: string;
  };
  readonly answer: {
    readonly status?: number;
    readonly text?: string;
    readonly json?: object;
    readonly header?: readonly [name: string, value: string];
  };
}

/** What the providers send, and want to read. */
const asked: Record<string, Asked> = {
  zoom: {
    request: {
      method: "POST",
      body: '{"event":"endpoint.url_validation","payload":{"plainToken":"qgg8vl"}}',
    },
    answer: { json: { plainToken: "qgg8vl", encryptedToken: hmac("qgg8vl", "hex") } },
  },
  twitch: {
    request: {
      method: "POST",
      headers: { "twitch-eventsub-message-type": "webhook_callback_verification" },
      body: '{"challenge":"pogchamp-kappa"}',
    },
    answer: { text: "pogchamp-kappa" },
  },
  okta: {
    request: {
      method: "GET",
      headers: { authorization: "s3cret", "x-okta-verification-challenge": "Me_rSh" },
    },
    answer: { json: { verification: "Me_rSh" } },
  },
  eventGrid: {
    request: {
      method: "POST",
      body: '[{"eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","data":{"validationCode":"512d38b6"}}]',
    },
    answer: { json: { validationResponse: "512d38b6" } },
  },
  strava: {
    request: { method: "GET", query: "hub.mode=subscribe&hub.verify_token=s3cret&hub.challenge=15f7" },
    answer: { json: { "hub.challenge": "15f7" } },
  },
  asana: {
    request: { method: "POST", query: "token=s3cret", headers: { "x-hook-secret": "b537" } },
    answer: { header: ["x-hook-secret", "b537"] },
  },
  smartsheet: {
    request: { method: "POST", query: "token=s3cret", headers: { "smartsheet-hook-challenge": "d78d" } },
    answer: { header: ["smartsheet-hook-response", "d78d"] },
  },
  x: {
    request: { method: "GET", query: "crc_token=MGI2&nonce=x" },
    answer: { json: { response_token: `sha256=${hmac("MGI2", "base64")}` } },
  },
  linkedin: {
    request: { method: "GET", query: "challengeCode=890e4665-4dfe" },
    answer: { json: { challengeCode: "890e4665-4dfe", challengeResponse: hmac("890e4665-4dfe", "hex") } },
  },
  dropbox: { request: { method: "GET", query: "challenge=abc123" }, answer: { text: "abc123" } },
  graph: { request: { method: "POST", query: "validationToken=a%3A+b" }, answer: { text: "a: b" } },
  trello: { request: { method: "HEAD" }, answer: {} },
  mailchimp: { request: { method: "GET" }, answer: {} },
};

describe("the guide to webhooks", () => {
  it("FUN-02 has every field of a scheme, of its proof and of its answers, and every placeholder", () => {
    const x = { x: 1 };
    const verify = { kind: "signature", keys: [x], timestamp: x, certificate: x, algorithmBy: x, ...x };
    const problems: string[] = [];
    const scheme = {
      ...x,
      verify,
      answer: { outcomes: x, ...x },
      refusals: x,
      handshakes: [{ ...x, answer: x }],
    };
    checkScheme(scheme, problems);
    checkScheme({ verify: { kind: "jwt", ...x } }, problems);
    checkScheme({ verify: { kind: "token", ...x } }, problems);
    const known = problems.flatMap((problem) => / known: (.*)/.exec(problem)?.[1]?.split(", ") ?? []);
    expect(new Set(known).size).toBeGreaterThan(35);
    for (const field of new Set(known)) expect(guide, field).toMatch(new RegExp(`\\b${field}\\b`));
    for (const placeholder of [...placeholdersOfId, ...placeholdersInSignedContent, ...placeholdersOfTenant])
      expect(guide, placeholder).toMatch(new RegExp(`\\{${placeholder}[}:]`));
  });

  it("FUN-01 says how Twilio is asked for retries, in the fragment that is neither sent nor signed", () => {
    expect(guide).toContain("https://api.example.com/webhooks/twilio#rc=5&rp=all");
  });

  it("FUN-02 has an example of a custom scheme that works", async () => {
    const [, source = ""] = /const acme = (\{[\s\S]*?\n\}) as const satisfies/.exec(guide) ?? [];
    const scheme = new Function(`return (${source});`)() as WebhookScheme;
    const { route, messages } = await reception({ sources: { acme: { scheme, secrets: "s" } } });
    const body = '{"event":{"id":"e1"},"kind":"invoice","action":"paid"}';
    const request = signed(scheme, { secrets: "s", body }, "acme");
    expect(request.headers.get("x-acme-signature")).toMatch(/^t=1893456000,s=[0-9a-f]{64}$/);
    expect((await route(request)).status).toBe(200);
    expect(await messages()).toMatchObject([{ messageId: "e1", topic: "acme.invoice.paid" }]);
  });

  it("FUN-01 has examples of handshakes that work", async () => {
    const [, source = ""] = /const handshakes = (\{[\s\S]*?\n\}) as const satisfies/.exec(guide) ?? [];
    const handshakes = new Function(`return (${source});`)() as Record<string, Handshake>;
    const secret = "s3cret";
    const sources = Object.fromEntries(
      Object.entries(handshakes).map(([name, handshake]) => {
        const verifyToken = omitUndefined({ verifyToken: handshake.verifyToken && secret });
        return [
          name,
          {
            scheme: {
              verify: verifies[name]!,
              handshakes: [handshake],
              ...(name === "eventGrid" ? { split: "{json:}" } : {}),
            },
            secrets: secret,
            ...verifyToken,
          },
        ];
      }),
    );
    const { route, messages } = await reception({ sources });
    for (const [name, { request, answer }] of Object.entries(asked)) {
      const { method, query = "", headers = {}, body } = request;
      const url = `${address(name)}?${query}`;
      const plain = new Request(url, { method, headers, ...omitUndefined({ body }) });
      const scheme = sources[name]!.scheme;
      const isSigned =
        scheme.verify === hmacOfBody && handshakes[name]!.method === "POST" && body !== undefined;
      const sent = isSigned ? signed(scheme, { secrets: secret, body, headers, url }, name) : plain;
      const got = await route(sent);
      const { status = 200, text = "", json, header } = answer;
      expect([got.status, await got.text()], name).toEqual([status, json ? JSON.stringify(json) : text]);
      if (header !== undefined) expect(got.headers.get(header[0]), name).toBe(header[1]);
    }
    expect(Object.keys(asked)).toEqual(Object.keys(handshakes));
    expect(await messages()).toEqual([]);
  });
});

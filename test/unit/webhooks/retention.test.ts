import { describe, expect, it } from "vitest";
import { createApp, defineApp } from "../../../src/index.js";
import { createWebhookRoute, type WebhookScheme } from "../../../src/webhooks/index.js";
import { anyInbox } from "../../support/presets/schemes.js";

const hourMs = 3_600_000;
const secrets = "a secret of many bytes";
const timed = (maxAgeMs?: number): WebhookScheme => ({
  verify: {
    kind: "signature",
    header: "x-s",
    signed: "{timestamp}.{body}",
    timestamp: { header: "x-t", ...(maxAgeMs === undefined ? {} : { maxAgeMs }) },
  },
});
const timeless: WebhookScheme = { verify: { kind: "signature", header: "x-s" } };

describe("a retention that is shorter than a delivery may be old", () => {
  it.each([
    ["the provider's time", { retentionMs: hourMs, sources: { x: { scheme: timed(hourMs), secrets } } }],
    [
      "the source's tolerance",
      { retentionMs: hourMs, sources: { x: { scheme: timed(), toleranceMs: hourMs, secrets } } },
    ],
    [
      "the app's tolerance",
      {
        retentionMs: hourMs,
        webhooks: { toleranceMs: hourMs },
        sources: { x: { scheme: timed(), secrets } },
      },
    ],
    ["the usual tolerance", { retentionMs: 599_999, sources: { x: { scheme: timed(), secrets } } }],
  ])("FUN-02 %s: the app is refused at its definition", (_what, app) => {
    expect(() => defineApp(app)).toThrow(/x: retentionMs must be at least \d+, not \d+: .* again/);
  });

  it("FUN-02 an app whose retention is long enough is accepted, and so is a source without a time", () => {
    defineApp({ retentionMs: hourMs + 300_000, sources: { x: { scheme: timed(hourMs), secrets } } });
    defineApp({ retentionMs: 1, sources: { x: { scheme: timeless, secrets } } });
    defineApp({ sources: { x: { scheme: timed(29 * 24 * hourMs), secrets } } });
    expect(() => defineApp({ sources: { x: { scheme: timed(30 * 24 * hourMs), secrets } } })).toThrow(
      /retentionMs/,
    );
  });

  it("FUN-02 a preset that the app names is loaded, and refused, when the app is created", async () => {
    const app = (retentionMs: number) =>
      createApp(
        defineApp({
          database: "sqlite::memory:",
          retentionMs,
          logger: false,
          sources: { sendgrid: { secrets: publicKey } },
        }),
      );
    await expect(app(24 * hourMs)).rejects.toThrow(/sendgrid: retentionMs must be at least 90300000/);
    await (await app(26 * hourMs)).close();
  });

  it("FUN-02 a route that is told the retention refuses the source", async () => {
    const route = (retentionMs: number) =>
      createWebhookRoute({
        inbox: anyInbox,
        logger: false,
        keptMs: () => retentionMs,
        sources: { x: { scheme: timed(hourMs), secrets } },
      });
    expect(() => route(hourMs)).toThrow(/x: retentionMs must be at least/);
    route(2 * hourMs);
  });
});

/** The one of SendGrid's documentation. */
const publicKey =
  "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==";

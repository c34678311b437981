import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import {
  createWebhookRoute,
  loadPreset,
  presetNames,
  type WebhookScheme,
  type WebhookSource,
} from "../../../src/webhooks/index.js";
import { anyInbox } from "../../support/presets/schemes.js";
import { post, reception, signed } from "./support.js";

const secrets = "a secret of many bytes";
const acme = {
  verify: { kind: "signature", header: "x-signature" },
  messageId: "{json:id}",
} as const satisfies WebhookScheme;

describe("the partition key of a webhook", () => {
  const keysOf = async (
    source: WebhookSource,
    events: readonly object[],
    url?: (event: object) => string,
  ) => {
    const { route, messages } = await reception({ sources: { acme: source } });
    for (const event of events) {
      const request = signed(acme, { secrets, body: JSON.stringify(event) }, "acme");
      const sent = url === undefined ? request : new Request(url(event), request);
      expect((await route(sent)).status).toBe(200);
    }
    return (await messages()).map(({ partitionKey }) => partitionKey);
  };

  it("ADD-23 is the source's name and the first template that the event has; without one there is none", async () => {
    const partitionKey = ["{json:customer}", "order {json:order}"];
    const events = [
      { id: 1, customer: "c1", order: 7 },
      { id: 2, order: 7 },
      { id: 3 },
      { id: 4, customer: { id: "no text" } },
    ];
    expect(await keysOf({ scheme: { ...acme, partitionKey }, secrets }, events)).toEqual([
      "acme/c1",
      "acme/order 7",
      null,
      null,
    ]);
  });

  it("ADD-23 a key that cannot be stored is replaced by its hash, and two of them stay different", async () => {
    const source = { scheme: acme, secrets, partitionKey: "{json:customer}" };
    const events = ["x".repeat(300), `${"x".repeat(299)}y`, "ends with a space "].map((customer, id) => ({
      id,
      customer,
    }));
    const keys = await keysOf(source, events);
    expect(new Set(keys).size).toBe(3);
    for (const key of keys) expect(key).toMatch(/^sha256:[0-9a-f]{64}$/);
  });

  it("ADD-23 of tenants that sign for themselves never meets that of another tenant", async () => {
    const scheme: WebhookScheme = {
      verify: { kind: "token", token: "{header:x-token}" },
      messageId: "{json:id}",
      tenant: "{path}",
      partitionKey: "{json:customer}",
    };
    const { route, messages } = await reception({
      sources: { acme: { scheme, tenantSecrets: () => secrets } },
    });
    const send = (tenant: string, id: number, customer: string) =>
      route(
        post("acme", {
          url: `https://hooks.example.com/webhooks/acme/${encodeURIComponent(tenant)}`,
          body: JSON.stringify({ id, customer }),
          headers: { "x-token": secrets },
        }),
      );
    await send("a", 1, "b/c");
    await send("a/b", 2, "c");
    await send("a", 3, "x".repeat(300));
    await send("b", 4, "x".repeat(300));
    const keys = (await messages()).map(({ partitionKey }) => partitionKey);
    expect(keys.slice(0, 2)).toEqual(["acme/a/b/c", "acme/a%2Fb/c"]);
    expect(new Set(keys).size).toBe(4);
  });

  it("ADD-23 must be signed, unless the source says that it need not be", () => {
    const define = (source: WebhookSource) =>
      createWebhookRoute({ inbox: anyInbox, sources: { acme: source } as Record<string, WebhookSource> });
    const unsigned = { scheme: acme, secrets, partitionKey: ["{json:customer}", "{header:x-customer}"] };
    expect(() => define(unsigned)).toThrow(/acme: partitionKey has a value that the provider does not sign/);
    expect(() => define({ ...unsigned, allowUnsignedPartitionKey: true })).not.toThrow();
    expect(() => define({ scheme: acme, secrets, partitionKey: "{json:customer}" })).not.toThrow();
    expect(() => define({ scheme: acme, secrets, partitionKey: "{hash}" })).toThrow(
      /partitionKey has \{hash\}/,
    );
    expect(() => define({ scheme: acme, secrets, allowUnsignedPartitionKey: 1 as never })).toThrow(
      /allowUnsignedPartitionKey must be true or false/,
    );
  });

  it("ADD-23 of a split delivery is each item's own; an item that is no event has none", async () => {
    const scheme: WebhookScheme = {
      verify: { kind: "token", token: "{header:x-token}" },
      split: "{json:events}",
      partitionKey: ["{item:customer}", "{json:account}"],
    };
    const { route, messages } = await reception({ sources: { acme: { scheme, secrets } } });
    const body = JSON.stringify({ account: "a1", events: [{ customer: "c1" }, { n: 1 }, 5] });
    expect((await route(post("acme", { body, headers: { "x-token": secrets } }))).status).toBe(200);
    expect((await messages()).map(({ partitionKey, state }) => [partitionKey, state])).toEqual([
      ["acme/c1", "Processing"],
      ["acme/a1", "Processing"],
      [null, "Dead"],
    ]);
  });
});

describe("the guide's table of partition keys", () => {
  const guide = readFileSync(new URL("../../../docs/webhooks.md", import.meta.url), "utf8");
  const [, below = ""] = guide.split("\n### Partition keys by preset\n");
  const [table = ""] = /^\|.*(\n\|.*)*/m.exec(below) ?? [];
  const rows = new Map(
    table
      .split("\n")
      .slice(2)
      .map((row) => {
        const [preset = "", proposed = ""] = row
          .split("|")
          .slice(1)
          .map((cell) => cell.trim());
        return [
          preset.replaceAll("`", ""),
          [...proposed.matchAll(/`([^`]+)`/g)].map(([, text]) => text!),
        ] as const;
      }),
  );

  it("ADD-23 has every preset", () => {
    expect([...rows.keys()]).toEqual([...presetNames].sort());
  });

  it.each([...rows].filter(([, proposed]) => proposed.length > 0))(
    "ADD-23 %s signs what is proposed",
    async (preset, proposed) => {
      const flag = "allowUnsignedPartitionKey";
      const templates = proposed.filter((text) => text !== flag);
      const scheme = {
        ...(await loadPreset(preset as (typeof presetNames)[number])),
        partitionKey: templates,
      };
      const problem = await refusalOf(scheme);
      if (proposed.includes(flag))
        expect(problem).toMatch(/partitionKey has a value that the provider does not sign/);
      else expect(problem).not.toMatch(/partitionKey/);
    },
  );
});

/** What is wrong with a source: its secrets, whatever else, and nothing that is about the scheme itself. */
async function refusalOf(scheme: WebhookScheme): Promise<string> {
  try {
    createWebhookRoute({
      inbox: anyInbox,
      sources: { acme: { scheme, secrets: async () => "fetched later", verifyToken: async () => "later" } },
    });
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { schemeNames, type WebhookScheme } from "../../../src/webhooks/index.js";
import { reception, signed } from "./support.js";

const guide = readFileSync(new URL("../../../docs/webhooks.md", import.meta.url), "utf8");

describe("the guide to webhooks", () => {
  it("lists every scheme that is known, and no other", () => {
    const [, table = ""] = /## Providers\n\n((?:\|.*\n)+)/.exec(guide) ?? [];
    const listed = [...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name);
    expect(listed).toEqual(schemeNames);
  });

  it("FUN-02 shows a scheme of one's own that works as it says", async () => {
    const [, source = ""] = /const acme = (\{[\s\S]*?\n\}) as const;/.exec(guide) ?? [];
    const scheme = new Function(`return (${source});`)() as WebhookScheme;
    const { route, messages } = await reception({ sources: { acme: { scheme, secrets: "s" } } });
    const body = '{"event":{"id":"e1"},"kind":"invoice","action":"paid"}';
    const request = signed(scheme, { secrets: "s", body }, "acme");
    expect(request.headers.get("x-acme-signature")).toMatch(/^t=1893456000,s=[0-9a-f]{64}$/);
    expect((await route(request)).status).toBe(200);
    expect(await messages()).toMatchObject([{ messageId: "e1", topic: "invoice.paid" }]);
  });
});

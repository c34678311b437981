import { describe, expect, it } from "vitest";
import { createWebhookRoute, loadPreset, presetNames } from "../../../src/webhooks/index.js";
import { loaders } from "../../../src/webhooks/presets/index.js";
import { anyInbox } from "../../support/presets/schemes.js";
import { reception, signed } from "./support.js";

describe("presets by their names", () => {
  it("FUN-02 every preset is known by its name, and is a scheme that the route accepts", async () => {
    expect([...presetNames]).toEqual(Object.keys(loaders));
    for (const name of presetNames) {
      const scheme = await loadPreset(name);
      expect(Object.keys(scheme), name).toContain("verify");
    }
  });

  it("FUN-02 a wrong name is refused at once; wrong secrets of a named preset when it is loaded", async () => {
    const route = (sources: object) => createWebhookRoute({ inbox: anyInbox, sources: sources as never });
    expect(() => route({ x: { scheme: "strip", secrets: "s" } })).toThrow(
      /"strip" is not known; known: .*stripe/,
    );
    const short = route({ x: { scheme: "stripe", secrets: "short" } });
    await expect(short.prepare()).rejects.toThrow(/x: secrets\[0\] has 5 bytes/);
    const response = await short(new Request("https://hooks.example.com/webhooks/x", { method: "POST" }));
    expect(response.status).toBe(503);
  });

  it("FUN-02 sources that name a preset and sources with a scheme of their own work side by side", async () => {
    const { route, messages } = await reception({
      sources: {
        stripe: { scheme: "stripe", secrets: "secret" },
        custom: { scheme: { verify: { kind: "signature", header: "x-s" } }, secrets: "secret" },
      },
    });
    expect((await route(signed("stripe", { secrets: "secret" }))).status).toBe(200);
    const own = signed({ verify: { kind: "signature", header: "x-s" } }, { secrets: "secret" });
    expect((await route(own)).status).toBe(200);
    expect(await messages()).toHaveLength(2);
  });
});

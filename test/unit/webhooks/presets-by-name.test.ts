import { describe, expect, it } from "vitest";
import { createWebhookRoute, loadPreset, presetNames } from "../../../src/webhooks/index.js";
import { checkScheme } from "../../../src/webhooks/schemes/check-scheme.js";
import { readScheme } from "../../../src/webhooks/schemes/read-scheme.js";
import { schemeReader } from "../../../src/webhooks/sources.js";
import { anyInbox } from "../../support/presets/schemes.js";
import { reception, signed } from "./support.js";

/** The templates of a handshake's JSON are closures. */
const withoutFunctions = (value: object): unknown => JSON.parse(JSON.stringify(value));

describe("presets by their names", () => {
  it("FUN-02 every preset is known by its name, and is a scheme that the route accepts", async () => {
    for (const name of presetNames) {
      const scheme = await loadPreset(name);
      // an app reads them without checking them again
      const [checking, reading]: string[][] = [[], []];
      const checked = checkScheme(scheme, checking!);
      expect(checking, name).toEqual([]);
      expect(withoutFunctions(readScheme(scheme, reading!)), name).toEqual(withoutFunctions(checked));
    }
  });

  it("FUN-02 FUN-09 an app whose sources are presets as they are loads no checks of schemes; any other loads them", async () => {
    const preset = { scheme: "stripe", secrets: "s" } as const;
    expect(await schemeReader({ a: preset, b: { ...preset, toleranceMs: 1 } })).toBe(readScheme);
    const others = [
      { ...preset, topic: "{json:type}" },
      { ...preset, keepHeaders: ["x-a"] },
      { ...preset, handshakes: [] },
      { ...preset, scheme: await loadPreset("stripe") },
      { ...preset, scheme: { verify: { kind: "signature", header: "x-s" } } as const },
      { ...preset, scheme: "strip" as never },
      undefined as never,
    ];
    for (const other of others)
      expect(await schemeReader({ a: preset, b: other }), JSON.stringify(other)).toBe(checkScheme);
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

import { describe, expect, it } from "vitest";
import { testClock } from "../../contract/harness.js";
import { address, now, reception, signed } from "./support.js";

const scheme = { verify: { kind: "signature", header: "x-s" }, tenant: "{path}" } as const;

async function openShop(known = new Map([["acme", "acme's secret of bytes"]])) {
  const clock = testClock(now.getTime());
  const asked: string[] = [];
  const { route } = await reception({
    clock,
    sources: {
      shop: {
        scheme,
        async tenantSecrets(tenant: string) {
          asked.push(tenant);
          return known.get(tenant);
        },
      },
    },
  });
  const send = async (tenant: string, secrets = known.get(tenant) ?? "a guessed secret") =>
    (await route(signed(scheme, { secrets, url: `${address("shop")}/${tenant}` }))).status;
  return { send, asked, clock, known };
}

describe("tenants that nobody knows", () => {
  it("FUN-02 tenantSecrets is called once for an unknown tenant, and not again for a while", async () => {
    const { send, asked, clock, known } = await openShop();
    expect(await send("nobody")).toBe(401);
    expect(asked).toEqual(["nobody"]);
    for (let n = 0; n < 20; n++) expect(await send("nobody")).toBe(401);
    expect(asked).toEqual(["nobody"]);
    known.set("nobody", "nobody's secret of bytes");
    clock.advance(10_000);
    expect(await send("nobody")).toBe(200); // somebody by now
    expect(asked).toEqual(["nobody", "nobody"]);
  });

  it("FUN-02 a tenant whose secrets were taken away is unknown as soon as they are asked for again", async () => {
    const { send, clock, known } = await openShop();
    const secret = known.get("acme")!;
    expect(await send("acme")).toBe(200);
    known.delete("acme");
    expect(await send("acme", secret)).toBe(200); // kept for secretsMaxAgeMs
    clock.advance(5 * 60_000);
    expect(await send("acme", secret)).toBe(401);
    expect(await send("acme", secret)).toBe(401);
  });

  it("FUN-02 requests that name the same unknown tenant at once ask once for all", async () => {
    const { send, asked } = await openShop();
    await Promise.all(Array.from({ length: 10 }, () => send("nobody")));
    expect(asked).toEqual(["nobody"]);
  });

  it("FUN-02 made-up tenants do not evict the secrets of known ones", async () => {
    const { send, asked } = await openShop();
    expect(await send("acme")).toBe(200);
    await Promise.all(Array.from({ length: 1_100 }, (_, n) => send(`made-up-${n}`)));
    expect(await send("acme")).toBe(200);
    expect(asked.filter((tenant) => tenant === "acme")).toHaveLength(1);
  });

  it("FUN-02 the body for an unknown tenant is not read", async () => {
    const { route } = await reception({ sources: { shop: { scheme, tenantSecrets: () => undefined } } });
    let isRead = false;
    const body = new ReadableStream(
      {
        pull(controller) {
          isRead = true;
          controller.close();
        },
      },
      { highWaterMark: 0 },
    );
    const request = new Request(`${address("shop")}/nobody`, { method: "POST", body, duplex: "half" });
    expect((await route(request)).status).toBe(401);
    expect(isRead).toBe(false);
  });
});

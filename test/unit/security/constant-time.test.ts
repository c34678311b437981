import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, expect, it, vi } from "vitest";
import { silentLogger } from "../../../src/base/logger.js";
import { call, openHttpApis, secretOf, signedBody } from "../../support/attacks/http-apis.js";
import { attackTargets, openTarget } from "../../support/attacks/targets.js";

/** The lengths of what was compared, in the only function that compares what proves a caller. */
const compared = vi.hoisted(() => [] as [number, number][]);
vi.mock("../../../src/base/secrets.js", async (load) => {
  const real = await load<typeof import("../../../src/base/secrets.js")>();
  return {
    ...real,
    isSameDigest(given: Uint8Array, expected: Uint8Array) {
      compared.push([given.byteLength, expected.byteLength]);
      return real.isSameDigest(given, expected);
    },
  };
});
beforeEach(() => {
  compared.length = 0;
});

const source = fileURLToPath(new URL("../../../src/", import.meta.url));

it("FUN-02 SVC-07 only one function compares in constant time, so that it can be watched", () => {
  const users = readdirSync(source, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .filter((name) => readFileSync(join(source, name), "utf8").includes("timingSafeEqual"));
  expect(users).toEqual([join("base", "secrets.ts")]);
});

it.each(attackTargets.map((target) => [target.name, target] as const))(
  "FUN-02 %s: a delivery's proof is compared there, right or wrong",
  async (_name, target) => {
    const { verify, genuine, wrongProof } = await openTarget(target);
    expect(await verify(genuine)).toBe(true);
    const whenRight = [...compared];
    compared.length = 0;
    expect(await verify(wrongProof())).toBe(false);
    if (target.isAsymmetric) return; // a public key is no secret: nothing is compared with one
    for (const lengths of [whenRight, compared]) {
      expect(lengths.length).toBeGreaterThan(0);
      for (const [given, expected] of lengths) expect(given).toBe(expected);
    }
  },
);

it("SVC-07 MSG-08 MSG-14 so are a message's signature and the digests of tokens, whatever their length", async () => {
  const { apis, close } = await openHttpApis(silentLogger);
  const receiver = apis.find(({ right }) => right === undefined)!;
  for (const body of [signedBody(), signedBody({}, { secret: secretOf(9) })]) {
    compared.length = 0;
    await call(receiver, { ...receiver.routes[0]!, body });
    expect(compared).toEqual([[32, 32]]);
  }
  for (const one of apis.filter(({ right }) => right !== undefined)) {
    for (const authorization of [one.right!, "Bearer x", `Bearer ${"y".repeat(4_000)}`]) {
      compared.length = 0;
      await call(one, one.routes[0]!, { authorization });
      expect(compared.length, one.name).toBe(one.name === "inbox service" ? 1 : 2); // all tokens, also behind the right one
      expect(new Set(compared.flat())).toEqual(new Set([32]));
    }
  }
  await close();
});

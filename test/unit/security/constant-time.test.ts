import { readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, expect, it, vi } from "vitest";
import { silentLogger } from "../../../src/base/logger.js";
import { createApp, defineApp } from "../../../src/index.js";
import { createWebhookReceiver } from "../../../src/webhooks/route.js";
import { checkScheme } from "../../../src/webhooks/schemes/check-scheme.js";
import { call, openHttpApis, secretOf, signedBody } from "../../support/attacks/http-apis.js";
import { attackTargets, openTarget } from "../../support/attacks/targets.js";
import { anyInbox } from "../../support/presets/schemes.js";

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

/** Comparisons of what a server gets with what it keeps. Commands run on the machine of whoever has the secrets. */
const comparisons = [
  /\.equals\(|\bBuffer\.compare\(/,
  // with anything but a constant
  /(?:secret|token|signature|digest|hmac)s?\s*[!=]==?(?!=)(?!\s*(?:undefined\b|null\b|true\b|["'`\d]|secret\.trim\(\)))/i,
  /(?<!typeof [\w.]+)\s[!=]==?\s[\w.]*(?:secret|token|signature|digest|hmac)\b(?![("'`.])/i,
];

/** Where a provider signs with a key of its own, a source's secrets are names: an account, a topic, an audience. */
const comparesNames = /\bsecret === (?:name|value)\b/;

it("FUN-02 SVC-07 MSG-08 no other comparison of secrets, tokens, signatures or digests is in the code", () => {
  const found = readdirSync(source, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.startsWith(`cli${sep}`))
    .flatMap((name) =>
      readFileSync(join(source, name), "utf8")
        .split("\n")
        .filter((line) => comparisons.some((one) => one.test(line)) && !comparesNames.test(line))
        .map((line) => `${name}: ${line.trim()}`),
    );
  expect(found).toEqual([]);
  for (const line of [
    "if (given === secret) return true;",
    "return token === expected;",
    "signature !== own",
    "digest.equals(given)",
  ])
    expect(
      comparisons.some((one) => one.test(line)),
      line,
    ).toBe(true);
});

it.each(["meta", "asana"] as const)(
  "FUN-02 %s: the token of a handshake is compared there, right or wrong, whatever its length",
  async (scheme) => {
    const verifyToken = "a-verify-token-0123456789";
    const receive = createWebhookReceiver(
      { inbox: anyInbox, sources: { s: { scheme, secrets: "a secret of many bytes", verifyToken } } },
      checkScheme,
    );
    const names = { meta: "hub.verify_token", asana: "token" };
    for (const given of [verifyToken, "x", "y".repeat(4_000)]) {
      compared.length = 0;
      const query = new URLSearchParams({
        "hub.mode": "subscribe",
        "hub.challenge": "1",
        [names[scheme]]: given,
      });
      await receive({
        method: scheme === "meta" ? "GET" : "POST",
        url: `http://127.0.0.1/webhooks/s?${query}`,
        headers: { get: (name) => (name === "x-hook-secret" ? "an-asana-secret-0123456789" : null) },
        body: Buffer.from("{}"),
      });
      expect(compared, given.slice(0, 30)).toEqual([[32, 32]]);
    }
  },
);

it("FUN-11 so is the token of a cron", async () => {
  const app = await createApp(
    defineApp({ database: "sqlite::memory:", cron: { tokens: "cron-token-0123456789" } }),
    {
      logger: false,
    },
  );
  for (const given of ["cron-token-0123456789", "x", "y".repeat(4_000)]) {
    compared.length = 0;
    const headers = { authorization: `Bearer ${given}` };
    await app.fetch(new Request("http://127.0.0.1/dispatch", { method: "POST", headers }));
    expect(compared).toEqual([[32, 32]]);
  }
  await app.close();
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

import { createHmac } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exitCodes } from "../../../src/cli/command.js";
import { cli, cliWith } from "../../support/cli.js";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "oncebox-verify-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const secret = "a-secret-of-the-tests";
const at = "2030-01-01T00:00:00Z";
const event = '{"id":"evt_1","type":"charge.succeeded","note":"Zoë/1"}';

interface Captured {
  readonly target?: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

async function saved({ target = "/webhooks/x", headers, body = event }: Captured): Promise<string> {
  const file = join(folder, `${crypto.randomUUID()}.http`);
  const lines = Object.entries({ host: "hooks.example.com", ...headers }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  const head = [`POST ${target} HTTP/1.1`, ...lines, "", ""].join("\r\n");
  await writeFile(file, Buffer.concat([Buffer.from(head), Buffer.from(body)]));
  return file;
}

const hmac = (text: string, encoding: "hex" | "base64" = "hex", key = secret): string =>
  createHmac("sha256", key).update(text).digest(encoding);

const github = (body = event, key = secret) => ({
  "x-hub-signature-256": `sha256=${hmac(body, "hex", key)}`,
});
const stripe = (time: string, body = event) => {
  const t = Date.parse(time) / 1_000;
  return { "stripe-signature": `t=${t},v1=${hmac(`${t}.${body}`)}` };
};
const square = (url: string) => ({ "x-square-hmacsha256-signature": hmac(url + event, "base64") });

const verified = async (source: string, captured: Captured, ...more: string[]) =>
  cli("verify", "--source", source, "--secret", secret, ...more, await saved(captured));

describe("oncebox verify", () => {
  it("ADD-07 FUN-02 says that a genuine request is accepted", async () => {
    expect(await verified("github", { headers: github() })).toMatchObject({
      code: exitCodes.ok,
      out: "accepted: the request is genuine.",
    });
    const { code, out } = await verified("stripe", { headers: stripe(at) }, "--at", at, "--json");
    expect([code, JSON.parse(out)]).toEqual([exitCodes.ok, { accepted: true, notes: [] }]);
  });

  it.each<[string, string, Captured, RegExp, RegExp]>([
    [
      "another secret",
      "github",
      { headers: github(event, "somebody else's") },
      /no likely change/,
      /another webhook/,
    ],
    [
      "no signature",
      "github",
      { headers: { "x-hub-signature": "sha1=0" } },
      /it has x-hub-signature/,
      /proxy removes/,
    ],
    [
      "a signature of another form",
      "github",
      { headers: { "x-hub-signature-256": "v1=0" } },
      /form/,
      /version/,
    ],
    [
      "a line break at the end",
      "github",
      { headers: github(), body: `${event}\n` },
      /without the line break/,
      /bytes/,
    ],
    [
      "indented JSON",
      "github",
      { headers: github(), body: JSON.stringify(JSON.parse(event), null, 2) },
      /without spaces/,
      /bytes/,
    ],
    [
      "escaped letters",
      "github",
      { headers: github(event.replace("ë", "\\u00eb").replaceAll("/", "\\/")) },
      /escaped letters.*and escaped slashes/,
      /bytes/,
    ],
    [
      "a body in base64",
      "github",
      { headers: github(), body: Buffer.from(event).toString("base64") },
      /decoded from base64/,
      /bytes/,
    ],
    [
      "a compressed body",
      "github",
      { headers: github(), body: gzipSync(event) },
      /decompressed \(gzip\)/,
      /bytes/,
    ],
    [
      "letters that were decoded twice",
      "github",
      { headers: github(), body: Buffer.from(event).toString("latin1") },
      /Latin-1/,
      /bytes/,
    ],
    [
      "another encoding of the signature",
      "github",
      { headers: { "x-hub-signature-256": `sha256=${hmac(event, "base64")}` } },
      /in base64, unlike/,
      /version/,
    ],
  ])("ADD-07 FUN-02 explains %s", async (_what, source, captured, why, advice) => {
    const { code, out } = await verified(source, captured, "--json");
    expect(code).toBe(exitCodes.failed);
    expect(JSON.parse(out)).toMatchObject({
      accepted: false,
      reason: expect.stringMatching(why),
      advice: expect.stringMatching(advice),
    });
    expect(out).not.toContain(secret);
  });

  it("ADD-07 FUN-02 explains a wrong time apart from the signature", async () => {
    const { out } = await verified("stripe", { headers: stripe("2029-12-31T23:00:00Z") }, "--at", at);
    expect(out).toMatch(/^refused: timestamp too old\nwhy: the signature is right, and .* is 3600 s ago/);
    const ahead = await verified("stripe", { headers: stripe("2030-01-01T01:00:00Z") }, "--at", at);
    expect(ahead.out).toMatch(/3600 s ahead\.\ndo: Check the clock/);
    const both = { headers: stripe("2029-12-31T23:00:00Z"), body: `${event}\n` };
    expect((await verified("stripe", both, "--at", at)).out).toContain("without the line break at its end");
  });

  it.each<[string, Captured, RegExp]>([
    [
      "the host",
      { headers: { ...square("https://api.example.com/webhooks/x"), "x-forwarded-host": "api.example.com" } },
      /publicUrl \(or ONCEBOX_PUBLIC_URL\) to https:\/\/api\.example\.com$/,
    ],
    [
      "a part of the path",
      { headers: { ...square("https://hooks.example.com/prod/webhooks/x"), "x-forwarded-prefix": "/prod" } },
      /to https:\/\/hooks\.example\.com\/prod$/,
    ],
    [
      "https",
      { headers: { ...square("https://hooks.example.com/webhooks/x"), "x-forwarded-proto": "http" } },
      /to https:\/\/hooks\.example\.com$/,
    ],
    [
      "the query",
      { target: "/webhooks/x?cache=1", headers: square("https://hooks.example.com/webhooks/x") },
      /path and the query|publicUrl/,
    ],
  ])("ADD-07 FUN-02 finds the URL that a proxy has changed: %s", async (_what, captured, advice) => {
    const { code, out } = await verified("square", captured, "--json");
    expect(code).toBe(exitCodes.failed);
    const { reason, advice: given } = JSON.parse(out) as { reason: string; advice: string };
    expect(reason).toMatch(/^a proxy changed the URL: the provider signed https:/);
    expect(given).toMatch(advice);
  });

  it("ADD-07 FUN-02 --url gives the address that the provider called", async () => {
    const captured = { headers: square("https://elsewhere.example.com/hook") };
    const refused = await verified("square", captured);
    expect([refused.code, refused.out]).toEqual([
      exitCodes.failed,
      expect.stringContaining("called another address than https://hooks.example.com/webhooks/x"),
    ]);
    for (const url of [
      "https://elsewhere.example.com/hook",
      "https://elsewhere.example.com/hook#rc=5&rp=all",
    ])
      expect((await verified("square", captured, "--url", url)).code, url).toBe(exitCodes.ok);
  });

  it.each([
    [`"${secret}"`, /has quotes around it/],
    [` ${secret}\n`, /has white space around it/],
    [`whsec_${secret}`, /starts with whsec_/],
    [secret.toUpperCase(), /another case/],
  ])("ADD-07 FUN-02 says what is wrong with the secret %j", async (wrong, why) => {
    const file = await saved({ headers: github() });
    const { out } = await cliWith(
      { GITHUB: wrong },
      "verify",
      "--source",
      "github",
      "--secret-env",
      "GITHUB",
      file,
    );
    expect(out).toMatch(why);
    expect(out).not.toContain(secret);
  });

  it("ADD-07 FUN-02 knows the secrets of the app's other sources", async () => {
    const app = join(folder, "app.mjs");
    const sources = {
      shop: { scheme: "github", secrets: "the secret of the shop" },
      code: { scheme: "github", secrets: { from: "env", name: "CODE_SECRET" } },
    };
    await writeFile(app, `export default { sources: ${JSON.stringify(sources)} };\n`);
    const file = await saved({ headers: github() });
    const { out } = await cliWith({ CODE_SECRET: secret }, "verify", "--app", app, "--source", "shop", file);
    expect(out).toContain("it is signed with the secret of the source code");
    expect(
      await cliWith({ CODE_SECRET: secret }, "verify", "--app", app, "--source", "code", file),
    ).toMatchObject({
      code: exitCodes.ok,
    });
  });

  it("ADD-07 reads a body in chunks, and only as much as Content-Length says", async () => {
    const size = Buffer.byteLength(event).toString(16);
    const chunked = { ...github(), "transfer-encoding": "chunked" };
    expect(
      await verified("github", { headers: chunked, body: `${size}\r\n${event}\r\n0\r\n\r\n` }),
    ).toMatchObject({
      code: exitCodes.ok,
    });
    const long = { ...github(), "content-length": String(Buffer.byteLength(event)) };
    expect(await verified("github", { headers: long, body: `${event}\n` })).toMatchObject({
      code: exitCodes.ok,
    });
    const cut = await verified("github", { headers: long, body: event.slice(0, -3) });
    expect(cut.out).toContain("a part of it is missing");
  });

  it.each([
    [["verify", "--source", "github", "--secret", "x"], /needs a file/],
    [["verify", "x.http", "--secret", "x"], /needs --source/],
    [["verify", "--source", "morse", "x.http"], /verify needs a source or a provider: one of .*stripe/],
    [["verify", "--source", "github", "--secret", "x", "/nowhere/x.http"], /cannot be read: ENOENT/],
  ])("ADD-07 %j is refused with the reason", async (args, words) => {
    const { code, err } = await cli(...args);
    expect([code, err]).toEqual([exitCodes.usage, expect.stringMatching(words)]);
  });

  it("ADD-07 a file that is no request is refused, and so are a wrong --at and --url", async () => {
    const file = join(folder, "curl.txt");
    await writeFile(file, "curl -X POST https://example.com\n");
    const base = ["verify", "--source", "github", "--secret", "x"];
    expect((await cli(...base, file)).err).toContain("must look like a request");
    expect((await cli(...base, "--at", "soon", await saved({ headers: {} }))).err).toContain(
      "--at must be a time",
    );
    expect((await cli(...base, "--url", "x", await saved({ headers: {} }))).err).toContain("--url must be");
  });

  it("ADD-07 names the digest that a proxy took out of the URL", async () => {
    const { out } = await verified("twilio", { headers: { "x-twilio-signature": "c2lnbmF0dXJl" } });
    expect(out).toContain("why: the body is no form, and the URL does not end with bodySHA256");
    expect(out).toContain("do: Let the proxy pass on the query as it is.");
  });
});

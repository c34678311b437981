import { createHmac } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exitCodes } from "../../../src/cli/command.js";
import { loadPreset, presetNames } from "../../../src/webhooks/preset-names.js";
import { cli, cliWith } from "../../support/cli.js";
import { codeBlocks } from "../../support/markdown.js";
import { startListen } from "../../support/start-listening.js";

type Listening = Awaited<ReturnType<typeof startListen>>;

describe("oncebox listen and sign, for all providers", () => {
  let listening: Listening;
  beforeAll(async () => {
    listening = await startListen({}, "--json");
  });
  afterAll(() => listening?.stop());

  it.each(presetNames)(
    "ADD-07 FUN-02 sign %s --send is accepted, and its signed text is shown",
    async (name) => {
      const url = `${listening.url}/webhooks/${name}`;
      const { code, out, err } = await cli("sign", name, "--send", "--url", url);
      expect({ code, err, out }).toMatchObject({ code: exitCodes.ok, err: "" });
      const report = JSON.parse(listening.lines().at(-1)!);
      expect(report).toMatchObject({
        path: expect.stringMatching(new RegExp(`^/webhooks/${name}(\\?|$)`)),
        fields: { source: name, outcome: "enqueued" },
      });
      expect(report.refusal).toBeUndefined();
      const { verify } = await loadPreset(name);
      expect(report.signed).toHaveLength(verify.kind === "signature" ? 1 : 0);
    },
  );
});

describe("oncebox listen", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "oncebox-listen-"));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const secret = "a-secret-of-the-tests";
  const send = (listening: Listening, body: string, key = secret) =>
    fetch(`${listening.url}/webhooks/github`, {
      method: "POST",
      body,
      headers: {
        "content-type": "application/json",
        "x-github-event": "push",
        "x-github-delivery": "1",
        "x-hub-signature-256": `sha256=${createHmac("sha256", key).update('{"a":1}').digest("hex")}`,
      },
    });

  it("ADD-07 FUN-01 shows of a batch each new event, and how many were known", async () => {
    const listening = await startListen({}, "xero", "--secret", secret);
    const event = (id: number) =>
      `{"tenantId":"t${id}","eventCategory":"INVOICE","eventType":"UPDATE","resourceId":"r","eventDateUtc":"d"}`;
    const sendBatch = async (items: string) => {
      const body = `{"events":[${items}]}`;
      const signature = createHmac("sha256", secret).update(body).digest("base64");
      const headers = { "content-type": "application/json", "x-xero-signature": signature };
      const answer = await fetch(`${listening.url}/webhooks/xero`, { method: "POST", body, headers });
      expect(answer.status).toBe(200);
    };
    await sendBatch(event(1));
    await sendBatch(`${event(1)},5,${event(2)}`);
    expect(listening.lines().at(-1)).toMatch(
      /200 enqueued\n {2}events: 1 enqueued, 1 dead, 1 duplicate\n {2}id t2\/\S+, topic xero\.INVOICE.UPDATE, tenant t2\n {2}signed/,
    );
    await listening.stop();
  });

  it("ADD-07 FUN-02 shows the token that Notion tells, what to do with it, and answers 200", async () => {
    const listening = await startListen({}, "notion", "github");
    const tell = (source: string, body: string) =>
      fetch(`${listening.url}/webhooks/${source}`, {
        method: "POST",
        body,
        headers: { "content-type": "application/json" },
      });
    expect((await tell("notion", '{"verification_token":"secret_tMrlL1qK5vuQAh1b"}')).status).toBe(200);
    expect(listening.lines().at(-1)).toMatch(
      /200 \n {2}why: this is no event: .* secret_tMrlL1qK5vuQAh1b\.\n {2}do: Enter it at the provider .* as its secret/,
    );
    expect((await tell("github", '{"token":"x"}')).status).toBe(401);
    await listening.stop();
  });

  it("ADD-07 FUN-02 shows what came, whether it is genuine, why not, and the exact text that was signed", async () => {
    const listening = await startListen({}, "github", "--secret", secret);
    expect((await send(listening, '{"a":1}')).status).toBe(200);
    expect((await send(listening, '{"a":1}')).status).toBe(200);
    expect((await send(listening, '{"a":1}\n')).status).toBe(401);
    expect((await send(listening, '{"a":1}', "another")).status).toBe(401);
    expect((await fetch(`${listening.url}/webhooks/nobody`, { method: "POST" })).status).toBe(404);
    const [enqueued, duplicate, changed, wrong, nobody] = listening.lines();
    expect(enqueued).toMatch(
      /POST \/webhooks\/github {2}200 enqueued\n {2}id 1~\w+, topic github\.push\n {2}signed text: "\{\\"a\\":1\}"$/,
    );
    expect(duplicate).toContain("200 duplicate");
    expect(changed).toMatch(
      /401 unauthorized: signature wrong\n.*without the line break.*\n.*do: .*\n.*signed text: "\{\\"a\\":1\}\\n"$/,
    );
    expect(wrong).toContain("why: no likely change");
    expect(nobody).toContain("404 not found");
    expect(listening.lines().join("\n")).not.toContain(secret);
    expect(await listening.stop()).toBe(exitCodes.ok);
  });

  it("ADD-07 FUN-02 prints what docs/webhooks.md shows of a webhook that was changed on the way", async () => {
    const listening = await startListen({}, "github", "--secret", secret);
    const signed = '{"action":"opened"}';
    const signature = createHmac("sha256", secret).update(signed).digest("hex");
    await fetch(`${listening.url}/webhooks/github`, {
      method: "POST",
      body: `${signed}\n`,
      headers: {
        "content-type": "application/json",
        "x-github-event": "issues",
        "x-github-delivery": "1",
        "x-hub-signature-256": `sha256=${signature}`,
      },
    });
    const withoutTime = (text: string) => text.trim().replace(/^[\d:]+ /, "");
    const shown = codeBlocks("docs/webhooks.md", "text").find((block) =>
      block.includes("POST /webhooks/github"),
    );
    expect(withoutTime(listening.lines().at(-1)!)).toBe(withoutTime(shown!));
    await listening.stop();
  });

  it("ADD-07 FUN-02 has the sources of the app, and the URL of a tunnel", async () => {
    const app = join(folder, "app.mjs");
    const sources = {
      shop: { scheme: "square", secrets: { from: "env", name: "SQUARE_KEY" } },
      mine: { scheme: "github", secrets: { from: "env", name: "UNSET" } },
    };
    await writeFile(app, `export default { sources: ${JSON.stringify(sources)} };\n`);
    const tunnel = "https://abc.example.dev";
    const listening = await startListen({ SQUARE_KEY: secret }, "--app", app, "--url", tunnel, "--json");
    const body = '{"event_id":"1","type":"t"}';
    const signature = createHmac("sha256", secret).update(`${tunnel}/webhooks/shop${body}`).digest("base64");
    const headers = { "content-type": "application/json", "x-square-hmacsha256-signature": signature };
    expect((await fetch(`${listening.url}/webhooks/shop`, { method: "POST", body, headers })).status).toBe(
      200,
    );
    // the run has made a secret for the other source, which `sign` finds
    const url = `${listening.url}/webhooks/mine`;
    expect(await cli("sign", "mine", "--app", app, "--send", "--url", url)).toMatchObject({
      code: exitCodes.ok,
    });
    await listening.stop();
    expect(await cli("sign", "mine", "--app", app, "--send", "--url", url)).toMatchObject({
      code: exitCodes.failed,
      err: expect.stringContaining("UNSET"),
    });
  });

  it("ADD-07 FUN-02 knows the secrets of tenants, and so does verify", async () => {
    const app = join(folder, "tenants.mjs");
    await writeFile(
      app,
      `export default { sources: { shop: {
        scheme: { verify: { kind: "signature", header: "x-signature" } },
        tenant: "{path}",
        tenantSecrets: (tenant) => (tenant === "acme" ? ${JSON.stringify(secret)} : undefined),
      } } };\n`,
    );
    const listening = await startListen({}, "--app", app);
    const signature = createHmac("sha256", secret).update("a=1").digest("hex");
    const statusOf = async (tenant: string, body: string) => {
      const headers = { "x-signature": signature, "content-type": "text/plain" };
      return (await fetch(`${listening.url}/webhooks/shop/${tenant}`, { method: "POST", body, headers }))
        .status;
    };
    expect(await Promise.all([statusOf("acme", "a=1"), statusOf("other", "a=1")])).toEqual([200, 401]);
    expect(await statusOf("acme", "a=1\n")).toBe(401);
    expect(listening.lines().at(-1)).toContain("without the line break at its end");
    await listening.stop();
    const file = join(folder, "request.http");
    await writeFile(
      file,
      `POST /webhooks/shop/acme HTTP/1.1\nhost: localhost\nx-signature: ${signature}\n\na=1`,
    );
    expect(await cli("verify", "--app", app, "--source", "shop", file)).toMatchObject({ code: exitCodes.ok });
  });

  it("ADD-07 FUN-02 a page of another origin cannot send to it", async () => {
    const listening = await startListen({}, "github", "--secret", secret);
    const headers = { origin: "https://evil.example.com" };
    expect((await fetch(`${listening.url}/webhooks/github`, { method: "POST", headers })).status).toBe(403);
    await listening.stop();
  });

  it("ADD-07 sign makes a key pair where no run has one, and says how to use it", async () => {
    const url = "http://127.0.0.1:1/webhooks/x";
    const discord = await cli("sign", "discord", "--url", url, "--json");
    expect(discord).toMatchObject({ code: exitCodes.ok, err: expect.stringContaining("BEGIN PUBLIC KEY") });
    const paypal = await cli("sign", "paypal", "--url", url, "--json");
    expect(paypal).toMatchObject({
      code: exitCodes.ok,
      err: expect.stringContaining("oncebox listen paypal"),
    });
    expect(discord.out + paypal.out).not.toContain("PRIVATE KEY");
  });

  it.each([
    [["listen", "morse"], /no source or provider "morse".*stripe/],
    [["listen", "--url", "x"], /--url must be an absolute URL/],
    [["listen", "stripe", "--secret-env", "NOT_SET"], /NOT_SET is not set/],
  ])("ADD-07 %j is refused with the reason", async (args, words) => {
    const { code, err } = await cliWith({}, ...args);
    expect([code, err]).toEqual([exitCodes.usage, expect.stringMatching(words)]);
  });
});

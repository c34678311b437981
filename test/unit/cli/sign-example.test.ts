import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openJobs } from "../../../src/app/jobs.js";
import { exitCodes } from "../../../src/cli/command.js";
import { readEnvironment } from "../../../src/config/environment.js";
import { timeBudget } from "../../../src/index.js";
import { cli } from "../../support/cli.js";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "oncebox-sign-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const newDatabase = () => `sqlite:${join(folder, `${crypto.randomUUID()}.db`)}`;

describe("oncebox sign without a body", () => {
  it("ADD-07 FUN-02 sign sends an event of its own that the app handles, with a new id each time", async () => {
    const dispatched = async (name: string, handlers: string, provider = "stripe") => {
      const app = join(folder, name);
      const sources = `{ ${provider}: { scheme: "${provider}", secrets: "whsec_x_secret_of_tests" } }`;
      await writeFile(app, `export default { sources: ${sources}, handlers: ${handlers} };\n`);
      const database = newDatabase();
      await cli("migrate", "--database", database);
      const { default: definition } = await import(pathToFileURL(app).href);
      const environment = await readEnvironment({ ONCEBOX_DATABASE_URL: database });
      const running = await openJobs(definition, { environment });
      for (const _ of ["the first", "the second"]) {
        const { out } = await cli("sign", provider, "--app", app, "--json");
        const { url, ...request } = JSON.parse(out);
        expect((await running.webhook(new Request(url, request))).status).toBe(200);
      }
      const { inbox } = await running.dispatch(timeBudget(60_000));
      await running.close();
      return inbox;
    };
    const both = expect.objectContaining({ acked: 2, unhandled: 0 });
    expect(await dispatched("real.mjs", '{ "stripe.a.b"() {}, "stripe.invoice.paid"() {} }')).toEqual(both);
    expect(
      await dispatched("made.mjs", '({ outbox }) => ({ "stripe.order.placed"() { outbox.stats; } })'),
    ).toEqual(both);
    expect(await dispatched("star.mjs", '{ "stripe.invoice.*"() {} }')).toEqual(both);
    expect(await dispatched("head.mjs", '{ "github.push"() {} }', "github")).toEqual(both);
  });

  it("ADD-07 FUN-02 --id decides whether two examples are one message, also where the provider gives no id", async () => {
    const bodyOf = async (...options: readonly string[]) => {
      const { out } = await cli("sign", "whatsapp", "--secret", "a-secret-of-tests", "--json", ...options);
      return JSON.parse(out).body;
    };
    expect(await bodyOf("--id", "1")).toBe(await bodyOf("--id", "1"));
    expect(await bodyOf("--id", "1")).not.toBe(await bodyOf("--id", "2"));
    expect(await bodyOf()).not.toBe(await bodyOf());
  });

  it("ADD-07 FUN-02 a name of the sender is signed with a key that is made, and the output says who accepts it", async () => {
    const { code, out, err } = await cli(
      "sign",
      "googlepubsub",
      "--secret",
      "https://api.example.com/",
      "--json",
    );
    expect([code, err]).toEqual([
      exitCodes.ok,
      expect.stringContaining("only a local run accepts this request"),
    ]);
    const [, claims = ""] = JSON.parse(out).headers.authorization.split(".");
    expect(JSON.parse(Buffer.from(claims, "base64url").toString())).toMatchObject({
      aud: "https://api.example.com/",
    });
  });

  it("ADD-07 FUN-02 --id beside a body is refused where the provider has the id in the body", async () => {
    const given = ["--secret", "whsec_a_secret_of_tests", "--body", '{"id":"evt_1"}', "--id", "evt_2"];
    const { code, err } = await cli("sign", "stripe", ...given);
    expect([code, err]).toEqual([
      exitCodes.usage,
      expect.stringContaining("has the id of an event in its body"),
    ]);
    expect((await cli("sign", "github", ...given)).code).toBe(exitCodes.ok);
  });

  it("ADD-07 FUN-02 sign without an app sends an event type of the provider", async () => {
    const { out } = await cli("sign", "stripe", "--secret", "whsec_x", "--json");
    expect(JSON.parse(JSON.parse(out).body)).toEqual({
      id: expect.stringMatching(/^test-/),
      type: "invoice.paid",
    });
  });
});

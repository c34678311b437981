import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { cli } from "../../support/cli.js";
import { postgresHarness } from "../../support/postgres-harness.js";

const url = inject("postgresUrl");
type Opened = Awaited<ReturnType<ReturnType<typeof postgresHarness>["open"]>>;

describe("migrate --print on PostgreSQL", () => {
  let test: Opened & { readonly schema: string; raw(text: string): Promise<unknown> };
  beforeAll(async () => {
    test = (await postgresHarness(url).open()) as typeof test;
  });
  afterAll(() => test.close());

  it("ADD-07 prints what a DBA has to run, and then nothing", async () => {
    const { schema, raw } = test;
    const print = (...args: string[]) =>
      cli("migrate", "--print", "--schema", schema, "--database", url, ...args);
    await raw(`drop schema if exists "${schema}" cascade`);
    const [pending, whole] = [await print(), await print("--all")];
    expect(pending.code).toBe(0);
    expect(pending).toEqual(whole);
    await raw(pending.out);
    expect(await print()).toMatchObject({ code: 0, out: "", err: expect.stringContaining("up to date") });
    await raw(
      `create or replace function "${schema}"."outbox_unblock_partitions"() returns boolean language sql as 'select true'`,
    );
    const routines = await print();
    expect(routines.out).toContain("outbox_unblock_partitions");
    expect(routines.out).not.toMatch(/create table [^;]*"outbox_state"/);
    await raw(routines.out);
    expect((await print()).out).toBe("");
  });

  it("MSG-01 MSG-17 ADD-07 --messages prints the tables of a service as well, and creates them, with the view of what it has sent", async () => {
    const { schema, raw } = test;
    const run = (...args: string[]) =>
      cli("migrate", "--messages", "--schema", schema, "--database", url, ...args);
    await raw(`drop schema if exists "${schema}" cascade`);
    const whole = await run("--print", "--all");
    expect(await run("--print")).toEqual(whole);
    await raw(whole.out);
    const sent = `select state from "${schema}".messages_outbox_sent`;
    expect(await raw(sent)).toEqual([]);
    expect(await run("--print")).toMatchObject({ code: 0, out: "" });
    expect(await run()).toMatchObject({ code: 0, out: expect.stringContaining("up to date") });

    await raw(`drop schema "${schema}" cascade`);
    const made = await run();
    expect(made).toMatchObject({ code: 0, out: expect.stringMatching(/inbox 1.*messages_outbox 1/) });
    expect(await raw(sent)).toEqual([]);
    expect((await cli("migrate", "--print", "--all", "--database", url)).out).not.toContain("messages_");
  });
});

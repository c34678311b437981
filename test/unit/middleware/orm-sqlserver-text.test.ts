import { describe, expect, it } from "vitest";
import { executorOf } from "../../../src/adapters/orm/executor.js";
import { createOutbox } from "../../../src/index.js";
import { openSqlServer } from "../../../src/sql/sqlserver/index.js";

/** The text that a library on SQL Server gets. Running it needs a server. */
describe("libraries on SQL Server", () => {
  const outbox = createOutbox(openSqlServer({ url: "mssql://app:x@localhost/shop" }));
  const given = async (placeholder?: (index: number) => string) => {
    const calls: { text: string; values: readonly unknown[] }[] = [];
    const tx = executorOf("sqlserver", {
      ...(placeholder === undefined ? {} : { placeholder }),
      run: async (text, values) => {
        calls.push({ text, values });
        return [];
      },
    });
    await outbox.enqueue({ topic: "t", payload: "it's ? @x", headers: { a: "b" } }, { tx });
    return calls[0]!;
  };

  it("ADD-06 parameters become variables of the same names, in the order of the values", async () => {
    const { text, values } = await given();
    const [declaration, check, call] = text.split(";\n") as [string, string, string];
    expect(check).toMatch(/^if @@trancount = 0 throw /);
    const declared = [...declaration.matchAll(/@(\w+) ([\w()]+) = @p(\d+)/g)].map(
      ([, name, type, index]) => ({
        name,
        type,
        value: values[Number(index) - 1],
      }),
    );
    expect(declared).toHaveLength(values.length);
    expect(declared).toEqual(
      expect.arrayContaining([
        { name: "topic", type: "nvarchar(max)", value: "t" },
        { name: "payload", type: "nvarchar(max)", value: "it's ? @x" },
        { name: "headers", type: "nvarchar(max)", value: '{"a":"b"}' },
      ]),
    );
    expect(call).toMatch(/^exec \[infra\]\.\[Outbox_Enqueue\] /);
    for (const [, name] of call.matchAll(/= @(\w+)/g))
      expect(declared.map((one) => one.name)).toContain(name);
    expect(text).not.toContain("it's");
  });

  it("ADD-06 placeholders are the library's own", async () => {
    expect((await given((index) => `@${index - 1}`)).text).toMatch(/^declare @\w+ [\w()]+ = @0, /);
    expect((await given(() => "?")).text).toMatch(/^declare @\w+ [\w()]+ = \?, /);
  });
});

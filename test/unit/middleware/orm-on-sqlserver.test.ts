import { describe, expect, it } from "vitest";
import { executorOf } from "../../../src/adapters/orm/executor.js";
import { createOutbox, statement } from "../../../src/index.js";
import { openSqlServer } from "../../../src/sql/sqlserver/index.js";

/** What every text begins with, after the declarations. */
const check = "if @@trancount = 0 throw 50266, N'The transaction has ended.', 1;\n";

describe("a library's transaction on SQL Server", () => {
  const runs: { readonly text: string; readonly values: readonly unknown[] }[] = [];
  const tx = executorOf("sqlserver", undefined, {
    placeholder: (index) => `@P${index}`,
    async run(text, values) {
      runs.push({ text, values });
      return [];
    },
  });

  it("ADD-06 MID-01 declares each :name once with its type, and null for one without a value", async () => {
    const own = statement("own", "insert into orders values (:id, :note, :ratio, :flag, ':id'); select :id");
    await tx.query(own, { id: 7, ratio: 0.5, flag: true, unused: 1 });
    expect(runs.at(-1)).toEqual({
      text: `declare @id bigint = @P1, @note nvarchar(max) = @P2, @ratio float = @P3, @flag bit = @P4;
${check}insert into orders values (@id, @note, @ratio, @flag, ':id'); select @id`,
      values: [7, null, 0.5, true],
    });
  });

  it("ADD-06 takes @name too, and leaves the text's own variables alone", async () => {
    await tx.query(statement("own", "declare @n int = 1; exec [infra].[P] @a = @a, @b = @n"), { a: "x" });
    expect(runs.at(-1)).toEqual({
      text: `declare @a nvarchar(max) = @P1;\n${check}declare @n int = 1; exec [infra].[P] @a = @a, @b = @n`,
      values: ["x"],
    });
  });

  it("ADD-06 declares nothing for a text without parameters", async () => {
    await tx.query(statement("own", "select 1"), { a: "x" });
    expect(runs.at(-1)).toEqual({ text: `${check}select 1`, values: [] });
  });
});

/** The text that a library on SQL Server gets. Running it needs a server. */
describe("libraries on SQL Server", () => {
  const outbox = createOutbox(openSqlServer({ url: "mssql://app:x@localhost/shop" }));
  const given = async (placeholder?: (index: number) => string) => {
    const calls: { text: string; values: readonly unknown[] }[] = [];
    const tx = executorOf("sqlserver", undefined, {
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
    expect(call).toMatch(/^exec \[infra\]\.\[Outbox_EnqueueMessages\] /);
    for (const [, name] of call.matchAll(/= @(\w+)/g))
      expect(declared.map((one) => one.name)).toContain(name);
    expect(text).not.toContain("it's");
  });

  it("ADD-06 placeholders are the library's own", async () => {
    expect((await given((index) => `@${index - 1}`)).text).toMatch(/^declare @\w+ [\w()]+ = @0, /);
    expect((await given(() => "?")).text).toMatch(/^declare @\w+ [\w()]+ = \?, /);
  });
});

import { describe, expect, it } from "vitest";
import { executorOf } from "../../src/adapters/orm/executor.js";
import { statement } from "../../src/index.js";

/** What every text begins with, after the declarations. */
const check = "if @@trancount = 0 throw 50266, N'The transaction has ended.', 1;\n";

describe("a library's transaction on SQL Server", () => {
  const runs: { readonly text: string; readonly values: readonly unknown[] }[] = [];
  const tx = executorOf("sqlserver", {
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

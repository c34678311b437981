import { describe, expect, it } from "vitest";
import { keywordsOf, toAnonymous, toPositional, toVariables } from "../../src/sql/named-parameters.js";

describe("named parameters", () => {
  it.each([
    ["select :a, :b_2, :a", ["a", "b_2"]],
    ["select 1", []],
    ["where x = :x::int and y = z::text", ["x"]],
    ["select ':a' , :b", ["b"]],
    ["select 'it''s :a', :b", ["b"]],
    ['from "table:a" where "say "":c""" = :b', ["b"]],
    ["select :a -- not :b\n, :c", ["a", "c"]],
    ["select '--', :a", ["a"]],
    ['select "--:x", :a', ["a"]],
    ["select array[1:2], :a", ["a"]],
    ["values (:id,:name)", ["id", "name"]],
    ["values (:orderId, :_Id2)", ["orderId", "_Id2"]],
    ["select /* not :a\n nor ':b */ :c", ["c"]],
    ["select x[:i]", ["i"]],
    ["select '$.a:b' , '\n:c\n', :d", ["d"]],
  ])("MID-01 finds the parameters of %s", (text, names) => {
    expect(toPositional(text).order).toEqual(names);
  });

  it("MID-01 numbers them in order of appearance, the same name with the same number", () => {
    expect(toPositional("insert into t values (:b::int, :a, :b) -- :c")).toEqual({
      text: "insert into t values ($1::int, $2, $1) -- :c",
      order: ["b", "a"],
    });
  });

  it("MID-01 leaves hostile names and literals as they are", () => {
    const text = `select ':now' from "a:now"".$1; --:x" where "x" = :now -- :now`;
    const positional = toPositional(text);
    expect(positional.order).toEqual(["now"]);
    expect(positional.text).toBe(`select ':now' from "a:now"".$1; --:x" where "x" = $1 -- :now`);
  });

  it("MID-01 numbers more than nine", () => {
    const names = Array.from({ length: 12 }, (_, index) => `p${index}`);
    const { text, order } = toPositional(names.map((name) => `:${name}`).join(", "));
    expect(order).toEqual(names);
    expect(text).toBe(names.map((_, index) => `$${index + 1}`).join(", "));
  });

  it("MID-01 SQLite gets a ? for each occurrence, and brackets quote a name", () => {
    expect(toAnonymous("select [a:b], :x, ':x', :y, :x")).toEqual({
      text: "select [a:b], ?, ':x', ?, ?",
      order: ["x", "y", "x"],
    });
  });

  it.each([
    ["insert into orders values (:id, :note)", "insert into orders values (@id, @note)", ["id", "note"]],
    [
      "select :id, ':id', [a:id], [b]]:id], \"c:id\" -- :id",
      "select @id, ':id', [a:id], [b]]:id], \"c:id\" -- :id",
      ["id"],
    ],
    ["/* :a\n:b */ select :id", "/* :a\n:b */ select @id", ["id"]],
    ["select geography::Point(:x, :y, 4326)", "select geography::Point(@x, @y, 4326)", ["x", "y"]],
    ["grant select on schema::infra to app", "grant select on schema::infra to app", []],
    ["select :missing", "select @missing", ["missing"]],
    [
      "declare @own int = :id; select @own, @id, @@rowcount",
      "declare @own int = @id; select @own, @id, @@rowcount",
      ["id"],
    ],
    ["exec [a@id].[b] @id = @id, @note = :note", "exec [a@id].[b] @id = @id, @note = @note", ["id", "note"]],
    ["again: select 1; goto again", "again: select 1; goto again", []],
  ])("MID-01 SQL Server gets @name for the :name of %s", (text, variables, order) => {
    expect(toVariables(text, { id: 1, note: "n" })).toEqual({ text: variables, order });
  });

  it("MID-01 keywords are found only outside names, literals and comments", () => {
    const text = `-- select\nupdate "returning" set [returning] = 'returning' /* returning */`;
    expect(keywordsOf(text)).not.toMatch(/returning|select/);
    expect(keywordsOf(text)).toMatch(/update\s+set/);
  });
});

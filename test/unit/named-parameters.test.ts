import { describe, expect, it } from "vitest";
import { parameterNames, toPositional } from "../../src/sql/named-parameters.js";

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
    ["select '$.a:b' , '\n:c\n', :d", ["d"]],
  ])("MID-01 finds the parameters of %s", (text, names) => {
    expect(parameterNames(text)).toEqual(names);
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
});

import { literal } from "../literal.js";

const body = (text: string): string => {
  let tag = "$body$";
  for (let i = 1; text.includes(tag); i++) tag = `$body${i}$`;
  return `${tag}\n${text}\n${tag}`;
};

/**
 * Replaced in place, so that sessions which call it meanwhile go on, and what was granted stays. Only where a new
 * version answers other columns, which `create or replace` refuses, it is dropped first.
 */
export const create = (
  name: string,
  types: string,
  declaration: string,
  text: string,
  behaviour = "volatile",
): string => {
  const made = literal(
    `create or replace function ${name}${declaration}\nlanguage plpgsql\n${behaviour}\nas ${body(text)}`,
  );
  return `do ${body(
    `declare
  made constant text := ${made};
begin
  execute made;
exception when invalid_function_definition then
  execute ${literal(`drop function if exists ${name}(${types})`)};
  execute made;
end`,
  )}`;
};

/** A trigger hangs on it, so it cannot be dropped; its declaration never changes. */
export const createTrigger = (name: string, text: string, behaviour = "volatile"): string =>
  `create or replace function ${name}() returns trigger\nlanguage plpgsql\n${behaviour}\nas ${body(text)}`;

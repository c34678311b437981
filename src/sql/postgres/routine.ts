import { literal } from "../literal.js";

const body = (text: string): string => {
  let tag = "$body$";
  for (let i = 1; text.includes(tag); i++) tag = `$body${i}$`;
  return `${tag}\n${text}\n${tag}`;
};

/**
 * Replaces the function in place: sessions that call it meanwhile go on, and grants stay. Only where a new version returns
 * other columns, which `create or replace` refuses, the function is dropped first.
 */
export const create = (
  name: string,
  types: string,
  declaration: string,
  text: string,
  behaviour = "volatile",
): string => {
  const definition = literal(
    `create or replace function ${name}${declaration}\nlanguage plpgsql\n${behaviour}\nas ${body(text)}`,
  );
  return `do ${body(
    `declare
  definition constant text := ${definition};
begin
  execute definition;
exception when invalid_function_definition then
  execute ${literal(`drop function if exists ${name}(${types})`)};
  execute definition;
end`,
  )}`;
};

/** The function of a trigger cannot be dropped; its declaration never changes. */
export const createTrigger = (name: string, text: string, behaviour = "volatile"): string =>
  `create or replace function ${name}() returns trigger\nlanguage plpgsql\n${behaviour}\nas ${body(text)}`;

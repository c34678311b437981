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

/**
 * Replaces the view in place, so that grants stay. Only where a new version renames or moves columns, which `create or
 * replace` refuses, the view is dropped first, with the view of ours that may read it. A view of somebody else that reads it
 * stops the migration.
 */
export const createView = (name: string, query: string, reader = name): string => {
  const definition = literal(`create or replace view ${name} as\n${query}`);
  return `do ${body(
    `declare
  definition constant text := ${definition};
begin
  execute definition;
exception when invalid_table_definition then
  execute ${literal(`drop view if exists ${reader}`)};
  execute ${literal(`drop view if exists ${name}`)};
  execute definition;
end`,
  )}`;
};

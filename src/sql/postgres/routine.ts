import { literal } from "../literal.js";

const body = (text: string): string => {
  let tag = "$body$";
  for (let i = 1; text.includes(tag); i++) tag = `$body${i}$`;
  return `${tag}\n${text}\n${tag}`;
};

/** A new version may answer other columns, which `create or replace` refuses. */
export const create = (
  name: string,
  types: string,
  declaration: string,
  text: string,
  behaviour = "volatile",
): string =>
  `do ${body(
    `begin
  execute ${literal(`drop function if exists ${name}(${types})`)};
  execute ${literal(`create function ${name}${declaration}\nlanguage plpgsql\n${behaviour}\nas ${body(text)}`)};
end`,
  )}`;

/** A trigger hangs on it, so it cannot be dropped; its declaration never changes. */
export const createTrigger = (name: string, text: string, behaviour = "volatile"): string =>
  `create or replace function ${name}() returns trigger\nlanguage plpgsql\n${behaviour}\nas ${body(text)}`;

import { maxNameLength } from "../../queue/arguments.js";
import { literal, type QueueNames } from "../names.js";
import { plainColumns, refusals, times } from "../plain-routines.js";
import { asOwner, createFunction, eachColumn, withoutDefaults } from "./expressions.js";

/**
 * The function by which other languages put a message into the queue. It runs with the rights of its owner, so a role needs no
 * right to a table: whoever may execute it can add messages, and nothing else. The caller's transaction commits the message.
 */
export const plainRoutine = (n: QueueNames): readonly string[] =>
  n.kind === "inbox" ? receiveFunction(n) : enqueueFunction(n);

const content =
  "type text, partition_key text, correlation_id text, headers text, due_at timestamptz, expires_at timestamptz";
const optional = (columns: string): string =>
  eachColumn(columns, (name, type) => `${name} ${type} default null`);

const enqueueFunction = (n: QueueNames): readonly string[] => {
  const more = `natural_key text, ${content}, id uuid, message_id uuid`;
  const self = n.bare("_enqueue");
  const fields = ["topic", "payload", "natural_key", ...content.split(", ").map((one) => one.split(" ")[0]!)];
  return publicFunction(
    n.object("_enqueue"),
    `topic text, payload text, ${optional(more)}`,
    "returns uuid",
    `#variable_conflict use_variable
declare
  v_id uuid := coalesce(${self}.id, gen_random_uuid());
  v_known uuid;
begin
${checks(n)}
  -- Under repeatable read there may be two messages with the natural key: the own one comes first.
  select r.known_id into v_known
  from ${n.object("_enqueue")}(json_build_array(json_build_object('id', v_id, 'message_id', coalesce(${self}.message_id, v_id),
    ${fields.map((name) => `'${name}', ${self}.${name}`).join(", ")})), natural_key is not null, null::timestamptz) r
  order by (r.known_id = v_id) desc
  limit 1;
  return coalesce(v_known, v_id);
end`,
  );
};

const receiveFunction = (n: QueueNames): readonly string[] =>
  publicFunction(
    n.object("_receive"),
    `source text, message_id text, topic text, payload text, ${optional(`hash text, ${content}`)}`,
    "returns text",
    `#variable_conflict use_variable
begin
${checks(n)}
  return ${n.object("_receive")}(source, message_id, topic, type, payload, hash, correlation_id, headers, due_at, expires_at,
    partition_key, null::boolean, null::timestamptz);
end`,
  );

const publicFunction = (
  name: string,
  parameters: string,
  returns: string,
  body: string,
): readonly string[] => [
  createFunction(name, parameters, returns, body, asOwner),
  // PostgreSQL lets everybody execute a new function.
  `revoke all on function ${name}(${withoutDefaults(parameters)}) from public`,
];

/** Refuses what TypeScript's enqueue and receive refuse. */
function checks(n: QueueNames): string {
  const isBad = (name: string) =>
    `${name} = '' or char_length(${name}) > ${maxNameLength} or right(${name}, 1) = ' '`;
  return [
    ...plainColumns.names[n.kind].map((name) =>
      refuse(`${name} is null or ${isBad(name)}`, refusals.name(name)),
    ),
    ...plainColumns.keys[n.kind].map((name) => refuse(isBad(name), refusals.name(name))),
    "  correlation_id := nullif(correlation_id, '');",
    refuse(isBad("correlation_id"), refusals.name("correlation_id")),
    refuse("payload is null", refusals.payload),
    ...times.map((name) =>
      refuse(`${name} not between '1970-01-01Z' and '9998-01-01Z'`, refusals.time(name)),
    ),
    ...(n.kind === "inbox" ? [checkHash] : []),
    checkHeaders,
  ].join("\n");
}

const refuse = (condition: string, message: string): string =>
  `  if ${condition} then\n    raise exception using errcode = 'invalid_parameter_value', message = ${literal(message)};\n  end if;`;

/** A hash is stored in lower case, as by TypeScript's receive. */
const checkHash = `${refuse("hash !~* '^([a-z0-9][a-z0-9_-]{0,31}:([0-9a-f]{2})+|([0-9a-f]{2})*)$'", refusals.hash)}
  hash := lower(hash collate "C");`;

/** Text that is no JSON fails where it is converted, with an error that quotes it. */
const checkHeaders = `  if headers is not null then
    begin
      if json_typeof(headers::json) <> 'object'
        or exists (select from json_each(headers::json) h where json_typeof(h.value) <> 'string') then
        raise exception using errcode = 'invalid_text_representation';
      end if;
    exception when invalid_text_representation or invalid_parameter_value then
      raise exception using errcode = 'invalid_parameter_value', message = ${literal(refusals.headers)};
    end;
  end if;`;

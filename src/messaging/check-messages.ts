import { problemOf } from "../base/problem-of.js";
import { requireName } from "../queue/arguments.js";
import type { StandardSchema } from "../queue/standard-schema.js";
import type { MessageDefinition, MessageDefinitions } from "./define-messages.js";
import type { AnyServiceOptions } from "./service-options.js";

const listOf = (messages: AnyServiceOptions["messages"]): readonly MessageDefinitions[] =>
  Array.isArray(messages) ? (messages as readonly MessageDefinitions[]) : [messages as MessageDefinitions];

/** All declarations as one. Of two with the same name the last one counts; `checkMessages` refuses them. */
export const combinedMessages = (
  messages: AnyServiceOptions["messages"],
): ReadonlyMap<string, MessageDefinition> =>
  new Map(listOf(messages).flatMap((one) => Object.entries(one ?? {})));

/** Problems of the declarations and of the handlers for them. */
export function checkMessages(options: AnyServiceOptions): readonly string[] {
  const all = listOf(options.messages);
  if (all.some((one) => typeof one !== "object" || one === null))
    return ["messages must be what defineMessages(…) returns, or a list of that"];
  const messages = combinedMessages(options.messages);
  return [
    ...duplicates(all),
    ...[...messages].flatMap(([name, definition]) => checkDefinition(name, definition)),
    ...checkHandlers(options, messages),
  ];
}

function duplicates(all: readonly MessageDefinitions[]): readonly string[] {
  const seen = new Set<string>();
  const twice = new Set<string>();
  for (const name of all.flatMap((one) => Object.keys(one))) {
    if (seen.has(name)) twice.add(name);
    seen.add(name);
  }
  return [...twice].map((name) => `the endpoint "${name}" is declared twice; endpoint names are unique`);
}

function checkDefinition(name: string, definition: MessageDefinition): readonly string[] {
  const unnamed = problemOf(() => requireName(name, `the endpoint "${name}"`));
  const schemas = schemasOf(definition);
  if (schemas === undefined)
    return [...unnamed, `messages.${name} must be made by signal(…), command(…) or pushCall(…)`];
  return [
    ...unnamed,
    ...schemas.flatMap(([part, schema]) => checkSchema(`${part} of "${name}"`, schema, definition.takesJson)),
  ];
}

function schemasOf(
  definition: MessageDefinition,
): readonly (readonly [string, StandardSchema])[] | undefined {
  switch (definition?.messageType) {
    case "Signal":
      return [["payload", definition.payload]];
    case "Command":
      return [
        ["payload", definition.payload],
        ["response", definition.response],
      ];
    case "PushCall":
      return [
        ["input", definition.input],
        ["output", definition.output],
      ];
    default:
      return undefined;
  }
}

/** The part of Standard JSON Schema that is used. Not every schema has it. */
interface DescribesItself {
  readonly jsonSchema?: { readonly input?: (options: { readonly target: string }) => unknown };
}

/** A schema that can describe itself in JSON Schema, and fails to, takes something that is not JSON. */
function checkSchema(what: string, schema: StandardSchema, takesJson: boolean): readonly string[] {
  const standard = schema?.["~standard"] as (StandardSchema["~standard"] & DescribesItself) | undefined;
  if (typeof standard?.validate !== "function")
    return [`the schema for the ${what} must be a Standard Schema, such as one of zod or valibot`];
  if (takesJson) return [];
  try {
    standard.jsonSchema?.input?.({ target: "draft-2020-12" });
    return [];
  } catch (error) {
    const reason = (error as Error).message.replace(/\.$/, "");
    return [
      `the schema for the ${what} cannot be sent as JSON: ${reason}. Where it does take JSON, say { takesJson: true }`,
    ];
  }
}

function checkHandlers(
  { receive, onResponse, destinations }: AnyServiceOptions,
  messages: ReadonlyMap<string, MessageDefinition>,
): readonly string[] {
  const known = [...messages.keys()].join(", ");
  const check = (option: string, handlers: object | undefined) =>
    Object.entries(handlers ?? {}).flatMap(([name, handler]) => {
      if (!messages.has(name)) return [`${option}.${name}: no such message. Known: ${known}`];
      return typeof handler === "function" ? [] : [`${option}.${name} must be a function`];
    });
  const noCommands = Object.keys(onResponse ?? {})
    .filter((name) => messages.has(name) && messages.get(name)?.messageType !== "Command")
    .map((name) => `onResponse.${name}: only a command has a response`);
  // Without a destination the service can only receive, so nobody else can be meant to handle the command.
  const unhandled = [...messages]
    .filter(([name, { messageType }]) => messageType === "Command" && !Object.hasOwn(receive ?? {}, name))
    .filter(() => Object.keys(destinations ?? {}).length === 0)
    .map(
      ([name]) =>
        `the command "${name}" has no handler in receive, and no destination that it could be sent to. Handle it, or leave it out of messages, which may be a list of declarations`,
    );
  return [...check("receive", receive), ...check("onResponse", onResponse), ...noCommands, ...unhandled];
}

import * as z from "zod/mini";
import { refusalCodes } from "../../http/fields.js";
import { key, maxBodyBytes, type ServiceCall, type ServiceCalls } from "./calls.js";
import type { Auth } from "./responses.js";

type Json = Readonly<Record<string, unknown>>;

/** The OpenAPI document, made from the schemas that validate. */
export function openApi(calls: ServiceCalls, auth: Auth): Json {
  const named = Object.entries(calls).map(([name, call]) => [name, pascal(name), call] as const);
  const posts = named.map(([name, title, call]) => [
    `/v1/inbox/${name}`,
    {
      post: { ...described(name, call), requestBody: body(`${title}Request`), ...answers(title, auth) },
    },
  ]);
  const schemas = named.flatMap(([, title, { request, answer }]) => [
    [`${title}Request`, jsonSchema(request)],
    [`${title}Answer`, jsonSchema(answer)],
  ]);
  return {
    openapi: "3.1.0",
    info: {
      title: "oncebox inbox service",
      version: "1",
      description: `Leases keys, so that of any number of callers exactly one processes each. Every outcome is a status in a 200. Bodies have at most ${maxBodyBytes} bytes.`,
    },
    servers: [{ url: "..", description: "Where this document is served." }],
    security: auth === "bearer" ? [{ bearer: [] }] : [],
    paths: {
      ...Object.fromEntries(posts),
      "/v1/inbox/{key}": keyPath(auth),
      "/v1/openapi.json": documentPath,
    },
    components: {
      schemas: {
        ...Object.fromEntries(schemas),
        BadRequest: jsonSchema(badRequestAnswer),
        Failure: jsonSchema(failureAnswer),
      },
      responses: sharedAnswers,
      headers: {
        Auth: header("The authentication that the service wants.", {
          type: "string",
          enum: ["bearer", "none"],
        }),
      },
      securitySchemes: auth === "bearer" ? { bearer: { type: "http", scheme: "bearer" } } : {},
    },
  };
}

const pascal = (name: string): string =>
  name.replace(/(?:^|-)(\w)/g, (_, letter: string) => letter.toUpperCase());

const described = (name: string, { summary }: ServiceCall) => ({ operationId: pascal(name), summary });

const reference = (name: string) => ({ $ref: `#/components/schemas/${name}` });
const content = (name: string) => ({ "application/json": { schema: reference(name) } });
const body = (name: string) => ({ required: true, content: content(name) });

const header = (description: string, schema: Json = { type: "string" }) => ({ description, schema });
/** Every answer announces the authentication that the service wants. */
const announced = { "oncebox-auth": { $ref: "#/components/headers/Auth" } };
const answer = (description: string, schema?: string, headers: Json = {}) => ({
  description,
  headers: { ...announced, ...headers },
  ...(schema === undefined ? {} : { content: content(schema) }),
});

const sharedAnswers = {
  BadRequest: answer("A field of the request is wrong. Nothing was changed.", "BadRequest"),
  Unauthorized: answer("The bearer token is missing or wrong.", undefined, {
    "www-authenticate": header("The scheme, Bearer."),
  }),
  Forbidden: answer("A browser has sent it for a page of another site. Nothing was changed."),
  Unavailable: answer("The database or the secret store is away. Try again.", "Failure", {
    "retry-after": header("Seconds to wait."),
  }),
};
const shared = (name: keyof typeof sharedAnswers) => ({ $ref: `#/components/responses/${name}` });

const answers = (title: string, auth: Auth) => ({
  responses: {
    200: answer("The outcome is the status.", `${title}Answer`),
    400: shared("BadRequest"),
    ...(auth === "bearer" ? { 401: shared("Unauthorized") } : { 403: shared("Forbidden") }),
    503: shared("Unavailable"),
  },
});

const keyPath = (auth: Auth) => ({
  get: {
    operationId: "InspectKey",
    summary:
      "Reports on a key, percent-encoded. The keys . and .. and, behind some gateways, keys with % or ? need POST /v1/inbox/inspect",
    parameters: [{ name: "key", in: "path", required: true, schema: jsonSchema(key) }],
    ...answers("Inspect", auth),
  },
});

const documentPath = {
  get: {
    operationId: "OpenApi",
    summary: "This document",
    security: [],
    responses: {
      200: {
        description: "An OpenAPI 3.1 document.",
        headers: announced,
        content: { "application/json": { schema: { type: "object" } } },
      },
    },
  },
};

const errorOf = (codes: readonly string[], others = {}) =>
  z.object({
    error: z.object({
      code: z.enum(codes),
      message: z.string().check(z.describe("For people to read.")),
      ...others,
    }),
  });

/** The body of a 400. */
const badRequestAnswer = errorOf(refusalCodes, {
  field: z.string().check(z.describe("The field of the request that is wrong, or `body`.")),
});

/** The body of a 404, a 405 and a 503. */
const failureAnswer = errorOf(["NotFound", "MethodNotAllowed", "Unavailable"]);

/** As requests are sent: an answer may get more fields in later versions. */
function jsonSchema(schema: z.ZodMiniType): Json {
  const { $schema: _, ...json } = z.toJSONSchema(schema, {
    io: "input",
    override({ jsonSchema: made }) {
      // the format says it, and its pattern is longer than all the rest
      if (made.format === "date-time" || made.format === "uuid") delete made.pattern;
    },
  });
  return json;
}

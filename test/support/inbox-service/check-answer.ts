import { Ajv2020 } from "ajv/dist/2020.js";
import formats from "ajv-formats";

type Json = Readonly<Record<string, any>>;

export interface DocumentChecks {
  /** Throws when the document does not have this answer, or the answer is not as the document says. */
  answer(method: string, path: string, answer: CheckedAnswer): void;
  /** Whether the document's schema accepts the body of a request. */
  accepts(path: string, body: unknown): boolean;
}

export interface CheckedAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/** Compares answers with an OpenAPI document, by a validator of JSON Schema 2020-12, which OpenAPI 3.1 uses. */
export function documentChecks(document: Json): DocumentChecks {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  (formats as unknown as (to: Ajv2020) => void)(ajv);
  ajv.addSchema(document, "document");
  const validatorOf = ({ $ref }: Json) => ajv.compile({ $ref: `document${$ref}` });
  const resolved = (part: Json): Json =>
    part.$ref === undefined
      ? part
      : (part.$ref as string)
          .slice(2)
          .split("/")
          .reduce<Json>((at, name) => at[name], document);

  return {
    answer(method, path, { status, headers, body }) {
      const what = `${method} ${path} ${status}`;
      const operation = document.paths[templateOf(document, path)]?.[method.toLowerCase()];
      const found = operation?.responses[status];
      if (found === undefined) throw new Error(`The document has no ${what}.`);
      const { content, headers: announced = {} } = resolved(found);
      for (const name of Object.keys(announced))
        if (headers.get(name) === null) throw new Error(`${what} has no header ${name}.`);
      if (content === undefined) {
        if (body !== "") throw new Error(`${what} has a body.`);
        return;
      }
      const [type] = Object.keys(content);
      if (headers.get("content-type") !== type) throw new Error(`${what} is not ${type}.`);
      const schema = content[type!].schema as Json;
      if (schema.$ref === undefined) return;
      const validate = validatorOf(schema);
      if (!validate(JSON.parse(body))) throw new Error(`${what}: ${ajv.errorsText(validate.errors)}`);
    },
    accepts: (path, body) =>
      validatorOf(document.paths[path].post.requestBody.content["application/json"].schema)(body) as boolean,
  };
}

/** `/v1/inbox/{key}` is every path that is not listed by itself. */
const templateOf = (document: Json, path: string): string =>
  document.paths[path] === undefined && path.startsWith("/v1/inbox/") ? "/v1/inbox/{key}" : path;

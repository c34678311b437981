import type { ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import formats from "ajv-formats";

/** The parts of an OpenAPI document that are compared. */
export interface OpenApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentOperation>>>>;
  readonly components: { readonly responses: Readonly<Record<string, DocumentAnswer>> };
}

interface DocumentOperation {
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, DocumentAnswer | Reference>>;
}

interface DocumentAnswer {
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly content?: Content;
}

type Content = Readonly<Record<string, { readonly schema: Partial<Reference> }>>;

interface Reference {
  readonly $ref: string;
}

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
export function documentChecks(document: OpenApiDocument): DocumentChecks {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  (formats as unknown as (to: Ajv2020) => void)(ajv);
  ajv.addSchema(document, "document");
  const validators = new Map<string, ValidateFunction>();
  const validatorOf = ($ref: string): ValidateFunction => {
    const validator = validators.get($ref) ?? ajv.compile({ $ref: `document${$ref}` });
    validators.set($ref, validator);
    return validator;
  };
  const resolved = (part: DocumentAnswer | Reference): DocumentAnswer =>
    "$ref" in part ? document.components.responses[part.$ref.split("/").at(-1)!]! : part;

  return {
    answer(method, path, { status, headers, body }) {
      const what = `${method} ${path} ${status}`;
      const operation = document.paths[templateOf(document, method, path)]?.[method.toLowerCase()];
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
      const { $ref } = content[type!]!.schema;
      if ($ref === undefined) return;
      const validate = validatorOf($ref);
      if (!validate(JSON.parse(body))) throw new Error(`${what}: ${ajv.errorsText(validate.errors)}`);
    },
    accepts: (path, body) =>
      validatorOf(document.paths[path]!.post!.requestBody!.content["application/json"]!.schema.$ref!)(
        body,
      ) as boolean,
  };
}

/** `/v1/inbox/{key}` is every path that is not listed by itself. */
const templateOf = (document: OpenApiDocument, method: string, path: string): string =>
  document.paths[path]?.[method.toLowerCase()] === undefined && path.startsWith("/v1/inbox/")
    ? "/v1/inbox/{key}"
    : path;

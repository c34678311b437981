import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";

export interface StoredSecret {
  text?: string;
  tags?: Record<string, string>;
  /** Seconds since 1970, as the service writes it. */
  changed?: number;
  /** What the service says instead of giving it. */
  refusal?: string;
}

interface AskedFor {
  readonly Filters?: readonly { readonly Key: string; readonly Values: readonly string[] }[];
  readonly MaxResults?: number;
  readonly NextToken?: string;
  readonly SecretIdList?: readonly string[];
  readonly SecretId?: string;
  readonly SecretString?: string;
}

/** Speaks as much of the Secrets Manager's protocol as listing, fetching and filling secrets takes. Three on a page. */
export async function startSecretsManager(secrets: Map<string, StoredSecret>) {
  const calls: string[] = [];
  const server = createServer(async (request, response) => {
    const target = String(request.headers["x-amz-target"]).replace("secretsmanager.", "");
    const asked = (await json(request)) as AskedFor;
    calls.push(target);
    const [status, body] = operations[target]?.(secrets, asked) ?? [
      400,
      { __type: "InvalidRequestException" },
    ];
    response.writeHead(status as number, { "content-type": "application/x-amz-json-1.1" });
    response.end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

type Operation = (secrets: Map<string, StoredSecret>, asked: AskedFor) => [status: number, body: object];

const operations: Readonly<Record<string, Operation>> = {
  ListSecrets: list,
  BatchGetSecretValue: batch,
  GetSecretValue: (secrets, { SecretId: id = "" }) => {
    const text = secrets.get(id)?.text;
    return text === undefined ? notFound : [200, { Name: id, SecretString: text }];
  },
  DescribeSecret: (secrets, { SecretId: id = "" }) => {
    const found = secrets.get(id);
    if (found === undefined) return notFound;
    const versions = found.text === undefined ? {} : { VersionIdsToStages: { v1: ["AWSCURRENT"] } };
    return [200, { Name: id, ...versions }];
  },
  PutSecretValue: (secrets, { SecretId: id = "", SecretString: text = "" }) => {
    if (!secrets.has(id)) return notFound;
    secrets.set(id, { text });
    return [200, { Name: id, VersionId: "v1" }];
  },
};
const notFound: [number, object] = [400, { __type: "ResourceNotFoundException" }];

const pageSize = 3;

function list(
  secrets: Map<string, StoredSecret>,
  { Filters: filters = [], NextToken: token }: AskedFor,
): [number, object] {
  // As the service does: without regard to case, and a tag's key and value each for themselves.
  const begins = (text: string, values: readonly string[]) =>
    values.some((value) => text.toLowerCase().startsWith(value.toLowerCase()));
  const found = [...secrets].filter(([name, { tags = {} }]) =>
    filters.every(({ Key: key, Values: values }) => {
      if (key === "name") return begins(name, values);
      const texts = key === "tag-key" ? Object.keys(tags) : Object.values(tags);
      return texts.some((text) => begins(text, values));
    }),
  );
  const first = Number(token ?? 0);
  const page = found.slice(first, first + pageSize).map(([name, { tags = {}, changed = 1 }]) => ({
    ARN: `arn:aws:secretsmanager:us-east-1:1:secret:${name}`,
    Name: name,
    LastChangedDate: changed,
    Tags: Object.entries(tags).map(([key, value]) => ({ Key: key, Value: value })),
  }));
  const next = first + pageSize < found.length ? { NextToken: String(first + pageSize) } : {};
  return [200, { SecretList: page, ...next }];
}

function batch(secrets: Map<string, StoredSecret>, { SecretIdList: names = [] }: AskedFor): [number, object] {
  if (names.length === 0 || names.length > 20) return [400, { __type: "InvalidParameterException" }];
  const values = [];
  const errors = [];
  for (const name of names) {
    const { text, refusal } = secrets.get(name) ?? { refusal: "ResourceNotFoundException" };
    if (refusal !== undefined) errors.push({ SecretId: name, ErrorCode: refusal, Message: "words" });
    else values.push({ Name: name, SecretString: text });
  }
  return [200, { SecretValues: values, Errors: errors }];
}

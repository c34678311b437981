import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import type { LambdaFunction } from "./lambda-function.js";

/** A stand-in for the Lambda service, for the AWS SDK: it invokes functions by name, asynchronously. */
export interface InvokeApi {
  readonly url: string;
  /** The events received so far. */
  readonly events: readonly unknown[];
  /** Resolves when all invocations have ended, and rejects if one failed. */
  settled(): Promise<void>;
  close(): Promise<void>;
}

export async function startInvokeApi(
  functions: Readonly<Record<string, LambdaFunction>>,
): Promise<InvokeApi> {
  const events: unknown[] = [];
  const results: Promise<unknown>[] = [];
  const server = createServer(async (request, response) => {
    const name = /^\/2015-03-31\/functions\/([^/]+)\/invocations$/.exec(request.url!)?.[1];
    const invoked = functions[decodeURIComponent(name ?? "")];
    const event = await json(request);
    if (invoked === undefined || request.headers["x-amz-invocation-type"] !== "Event") {
      response.writeHead(404, { "x-amzn-errortype": "ResourceNotFoundException" }).end("{}");
      return;
    }
    events.push(event);
    const result = invoked.invoke(event);
    result.catch(() => {}); // settled() reports it
    results.push(result);
    response.writeHead(202).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    events,
    async settled() {
      // A running invocation may add another.
      for (let index = 0; index < results.length; index++) await results[index];
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

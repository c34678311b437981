import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import type { APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { httpEvent } from "./http-events.js";
import type { LambdaFunction } from "./lambda-function.js";

export interface HttpApi {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * An HTTP API with the stage `prod` in front of a function. Like AWS it writes header names in lower case and decodes the
 * path. It passes every second body in base64, as AWS does with bodies that it does not take for text.
 */
export async function startHttpApi(target: LambdaFunction): Promise<HttpApi> {
  let requests = 0;
  const server = createServer(async (request, response) => {
    const isBase64Encoded = requests++ % 2 === 1;
    const body = (await buffer(request)).toString(isBase64Encoded ? "base64" : "utf8");
    const [path = "", rawQueryString = ""] = request.url!.split("?");
    const headers = Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
    );
    const event = httpEvent({
      method: request.method!,
      rawPath: decodeURIComponent(path),
      rawQueryString,
      headers,
      body,
      isBase64Encoded,
    });
    try {
      const result = await target.invoke<APIGatewayProxyStructuredResultV2>(event);
      const encoding = result.isBase64Encoded ? "base64" : "utf8";
      response.writeHead(result.statusCode!, result.headers as Record<string, string>);
      response.end(Buffer.from(result.body ?? "", encoding));
    } catch {
      response.writeHead(500).end('{"message":"Internal Server Error"}'); // the function failed or was killed
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/prod`,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

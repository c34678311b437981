import { createHmac, timingSafeEqual } from "node:crypto";
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from "aws-lambda";

/** A webhook function without oncebox: checks Stripe's signature, inserts a row, answers. */
export const bareWebhook =
  (insert: (id: string, payload: string) => Promise<unknown>) =>
  async (event: APIGatewayProxyEventV2): Promise<APIGatewayProxyStructuredResultV2> => {
    const body = event.body ?? "";
    const [, timestamp = "", signature = ""] =
      /^t=(\d+),v1=([0-9a-f]{64})$/.exec(event.headers["stripe-signature"] ?? "") ?? [];
    const expected = createHmac("sha256", process.env.BENCH_SECRET!).update(`${timestamp}.${body}`).digest();
    const isTrue = signature !== "" && timingSafeEqual(expected, Buffer.from(signature, "hex"));
    if (!isTrue) return { statusCode: 401 };
    await insert((JSON.parse(body) as { id: string }).id, body);
    return { statusCode: 200, body: "{}" };
  };

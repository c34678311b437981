import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { signWebhook } from "../../../src/webhooks/index.js";
import { stripe } from "../../../src/webhooks/presets/stripe.js";

export const webhookSecret = "whsec_lambda_of_tests";

export interface StripeEvent {
  readonly id: string;
  readonly type?: string;
  readonly secret?: string;
  /** Bytes that are added to the body. */
  readonly padding?: number;
  readonly rawPath?: string;
}

/** An HTTP API's event for a webhook of Stripe. */
export function stripeHttpEvent({
  id,
  type = "invoice.paid",
  secret = webhookSecret,
  padding = 0,
  rawPath = "/prod/webhooks/stripe",
}: StripeEvent): APIGatewayProxyEventV2 {
  const body = JSON.stringify({ id, type, padding: "x".repeat(padding) });
  const { headers } = signWebhook(stripe, { url: "https://api.example.com/", body, secrets: secret });
  return httpEvent({ body, headers, rawPath });
}

export function httpEvent(
  parts: Partial<APIGatewayProxyEventV2> & { readonly method?: string } = {},
): APIGatewayProxyEventV2 {
  const { method = "POST", ...rest } = parts;
  const rawPath = rest.rawPath ?? "/prod/webhooks/stripe";
  return {
    version: "2.0",
    routeKey: "POST /webhooks/{source}",
    rawPath,
    rawQueryString: "",
    headers: {},
    requestContext: {
      accountId: "000000000000",
      apiId: "api",
      domainName: "api.example.com",
      domainPrefix: "api",
      http: { method, path: rawPath, protocol: "HTTP/1.1", sourceIp: "192.0.2.1", userAgent: "test" },
      requestId: "id",
      routeKey: "POST /webhooks/{source}",
      stage: "prod",
      time: "01/Jan/2026:00:00:00 +0000",
      timeEpoch: 0,
    },
    isBase64Encoded: false,
    ...rest,
  };
}

export interface HttpAnswer {
  readonly status: number;
  readonly outcome: string | undefined;
}

export function answerOf({ statusCode, body }: APIGatewayProxyStructuredResultV2): HttpAnswer {
  return { status: statusCode!, outcome: (JSON.parse(body!) as { outcome?: string }).outcome };
}

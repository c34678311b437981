import { createHmac } from "node:crypto";

const secret = "consumer-secret-0";
const challenge = "890e4665-4dfe-4ab1-b689-ed553bceeed0";
const signed = { kind: "signature", header: "x-signature" };

/** Sources for `ONCEBOX_WEBHOOKS`: a handshake with each method, and one that is answered with an HMAC. */
export const handshakeSources = {
  own: {
    scheme: {
      verify: signed,
      handshakes: [
        { method: "HEAD", when: {}, unsigned: true, answer: {} },
        {
          method: "GET",
          when: { "{query:challenge}": true },
          unsigned: true,
          answer: { json: { response: "{hmac}" }, hmac: "{query:challenge}" },
        },
        {
          method: "POST",
          when: { "{header:x-challenge}": true },
          unsigned: true,
          answer: { text: "{header:x-challenge}" },
        },
      ],
    },
    secrets: [secret],
  },
  eventgrid: { scheme: "eventgrid", secrets: ["grid-token-of-tests"] },
};

export interface HandshakeRequest {
  readonly method: string;
  readonly path: string;
  readonly headers?: Record<string, string>;
  /** Status, body, and the header that only the answer to OPTIONS has. */
  readonly expected: readonly [status: number, body: string, allowedOrigin: string | null];
}

const hmac = createHmac("sha256", secret).update(challenge).digest("hex");

export const handshakeRequests: readonly HandshakeRequest[] = [
  { method: "HEAD", path: "/webhooks/own", expected: [200, "", null] },
  {
    method: "GET",
    path: `/webhooks/own?challenge=${challenge}`,
    expected: [200, JSON.stringify({ response: hmac }), null],
  },
  {
    method: "GET",
    path: "/webhooks/own?challenge=%7B%7D",
    expected: [400, '{"error":"bad request"}', null],
  },
  {
    method: "POST",
    path: "/webhooks/own",
    headers: { "x-challenge": challenge },
    expected: [200, challenge, null],
  },
  {
    method: "OPTIONS",
    path: "/webhooks/eventgrid?token=grid-token-of-tests",
    headers: { "webhook-request-origin": "eventgrid.azure.net" },
    expected: [200, "", "eventgrid.azure.net"],
  },
];

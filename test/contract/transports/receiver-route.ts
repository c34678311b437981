import type { Route } from "../../../src/http/node.js";
import type { Envelope } from "../../../src/messaging/envelope.js";
import type { ContractReceiver } from "./harness.js";

/** Lets a receiver of the suite respond to the requests of a transport that sends JSON. It verifies no signature. */
export const receiverRoute =
  (receive: ContractReceiver): Route =>
  async (request) => {
    const message = (await request.json()) as Envelope;
    const response = await receive(message, request);
    if ("refused" in response) return new Response(null, { status: response.refused });
    return Response.json(response, { status: response.acknowledged ? 200 : 500 });
  };

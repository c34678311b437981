/** A network that can lose an acknowledgement: the message was handled, and its sender does not learn it. */
import { print } from "./print.js";

type Fetch = (request: Request) => Promise<Response>;

export function losingNetwork(fetch: Fetch) {
  let isNextLost = false;
  return {
    loseNext(): void {
      isNextLost = true;
    },
    fetch: async (request: Request): Promise<Response> => {
      const response = await fetch(request);
      if (!isNextLost) return response;
      isNextLost = false;
      print("network", "the acknowledgement is lost on its way to orders");
      return new Response(null, { status: 504 });
    },
  };
}

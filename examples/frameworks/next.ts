import type { Orders } from "./orders.js";

type Opened = () => Promise<Orders>;

/**
 * For `app/webhooks/[source]/route.ts`, where `orders` opens the database once for the process:
 *
 *     export const runtime = "nodejs"; // drivers of databases need it
 *     export const { GET, POST } = webhookHandlers(orders);
 */
export function webhookHandlers(orders: Opened) {
  const handle = async (request: Request): Promise<Response> => (await orders()).route(request);
  return { GET: handle, POST: handle }; // some providers check the address by GET
}

/** For `app/orders/route.ts`: `export const { POST } = orderHandlers(orders);` */
export function orderHandlers(orders: Opened) {
  return {
    async POST(request: Request): Promise<Response> {
      const { id } = (await request.json()) as { id: string };
      await (await orders()).place(id);
      return new Response(null, { status: 201 });
    },
  };
}

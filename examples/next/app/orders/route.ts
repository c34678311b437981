import { after } from "next/server";
import { app, placeOrder } from "../../shop";

export async function POST(request: Request): Promise<Response> {
  const { id } = (await request.json()) as { id: string };
  await placeOrder(id);
  after(async () => (await app()).dispatch()); // or the cron does it, within a minute
  return new Response(null, { status: 201 });
}

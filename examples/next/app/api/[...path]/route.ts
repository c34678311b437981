import { after } from "next/server";
import { app } from "../../../shop";

export const maxDuration = 60;

const handle = async (request: Request): Promise<Response> =>
  (await app()).fetch(request, { waitUntil: after });

export { handle as GET, handle as POST };

import type { HttpRequest } from "@azure/functions";
import type { App } from "../../app/create-app.js";
import { plainRequest } from "./http-trigger.js";
import { invocationLogger } from "./invocation-logger.js";
import { registerApi } from "./register-api.js";

const routes = { admin: "_oncebox/{*path}", "admin-alias": "_rf/{*path}" } as const;

export const registerAdmin = (app: () => Promise<App>): void =>
  registerApi(app, {
    routes,
    respond: ({ admin }, request) => admin!.respond({ ...plainRequest(request), client: clientOf(request) }),
    async unavailable(reason) {
      const { unavailableAdmin } = await import("../../admin/unavailable-admin.js");
      return unavailableAdmin(invocationLogger("info"), reason);
    },
  });

/** Azure's front end puts the address that it sees at the end of the list. What stands before it, the client may have made up. */
const clientOf = ({ headers }: HttpRequest): string | undefined =>
  headers.get("x-forwarded-for")?.split(",").at(-1)?.trim().replace(port, "$1");

/** Behind an address of IPv4, or one of IPv6 in brackets. */
const port = /^([^:]+|\[.*\]):\d+$/;

import { app as functionApp, type HttpRequest } from "@azure/functions";
import type { App } from "../../app/create-app.js";
import type { PlainResponse } from "../../base/plain-http.js";
import { safeReason } from "../../base/safe-reason.js";
import { allMethods, fromPlainResponse, plainRequest } from "./http-trigger.js";
import { inInvocation, invocationLogger } from "./invocation-logger.js";

/** By function, because each has one route. The API itself finds out what a path names. */
const routes = { admin: "_oncebox/{*path}", "admin-alias": "_rf/{*path}" } as const;

export function registerAdmin(app: () => Promise<App>): void {
  const respond = async (request: HttpRequest): Promise<PlainResponse> => {
    let running: App;
    try {
      running = await app();
    } catch (error) {
      // The next request tries again, in case a secret store was away.
      const { unavailableAdmin } = await import("../../admin/unavailable-admin.js");
      return unavailableAdmin(invocationLogger("info"), safeReason(error));
    }
    return running.admin!.respond({ ...plainRequest(request), client: clientOf(request) });
  };
  for (const [name, route] of Object.entries(routes)) {
    functionApp.http(name, {
      route,
      methods: [...allMethods],
      authLevel: "anonymous", // the API checks its bearer tokens
      handler: (request, context) =>
        inInvocation(context, async () => fromPlainResponse(await respond(request))),
    });
  }
}

/** Azure's front end puts the address that it sees at the end of the list. What stands before it, the client may have made up. */
const clientOf = ({ headers }: HttpRequest): string | undefined =>
  headers.get("x-forwarded-for")?.split(",").at(-1)?.trim().replace(port, "$1");

/** Behind an address of IPv4, or one of IPv6 in brackets. */
const port = /^([^:]+|\[.*\]):\d+$/;

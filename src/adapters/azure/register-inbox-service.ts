import { app as functionApp, type HttpRequest } from "@azure/functions";
import type { AppService } from "../../app/app-service.js";
import type { App } from "../../app/create-app.js";
import type { PlainResponse } from "../../base/plain-http.js";
import { safeReason } from "../../base/safe-reason.js";
import { allMethods, fromPlainResponse, plainRequest } from "./http-trigger.js";
import { inInvocation, invocationLogger } from "./invocation-logger.js";

/** By function, because each has one route. The service itself finds out what a path names. */
const routes = { "inbox-service": "v1/inbox/{*path}", "inbox-service-document": "v1/openapi.json" } as const;

export function registerInboxService(app: () => Promise<App>, { auth }: AppService): void {
  const respond = async (request: HttpRequest): Promise<PlainResponse> => {
    let running: App;
    try {
      running = await app();
    } catch (error) {
      // The next request tries again, in case a secret store was away.
      const { unavailableService } = await import("../../service/http/unavailable-service.js");
      return unavailableService(auth ?? "bearer", invocationLogger("info"), safeReason(error));
    }
    return running.service!.respond(plainRequest(request));
  };
  for (const [name, route] of Object.entries(routes)) {
    functionApp.http(name, {
      route,
      methods: [...allMethods],
      authLevel: "anonymous", // the service checks its bearer tokens
      handler: (request, context) =>
        inInvocation(context, async () => fromPlainResponse(await respond(request))),
    });
  }
}

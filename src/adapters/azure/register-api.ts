import { app as functionApp, type HttpRequest } from "@azure/functions";
import type { App } from "../../app/create-app.js";
import type { PlainResponse } from "../../base/plain-http.js";
import { safeReason } from "../../base/safe-reason.js";
import { allMethods, fromPlainResponse } from "./http-trigger.js";
import { inInvocation } from "./invocation-logger.js";

export interface Api {
  /** By function, because each has one route. The API itself finds out what a path names. */
  readonly routes: Readonly<Record<string, string>>;
  respond(app: App, request: HttpRequest): Promise<PlainResponse>;
  /** The answer when the app cannot start. */
  unavailable(reason: string): Promise<PlainResponse>;
}

/** Registers an API of the app that checks its bearer tokens itself. */
export function registerApi(app: () => Promise<App>, { routes, respond, unavailable }: Api): void {
  const answer = async (request: HttpRequest): Promise<PlainResponse> => {
    let running: App;
    try {
      running = await app();
    } catch (error) {
      return unavailable(safeReason(error)); // the next request tries again, in case a secret store was away
    }
    return respond(running, request);
  };
  for (const [name, route] of Object.entries(routes)) {
    functionApp.http(name, {
      route,
      methods: [...allMethods],
      authLevel: "anonymous",
      handler: (request, context) =>
        inInvocation(context, async () => fromPlainResponse(await answer(request))),
    });
  }
}

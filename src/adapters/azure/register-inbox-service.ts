import type { AppService } from "../../app/app-service.js";
import type { App } from "../../app/create-app.js";
import { plainRequest } from "./http-trigger.js";
import { invocationLogger } from "./invocation-logger.js";
import { registerApi } from "./register-api.js";

const routes = { "inbox-service": "v1/inbox/{*path}", "inbox-service-document": "v1/openapi.json" } as const;

export const registerInboxService = (app: () => Promise<App>, { auth }: AppService): void =>
  registerApi(app, {
    routes,
    respond: ({ service }, request) => service!.respond(plainRequest(request)),
    async unavailable(reason) {
      const { unavailableService } = await import("../../service/http/unavailable-service.js");
      return unavailableService(auth ?? "bearer", invocationLogger("info"), reason);
    },
  });

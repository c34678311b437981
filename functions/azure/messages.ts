import { registerMessageFunctions } from "../../src/adapters/azure/index.js";

/** main.ts imports this file in an app that has a service. Only the function app with the group `messaging` loads the service. */
registerMessageFunctions(async (context) => (await import("../service.js")).default(context));

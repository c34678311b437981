import { queueKinds } from "../queue/any-queue.js";
import type { AdminOptions } from "./admin-options.js";
import type { AdminRoute } from "./admin-route.js";
import { appRoutes } from "./routes/app-routes.js";
import { controlRoutes } from "./routes/control-routes.js";
import { correlationRoute } from "./routes/correlation-route.js";
import { deadRoutes } from "./routes/dead-routes.js";
import { messageRoutes } from "./routes/message-routes.js";
import { operationRoutes } from "./routes/operation-routes.js";
import { retryRoute } from "./routes/retry-route.js";

/** All routes but those of the page. */
export const adminRoutes = (options: AdminOptions): readonly AdminRoute[] => [
  ...appRoutes(options),
  ...queueKinds.flatMap((queue) => [
    ...messageRoutes(queue),
    ...deadRoutes(queue),
    ...operationRoutes(queue),
    ...controlRoutes(queue),
  ]),
  correlationRoute,
  retryRoute,
];

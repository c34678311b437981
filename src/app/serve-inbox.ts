import type { InboxService } from "../service/http/create-inbox-service.js";
import type { OpenApp } from "./open-app.js";
import { serviceJob, serviceOf } from "./service-job.js";
import { serviceStore } from "./service-store.js";

export interface ServedInbox {
  readonly service: InboxService;
  /** Closes the store that the definition opened. The app's own database stays open. */
  close(): Promise<void>;
}

/** The service of a whole app in one process. */
export async function serveInbox(app: OpenApp): Promise<ServedInbox> {
  const own = await serviceOf(app.definition).store?.(app);
  const store = own ?? serviceStore(app, app.db);
  return {
    service: serviceJob({ ...app, store }),
    close: async () => own?.close(),
  };
}

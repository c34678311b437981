import { InvalidArgumentError } from "../errors.js";

/** The function app's storage account, reached with a connection string or with the app's managed identity. */
export type QueueStorage =
  | { readonly connectionString: string }
  | { readonly queueServiceUrl: string; readonly clientId: string | undefined };

export interface WakeQueue {
  readonly queue: string;
  readonly storage: QueueStorage;
}

export interface AzureSettings {
  /** The queue that wakes the dispatcher. Without one only the timer starts it. */
  readonly wakeUp: WakeQueue | undefined;
  /** The queue that wakes the dispatcher of a service's messages. */
  readonly messageWakeUp: WakeQueue | undefined;
  /** The queue, in the same account, whose messages the app's consumer handles. */
  readonly consumeQueue: string | undefined;
  /** NCRONTAB expressions: second, minute, hour, day, month, day of the week. */
  readonly schedules: {
    readonly dispatch: string;
    readonly reap: string;
    readonly cleanup: string;
    readonly recover: string;
  };
  /** Overrides `functionTimeout` of host.json. */
  readonly functionTimeout: string | undefined;
  /** The folder of host.json, when it is not the current one. */
  readonly appFolder: string | undefined;
}

/** Not at the full minute, when most other timers fire. */
const schedules = {
  dispatch: "5 * * * * *",
  reap: "35 * * * * *",
  cleanup: "50 17 * * * *",
  recover: "20 7/15 * * * *",
} as const;

export function readAzureSettings(env: NodeJS.ProcessEnv = process.env): AzureSettings {
  const filled = (name: string): string | undefined => env[name]?.trim() || undefined;
  const wakeQueue = (setting: string): WakeQueue | undefined => {
    const queue = filled(setting);
    return queue === undefined
      ? undefined
      : { queue: queueName(queue, setting), storage: queueStorage(filled, setting) };
  };
  const consumed = filled("ONCEBOX_CONSUME_QUEUE");
  return {
    wakeUp: wakeQueue("ONCEBOX_WAKE_QUEUE"),
    messageWakeUp: wakeQueue("ONCEBOX_MESSAGE_WAKE_QUEUE"),
    consumeQueue: consumed === undefined ? undefined : queueName(consumed, "ONCEBOX_CONSUME_QUEUE"),
    schedules: {
      dispatch: filled("ONCEBOX_DISPATCH_SCHEDULE") ?? schedules.dispatch,
      reap: filled("ONCEBOX_REAP_SCHEDULE") ?? schedules.reap,
      cleanup: filled("ONCEBOX_CLEANUP_SCHEDULE") ?? schedules.cleanup,
      recover: filled("ONCEBOX_RECOVER_SCHEDULE") ?? schedules.recover,
    },
    functionTimeout: filled(functionTimeoutName(env)),
    appFolder: filled("AzureWebJobsScriptRoot"),
  };
}

/** The host accepts the names of its settings in any case. */
const functionTimeoutName = (env: NodeJS.ProcessEnv): string =>
  Object.keys(env).find((name) => name.toLowerCase() === "azurefunctionsjobhost__functiontimeout") ?? "";

function queueName(name: string, setting: string): string {
  if (!/^(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*$/.test(name)) {
    throw new InvalidArgumentError(
      `${setting} must be the name of a queue: 3 to 63 lower-case letters, digits and single hyphens.`,
    );
  }
  return name;
}

/** Reads the settings that the queue trigger reads, so that both use the same account. */
function queueStorage(filled: (name: string) => string | undefined, setting: string): QueueStorage {
  const connectionString = filled("AzureWebJobsStorage");
  if (connectionString !== undefined) return { connectionString };
  const account = filled("AzureWebJobsStorage__accountName");
  const queueServiceUrl =
    filled("AzureWebJobsStorage__queueServiceUri") ??
    (account === undefined ? undefined : `https://${account}.queue.core.windows.net`);
  if (queueServiceUrl === undefined || !URL.canParse(queueServiceUrl)) {
    throw new InvalidArgumentError(
      `${setting} needs a storage account: set AzureWebJobsStorage, or AzureWebJobsStorage__queueServiceUri to the URL of its queues.`,
    );
  }
  return { queueServiceUrl, clientId: filled("AzureWebJobsStorage__clientId") };
}

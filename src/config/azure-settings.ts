import { InvalidArgumentError } from "../errors.js";
import { filled } from "./environment.js";

/** The storage account with the queues, reached with a connection string or with the app's managed identity. */
export type QueueStorage =
  | { readonly connectionString: string }
  | { readonly queueServiceUrl: string; readonly clientId: string | undefined };

export interface WakeQueue {
  readonly queue: string;
  readonly storage: QueueStorage;
}

/** The prefix of the settings that say where the queues are: an account of their own, or that of the function app. */
type QueueConnection = "ONCEBOX_QUEUES" | "AzureWebJobsStorage";

export interface AzureSettings {
  readonly functions: ReadonlySet<FunctionGroup>;
  readonly queueConnection: QueueConnection;
  /** The queue that wakes the dispatcher. Without one only the timer starts it. */
  readonly wakeUp: WakeQueue | undefined;
  /** The queue that wakes the dispatcher of a service's messages. */
  readonly messageWakeUp: WakeQueue | undefined;
  /** The queue, in the same account, whose messages the app's consumer handles. */
  readonly consumeQueue: string | undefined;
  /** The queue of Service Bus whose messages the app's consumer handles. The settings `ONCEBOX_BUS__…` say where it is. */
  readonly consumeBusQueue: string | undefined;
  /** Where the host moves a message of these queues whose function failed five times. */
  readonly poisonQueues: readonly WakeQueue[];
  /** The same for the queue that wakes the dispatcher of a service's messages. */
  readonly messagePoisonQueues: readonly WakeQueue[];
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
const defaultSchedules = {
  dispatch: "5 * * * * *",
  reap: "35 * * * * *",
  cleanup: "50 17 * * * *",
  recover: "20 7/15 * * * *",
} as const;

export function readAzureSettings(env: NodeJS.ProcessEnv = process.env): AzureSettings {
  const queueConnection = connectionOf(env);
  const storage = storageOf(env, queueConnection);
  const wakeQueue = (setting: string): WakeQueue | undefined => {
    const queue = filled(env, setting);
    if (queue === undefined) return undefined;
    if (storage === undefined)
      throw new InvalidArgumentError(
        `${setting} needs a storage account: set ${queueConnection}, or ${queueConnection}__queueServiceUri to the URL of its queues.`,
      );
    return { queue: queueName(queue, setting), storage };
  };
  const consumed = filled(env, "ONCEBOX_CONSUME_QUEUE");
  const poisonQueues = (...settings: readonly string[]): readonly WakeQueue[] =>
    settings.flatMap((setting) => {
      const queue = filled(env, setting);
      return storage === undefined || queue === undefined ? [] : { queue: `${queue}-poison`, storage };
    });
  return {
    functions: readFunctionGroups(filled(env, "ONCEBOX_FUNCTIONS")),
    queueConnection,
    wakeUp: wakeQueue("ONCEBOX_WAKE_QUEUE"),
    messageWakeUp: wakeQueue("ONCEBOX_MESSAGE_WAKE_QUEUE"),
    consumeQueue: consumed === undefined ? undefined : queueName(consumed, "ONCEBOX_CONSUME_QUEUE"),
    consumeBusQueue: filled(env, "ONCEBOX_CONSUME_BUS_QUEUE"),
    poisonQueues: poisonQueues("ONCEBOX_WAKE_QUEUE", "ONCEBOX_CONSUME_QUEUE"),
    messagePoisonQueues: poisonQueues("ONCEBOX_MESSAGE_WAKE_QUEUE"),
    schedules: {
      dispatch: filled(env, "ONCEBOX_DISPATCH_SCHEDULE") ?? defaultSchedules.dispatch,
      reap: filled(env, "ONCEBOX_REAP_SCHEDULE") ?? defaultSchedules.reap,
      cleanup: filled(env, "ONCEBOX_CLEANUP_SCHEDULE") ?? defaultSchedules.cleanup,
      recover: filled(env, "ONCEBOX_RECOVER_SCHEDULE") ?? defaultSchedules.recover,
    },
    functionTimeout: filled(env, functionTimeoutName(env)),
    appFolder: filled(env, "AzureWebJobsScriptRoot"),
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

const connectionOf = (env: NodeJS.ProcessEnv): QueueConnection =>
  Object.keys(env).some((name) => /^ONCEBOX_QUEUES(__|$)/.test(name))
    ? "ONCEBOX_QUEUES"
    : "AzureWebJobsStorage";

/** Reads the settings that the queue trigger reads, so that both use the same account. */
function storageOf(env: NodeJS.ProcessEnv, connection: QueueConnection): QueueStorage | undefined {
  const connectionString = filled(env, connection);
  if (connectionString !== undefined) return { connectionString };
  const account = filled(env, `${connection}__accountName`);
  const queueServiceUrl =
    filled(env, `${connection}__queueServiceUri`) ??
    (account === undefined ? undefined : `https://${account}.queue.core.windows.net`);
  if (queueServiceUrl === undefined || !URL.canParse(queueServiceUrl)) return undefined;
  return { queueServiceUrl, clientId: filled(env, `${connection}__clientId`) };
}

/**
 * What a function app can do. One app may do all of it. Apps that do less need fewer rights:
 * - `webhook`: receives webhooks
 * - `work`: dispatches, reaps, cleans up and consumes
 * - `service`: the inbox as a service
 * - `admin`: the diagnostics API
 * - `messaging`: a service that exchanges messages with others
 * - `migrate`: creates tables and users when it is called; never without being asked for
 */
export const functionGroups = ["webhook", "work", "service", "admin", "messaging", "migrate"] as const;
export type FunctionGroup = (typeof functionGroups)[number];

const defaultGroups: readonly FunctionGroup[] = functionGroups.filter((group) => group !== "migrate");

/** `ONCEBOX_FUNCTIONS`: groups with commas between them. */
function readFunctionGroups(text: string | undefined): ReadonlySet<FunctionGroup> {
  if (text === undefined) return new Set(defaultGroups);
  const names = text.split(",").map((name) => name.trim());
  if (!names.every(isGroup)) {
    throw new InvalidArgumentError(
      `ONCEBOX_FUNCTIONS must be one or more of ${functionGroups.join(", ")}, with commas between them.`,
    );
  }
  return new Set(names);
}

/** All groups for a wrong setting, which `readAzureSettings` refuses later. HTTP functions are registered before that. */
export function functionGroupsIn(env: NodeJS.ProcessEnv): ReadonlySet<FunctionGroup> {
  try {
    return readFunctionGroups(filled(env, "ONCEBOX_FUNCTIONS"));
  } catch {
    return new Set(defaultGroups);
  }
}

const isGroup = (name: string): name is FunctionGroup => (functionGroups as readonly string[]).includes(name);

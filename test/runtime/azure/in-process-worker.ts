import { readFileSync } from "node:fs";
import Module from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { FunctionsWorker, HostLog, RpcData, Trigger } from "./functions-worker.js";

interface Registration {
  readonly metadata: {
    readonly name: string;
    readonly bindings: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  };
  readonly trigger: Trigger;
  readonly callback: (...args: unknown[]) => unknown;
}

interface InvocationModel {
  getArguments(): Promise<{ context: unknown; inputs: unknown[] }>;
  invokeFunction(context: unknown, inputs: unknown[], callback: Registration["callback"]): Promise<unknown>;
  getResponse(context: unknown, result: unknown): Promise<{ returnValue?: RpcData | null }>;
}

/**
 * Loads a function app into this process, with a stand-in for the worker's module `@azure/functions-core`, which a hook
 * of `require` provides, as in the worker. Everything else is done by the real `@azure/functions`.
 */
export async function loadInProcess(folder: string, log: HostLog): Promise<FunctionsWorker> {
  const functions = new Map<string, Registration>();
  const hooks: (() => unknown)[] = [];
  let model: { getInvocationModel(context: object): InvocationModel } | undefined;
  provide("@azure/functions-core", {
    version: "3.11.0",
    hostVersion: "4.1040.0",
    log,
    setProgrammingModel(given: typeof model) {
      model = given;
    },
    getProgrammingModel: () => model,
    registerFunction(metadata: Registration["metadata"], callback: Registration["callback"]) {
      functions.set(metadata.name, { metadata, trigger: triggerOf(metadata), callback });
    },
    registerHook(name: string, hook: (context: object) => unknown) {
      if (name === "appTerminate") hooks.push(() => hook({}));
    },
  });
  const { main } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { main: string };
  try {
    await import(pathToFileURL(join(folder, main)).href);
  } catch (error) {
    // Rethrown, Node would print the bundle's source line first, which is longer than a pipe holds.
    if (functions.size > 0) throw new Error(`The function app did not load: ${(error as Error).stack}`);
    console.error(error); // as the worker does: an app that registered nothing has no functions
  }

  return {
    triggers: new Map([...functions].map(([name, { trigger }]) => [name, trigger])),
    async invoke(name, input, invocationId, triggerMetadata = {}) {
      const { metadata, trigger, callback } = functions.get(name)!;
      const invocation = model!.getInvocationModel({
        invocationId,
        metadata,
        request: { inputData: [{ name: trigger.name, data: input }], triggerMetadata },
        log: (level: string, category: string, message: string) =>
          log(level, category, message, invocationId),
      });
      const { context, inputs } = await invocation.getArguments();
      const result = await invocation.invokeFunction(context, inputs, callback);
      return (await invocation.getResponse(context, result)).returnValue;
    },
    async terminate() {
      for (const hook of hooks) await hook();
    },
  };
}

function provide(name: string, module: object): void {
  const { prototype } = Module as unknown as { prototype: { require(id: string): unknown } };
  const { require: original } = prototype;
  prototype.require = function (id) {
    return id === name ? module : original.call(this, id);
  };
}

function triggerOf({ bindings }: Registration["metadata"]): Trigger {
  const [name, binding] = Object.entries(bindings).find(([, { type }]) => /Trigger$/.test(String(type)))!;
  return { ...binding, name };
}

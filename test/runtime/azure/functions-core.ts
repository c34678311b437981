import Module from "node:module";

/** What a function was registered with, as Microsoft's library tells the worker. */
export interface Registration {
  readonly metadata: {
    readonly name: string;
    readonly bindings: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  };
  readonly callback: (...args: unknown[]) => unknown;
}

/** Data on its way between the host and the worker. */
export type RpcData = Readonly<Record<string, unknown>>;

interface InvocationModel {
  getArguments(): Promise<{ context: unknown; inputs: unknown[] }>;
  invokeFunction(context: unknown, inputs: unknown[], callback: Registration["callback"]): Promise<unknown>;
  getResponse(context: unknown, result: unknown): Promise<{ returnValue?: RpcData | null }>;
}

export interface FunctionsCore {
  readonly functions: ReadonlyMap<string, Registration>;
  invoke(name: string, input: RpcData, invocationId: string): Promise<RpcData | null | undefined>;
  terminate(): Promise<void>;
}

/**
 * Stands in for the worker's module `@azure/functions-core`, given to whoever requires it just as the worker does.
 * Everything between a registration or an invocation's data and a handler is done by the real `@azure/functions`.
 */
export function installFunctionsCore(
  log: (level: string, category: string, message: string, invocationId?: string) => void,
): FunctionsCore {
  const functions = new Map<string, Registration>();
  const hooks: (() => unknown)[] = [];
  let model: { getInvocationModel(context: object): InvocationModel } | undefined;
  const core = {
    version: "3.11.0",
    hostVersion: "4.1040.0",
    log,
    setProgrammingModel(given: typeof model) {
      model = given;
    },
    getProgrammingModel: () => model,
    registerFunction(metadata: Registration["metadata"], callback: Registration["callback"]) {
      functions.set(metadata.name, { metadata, callback });
    },
    registerHook(name: string, hook: (context: object) => unknown) {
      if (name === "appTerminate") hooks.push(() => hook({}));
    },
  };
  const { prototype } = Module as unknown as { prototype: { require(id: string): unknown } };
  const { require: original } = prototype;
  prototype.require = function (id) {
    return id === "@azure/functions-core" ? core : original.call(this, id);
  };
  return {
    functions,
    async invoke(name, input, invocationId) {
      const { metadata, callback } = functions.get(name)!;
      const invocation = model!.getInvocationModel({
        invocationId,
        metadata,
        request: {
          inputData: [{ name: triggerOf(functions.get(name)!).name, data: input }],
          triggerMetadata: {},
        },
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

export function triggerOf({ metadata }: Registration): { name: string } & Readonly<Record<string, unknown>> {
  const [name, binding] = Object.entries(metadata.bindings).find(([, { type }]) =>
    /Trigger$/.test(String(type)),
  )!;
  return { ...binding, name };
}

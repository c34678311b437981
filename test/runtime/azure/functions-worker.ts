/** A function's trigger, as it was registered. */
export type Trigger = { readonly name: string } & Readonly<Record<string, unknown>>;

/** Data between the host and the worker. */
export type RpcData = Readonly<Record<string, unknown>>;

export type HostLog = (level: string, category: string, message: string, invocationId?: string) => void;

/** A worker that has loaded a function app and runs its functions for the host. */
export interface FunctionsWorker {
  /** By the functions' names. */
  readonly triggers: ReadonlyMap<string, Trigger>;
  /** Resolves with the function's result; rejects when it failed. */
  invoke(
    name: string,
    input: RpcData,
    invocationId: string,
    triggerMetadata?: Readonly<Record<string, RpcData>>,
  ): Promise<RpcData | null | undefined>;
  /** The instance is removed. */
  terminate(): Promise<void>;
}

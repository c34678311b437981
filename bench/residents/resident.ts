/** A slow job runs for seconds; a quick one does nothing. */
export type JobKind = "slow" | "quick";

export interface ResidentSettings {
  /** Woken by NOTIFY, or by polling alone. */
  readonly wake: "notify" | "poll";
  /** Between two polls. */
  readonly pollMs: number;
  /** Handlers that may run at once. */
  readonly concurrency: number;
  /** The handler. */
  readonly handle: (kind: JobKind, id: number) => void | Promise<void>;
}

/** A queue in PostgreSQL with a worker that stays until its process ends. */
export interface Resident {
  /** Resolves when the job is committed. */
  add(kind: JobKind, id: number): Promise<unknown>;
}

export type OpenResident = (url: string, schema: string, settings: ResidentSettings) => Promise<Resident>;

export type ResidentName = "oncebox" | "graphile-worker" | "pg-boss";

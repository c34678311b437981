/** One call of a leasing inbox store, and when it was made. */
export interface RecordedCall {
  readonly key: string;
  /** By the machine's monotonic clock, in ms, which all of its processes share. */
  readonly calledAt: number;
  /** Infinity when it never returned: it may or may not have taken effect, at any time since. */
  readonly returnedAt: number;
  /** The same two times by the machine's time of day, in ms, which may be set and may go faster or slower for a while. */
  readonly timeOfDay: Range;
  readonly step: Step;
}

/** What was asked and what was returned. Without a result it never returned. Times of results are the database's, in ms. */
export type Step =
  | {
      readonly kind: "tryBegin";
      readonly leaseMs: number;
      /** The lease id that the caller proposed. A repeated call with it finds its own lease. */
      readonly proposed?: string;
      readonly result?: TryBeginStepResult;
    }
  | {
      readonly kind: "renew";
      readonly leaseId: string;
      readonly leaseMs: number;
      readonly result?: { readonly status: "Renewed"; readonly expiresAt: number } | LeaseLostStep;
    }
  | {
      readonly kind: "finish";
      readonly leaseId: string;
      readonly result?: { readonly status: "Processed" } | LeaseLostStep;
    }
  | {
      readonly kind: "release";
      readonly leaseId: string;
      readonly result?: { readonly status: "Released" } | LeaseLostStep;
    }
  | { readonly kind: "isProcessed"; readonly result?: boolean }
  | { readonly kind: "markProcessed"; readonly result?: true }
  | { readonly kind: "inspect"; readonly result?: InspectStepResult };

export type TryBeginStepResult =
  | { readonly status: "Acquired"; readonly leaseId: string; readonly expiresAt: number }
  | { readonly status: "Processed" }
  | { readonly status: "Busy"; readonly expiresAt: number | null };

export type InspectStepResult =
  | { readonly status: "Unknown" }
  | {
      readonly status: "Processed" | "Leased" | "Free";
      readonly attempts: number;
      readonly leaseUntil: number | null;
    };

interface LeaseLostStep {
  readonly status: "LeaseLost";
}

export type StepOf<Kind extends Step["kind"]> = Extract<Step, { readonly kind: Kind }>;

/** The status that was returned, where there is one. */
export const statusOf = ({ step }: RecordedCall): string | undefined =>
  typeof step.result === "object" ? step.result.status : undefined;

/** From the first to the last possible value. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

import type { OperatorOptions } from "./dead-letters.js";
import type { CallOptions } from "./work-store.js";

/** What a control is for: the messages of a topic, those of a source (inbox only), or the whole queue. */
export type ControlTarget = "all" | { readonly topic: string } | { readonly source: string };

export const controlScopes = ["queue", "topic", "source"] as const;
export type ControlScope = (typeof controlScopes)[number];

/** A pause or a limit. It is a row in the database, and every claim of every process keeps to it. */
export interface Control {
  readonly scope: ControlScope;
  /** The topic or the source; null for the whole queue. */
  readonly name: string | null;
  readonly paused: boolean;
  /** The most messages that are claimed in a second, by all processes together; null without a limit. */
  readonly perSecond: number | null;
  /** Messages that it has set aside, and that wait for it. */
  readonly parked: number;
  /** Who changed it last, and when. */
  readonly by: string;
  readonly at: Date;
}

/** Without topic and source: the whole queue. */
export interface Limit {
  readonly topic?: string | undefined;
  readonly source?: string | undefined;
  /** Such as 10, or 0.1 for one message in ten seconds. `null` takes the limit away. */
  readonly perSecond: number | null;
}

export interface Resumed {
  /** `false` when there was nothing to resume. */
  readonly wasPaused: boolean;
  /** Parked messages that this call made claimable. With a limit on the same target, the claims do it at its rate. */
  readonly returned: number;
}

/** What operators do to the flow of messages. Handlers that run already go on. */
export interface Controls {
  /**
   * From now on no claim of any process returns a message of the target. The messages wait, keep their order, and expire
   * when their time has come.
   *
   * @example
   * await operatorsOf(outbox).pause({ topic: "mail.welcome" }, { by: "alice" });
   */
  pause(target: ControlTarget, options: OperatorOptions): Promise<Control>;
  /** Ends a pause. A limit on the same target stays. A call that is interrupted is completed by the claims after it. */
  resume(target: ControlTarget, options: OperatorOptions): Promise<Resumed>;
  /**
   * Limits how many messages are claimed in a second. What was not used in the last second is added, so there may be twice
   * as many once. Retries count. Returns null when the limit was taken away and nothing is left of the control.
   *
   * @example
   * await operatorsOf(outbox).limit({ topic: "mail.welcome", perSecond: 10 }, { by: "alice" });
   */
  limit(limit: Limit, options: OperatorOptions): Promise<Control | null>;
  /** All controls of the queue. One that is neither paused nor limited is ending: its messages are being returned. */
  controls(options?: CallOptions): Promise<readonly Control[]>;
}

import { backoffMs, defaultRetryPolicy, type RetryPolicy } from "../../src/index.js";

export const policy: RetryPolicy = { ...defaultRetryPolicy, maxAttempts: 3 };

/** What the store should know of one message. */
export interface ModelMessage {
  readonly key: string;
  readonly seq: number;
  status: "ready" | "held" | "done" | "dead";
  attempt: number;
  visibleAt: number;
  /** When it was last put in line. A lease leaves it alone. */
  inLineSince: number;
  lockedUntil: number | null;
  owner: string | null;
  crashes: number;
  expiresAt: number | null;
}

/**
 * The queue as a list and a few rules, simple enough to be believed. Every rule that the SQL follows in three
 * dialects stands here once.
 */
export class QueueModel {
  now = Date.UTC(2030, 0, 1);
  readonly messages: ModelMessage[] = [];

  /**
   * Which of the due ones a claim looks at: what crashed goes alone, either before all others or, where leases
   * have no index of their own, when its old place in the line comes up.
   */
  constructor(private readonly crashed: "first" | "in turn") {}

  enqueue(key: string, dueInMs: number, expiresInMs: number | null): void {
    this.messages.push({
      key,
      seq: this.messages.length + 1,
      status: "ready",
      attempt: 0,
      visibleAt: this.now + dueInMs,
      inLineSince: this.now + dueInMs,
      lockedUntil: null,
      owner: null,
      crashes: 0,
      expiresAt: expiresInMs === null ? null : this.now + expiresInMs,
    });
  }

  /** The keys that this claim must bring, in order. */
  claim(owner: string, leaseMs: number, batchSize: number): string[] {
    for (;;) {
      const picked = this.pick(batchSize);
      for (const message of picked) this.lease(message, owner, leaseMs);
      const claimed = picked.filter((message) => message.status === "held").sort((a, b) => a.seq - b.seq);
      // only dead ones: the store looks behind them
      if (claimed.length > 0 || picked.length === 0) return claimed.map((message) => message.key);
    }
  }

  private pick(batchSize: number): readonly ModelMessage[] {
    const due = this.messages.filter(
      (message) => (message.status === "ready" || message.status === "held") && message.visibleAt <= this.now,
    );
    const inOrder = (time: "visibleAt" | "inLineSince", messages: readonly ModelMessage[]) =>
      [...messages].sort((a, b) => a[time] - b[time] || a.seq - b.seq);
    const looked =
      this.crashed === "first" ? inOrder("visibleAt", due) : inOrder("inLineSince", due).slice(0, batchSize);
    const crashed = looked.find((message) => message.status === "held");
    return crashed ? [crashed] : looked.slice(0, batchSize);
  }

  private lease(message: ModelMessage, owner: string, leaseMs: number): void {
    const lost = message.lockedUntil !== null;
    const dies = this.isExpired(message) || (lost && message.attempt + 1 >= policy.maxAttempts);
    if (lost) {
      message.attempt++;
      message.crashes++;
    }
    message.status = dies ? "dead" : "held";
    message.owner = dies ? null : owner;
    message.lockedUntil = dies ? null : this.now + leaseMs;
    message.visibleAt = this.now + leaseMs + this.backoff(message.attempt + 1);
  }

  /** Those of the keys that the owner holds. */
  private held(owner: string, keys: readonly string[]): ModelMessage[] {
    return this.messages.filter((m) => m.status === "held" && m.owner === owner && keys.includes(m.key));
  }

  private unlock(message: ModelMessage): void {
    message.owner = null;
    message.lockedUntil = null;
  }

  ack(owner: string, keys: readonly string[]): string[] {
    return this.held(owner, keys).map((message) => {
      message.status = "done";
      this.unlock(message);
      return message.key;
    });
  }

  abandon(owner: string, keys: readonly string[]): string[] {
    return this.held(owner, keys).map((message) => {
      message.attempt++;
      message.crashes = 0;
      message.status = message.attempt >= policy.maxAttempts ? "dead" : "ready";
      message.visibleAt = message.inLineSince = this.now + this.backoff(message.attempt);
      this.unlock(message);
      return message.key;
    });
  }

  fail(owner: string, keys: readonly string[]): string[] {
    return this.held(owner, keys).map((message) => {
      message.attempt++;
      message.status = "dead";
      this.unlock(message);
      return message.key;
    });
  }

  release(owner: string, keys: readonly string[]): string[] {
    return this.held(owner, keys).map((message) => {
      message.status = message.crashes > 0 ? "held" : "ready";
      message.visibleAt = message.inLineSince = this.now;
      this.unlock(message);
      return message.key;
    });
  }

  renew(owner: string, keys: readonly string[], leaseMs: number): string[] {
    return this.held(owner, keys).map((message) => {
      message.lockedUntil = this.now + leaseMs;
      message.visibleAt = this.now + leaseMs + this.backoff(message.attempt + 1);
      return message.key;
    });
  }

  reap(): { reaped: number; dead: number } {
    let reaped = 0;
    let dead = 0;
    for (const message of this.messages) {
      const lost =
        message.status === "held" && message.lockedUntil !== null && message.lockedUntil < this.now;
      const stale =
        (message.status === "ready" || message.status === "held") &&
        message.lockedUntil === null &&
        this.isExpired(message);
      if (!lost && !stale) continue;
      const expired = this.isExpired(message);
      const dies = expired || message.attempt + 1 >= policy.maxAttempts;
      if (lost) {
        message.attempt++;
        message.crashes++;
        message.inLineSince = message.visibleAt;
      }
      if (lost && !expired) reaped++;
      if (dies) dead++;
      message.status = dies ? "dead" : "held";
      this.unlock(message);
    }
    return { reaped, dead };
  }

  replay(keys: readonly string[]): string[] {
    const dead = this.messages.filter((message) => message.status === "dead" && keys.includes(message.key));
    for (const message of dead) {
      message.status = "ready";
      message.attempt = 0;
      message.crashes = 0;
      message.visibleAt = message.inLineSince = this.now;
      message.expiresAt = null;
    }
    return dead.map((message) => message.key);
  }

  private isExpired = (message: ModelMessage): boolean =>
    message.expiresAt !== null && message.expiresAt <= this.now;
  private backoff = (attempt: number): number => backoffMs(policy, attempt, () => 0);
}

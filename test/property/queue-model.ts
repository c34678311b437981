import type { RetryPolicy } from "../../src/index.js";
import { backoffMs, defaultRetryPolicy } from "../../src/queue/retry-policy.js";

export const policy: RetryPolicy = { ...defaultRetryPolicy, maxAttempts: 3 };

/** What the store should know of one message. */
export interface ModelMessage {
  readonly key: string;
  readonly seq: number;
  readonly partitionKey: string | null;
  readonly topic: string;
  /** `blocked`: in its partition queue, and not its head. `held`: leased, or back from a worker. */
  status: "ready" | "held" | "done" | "dead" | "blocked";
  attempt: number;
  visibleAt: number;
  /** When it last became due. Leases, crashes and releases do not change it. */
  dueSince: number;
  /** Since when it was claimable at its last claim. */
  claimableSince: number;
  lockedUntil: number | null;
  owner: string | null;
  crashes: number;
  expiresAt: number | null;
  /** As the last delivery said. A replay takes the expiry away, and the same delivery does not bring it back. */
  sentDueAt: number | null;
  sentExpiresAt: number | null;
  readonly bornAt: number;
  lastSeenAt: number;
  processedAt: number | null;
}

export const topics = ["even", "odd"] as const;
export const topicOf = (key: string): string => topics[Number(key.slice(1)) % 2]!;

/**
 * The queue as a list and a few rules. Each rule that the SQL follows in three dialects is here once.
 */
export class QueueModel {
  now = Date.UTC(2030, 0, 1);
  messages: ModelMessage[] = [];
  /** How many messages were ever enqueued: no number is used twice. */
  enqueued = 0;
  /** Topics, and "all". */
  private readonly paused = new Set<string>();
  /** The messages of each partition key, the head first. */
  private readonly partitionQueues = new Map<string, ModelMessage[]>();

  constructor(private readonly deadInPartition: "skip" | "block") {}

  enqueue(key: string, partitionKey: string | null, dueAt: number | null, expiresAt: number | null): void {
    const message: ModelMessage = {
      key,
      partitionKey,
      topic: topicOf(key),
      seq: ++this.enqueued,
      status: "ready",
      attempt: 0,
      visibleAt: dueAt ?? this.now,
      dueSince: dueAt ?? this.now,
      claimableSince: dueAt ?? this.now,
      lockedUntil: null,
      owner: null,
      crashes: 0,
      expiresAt,
      sentDueAt: dueAt,
      sentExpiresAt: expiresAt,
      bornAt: this.now,
      lastSeenAt: this.now,
      processedAt: null,
    };
    this.messages.push(message);
    this.putInPartitionQueue(message);
  }

  /** Puts the message at the end of its partition queue, or leaves it at its position. */
  private putInPartitionQueue(message: ModelMessage): void {
    if (message.partitionKey === null) return;
    const partitionQueue = this.partitionQueues.get(message.partitionKey) ?? [];
    this.partitionQueues.set(message.partitionKey, partitionQueue);
    if (!partitionQueue.includes(message)) partitionQueue.push(message);
    if (partitionQueue[0] !== message) message.status = "blocked";
  }

  /** Done or dead: the next message of its key becomes the head, unless dead messages block. */
  private finish(message: ModelMessage, status: "done" | "dead"): void {
    message.status = status;
    if (status === "done") message.processedAt = this.now;
    this.unlock(message);
    const partitionQueue =
      message.partitionKey === null ? undefined : this.partitionQueues.get(message.partitionKey);
    if (!partitionQueue?.includes(message) || (status === "dead" && this.deadInPartition === "block")) return;
    partitionQueue.splice(partitionQueue.indexOf(message), 1);
    if (partitionQueue[0]?.status === "blocked") partitionQueue[0].status = "ready";
  }

  /** The keys that this claim must return, in order. */
  claim(owner: string, leaseMs: number, batchSize: number): string[] {
    for (;;) {
      if (this.paused.has("all")) return [];
      const picked = this.pick(batchSize);
      for (const message of picked) this.lease(message, owner, leaseMs);
      const claimed = picked.filter((message) => message.status === "held").sort((a, b) => a.seq - b.seq);
      // all of them died: the store claims again
      if (claimed.length > 0 || picked.length === 0) return claimed.map((message) => message.key);
    }
  }

  pause(target: string): void {
    this.paused.add(target);
  }

  resume(target: string): boolean {
    return this.paused.delete(target);
  }

  /** In the order in which the messages became due. One that comes back from a worker keeps its place. */
  private pick(batchSize: number): readonly ModelMessage[] {
    const candidates = this.messages
      .filter(
        ({ status, visibleAt, topic }) =>
          (status === "ready" || status === "held") && visibleAt <= this.now && !this.paused.has(topic),
      )
      .sort((a, b) => a.dueSince - b.dueSince || a.seq - b.seq)
      .slice(0, batchSize);
    const crashedTwice = candidates.find(
      ({ crashes, lockedUntil }) => crashes + (lockedUntil === null ? 0 : 1) >= 2,
    );
    return crashedTwice ? [crashedTwice] : candidates;
  }

  private lease(message: ModelMessage, owner: string, leaseMs: number): void {
    const lost = message.lockedUntil !== null;
    const dies = this.isExpired(message) || (lost && message.attempt + 1 >= policy.maxAttempts);
    if (lost) {
      message.attempt++;
      message.crashes++;
    }
    message.claimableSince = message.visibleAt;
    message.visibleAt = this.now + leaseMs + this.backoff(message.attempt + 1);
    if (dies) {
      this.finish(message, "dead");
      return;
    }
    message.status = "held";
    message.owner = owner;
    message.lockedUntil = this.now + leaseMs;
  }

  /** The messages among the keys that the owner holds. */
  private held(owner: string, keys: readonly string[]): ModelMessage[] {
    return this.messages.filter((m) => m.status === "held" && m.owner === owner && keys.includes(m.key));
  }

  private unlock(message: ModelMessage): void {
    message.owner = null;
    message.lockedUntil = null;
  }

  ack(owner: string, keys: readonly string[]): string[] {
    return this.held(owner, keys).map((message) => {
      this.finish(message, "done");
      return message.key;
    });
  }

  abandon(owner: string, keys: readonly string[]): string[] {
    return this.held(owner, keys).map((message) => {
      message.attempt++;
      message.crashes = 0;
      message.visibleAt = message.dueSince = this.now + this.backoff(message.attempt);
      this.unlock(message);
      message.status = "ready";
      if (message.attempt >= policy.maxAttempts) this.finish(message, "dead");
      return message.key;
    });
  }

  fail(owner: string, keys: readonly string[]): string[] {
    return this.held(owner, keys).map((message) => {
      message.attempt++;
      this.finish(message, "dead");
      return message.key;
    });
  }

  release(owner: string, keys: readonly string[]): string[] {
    return this.held(owner, keys).map((message) => {
      message.visibleAt = message.claimableSince;
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
        ["ready", "held", "blocked"].includes(message.status) &&
        message.lockedUntil === null &&
        this.isExpired(message);
      if (!lost && !stale) continue;
      const expired = this.isExpired(message);
      const dies = expired || message.attempt + 1 >= policy.maxAttempts;
      if (lost) {
        message.attempt++;
        message.crashes++;
      }
      if (lost && !expired) reaped++;
      message.status = "held";
      this.unlock(message);
      if (!dies) continue;
      dead++;
      this.finish(message, "dead");
    }
    return { reaped, dead };
  }

  replay(keys: readonly string[]): string[] {
    const dead = this.messages.filter((message) => message.status === "dead" && keys.includes(message.key));
    for (const message of dead) {
      message.status = "ready";
      message.attempt = 0;
      message.crashes = 0;
      message.visibleAt = message.dueSince = this.now;
      message.expiresAt = null;
      this.putInPartitionQueue(message);
    }
    return dead.map((message) => message.key);
  }

  /** By hand, past any lease. Whether it changed anything: a message that is done stays done. */
  mark(key: string, status: "done" | "dead"): boolean {
    const message = this.messages.find((one) => one.key === key)!;
    message.lastSeenAt = this.now;
    if (message.status === "done") return false;
    this.finish(message, status);
    return true;
  }

  /** Another delivery: one that waits takes its times, all others stay as they are. */
  redeliver(key: string, dueAt: number | null, expiresAt: number | null): "done" | "dead" | "duplicate" {
    const message = this.messages.find((one) => one.key === key)!;
    message.lastSeenAt = this.now;
    if (message.status === "done") return "done";
    const expires = message.sentExpiresAt !== expiresAt;
    const isNew = message.sentDueAt !== dueAt || expires;
    message.sentDueAt = dueAt;
    message.sentExpiresAt = expiresAt;
    if (message.status === "dead") return "dead";
    if (expires) message.expiresAt = expiresAt;
    if (isNew && message.lockedUntil === null) {
      for (const time of ["visibleAt", "dueSince"] as const)
        message[time] =
          message.attempt === 0 ? (dueAt ?? message.bornAt) : Math.max(message[time], dueAt ?? 0);
    }
    return "duplicate";
  }

  /** How many were done, and not seen since, for so long. */
  purge(retentionMs: number): number {
    const before = this.now - retentionMs;
    const kept = this.messages.filter(
      ({ status, processedAt, lastSeenAt }) =>
        status !== "done" || processedAt! >= before || lastSeenAt >= before,
    );
    const purged = this.messages.length - kept.length;
    this.messages = kept;
    return purged;
  }

  private isExpired = (message: ModelMessage): boolean =>
    message.expiresAt !== null && message.expiresAt <= this.now;
  private backoff = (attempt: number): number => backoffMs(policy, attempt, () => 0);
}
